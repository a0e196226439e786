"""The workbench as a browser meets it, without one: every page, every decision, every refusal."""

import asyncio
import csv
import gzip
import io
import json
import logging
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from browsing import PORT, TOKEN, browser_of, decide
from reviewed_tables import NAMES, as_csv, patients
from unpermute.files import plan_moves, read_table, repaired_as
from unpermute.table import scan
from unpermute.web._app import Pages
from unpermute.web._journal import journal_path
from unpermute.web._review import open_review
from unpermute.web._scan import DEFAULTS, Scan
from unpermute.web._workbench import Workbench

WHOLE, DAMAGED = patients()


@pytest.fixture(scope="module")
def found():
    """What a scan finds in the table: once, because it is the slow part."""
    return scan(read_table_of(as_csv(DAMAGED)).frame, id="patient")


def read_table_of(content):
    """A table that is opened from bytes."""
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".csv") as file:
        file.write(content)
        file.flush()
        table = read_table(file.name)
        table.frame  # noqa: B018  read before the file goes
        return table


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "patients.csv"
    path.write_bytes(as_csv(DAMAGED))
    return path


@pytest.fixture
def bench(table, found):
    """A workbench in which the table has been scanned."""
    bench = Workbench(read_table, table.parent)
    bench.open_now(str(table))
    bench.review.take(Scan(found, options=DEFAULTS | {"id": "patient"}))
    yield bench
    bench.close()


@pytest.fixture
def browser(bench):
    return browser_of(bench)


@pytest.fixture
def review(bench):
    return bench.review


def write_as(path, content):
    """Write a CSV in another format, by the extension; Parquet with numbers for numbers."""
    frame = pl.read_csv(content, infer_schema_length=0)
    if path.suffix == ".parquet":
        frame.with_columns(pl.col("height", "weight").cast(pl.Float64, strict=False)).write_parquet(
            path
        )
    elif path.suffix == ".xlsx":
        frame.write_excel(path)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(content))
    else:
        frame.write_ndjson(path)


def open_records(review):
    """Rows that are still to be decided, after a restart."""
    review._list_decided()
    rows = review.records.rows
    return rows[review.standing.answer[rows] == 0].tolist()


class TestGuard:
    @pytest.mark.parametrize("path", ["/", "/records", "/events", "/static/htmx.min.js", "/x"])
    def test_nothing_without_token(self, bench, path):
        response = browser_of(bench, welcome=False).get(path)
        assert response.status_code == 403
        assert '<html lang="en">' in response.text
        assert "patients" not in response.text

    def test_a_wrong_token_is_refused(self, bench):
        stranger = browser_of(bench, welcome=False)
        assert stranger.get("/?token=wrong").status_code == 403
        assert stranger.get("/?token=%C3%A4").status_code == 403
        assert not stranger.cookies

    def test_the_token_becomes_a_cookie(self, bench):
        stranger = browser_of(bench, welcome=False)
        response = stranger.get(f"/?token={TOKEN}", follow_redirects=False)
        assert response.status_code == 303
        assert response.headers["location"] == "/"
        cookie = response.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert TOKEN not in cookie

    @pytest.mark.parametrize("host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1:80", ""])
    def test_another_host_is_refused(self, browser, host):
        response = browser.get("/records", headers={"host": host})
        assert response.status_code == 421
        assert "patients" not in response.text

    @pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", ""])
    def test_another_origin_cannot_decide(self, browser, review, origin):
        row = int(review.records.rows[0])
        response = browser.post(
            f"/records/{row}", data={"answer": "accept"}, headers={"origin": origin}
        )
        assert response.status_code == 403
        assert review.counts().accept == 0

    def test_another_site_cannot_look(self, browser):
        response = browser.get("/records", headers={"sec-fetch-site": "cross-site"})
        assert response.status_code == 403

    def test_every_answer_has_strict_headers(self, browser):
        for path in ("/records", "/static/workbench.js", "/nowhere", "/results/changes"):
            headers = browser.get(path).headers
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            if not path.startswith("/static"):
                assert headers["cache-control"] == "no-store"

    @pytest.mark.parametrize(
        "path", ["/static/../_guard.py", "/static/%2e%2e/_guard.py", "/results/..%2f..%2fsecret"]
    )
    def test_nothing_outside_is_served(self, browser, path):
        response = browser.get(path)
        assert response.status_code == 404
        assert "hmac" not in response.text

    def test_errors_do_not_tell_what_the_table_holds(self, browser, bench, caplog, monkeypatch):
        def fail(*_):
            raise RuntimeError("secret cell")

        monkeypatch.setattr(bench.review, "counts", fail)
        with caplog.at_level(logging.DEBUG):
            response = browser.get("/records")
        assert response.status_code == 500
        assert "secret" not in response.text
        assert "secret" not in caplog.text
        assert "RuntimeError at" in caplog.text

    def test_nothing_is_loaded_from_elsewhere(self, browser, review):
        row = int(review.records.rows[0])
        for path in ("/summary", "/records", f"/records/{row}", "/history", "/results", "/columns"):
            page = browser.get(path).text
            assert not re.search(r'(?:src|href|action)="(?:https?:)?//', page)
            assert not re.search(r'\sstyle="', page)
            assert not re.search(r"\son\w+=", page)


