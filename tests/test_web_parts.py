"""Parts of the workbench: the journal, what is in force, filters, profiles, jobs."""

import json
import threading
from pathlib import Path

import narwhals.stable.v1 as nw
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unpermute._progress import report
from unpermute.files import Changes, CsvStyle, TableError, read_table
from unpermute.web._job import PARTS, Job
from unpermute.web._journal import Journal, journal_path, rows_as_ranges, rows_from_ranges
from unpermute.web._orders import STAYS, Orders
from unpermute.web._profiles import Profiles
from unpermute.web._records import Filter, records_of
from unpermute.web._standing import ACCEPTED, OPEN, REJECTED, Standing


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b,c\n" + "".join(f"{i},{i + 1},{i + 2}\n" for i in range(20)))
    return str(path)


def _open(table):
    return Journal(table, read_table(table))


def _decision(rows, answer="accept", moved=("a", "b")):
    a, b = moved
    return {"groups": [{"answer": answer, "from": {a: b, b: a}, "rows": rows}]}


class TestJournal:
    def test_is_read_again(self, table):
        journal = _open(table)
        journal.append("scan", options={})
        journal.append("decide", **_decision([1, [4, 7]]))
        journal.append("note", row=3, text="a\nb")
        journal.append("undo", of=2)
        entries = journal.entries
        journal.close()
        assert _open(table).entries == entries
        lines = journal_path(table).read_text().splitlines()
        assert [json.loads(line).get("do") for line in lines] == [
            None,
            "scan",
            "decide",
            "note",
            "undo",
        ]

    def test_an_entry_is_on_the_disk_before_it_counts(self, table, monkeypatch):
        journal, synced = _open(table), []
        monkeypatch.setattr("os.fsync", lambda _: synced.append(len(journal.entries)))
        journal.append("note", row=1, text="x")
        assert synced == [0]

    def test_a_line_cut_short_at_any_byte_is_dropped(self, table):
        journal = _open(table)
        journal.append("note", row=1, text="kept")
        whole = journal_path(table).read_bytes()
        journal.append("note", row=2, text="cut")
        longer = journal_path(table).read_bytes()
        journal.close()
        for stop in range(len(whole), len(longer)):
            journal_path(table).write_bytes(longer[:stop])
            again = _open(table)
            assert [entry["text"] for entry in again.entries] == ["kept"]
            again.append("note", row=3, text="next")
            again.close()
            last = _open(table)
            assert [entry["text"] for entry in last.entries] == ["kept", "next"]
            last.close()

    def test_a_full_disk_leaves_no_half_line(self, table, monkeypatch):
        journal = _open(table)

        def full(_):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", full)
            with pytest.raises(TableError, match="No space left"):
                journal.append("note", row=1, text="lost")
        assert journal.entries == []
        journal.append("note", row=1, text="kept")
        journal.close()
        assert [entry["text"] for entry in _open(table).entries] == ["kept"]

    def test_a_second_workbench_is_refused(self, table):
        first = _open(table)
        with pytest.raises(TableError, match="another window"):
            _open(table)
        first.close()
        _open(table).close()

    def test_a_changed_table_is_noticed_at_the_next_start(self, table):
        _open(table).close()
        with open(table, "a") as file:
            file.write("1,2,3\n")
        with pytest.raises(TableError, match="has changed since"):
            _open(table)

    def test_a_changed_table_is_noticed_while_open(self, table):
        journal = _open(table)
        with open(table, "r+b") as file:
            file.seek(6)
            file.write(b"9")
        with pytest.raises(TableError, match="has changed since it was opened"):
            journal.append("note", row=1, text="x")
        assert journal.entries == []

    def test_a_table_that_was_only_touched_is_the_same(self, table):
        journal = _open(table)
        Path(table).write_bytes(Path(table).read_bytes())
        journal.append("note", row=1, text="x")
        assert len(journal.entries) == 1

    def test_other_reading_options_are_noticed(self, table):
        _open(table).close()
        source = read_table(table, style=CsvStyle(header=False))
        with pytest.raises(TableError, match="other options"):
            Journal(table, source)

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            ("nonsense", "line 2: no JSON object"),
            ('{"entry":2,"do":"note","row":1,"text":""}', "out of order"),
            ('{"entry":1,"do":"note","row":99,"text":""}', "row 99 is not in the table"),
            ('{"entry":1,"do":"note","row":true,"text":""}', "row True is not in the table"),
            ('{"entry":1,"do":"note","row":1,"text":1}', "must be a text"),
            ('{"entry":1,"do":"undo","of":1}', "undo of 1, which is no decision"),
            ('{"entry":1,"do":"dance"}', "'dance' is nothing"),
            ('{"entry":1,"do":"decide"}', "must have groups"),
            ('{"entry":1,"do":"decide","groups":[{"answer":"maybe"}]}', "must be one of"),
            ('{"entry":1,"do":"decide","groups":[{"answer":"accept","from":{"a":"b"},"rows":[1]}]}',
             "lost or doubled"),
            ('{"entry":1,"do":"decide","groups":[{"answer":"accept","from":{"z":"z"},"rows":[1]}]}',
             "'z' is no column"),
            ('{"entry":1,"do":"decide","groups":[{"answer":"reject","from":{},"rows":[[4,2]]}]}',
             "rows must be numbers"),
        ],
    )  # fmt: skip
    def test_a_forged_journal_is_refused(self, table, line, problem):
        _open(table).close()
        with open(journal_path(table), "a") as file:
            file.write(line + "\n")
        with pytest.raises(TableError, match=problem):
            _open(table)

    def test_a_journal_of_something_else_is_refused(self, table):
        journal_path(table).write_text('{"journal": "another"}\n')
        with pytest.raises(TableError, match="no journal of a review"):
            _open(table)


