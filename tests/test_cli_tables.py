"""The commands for tables: what they print, what they write, and what they refuse."""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from rich.console import Console
from typer.testing import CliRunner

from unpermute.cli._app import app
from unpermute.cli._options import Choice, Learning, Reading, Vectors, given, split_names
from unpermute.cli._show import Screen, as_json
from unpermute.table import scan

SWAPPED = [3, 17, 40, 41, 99, 120, 150, 188]
COMMANDS = ["scan", "repair", "apply", "audit"]


def _run(*arguments, stdin=None):
    # The same text whatever terminal, width or continuous integration the tests run in.
    env = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100", "GITHUB_ACTIONS": None}
    arguments = [str(each) for each in arguments]
    return CliRunner().invoke(app, arguments, prog_name="unpermute", env=env, input=stdin)


def _records(seed=0, n=240):
    """Records with two degrees of freedom, columns with units and decimal places of their own."""
    rng = np.random.default_rng(seed)
    size, shape = rng.normal(size=(2, n))
    columns = [
        170 + 9 * size,
        70 + 12 * size + 3 * shape,
        0.9 + 0.05 * shape,
        1013 - 40 * shape + 10 * size,
        5 + 0.6 * size - 0.5 * shape,
        20_000 + 3_000 * size + 500 * shape,
    ]
    noise = 0.02 * rng.normal(size=(len(columns), n))
    places = [1, 1, 3, 1, 2, 0]
    return [
        [
            f"{value + each * column.std():.{place}f}"
            for value, each in zip(column, own, strict=True)
        ]
        for column, own, place in zip(columns, noise, places, strict=True)
    ]


def _text(columns, end="\r\n"):
    names = ["id", '"word, said"', *"abcdef"]
    lines = [",".join(names)]
    for row, values in enumerate(zip(*columns, strict=True)):
        lines.append(",".join([f"{row:04d}", '"=cmd ""x"""', *values]))
    return end.join(lines) + end


@pytest.fixture(scope="module")
def clean():
    return _text(_records())


@pytest.fixture(scope="module")
def damaged():
    columns = _records()
    for row in SWAPPED:
        columns[0][row], columns[4][row] = columns[4][row], columns[0][row]
    return _text(columns)


@pytest.fixture
def table(tmp_path, damaged):
    path = tmp_path / "t.csv"
    path.write_bytes(damaged.encode())
    return path


@pytest.fixture(scope="module")
def repaired(tmp_path_factory, damaged):
    """One repair with everything that it can write."""
    folder = tmp_path_factory.mktemp("repaired")
    (folder / "t.csv").write_bytes(damaged.encode())
    names = {"-o": "out.csv", "--changes": "changes.csv", "--save-model": "learned.model"}
    options = [word for name, path in names.items() for word in (name, folder / path)]
    result = _run("repair", folder / "t.csv", "--id", "id", *options)
    assert result.exit_code == 0, result.output
    return SimpleNamespace(folder=folder, stdout=result.stdout)


# Scan


def test_scan_says_what_it_found_and_what_to_do_next(table):
    result = _run("scan", table, "--id", "id")
    assert result.exit_code == 0, result.output
    assert "0017" in result.stdout
    assert f"unpermute repair {table} --id id -o" in result.stdout
    assert list(table.parent.iterdir()) == [table]