class TestPages:
    def test_start_goes_where_the_work_is(self, browser):
        assert browser.get("/").url.path == "/summary"

    def test_every_page_is_there(self, browser, review):
        row = int(review.records.rows[0])
        paths = ["/open", "/columns", "/summary", "/questions", "/records", f"/records/{row}",
                 f"/records/{row}?whole=1", "/bulk", "/history", "/results"]  # fmt: skip
        for path in paths:
            response = browser.get(path)
            assert response.status_code == 200, path
            assert "<h1>" in response.text

    @pytest.mark.parametrize(
        ("path", "status"),
        [("/nowhere", 404), ("/records/0x", 404), ("/records/399999", 409),
         ("/records?sort=up", 409), ("/results/nothing", 404), ("/history?page=x", 409)],
    )  # fmt: skip
    def test_what_is_not_there_is_said(self, browser, path, status):
        response = browser.get(path)
        assert response.status_code == status
        title = "Page not found" if status == 404 else "This was not done"
        assert title in response.text

    def test_only_the_page_shown_is_sent(self, browser, review):
        page = browser.get("/records").text
        assert page.count("<tr data-row=") == min(50, len(review.records))

    def test_the_list_follows_the_filter(self, browser):
        page = browser.get("/records?cause=fields+permuted").text
        assert "fields permuted" in page
        shown = re.findall(r'<td class="cause">([^<]*)', page)
        assert shown
        assert set(shown) == {"fields permuted"}

    def test_a_record_shows_evidence_and_neighbours(self, browser, review):
        row = int(review.records.rows[3])
        page = browser.get(f"/records/{row}").text
        assert page.count('class="dist"') == len(
            review.orders.known[review.records.order[review.records.place(row)]]
        )
        assert 'class="here"' in page
        assert page.count("<tr") >= 5

    def test_columns_are_corrected_and_the_table_scanned_again(self, browser, bench, review):
        response = browser.post(
            "/columns",
            data={"id": "patient", "groups": "name", "kind-2": "text", "min_confidence": "0.9"},
        )
        assert response.url.path in ("/progress", "/summary")
        bench.job and bench.job.wait(300)
        assert browser.get("/summary").status_code == 200
        assert review.options["kinds"] == {"city": "text"}
        assert review.result.summary["settings"]["min_confidence"] == 0.9
        assert review.result.summary["settings"]["groups"] == "name"
        assert [e["do"] for e in review.journal.entries] == ["scan", "scan"]

    @pytest.mark.parametrize(
        ("data", "problem"),
        [({"id": "nobody"}, "no column"), ({"kind-0": "colour"}, "must be one of"),
         ({"min_confidence": "2"}, "between 0 and 1"), ({"min_confidence": "x"}, "a number")],
    )  # fmt: skip
    def test_bad_corrections_are_refused(self, browser, data, problem):
        response = browser.post("/columns", data=data)
        assert response.status_code == 409
        assert problem in response.text

    def test_the_script_and_the_styles_are_there(self, browser):
        names = re.findall(r'(?:src|href)="/static/([^"]*)"', browser.get("/records").text)
        assert len(names) == 4
        for name in names:
            response = browser.get(f"/static/{name}")
            assert len(response.content) > 200
            # Kept by the browser: the address changes with the content.
            assert "immutable" in response.headers["cache-control"]
            assert "?" in name
        licence = Path(sys.modules["unpermute.web"].__file__).parent / "static/htmx-LICENSE.txt"
        assert "Zero-Clause BSD" in licence.read_text()