@given(st.sets(st.integers(0, 60)))
def test_rows_survive_ranges(rows):
    rows = sorted(rows)
    written = json.loads(json.dumps(rows_as_ranges(rows)))
    assert rows_from_ranges(written).tolist() == rows


def _entries(actions):
    """Entries of a journal, from what hypothesis made up."""
    entries, decisions = [], []
    for kind, rows, which in actions:
        entry = {"entry": len(entries) + 1, "do": kind}
        if kind == "decide":
            answer = ("accept", "reject", "owner", "open")[which % 4]
            moved = {"a": "b", "b": "a"} if answer == "accept" else {}
            entry["groups"] = [{"answer": answer, "from": moved, "rows": sorted(rows)}]
            decisions.append(entry["entry"])
        elif kind == "note":
            entry |= {"row": min(rows), "text": str(which)}
            decisions.append(entry["entry"])
        elif decisions:
            entry["of"] = decisions[which % len(decisions)]
        else:
            continue
        entries.append(entry)
    return entries


_actions = st.lists(
    st.tuples(
        st.sampled_from(["decide", "decide", "note", "undo", "redo"]),
        st.sets(st.integers(0, 9), min_size=1),
        st.integers(0, 99),
    ),
    max_size=25,
)


def _state(standing):
    return (
        standing.answer.tolist(), standing.order.tolist(), standing.entry.tolist(),
        standing.notes, standing.undone,
    )  # fmt: skip


@settings(max_examples=60)
@given(_actions)
def test_entry_by_entry_is_the_same_as_all_at_once(actions):
    entries, orders = _entries(actions), Orders(["a", "b"])
    one_by_one = Standing(10, orders)
    for entry in entries:
        one_by_one.add(entry)
    assert _state(one_by_one) == _state(Standing(10, orders, entries))


@settings(max_examples=60)
@given(_actions, st.randoms(use_true_random=False))
def test_undoing_everything_in_any_order_leaves_nothing(actions, random):
    entries, orders = _entries(actions), Orders(["a", "b"])
    standing = Standing(10, orders, entries)
    left = [e["entry"] for e in entries if e["do"] in ("decide", "note")]
    random.shuffle(left)
    for k, of in enumerate(left):
        standing.add({"entry": len(entries) + 1 + k, "do": "undo", "of": of})
    assert not standing.answer.any()
    assert not standing.entry.any()
    assert standing.notes == {}


@settings(max_examples=60)
@given(_actions, st.integers(0, 99))
def test_undoing_one_is_as_if_it_had_never_been(actions, which):
    entries, orders = _entries(actions), Orders(["a", "b"])
    decisions = [e["entry"] for e in entries if e["do"] in ("decide", "note")]
    if not decisions:
        return
    of = decisions[which % len(decisions)]
    undone = Standing(10, orders, [*entries, {"entry": len(entries) + 1, "do": "undo", "of": of}])
    without = Standing(10, orders, [e for e in entries if of not in (e["entry"], e.get("of"))])
    assert _state(undone)[:4] == _state(without)[:4]


