"""Tables of people who mean harm: escape sequences, formulas, names that are no words."""

import contextlib
import csv
import io
import json
import os
import pty
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from unpermute._shown import shown, shown_json
from unpermute.cli._app import app
from unpermute.files import Changes, CsvStyle, listed_changes, plan_moves, written_changes
from unpermute.files._csv import CsvTable

RED = "\x1b[31mred\x1b[0m"
CLEARS, TURNS, TITLE = "\x9b2J", "a\u202eb", "\x1b]0;mine\x07"


def _run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)), prog_name="unpermute")


@pytest.fixture
def table(tmp_path):
    """A table with a swap, whose names, ids and values hold control characters."""
    rng = np.random.default_rng(0)
    n = 150
    names = [f"id{TITLE}", f"word{RED}", f"amount{CLEARS}", f"day{TURNS}"]
    rows = [
        [f"{i}{RED}", f"{'abcde'[rng.integers(5)]}{CLEARS}x", f"{rng.gamma(3, 40):.2f}",
         f"2020-{rng.integers(1, 13):02}-{rng.integers(1, 29):02}"]
        for i in range(n)
    ]  # fmt: skip
    rows[7][1], rows[7][3] = rows[7][3], rows[7][1]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(",".join(row) for row in [names, *rows]) + "\n")
    return path, names


def _is_harmless(text):
    return re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text) is None


def test_control_characters_never_reach_the_terminal(table):
    path, names = table
    for arguments in (
        ["scan", path, "--id", names[0]],
        ["scan", path, "--id", names[0], "--json"],
        ["repair", path, "--exclude", names[2]],
        ["scan", path, "--columns", f"a{RED}"],
        ["scan", f"{path}{RED}"],
        ["scan", path, "--vectors", "columns"],
        ["audit", path, "--columns", names[2], "--trials", 1],
    ):
        result = _run(*arguments)
        assert result.exit_code in (0, 2), result.stderr
        assert result.stdout + result.stderr
        assert _is_harmless(result.stdout), arguments
        assert _is_harmless(result.stderr), arguments


def test_a_table_on_the_terminal_is_harmless_too(table):
    """In a pipe it is as it is: there it may be the input of another program."""
    path, _ = table
    script = "from unpermute.files._write import OutputFiles as files; import sys\n"
    script += "files(force=False).write('-', [open(sys.argv[1], 'rb').read()])"
    command = [sys.executable, "-c", script, str(path)]
    piped = subprocess.run(command, capture_output=True, check=True).stdout
    assert piped == path.read_bytes()
    master, slave = pty.openpty()
    with subprocess.Popen(command, stdout=slave):
        os.close(slave)
        said = b""
        with contextlib.suppress(OSError):  # Linux ends a terminal so
            while part := os.read(master, 10_000):
                said += part
    os.close(master)
    said = said.decode().replace("\r\n", "\n")
    assert said.count("\n") == 151
    assert _is_harmless(said)


def test_what_is_shown_can_be_recognised(table):
    path, names = table
    said = _run("scan", path, "--id", names[0]).stdout
    assert r"\x9b2J" in said
    found = json.loads(_run("scan", path, "--id", names[0], "--json").stdout)
    assert found["changes"][0]["id"] == f"7{RED}"
    assert {change["column"] for change in found["changes"]} == {names[1], names[3]}


@given(st.text())
def test_json_stays_the_same_json(text):
    assert json.loads(shown_json(json.dumps([text], ensure_ascii=False))) == [text]
    assert _is_harmless(shown(text))


# Spreadsheets

FORMULA = '=HYPERLINK("http://x")'
CELLS = [FORMULA, "+1", "-2", "@SUM(A1)", "'quoted", "'=both", "plain", "", "=", "'"]


def _csv(rows):
    sink = io.StringIO()
    csv.writer(sink, lineterminator="\n").writerows(rows)
    return sink.getvalue().encode()


@given(
    st.lists(st.tuples(*[st.sampled_from(CELLS)] * 3), min_size=2, max_size=6),
    st.permutations(["=a", "+b", "@", "'-c", "n", "-"]).map(lambda names: names[:3]),
)
def test_safe_lists_are_read_back(rows, names):
    source = CsvTable(_csv([names, *rows]), "t.csv", CsvStyle(delimiter=","))
    n = len(rows)
    k, blank = 3 * n, np.full(3 * n, "", dtype=object)
    moves = Changes(
        np.repeat(np.arange(n), 3), np.tile(np.arange(3), n), np.repeat(np.arange(n), 3),
        np.tile([1, 2, 0], n), np.ones(k), np.ones(k), np.ones(k, dtype=bool), blank, blank,
        names=names,
    )  # fmt: skip
    lines = listed_changes(source, moves, [""] * k)
    listed = b"".join(written_changes(lines, for_spreadsheets=True))
    for row in csv.reader(io.StringIO(listed.decode())):
        assert not any(cell[:1] in "=+-@\t\r" for cell in row if cell)
    changes = CsvTable(listed, "changes.csv", CsvStyle(delimiter=","))
    planned = plan_moves(source, changes)
    moved = b"".join(source.with_moves(planned))
    assert moved == b"".join(source.with_moves(moves))
    repaired = CsvTable(moved, "t.csv", CsvStyle(delimiter=","))
    back = plan_moves(repaired, changes, undo=True)
    assert b"".join(repaired.with_moves(back)) == _csv([names, *rows])


def test_the_option_is_honoured_or_refused(table, tmp_path):
    path, _ = table
    result = _run("scan", path, "--safe-for-spreadsheets")
    assert result.exit_code == 2
    assert "--safe-for-spreadsheets is for the list of --changes" in result.stderr
    changes = tmp_path / "c.csv"
    path.write_text(path.read_text().replace("id\x1b", "=id\x1b"))
    assert _run("scan", path, "--changes", changes, "--safe-for-spreadsheets").exit_code == 0
    assert changes.read_text().startswith("line,row,id,column")
