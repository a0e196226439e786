"""What every file format offers: a frame to look at, cells as text, and itself with cells moved."""

import mmap
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property

import numpy as np
import polars as pl

from unpermute.files._moves import Moves

__all__ = ["RaggedLine", "SourceTable", "TableError", "check_columns", "few", "refuse_doubles"]

_LONGEST = 600


class TableError(ValueError):
    """An error in a file, an option or a list of changes, in one sentence for people."""

    def __init__(self, sentence: str):
        # Names and values in it may be of any length.
        if len(sentence) > _LONGEST:
            sentence = f"{sentence[: _LONGEST // 2]} … {sentence[-_LONGEST // 3 :]}"
        super().__init__(" ".join(sentence.split("\n")))


@dataclass(frozen=True)
class RaggedLine:
    """A record that has another number of fields than the table has columns.

    Attributes
    ----------
    row, line : int
        Number of the record, from 0, and line of the file, from 1.
    fields : list of str
        As they stand in the file, without quotes.
    quoted : list of bool
        Which of them stand in quotes.
    """

    row: int
    line: int
    fields: list[str]
    quoted: list[bool]


class SourceTable(ABC):
    """A table as it stands in a file.

    Parameters
    ----------
    raw : bytes or mmap
        The file.
    name : str
        What messages call it.

    Attributes
    ----------
    name : str
        What messages call the file.
    columns : list of str
        Names of the columns, all different.
    n_rows : int
        Number of records.
    notes : list of str
        What was assumed about the file, once it has been read.
    compression : str or None
        How the file was compressed, such as ".gz".
    """

    compression: str | None = None

    columns: list[str]
    n_rows: int

    def __init__(self, raw: bytes | mmap.mmap, name: str):
        self._raw, self.name = raw, name
        self.notes: list[str] = []

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The table for calculations; cells of text formats are strings."""
        return self._read_frame()

    @cached_property
    def frame_rows(self) -> np.ndarray:
        """Numbers of the records that the frame holds: all but those with other fields."""
        return np.arange(self.n_rows)

    def ragged_lines(self) -> list[RaggedLine]:
        """Return the records that have another number of fields than there are columns."""
        return []

    @abstractmethod
    def _read_frame(self) -> pl.DataFrame:
        """Read all cells."""

    @abstractmethod
    def texts(self, rows: np.ndarray, columns: np.ndarray) -> list[str]:
        """Return cells, by position, as they stand in the file (without quotes)."""

    @abstractmethod
    def with_moves(self, moves: Moves) -> Iterator[bytes | memoryview]:
        """Yield the file, piece by piece, with cells moved and everything else as it was."""

    def lines(self, rows: np.ndarray) -> np.ndarray:
        """Return the lines of the file where records start, counted from 1."""
        return np.asarray(rows, dtype=np.int64) + 1

    def line(self, row: int) -> int:
        """Return the line of the file where a record starts, counted from 1."""
        return int(self.lines(np.array([row]))[0])


def few(things: Sequence[object], most: int = 10) -> str:
    """Return things in a row, the first of them if there are many."""
    named = ", ".join(map(str, things[:most]))
    return f"{named} and {len(things) - most:,} more" if len(things) > most else named


def check_columns(wanted: Sequence[str], table: SourceTable) -> None:
    """Refuse names that are no columns of the table, and suggest similar ones."""
    for name in wanted:
        if name not in table.columns:
            close = get_close_matches(name, table.columns, n=2, cutoff=0.6)
            if close:
                hint = "did you mean " + " or ".join(repr(other) for other in close) + "?"
            else:
                shown = ", ".join(repr(other) for other in table.columns[:8])
                hint = f"its columns are {shown}{', …' if len(table.columns) > 8 else ''}."
            raise TableError(f"{table.name} has no column {name!r}; {hint}")


def refuse_doubles(columns, name):
    """Refuse a table in which two columns have one name."""
    seen: set[str] = set()
    for column in columns:
        if column in seen:
            raise TableError(
                f"{name} has two columns called {column!r}; every column needs a name of its own."
            )
        seen.add(column)
