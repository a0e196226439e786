"""Parquet and Arrow files, whose schema is kept; with pyarrow installed, their metadata too."""

import io
import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import narwhals.stable.v1 as nw
import numpy as np
import polars as pl

from unpermute.files._moves import Moves, cell_texts, move_cells
from unpermute.files._source import SourceTable, TableError

__all__ = ["ArrowTable"]

_FILE_MAGIC = b"ARROW1"


class ArrowTable(SourceTable):
    """A table in a Parquet or an Arrow file: a `SourceTable` with one more parameter.

    Parameters
    ----------
    format : {"parquet", "arrow"}
        Which of the two it is.
    """

    def __init__(self, raw: bytes | mmap.mmap, name: str, format: str):
        super().__init__(raw, name)
        self._format = format
        self._is_stream = format == "arrow" and raw[: len(_FILE_MAGIC)] != _FILE_MAGIC
        self.columns = list(self.frame.columns)
        self.n_rows = self.frame.height

    def texts(self, rows: np.ndarray, columns: np.ndarray) -> list[str]:
        """Return values as text, nulls as the empty one."""
        frame = nw.from_native(self.frame, eager_only=True)
        texts = cell_texts(frame, self.columns, rows, columns)
        return ["" if text is None else text for text in texts]

    def with_moves(self, moves: Moves) -> Iterator[bytes | memoryview]:
        """Yield the file with values moved; the columns that do not change keep their encoding."""
        if not len(moves):
            yield memoryview(self._raw)
            return
        moved = _moved(self.frame, moves, self.name)
        names = [self.columns[column] for column in np.unique(moves.columns)]
        sink = io.BytesIO()
        if find_spec("pyarrow") is not None:
            self._write_with_pyarrow(moved.select(names), sink)
        else:
            self._write_with_polars(moved, sink)
        yield sink.getbuffer()

    def _read_frame(self) -> pl.DataFrame:
        reader = "read_parquet" if self._format == "parquet" else "read_ipc"
        reader = "read_ipc_stream" if self._is_stream else reader
        # Polars ends the process where some files are damaged.
        with_pyarrow = find_spec("pyarrow") is not None
        if not with_pyarrow and not _survives(reader, self._raw):
            raise TableError(f"{self.name} is not a complete {self._format.capitalize()} file.")
        try:
            with _without_last_words():
                if with_pyarrow:  # whose types are those of the file that is written
                    return pl.DataFrame(self._read_with_pyarrow()[0])
                return getattr(pl, reader)(io.BytesIO(self._raw))
        except pl.exceptions.DuplicateError as error:
            raise TableError(f"{self.name} has two columns of one name: {error}.") from None
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
            # Of two columns of one name in an Arrow file polars only says that it broke.
            doubled = ", or two of its columns have one name" if self._format == "arrow" else ""
            raise TableError(
                f"{self.name} is not a complete {self._format.capitalize()} file{doubled}."
            ) from None

    def _write_with_polars(self, moved, sink):
        if self._format == "parquet":
            metadata = pl.read_parquet_metadata(io.BytesIO(self._raw))
            metadata.pop("ARROW:schema", None)
            moved.write_parquet(sink, metadata=metadata)
        elif self._is_stream:
            moved.write_ipc_stream(sink)
        else:
            moved.write_ipc(sink)

    def _write_with_pyarrow(self, changed, sink):
        import pyarrow as pa
        import pyarrow.parquet as pq

        table, compression = self._read_with_pyarrow()
        with self._sentence("cannot be written with these values moved"):
            table = _replaced(table, changed)
            if self._format == "parquet":
                pq.write_table(table, sink, compression=compression)
                return
            write = pa.ipc.new_stream if self._is_stream else pa.ipc.new_file
            with write(sink, table.schema) as writer:
                writer.write_table(table)

    def _read_with_pyarrow(self):
        """Return the Arrow table of the file, and how a Parquet file is compressed."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        source, compression = pa.BufferReader(self._raw), "none"
        with self._sentence(f"is not a complete {self._format.capitalize()} file"):
            if self._format == "parquet":
                file = pq.ParquetFile(source)
                # In this order: an unknown compression ends the process where it is asked for.
                table = file.read()
                compression = _compression(file)
            else:
                open_file = pa.ipc.open_stream if self._is_stream else pa.ipc.open_file
                table = open_file(source).read_all()
            table.validate(full=True)
        return table, compression

    @contextmanager
    def _sentence(self, problem):
        """Turn errors of pyarrow, which are of many kinds, into a sentence."""
        import pyarrow as pa

        try:
            yield
        except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
            reason = str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
            raise TableError(f"{self.name} {problem}: {reason}.") from None


def _survives(reader, raw):
    """Return whether another process lives on after reading a file, or trying to."""
    script = f"import io, sys, polars; polars.{reader}(io.BytesIO(sys.stdin.buffer.read()))"
    trial = subprocess.run(
        [sys.executable, "-c", script], input=raw, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    return trial.returncode in (0, 1)


@contextmanager
def _without_last_words():
    """Close the error stream to threads of polars, which print there before they raise."""
    try:
        kept = os.dup(2)
    except OSError:  # closed already
        yield
        return
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _moved(frame, moves, name):
    """Return a typed frame with cells moved; a value that another type cannot hold is refused."""
    try:
        moved = move_cells(nw.from_native(frame, eager_only=True), frame.columns, moves)
    except ValueError as error:
        raise TableError(f"{name}: {error}") from None
    return moved.to_native()


def _compression(file):
    if not file.num_row_groups:
        return "snappy"
    name = file.metadata.row_group(0).column(0).compression
    return "none" if name == "UNCOMPRESSED" else name.lower()


def _replaced(table, changed):
    """Return an Arrow table with the columns of a polars frame in place of its own."""
    for series in changed:
        place = table.schema.get_field_index(series.name)
        field = table.schema.field(place)
        # Without its name, which polars cannot hand over if it holds a zero byte.
        cells = series.alias("").to_arrow()
        table = table.set_column(place, field, cells.cast(field.type))
    return table