def test_scan_as_json_is_one_object(table):
    result = _run("scan", table, "--id", "id", "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 0
    assert found["command"] == "scan"
    assert set(SWAPPED) <= {vector["row"] for vector in found["vectors"]}
    assert found["summary"]["n_suspicious"] == len(found["vectors"])
    assert isinstance(found["summary"]["sentence"], str)


def test_fail_on_found_is_the_exit_code(table):
    assert _run("scan", table, "--fail-on-found").exit_code == 1
    assert _run("repair", table, "--fail-on-found", "--json").exit_code == 1
    table.write_bytes(_text(_records(seed=2)).encode())
    assert _run("scan", table, "--fail-on-found", "--id", "id").exit_code == 0


def test_scan_can_list_its_proposals(table, repaired):
    path = table.parent / "changes.csv"
    assert _run("scan", table, "--id", "id", "--changes", path).exit_code == 0
    assert path.read_bytes() == (repaired.folder / "changes.csv").read_bytes()


# Repair


def test_a_repair_moves_the_swapped_cells_and_nothing_else(repaired, clean, damaged):
    before, right = damaged.splitlines(), clean.splitlines()
    after = (repaired.folder / "out.csv").read_bytes().decode().splitlines()
    changed = [k for k in range(len(before)) if before[k] != after[k]]
    assert len(after) == len(before)
    assert {k - 1 for k in changed} <= set(SWAPPED)
    assert len(changed) >= len(SWAPPED) - 1
    assert [after[k] for k in changed] == [right[k] for k in changed]
    n_cells = 2 * len(changed)
    assert f"with {n_cells} cells moved, and nothing else" in " ".join(repaired.stdout.split())


def test_the_list_of_changes_has_the_texts_of_the_table(repaired):
    frame = pl.read_csv(repaired.folder / "changes.csv", infer_schema=False)
    names = ["line", "row", "id", "column", "old", "new", "moved_from", "accept"]
    assert frame.columns[:8] == names
    assert set(frame["accept"]) == {"yes"}
    first = frame.filter(pl.col("row") == "3").sort("column").rows(named=True)
    assert [line["column"] for line in first] == ["a", "e"]
    assert (first[0]["id"], first[0]["line"]) == ("0003", "5")
    assert (first[0]["old"], first[0]["new"]) == (first[1]["new"], first[1]["old"])
    assert float(first[0]["confidence"]) >= 0.95


def test_apply_undo_restores_every_byte(repaired, tmp_path, damaged):
    changes, out = repaired.folder / "changes.csv", tmp_path / "back.csv"
    result = _run("apply", repaired.folder / "out.csv", changes, "--undo", "-o", out)
    assert result.exit_code == 0, result.output
    assert out.read_bytes() == damaged.encode()
    result = _run("apply", out, changes, "-o", tmp_path / "again.csv", "--json")
    n_listed = pl.read_csv(changes).height
    assert json.loads(result.stdout)["n_moved_cells"] == n_listed
    assert (tmp_path / "again.csv").read_bytes() == (repaired.folder / "out.csv").read_bytes()


def test_apply_without_output_only_checks(repaired):
    result = _run("apply", repaired.folder / "t.csv", repaired.folder / "changes.csv")
    assert result.exit_code == 0
    assert "The list fits" in result.stdout


def test_apply_obeys_the_column_accept(repaired, tmp_path, damaged):
    frame = pl.read_csv(repaired.folder / "changes.csv", infer_schema=False)
    refused = pl.when(pl.col("row") == "3").then(pl.lit("no")).otherwise(pl.col("accept"))
    frame.with_columns(accept=refused).write_csv(tmp_path / "edited.csv")
    out = tmp_path / "out.csv"
    result = _run("apply", repaired.folder / "t.csv", tmp_path / "edited.csv", "-o", out)
    assert result.exit_code == 0, result.output
    before, after = damaged.splitlines(), out.read_bytes().decode().splitlines()
    whole = (repaired.folder / "out.csv").read_bytes().decode().splitlines()
    assert after[4] == before[4]
    assert after[5:] == whole[5:]


def _half_exchanged(path):
    """Words and colours, exchanged in the second half; the clean lines are returned."""
    rng = np.random.default_rng(0)
    rows = [
        [rng.choice(["ant", "bee", "cow", "dog", "eel"]), rng.choice(["red", "blue", "tan", "sky"]),
         str(rng.integers(10, 99)), f"{rng.normal(5, 1):.2f}"]
        for _ in range(200)
    ]  # fmt: skip
    clean = ["animal,colour,n,x", *(",".join(row) for row in rows)]
    turned = [*rows[:100], *([row[1], row[0], *row[2:]] for row in rows[100:])]
    path.write_text("\n".join(["animal,colour,n,x", *(",".join(row) for row in turned)]))
    return "\n".join(clean)


def test_a_question_has_a_command_for_either_answer(tmp_path):
    path, out = tmp_path / "half.csv", tmp_path / "out.csv"
    clean = _half_exchanged(path)
    said = " ".join(_run("scan", path).stdout.split())
    assert "animal and colour seem to be exchanged between line" in said
    assert "--exchange animal,colour:2-101" in said
    assert "--exchange animal,colour:102-201" in said
    _run("repair", path, "--report", tmp_path / "asked.html")
    page = (tmp_path / "asked.html").read_text()
    assert "If animal and colour are exchanged in these lines" in page
    assert "--exchange animal,colour:102-201" in page
    assert "Nothing needs to be done now" not in page
    asked = json.loads(_run("scan", path, "--json").stdout)["summary"]["questions"]
    assert [question["columns"] for question in asked] == [["animal", "colour"]]
    result = _run("repair", path, "--exchange", "animal,colour:102-201", "-o", out)
    assert result.exit_code == 0, result.output
    assert out.read_text() == clean


def test_a_scattered_question_is_answered_by_a_line_that_is_right(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "half.csv"
    clean = _half_exchanged(path)
    head, *turned = path.read_text().split("\n")
    order = np.random.default_rng(0).permutation(len(turned))
    path.write_text("\n".join([head, *(turned[k] for k in order)]))
    scanned = _run("scan", "half.csv", "--fail-on-found")
    said = " ".join(scanned.stdout.split())
    assert scanned.exit_code == 1
    assert "animal and colour seem to be exchanged in 50% of the lines, scattered" in said
    asked = json.loads(_run("scan", "half.csv", "--json").stdout)["questions"]
    truth = clean.split("\n")
    wanted = [truth[0], *(truth[1:][k] for k in order)]
    fixed = []
    for reading in asked[0]["readings"]:
        assert reading["command"] in said
        words = shlex.split(reading["command"])[1:]
        assert _run(*words, "--force").exit_code == 0
        fixed.append((tmp_path / "half.repaired.csv").read_text().split("\n") == wanted)
    assert sorted(fixed) == [False, True]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("animal,colour", "must name two columns and two lines"),
        ("animal:2-5", "must name two columns and two lines"),
        ("animal,colour:7", "as in a,b:unlike-7"),
        ("animal,colour:unlike-7-9", "as in a,b:unlike-7"),
        ("animal,color:2-5", "did you mean 'colour'"),
        ("animal,colour:900-901", "has no records on these lines"),
    ],
)
def test_an_exchange_that_cannot_be_meant_is_refused(tmp_path, text, said):
    path = tmp_path / "half.csv"
    _half_exchanged(path)
    result = _run("scan", path, "--exchange", text)
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())


