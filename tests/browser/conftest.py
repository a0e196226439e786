"""Chromium, and workbenches for it to look at."""

import os
import shutil
import sys
from pathlib import Path

import pytest

for _folder in (Path(__file__).parent, Path(__file__).parents[1]):
    sys.path.insert(0, str(_folder))

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
    from serving import Served

    from unpermute.files import read_table
    from unpermute.web._scan import DEFAULTS, Scan
    from unpermute.web._workbench import Workbench

    path = tmp_path / "patients.csv"
    path.write_bytes(patients_csv)
    bench = Workbench(read_table, tmp_path)
    bench.open_now(str(path))
    bench.review.take(Scan(found, options=DEFAULTS | {"id": "patient"}))
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
