"""A scan that is kept beside the table: a restart continues at once, and nothing else counts."""

import io
import json
import threading
import time
import zipfile
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from browsing import browser_of
from reviewed_tables import as_csv, as_ragged_csv, patients
from unpermute._progress import report
from unpermute.files import CsvStyle, read_table
from unpermute.web import _scan
from unpermute.web._scan import scan_path
from unpermute.web._workbench import Workbench

CONTENT = as_ragged_csv(patients(400, n_damaged=12, exchanged=range(100, 150))[1], [20, 50, 80])


@pytest.fixture(scope="module")
def scanned(tmp_path_factory):
    """A table with its journal and its scan, and what pages and results show."""
    path = tmp_path_factory.mktemp("scanned") / "patients.csv"
    path.write_bytes(CONTENT)
    bench = Workbench(read_table, path.parent)
    bench.open_now(str(path))
    bench.review.choose({"id": "patient", "kinds": {"cost": "number"}})
    bench.scan()
    bench.job.wait()
    bench.settle()
    assert not bench.problem
    shown = looked_at(bench)
    bench.close()
    return {each.name: each.read_bytes() for each in path.parent.iterdir()}, shown


@pytest.fixture
def table(scanned, tmp_path):
    for name, content in scanned[0].items():
        (tmp_path / name).write_bytes(content)
    return tmp_path / "patients.csv"


def looked_at(bench):
    """What a person sees, but for the time that passed."""
    browser = browser_of(bench)
    row = int(bench.review.records.rows[0])
    pages = ("/summary", "/questions", "/records", f"/records/{row}", "/records/20", "/bulk",
             "/results/table", "/results/changes", "/results/report")  # fmt: skip
    return [browser.get(page).text for page in pages]


def reopened(table, open_table=read_table):
    bench = Workbench(open_table, table.parent)
    bench.open_now(str(table))
    return bench


@pytest.fixture
def no_scan(monkeypatch):
    """Fails the test if a table is scanned."""

    def refuse(*_args, **_options):
        raise AssertionError("scanned again")

    monkeypatch.setattr(_scan, "scan", refuse)


@pytest.fixture
def slow_scan(monkeypatch):
    """Scans that report progress until they are told to find what the table's scan found."""
    begun, found = threading.Semaphore(0), {}

    def work(source, options, n_jobs=None):
        begun.release()
        while options["min_confidence"] not in found:
            report("search records", 0, 1)
            time.sleep(0.001)
        return found[options["min_confidence"]]

    monkeypatch.setattr("unpermute.web._review.scan_table", work)
    return begun, found


def test_a_restart_shows_the_same_without_a_scan(table, scanned, no_scan):
    bench = reopened(table)
    assert bench.job is None
    assert bench.where == "/summary"
    assert looked_at(bench) == scanned[1]
    bench.close()


def _truncated(path):
    path.write_bytes(path.read_bytes()[:-400])


def _damaged(path):
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    path.write_bytes(raw)


def _rewritten(change):
    def rewrite(path):
        with zipfile.ZipFile(path) as file:
            parts = {name: file.read(name) for name in file.namelist()}
        change(parts)
        with zipfile.ZipFile(path, "w") as file:
            for name, part in parts.items():
                file.writestr(name, part)

    return rewrite


def _other_key(parts):
    told = json.loads(parts["scan.json"])
    told["key"]["table"] = "0" * 64
    parts["scan.json"] = json.dumps(told).encode()


def _other_version(parts):
    told = json.loads(parts["scan.json"])
    told["key"]["unpermute"] = "0.0.1"
    parts["scan.json"] = json.dumps(told).encode()


def _outside(parts):
    cells = pl.read_parquet(io.BytesIO(parts["cells.parquet"]))
    sink = io.BytesIO()
    cells.with_columns(rows=pl.lit(10**6, pl.Int64)).write_parquet(sink)
    parts["cells.parquet"] = sink.getvalue()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"\x80\x04\x95 a pickle"),
        _truncated,
        _damaged,
        _rewritten(lambda parts: parts.pop("cells.parquet")),
        _rewritten(lambda parts: parts.update({"scan.json": b"[]"})),
        _rewritten(_other_key),
        _rewritten(_other_version),
        _rewritten(_outside),
    ],
)
def test_anything_else_is_scanned_again(table, monkeypatch, spoil):
    spoil(scan_path(str(table)))
    calls = []
    monkeypatch.setattr(Workbench, "scan", lambda self: calls.append(self.review.is_scanned))
    bench = reopened(table)
    assert calls == [False]
    bench.close()


def test_other_options_of_reading_are_noticed(table, monkeypatch):
    calls = []
    monkeypatch.setattr(Workbench, "scan", lambda self: calls.append(1))
    style = CsvStyle(na=("", "Berlin"))
    bench = reopened(table, lambda path: read_table(path, style=style))
    assert calls == [1]
    bench.close()


def _other_options(parts):
    told = json.loads(parts["scan.json"])
    told["key"]["options"] |= {"id": None, "min_confidence": 0.8}
    parts["scan.json"] = json.dumps(told).encode()


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_rewritten(_other_options), "made with other options (id, min_confidence)"),
        (_rewritten(_other_key), "of another table, or of this one read with other options"),
        (_rewritten(_other_version), "made by another version"),
        (_damaged, "cannot be read"),
        (lambda path: path.unlink(), "was not kept"),
    ],
)
def test_pages_say_why_a_table_is_scanned_again(table, slow_scan, spoil, why):
    begun, found = slow_scan
    bench = reopened(table)
    kept = bench.review._scan
    bench.close()
    spoil(scan_path(str(table)))
    bench = reopened(table)
    assert begun.acquire(timeout=10)
    browser = browser_of(bench)
    assert why in browser.get("/progress").text
    found[0.95] = kept
    bench.job.wait(10)
    assert why in browser.get("/summary").text
    bench.scan()
    bench.job.wait(10)
    assert why not in browser.get("/summary").text
    bench.close()