def test_uncertain_records_and_trials_are_shown(tmp_path):
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(300, 5)) * [1, 2, 4, 8, 16] + rng.normal(size=(300, 1)), 1)
    for r in range(60):
        i, j = rng.choice(5, 2, replace=False)
        X[r, [i, j]] = X[r, [j, i]]
    path = tmp_path / "unsure.csv"
    pl.DataFrame(X, schema=list("abcde")).write_csv(path)
    content = json.loads(_run("scan", path, "--json").stdout)
    assert content["summary"]["n_uncertain"] > 0
    unsure = next(each for each in content["vectors"] if each["status"] == "uncertain")
    listed = [each for each in content["changes"] if each["line"] == unsure["line"]]
    assert {each["accept"] for each in listed} == {"no"}
    assert all(each["old"] != each["new"] and each["evidence"] for each in listed)
    said = " ".join(_run("scan", path).stdout.split())
    assert f"line {unsure['line']}:" in said
    assert re.search(r"Tried on \d+ records damaged on purpose: \d+ would be changed", said)


def test_a_file_in_any_format_and_a_frame_give_the_same_answer(tmp_path):
    rng = np.random.default_rng(1)
    frame = pl.DataFrame(
        {
            "name": rng.choice(["Ada", "Bo", "Cleo", "Dan", "Eve"], 300),
            "town": rng.choice(["Bonn", "Kiel", "Ulm", "Trier"], 300),
            "n": rng.integers(1, 40, 300),
            "x": rng.normal(5, 1, 300).round(2),
            "day": (np.datetime64("2024-01-01") + rng.integers(0, 300, 300)).astype(str),
        }
    )
    name, town = frame["name"].to_list(), frame["town"].to_list()
    for r in (4, 50, 200):
        name[r], town[r] = town[r], name[r]
    frame = frame.with_columns(pl.Series("name", name), pl.Series("town", town))
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    frame.write_ndjson(tmp_path / "t.jsonl")
    answers = [json.loads(_run("scan", tmp_path / f"t.{kind}", "--json").stdout)
               for kind in ("csv", "parquet", "jsonl")]  # fmt: skip
    kept = ("row", "column", "moved_from", "damaged", "confidence", "accept", "evidence")
    cells = [[[change[name] for name in kept] for change in answer["changes"]]
             for answer in answers]  # fmt: skip
    assert len(cells[0]) == 6
    assert cells[0] == cells[1] == cells[2]
    result = scan(frame.to_pandas())
    assert result.proposals[list(kept)].to_numpy().tolist() == cells[0]


