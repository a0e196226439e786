"""The workbench in a real browser: keys, dragging, undo, tabs, files, and what axe finds."""

import multiprocessing
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import polars as pl
import pytest
from serving import Served, said, serve_scanned

from unpermute.files import Changes, read_table
from unpermute.table import TableResult
from unpermute.web._job import Job
from unpermute.web._journal import ANSWERS
from unpermute.web._review import open_review
from unpermute.web._scan import Scan
from unpermute.web._workbench import Workbench

LIST = "/records?state=open&sort=line"


def answers(served, rows):
    return served.bench.review.standing.answer[rows].tolist()


def rows_shown(page):
    return [int(each) for each in page.locator("tr[data-row]").evaluate_all(
        "rows => rows.map(row => row.dataset.row)")]  # fmt: skip


class TestKeys:
    def test_the_list_without_a_mouse(self, served, page):
        first, second, third = rows_shown(page)[:3]
        page.goto(f"{served.base}/records?sort=line")
        page.keyboard.press("j")
        page.keyboard.press("a")
        said(page, "accepted")
        page.keyboard.press("j")
        page.keyboard.press("r")
        said(page, "rejected")
        page.keyboard.press("j")
        page.keyboard.press("w")
        said(page, "owner")
        assert answers(served, [first, second, third]) == [1, 2, 3]
        page.keyboard.press("k")
        page.keyboard.press("u")
        said(page, "undone")
        assert answers(served, [first, second, third]) == [1, 0, 3]
        page.keyboard.press("Enter")
        page.wait_for_selector(".editor")
        assert f"/records/{second}" in page.url
        page.keyboard.press("k")
        page.wait_for_url(f"**/records/{first}*")
        page.keyboard.press("l")
        page.wait_for_selector("table.list")
        page.keyboard.press("j")
        page.keyboard.press("o")
        page.wait_for_selector(".editor")

    def test_a_record_without_a_mouse(self, served, page):
        first, second = rows_shown(page)[:2]
        page.locator("a.open").first.click()
        page.wait_for_selector(".editor")
        page.keyboard.press("a")
        said(page, "accepted")
        page.keyboard.press("j")
        page.wait_for_url(f"**/records/{second}*")
        page.keyboard.press("r")
        said(page, "rejected")
        page.keyboard.press("u")
        said(page, "undone")
        page.keyboard.press("w")
        said(page, "owner")
        page.keyboard.press("n")
        page.keyboard.type("ask about j, k and ?")
        page.get_by_text("Keep the note").click()
        said(page, "note kept")
        assert served.bench.review.standing.notes == {second: "ask about j, k and ?"}
        page.keyboard.press("l")
        page.wait_for_selector("table.list")
        assert answers(served, [first, second]) == [1, 3]

    def test_keys_pressed_in_a_hurry_wait_for_their_page(self, served, page):
        first, second, third = rows_shown(page)[:3]
        page.locator("a.open").first.click()
        page.wait_for_selector(".editor")
        page.keyboard.type("ajrja")
        page.wait_for_url(f"**/records/{third}*")
        said(page, "accepted")
        assert answers(served, [first, second, third]) == [1, 2, 1]

    def test_the_keys_are_shown(self, page):
        page.keyboard.press("?")
        assert page.locator("#keys").is_visible()
        page.keyboard.press("j")  # nothing behind it moves
        assert page.locator("tr.selected").count() == 0
        page.keyboard.press("Escape")
        assert not page.locator("#keys").is_visible()

    def test_the_end_of_a_page_leads_to_the_next(self, page):
        page.goto(page.url.replace("state=open&", ""))
        last = rows_shown(page)[-1]
        page.locator(f'tr[data-row="{last}"] td.cause').click()
        page.keyboard.press("j")
        page.wait_for_url("**page=2*")


