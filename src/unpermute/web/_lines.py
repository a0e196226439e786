"""Lines with another number of fields than the header: records whose repair is an edit."""

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from unpermute.files import INSERT, JOIN, RaggedLine, SourceTable
from unpermute.web._orders import EDITS

__all__ = ["Lines"]


class Lines:
    """The lines of a table that are not regular.

    Parameters
    ----------
    source : SourceTable
        The table.
    """

    def __init__(self, source: SourceTable):
        self._source = source
        self._columns = source.columns

    @cached_property
    def _by_row(self) -> dict[int, RaggedLine]:
        return {line.row: line for line in self._source.ragged_lines()}

    @cached_property
    def rows(self) -> np.ndarray:
        """Their numbers in the file, ascending."""
        irregular = np.ones(self._source.n_rows, dtype=bool)
        irregular[self._source.frame_rows] = False
        return np.flatnonzero(irregular)

    def __contains__(self, row: int) -> bool:
        return row in self._by_row

    def __getitem__(self, row: int) -> RaggedLine:
        return self._by_row[row]

    def surplus(self, row: int) -> int:
        """Return how many fields a line has too many; negative: too few."""
        return len(self._by_row[row].fields) - len(self._columns)

    def choices(self, row: int) -> list[tuple[int, str]]:
        """Return the edits that make a line regular: column and kind of each."""
        surplus = self.surplus(row)
        if abs(surplus) != 1 or set(EDITS) & set(self._columns):
            return []
        if surplus == -1:
            return [(column, INSERT) for column in range(len(self._columns))]
        quoted = self._by_row[row].quoted
        return [(k, JOIN) for k in range(len(self._columns)) if not any(quoted[k : k + 2])]

    def mended(self, row: int, edit: tuple[int, str]) -> list[str]:
        """Return the cells of a line after an edit."""
        fields, (column, kind) = self._by_row[row].fields, edit
        if kind == INSERT:
            return [*fields[:column], "", *fields[column:]]
        between = self._source.delimiter  # type: ignore[attr-defined]
        both = between.join(fields[column : column + 2])
        return [*fields[:column], both, *fields[column + 2 :]]

    def shown(self, row: int, edit: tuple[int, str]) -> tuple[str, str]:
        """Return what an edit changes, before and after, in a few words."""
        fields, (column, kind) = self._by_row[row].fields, edit
        before = "no field" if kind == INSERT else " | ".join(fields[column : column + 2])
        return before, self.mended(row, edit)[column]

    def problem(self, moved: Mapping[str, str], rows: np.ndarray) -> str:
        """Say why an order does not fit some records; "" if it does."""
        edits = [(column, kind) for column, kind in moved.items() if kind in EDITS]
        if not moved or not (edits or len(self.rows)) or set(EDITS) & set(self._columns):
            return ""
        irregular = np.isin(rows, self.rows)
        if not edits and irregular.any():
            return "cells of a line with another number of fields cannot move."
        if edits and not irregular.all():
            return "only a line with another number of fields can be made regular."
        if not edits:
            return ""
        wanted = [(self._columns.index(column), kind) for column, kind in edits]
        fit = len(wanted) == 1 and all(wanted[0] in self.choices(row) for row in rows.tolist())
        return "" if fit else "this edit does not make the line regular."