def test_a_table_of_ten_thousand_columns_is_answered_soon(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "wide.csv"
    names = [f"c{j}" for j in range(10_000)]
    pl.DataFrame(rng.normal(size=(10, 10_000)).round(6), schema=names).write_csv(path)
    assert _run("scan", path).exit_code == 0  # compiles
    start = time.process_time()
    result = _run("scan", path)
    assert time.process_time() - start < 2
    assert "not judged" in result.stdout


def test_the_kind_of_a_column_can_be_given(table):
    said = " ".join(_run("scan", table, "--kind", "a=text,b=category", "--kind", "c=ignore").stdout
                    .split())  # fmt: skip
    assert "number (d, e, f)" in said
    assert "text (a)" in said
    assert "category (b)" in said
    assert "c (it is to be ignored)" in said
    for text, message in (("a", "must name a column and one of number, date"),
                          ("a=colour", "must name a column and one of number, date"),
                          ("z=text", "'z'")):  # fmt: skip
        refused = _run("scan", table, "--kind", text)
        assert refused.exit_code == 2
        assert message in " ".join(refused.output.split())


def test_scan_says_which_columns_were_judged_and_why_not(table):
    said = " ".join(_run("scan", table, "--id", "id").stdout.split())
    assert "Columns judged as number (a, b, c, d, e, f)." in said
    assert "word, said (all its values are equal)" in said
    assert "id (it names the records)" in said
    assert "never occurs in" in said
    record = json.loads(_run("scan", table, "--json").stdout)["vectors"][0]
    assert record["line"] == record["row"] + 2
    assert {"damaged", "confidence", "columns", "evidence"} <= set(record)


def test_an_edited_list_that_would_lose_a_value_is_refused(repaired, tmp_path):
    lines = (repaired.folder / "changes.csv").read_text().splitlines(keepends=True)
    (tmp_path / "edited.csv").write_text("".join(lines[:-1]))
    result = _run(
        "apply", repaired.folder / "t.csv", tmp_path / "edited.csv", "-o", tmp_path / "out.csv"
    )
    assert result.exit_code == 2
    assert "would be lost" in result.stderr
    assert not (tmp_path / "out.csv").exists()


def test_a_kept_model_repairs_other_tables(repaired, tmp_path):
    columns = _records(seed=1, n=12)
    right = _text(columns)
    columns[0][5], columns[4][5] = columns[4][5], columns[0][5]
    (tmp_path / "new.csv").write_bytes(_text(columns).encode())
    model = repaired.folder / "learned.model"
    result = _run("repair", tmp_path / "new.csv", "--model", model, "-o", tmp_path / "out.csv")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out.csv").read_bytes().decode() == right
    result = _run("scan", tmp_path / "new.csv", "--model", model, "--columns", "a,b")
    assert result.exit_code == 2
    assert "was learned from the columns a, b, c, d, e, f; leave out" in result.stderr


def test_without_output_nothing_is_written(table):
    result = _run("repair", table)
    assert result.exit_code == 0
    assert "Dry run" in result.stdout
    assert list(table.parent.iterdir()) == [table]


def test_existing_files_need_force(table, damaged):
    result = _run("repair", table, "-o", table)
    assert result.exit_code == 2
    assert "is the input itself; --force" in result.stderr
    assert table.read_bytes() == damaged.encode()
    assert _run("repair", table, "-o", table, "--force").exit_code == 0
    assert table.read_bytes() != damaged.encode()
    assert len(table.read_bytes()) == len(damaged.encode())


def test_the_report_is_written(table):
    pytest.importorskip("unpermute.report")
    report = table.parent / "report.html"
    result = _run("repair", table, "--report", report)
    assert result.exit_code == 0, result.output
    html = report.read_text(encoding="utf-8")
    assert html.lstrip().lower().startswith("<!doctype html>")
    assert "t.csv" in html


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "npy", "tsv", "arrow"])
def test_every_format_is_repaired(tmp_path, suffix):
    columns = _records()
    for row in SWAPPED:
        columns[0][row], columns[4][row] = columns[4][row], columns[0][row]
    frame = pl.DataFrame(
        {name: map(float, column) for name, column in zip("abcdef", columns, strict=True)}
    )
    path, out = tmp_path / f"t.{suffix}", tmp_path / f"out.{suffix}"
    writers = {
        "parquet": frame.write_parquet,
        "arrow": frame.write_ipc,
        "jsonl": frame.write_ndjson,
        "npy": lambda path: np.save(path, frame.to_numpy()),
        "tsv": lambda path: frame.write_csv(path, separator="\t"),
    }
    writers[suffix](path)
    result = _run("repair", path, "-o", out, "--changes", tmp_path / "c.csv", "--json")
    assert result.exit_code == 0, result.output
    moved = {change["row"] for change in json.loads(result.stdout)["changes"]}
    assert len(moved & set(SWAPPED)) >= len(SWAPPED) - 1
    back = tmp_path / f"back.{suffix}"
    assert _run("apply", out, tmp_path / "c.csv", "--undo", "-o", back).exit_code == 0
    if suffix in ("jsonl", "npy", "tsv"):
        assert back.read_bytes() == path.read_bytes()


