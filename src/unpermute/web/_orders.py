"""Ways in which the cells of a record move, each numbered once: one integer says it per record."""

from collections.abc import Mapping

import numpy as np

from unpermute.files import INSERT, JOIN

__all__ = ["EDITS", "STAYS", "Orders"]

# The number of the order in which nothing moves.
STAYS = 0
# Where the value of a column comes from that makes a line regular: from two fields, or from none.
EDITS = {JOIN: -1, INSERT: -2}


class Orders:
    """Distinct orders of the columns.

    An order is a tuple of pairs: a column, and the column that its value comes from, for those
    that change. A line with one field too many or too few has one pair, with one of `EDITS`.

    Parameters
    ----------
    columns : list of str
        All columns of the table.

    Attributes
    ----------
    known : list of tuple
        The orders, by number.
    """

    def __init__(self, columns: list[str]):
        self.columns = columns
        # A table with a column of such a name has no lines that can be made regular.
        self._places = EDITS | {name: place for place, name in enumerate(columns)}
        self._names = {place: name for name, place in self._places.items()}
        self.known: list[tuple[tuple[int, int], ...]] = [()]
        self._numbers: dict[tuple[tuple[int, int], ...], int] = {(): STAYS}

    def number(self, pairs) -> int:
        """Return the number of an order, given as pairs of columns by place."""
        order = tuple(sorted((int(a), int(b)) for a, b in pairs if a != b))
        if order not in self._numbers:
            self._numbers[order] = len(self.known)
            self.known.append(order)
        return self._numbers[order]

    def named(self, moved: Mapping[str, str]) -> int:
        """Return the number of an order, given by the names of the columns."""
        return self.number((self._places[a], self._places[b]) for a, b in moved.items())

    def names(self, number: int) -> dict[str, str]:
        """Return an order by names: from which column each changed column takes its value."""
        return {self._names[a]: self._names[b] for a, b in self.known[number]}

    def edit(self, number: int) -> tuple[int, str] | None:
        """Return the column and the kind of an edit that makes a line regular, None for others."""
        order = self.known[number]
        return (order[0][0], self._names[order[0][1]]) if order and order[0][1] < 0 else None

    def of_cells(self, starts: np.ndarray, targets: np.ndarray, origins: np.ndarray) -> np.ndarray:
        """Return the order of every record.

        Parameters
        ----------
        starts : ndarray of int of shape (n + 1,)
            Where the cells of each record start; the last entry is the number of cells.
        targets, origins : ndarray of int
            Column of every moved cell, ascending within a record, and where its value comes from.

        Returns
        -------
        ndarray of int of shape (n,)
        """
        sizes = np.diff(starts)
        found = np.zeros(len(sizes), dtype=np.int32)
        for size in np.unique(sizes[sizes > 0]).tolist():
            mine = np.flatnonzero(sizes == size)
            cells = starts[mine, None] + np.arange(size)
            both = np.concatenate([targets[cells], origins[cells]], axis=1)
            distinct, codes = np.unique(both, axis=0, return_inverse=True)
            numbers = [
                self.number(zip(row[:size], row[size:], strict=True)) for row in distinct.tolist()
            ]
            found[mine] = np.array(numbers, dtype=np.int32)[codes.ravel()]
        return found

    def using(self, column: int) -> np.ndarray:
        """Return which orders change a column."""
        return np.array([any(a == column for a, _ in order) for order in self.known])

    def sizes(self) -> np.ndarray:
        """Return how many cells each order moves."""
        return np.array([len(order) for order in self.known])
