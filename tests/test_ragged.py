"""Lines with one field too many or too few: mended if sure, listed always, undone byte for byte."""

import csv
import io
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from unpermute.cli._app import app
from unpermute.files import CsvStyle, TableError, plan_moves
from unpermute.files._csv import CsvTable

NAMES = ["id", "name", "street", "city", "since", "amount", "pieces", "state"]
WORDS = ["Main", "High", "Park", "Mill", "Oak", "Lake", "Hill", "Rose", "King", "Bridge"]


def _record(rng, i):
    word = lambda: WORDS[rng.integers(len(WORDS))]  # noqa: E731
    return [
        f"C{10_000 + i}",
        f"{word()}son {word()}",
        f"{rng.integers(1, 200)} {word()} Street",
        ["Berlin", "Hamburg", "Leipzig", "Bremen"][rng.integers(4)],
        f"20{rng.integers(10, 24)}-{rng.integers(1, 13):02}-{rng.integers(1, 29):02}",
        f"{rng.gamma(3, 40):.2f}",
        str(rng.integers(1, 30)),
        ["new", "paid", "late"][rng.integers(3)],
    ]


def _broken(seed, n=2000, too_many=0.02, lost=0.01):
    """Return the lines of a table, and what those with other fields ought to hold."""
    rng = np.random.default_rng(seed)
    records = [_record(rng, i) for i in range(n)]
    order = rng.permutation(n).tolist()
    n_many, n_lost = int(too_many * n), int(lost * n)
    wanted = {}
    lines = [list(record) for record in records]
    for row in order[:n_many]:
        j = int(rng.choice([1, 2]))
        lines[row][j] = lines[row][j].replace(" ", ", ", 1)
        wanted[row] = list(lines[row])
    for row in order[n_many : n_many + n_lost]:
        j = int(rng.integers(len(NAMES)))
        wanted[row] = [*lines[row][:j], "", *lines[row][j + 1 :]]
        del lines[row][j]
    # Nothing can be said about a line that differs by more.
    lines[order[-1]] = lines[order[-1]][:3]
    text = "".join(",".join(line) + "\n" for line in [NAMES, *lines])
    return text, wanted, order[-1]


def _run(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)), prog_name="unpermute")
    assert result.exit_code == 0, result.stderr
    return result.stdout


def _rows(text):
    return list(csv.reader(io.StringIO(text)))[1:]


def test_broken_lines_are_mended_and_undone(tmp_path):
    text, wanted, hopeless = _broken(0)
    table, output = tmp_path / "t.csv", tmp_path / "out.csv"
    changes, again = tmp_path / "changes.csv", tmp_path / "again.csv"
    table.write_text(text)
    said = json.loads(_run("repair", table, "-o", output, "--changes", changes, "--json"))
    before, after = _rows(text), _rows(output.read_text())
    restored = sum(after[row] == right for row, right in wanted.items())
    left = sum(after[row] == before[row] for row in wanted)
    assert restored + left == len(wanted) == 60
    assert restored >= 54
    assert all(a == b for row, (a, b) in enumerate(zip(before, after, strict=True))
               if row not in wanted)  # fmt: skip
    listed = {line["row"]: line for line in said["ragged_lines"]}
    assert set(listed) == {*wanted, hopeless}
    assert listed[hopeless]["accept"] == "no"
    assert all(line["line"] == row + 2 for row, line in listed.items())
    _run("apply", output, changes, "--undo", "-o", again)
    assert again.read_text() == text
    _run("apply", table, changes, "-o", again, "--force")
    assert again.read_bytes() == output.read_bytes()


def test_the_column_that_names_records_takes_no_part_of_another(tmp_path):
    """It is not judged with the others, and was joined with anything at no cost."""
    text = _broken(0)[0].splitlines()
    records = [line for line in text[1:] if line.count(",") == text[0].count(",")]
    name = records[20].split(",")[1]
    records[20] = records[20].replace(name, f"{name}, the northern", 1)
    lines = [f"c{k:04},{line}" for k, line in enumerate(records)]
    table = tmp_path / "t.csv"
    table.write_text("\n".join(["key," + text[0], *lines]) + "\n")
    [line] = json.loads(_run("scan", table, "--id", "key", "--json"))["ragged_lines"]
    assert line["column"] == NAMES[1]


def test_people_are_told(tmp_path):
    table = tmp_path / "t.csv"
    text, _, hopeless = _broken(1, n=300)
    table.write_text(text)
    said = " ".join(_run("scan", table).split())
    assert "10 lines with another number of fields than the 8 of the header" in said
    assert f"line {hopeless + 2}: 3 fields; left as it is" in said
    result = CliRunner().invoke(app, ["scan", str(table), "--fail-on-found"])
    assert result.exit_code == 1


