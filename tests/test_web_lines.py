"""Lines with another number of fields than the header in the workbench: decided like records."""

import json
import re

import numpy as np
import pytest

from browsing import browser_of, decide
from reviewed_tables import as_ragged_csv, patients
from unpermute.files import TableError, plan_moves, read_table, repaired_as
from unpermute.web._journal import journal_path
from unpermute.web._review import open_review
from unpermute.web._scan import scan_table
from unpermute.web._workbench import Workbench

# Of every three: a value in two fields, a lost field, and one that nothing can be done about.
ROWS = [20, 50, 80, 110, 140, 170]
CONTENT = as_ragged_csv(patients(400, n_damaged=12)[1], ROWS)
NAME, WEIGHT = 1, 5


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    path = tmp_path_factory.mktemp("ragged") / "ragged.csv"
    path.write_bytes(CONTENT)
    source = read_table(str(path))
    options = {"id": "patient", "groups": None, "kinds": {}, "min_confidence": 0.95,
               "shuffled_columns": False}  # fmt: skip
    return scan_table(source, options)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "ragged.csv"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def bench(table, found):
    bench = Workbench(read_table, table.parent)
    bench.open_now(str(table))
    bench.review.choose({"id": "patient"})
    bench.review.take(found)
    yield bench
    bench.close()


@pytest.fixture
def review(bench):
    return bench.review


@pytest.fixture
def browser(bench):
    return browser_of(bench)


def exported(browser, what):
    response = browser.get(f"/results/{what}")
    assert response.status_code == 200
    return response.content


def test_all_of_them_are_listed_with_what_is_proposed(review):
    records, orders = review.records, review.orders
    assert set(ROWS) <= set(records.rows.tolist())
    proposed = [orders.names(records.order[records.place(row)]) for row in ROWS]
    joined, lost, nothing = {"name": "(join)"}, {"weight": "(insert)"}, {}
    assert proposed == [joined, lost, nothing] * 2
    assert np.isnan(records.confidence[records.place(80)])
    assert not records.sure[records.place(80)]


def test_the_list_and_a_line_show_fields_and_the_proposal(browser):
    page = browser.get("/records?cause=a+delimiter+without+quotes").text
    assert len(re.findall("<tr data-row", page)) == 2
    assert "Dr" in page
    # The column that names records is known once the line is regular.
    assert ">P00020<" in page
    nothing = browser.get("/records?cause=another+number+of+fields").text
    assert 'class="accept"' not in nothing
    detail = browser.get("/records/20").text
    assert "11 fields" in detail
    assert "selected>name</option>" in detail
    assert detail.count('class="dist"') == 3
    # A line among its neighbours in the file is shown, field by field.
    assert 'colspan="10"' in detail
    hopeless = browser.get("/records/80").text
    assert "No single edit gives this line the right number of fields" in hopeless
    assert 'value="accept"' not in hopeless


def test_accepted_lines_are_mended_as_apply_does(browser, review, table, tmp_path):
    cells = [row for row in review.records.rows.tolist() if row not in ROWS][:4]
    for row in (20, 50, *cells):
        assert decide(browser, row, "accept").status_code == 200
    decide(browser, 110, "reject")
    repaired, changes = exported(browser, "table"), tmp_path / "changes.csv"
    changes.write_bytes(exported(browser, "changes"))
    source = read_table(str(table))
    moves = plan_moves(source, read_table(str(changes)))
    assert {edit.row for edit in moves.edits} == {20, 50}
    assert b"".join(repaired_as("out.csv", source, moves)) == repaired
    before, after = CONTENT.decode().splitlines(), repaired.decode().splitlines()
    assert '," Dr",' not in after[21]
    assert re.match(r'P00020,"\w+, Dr",', after[21])
    assert after[51].split(",")[WEIGHT] == ""
    changed = {k for k in range(len(before)) if before[k] != after[k]}
    assert changed == {row + 1 for row in (20, 50, *cells)}
    assert "A person accepted 6" in exported(browser, "report").decode().replace("\n", " ")


