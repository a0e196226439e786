"""A table in Parquet files: pieces are row groups, blocks are batches of their rows."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from unpermute.files import TableError
from unpermute.large._files import Block, Piece, TableFiles, file_state
from unpermute.stream import import_optional

__all__ = ["ParquetFiles"]

# Row groups are put together up to so many records: a piece is read, judged and written by one
# worker, and done again as a whole if that dies.
_PIECE_RECORDS = 1_000_000
# Records of a row group that is written.
_GROUP_RECORDS = 100_000


class ParquetFiles(TableFiles):
    """A table in Parquet files.

    Parameters
    ----------
    paths, names : list of str
        The files, and what they are called in an output folder.
    """

    format = "parquet"

    _schema: Any = None

    def __init__(self, paths: list[str], names: list[str]):
        self.paths, self.names, self.notes, self.pieces = paths, names, [], []
        self.columns: list[str] = []
        self._states = list(map(file_state, paths))
        first = 0
        for path, name in zip(paths, names, strict=True):
            with _open(path) as file:
                self._check_schema(file.schema_arrow, path)
                sizes = [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)]
            runs = _runs(sizes)
            stem, _, suffix = name.rpartition(".")
            row = 0
            for k, (begin, end) in enumerate(runs):
                size = sum(sizes[begin:end])
                called = name if len(runs) == 1 else f"{stem}-{k:05d}.{suffix}"
                piece = Piece(len(self.pieces), path, name, called, first, row, size, begin, end)
                self.pieces.append(piece)
                first, row = first + size, row + size
        self.columns += self._schema.names

    def take(self, piece, rows):
        """Return some records of a piece."""
        import pyarrow

        parts, start = [], 0
        with _open(piece.file) as file:
            for batch in _batches(file, piece):
                first, last = np.searchsorted(rows, [start, start + len(batch)])
                here = rows[first:last]
                if len(here):
                    parts.append(pyarrow.Table.from_batches([batch]).take(here - start))
                start += len(batch)
        return pyarrow.concat_tables(parts) if parts else self._schema.empty_table()

    def joined(self, parts):
        """Return the records as one Arrow table."""
        import pyarrow

        return pyarrow.concat_tables(parts).combine_chunks(), {}

    def settled(self, state):
        """Return the files: a schema leaves nothing open."""
        return self

    def judged(
        self, piece: Piece, block_size: int, judge: Callable[..., Any], sink: Any
    ) -> Iterator[Block]:
        """Judge a piece batch by batch; the repaired piece has the schema of the file."""
        import pyarrow

        row = piece.row
        with _open(piece.file) as file, _Writer(sink, file) as writer:
            for batch in _batches(file, piece, batch_size=block_size):
                result = judge(pyarrow.Table.from_batches([batch]))
                writer.add(result.frame)
                rows = np.arange(row, row + len(batch))
                yield Block(rows, result, _listed(result.proposals, row))
                row += len(batch)

    def identity(self):
        """Return names, sizes and times of the files."""
        return {"files": self._named_states()}

    def _check_schema(self, schema, path):
        """Take the schema of the first file; the others must have the same."""
        schema = schema.remove_metadata()
        doubled = {name for name in schema.names if schema.names.count(name) > 1}
        if doubled:
            raise TableError(f"{path} has two columns called {doubled.pop()!r}.")
        if self._schema is None:
            self._schema = schema
        if self._schema.names != schema.names:
            other = sorted(set(schema.names) ^ set(self._schema.names))
            what = f"{other[0]!r} is in one of them only" if other else "their order differs"
            raise TableError(f"{path} has other columns than {self.paths[0]}: {what}.")
        for mine, expected in zip(schema, self._schema, strict=True):
            if mine.type != expected.type:
                raise TableError(
                    f"{path}: column {mine.name!r} holds {mine.type}, but {expected.type} in"
                    f" {self.paths[0]}."
                )


class _Writer:
    """Writes tables as one Parquet file, whose row groups do not depend on their sizes."""

    def __init__(self, sink, like):
        self._writer: Any = None
        self._waiting: list[Any] = []
        if sink is not None:
            parquet, self._schema = import_optional("pyarrow.parquet"), like.schema_arrow
            codec = _codec(like.metadata)
            self._writer = parquet.ParquetWriter(sink, self._schema, compression=codec)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self._writer is not None:
            if kind is None:
                self._write(least=1)
            self._writer.close()

    def add(self, table):
        """Add records."""
        if self._writer is not None:
            self._waiting.append(table.cast(self._schema))
            self._write(least=_GROUP_RECORDS)

    def _write(self, least):
        while sum(map(len, self._waiting)) >= least:
            together = import_optional("pyarrow").concat_tables(self._waiting)
            self._writer.write_table(together[:_GROUP_RECORDS], row_group_size=_GROUP_RECORDS)
            self._waiting = [together[_GROUP_RECORDS:]]


def _open(path):
    pyarrow = import_optional("pyarrow")
    try:
        return import_optional("pyarrow.parquet").ParquetFile(path)
    except (pyarrow.ArrowInvalid, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise TableError(f"{path} cannot be read: {os.strerror(error.errno)}.") from None
        why = str(error).strip(" .\n")
        raise TableError(f"{path} is not a complete Parquet file: {why}.") from None


def _batches(file, piece, **options):
    """Yield the records of a piece, some at a time."""
    groups = range(piece.begin, piece.end)
    try:
        # Threads of Arrow would compete with those that work on other pieces.
        yield from file.iter_batches(row_groups=groups, use_threads=False, **options)
    except (import_optional("pyarrow").ArrowException, OSError) as error:
        why = str(error).strip(" .\n")
        raise TableError(
            f"{piece.file} is damaged between its records {piece.row:,} and"
            f" {piece.row + piece.size:,}: {why}."
        ) from None


def _codec(metadata):
    """Return how a file is compressed."""
    if not metadata.num_row_groups or not metadata.num_columns:
        return "snappy"
    codec = metadata.row_group(0).column(0).compression.lower()
    return "none" if codec == "uncompressed" else codec


def _runs(sizes):
    """First and last (exclusive) row groups of the pieces of a file."""
    runs, begin, size = [], 0, 0
    for k, more in enumerate(sizes):
        if size and size + more > _PIECE_RECORDS:
            runs.append((begin, k))
            begin, size = k, 0
        size += more
    return [*runs, (begin, len(sizes))]


def _listed(proposals, row):
    """Proposed changes with rows of the file."""
    names = ("row", "id", "column", "old", "new", "moved_from")
    columns = [proposals[name].to_pylist() for name in names]
    return [
        (row + at, None, str(called), *rest) for at, called, *rest in zip(*columns, strict=True)
    ]
