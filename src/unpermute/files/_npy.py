"""NumPy files: one matrix, whose header and layout are kept."""

import io
import math
import mmap
import warnings
from collections.abc import Iterator

import numpy as np
import polars as pl

from unpermute.files._moves import Moves
from unpermute.files._source import SourceTable, TableError

__all__ = ["NpyTable"]

# NumPy itself reads no longer headers from files that nobody vouches for.
_MOST_HEADER = 10_000 + 100


class NpyTable(SourceTable):
    """A matrix in a NumPy file; its columns are called "0", "1", …."""

    def __init__(self, raw: bytes | mmap.mmap, name: str):
        super().__init__(raw, name)
        shape, fortran, dtype, begin = _read_header(raw, name)
        if len(shape) != 2 or dtype.kind not in "biuf":
            raise TableError(f"{name} is not a table: it must hold one matrix of numbers.")
        if not shape[1]:
            raise TableError(f"{name} is not a table: its matrix has no columns.")
        size = math.prod(shape) * dtype.itemsize
        if size > len(raw) - begin:
            raise TableError(f"{name} is cut off: its matrix is {shape[0]} × {shape[1]}.")
        if size < len(raw) - begin:
            raise TableError(f"{name} holds more than one array; only the first could be repaired.")
        flat = np.frombuffer(raw, dtype=dtype, offset=begin) if size else np.empty(0, dtype)
        self._array = array = flat.reshape(shape, order="F" if fortran else "C")
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


def _read_header(raw, name):
    """Return shape, whether columns come first, type of numbers, and where they begin."""
    stream = io.BytesIO(raw[:_MOST_HEADER])
    try:
        version = np.lib.format.read_magic(stream)
        read = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        with warnings.catch_warnings():
            # Headers that Python 2 has written are read as well.
            warnings.simplefilter("ignore", UserWarning)
            shape, fortran, dtype = read(stream)
        if min(shape, default=0) < 0:
            raise ValueError
        return shape, fortran, dtype, stream.tell()
    except Exception:
        # A damaged header fails in every way in which Python's own parser can fail.
        raise TableError(f"{name} is not a NumPy file with numbers, or is cut off.") from None
