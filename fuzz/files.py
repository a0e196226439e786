"""Mutated files: read, moved, listed, replayed and undone, or refused in one sentence."""

import io
import tempfile
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from mutations import FailedError, mutated, mutated_part, rng_of
from tables import base_files

from unpermute.files import (
    Changes,
    Moves,
    TableError,
    listed_changes,
    plan_moves,
    read_table,
    repaired_as,
    written_changes,
)


def check(seed, number):
    rng = rng_of(seed, 1, number)
    bases = base_files()
    suffix, raw = bases[rng.integers(len(bases))]
    zipped = suffix == ".xlsx" and rng.random() < 0.8
    raw = mutated_part(raw, rng, 3) if zipped else mutated(raw, rng, 3)
    try:
        with tempfile.TemporaryDirectory() as folder:
            return check_file(Path(folder), suffix, raw, rng)
    except Exception as error:
        error.inputs = [(suffix, raw)]
        raise


def check_file(folder, suffix, raw, rng):
    """Read a file, move some cells, and undo it; returns what became of it."""
    path = folder / f"t{suffix}"
    path.write_bytes(raw)
    try:
        source = read_table(str(path))
        frame = source.frame
    except TableError as error:
        _one_sentence(error)
        return "refused"
    moves = random_moves(source, rng)
    if frame.width != len(source.columns) or frame.height != len(source.frame_rows):
        raise FailedError("the frame is not the table")
    if moves is None:
        return "read"
    try:
        repaired = b"".join(repaired_as(str(path), source, moves))
    except TableError as error:
        _one_sentence(error)
        return "not moved"
    _round_trip(folder, suffix, source, moves, repaired, raw)
    return "undone"


def random_moves(source, rng):
    """Return a rotation of some cells of a record or of a column, None if there is none."""
    rows, n_columns = source.frame_rows, len(source.columns)
    if len(rows) < 1 or n_columns < 2:
        return None
    if rng.random() < 0.5 or len(rows) < 2:
        columns = rng.permutation(n_columns)[: int(rng.integers(2, min(n_columns, 5) + 1))]
        row = np.full(len(columns), rng.choice(rows))
        return Moves(row, columns, row, np.roll(columns, 1))
    chosen = rng.permutation(rows)[: int(rng.integers(2, min(len(rows), 5) + 1))]
    column = np.full(len(chosen), rng.integers(n_columns))
    return Moves(chosen, column, np.roll(chosen, 1), column)


def listed(source, moves):
    """Return the list of changes of some moves."""
    n = len(moves)
    blank = np.full(n, "", dtype=object)
    changes = Changes(
        *moves.places(), np.ones(n), np.ones(n), np.ones(n, dtype=bool), blank, blank,
        names=list(source.columns), within_rows=np.array_equal(moves.rows, moves.from_rows),
    )  # fmt: skip
    return b"".join(written_changes(listed_changes(source, changes, blank)))


def texts_of(source):
    """Return all cells of a table, counted."""
    rows, n = source.frame_rows, len(source.columns)
    return Counter(source.texts(np.repeat(rows, n), np.tile(np.arange(n), len(rows))))


def _round_trip(folder, suffix, source, moves, repaired, raw):
    lists = folder / "changes.csv"
    lists.write_bytes(listed(source, moves))
    changes = read_table(str(lists), format="csv")
    again = b"".join(repaired_as("t" + suffix, source, plan_moves(source, changes)))
    if content(again, suffix) != content(repaired, suffix):
        raise FailedError("the list does not replay what was done")
    other = folder / f"repaired{suffix}"
    other.write_bytes(repaired)
    after = read_table(str(other))
    if texts_of(after) != texts_of(source):
        raise FailedError("values were lost or invented")
    back = b"".join(repaired_as("t" + suffix, after, plan_moves(after, changes, undo=True)))
    if content(back, suffix) != content(raw, suffix):
        raise FailedError("undo does not restore the file")


def content(raw, suffix):
    """Return what must be equal of two files that are equal."""
    if suffix in (".parquet", ".arrow"):
        source = io.BytesIO(raw)
        parquet = suffix == ".parquet"
        table = pq.ParquetFile(source).read() if parquet else pa.ipc.open_file(source).read_all()
        return [str(table.schema.remove_metadata()), str(table.to_pylist())]
    if suffix == ".xlsx":
        try:
            with zipfile.ZipFile(io.BytesIO(raw)) as file:
                return {name: file.read(name) for name in file.namelist()}
        except Exception:  # damaged in a part that is not read; the file is as it was
            return raw
    from unpermute.files._compressed import compression_of, decompressed

    packed = compression_of(raw)
    return raw if packed is None else decompressed(raw, packed, "")


def _one_sentence(error):
    if "\n" in str(error) or len(str(error)) > 2000 or "None" in str(error).split():
        raise FailedError(f"not one sentence: {str(error)[:500]!r}")
