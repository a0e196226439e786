"""Tables larger than memory: what seldom happens to files, outputs, options and workers."""

import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from unpermute import large
from unpermute.files import CsvStyle, TableError, find_records
from unpermute.large import _csv
from unpermute.table import Tally, _find, added_up, learn

OPTIONS = {"sample_size": 100, "id": "name"}


def _numbers(n=300, seed=0, damaged=0.03):
    """Numbers that depend on each other, with a name for every record."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) @ rng.normal(size=(2, 5)) * [1, 10, 3, 0.5, 30] + [5, 90, 0, 2, 400]
    X = np.round(X + 0.05 * rng.normal(size=X.shape) * X.std(axis=0), 3)
    for r in np.flatnonzero(rng.random(n) < damaged):
        a, b = rng.choice(5, 2, replace=False)
        X[r, [a, b]] = X[r, [b, a]]
    frame = pl.DataFrame(X, schema=list("abcde"))
    return frame.with_columns(name=pl.Series([f"r{k}" for k in range(n)]))


def _write_csvs(folder, names, frame=None):
    """Write a table as CSV files of equal length."""
    frame = _numbers() if frame is None else frame
    folder.mkdir()
    for name, part in zip(names, frame.iter_slices(-(-len(frame) // len(names))), strict=True):
        part.write_csv(folder / name)
    return folder


def _names(folder):
    return [path.name for path in sorted(folder.glob("[!_]*"))]


def test_force_removes_the_csv_files_of_another_run(tmp_path):
    output = tmp_path / "out"
    large.repair_table(_write_csvs(tmp_path / "in", ["a.csv", "b.csv"]), output, **OPTIONS)
    (output / "mine.txt").write_text("stays")
    other = _write_csvs(tmp_path / "other", ["b.csv", "c.csv"])
    large.repair_table(other, output, force=True, **OPTIONS)
    assert _names(output) == ["b.csv", "c.csv", "mine.txt"]


def test_a_csv_file_that_was_removed_is_made_again(tmp_path):
    source, output = _write_csvs(tmp_path / "in", ["a.csv", "b.csv"]), tmp_path / "out"
    large.repair_table(source, output, **OPTIONS)
    before = {name: (output / name).read_bytes() for name in ("a.csv", "b.csv")}
    (output / "b.csv").unlink()
    large.repair_table(source, output, **OPTIONS)
    assert {name: (output / name).read_bytes() for name in before} == before


@pytest.mark.parametrize("pattern", ["", "*.csv"])
def test_a_folder_with_one_csv_file_is_repaired_into_a_folder(tmp_path, pattern):
    source = _write_csvs(tmp_path / "in", ["a.csv"])
    large.repair_table(source / pattern, tmp_path / "out", **OPTIONS)
    assert _names(tmp_path / "out") == ["a.csv"]
    with pytest.raises(TableError, match=r"out\.csv would be a folder of CSV files"):
        large.repair_table(source / pattern, tmp_path / "out.csv", **OPTIONS)
    # A file that is named itself becomes a file, unless a folder is named for it.
    large.repair_table(source / "a.csv", tmp_path / "b.csv", **OPTIONS)
    large.repair_table(source / "a.csv", f"{tmp_path}/one/", **OPTIONS)
    repaired = (tmp_path / "out/a.csv").read_bytes()
    assert (tmp_path / "b.csv").read_bytes() == (tmp_path / "one/a.csv").read_bytes() == repaired


def test_a_piece_of_odd_lines_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(_csv, "_PIECE_BYTES", 2_000)
    path, frame = tmp_path / "a.csv", _numbers(600)
    frame.write_csv(path)
    lines = path.read_text().splitlines(keepends=True)
    odd = [line.replace("\n", ",more\n") for line in lines[201:401]]
    path.write_text("".join([*lines[:201], *odd, *lines[401:]]))
    result = large.repair_table(path, tmp_path / "b.csv", **OPTIONS)
    assert result.summary["n_rows"] == 400
    assert (
        f"200 lines with another number of fields than the header left as they are (the first:"
        f" {path}, line 202)." in result.summary["notes"]
    )
    after = (tmp_path / "b.csv").read_text().splitlines(keepends=True)
    assert after[201:401] == odd
    # A table of such lines is refused, whatever the first megabyte looks like.
    path.write_text("".join([*lines[:101], *odd]))
    with pytest.raises(TableError, match=r"a\.csv, line 102: 200 of 300 lines have another number"):
        large.scan_table(path)


def test_an_unclosed_quote_is_refused_before_the_file_is_in_memory(tmp_path, monkeypatch):
    for name, size in {"_PIECE_BYTES": 2_000, "_HEAD_BYTES": 2_000, "_LONGEST": 32_000}.items():
        monkeypatch.setattr(_csv, name, size)
    sizes = []
    monkeypatch.setattr(
        _csv,
        "find_records",
        lambda data, *more: sizes.append(len(data)) or find_records(data, *more),
    )
    path = tmp_path / "a.csv"
    _numbers(20_000).write_csv(path)
    lines = path.read_text().splitlines(keepends=True)
    lines[299] = '"' + lines[299]
    path.write_text("".join(lines))
    with pytest.raises(TableError, match=r"a\.csv, line 300: the record is longer than .* quote"):
        large.scan_table(path)
    assert max(sizes) <= 32_000
    # Nor is a file without lines read as a whole.
    path.write_text("a,b," * 100_000)
    with pytest.raises(TableError, match="is not a table: it has no line in its first"):
        large.scan_table(path)


def test_line_ends_may_be_carriage_returns(tmp_path, monkeypatch):
    monkeypatch.setattr(_csv, "_HEAD_BYTES", 1_000)
    _numbers(300).write_csv(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_bytes((tmp_path / "a.csv").read_bytes().replace(b"\n", b"\r"))
    found = [large.scan_table(tmp_path / name, **OPTIONS) for name in ("a.csv", "b.csv")]
    assert found[0].summary["sentence"] == found[1].summary["sentence"]


UNLIKE = {
    "delimiter": (
        lambda frame, path: frame.write_csv(path, separator=";"),
        r"b\.csv has the delimiter ';', but .*a\.csv has ','",
    ),
    "no header": (
        lambda frame, path: frame.write_csv(path, include_header=False),
        r"b\.csv has other columns than .*a\.csv",
    ),
    "encoding": (
        lambda frame, path: path.write_bytes(frame.write_csv().replace("r", "é").encode("latin-1")),
        r"b\.csv is not text in utf-8",
    ),
}


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("case", UNLIKE)
def test_csv_files_of_one_table_are_laid_out_alike(tmp_path, case, header):
    if not header and case == "no header":
        return
    source = _write_csvs(tmp_path / "in", ["a.csv", "b.csv"])
    spoil, sentence = UNLIKE[case]
    spoil(_numbers(150), source / "b.csv")
    with pytest.raises(TableError, match=sentence):
        large.scan_table(source, style=CsvStyle(header=header), sample_size=100)


def test_a_file_whose_lines_do_not_tell_the_delimiter_is_read_like_the_others(tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    frame = _numbers(300).with_columns(name="x" + pl.col("name") + ",y,z")
    frame.write_csv(source / "a.csv", separator=";", quote_style="never")
    # Alone, this one would be split at its commas, of which each line has more.
    few = frame[:3].with_columns(name=pl.lit("p,q,r,s,t,u,v,w"))
    few.write_csv(source / "b.csv", separator=";", quote_style="never")
    assert large.scan_table(source, **OPTIONS).summary["n_rows"] == 303


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("when", ["indexed", "sampled", "removed"])
def test_a_file_that_changes_while_it_is_read_is_noticed(tmp_path, kind, when):
    path = tmp_path / f"a.{kind}"
    getattr(_numbers(), f"write_{kind}")(path)
    files = large.open_files(path)
    settings = {"sample_size": 100, "block_size": 50}
    job = large.make_job("repair", f"{tmp_path}/out/", None, {"id": "name"}, **settings)

    def change():
        if when == "removed":
            path.unlink(missing_ok=True)
        else:
            getattr(_numbers(300, seed=1), f"write_{kind}")(path)

    def run(task, pieces):
        if when != "indexed":
            change()
        return large.run_here(task, pieces)

    if when == "indexed":
        change()
    with pytest.raises(TableError, match=f"a.{kind} changed while it was read, so the"):
        large.process(run, files, job)
    assert not (tmp_path / "out/a.csv").exists()


def _with_a_damaged_page(path):
    _numbers().write_parquet(path, compression="snappy")
    content = path.read_bytes()
    path.write_bytes(content[:40] + bytes(b ^ 255 for b in content[40:400]) + content[400:])
    return path


def test_a_damaged_parquet_page_is_named(tmp_path):
    files = large.open_files(_with_a_damaged_page(tmp_path / "a.parquet"))
    [piece] = files.pieces
    sentence = "a.parquet is damaged between its records 0 and 300: "
    with pytest.raises(TableError, match=sentence):
        files.take(piece, np.arange(10))
    with pytest.raises(TableError, match=sentence):
        list(files.judged(piece, 100, lambda frame: None, None))


@pytest.mark.parametrize("where", [["--sample-size", "100"], ["--workers", "1"]])
def test_a_damaged_parquet_page_is_one_sentence(tmp_path, where):
    path = _with_a_damaged_page(tmp_path / "a.parquet")
    words = [sys.executable, "-m", "unpermute", "scan", path, *where]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


@pytest.mark.parametrize(
    "options", [{"id": "name"}, {"exclude": ["a"]}, {"kinds": {"a": "ignore"}}]
)
def test_columns_that_a_model_judges_cannot_be_left_out(tmp_path, options):
    frame = _numbers()
    model = learn(frame)
    frame.write_csv(tmp_path / "a.csv")
    [name] = next(iter(options.values())) if "id" not in options else ["name"]
    sentence = f"The model judges the column '{name}', which is to be left out or names the records"
    with pytest.raises(ValueError, match=sentence):
        large.scan_table(tmp_path / "a.csv", model=model, sample_size=100, **options)
    with pytest.raises(ValueError, match=sentence):
        model.scan(frame, **options)


def test_notes_and_evidence_do_not_depend_on_the_block_size(tmp_path, monkeypatch):
    monkeypatch.setattr(_find, "_MOST_EXPLAINED", 3)
    frame = _numbers(400).with_columns(
        c=pl.when(pl.int_range(400) % 50 == 3).then(np.inf).otherwise("c")
    )
    frame.write_parquet(tmp_path / "a.parquet")
    found = []
    for size in (40, 170, 400):
        changes = tmp_path / f"{size}.parquet"
        result = large.scan_table(
            tmp_path / "a.parquet", changes=changes, block_size=size, **OPTIONS
        )
        del result.summary["seconds"]
        found.append((result.summary, result.vectors, pl.read_parquet(changes).to_dicts()))
    assert found[0] == found[1] == found[2]
    summary, _, listed = found[0]
    assert "Infinite values counted as missing: 8." in summary["notes"]
    assert len(listed) > 6
    assert all(change["evidence"] for change in listed)


def test_tallies_of_blocks_are_added_up():
    blocks = [
        Tally("unfit", 1, ((2, "'c' (Int64)"),)), Tally("infinite", 4),
        Tally("unfit", 1200, ((0, "'a' (Int64)"), (2, "'c' (Int64)"))), Tally("infinite", 1),
    ]  # fmt: skip
    assert [tally.sentence for tally in added_up(blocks)] == [
        "Infinite values counted as missing: 5.",
        "Records left as they are because a value does not fit the type of its column: 1,201"
        " ('a' (Int64), 'c' (Int64)).",
    ]