def _odd_tables():
    rows = [list(row) for row in zip(*_records(n=120), strict=True)]
    rows[3][0], rows[3][4] = rows[3][4], rows[3][0]
    odd = [list(row) for row in rows]
    odd[5][1], odd[6][1], odd[7][1], odd[8][2], odd[9][0] = "inf", "-inf", "1e300", "abc", "=cmd"
    german = [
        [f"{float(text):,.3f}".translate(str.maketrans(",.", ".,")) for text in row] for row in rows
    ]
    yield "null", ["ä,β,空,d,e,f,leer", *(",".join(row) + "," for row in rows)], []
    yield "odd", ["a,b,c,d,e,f", *map(",".join, odd)], []
    yield "no header", [*map(",".join, rows)], ["--no-header"]
    yield "comma", ["a;b;c;d;e;f", *map(";".join, german)], ["--decimal", ","]


@pytest.mark.parametrize(
    ("lines", "options"),
    [case[1:] for case in _odd_tables()],
    ids=[case[0] for case in _odd_tables()],
)
def test_odd_tables_are_repaired(tmp_path, lines, options):
    path, out = tmp_path / "t.csv", tmp_path / "out.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    result = _run("repair", path, "-o", out, *options)
    assert result.exit_code == 0, result.output
    after = out.read_text(encoding="utf-8").split("\n")
    changed = [row for row, line in enumerate(lines) if line != after[row]]
    first = 3 if "--no-header" in options else 4
    assert first in changed
    assert sorted(after[first]) == sorted(lines[first])