def test_what_nobody_can_know_is_left_alone(tmp_path):
    """All columns are alike: a lost value may have stood anywhere."""
    rng = np.random.default_rng(0)
    lines = [",".join(f"{v:.2f}" for v in rng.normal(size=5)) for _ in range(300)]
    lines[7] = lines[7].rsplit(",", 1)[0]
    text = "a,b,c,d,e\n" + "\n".join(lines) + "\n"
    (tmp_path / "t.csv").write_text(text)
    _run("repair", tmp_path / "t.csv", "-o", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == text


def test_without_a_model_of_records_lines_are_listed(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{v:.2f},{2 * v:.2f},{3 * v:.2f}" for v in rng.normal(size=100)]
    lines[7] += ",1"
    (tmp_path / "t.csv").write_text("a,b,c\n" + "\n".join(lines) + "\n")
    said = " ".join(_run("scan", tmp_path / "t.csv", "--vectors", "columns").split())
    assert "1 line with another number of fields than the 3 of the header: 0 can" in said
    assert "line 9: 4 fields; left as it is" in said


# Lists of changes

TABLE = b'a,b,c\n1,x,2\n3,y, z,4\n5,6\n7,"v ""w""",8\n'
HEADER = "row,column,old,new,moved_from\n"


def _table(raw=TABLE, name="t.csv", **style):
    return CsvTable(raw, name, CsvStyle(delimiter=",", **style))


def _applied(lines, raw=TABLE, undo=False):
    source = _table(raw)
    moves = plan_moves(source, _table((HEADER + lines).encode(), "c.csv"), undo=undo)
    return b"".join(source.with_moves(moves))


@pytest.mark.parametrize(
    ("lines", "result"),
    [
        ('1,b,y,"y, z",(join)\n', TABLE.replace(b"y, z", b'"y, z"')),
        ('1,a,3,"3,y",(join)\n', TABLE.replace(b"3,y,", b'"3,y",')),
        ('1,c, z," z,4",(join)\n', TABLE.replace(b" z,4", b'" z,4"')),
        ("2,a,5,,(insert)\n", TABLE.replace(b"5,6", b",5,6")),
        ("2,b,6,,(insert)\n", TABLE.replace(b"5,6", b"5,,6")),
        ("2,c,,,(insert)\n", TABLE.replace(b"5,6", b"5,6,")),
        (
            '1,b,y,"y, z",(join)\n2,a,5,,(insert)\n0,a,1,2,c\n0,c,2,1,a\n',
            TABLE.replace(b"y, z", b'"y, z"').replace(b"5,6", b",5,6").replace(b"1,x,2", b"2,x,1"),
        ),
    ],
)
def test_lists_are_replayed_and_undone(lines, result):
    assert _applied(lines) == result
    assert _applied(lines, result, undo=True) == TABLE


@pytest.mark.parametrize("name", ["(join)", "(insert)"])
def test_columns_may_be_called_like_what_mends_a_line(name):
    """Then lines are not mended, and these words are names."""
    raw = f"a,{name}\n1,2\n".encode()
    line = f"0,a,1,2,{name}\n0,{name},2,1,a\n"
    moved = _applied(line, raw)
    assert moved == f"a,{name}\n2,1\n".encode()
    assert _applied(line, moved, undo=True) == raw


def test_quotes_in_the_middle_come_back():
    raw = b'a,b\n1,2\n5" disk, large,3\n'
    line = '1,a,"5"" disk","5"" disk, large",(join)\n'
    joined = _applied(line, raw)
    assert joined == b'a,b\n1,2\n"5"" disk, large",3\n'
    assert _applied(line, joined, undo=True) == raw


def test_other_encodings_and_line_ends_stay():
    raw = "a;b\r\n1;2\r\nä; ö;3\r\n".encode("latin-1")
    source = CsvTable(raw, "t.csv", CsvStyle(delimiter=";", encoding="latin-1"))
    lines = HEADER + "1,a,ä,ä; ö,(join)\n"
    moves = plan_moves(source, _table(lines.encode(), "c.csv"))
    assert b"".join(source.with_moves(moves)) == raw.replace(b"\xe4; \xf6", b'"\xe4; \xf6"')


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('0,b,y,"y, z",(join)\n', "row 0 of t.csv does not have 4 fields"),
        ("1,b,y,,(insert)\n", "row 1 of t.csv does not have 2 fields"),
        ('1,b,q,"q, z",(join)\n', "should hold 'q', but holds 'y'"),
        ('1,b,y,"y, q",(join)\n', "should hold 'y, q', but holds 'y, z'"),
        ('1,b,y,"y, z",(join)\n1,a,3,"3,y",(join)\n', "made regular a second time"),
        ("1,zz,y,y,(join)\n", "no column 'zz'"),
        ("1,a,3,y,b\n1,b,y,3,a\n", r"row 1 of t.csv \(line 3\) has another number of fields"),
        ("0,a,1,3,1\n1,a,3,1,0\n", "has another number of fields"),
        ("0,a,1,2,c\n0,c,2,1,a\n1,b\n", "another number of fields than the 5 names"),
    ],
)
def test_lists_that_do_not_fit_are_refused(lines, said):
    with pytest.raises(TableError, match=said):
        _applied(lines)


@pytest.mark.parametrize("line", ['0,b,x,"x, z",(join)\n', "0,a,x,,(insert)\n"])
def test_what_was_not_mended_is_not_undone(line):
    with pytest.raises(TableError, match="was not made regular by this list"):
        _applied(line, undo=True)


def test_fields_in_quotes_are_not_joined():
    raw = b'a,b\n1,2\n"x","y",3\n'
    with pytest.raises(TableError, match="fields in quotes cannot be joined"):
        _applied('1,a,x,"x,y",(join)\n', raw)