def _changes():
    """Three records: a and b exchanged; b, c, d in a circle, unsure; c and d exchanged."""
    cells = [(2, 0, 1), (2, 1, 0), (5, 1, 2), (5, 2, 3), (5, 3, 1), (7, 2, 3), (7, 3, 2)]
    rows, columns, origins = (np.array(part) for part in zip(*cells, strict=True))
    sure = {2: 0.99, 5: 0.6, 7: 0.97}
    confidence = np.array([sure[row] for row in rows])
    cause = np.where(rows == 5, "permuted", "swapped").astype(object)
    return Changes(
        rows, columns, rows, origins, confidence, confidence, confidence > 0.95, cause,
        np.full(len(rows), "why", dtype=object), names=list("abcd"),
    )  # fmt: skip


class TestRecords:
    def _found(self, **wanted):
        records, standing = records_of(_changes(), orders := Orders(list("abcd"))), None
        standing = Standing(10, orders, [
            {"entry": 1, "do": "decide", "groups": [
                {"answer": "accept", "from": {"a": "c", "c": "a"}, "rows": [2]},
                {"answer": "reject", "from": {}, "rows": [7]}]},
        ])  # fmt: skip
        return records.rows[records.chosen(Filter(**wanted), standing)].tolist()

    def test_one_entry_per_record(self):
        records = records_of(_changes(), Orders(list("abcd")))
        assert records.rows.tolist() == [2, 5, 7]
        assert [records.orders.names(order) for order in records.order] == [
            {"a": "b", "b": "a"},
            {"b": "c", "c": "d", "d": "b"},
            {"c": "d", "d": "c"},
        ]
        assert records.place(5) == 1
        assert records.place(6) is None

    @pytest.mark.parametrize(
        ("wanted", "rows"),
        [
            ({"sort": "line"}, [2, 5, 7]),
            ({"sort": "sure"}, [2, 7, 5]),
            ({"sort": "unsure"}, [5, 7, 2]),
            ({"sort": "cells"}, [5, 2, 7]),
            ({"column": "b", "sort": "line"}, [2, 5]),
            ({"cause": "permuted"}, [5]),
            ({"cause": "unheard of"}, []),
            ({"low": 0.97, "sort": "line"}, [2, 7]),
            ({"high": 0.97}, [5]),
            ({"state": "open"}, [5]),
            ({"state": "decided", "sort": "line"}, [2, 7]),
            ({"state": "edited"}, [2]),
            ({"state": "reject"}, [7]),
            ({"state": "owner"}, []),
        ],
    )
    def test_filters(self, wanted, rows):
        assert self._found(**wanted) == rows

    def test_others_that_were_decided_are_listed(self):
        records = records_of(_changes(), Orders(list("abcd")))
        more = records.including(np.array([0, 5, 9]), np.array([1, 1, 1]), "told")
        assert more.rows.tolist() == [0, 2, 5, 7, 9]
        assert more.order[[0, 4]].tolist() == [1, 1]
        assert more.order[2] == records.order[1]
        assert np.isnan(more.confidence[[0, 4]]).all()
        assert records.including(np.array([5]), np.array([1]), "told") is records

    @pytest.mark.parametrize(
        ("query", "problem"),
        [
            ({"low": "much"}, "low='much' must be a number"),
            ({"sort": "up"}, "sort='up' must be one of"),
            ({"state": "x"}, "state='x' must be one of"),
            ({"page": "0"}, "page at least 1"),
            ({"high": "2"}, "between 0 and 1"),
            ({"low": "nan"}, "between 0 and 1"),
        ],
    )
    def test_bad_filters_are_refused(self, query, problem):
        with pytest.raises(TableError, match=problem):
            Filter.read(query)

    def test_filters_survive_an_address(self):
        from urllib.parse import parse_qsl

        wanted = Filter("a&b", "x=y", 0.25, 0.5, "open", "line", 3)
        assert Filter.read(dict(parse_qsl(wanted.query()))) == wanted
        assert Filter().query() == ""