def test_columns_mode_relinks_a_shuffled_column(tmp_path):
    columns = _records()
    order = np.random.default_rng(1).permutation(60)
    columns[5][:60] = [columns[5][row] for row in order]
    path = tmp_path / "t.csv"
    path.write_bytes(_text(columns).encode())
    result = _run("scan", path, "--vectors", "columns", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert all(isinstance(change["moved_from"], int) for change in found["changes"])


# Audit


def test_audit_says_how_much_can_be_undone(table, clean):
    table.write_bytes(clean.encode())
    result = _run("audit", table, "--columns", "e,f", "--trials", "3", "--together")
    assert result.exit_code == 0, result.output
    assert "baseline" in result.stdout
    found = json.loads(_run("audit", table, "--columns", "f", "--trials", "2", "--json").stdout)
    assert found["command"] == "audit"
    assert found["measures"]
    assert "Of the moved rows of f, " in found["summary"]["sentence"]


# Refusals: one sentence, exit code 2, nothing written


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.csv", b"", "is empty"),
        ("t.csv", b"a,b\n", "has no rows"),
        ("t.csv", b"a,b\n1,2\n", "has one row"),
        ("t.csv", b"a,b,a\n1,2,3\n4,5,6\n", "two columns called 'a'"),
        ("t.csv", b"a,b\n1,2\n3\n4\n", "line 3"),
        ("t.csv", b"\x89PNG\r\n\x1a\n\0", "not a table in text"),
        ("t.parquet", b"PAR1", "not a complete Parquet file"),
        ("t.npy", b"\x93NUMPY", "not a NumPy file"),
        ("t.jsonl", b'{"a": 1}\n{"a"\n', "line 2"),
        ("t.xls", b"a,b\n", "does not tell the format"),
    ],
)
@pytest.mark.parametrize("command", ["scan", "repair"])
def test_bad_tables_are_refused(tmp_path, command, name, content, said):
    path = tmp_path / name
    path.write_bytes(content)
    output = ["-o", str(tmp_path / "out.csv"), "--changes", str(tmp_path / "c.csv")]
    if name not in ("t.csv", "t.xls"):
        output[1] = str(tmp_path / f"out{path.suffix}")
    result = _run(command, path, *(output if command == "repair" else []))
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--columns", "a,bb"], "no column 'bb'; did you mean 'b'?"),
        (["--id", "ID"], "no column 'ID'"),
        (["--exclude", "zz"], "no column 'zz'; its columns are 'id', 'word, said', 'a'"),
        (["--blocks", "zz"], "no column 'zz'"),
        (["--groups", "zz"], "no column 'zz'"),
        (["--vectors", "columns", "--groups", "a,b;zz"], "no column 'zz'"),
        (["--reference", "none.csv"], "none.csv cannot be read"),
        (["--model", "none.model"], "none.model cannot be read"),
        (["--delimiter", "::"], "delimiter must be one ASCII character"),
        (["--encoding", "klingon"], "encoding 'klingon' is not the name of an encoding"),
        (["--changes", "none/c.csv"], "there is no directory"),
        (["--changes", "-", "--json"], "cannot both go to standard output"),
    ],
)
def test_bad_options_are_refused(table, options, said):
    result = _run("scan", table, *options)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert list(table.parent.iterdir()) == [table]