class TestDeciding:
    def test_accept_reject_owner_undo(self, browser, review):
        rows = review.records.rows[:3].tolist()
        for row, answer in zip(rows, ("accept", "reject", "owner"), strict=True):
            response = decide(browser, row, answer)
            assert response.status_code == 200
        counts = review.counts()
        assert (counts.accept, counts.reject, counts.owner) == (1, 1, 1)
        assert "undone" in decide(browser, rows[0], "undo").text
        assert review.counts().accept == 0
        assert decide(browser, rows[0], "undo").status_code == 409

    def test_undo_brings_back_the_decision_before(self, browser, review):
        row = int(review.records.rows[0])
        decide(browser, row, "accept")
        decide(browser, row, "reject")
        decide(browser, row, "undo")
        assert review.counts().accept == 1

    def test_any_decision_is_undone_in_any_order_and_done_again(self, browser, review):
        rows = review.records.rows[:3].tolist()
        for row in rows:
            decide(browser, row, "accept")
        first = review.journal.entries[-3]["entry"]
        browser.post("/history", data={"entry": first, "do": "undo"})
        assert review.standing.answer[rows].tolist() == [0, 1, 1]
        browser.post("/history", data={"entry": first + 1, "do": "undo"})
        assert review.standing.answer[rows].tolist() == [0, 0, 1]
        browser.post("/history", data={"entry": first, "do": "redo"})
        assert review.standing.answer[rows].tolist() == [1, 0, 1]

    def test_a_decision_about_what_was_not_seen_is_refused(self, browser, bench, review):
        row = int(review.records.rows[0])
        other = browser_of(bench)
        decide(other, row, "reject", seen=0)
        response = decide(browser, row, "accept", seen=0)
        assert response.status_code == 409
        assert "decided elsewhere" in response.text
        assert review.counts().reject == 1

    def test_a_proposal_is_edited(self, browser, review):
        row = int(review.records.rows[0])
        response = decide(browser, row, "accept", order=json.dumps({3: 9, 9: 3}))
        assert "accepted, edited" in response.text
        assert review.orders.names(review.standing.order[row]) == {"age": "cost", "cost": "age"}
        assert str(row) in re.findall(
            r'data-row="(\d+)"', browser.get("/records?state=edited").text
        )

    @pytest.mark.parametrize("order", ['{"3": 4}', '{"3": 99, "99": 3}', "[1]", "x", "{}"])
    def test_an_order_that_loses_a_value_is_refused(self, browser, review, order):
        row = int(review.records.rows[0])
        response = decide(browser, row, "accept", order=order)
        assert response.status_code == 409
        assert review.counts().accept == 0

    def test_notes(self, browser, review):
        row = int(review.records.rows[0])
        page = decide(browser, row, "note", note="<b>asked</b> on paper")
        assert "&lt;b&gt;asked" in page.text
        assert review.standing.notes == {row: "<b>asked</b> on paper"}
        decide(browser, row, "note", note="")
        assert review.standing.notes == {}

    def test_all_of_a_filter_after_a_preview(self, browser, review):
        page = browser.get("/bulk?cause=two+fields+swapped&low=0.95").text
        n = int(re.search(r'name="all" value="(\d+)"', page)[1])
        query = "cause=two+fields+swapped&low=0.95"
        shown = re.findall(r'data-row="(\d+)"', browser.get(f"/records?{query}").text)
        decide(browser, int(shown[0]), "reject")
        refused = browser.post(f"/records?{query}", data={"all": n, "answer": "accept"})
        assert refused.status_code == 409
        assert "look again" in refused.text
        done = browser.post(f"/records?{query}", data={"all": n - 1, "answer": "accept"})
        assert done.status_code == 200
        counts = review.counts()
        assert (counts.accept, counts.reject) == (n - 1, 1)
        assert "probability ≥ 0.95" in review.journal.entries[-1]["why"]

    def test_one_of_many_is_undone_alone_and_the_rest_together(self, browser, review):
        n = len(review.records)
        browser.post("/records?state=open", data={"all": n, "answer": "accept"})
        bulk = len(review.journal.entries)
        decide(browser, int(review.records.rows[1]), "undo")
        assert review.counts().accept == n - 1
        browser.post("/history", data={"entry": bulk, "do": "undo"})
        assert review.counts().open == n

    def test_an_unknown_answer_is_refused(self, browser, review):
        for answer in ("maybe", ""):
            assert decide(browser, int(review.records.rows[0]), answer).status_code == 409

    def test_a_changed_table_is_noticed(self, browser, review, table):
        row = int(review.records.rows[0])
        table.write_bytes(as_csv(WHOLE))
        for response in (decide(browser, row, "accept"), browser.get("/results/table")):
            assert response.status_code == 409
            assert "has changed" in response.text
        assert review.counts().accept == 0

    def test_it_goes_on_after_a_restart(self, browser, bench, review, table, found):
        rows = review.records.rows[:2].tolist()
        decide(browser, rows[0], "accept")
        decide(browser, rows[1], "note", note="later")
        bench.close()
        again = open_review(str(table), read_table)
        assert again.was_scanned
        assert again.options["id"] == "patient"
        again.take(Scan(found, options=again.chosen))
        assert again.counts().accept == 1
        assert again.standing.notes == {rows[1]: "later"}
        again.journal.close()


