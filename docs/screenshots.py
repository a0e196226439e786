"""Draw the pictures of the workbench and of the report again (needs Chromium).

python docs/screenshots.py
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

_DOCS = Path(__file__).parent
for _folder in ("tests", "tests/browser"):
    sys.path.insert(0, str(_DOCS.parent / _folder))

from serving import Served

from reviewed_tables import as_ragged_csv, patients
from unpermute.files import read_table
from unpermute.web._workbench import Workbench

# A line with a delimiter too many, one that lost a field, and one that cannot be repaired.
_JOINED, _LOST, _HOPELESS = 60, 200, 3900
_LIST = "/records?sort=line"


def main():
    """Scan a table, decide about some records, and look at four pages; and at the demo's report."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        bench = _scanned(Path(folder) / "patients.csv")
        served = Served(bench)
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page()
        page.goto(served.address)
        bench.review.note(_decided(bench.review)[2], "checked on paper")
        record = _of_three_cells(bench.review)
        _shoot(page, f"{served.base}{_LIST}", "workbench-list", (1280, 760), "dark", keys="jjjjj")
        _shoot(page, f"{served.base}/questions", "workbench-question", (1280, 820))
        _shoot(page, f"{served.base}/records/{record}?sort=line", "workbench-record", (1280, 1150))
        _shoot(page, f"{served.base}/records/{_JOINED}?sort=line", "workbench-phone", (400, 1120))
        subprocess.run(
            [sys.executable, "-m", "unpermute", "demo"], cwd=folder, check=True, capture_output=True
        )
        _shoot(page, (Path(folder) / "demo-report.html").as_uri(), "report", (1120, 1140))
        browser.close()
        served.stop()


def _scanned(path):
    records = patients(4000, n_damaged=70, exchanged=range(1000, 3000))[1]
    path.write_bytes(as_ragged_csv(records, [_JOINED, _LOST, _HOPELESS]))
    bench = Workbench(read_table, path.parent)
    bench.open_now(str(path))
    bench.review.choose({"id": "patient"})
    bench.scan()
    bench.job.wait()
    bench.settle()
    return bench


def _decided(review):
    """Decide about the first regular records, one in each way."""
    rows = [row for row in review.records.rows.tolist() if row not in (_JOINED, _LOST, _HOPELESS)]
    for row, answer in zip(rows, ("accept", "reject", "owner"), strict=False):
        review.decide([row], answer)
    return rows[:3]


def _of_three_cells(review):
    """An open record in which three cells move."""
    records, answer = review.records, review.standing.answer
    rows = zip(records.rows.tolist(), records.order.tolist(), strict=True)
    return next(
        row
        for row, order in rows
        if not answer[row] and review.orders.edit(order) is None
        and len(review.orders.known[order]) == 3
    )  # fmt: skip


def _shoot(page, address, name, size, scheme="light", keys=""):
    page.set_viewport_size(dict(zip(("width", "height"), size, strict=True)))
    page.emulate_media(color_scheme=scheme)
    page.goto(address)
    for key in keys:
        page.keyboard.press(key)
    page.wait_for_timeout(500)
    path = _DOCS / "images" / f"{name}.png"
    page.screenshot(path=path)
    # A palette makes the file a third as large, and nobody sees the difference.
    Image.open(path).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(
        path, optimize=True
    )


if __name__ == "__main__":
    main()
