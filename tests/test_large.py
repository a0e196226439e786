"""Tables larger than memory: the same answers in pieces, blocks and threads, and after a kill."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unpermute import large, on_progress
from unpermute.files import CsvStyle, TableError
from unpermute.large import _csv, _parquet
from unpermute.table import TableModel, learn, learn_sample, scan

N = 2400


def _records(n=N, seed=0, damaged=0.03):
    """Records with numbers, gaps, categories, codes, money and dates, some of them damaged."""
    rng = np.random.default_rng(seed)
    size = rng.normal(170, 10, n)
    columns = {
        "size": [f"{x:.1f}" for x in size],
        "weight": [f"{x:.1f}" for x in size * 0.45 + rng.normal(0, 3, n)],
        "age": [str(x) if x > 20 else None for x in rng.integers(18, 90, n)],
        "city": rng.choice(["Bonn", "Köln", "Trier", "Ulm"], n).tolist(),
        "code": [f"{a:05d}-{b}" for a, b in zip(rng.integers(0, 99999, n),
                                                 rng.choice(list("ABC"), n), strict=True)],
        "price": [f"€{x:.2f}" for x in rng.lognormal(3, 1, n)],
        "day": [f"2024-{m:02d}-{d:02d}" for m, d in zip(rng.integers(1, 13, n),
                                                        rng.integers(1, 29, n), strict=True)],
    }  # fmt: skip
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    for r in np.flatnonzero(rng.random(n) < damaged):
        a, b = rng.choice(len(columns), 2, replace=False)
        rows[r][a], rows[r][b] = rows[r][b], rows[r][a]
    return pl.DataFrame(rows, schema=list(columns), orient="row")


def _numbers(n=N, seed=0, damaged=0.03):
    """Numbers that depend on each other, with a name for every record."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) @ rng.normal(size=(2, 5)) * [1, 10, 3, 0.5, 30] + [5, 90, 0, 2, 400]
    X = np.round(X + 0.05 * rng.normal(size=X.shape) * X.std(axis=0), 3)
    for r in np.flatnonzero(rng.random(n) < damaged):
        a, b = rng.choice(5, 2, replace=False)
        X[r, [a, b]] = X[r, [b, a]]
    frame = pl.DataFrame(X, schema=list("abcde"))
    return frame.with_columns(name=pl.Series([f"r{k}" for k in range(n)]))


def _write_parts(frame, folder, cuts):
    folder.mkdir(parents=True)
    for k, (start, stop) in enumerate(zip([0, *cuts], [*cuts, frame.height], strict=True)):
        frame[start:stop].write_parquet(folder / f"part{k:03d}.parquet")
    return folder


def _read(folder):
    paths = [path for path in sorted(folder.rglob("*.parquet")) if "_changes" not in path.parts]
    return pl.concat([pl.read_parquet(path) for path in paths])