def _news(bench, n):
    async def some():
        events = []
        async for event in Pages(bench)._news():
            events.append(event)
            if len(events) == n:
                return events

    return asyncio.run(some())


def test_tabs_hear_of_decisions(bench):
    before = _news(bench, 1)
    bench.review.decide(bench.review.records.rows[:1], "accept")
    after = _news(bench, 1)
    assert before != after
    assert after[0].startswith("event: changed\ndata: ")


class TestResults:
    @pytest.fixture
    def decided(self, browser, review):
        rows = review.records.rows.tolist()
        browser.post("/records?state=open", data={"all": len(rows), "answer": "accept"})
        decide(browser, rows[0], "reject")
        decide(browser, rows[1], "accept", order=json.dumps({3: 9, 9: 3}))
        decide(browser, rows[2], "note", note='=1+1, "quoted"')
        return browser

    def test_the_repaired_table_is_what_apply_makes_of_the_list(self, decided, table, tmp_path):
        from typer.testing import CliRunner

        from unpermute.cli._app import app

        changes, output = tmp_path / "changes.csv", tmp_path / "applied.csv"
        changes.write_bytes(decided.get("/results/changes").content)
        run = CliRunner().invoke(app, ["apply", str(table), str(changes), "-o", str(output)])
        assert run.exit_code == 0, run.output
        repaired = decided.get("/results/table").content
        assert output.read_bytes() == repaired
        assert repaired != table.read_bytes()

    @pytest.mark.parametrize("suffix", [".parquet", ".xlsx", ".jsonl", ".csv.gz"])
    def test_so_is_that_of_every_format(self, found, tmp_path, suffix):
        path, output = tmp_path / f"table{suffix}", tmp_path / f"applied{suffix}"
        write_as(path, as_csv(DAMAGED))
        bench = Workbench(read_table, tmp_path)
        bench.open_now(str(path))
        bench.review.take(Scan(found))
        bench.review.decide(bench.review.records.rows[::2], "accept")
        browser, changes = browser_of(bench), tmp_path / "changes.csv"
        changes.write_bytes(browser.get("/results/changes").content)
        plan = plan_moves(read_table(str(path)), read_table(str(changes)))
        pieces = repaired_as(str(output), read_table(str(path)), plan)
        assert browser.get("/results/table").content == b"".join(pieces)
        assert len(plan) > 20
        bench.close()

    def test_accepted_repairs_are_made_and_no_others(self, decided, review):
        repaired = list(csv.reader(io.StringIO(decided.get("/results/table").text)))[1:]
        rows = review.records.rows.tolist()
        assert repaired[rows[0]] == DAMAGED[rows[0]]
        edited = list(DAMAGED[rows[1]])
        edited[3], edited[9] = edited[9], edited[3]
        assert repaired[rows[1]] == edited
        right = sum(repaired[row] == WHOLE[row] for row in rows[2:])
        assert right >= 0.9 * len(rows[2:])
        others = set(range(len(WHOLE))) - set(rows)
        assert all(repaired[row] == DAMAGED[row] for row in others)

    def test_the_report_tells_what_was_decided(self, decided, review):
        response = decided.get("/results/report")
        n = len(review.records)
        assert f"accepted {n - 1:,} and rejected 1" in response.text
        assert "attachment" in response.headers["content-disposition"]

    def test_nothing_decided_changes_nothing(self, browser, table):
        assert browser.get("/results/table").content == table.read_bytes()

    @pytest.mark.parametrize("kind", ["csv", "xlsx"])
    def test_rows_go_to_their_owner_and_come_back(self, browser, review, kind, tmp_path):
        rows = review.records.rows[:3].tolist()
        for row in rows:
            decide(browser, row, "owner")
        decide(browser, rows[0], "note", note="=cmd()")
        content = browser.get(f"/results/owner-{kind}").content
        path = tmp_path / f"rows.{kind}"
        path.write_bytes(content)
        asked = read_table(str(path)).frame
        assert len(asked) == 3
        assert asked["patient"].to_list() == [DAMAGED[row][0] for row in rows]
        answered = asked.to_dict(as_series=False)
        answered["review answer"] = ["yes", "No", ""]
        answered["review remark"] = ["as on paper", "", "on holiday"]
        sink = io.StringIO()
        writer = csv.writer(sink)
        writer.writerows([answered, *zip(*answered.values(), strict=True)])
        page = browser.post("/results?name=back.csv", content=sink.getvalue().encode()).text
        assert "1 accepted, 1 rejected, 1 without an answer, 2 remarks" in page
        assert review.standing.answer[rows].tolist() == [1, 2, 3]
        assert review.standing.notes[rows[0]] == "as on paper"

    def test_formulas_stay_text_in_spreadsheets(self, browser, review):
        row = int(review.records.rows[0])
        decide(browser, row, "owner")
        decide(browser, row, "note", note="=cmd()")
        assert '"\'=cmd()"' in browser.get("/results/owner-csv").text

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            (("review answer", "perhaps"), "must be yes, no or empty"),
            (("review key", "0" * 16), "has changed since it was asked"),
            (("review row", "999999"), "is no record of this review"),
            (("review answer", None), "has no column"),
        ],
    )
    def test_answers_that_cannot_be_meant_are_refused(self, browser, review, change, problem):
        row = int(review.records.rows[0])
        decide(browser, row, "owner")
        header, cells = csv.reader(io.StringIO(browser.get("/results/owner-csv").text))
        name, value = change
        if value is None:
            header[header.index(name)] = "other"
        else:
            cells[header.index(name)] = value
        sink = io.StringIO()
        csv.writer(sink).writerows([header, cells])
        response = browser.post("/results?name=back.csv", content=sink.getvalue().encode())
        assert response.status_code == 409
        assert problem in response.text
        assert review.standing.answer[row] == 3


