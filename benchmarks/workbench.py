"""How fast the workbench is with a large table: opening, the list, a record, a decision.

    python benchmarks/workbench.py [--records 1000000] [--browser]

Prints seconds on this machine. Times of pages are those of the server, asked over HTTP as a browser
does; ``--browser`` also measures, in Chromium, the first paint of the list and decisions by key.
"""

import argparse
import contextlib
import socket
import statistics
import tempfile
import threading
import time
from pathlib import Path

import httpx
import numpy as np
import polars as pl

from unpermute.files import read_table
from unpermute.web._serve import server_of
from unpermute.web._workbench import Workbench

_SWAPS = [
    ("height", "weight"),
    ("systolic", "diastolic"),
    ("age", "systolic"),
    ("admitted", "city"),
]


def write_table(path, n, seed=1):
    """Write a table of patients, 2% of whom have two values exchanged."""
    rng = np.random.default_rng(seed)
    height, age = rng.normal(172, 9, n), rng.integers(18, 90, n)
    systolic = 110 + 0.4 * age + rng.normal(0, 8, n)
    numbers = {
        "age": age,
        "height": height.round(1),
        "weight": (0.9 * (height - 100) + rng.normal(0, 7, n)).round(1),
        "systolic": systolic.round().astype(int),
        "diastolic": (0.62 * systolic + rng.normal(0, 4, n)).round().astype(int),
        "cost": rng.lognormal(4, 0.5, n).round(2),
        "admitted": np.datetime64("2015-01-01") + rng.integers(0, 3000, n),
        "city": rng.choice(["Berlin", "Hamburg", "Leipzig", "Bremen"], n),
    }
    columns = {name: values.astype(str).astype(object) for name, values in numbers.items()}
    damaged = rng.choice(n, n // 50, replace=False)
    for k, (a, b) in enumerate(_SWAPS):
        rows = damaged[k :: len(_SWAPS)]
        columns[a][rows], columns[b][rows] = columns[b][rows], columns[a][rows].copy()
    ids = {"patient": [f"P{i}" for i in range(n)]}
    pl.DataFrame(ids | {name: each.tolist() for name, each in columns.items()}).write_csv(path)


@contextlib.contextmanager
def serving(bench):
    """Serve a workbench in a thread; gives the address."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    port = listener.getsockname()[1]
    server = server_of(bench, port=port, token="t")
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


def seconds(work, times=1):
    """Return the first and the median time of a call."""
    took = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        took.append(time.perf_counter() - start)
    return took[0], statistics.median(took)


# Press a, wait until the record has left the list of those that are not decided, and until that is
# painted; gives seconds. A key does nothing else than to press the button of the selected record.
_DECIDE = """async () => {
    const press = (key) => document.body.dispatchEvent(
        new KeyboardEvent("keydown", { key, bubbles: true }));
    const took = [];
    press("j");
    for (let k = 0; k < 21; k++) {
        const row = document.querySelector("tr.selected").dataset.row;
        const start = performance.now();
        press("a");
        while (document.querySelector(`tr[data-row="${row}"]`))
            await new Promise((done) => setTimeout(done));
        await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
        took.push((performance.now() - start) / 1000);
        await new Promise((done) => setTimeout(done, 500));
    }
    return took;
}"""


def in_chromium(base):
    """Yield what a person waits for: the first paint of the list, and decisions by key."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        page = browser.new_page()
        page.goto(f"{base}/?token=t")
        page.goto(f"{base}/records?state=open")
        painted = "performance.getEntriesByName('first-contentful-paint')"
        page.wait_for_function(f"{painted}.length > 0", polling=50)
        paint = page.evaluate(f"{painted}[0].startTime / 1000")
        yield "list, first paint in Chromium", (paint, paint)
        took = page.evaluate(_DECIDE)
        yield "decide by key until painted", (took[0], statistics.median(took))
        browser.close()


def measure(path, in_browser):
    bench = Workbench(read_table, path.parent)
    yield "open the table", seconds(lambda: bench.open_now(str(path)))
    review = bench.review
    review.choose({"id": "patient"})
    results = []
    yield "scan", seconds(lambda: results.append(review.scan()))
    yield "take the result", seconds(lambda: review.take(results[0]))
    with serving(bench) as base:
        client = httpx.Client(base_url=base, headers={"origin": base}, timeout=600)
        if in_browser:
            yield from in_chromium(base)
        client.get("/", params={"token": "t"}, follow_redirects=False)

        def get(address):
            assert client.get(address).status_code == 200

        yield "list", seconds(lambda: get("/records?state=open"), 7)
        query = (
            "/records?state=open&cause=two+fields+swapped&column=height&low=0.9&sort=unsure&page=9"
        )
        yield "list, filtered and sorted", seconds(lambda: get(query), 7)
        rows = iter(review.records.rows[:: max(1, len(review.records) // 60)].tolist())
        yield "one record", seconds(lambda: get(f"/records/{next(rows)}?state=open"), 7)

        def decide():
            answer = {"row": str(next(rows)), "answer": "accept", "seen": "0"}
            response = client.post("/records?state=open", data=answer)
            assert response.status_code == 200

        yield "decide, and show the list again", seconds(decide, 15)
        yield "preview of all", seconds(lambda: get("/bulk?state=open"))
        n = review.counts().open
        everything = {"all": str(n), "answer": "accept"}
        yield (
            f"accept all {n:,}",
            seconds(lambda: client.post("/records?state=open", data=everything)),
        )
        last = {"entry": str(len(review.journal.entries)), "do": "undo"}
        yield "undo that", seconds(lambda: client.post("/history", data=last))
        yield "repaired table", seconds(lambda: get("/results/table"))
    bench.close()
    again = Workbench(read_table, path.parent)
    yield "restart, until the list can be shown", seconds(lambda: again.open_now(str(path)))
    assert again.review.is_scanned
    again.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--browser", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "patients.csv")
        write_table(path, options.records)
        print(f"{options.records:,} records of 9 columns, {path.stat().st_size / 1e6:.0f} MB")
        print(f"{'':36} {'first':>8} {'median':>8}")
        for name, (first, median) in measure(path, options.browser):
            print(f"{name:36} {first:8.3f} {median:8.3f}", flush=True)


if __name__ == "__main__":
    main()