def test_a_file_that_is_no_model_is_refused(table):
    result = _run("scan", table, "--model", table)
    assert result.exit_code == 2
    assert "is not a model that --save-model has written" in result.stderr


def test_an_empty_folder_and_a_missing_file_are_refused(tmp_path):
    assert "holds no Parquet or CSV files" in _run("scan", tmp_path).stderr
    assert "No such file" in _run("scan", tmp_path / "none.csv").stderr


def test_files_are_not_converted(table):
    result = _run("repair", table, "-o", table.with_suffix(".parquet"))
    assert result.exit_code == 2
    assert "files are not converted" in result.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_leaves_nothing_behind(table):
    changes = table.parent / "changes.csv"
    result = _run("repair", table, "--changes", changes, "-o", "/dev/full")
    assert result.exit_code == 2
    assert result.stderr == "/dev/full cannot be written: No space left on device.\n"
    assert list(table.parent.iterdir()) == [table]


def test_an_output_without_permission_is_refused(table, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    result = _run("repair", table, "-o", table.parent / "out.csv")
    assert result.exit_code == 2
    assert "no permission to write in" in result.stderr


# Pipes, help, words


def _shell(*arguments, **options):
    env = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "TTY_COMPATIBLE")}
    command = [sys.executable, "-m", "unpermute", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=False, env=env, **options)


def test_a_pipe_in_and_out(repaired, damaged):
    result = _shell("repair", "-", "-o", "-", input=damaged.encode())
    assert result.returncode == 0, result.stderr
    assert result.stdout == (repaired.folder / "out.csv").read_bytes()
    assert b"Traceback" not in result.stderr
    assert b"\x1b[" not in result.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples_and_groups(command):
    result = _run(command, "--help")
    assert result.exit_code == 0
    assert re.search(rf"^ +unpermute {command} \S+", result.stdout, re.MULTILINE)
    assert "Exits with 0" in result.stdout
    assert "Reading the table" in result.stdout


def test_completion_can_be_installed():
    assert "--install-completion" in _run("--help").stdout


def test_given_options_can_be_repeated():
    groups = Reading(na=["x", "y"], no_header=True), Choice(vectors=Vectors.columns), Learning()
    assert given(*groups) == ["--na", "x", "--na", "y", "--no-header", "--vectors", "columns"]
    assert split_names(None) is None


def _result(**vectors):
    summary = {"sentence": "s", "n_suspicious": 1, "n_moved_cells": 0, "notes": ["[b]n[/b]"]}
    summary["vectors"] = "rows"
    vector = {"vector": "[red]x", "row": None, "score": 1.0, "status": "uncertain"}
    vector |= {"confidence": 0.9999, "moved": 0, "cause": None} | vectors
    return SimpleNamespace(summary=summary, vectors=pl.DataFrame([vector]), changes=pl.DataFrame())


def test_values_of_the_table_are_no_markup(capsys):
    Screen().scanned(_result(), "t.csv", [])
    said = capsys.readouterr().out
    assert "[red]x" in said
    assert "[b]n[/b]" in said
    assert "0.999" in said
    assert "--reference" in said


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_screen_may_be_narrow(width, capsys):
    screen = Screen()
    screen._console = Console(width=width, highlight=False)
    screen.scanned(_result(vector="x" * 60, cause="two fields swapped"), "t.csv", [])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= width


def test_json_has_no_nan():
    text = as_json(
        "scan", "t.csv", _result(score=float("nan"), confidence=float("inf")), n=np.int64(3)
    )
    assert json.loads(text)["vectors"][0]["score"] is None
    assert json.loads(text)["n"] == 3


def test_nothing_of_the_table_layer_is_loaded_for_help():
    code = "import sys; from unpermute.cli._app import app; print('polars' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout == "False\n"