class TestDropping:
    @pytest.fixture
    def empty(self, tmp_path):
        bench = Workbench(read_table, tmp_path)
        yield bench
        bench.close()

    def test_a_dropped_table_is_kept_beside_its_journal(self, empty, tmp_path):
        browser = browser_of(empty)
        assert browser.get("/").url.path == "/open"
        content = as_csv(DAMAGED[:50])
        assert browser.post("/open?name=new.csv", content=content).status_code == 204
        empty.job and empty.job.wait(60)
        assert browser.get("/").url.path == "/columns"
        assert (tmp_path / "new.csv").read_bytes() == content
        assert journal_path(str(tmp_path / "new.csv")).exists()

    @pytest.mark.parametrize(
        ("name", "content", "problem"),
        [
            ("", b"a,b\n1,2\n", "plain name"),
            (".hidden.csv", b"a,b\n1,2\n", "plain name"),
            ("x" * 300 + ".csv", b"a,b\n1,2\n", "plain name"),
            ("table.exe", b"a,b\n1,2\n", "does not tell the format"),
            ("empty.csv", b"", "is empty"),
            ("taken.csv", b"a,b\n1,2\n", "another file called taken.csv"),
        ],
    )
    def test_bad_files_are_refused(self, empty, tmp_path, name, content, problem):
        (tmp_path / "taken.csv").write_text("mine")
        response = browser_of(empty).post("/open", params={"name": name}, content=content)
        assert response.status_code == 409
        assert problem in response.text
        assert (tmp_path / "taken.csv").read_text() == "mine"

    def test_a_name_with_a_path_stays_in_the_folder(self, empty, tmp_path):
        inside = tmp_path / "inside"
        inside.mkdir()
        empty.folder = inside
        browser_of(empty).post(
            "/open", params={"name": "../../evil.csv"}, content=as_csv(DAMAGED[:30])
        )
        assert (inside / "evil.csv").exists()
        assert not (tmp_path / "evil.csv").exists()

    @pytest.mark.parametrize(
        ("name", "content"),
        [("odd.csv", b"a,a\n1,2\n3,4\n"), ("odd.parquet", b"PAR1nonsense"), ("odd.xlsx", b"PK")],
    )
    def test_what_cannot_be_read_is_said_on_the_page(self, empty, name, content):
        browser = browser_of(empty)
        browser.post("/open", params={"name": name}, content=content)
        empty.job and empty.job.wait(60)
        page = browser.get("/").text
        assert 'role="alert"' in page
        assert name in page