class TestEditing:
    def _edited(self, served, row):
        review = served.bench.review
        return review.orders.names(review.standing.order[row])

    def _open(self, page):
        row = rows_shown(page)[0]
        page.locator("a.open").first.click()
        page.wait_for_selector(".editor")
        return row

    def test_dragging_a_value_to_its_column(self, served, page):
        row = self._open(page)
        page.locator("[data-reset]").wait_for(state="hidden")
        value = page.locator('.then-side li[data-place="3"] .value')
        value.drag_to(page.locator('.then-side li[data-place="9"]'))
        assert page.locator('.then-side li[data-place="3"].edited').count() == 1
        assert page.locator(".joins path.edited").count() == 2
        page.keyboard.press("a")
        said(page, "accepted")
        assert self._edited(served, row)["age"] in ("cost", "height", "systolic")
        assert page.get_by_text("accepted, edited").count() == 1

    def test_moving_a_value_by_keys(self, served, page):
        row = self._open(page)
        before = served.bench.review.orders.names(
            served.bench.review.records.order[served.bench.review.records.place(row)]
        )
        page.keyboard.press("e")
        place = int(page.evaluate("document.activeElement.closest('li').dataset.place"))
        page.keyboard.press("Space")
        said(page, "picked up")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Space")
        said(page, "changed places")
        page.keyboard.press("a")
        said(page, "accepted")
        after = self._edited(served, row)
        assert after != before
        names = served.bench.review.source.columns
        assert {names[place], names[place + 1]} & {*after, *before}

    def test_escape_gives_up_and_a_button_goes_back(self, page):
        self._open(page)
        before = page.locator(".then-side").inner_text()
        page.keyboard.press("e")
        page.keyboard.press("Space")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Escape")
        assert page.locator(".then-side").inner_text() == before
        page.locator('.then-side li[data-place="0"] .value').click()
        page.locator('.then-side li[data-place="9"] .value').click()
        assert page.locator(".then-side").inner_text() != before
        page.get_by_text("Back to the proposal").click()
        assert page.locator(".then-side").inner_text() == before


def test_the_editor_keeps_its_height_when_the_window_grows(page):
    page.locator("a.open").first.click()
    page.wait_for_selector(".editor")
    height = "document.querySelector('.editor').offsetHeight"
    before = page.evaluate(height)
    page.set_viewport_size({"width": 400, "height": 900})
    page.wait_for_function(f"{height} != {before}")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.wait_for_timeout(200)
    assert page.evaluate(height) == before


class TestMany:
    def test_all_of_a_filter_after_a_preview_and_undo_out_of_order(self, served, page):
        review = served.bench.review
        page.get_by_label("Cause").select_option("two fields swapped")
        page.wait_for_url("**cause=two*")
        page.get_by_label("Probability from").fill("0.95")
        page.get_by_label("Probability from").press("Enter")
        page.wait_for_url("**low=0.95*")
        page.get_by_text("Decide about all").click()
        page.wait_for_url("**/bulk*")
        button = page.get_by_role("button", name=re.compile("^Accept"))
        n = int(button.inner_text().split()[-1])
        button.click()
        said(page, f"{n} records accepted")
        assert review.counts().accept == n
        page.goto(f"{served.base}/records?sort=line")
        one = rows_shown(page)[0]
        page.locator(f'tr[data-row="{one}"] button').last.click()
        page.wait_for_timeout(300)
        page.get_by_role("link", name="History").click()
        page.wait_for_url("**/history")
        bulk = page.locator("tr", has_text="probability ≥ 0.95")
        bulk.get_by_role("button", name=re.compile("^Undo")).click()
        said(page, "Undone")
        assert review.counts().accept == 0
        page.locator("tr", has_text="probability ≥ 0.95").get_by_role("button").click()
        said(page, "Done again")
        assert review.counts().accept in (n, n - 1)

    def test_a_question_with_both_sides(self, context, tmp_path):
        from reviewed_tables import as_csv, patients

        path = tmp_path / "half.csv"
        path.write_bytes(as_csv(patients(400, n_damaged=4, exchanged=range(150, 340), seed=5)[1]))
        bench = Workbench(read_table, tmp_path)
        bench.open_now(str(path))
        bench.review.take(bench.review.scan())
        served, page = Served(bench), context.new_page()
        page.goto(served.address)
        page.get_by_role("link", name=re.compile("Answer 1 question")).click()
        page.wait_for_url("**/questions")
        assert page.locator(".sides article").count() == 2
        page.get_by_role("button", name=re.compile("Exchange these")).click()
        said(page, "Answered")
        assert bench.review.counts().accept > 180
        page.get_by_role("button", name="Take it back").click()
        said(page, "taken back")
        assert bench.review.counts().accept == 0
        served.stop()


