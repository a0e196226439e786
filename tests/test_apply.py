"""Lists of changes: replayed, undone byte for byte, and refused when something would be lost."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unpermute.files import CsvStyle
from unpermute.files._changes import listed_changes, plan_moves, written_changes
from unpermute.files._csv import CsvTable
from unpermute.files._moves import Changes, Moves
from unpermute.files._read import read_table
from unpermute.files._source import TableError

TABLE = b'a,b,c\n1.50,2,"3"\n4, 5,06\n7,8,9\n'
CHANGES = b"row,column,old,new,moved_from\n0,a,1.50,2,b\n0,b,2,3,c\n0,c,3,1.50,a\n"


def _csv(raw, name="t.csv", **style):
    return CsvTable(raw, name, CsvStyle(**style))


def _applied(raw, changes, *, undo=False, **style):
    table = _csv(raw, **style)
    moves = plan_moves(table, _csv(changes, "changes.csv", delimiter=","), undo=undo)
    return b"".join(table.with_moves(moves))


def _moves(table, rows, columns, origins, vectors):
    """Positions of cells that are named."""
    rows, places = np.array(rows), np.array([table.columns.index(name) for name in columns])
    if vectors == "columns":
        return Moves(rows, places, np.array(origins), places)
    return Moves(rows, places, rows, np.array([table.columns.index(name) for name in origins]))


def _listed(table, cells, vectors):
    """The list of changes for tuples (row, column name, moved from)."""
    rows, columns, origins = (list(part) for part in zip(*cells, strict=True))
    n, moves = len(rows), _moves(table, rows, columns, origins, vectors)
    changes = Changes(
        *moves.places(), np.full(n, 0.99), np.full(n, 0.999), np.ones(n, dtype=bool),
        np.full(n, "swap, of two", dtype=object), np.full(n, "`06` fits b", dtype=object),
        names=table.columns, within_rows=vectors == "rows",
    )  # fmt: skip
    return b"".join(written_changes(listed_changes(table, changes, [None] * n)))


def test_a_cycle_is_replayed_and_undone():
    repaired = _applied(TABLE, CHANGES)
    assert repaired == b'a,b,c\n2,"3",1.50\n4, 5,06\n7,8,9\n'
    assert _applied(repaired, CHANGES, undo=True) == TABLE


def test_the_list_is_for_people():
    listed = _listed(_csv(TABLE), [(1, "b", "c"), (1, "c", "b")], "rows")
    assert listed.decode().splitlines() == [
        "line,row,id,column,old,new,moved_from,accept,damaged,confidence,cause,evidence",
        '3,1,,b, 5,06,c,yes,0.999,0.99,"swap, of two",`06` fits b',
        '3,1,,c,06, 5,b,yes,0.999,0.99,"swap, of two",`06` fits b',
    ]


def test_an_empty_list_changes_nothing():
    assert _applied(TABLE, CHANGES[:30]) == TABLE


def test_only_accepted_lines_are_applied_and_undone():
    lines = CHANGES.decode().splitlines()
    answers = ["accept", "No", "no", ""]
    listed = "\n".join(f"{line},{answer}" for line, answer in zip(lines, answers, strict=True))
    more = "\n1,a,4, 5,b,yes\n1,b, 5,4,a,X\n"
    repaired = _applied(TABLE, (listed + more).encode())
    assert repaired == b'a,b,c\n1.50,2,"3"\n 5,4,06\n7,8,9\n'
    assert _applied(repaired, (listed + more).encode(), undo=True) == TABLE


def test_an_answer_that_is_neither_yes_nor_no_is_refused():
    listed = b"row,column,old,new,moved_from,accept\n0,a,1.50,2,b,perhaps\n"
    with pytest.raises(TableError, match="line 2: accept is 'perhaps', but must be yes or no"):
        _applied(TABLE, listed)


def test_a_spreadsheet_may_reformat_the_list():
    edited = CHANGES.replace(b"1.50", b"1.5").replace(b",", b";")
    table = _csv(TABLE)
    moves = plan_moves(table, _csv(edited, "changes.csv"))
    assert b"".join(table.with_moves(moves)) == _applied(TABLE, CHANGES)


def test_numbered_columns_are_told_from_numbered_rows():
    raw = b"1,2\n3,4\n5,6\n"
    table = _csv(raw, header=False)
    within_row = _listed(table, [(0, "0", "1"), (0, "1", "0")], "rows")
    assert _applied(raw, within_row, header=False) == b"2,1\n3,4\n5,6\n"
    within_column = _listed(table, [(0, "1", 1), (1, "1", 0)], "columns")
    assert _applied(raw, within_column, header=False) == b"1,4\n3,2\n5,6\n"


def test_typed_tables_take_values_from_themselves(tmp_path):
    array = np.array([[0.1 + 0.2, 1e300], [np.nan, -5.0]])
    np.save(tmp_path / "t.npy", array)
    table = read_table(str(tmp_path / "t.npy"))
    listed = _listed(table, [(0, "0", 1), (1, "0", 0)], "columns")
    moves = plan_moves(table, _csv(listed, "changes.csv"))
    (tmp_path / "out.npy").write_bytes(b"".join(table.with_moves(moves)))
    np.testing.assert_array_equal(
        np.load(tmp_path / "out.npy"), [[np.nan, 1e300], [0.1 + 0.2, -5.0]]
    )


fields = st.one_of(
    st.sampled_from(["", "NA", "N/A", "007", "1.50", "=cmd|' /C calc'!A0", " 3 ", '"a""b"x', '5"']),
    st.text(st.characters(exclude_characters='",\r\n\0\ufeff', exclude_categories=["Cs"])),
    st.text(st.sampled_from('ab,"\r\nä€')).map(lambda text: '"' + text.replace('"', '""') + '"'),
)


@st.composite
def damaged(draw):
    """A delimited file, and moves inside its rows or inside its columns."""
    names = draw(
        st.lists(st.sampled_from(["a", "0", "1", "ä b", "="]), min_size=2, max_size=4, unique=True)
    )
    n_rows = draw(st.integers(2, 4))
    records = [names] + [[draw(fields) for _ in names] for _ in range(n_rows)]
    ends = st.sampled_from(["\n", "\r\n", "\r", "\n\n"])
    text = draw(st.sampled_from(["", "\ufeff"]))
    text += "".join(",".join(record) + draw(ends) for record in records)
    text = text.rstrip("\r\n") if draw(st.booleans()) else text
    cells = []
    vectors = draw(st.sampled_from(["rows", "columns"]))
    places = names if vectors == "rows" else range(n_rows)
    for vector in range(n_rows) if vectors == "rows" else names:
        for place, origin in zip(places, draw(st.permutations(places)), strict=True):
            if place != origin:
                cells.append(
                    (vector, place, origin) if vectors == "rows" else (place, vector, origin)
                )
    return text.encode(), vectors, cells


@settings(max_examples=300)
@given(damaged())
def test_undo_restores_every_byte(case):
    raw, vectors, cells = case
    table = _csv(raw, delimiter=",")
    if not cells:
        return
    listed = _listed(table, cells, vectors)
    moves = _moves(table, *map(list, zip(*cells, strict=True)), vectors)
    repaired = b"".join(table.with_moves(moves))
    assert _applied(raw, listed, delimiter=",") == repaired
    assert _applied(repaired, listed, undo=True, delimiter=",") == raw
    assert sorted(repaired) == sorted(raw)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b"0,c,3,1.50,a\n", b"", "line 2: the value '1.50' of row 0, column 'a' would be lost"),
        (b"2,3,c", b"2,1.50,a", "line 4: row 0, column 'a' gives its value away a second time"),
        (b"0,c,3,1.50,a", b"0,b,3,1.50,a", "line 4: row 0, column 'b' receives a value a second"),
        (b"0,b,2", b"0,b,7", "line 3: row 0, column 'b' of t.csv should hold '7', but holds '2'"),
        (b"2,3,c", b"2,4,c", "line 3: row 0, column 'c' of t.csv should hold '4', but holds '3'"),
        (b"0,c", b"3,c", "line 4: t.csv has no row 3; its rows are 0 to 2"),
        (b"0,c", b"x,c", "line 4: 'x' is no row number"),
        (b"0,c", b"-1,c", "line 4: '-1' is no row number"),
        (b"0,c", b"0,bb", "line 4: t.csv has no column 'bb'; did you mean 'b'"),
        (b"1.50,a", b"1.50,q", "line 4: moved_from is 'q', which is no column of t.csv"),
        (b"moved_from", b"from", "not a list of changes: it has no column 'moved_from'"),
    ],
)
def test_a_list_that_does_not_fit_is_refused_by_line(old, new, said):
    with pytest.raises(TableError, match=said):
        _applied(TABLE, CHANGES.replace(old, new))


def test_what_was_not_applied_cannot_be_undone():
    with pytest.raises(TableError, match=r"line 2: row 0, column 'a' of t.csv should hold '2'"):
        _applied(TABLE, CHANGES, undo=True)


def test_row_origins_are_checked_as_well():
    changes = b"row,column,old,new,moved_from\n0,b,2, 5,1\n1,b, 5,2,x\n"
    with pytest.raises(TableError, match="line 3: moved_from is 'x', which is no row number"):
        _applied(TABLE, changes.replace(b",x", b",x\n2,b,8,8,2"))
    with pytest.raises(TableError, match=r"line 3: t.csv has no row 9"):
        _applied(TABLE, changes.replace(b",x", b",9"))


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_zero_bytes_in_names_and_values_are_listed_and_read_back(tmp_path, suffix):
    path, other = tmp_path / f"t.{suffix}", tmp_path / f"other.{suffix}"
    frame = pl.DataFrame({"a\0": ["x\0y", "u"], "b": ["\0", "v"]})
    frame.write_parquet(path) if suffix == "parquet" else frame.write_ndjson(path)
    table = read_table(str(path))
    names = table.columns
    listed = _listed(table, [(0, names[0], names[1]), (0, names[1], names[0])], "rows")
    assert b"\0" not in listed
    changes = _csv(listed, "changes.csv")
    other.write_bytes(b"".join(table.with_moves(plan_moves(table, changes))))
    moved = read_table(str(other))
    assert moved.frame.row(0) == ("\0", "x\0y")
    back = b"".join(moved.with_moves(plan_moves(moved, changes, undo=True)))
    other.write_bytes(back)
    assert read_table(str(other)).frame.equals(table.frame)