def test_orders_are_numbered_once():
    orders = Orders(["a", "b", "c"])
    assert orders.named({}) == STAYS
    assert orders.named({"a": "b", "b": "a"}) == orders.number([(1, 0), (0, 1), (2, 2)])
    assert orders.names(1) == {"a": "b", "b": "a"}
    assert orders.using(2).tolist() == [False, False]


@pytest.fixture(scope="module")
def profiles():
    frame = pl.DataFrame(
        {
            "age": [str(i) for i in range(1, 101)],
            "city": ["Rome"] * 60 + ["Oslo"] * 30 + [None] * 10,
            "born": [f"19{i // 2 + 10:02d}-03-01" for i in range(100)],
            "empty": [None] * 100,
        },
        schema_overrides={"empty": pl.String},
    )
    kinds = {"age": "number", "city": "category", "born": "date", "empty": ""}
    return Profiles(nw.from_native(frame, eager_only=True), kinds)


class TestProfiles:
    @pytest.mark.parametrize(
        ("column", "text", "words"),
        [
            ("age", "200", "above all others (1 to 100)"),
            ("age", "0", "below all others (1 to 100)"),
            ("age", "76", "higher than 75% of the others"),
            ("age", "10", "lower than 90% of the others"),
            ("age", "Rome", "not a number, unlike the others"),
            ("age", "1950-01-01", "not a number, unlike the others"),
            ("age", "", "no cell is empty"),
            ("city", "Rome", "occurs in 60% of the records"),
            ("city", "17", "never occurs"),
            ("city", "", "10% of the cells are empty"),
            ("born", "1890-01-01", "below all others (1910-03-01 to 1959-03-01)"),
            ("born", "Rome", "not a date, unlike the others"),
            ("born", "700000", "not a date, unlike the others"),
            ("empty", "x", "never occurs"),
        ],
    )
    def test_words(self, profiles, column, text, words):
        assert profiles.of(column).words(text) == words

    @pytest.mark.parametrize("column", ["age", "city", "born", "empty"])
    def test_pictures_hold_markup_as_text(self, profiles, column):
        figure = profiles.of(column).draw("<script>", "200")
        assert "<script>" not in figure
        assert figure.startswith("<svg")
        assert "style=" not in figure


class TestJob:
    def test_tells_how_far_it_is(self):
        step, seen = threading.Semaphore(0), []

        def work():
            for stage, done, total in (
                ("read columns", 1, 2), ("search records", 5, 5), ("judge records", 2, 4),
                ("search records", 5, 5), ("judge records", 4, 4), (PARTS, 1, 2),
                ("read columns", 1, 2),
            ):  # fmt: skip
                report(stage, done, total)
                seen.append(job.progress())
            step.acquire()
            return 7

        job = Job("count", work)
        job.start()
        step.release()
        job.wait(10)
        assert (job.result, job.error, job.cancelled) == (7, None, False)
        percent = [each["percent"] for each in seen]
        # It grows through the stages of a part, and the second part begins in the middle.
        assert percent[0] == 25
        assert percent[:5] == sorted(percent[:5])
        assert percent[2] == 82
        assert percent[4:] == [100, 50, 62]
        assert seen[2]["stage"] == "Judge every record"

    @pytest.mark.parametrize(
        ("seconds", "words"),
        [(3.0, "3 s elapsed, about 9 s left"), (300.0, "5 min elapsed, about 15 min left")],
    )
    def test_tells_the_time_that_is_left(self, monkeypatch, seconds, words):
        now = [100.0]
        monkeypatch.setattr("unpermute.web._job.time.monotonic", lambda: now[0])
        job = Job("read", lambda: report("read", 1, 4))
        now[0] += seconds
        job.start()
        job.wait(10)
        assert job.progress()["time"] == words

    def test_is_cancelled_at_the_next_step(self):
        begun = threading.Event()

        def work():
            for k in range(10**6):
                report("steps", k, 10**6)
                begun.set()
                threading.Event().wait(0.001)

        job = Job("long", work)
        job.start()
        begun.wait(10)
        job.cancel()
        job.wait(10)
        assert job.cancelled
        assert job.error is None

    def test_keeps_an_error(self):
        def work():
            raise ValueError("no")

        job = Job("fails", work)
        job.start()
        job.wait(10)
        assert str(job.error) == "no"


def test_answers_have_their_numbers():
    assert (OPEN, ACCEPTED, REJECTED) == (0, 1, 2)