def test_markup_in_a_table_is_text(tmp_path):
    evil = '<script>alert("x")</script>'
    names = [evil, *NAMES[1:-1], '"><img src=x onerror=alert(1)>']
    records = [list(record) for record in DAMAGED]
    for record in records:
        record[1] = f"<b onclick=evil()>{record[1]}</b>"
    path = tmp_path / "<i>table.csv"
    path.write_bytes(as_csv(records, names))
    bench = Workbench(read_table, tmp_path)
    bench.open_now(str(path))
    browser = browser_of(bench)
    pages = [browser.get("/columns").text]
    bench.review.take(Scan(scan(bench.review.source.frame)))
    row = int(bench.review.records.rows[0])
    decide(browser, row, "owner")
    for path in ("/summary", "/records", f"/records/{row}", "/bulk", "/history", "/results/report"):
        pages.append(browser.get(path).text)
    for page in pages:
        assert "<script>alert" not in page
        assert "<img" not in page
        assert "<b onclick" not in page
        assert "<i>table" not in page
    bench.close()


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_report_of_nothing_but_decisions_has_no_probabilities(browser, review):
    order = review.orders.named({"age": "cost", "cost": "age"})
    rows = np.setdiff1d(np.arange(60), review.records.rows)[:3]
    review.decide_groups([("accept", order, rows)])
    response = browser.get("/results/report")
    assert response.status_code == 200
    report = response.text
    assert "nan%" not in report
    assert "unknown sure" not in report