def test_a_scan_is_shown_and_written_down_with_its_own_options(table, slow_scan):
    begun, found = slow_scan
    bench = reopened(table)
    browser, review = browser_of(bench), bench.review
    n_entries = len(review.journal.entries)
    browser.post("/columns", data={"id": "name", "min_confidence": "0.8"})
    assert begun.acquire(timeout=10)
    browser.post("/progress")  # cancelled: the pages go on to show the scan before
    assert review.options["id"] == "patient"
    assert ">patient</th>" in browser.get("/records").text
    assert 'value="name" selected' in browser.get("/columns").text  # for the next scan
    bench.scan()
    assert begun.acquire(timeout=10)
    review.choose({"id": "city", "min_confidence": 0.7})  # after the scan has begun
    found[0.8] = replace(review._scan, options=review.options | {"id": "name"})
    bench.job.wait(10)
    browser.get("/summary")
    assert [entry["options"]["id"] for entry in review.journal.entries[n_entries:]] == ["name"]
    assert review.options["id"] == "name"
    bench.close()


def test_a_folder_that_cannot_be_written_does_no_harm(table, monkeypatch):
    def fail(*_args, **_options):
        raise OSError(28, "no space left")

    bench = reopened(table)
    monkeypatch.setattr(_scan.OutputFiles, "write", fail)
    scan_path(str(table)).unlink()
    assert len(bench.review.scan().result.moves)
    assert not scan_path(str(table)).exists()
    bench.close()


def test_what_a_file_cannot_hold_is_not_kept(table):
    bench = reopened(table)
    review, found = bench.review, bench.review.scan()
    found.result.moves.evidence[0] = "\udc80"
    path = scan_path(str(table))
    path.unlink()
    _scan.keep_scan(path, found, review.source, review.journal.sha256)
    assert not path.exists()
    bench.close()


def test_a_table_in_which_nothing_is_found_is_kept_too(tmp_path):
    path = tmp_path / "whole.csv"
    path.write_bytes(as_csv(patients(200, n_damaged=0)[0]))
    bench = reopened(path)
    bench.review.take(bench.review.scan())
    n = len(bench.review.records)
    bench.close()
    again = reopened(path)
    assert again.review.is_scanned
    assert len(again.review.records) == n
    again.close()


def test_shuffled_columns_are_found_if_wanted(tmp_path):
    rng = np.random.default_rng(0)
    net = rng.lognormal(4, 1, 600).round(2)
    tax = (net * rng.choice([0.07, 0.19], 600)).round(2)
    frame = pl.DataFrame({"net": net, "tax": tax, "gross": (net + tax).round(2),
                          "weight": rng.gamma(2, 3, 600).round(1)})  # fmt: skip
    rows, values = rng.choice(600, 180, replace=False), frame["tax"].to_numpy().copy()
    values[rows] = values[rng.permutation(rows)]
    path = tmp_path / "bills.csv"
    frame.with_columns(tax=values).write_csv(path)
    bench = reopened(path)
    browser = browser_of(bench)
    browser.post("/columns", data={"shuffled_columns": "on"})
    bench.job.wait()
    page = browser.get("/questions").text
    assert "Columns whose rows seem to be shuffled" in page
    assert "<h3>tax</h3>" in page
    assert "unpermute repair bills.csv --vectors columns" in page
    [found] = bench.review.shuffled_columns["found"]
    assert found["moved"] > 150
    example = found["examples"][0]
    assert example["then"] == path.read_text().splitlines()[example["from"] - 1].split(",")[1]
    bench.close()
    again = reopened(path)
    assert again.review.shuffled_columns["found"] == [found]
    again.close()


def test_a_second_scan_cancels_the_first(table, slow_scan):
    bench, (begun, found) = reopened(table), slow_scan
    browser, kept = browser_of(bench), scan_path(str(table)).read_bytes()
    browser.post("/columns", data={"min_confidence": "0.8"})
    first = bench.job
    assert begun.acquire(timeout=10)
    browser.post("/columns", data={"min_confidence": "0.9"})
    assert bench.job is not first
    first.wait(10)
    assert first.cancelled
    assert scan_path(str(table)).read_bytes() == kept
    found[0.9] = bench.review._scan
    bench.job.wait(10)
    assert browser.get("/summary").status_code == 200
    assert bench.problem == ""
    bench.close()


def test_a_scan_that_is_cancelled_at_its_end_is_not_kept(table, monkeypatch):
    bench, begun, cancelled = reopened(table), threading.Event(), threading.Event()
    found, kept = bench.review._scan, scan_path(str(table)).read_bytes()

    def work(*_args):
        begun.set()
        cancelled.wait(10)
        return found

    monkeypatch.setattr("unpermute.web._review.scan_table", work)
    bench.review.choose({"min_confidence": 0.8})
    bench.scan()
    job = bench.job
    assert begun.wait(10)
    bench.cancel()
    cancelled.set()
    job.wait(10)
    assert scan_path(str(table)).read_bytes() == kept
    bench.close()