class TestTabs:
    def test_two_tabs_agree(self, served, page, context):
        other = context.new_page()
        other.goto(f"{served.base}{LIST}")
        row = rows_shown(page)[0]
        page.locator(f'tr[data-row="{row}"] button.accept').click()
        said(page, "accepted")
        other.wait_for_selector(f'tr[data-row="{row}"]', state="detached")
        assert "1 of" in other.locator(".done").inner_text()

    def test_the_slower_tab_is_refused(self, served, page, context):
        row = rows_shown(page)[0]
        other = context.new_page()
        other.route("**/events", lambda route: route.abort())
        other.goto(f"{served.base}/records/{row}")
        page.locator(f'tr[data-row="{row}"] button.reject').click()
        said(page, "rejected")
        other.keyboard.press("a")
        other.wait_for_selector("text=decided elsewhere")
        assert answers(served, [row]) == [2]

    def test_what_is_being_edited_is_not_taken_away(self, served, page, context):
        row, other_row = rows_shown(page)[:2]
        page.goto(f"{served.base}/records/{row}")
        page.locator("#note").fill("half a thought")
        served.bench.review.decide([other_row], "accept")
        said(page, "another tab")
        assert page.locator("#note").input_value() == "half a thought"

    def test_reload_shows_the_same(self, page):
        row = rows_shown(page)[0]
        page.locator(f'tr[data-row="{row}"] button.accept').click()
        said(page, "accepted")
        page.reload()
        assert row not in rows_shown(page)

    def test_a_tab_from_before_a_restart_says_what_to_do(self, served, page, context):
        context.clear_cookies()
        page.locator("button.accept").first.click()
        page.wait_for_selector("text=Open the address that")
        page.goto(served.address)
        page.wait_for_selector("nav a")

    def test_going_back_shows_the_list_again(self, page):
        page.locator("a.open").first.click()
        page.wait_for_selector(".editor")
        page.go_back()
        page.wait_for_selector("table.list")
        assert len(rows_shown(page)) > 10


def _download(page, name, folder):
    """Take one of the results; return where it was saved."""
    with page.expect_download() as download:
        page.locator(f'a[href="/results/{name}"]').click()
    path = folder / f"saved-{download.value.suggested_filename}"
    download.value.save_as(path)
    return path


def _applied(table, changes, folder):
    """Return the bytes that `unpermute apply` makes of a list of changes."""
    command = [sys.executable, "-m", "unpermute", "apply", str(table), str(changes)]
    applied = folder / "applied.csv"
    subprocess.run([*command, "-o", str(applied)], check=True, capture_output=True)
    return applied.read_bytes()