class TestQuestions:
    @pytest.fixture(scope="class")
    def half(self):
        _, damaged = patients(400, n_damaged=6, exchanged=range(100, 290), seed=3)
        content = as_csv(damaged)
        return content, scan(read_table_of(content).frame)

    @pytest.fixture
    def asked(self, half, tmp_path):
        path = tmp_path / "half.csv"
        path.write_bytes(half[0])
        bench = Workbench(read_table, tmp_path)
        bench.open_now(str(path))
        bench.review.take(Scan(half[1]))
        yield bench
        bench.close()

    def test_one_answer_decides_about_many_records(self, asked):
        browser, review = browser_of(asked), asked.review
        page = browser.get("/questions").text
        assert "systolic" in page
        assert page.count('name="reading"') == 2
        before = review.counts()
        browser.post("/questions", data={"question": 0, "reading": 0})
        entry = len(review.journal.entries)
        accepted = set(review.records.rows[review.standing.answer[review.records.rows] == 1])
        assert len(accepted & set(range(100, 290))) > 180
        assert not accepted - set(range(100, 290))
        assert "your answer" in browser.get("/questions").text
        browser.post("/questions", data={"undo": entry})
        assert review.counts() == before

    def test_the_other_answer_exchanges_the_other_records(self, asked):
        browser, review = browser_of(asked), asked.review
        browser.post("/questions", data={"question": 0, "reading": 1})
        accepted = review.records.rows[review.standing.answer[review.records.rows] == 1]
        inside = sum(100 <= row < 290 for row in accepted.tolist())
        assert inside == 0
        assert len(accepted) > 200

    def test_one_record_of_an_answer_is_taken_out_again(self, asked):
        browser, review = browser_of(asked), asked.review
        browser.post("/questions", data={"question": 0, "reading": 0})
        accepted = review.records.rows[review.standing.answer[review.records.rows] == 1]
        n_open, row = review.counts().open, int(accepted[5])
        assert decide(browser, row, "undo").status_code == 200
        again = open_records(review)
        assert row not in again
        assert len(again) == n_open
        assert len(review.changes().accepted()) == 2 * (len(accepted) - 1)

    def test_a_record_with_a_proposal_of_its_own_stays_open_with_both(self, asked):
        review = asked.review
        own = [row for row in review.records.rows.tolist() if 100 <= row < 290]
        before = {row: review.orders.names(review.records.order[review.records.place(row)])
                  for row in own}  # fmt: skip
        alone = [row for row in own if not {"systolic", "diastolic"} & set(before[row])]
        assert alone
        browser_of(asked).post("/questions", data={"question": 0, "reading": 0})
        for row in alone:
            assert review.standing.answer[row] == 0
            both = review.orders.names(review.shown_orders(np.array([row]))[0])
            assert both == before[row] | {"systolic": "diastolic", "diastolic": "systolic"}
        review.decide(alone, "accept")
        assert review.orders.names(review.standing.order[alone[-1]]) == both

    def test_an_exchange_that_is_sure_is_one_question_too(self, tmp_path):
        _, damaged = patients(400, n_damaged=12, exchanged=range(100, 160), seed=3)
        path = tmp_path / "run.csv"
        path.write_bytes(as_csv(damaged))
        bench = Workbench(read_table, tmp_path)
        bench.open_now(str(path))
        review, browser = bench.review, browser_of(bench)
        review.take(review.scan())
        n_alone = len(review.records) - len(bench.questions()[0].sides[0].rows)
        browser.post("/questions", data={"question": 0, "reading": 0})
        assert review.counts().accept > 50
        assert review.counts().open == n_alone
        browser.post("/questions", data={"question": 0, "reading": 1})
        assert review.counts().reject > 50
        assert review.counts().open == n_alone
        bench.close()

    def test_answers_to_nothing_are_refused(self, asked):
        browser = browser_of(asked)
        for data in ({"question": 9, "reading": 0}, {"question": 0, "reading": 7}, {}):
            assert browser.post("/questions", data=data).status_code == 409


class TestCommand:
    def _run(self, *arguments):
        from typer.testing import CliRunner

        from unpermute.cli._app import app

        return CliRunner().invoke(app, ["review", *arguments])

    def test_bad_tables_are_said_in_a_sentence(self, tmp_path):
        missing = self._run(str(tmp_path / "none.csv"), "--no-browser")
        assert missing.exit_code == 2
        assert "none.csv cannot be read" in missing.output
        assert self._run("-", "--no-browser").exit_code == 2

    def test_a_port_that_is_taken_is_said(self, table):
        import socket

        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            run = self._run(str(table), "--no-browser", "--port", str(other.getsockname()[1]))
        assert run.exit_code == 2
        assert "--port" in run.output

    def test_the_command_loads_the_server_only_when_asked(self):
        code = "import sys, unpermute.cli._tables; print('starlette' in sys.modules)"
        run = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert run.stdout.strip() == "False"
