"""NumPy files: one matrix, whose header and layout are kept."""

import io
import mmap
from collections.abc import Iterator

import numpy as np
import polars as pl

from unpermute.files._moves import Moves
from unpermute.files._source import SourceTable, TableError

__all__ = ["NpyTable"]


class NpyTable(SourceTable):
    """A matrix in a NumPy file; its columns are called "0", "1", ….

    Parameters
    ----------
    raw : bytes or mmap
        The file.
    name : str
        What messages call it.
    """

    def __init__(self, raw: bytes | mmap.mmap, name: str):
        self.name, self._raw = name, raw
        stream = io.BytesIO(raw)
        try:
            array = np.load(stream, allow_pickle=False)
        except (ValueError, EOFError, OSError):
            raise TableError(f"{name} is not a NumPy file with numbers, or is cut off.") from None
        if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype.kind not in "biuf":
            raise TableError(f"{name} is not a table: it must hold one matrix of numbers.")
        if stream.tell() != len(raw):
            raise TableError(f"{name} holds more than one array; only the first could be repaired.")
        self._array = array
        self.n_rows, n_columns = array.shape
        self.columns = [str(column) for column in range(n_columns)]

    def texts(self, rows: np.ndarray, columns: np.ndarray) -> list[str]:
        """Return numbers as text, with as many digits as tell them apart."""
        return [str(value) for value in self._array[rows, columns]]

    def with_moves(self, moves: Moves) -> Iterator[bytes | memoryview]:
        """Yield the file with numbers moved."""
        array = self._array
        moved = array.copy(order="K")
        moved[moves.rows, moves.columns] = array[moves.from_rows, moves.from_columns]
        fortran = array.flags.f_contiguous and not array.flags.c_contiguous
        yield self._raw[: len(self._raw) - array.nbytes]
        yield moved.tobytes(order="F" if fortran else "C")

    def _read_frame(self) -> pl.DataFrame:
        dtype = self._array.dtype.newbyteorder("=")
        # Of the types of NumPy, polars lacks only the shortest and the longest float.
        if dtype.kind == "f" and dtype.itemsize not in (4, 8):
            dtype = np.dtype(np.float64)
        columns = np.asfortranarray(self._array, dtype=dtype).T
        return pl.DataFrame(dict(zip(self.columns, columns, strict=True)), nan_to_null=True)