class TestFiles:
    def test_results_are_downloaded(self, served, page, tmp_path):
        review = served.bench.review
        review.decide(review.records.rows[:10], "accept")
        review.decide(review.records.rows[10:13], "owner")
        page.goto(f"{served.base}/results")
        names = ("table", "changes", "report", "owner-xlsx")
        saved = {name: _download(page, name, tmp_path) for name in names}
        applied = _applied(review.path, saved["changes"], tmp_path)
        assert applied == saved["table"].read_bytes()
        assert saved["owner-xlsx"].suffix == ".xlsx"
        report = page.context.new_page()
        report.goto(saved["report"].as_uri())
        assert "A person accepted 10" in report.inner_text("body").replace("\n", " ")

    def test_answers_of_an_owner_are_read_back(self, served, page):
        review = served.bench.review
        row = int(review.records.rows[0])
        review.decide([row], "owner")
        page.goto(f"{served.base}/results")
        with page.expect_download() as download:
            page.get_by_text("As CSV").click()
        text = Path(download.value.path()).read_text()
        header, line = text.splitlines()
        cells = line.split('","')
        names = header.split('","')
        cells[names.index("review answer")] = "yes"
        back = f"{header}\n" + '","'.join(cells) + "\n"
        payload = {"name": "back.csv", "mimeType": "text/csv", "buffer": back.encode()}
        page.locator(".drop input").set_input_files(payload)
        said(page, "1 accepted")
        assert answers(served, [row]) == [1]

    def test_a_table_is_dropped_on_the_page(self, context, tmp_path):
        from reviewed_tables import as_csv, patients

        served, page = Served(Workbench(read_table, tmp_path)), context.new_page()
        page.goto(served.address)
        page.wait_for_url("**/open")
        bad = {"name": "odd.exe", "mimeType": "text/plain", "buffer": b"x"}
        page.locator(".drop input").set_input_files(bad)
        page.wait_for_selector("text=does not tell the format")
        content = as_csv(patients(200, n_damaged=8)[1]).decode()
        page.evaluate(
            """content => {
                const data = new DataTransfer();
                data.items.add(new File([content], "dropped.csv", { type: "text/csv" }));
                const drop = new DragEvent("drop", { dataTransfer: data, bubbles: true });
                document.querySelector(".drop").dispatchEvent(drop);
            }""",
            content,
        )
        page.wait_for_url("**/columns")
        page.get_by_label("Column that identifies the records").select_option("patient")
        page.get_by_label("What city holds").select_option("category")
        page.get_by_role("button", name="Look for shuffled records").click()
        page.wait_for_url("**/summary", timeout=120_000)
        assert (tmp_path / "dropped.csv").read_text() == content
        page.get_by_role("link", name=re.compile("Decide about")).first.click()
        page.wait_for_selector("table.list")
        served.stop()

    def test_a_changed_table_is_said(self, served, page):
        Path(served.bench.review.path).write_text("other\n1\n2\n")
        page.keyboard.press("j")
        page.keyboard.press("a")
        page.wait_for_selector("text=has changed since it was opened")