def _content(folder):
    """All files that a run has written, but for the times of its inputs."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "_unpermute.json"
    }


@pytest.fixture(scope="module")
def mixed():
    """A mixed table, a model that was learned from a part of it, and its answers."""
    frame = _records()
    model = learn_sample(frame[:1200], n_learned=800).model
    return frame, model, model.repair(frame, adapt=False)


def test_a_model_repairs_records_alone(mixed):
    _frame, _, found = mixed
    truth = _records(damaged=0.0)
    assert found.summary["n_repaired"] > 40
    # What was changed is now right, in nearly all cells.
    rows = found.changes["row"].unique().to_list()
    same = [a == b for a, b in zip(found.frame[rows].rows(), truth[rows].rows(), strict=True)]
    assert np.mean(same) > 0.95


@settings(max_examples=8)
@given(cuts=st.lists(st.integers(0, 400), max_size=5).map(sorted), n_jobs=st.sampled_from([1, 2]))
def test_answers_do_not_depend_on_the_records_beside(mixed, cuts, n_jobs):
    frame, model, whole = mixed
    parts = [
        model.repair(frame[start:stop], adapt=False, n_jobs=n_jobs)
        for start, stop in zip([0, *cuts], [*cuts, 400], strict=True)
        if stop > start
    ]
    assert pl.concat([part.frame for part in parts]).equals(whole.frame[:400])
    for name in ("damaged", "confidence"):
        joined = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(joined, getattr(whole, name)[:400])


@pytest.mark.parametrize("row", [3, 17])
def test_one_record_gets_the_answer_it_gets_among_others(mixed, row):
    frame, model, whole = mixed
    row = whole.changes["row"].unique(maintain_order=True)[row]
    alone = model.repair(frame[row : row + 1], adapt=False)
    assert alone.frame.equals(whole.frame[row : row + 1])
    assert alone.confidence[0] == whole.confidence[row]


def test_styles_that_a_block_brings_change_nothing_for_the_others(mixed):
    frame, model, whole = mixed
    odd = frame[:1].with_columns(size=pl.lit("170,5 %"), weight=pl.lit("1.234,50 CHF"))
    together = model.repair(pl.concat([frame[:300], odd]), adapt=False)
    np.testing.assert_array_equal(together.damaged[:300], whole.damaged[:300])


def test_a_saved_model_gives_the_same_answers(mixed, tmp_path):
    frame, model, whole = mixed
    model.save(tmp_path / "a.model")
    again = TableModel.load(tmp_path / "a.model").scan(frame, adapt=False)
    np.testing.assert_array_equal(again.damaged, whole.damaged)


def test_what_takes_a_whole_table_is_refused_for_single_records(mixed):
    frame, model, _ = mixed
    with pytest.raises(ValueError, match="groups takes a whole table; with adapt=False"):
        model.repair(frame, adapt=False, groups="city")
    sources = _numbers(300).with_columns(name=pl.Series(["x", "y", "z"] * 100))
    by_source = scan(sources, groups="name").model
    with pytest.raises(ValueError, match="learned from records of several sources"):
        by_source.scan(_numbers(100), adapt=False)


def test_tails_through_columns_that_are_not_judged_are_left_alone():
    frame = _numbers(600, damaged=0.0)
    model = learn(frame, exclude=["c", "name"])
    rows = frame[:40].rows()
    a, b, c, d, e, name = rows[7]
    rows[7] = (a, e, c, b, d, name)
    damaged = pl.DataFrame(rows, schema=frame.columns, orient="row")
    found = model.repair(damaged, adapt=False)
    assert 7 in found.vectors.filter(status="uncertain")["row"].to_list()
    # Without columns between and behind them, the same tail is put back.
    alone = learn(frame.drop("c", "name")).repair(damaged.drop("c", "name"), adapt=False)
    assert 7 in alone.changes["row"].to_list()


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """A table in Parquet files, and its repair in this process."""
    folder = tmp_path_factory.mktemp("parquet")
    source = _write_parts(_numbers(), folder / "in", [500, 900, 900, 1700])
    result = large.repair_table(
        source, folder / "out", changes=folder / "changes.parquet", sample_size=300, id="name"
    )
    return source, folder / "out", result


def test_a_folder_is_repaired_into_a_folder_with_the_same_files(parts):
    source, output, result = parts
    names = [path.name for path in sorted(source.glob("*.parquet"))]
    assert [path.name for path in sorted(output.glob("*.parquet"))] == names
    schemas = [pq.read_schema(folder / names[0]) for folder in (source, output)]
    assert schemas[0].equals(schemas[1], check_metadata=True)
    before, after = _read(source), _read(output)
    assert after["name"].equals(before["name"])
    # Values are moved within records, and nothing else happens to them.
    values = [np.sort(frame.drop("name").to_numpy(), axis=1) for frame in (before, after)]
    np.testing.assert_array_equal(*values)
    moved = int(np.sum(before.drop("name").to_numpy() != after.drop("name").to_numpy()))
    assert moved == result.summary["n_moved_cells"] > 50


def test_pieces_get_the_answers_of_the_whole_table(parts):
    source, output, result = parts
    model = TableModel.load(output / "_unpermute.model")
    whole = model.repair(_read(source), adapt=False, id="name")
    assert whole.frame.equals(_read(output))
    listed = pl.read_parquet(result.changes)
    assert listed["accept"].sum() == result.summary["n_moved_cells"]
    assert listed["confidence"].to_list() == whole.proposals["confidence"].to_list()
    assert listed["new"].to_list() == whole.proposals["new"].to_list()
    assert listed["id"].to_list() == whole.proposals["id"].to_list()
    assert not listed["line"].drop_nulls().len()
    # Rows count within their files.
    first = pl.read_parquet(source / listed["file"][-1])
    assert first["name"][listed["row"][-1]] == listed["id"][-1]


@pytest.mark.parametrize(
    ("cuts", "block_size"), [([], 50_000), ([1, 700, 2399], 37), ([1200], 113)]
)
def test_neither_the_block_size_nor_the_files_matter(parts, tmp_path, cuts, block_size):
    source, output, result = parts
    other = _write_parts(_read(source), tmp_path / "in", cuts)
    again = large.repair_table(
        other, tmp_path / "out", sample_size=300, block_size=block_size, id="name", n_jobs=2
    )
    assert (tmp_path / "out/_unpermute.model").read_bytes() == (
        output / "_unpermute.model"
    ).read_bytes()
    assert _read(tmp_path / "out").equals(_read(output))
    assert again.summary["sentence"] == result.summary["sentence"]


def test_large_row_groups_make_several_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(_parquet, "_PIECE_RECORDS", 300)
    frame = _numbers(1000)
    (tmp_path / "in").mkdir()
    pq.write_table(frame.to_arrow(), tmp_path / "in/a.parquet", row_group_size=150,
                   compression="zstd")  # fmt: skip
    result = large.repair_table(tmp_path / "in", tmp_path / "out", sample_size=300)
    names = [path.name for path in sorted((tmp_path / "out").glob("*.parquet"))]
    assert names == [f"a-{k:05d}.parquet" for k in range(4)]
    codec = pq.ParquetFile(tmp_path / "out" / names[0]).metadata.row_group(0).column(0).compression
    assert codec == "ZSTD"
    assert _read(tmp_path / "out").equals(result.model.repair(frame, adapt=False).frame)


def test_only_what_is_missing_is_done_again(parts, tmp_path):
    source, output, result = parts
    copy = tmp_path / "out"
    subprocess.run(["cp", "-r", str(output), str(copy)], check=True)
    whole = _content(copy)
    for name in ("part001.parquet", "_changes/00001.parquet", "_changes/00003.parquet"):
        (copy / name).unlink()
    (copy / ".part001.parquet.0123456789ab.aside").write_bytes(b"half")
    untouched = (copy / "part000.parquet").stat().st_mtime_ns
    done = []
    with on_progress(lambda stage, n, total: done.append((stage, n))):
        again = large.repair_table(source, copy, sample_size=300, id="name", block_size=99)
    # Two of the five pieces, of 400 and 800 records, were missing.
    assert next(n for stage, n in done if stage == "judge pieces") == N - 400 - 800
    assert _content(copy) == whole
    assert (copy / "part000.parquet").stat().st_mtime_ns == untouched
    assert again.summary["n_repaired"] == result.summary["n_repaired"]


MESSAGES = {
    "another seed": (dict(random_state=1), "an earlier run with other settings"),
    "another sample": (dict(sample_size=200), "an earlier run with other settings"),
    "a model": (dict(model=True), "an earlier run with other model"),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_results_of_two_runs_are_not_mixed(parts, case):
    source, output, result = parts
    options, sentence = MESSAGES[case]
    options = dict(sample_size=300, id="name") | options
    if "model" in options:
        options["model"] = result.model
    with pytest.raises(TableError, match=sentence):
        large.repair_table(source, output, **options)


def test_inputs_that_changed_are_noticed_and_force_starts_afresh(tmp_path):
    source = _write_parts(_numbers(600), tmp_path / "in", [200])
    large.repair_table(source, tmp_path / "out", sample_size=200)
    _numbers(200, seed=5).write_parquet(source / "part000.parquet")
    with pytest.raises(TableError, match=r"an earlier run with other files.*--force"):
        large.repair_table(source, tmp_path / "out", sample_size=200)
    (tmp_path / "out/mine.txt").write_text("stays")
    large.repair_table(source, tmp_path / "out", sample_size=200, force=True)
    assert (tmp_path / "out/mine.txt").read_text() == "stays"
    assert _read(tmp_path / "out")["name"].equals(_read(source)["name"])


def _other_type(folder):
    frame = pl.read_parquet(folder / "part001.parquet")
    frame.with_columns(pl.col("b").cast(pl.String)).write_parquet(folder / "part001.parquet")


def _other_columns(folder):
    frame = pl.read_parquet(folder / "part001.parquet")
    frame.rename({"b": "x"}).write_parquet(folder / "part001.parquet")


def _other_order(folder):
    frame = pl.read_parquet(folder / "part001.parquet")
    frame.select(reversed(frame.columns)).write_parquet(folder / "part001.parquet")


def _cut_short(folder):
    path = folder / "part001.parquet"
    path.write_bytes(path.read_bytes()[:-50])


SPOILED = {
    "type": (_other_type, r"column 'b' holds .*string, but double in .*part000"),
    "columns": (_other_columns, "has other columns than .*part000.parquet: 'b' is in one of them"),
    "order": (_other_order, "their order differs"),
    "cut": (_cut_short, "is not a complete Parquet file"),
    "csv": (lambda f: (f / "x.csv").write_text("a\n1\n"), "of several formats"),
}


@pytest.mark.parametrize("case", SPOILED)
def test_files_that_make_no_table_are_refused(tmp_path, case):
    source = _write_parts(_numbers(60), tmp_path / "in", [30])
    spoil, sentence = SPOILED[case]
    spoil(source)
    with pytest.raises(TableError, match=sentence):
        large.scan_table(source)


def test_places_that_hold_no_table_are_refused(tmp_path):
    source = _write_parts(_numbers(60), tmp_path / "in", [30])
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full/a.txt").write_text("mine")
    (tmp_path / "a.csv.gz").write_bytes(b"")
    (tmp_path / "empty.csv").write_text("")
    for path, sentence in {
        tmp_path / "empty": "holds no Parquet or CSV files",
        tmp_path / "*.parquet": "matches no file",
        tmp_path / "none.parquet": "no such file",
        tmp_path / "a.csv.gz": "is compressed",
        tmp_path / "empty.csv": "is empty",
    }.items():
        with pytest.raises(TableError, match=sentence):
            large.scan_table(path)
    for path, sentence in {
        tmp_path / "full": "holds other files",
        tmp_path / "full/a.txt": "is a file",
        source: "holds the input",
        tmp_path / "out.parquet": "would be a folder",
    }.items():
        with pytest.raises(TableError, match=sentence):
            large.repair_table(source, path)
    with pytest.raises(TableError, match="no column 'nom'"):
        large.scan_table(source, id="nom")
    with pytest.raises(TableError, match="exchange takes the whole table"):
        large.scan_table(source, exchange=[("a", "b", 1)])
    with pytest.raises(ValueError, match="sample_size=3 must be a whole number, at least 20"):
        large.scan_table(source, sample_size=3)
    assert (tmp_path / "full/a.txt").read_text() == "mine"


CSVS = {
    "plain": {},
    "semicolons": dict(separator=";"),
    "quoted": dict(quote_style="always"),
    "returns": dict(line_terminator="\r\n"),
    "no header": dict(include_header=False),
}


@pytest.mark.parametrize("case", CSVS)
def test_a_csv_differs_in_the_moved_cells_only(tmp_path, monkeypatch, case):
    monkeypatch.setattr(_csv, "_PIECE_BYTES", 20_000)
    path, output = tmp_path / "a.csv", tmp_path / "b.csv"
    frame = _records(1500)
    frame.write_csv(path, **CSVS[case])
    style = CsvStyle(header=case != "no header")
    files = large.open_files(path, style)
    assert len(files.pieces) > 3
    assert files.n_records == 1500
    result = large.repair_table(
        path, output, changes=tmp_path / "c.parquet", sample_size=800, block_size=77, style=style
    )
    listed = pl.read_parquet(tmp_path / "c.parquet").filter("accept")
    assert len(listed) == result.summary["n_moved_cells"] > 40
    before, after = (p.read_bytes().splitlines(keepends=True) for p in (path, output))
    assert len(before) == len(after)
    changed = {k + 1 for k, (a, b) in enumerate(zip(before, after, strict=True)) if a != b}
    assert changed == set(listed["line"])
    assert listed["row"].to_list() == (listed["line"] - 1 - style.header).to_list()
    for a, b in zip(before, after, strict=True):
        assert sorted(a) == sorted(b)
    assert not list(tmp_path.glob(".*"))


def test_a_csv_in_pieces_is_judged_as_the_frame_is(tmp_path, monkeypatch):
    frame = _records(1500)
    frame.write_csv(tmp_path / "a.csv")
    whole = large.scan_table(tmp_path / "a.csv", changes=tmp_path / "1.parquet", sample_size=800)
    monkeypatch.setattr(_csv, "_PIECE_BYTES", 9_000)
    pieces = large.scan_table(
        tmp_path / "a.csv", changes=tmp_path / "2.parquet", sample_size=800, n_jobs=2
    )
    listed = [pl.read_parquet(tmp_path / f"{k}.parquet") for k in (1, 2)]
    assert listed[0].equals(listed[1])
    assert len(listed[0])
    assert pieces.summary["sentence"] == whole.summary["sentence"]
    alone = whole.model.scan(frame, adapt=False)
    assert listed[0]["new"].to_list() == alone.proposals["new"].fill_null("").to_list()


def test_notes_ragged_lines_and_decimal_commas_are_settled_for_all_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(_csv, "_PIECE_BYTES", 5_000)
    frame = _numbers(900)
    lines = [";".join(str(x).replace(".", ",") for x in row) for row in frame.rows()]
    lines[700] = "1;2;3"
    # The last piece has whole numbers only, which show no decimal mark.
    text = "some words\n\n" + ";".join(frame.columns) + "\n" + "\n".join(lines) + "\n"
    (tmp_path / "a.csv").write_text("\ufeff" + text, encoding="utf-8")
    result = large.repair_table(tmp_path / "a.csv", tmp_path / "b.csv", sample_size=400, id="name")
    assert result.summary["n_repaired"] > 10
    assert result.summary["n_rows"] == 899
    notes = " ".join(result.summary["notes"])
    assert "1 line with another number of fields" in notes
    assert "decimal commas: a, b, c, d, e" in notes
    after = (tmp_path / "b.csv").read_text(encoding="utf-8")
    assert after.startswith("\ufeffsome words\n\n")
    assert "\n1;2;3\n" in after


def test_a_folder_of_csv_files_is_repaired_file_by_file(tmp_path):
    frame = _numbers(900)
    (tmp_path / "in/sub").mkdir(parents=True)
    frame[:400].write_csv(tmp_path / "in/a.csv")
    frame[400:].write_csv(tmp_path / "in/sub/b.csv")
    result = large.repair_table(tmp_path / "in", tmp_path / "out", sample_size=400, id="name")
    assert result.summary["n_files"] == 2
    after = pl.concat([pl.read_csv(tmp_path / "out" / name) for name in ("a.csv", "sub/b.csv")])
    assert after.equals(result.model.repair(frame, adapt=False, id="name").frame)
    assert not (tmp_path / "out/_parts").exists()


def test_questions_come_from_the_sample_and_close_their_columns(tmp_path):
    rng = np.random.default_rng(0)
    first = rng.choice([f"{a}nn{b}" for a in "ABCD" for b in "aeiou"], 900)
    last = rng.choice([f"{a}son-{b}" for a in "LMNO" for b in "aeiou"], 900)
    swapped = rng.random(900) < 0.4
    frame = _numbers(900).with_columns(
        first=pl.Series(np.where(swapped, last, first)),
        last=pl.Series(np.where(swapped, first, last)),
    )
    frame.write_parquet(tmp_path / "a.parquet")
    result = large.repair_table(
        tmp_path / "a.parquet", tmp_path / "out", sample_size=500, id="name"
    )
    [question] = result.summary["questions"]
    assert question["columns"] == ["first", "last"]
    assert _read(tmp_path / "out").select("first", "last").equals(frame.select("first", "last"))


def _command(*words, **options):
    return subprocess.run(
        [sys.executable, "-m", "unpermute", *map(str, words)], capture_output=True, text=True,
        **options,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_killed_command_goes_on_where_it_was(tmp_path, kind):
    source = tmp_path / "in"
    _write_parts(_numbers(), source, list(range(200, N, 200)))
    if kind == "csv":
        for path in list(source.iterdir()):
            pl.read_parquet(path).write_csv(path.with_suffix(".csv"))
            path.unlink()
    words = ["repair", source, "--sample-size", 300, "--id", "name", "--block-size", 40]
    large.repair_table(source, tmp_path / "whole", sample_size=300, id="name")
    output = tmp_path / "killed"
    command = [sys.executable, "-m", "unpermute", *map(str, words), "-o", str(output)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while len(list(output.glob("_changes/*.parquet"))) < 3:
        assert running.poll() is None
        time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    assert len(list(output.glob("_changes/*.parquet"))) < N // 200
    done = _command(*words, "-o", output)
    assert done.returncode == 0, done.stderr
    assert _content(output) == _content(tmp_path / "whole")


def test_the_command_shows_and_writes(tmp_path):
    source = _write_parts(_numbers(900), tmp_path / "in", [300])
    words = ["repair", str(source / "*.parquet"), "--sample-size", 300, "--id", "name"]
    done = _command(
        *words, "-o", "out", "--changes", "c.parquet", "--save-model", "m.model", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "of 900 records look shuffled" in done.stdout
    assert "out is " in done.stdout
    assert "c.parquet lists every moved cell" in done.stdout
    assert _read(tmp_path / "out").height == 900
    again = _command(*words, "--model", "m.model", "--json", "--fail-on-found", cwd=tmp_path)
    assert again.returncode == 1, again.stderr
    output = json.loads(again.stdout)
    assert output["summary"]["n_rows"] == 900
    assert output["vectors"]
    schema = Path(__file__).parent.parent / "docs/reference/output.schema.json"
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(output, json.loads(schema.read_text(encoding="utf-8")))


def test_no_output_replaces_another_file(tmp_path):
    """Nor the input, nor a file that the run has not written."""
    _numbers(300).write_csv(tmp_path / "in.csv")
    words = ["repair", "in.csv", "--sample-size", 100, "--id", "name"]
    before = (tmp_path / "in.csv").read_bytes()
    for more, sentence in [
        (["-o", "out.csv", "--save-model", "in.csv"], "another file of this run"),
        (["-o", "out.csv", "--save-model", "out.csv"], "another file of this run"),
        (["-o", "x.parquet", "--changes", "x.parquet"], "named for two outputs"),
    ]:
        done = _command(*words, *more, "--force", cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        assert sentence in done.stderr
    assert (tmp_path / "in.csv").read_bytes() == before
    assert _command(*words, "-o", "folder/", cwd=tmp_path).returncode == 0
    assert (tmp_path / "folder" / "in.csv").exists()
    (tmp_path / "precious.parquet").write_text("mine")
    done = _command(*words, "-o", "folder/", "--changes", "precious.parquet", cwd=tmp_path)
    assert "exists already" in done.stderr
    assert (tmp_path / "precious.parquet").read_text() == "mine"


def test_what_was_removed_is_made_again_and_nothing_twice(tmp_path):
    source = _write_parts(_numbers(300), tmp_path / "in", [100, 200])
    options = {"sample_size": 100, "id": "name"}
    large.repair_table(source, tmp_path / "out", **options)
    whole = _content(tmp_path / "out")
    removed = next((tmp_path / "out").glob("*.parquet"))
    removed.unlink()
    large.repair_table(source, tmp_path / "out", **options)
    assert _content(tmp_path / "out") == whole
    twice = [next(source.glob("*.parquet"))] * 2
    with pytest.raises(ValueError, match="Two files would be called"):
        large.repair_table(twice, tmp_path / "twice", **options)


REFUSED = {
    "report": (["--report", "r.html"], "--report takes the whole table in memory"),
    "columns": (["--vectors", "columns"], "--vectors columns takes the whole table"),
    "groups": (["--groups", "name"], "--groups takes the whole table"),
    "csv list": (["--changes", "c.csv"], "let it end in .parquet"),
    "both": (["--workers", "2", "--cluster", "tcp://x:1"], "give one of the two"),
    "stdout": (["-o", "-"], "read from files and written to files"),
    "nobody": (["--cluster", "tcp://127.0.0.1:9"], "does not answer"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_options_that_do_not_fit_are_refused_in_one_sentence(tmp_path, case):
    source = _write_parts(_numbers(60), tmp_path / "in", [30])
    words, sentence = REFUSED[case]
    environment = os.environ | {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "1s"}
    done = _command("repair", source, *words, cwd=tmp_path, env=environment)
    assert done.returncode == 2, done.stderr
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
