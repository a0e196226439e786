"""What every file format offers: a frame to look at, cells as text, and itself with cells moved."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property

import numpy as np
import polars as pl

__all__ = ["Moves", "SourceTable", "TableError", "check_columns", "move_cells"]


class TableError(ValueError):
    """What is wrong with a file, an option or a list of changes, in one sentence for people."""


@dataclass(frozen=True)
class Moves:
    """Cells that receive the value of other cells, by position; all arrays have one length."""

    rows: np.ndarray
    columns: np.ndarray
    from_rows: np.ndarray
    from_columns: np.ndarray

    @classmethod
    def none(cls) -> "Moves":
        """Return the moves that leave everything where it is."""
        return cls(*(np.empty(0, dtype=np.int64) for _ in range(4)))

    def __len__(self) -> int:
        return len(self.rows)


class SourceTable(ABC):
    """A table as it stands in a file.

    Attributes
    ----------
    name : str
        What messages call the file.
    columns : list of str
        Names of the columns, all different.
    n_rows : int
        Number of records.
    """

    name: str
    columns: list[str]
    n_rows: int

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The table for calculations; cells of text formats are strings."""
        return self._read_frame()

    @abstractmethod
    def _read_frame(self) -> pl.DataFrame:
        """Read all cells."""

    @abstractmethod
    def texts(self, rows: np.ndarray, columns: np.ndarray) -> list[str]:
        """Return cells, by position, as they stand in the file (without quotes)."""

    @abstractmethod
    def with_moves(self, moves: Moves) -> Iterator[bytes | memoryview]:
        """Yield the file, piece by piece, with cells moved and everything else as it was."""

    def line(self, row: int) -> int:
        """Return the line of the file where a record starts, counted from 1."""
        return row + 1


def check_columns(wanted: Sequence[str], table: SourceTable) -> None:
    """Refuse names that are no columns of the table, with names that are meant perhaps."""
    for name in wanted:
        if name not in table.columns:
            close = get_close_matches(name, table.columns, n=2, cutoff=0.6)
            if close:
                hint = "did you mean " + " or ".join(repr(other) for other in close) + "?"
            else:
                shown = ", ".join(repr(other) for other in table.columns[:8])
                hint = f"its columns are {shown}{', …' if len(table.columns) > 8 else ''}."
            raise TableError(f"{table.name} has no column {name!r}; {hint}")


def check_names(columns: Sequence[str], name: str) -> None:
    """Refuse a table in which two columns have one name."""
    seen: set[str] = set()
    for column in columns:
        if column in seen:
            raise TableError(
                f"{name} has two columns called {column!r}; every column needs a name of its own."
            )
        seen.add(column)


def move_cells(frame: pl.DataFrame, moves: Moves, name: str) -> pl.DataFrame:
    """Return a typed frame with cells moved; a value that another type cannot hold is refused."""
    changed = []
    for column in np.unique(moves.columns):
        series = frame.to_series(int(column))
        for origin in np.unique(moves.from_columns[moves.columns == column]):
            chosen = (moves.columns == column) & (moves.from_columns == origin)
            values = frame.to_series(int(origin)).gather(moves.from_rows[chosen])
            fitting = values.cast(series.dtype, strict=False)
            lost = ~fitting.cast(values.dtype, strict=False).eq_missing(values)
            if lost.any():
                k = int(lost.arg_max() or 0)
                raise TableError(
                    f"{name}: column {series.name!r} ({series.dtype}) cannot hold {values[k]} of"
                    f" row {moves.from_rows[chosen][k]}, column {values.name!r}, exactly."
                )
            series = series.scatter(moves.rows[chosen], fitting)
        changed.append(series)
    return frame.with_columns(changed)
