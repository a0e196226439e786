"""What a source of vectors is, and those that can be sliced like a matrix."""

import os
from abc import ABC, abstractmethod

import joblib
import numpy as np

__all__ = ["ArraySource", "MappedSource", "Source", "check_numbers"]


class Source(ABC):
    """Vectors that are read range by range.

    Attributes
    ----------
    n_vectors : int
    n_features : int
    names : list of str or None
        Names of the columns, if they have any.
    """

    n_vectors: int
    n_features: int
    names: list[str] | None = None

    @abstractmethod
    def read(self, start: int, stop: int) -> np.ndarray:
        """Return the vectors from `start` up to `stop` as a float64 matrix of their own."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a fingerprint of the source, which changes when its content does."""


class ArraySource(Source):
    """A matrix that can be sliced: NumPy's or zarr's, in memory or not."""

    def __init__(self, array, columns=None):
        check_numbers(array)
        self._array = array
        self._columns = _positions(columns, array.shape[1])
        self.n_vectors = int(array.shape[0])
        self.n_features = len(self._columns) if columns is not None else int(array.shape[1])

    def read(self, start, stop):
        block = self._array[start:stop]
        if self._columns is not None:
            block = block[:, self._columns]
        return np.array(block, dtype=np.float64, order="C")

    def fingerprint(self):
        # Reading all would take a pass of its own; three vectors tell most changes.
        ends = sorted({0, self.n_vectors // 2, max(self.n_vectors - 1, 0)})
        rows = [self.read(k, k + 1) for k in ends]
        return joblib.hash((self._array.shape, str(self._array.dtype), self._columns, rows))


class MappedSource(ArraySource):
    """A matrix in a file, mapped into memory by whichever process reads it."""

    def __init__(self, array, columns=None):
        super().__init__(array, columns)
        self._path = os.path.abspath(array.filename)
        order = "C" if array.flags.c_contiguous else "F"
        self._layout = dict(dtype=array.dtype, offset=array.offset, shape=array.shape, order=order)

    def fingerprint(self):
        state = os.stat(self._path)
        layout = sorted((key, str(value)) for key, value in self._layout.items())
        return joblib.hash((state.st_size, state.st_mtime_ns, layout, self._columns))

    def __getstate__(self):
        return {key: value for key, value in vars(self).items() if key != "_array"}

    def __setstate__(self, state):
        vars(self).update(state)
        self._array = np.memmap(self._path, mode="r", **self._layout)


def check_numbers(array):
    """Refuse what is no matrix of real numbers."""
    if getattr(array, "ndim", None) != 2:
        shape = getattr(array, "shape", "unknown")
        raise ValueError(f"source must be a matrix, one vector per row, but has shape {shape}.")
    if np.dtype(array.dtype).kind not in "biuf":
        raise ValueError(f"source must hold real numbers, but has dtype {array.dtype}.")


def _positions(columns, n_columns):
    if columns is None:
        return None
    positions = np.asarray(columns)
    if positions.ndim != 1 or positions.dtype.kind not in "iu" or len(positions) == 0:
        raise ValueError(f"columns={columns!r} must be positions: this source has no names.")
    if positions.min() < 0 or positions.max() >= n_columns:
        raise ValueError(f"columns={columns!r} must lie between 0 and {n_columns - 1}.")
    return positions
