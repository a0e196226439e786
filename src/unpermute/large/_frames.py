"""A table in the partitions of a data frame, each of which is held by whoever works on it."""

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

import numpy as np

from unpermute.large._files import Block, Piece, TableFiles
from unpermute.stream import import_optional

__all__ = ["FrameFiles"]


class FrameFiles(TableFiles):
    """A table in partitions of pandas data frames.

    Parameters
    ----------
    columns : list of str
        Names of the columns.
    sizes : list of int
        Records of every partition.
    name : str
        What tells the data frame from another one.
    """

    format = "frame"
    _held: Any = None

    def __init__(self, columns: list[str], sizes: list[int], name: str):
        self.columns, self._name = columns, name
        self.notes, self.paths, self.names, self._states = [], [], [], []
        firsts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).tolist()
        parts = [f"part-{k:05d}.parquet" for k in range(len(sizes))]
        self.pieces = [
            Piece(k, part, part, part, first, 0, size, k, k + 1)
            for k, (part, first, size) in enumerate(zip(parts, firsts, sizes, strict=False))
        ]

    def holding(self, partition: Any) -> "FrameFiles":
        """Return the same with a partition at hand."""
        other = copy(self)
        other._held = partition
        return other

    def take(self, piece, rows):
        """Return some records of the partition."""
        return self._held.iloc[rows]

    def joined(self, parts):
        """Return the records as one data frame."""
        return import_optional("pandas").concat(parts), {}

    def settled(self, state):
        """Return the files: the types of a data frame leave nothing open."""
        return self

    def judged(
        self, piece: Piece, block_size: int, judge: Callable[..., Any], sink: Any
    ) -> Iterator[Block]:
        """Judge the partition block by block, and write it as Parquet."""
        frames = []
        for start in range(0, piece.size, block_size):
            result = judge(self._held.iloc[start : start + block_size])
            frames.append(result.frame)
            rows = np.arange(start, start + len(result.frame))
            yield Block(rows, result, _listed(result.proposals, start))
        if sink is not None:
            pandas = import_optional("pandas")
            (pandas.concat(frames) if frames else self._held).to_parquet(sink)

    def identity(self):
        """Return the name that Dask has given the data frame, after what it is made from."""
        return {"frame": self._name}


def _listed(proposals, start):
    """Proposed changes with rows of the partition."""
    names = ("row", "id", "column", "old", "new", "moved_from")
    columns = [proposals[name].tolist() for name in names]
    return [
        (start + row, None, str(called), *rest) for row, called, *rest in zip(*columns, strict=True)
    ]
