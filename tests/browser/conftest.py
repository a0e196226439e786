"""Chromium, and workbenches for it to look at."""

import os
import shutil
import sys
import threading
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

_CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")


@pytest.fixture(scope="session")
def chromium():
    """A browser; skips where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if _CHROMIUM is None:
        pytest.skip("there is no chromium on this machine")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def context(chromium):
    """A window of its own, in which scripts that fail make the test fail."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    context.set_default_timeout(20_000)
    problems = []
    context.on("weberror", lambda error: problems.append(str(error.error)))
    context.on(
        "console",
        lambda line: problems.append(line.text) if "Security Policy" in line.text else None,
    )
    yield context
    context.close()
    assert not problems


class Served:
    """A workbench that runs in a thread of the test."""

    def __init__(self, bench):
        import socket

        from unpermute.web._serve import server_of

        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        self.bench, self.base = bench, f"http://127.0.0.1:{port}"
        self.address = f"{self.base}/?token=t"
        self._server = server_of(bench, port=port, token="t")
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listener]}, daemon=True
        )
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)

    def stop(self):
        self._server.should_exit = True
        self._thread.join(10)
        self.bench.close()


@pytest.fixture(scope="session")
def patients_csv():
    """A table of 2,000 mixed records."""
    from reviewed_tables import as_csv, patients

    return as_csv(patients(2000, n_damaged=80)[1])


@pytest.fixture(scope="session")
def found(patients_csv, tmp_path_factory):
    """What a scan finds in it."""
    from unpermute.files import read_table
    from unpermute.table import scan

    path = tmp_path_factory.mktemp("found") / "patients.csv"
    path.write_bytes(patients_csv)
    return scan(read_table(str(path)).frame, id="patient")


@pytest.fixture
def served(patients_csv, found, tmp_path):
    """A workbench in which the table has been scanned."""
    from unpermute.files import read_table
    from unpermute.web._workbench import Workbench

    path = tmp_path / "patients.csv"
    path.write_bytes(patients_csv)
    bench = Workbench(read_table, tmp_path)
    bench.open_now(str(path))
    bench.review.choose({"id": "patient"})
    bench.review.take(found)
    served = Served(bench)
    yield served
    served.stop()


@pytest.fixture
def page(served, context):
    """A tab that shows the list of records."""
    page = context.new_page()
    page.goto(served.address)
    page.goto(f"{served.base}/records?state=open&sort=line")
    return page
