"""What is in force: the entries of a journal folded into one answer per record."""

from collections.abc import Iterable

import numpy as np

from unpermute.web._journal import ANSWERS, rows_from_ranges
from unpermute.web._orders import STAYS, Orders

__all__ = ["ACCEPTED", "OPEN", "OWNER", "REJECTED", "Standing"]

OPEN, ACCEPTED, REJECTED, OWNER = range(len(ANSWERS))


class Standing:
    """The decision in force about every record of a table.

    Parameters
    ----------
    n_rows : int
        Records of the table.
    orders : Orders
        Numbers of the orders that decisions name.
    entries : iterable of dict
        The journal.

    Attributes
    ----------
    answer : ndarray of int8 of shape (n_rows,)
        OPEN, ACCEPTED, REJECTED or OWNER.
    order : ndarray of int32 of shape (n_rows,)
        How the cells of an accepted record move.
    entry : ndarray of int32 of shape (n_rows,)
        Entry of the journal that decided; 0 if nobody did.
    notes : dict of int to str
        Notes by record.
    undone : set of int
        Entries that are not in force.
    """

    def __init__(self, n_rows: int, orders: Orders, entries: Iterable[dict] = ()):
        self._orders = orders
        self._entries: list[dict] = []
        self.answer = np.zeros(n_rows, dtype=np.int8)
        self.order = np.full(n_rows, STAYS, dtype=np.int32)
        self.entry = np.zeros(n_rows, dtype=np.int32)
        self.notes: dict[int, str] = {}
        self.undone: set[int] = set()
        for entry in entries:
            self._entries.append(entry)
            self._mark(entry)
        self._fold()

    def add(self, entry: dict) -> None:
        """Put a new entry into force."""
        self._entries.append(entry)
        if self._mark(entry):
            self._fold()
        else:
            self._apply(entry)

    def _mark(self, entry):
        """Remember what is undone; returns whether earlier entries are concerned."""
        if entry["do"] == "undo":
            self.undone.add(entry["of"])
        elif entry["do"] == "redo":
            self.undone.discard(entry["of"])
        else:
            return False
        return True

    def _fold(self):
        """Apply all entries again, so that the order of undoing does not matter."""
        self.answer[:], self.order[:], self.entry[:] = OPEN, STAYS, 0
        self.notes.clear()
        for entry in self._entries:
            if entry["entry"] not in self.undone:
                self._apply(entry)

    def _apply(self, entry):
        if entry["do"] == "note":
            self.notes[entry["row"]] = entry["text"]
            if not entry["text"]:
                del self.notes[entry["row"]]
        elif entry["do"] == "decide":
            for group in entry["groups"]:
                rows = rows_from_ranges(group["rows"])
                self.answer[rows] = ANSWERS.index(group["answer"])
                self.order[rows] = self._orders.named(group["from"])
                self.entry[rows] = entry["entry"]