def test_another_place_is_chosen_and_undone(browser, review):
    response = decide(browser, 50, "accept", order=json.dumps({9: -2}))
    assert "accepted, edited" in response.text
    assert review.orders.names(review.standing.order[50]) == {"cost": "(insert)"}
    [edited] = [each for each in review.mends() if each[0].row == 50]
    assert np.isnan(edited[2])
    decide(browser, 50, "undo")
    assert review.orders.names(review.shown_orders(np.array([50]))[0]) == {"weight": "(insert)"}


def test_a_line_for_which_nothing_is_proposed_cannot_be_accepted(browser, review):
    assert decide(browser, 80, "accept").status_code == 409
    assert decide(browser, 80, "owner").status_code == 200
    assert review.standing.answer[80] == 3


@pytest.mark.parametrize(
    ("row", "order"),
    [(20, {1: -2}), (50, {1: -1}), (80, {1: -1}), (20, {1: 2, 2: 1}), (0, {1: -1}), (20, {99: -1}),
     (20, {1: -3}), (20, {1: -1, 2: -1})],
)  # fmt: skip
def test_edits_that_do_not_fit_are_refused(bench, browser, review, row, order):
    if row == 0:
        with pytest.raises(TableError, match="only a line with another number"):
            review.decide_groups([("accept", review.orders.number(order.items()), np.array([0]))])
    else:
        assert decide(browser, row, "accept", order=json.dumps(order)).status_code == 409
    assert review.counts().accept == 0


def test_all_of_a_filter_leaves_out_lines_without_a_proposal(browser, review):
    page = browser.get("/bulk?state=open").text
    n = len(review.records)
    assert f"Accept {n - 2}" in page
    browser.post("/records?state=open", data={"all": n, "answer": "accept"})
    counts = review.counts()
    assert (counts.accept, counts.open) == (n - 2, 2)
    browser.post("/records?state=open", data={"all": 2, "answer": "owner"})
    assert review.counts().owner == 2


def test_everything_is_there_after_a_restart(browser, review, bench, table, found):
    decide(browser, 20, "accept")
    decide(browser, 50, "accept", order=json.dumps({9: -2}))
    before = exported(browser, "table")
    bench.close()
    again = Workbench(read_table, table.parent)
    again.open_now(str(table))
    again.review.take(found)
    assert exported(browser_of(again), "table") == before
    again.close()


@pytest.mark.parametrize(
    ("moved", "rows"),
    [({"name": "(join)"}, [0]), ({"name": "(insert)"}, [20]), ({"nobody": "(join)"}, [20]),
     ({"name": "city", "city": "name"}, [20]), ({"name": "(join)", "city": "(join)"}, [20])],
)  # fmt: skip
def test_a_forged_journal_is_refused(bench, table, moved, rows):
    bench.close()
    journal = journal_path(str(table))
    entry = {"entry": 2, "at": "2026-01-01T00:00:00Z", "do": "decide",
             "groups": [{"answer": "accept", "from": moved, "rows": rows}]}  # fmt: skip
    with open(journal, "a") as file:
        file.write(json.dumps(entry) + "\n")
    with pytest.raises(TableError, match="line 3"):
        open_review(str(table), read_table)


def test_their_owner_is_asked_and_answers(browser, review, tmp_path):
    for row in (20, 50, 80):
        decide(browser, row, "owner")
    text = exported(browser, "owner-csv").decode()
    assert "11 fields instead of 10" in text
    assert "→ empty" in text
    lines = [line.split('","') for line in text.splitlines()]
    answer = lines[0].index("review answer")
    for line, said in zip(lines[1:], ("yes", "no", "yes"), strict=True):
        line[answer] = said
    back = "\n".join('","'.join(line) for line in lines)
    refused = browser.post("/results?name=back.csv", content=back.encode())
    assert refused.status_code == 409
    assert "nothing is proposed" in refused.text
    lines[3][answer] = ""
    back = "\n".join('","'.join(line) for line in lines)
    assert (
        "1 accepted, 1 rejected"
        in browser.post("/results?name=back.csv", content=back.encode()).text
    )
    assert review.standing.answer[[20, 50, 80]].tolist() == [1, 2, 3]