def _command(path):
    """Start the command, and return it with the address that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "unpermute", "review", str(path), "--no-browser"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    line = process.stdout.readline()
    return process, re.search(r"http\S+", line)[0]


class TestCommand:
    def test_the_whole_way_and_again_after_a_kill(self, context, patients_csv, tmp_path):
        path = tmp_path / "patients.csv"
        path.write_bytes(patients_csv)
        process, address = _command(path)
        page = context.new_page()
        page.goto(address)
        page.wait_for_url("**/columns")
        page.get_by_role("button", name="Look for shuffled records").click()
        page.wait_for_url("**/progress")
        page.wait_for_url("**/summary", timeout=180_000)
        page.goto(f"{address.split('/?')[0]}{LIST}")
        before = rows_shown(page)
        page.keyboard.press("j")
        page.keyboard.press("a")
        said(page, "accepted")
        process.kill()
        process.wait()
        process, address = _command(path)
        page = context.new_page()
        page.goto(address)
        # The scan was kept: there is nothing to wait for.
        assert page.url.endswith("/summary")
        page.goto(f"{address.split('/?')[0]}{LIST}")
        assert rows_shown(page)[:5] == before[1:6]
        page.get_by_role("link", name="Results").click()
        page.wait_for_url("**/results")
        saved = [_download(page, name, tmp_path) for name in ("table", "changes")]
        assert saved[0].read_bytes() == _applied(path, saved[1], tmp_path)
        changed = zip(saved[0].read_bytes().split(), patients_csv.split(), strict=True)
        assert sum(now != before for now, before in changed) == 1
        page.close()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
        assert errors == ""
        assert process.returncode in (0, 130)

    def test_a_scan_is_cancelled(self, context, tmp_path):
        from reviewed_tables import as_csv, patients

        path = tmp_path / "long.csv"
        path.write_bytes(as_csv(patients(20_000, n_damaged=400)[1]))
        bench = Workbench(read_table, tmp_path)
        bench.open_now(str(path))
        served, page = Served(bench), context.new_page()
        page.goto(served.address)
        page.get_by_role("button", name="Look for shuffled records").click()
        page.wait_for_url("**/progress")
        page.get_by_role("button", name="Cancel").click()
        page.wait_for_url("**/columns", timeout=60_000)
        served.stop()


def test_no_confirmed_decision_is_lost_in_fifty_kills(patients_csv, found, tmp_path):
    """The server is killed while decisions come in; whatever it confirmed is there afterwards."""
    table, rng = tmp_path / "patients.csv", np.random.default_rng(0)
    table.write_bytes(patients_csv)
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["serving", "unpermute.table", "unpermute.records"])
    found = replace(found, model=None)
    confirmed, n_confirmed = {}, 0
    for kill in range(50):
        told = tmp_path / f"address-{kill}"
        server = processes.Process(target=serve_scanned, args=(str(table), found, str(told)))
        server.start()
        while not told.exists():
            assert server.is_alive()
            time.sleep(0.01)
        killer = threading.Timer(rng.uniform(0, 0.3), server.kill)
        more, pending = _decide_until_killed(told.read_text(), found, rng, killer)
        server.join()
        confirmed |= more
        n_confirmed += len(more)
        # The one that was on its way may be there, or not.
        confirmed.pop(pending, None)
        again = open_review(str(table), read_table)
        for row, answer in confirmed.items():
            assert ANSWERS[again.standing.answer[row]] == answer
        again.journal.close()
    assert n_confirmed > 60


def _decide_until_killed(address, found, rng, killer):
    """Return what the server confirmed, and the record that it did not answer about."""
    origin, rows, confirmed = address.split("/?")[0], found.vectors["row"].to_list(), {}
    with httpx.Client(base_url=origin, headers={"origin": origin}) as client:
        client.get("/", params={"token": "t"})
        while True:
            row, answer = int(rng.choice(rows)), str(rng.choice(ANSWERS[1:]))
            try:
                response = client.post(f"/records/{row}", data={"answer": answer})
            except httpx.TransportError:
                killer.join()
                return confirmed, row
            assert response.status_code == 200
            if not confirmed:
                killer.start()
            confirmed[row] = answer


def test_markup_and_scripts_in_a_table_do_nothing(context, tmp_path):
    from reviewed_tables import NAMES, as_csv, patients

    evil = "<script>document.title='evil'</script>"
    names = [evil, '"><img src=x onerror="document.title=`evil`">', *NAMES[2:]]
    records = patients(400)[1]
    for record in records:
        record[1] = f"{evil}{record[1]}"
    path = tmp_path / "evil.csv"
    path.write_bytes(as_csv(records, names))
    bench = Workbench(read_table, tmp_path)
    bench.open_now(str(path))
    served, page = Served(bench), context.new_page()
    page.goto(served.address)
    assert evil in page.inner_text("main")
    bench.review.take(bench.review.scan())
    row = int(bench.review.records.rows[0])
    for address in ("/summary", "/records", f"/records/{row}", "/bulk", "/history"):
        page.goto(f"{served.base}{address}")
        assert "evil" not in page.title().replace("evil.csv", "")
        assert page.locator("main script, main img").count() == 0
    served.stop()


def test_nothing_is_asked_elsewhere(served, page):
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    for path in ("/summary", "/questions", "/records", "/history", "/results", "/open"):
        page.goto(f"{served.base}{path}")
    page.wait_for_timeout(300)
    assert asked
    assert all(url.startswith(served.base) for url in asked)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_axe_finds_nothing_and_nothing_sticks_out(served, chromium, scheme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    review = served.bench.review
    rows = review.records.rows.tolist()
    review.decide(rows[:1], "accept")
    review.decide(rows[1:2], "reject")
    review.decide(rows[2:3], "owner")
    review.note(rows[0], "a note")
    context = chromium.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(served.address)
    several = [f"/records/{rows[0]}", f"/records/{rows[5]}", "/records?sort=line"]
    for path in ("/open", "/columns", "/summary", "/questions", "/bulk", *several, "/history",
                 "/results", "/nowhere"):  # fmt: skip
        page.goto(f"{served.base}{path}")
        found = axe.run(page)
        assert found.violations_count == 0, f"{path}: {found.generate_report()}"
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        # axe takes text of the colour of its background for hidden on purpose.
        unreadable = """tags => tags.filter(tag => {
            const style = getComputedStyle(tag);
            return style.color === style.backgroundColor;
        }).length"""
        assert page.locator(".tag").evaluate_all(unreadable) == 0, path
    context.close()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 400)])
def test_axe_finds_nothing_in_questions_and_while_it_works(chromium, tmp_path, scheme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    from reviewed_tables import as_csv, patients

    path = tmp_path / "half.csv"
    path.write_bytes(as_csv(patients(400, n_damaged=4, exchanged=range(150, 340), seed=5)[1]))
    bench = Workbench(read_table, tmp_path)
    bench.open_now(str(path))
    bench.review.take(bench.review.scan())
    served = Served(bench)
    context = chromium.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )
    page = context.new_page()

    def look():
        found = axe.run(page)
        assert found.violations_count == 0, f"{page.url}: {found.generate_report()}"
        assert page.evaluate("document.documentElement.scrollWidth") <= width, page.url

    page.goto(f"{served.base}/questions")  # without a token: refused
    look()
    page.goto(served.address)
    page.goto(f"{served.base}/questions")
    assert page.locator(".sides article").count() == 2
    look()
    page.get_by_role("button", name=re.compile("Exchange these")).click()
    said(page, "Answered")
    look()
    page.keyboard.press("?")
    look()
    seen = threading.Event()
    bench.job = job = Job("Looking for shuffled records", lambda: seen.wait(60) and None)
    job.start()
    page.goto(f"{served.base}/progress")
    assert page.get_by_role("button", name="Cancel").is_visible()
    look()
    context.close()
    seen.set()
    job.wait()
    served.stop()


def test_a_million_records(context, tmp_path):
    """The list of a large table; `benchmarks/workbench.py` has the scan and exact times."""
    n, rng = 1_000_000, np.random.default_rng(0)
    path = tmp_path / "large.csv"
    columns = {name: rng.integers(0, 1000, n) for name in "abcde"}
    pl.DataFrame({"id": np.arange(n), **columns}).write_csv(path)
    bench = Workbench(read_table, tmp_path)
    bench.open_now(str(path))
    rows = np.repeat(np.sort(rng.choice(n, 100_000, replace=False)), 2)
    targets, sure = np.tile([1, 2], len(rows) // 2), np.repeat(rng.random(len(rows) // 2), 2)
    nothing = np.full(len(rows), "", dtype=object)
    moves = Changes(
        rows, targets, rows, 3 - targets, sure, sure, sure > 0.95, nothing, nothing,
        names=list(bench.review.source.columns),
    )  # fmt: skip
    kinds = [{"column": name, "kind": "number"} for name in bench.review.source.columns]
    bench.review.take(Scan(TableResult(None, None, None, {"judged_columns": kinds}, moves=moves)))
    served, page = Served(bench), context.new_page()
    page.goto(served.address)
    page.goto(f"{served.base}/records?state=open&column=a&sort=unsure&page=700")
    assert len(rows_shown(page)) == 50
    assert len(page.content()) < 100_000
    painted = "performance.getEntriesByName('first-contentful-paint')"
    page.wait_for_function(f"{painted}.length > 0", polling=50)
    paint = page.evaluate(f"{painted}[0].startTime")
    assert paint < 5000  # under 1000 on a machine that does nothing else
    row = rows_shown(page)[0]
    page.keyboard.press("j")
    page.keyboard.press("a")
    said(page, "accepted")
    assert answers(served, [row]) == [1]
    served.stop()
