"""Suspicious records as arrays: found by a scan, filtered, sorted and counted in milliseconds."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

import numpy as np

from unpermute.files import EDIT_CAUSES, Changes, TableError
from unpermute.table import RaggedProposal
from unpermute.web._journal import ANSWERS
from unpermute.web._orders import EDITS, STAYS, Orders
from unpermute.web._standing import OPEN, Standing

__all__ = ["SORTS", "Filter", "Records", "records_of", "records_of_lines"]

SORTS = {
    "sure": "surest first",
    "unsure": "least sure first",
    "damaged": "most suspicious first",
    "line": "as in the file",
    "cells": "most cells first",
}
# What is known about a line for which nothing is proposed.
_OTHER_FIELDS = "another number of fields"
_STATES = (*ANSWERS, "decided", "edited")
_TYPES: dict[str, Any] = {"low": float, "high": float, "page": int} | dict.fromkeys(
    ("column", "cause", "state", "sort"), str
)


@dataclass(frozen=True)
class Records:
    """One entry per suspicious record, in the order of the file.

    Attributes
    ----------
    rows : ndarray of int
        Numbers of the records in the file, from 0, ascending.
    damaged, confidence : ndarray of float
        Probability of damage, and that all of the proposal is right; NaN if nobody knows.
    sure : ndarray of bool
        Whether the command would make the repair without asking.
    cause : ndarray of int
        Index into `causes`.
    order : ndarray of int
        The proposal, by number.
    evidence : ndarray of str
        What speaks for it, in words.
    causes : list of str
        What may have happened to a record.
    orders : Orders
        What the numbers mean.
    """

    rows: np.ndarray
    damaged: np.ndarray
    confidence: np.ndarray
    sure: np.ndarray
    cause: np.ndarray
    order: np.ndarray
    evidence: np.ndarray
    causes: list[str]
    orders: Orders

    def __len__(self) -> int:
        return len(self.rows)

    def place(self, row: int) -> int | None:
        """Return the place of a record, None if it is not listed."""
        k = int(np.searchsorted(self.rows, row))
        return k if k < len(self.rows) and self.rows[k] == row else None

    def lists(self, rows: np.ndarray) -> np.ndarray:
        """Return which of some records are listed."""
        if not len(self.rows):
            return np.zeros(len(rows), dtype=bool)
        places = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        return self.rows[places] == rows

    def chosen(self, wanted: "Filter", standing: Standing) -> np.ndarray:
        """Return the places of the records that a filter lets through, sorted."""
        keep = np.ones(len(self.rows), dtype=bool)
        if wanted.column:
            keep &= self._using(wanted.column)
        if wanted.cause:
            keep &= self.cause == self._cause(wanted.cause)
        if wanted.low > 0:
            keep &= self.confidence >= wanted.low
        if wanted.high < 1:
            keep &= self.confidence < wanted.high
        if wanted.state:
            keep &= self._in_state(wanted.state, standing)
        if wanted.sort == "line":
            return np.flatnonzero(keep)
        order = self._sorted(wanted.sort)
        return order[keep[order]]

    def including(self, rows: np.ndarray, order: np.ndarray, cause: str) -> "Records":
        """Return the records with others that nothing but a decision is known about."""
        new = ~self.lists(rows)
        if not new.any():
            return self
        rows, order = rows[new], order[new]
        unknown = np.full(len(rows), np.nan)
        return self.merged(
            Records(
                rows, unknown, unknown, np.zeros(len(rows), dtype=bool),
                np.zeros(len(rows), dtype=np.int16), order.astype(np.int32),
                np.full(len(rows), "", dtype=object), [cause], self.orders,
            )
        )  # fmt: skip

    def merged(self, others: "Records") -> "Records":
        """Return these records and others; none is in both."""
        if not len(others):
            return self
        causes = [*self.causes, *(each for each in others.causes if each not in self.causes)]
        theirs = np.array([causes.index(each) for each in others.causes], dtype=np.int16)
        others = replace(others, cause=theirs[others.cause])
        at = np.argsort(np.concatenate([self.rows, others.rows]), kind="stable")
        arrays: dict[str, Any] = {
            each.name: np.concatenate([getattr(self, each.name), getattr(others, each.name)])[at]
            for each in fields(self)
            if each.name not in ("causes", "orders")
        }
        return Records(**arrays, causes=causes, orders=self.orders)

    def _using(self, column):
        if column not in self.orders.columns:
            raise TableError(f"{column!r} is no column of the table.")
        return self.orders.using(self.orders.columns.index(column))[self.order]

    def _cause(self, cause):
        return self.causes.index(cause) if cause in self.causes else -1

    def _in_state(self, state, standing):
        answer = standing.answer[self.rows]
        if state == "decided":
            return answer != OPEN
        if state == "edited":
            told = standing.order[self.rows]
            return (told != STAYS) & (told != self.order)
        return answer == ANSWERS.index(state)

    @cached_property
    def _known_sorts(self) -> dict[str, np.ndarray]:
        return {}

    def _sorted(self, sort):
        """Places of all records in an order; kept, because sorting takes longer than filtering."""
        if sort not in self._known_sorts:
            key = {
                "sure": -self.confidence,
                "unsure": self.confidence,
                "damaged": -self.damaged,
                "cells": -self.orders.sizes()[self.order],
            }[sort]
            self._known_sorts[sort] = np.argsort(key, kind="stable")
        return self._known_sorts[sort]


def records_of(changes: Changes, orders: Orders) -> Records:
    """Return the records that a scan found suspicious.

    Parameters
    ----------
    changes : Changes
        Everything it proposes, by rows and columns of the file.
    orders : Orders
        Where the proposals get their numbers.
    """
    changes = changes.by_row()
    rows, first = np.unique(changes.rows, return_index=True)
    starts = np.append(first, len(changes.rows))
    causes, cause = np.unique(changes.cause[first].astype(str), return_inverse=True)
    return Records(
        rows=rows,
        damaged=changes.damaged[first],
        confidence=changes.confidence[first],
        sure=changes.accept[first],
        cause=cause.astype(np.int16),
        order=orders.of_cells(starts, changes.columns, changes.from_columns),
        evidence=changes.evidence[first],
        causes=causes.tolist(),
        orders=orders,
    )


def records_of_lines(proposals: Iterable[RaggedProposal], orders: Orders) -> Records:
    """Return lines with another number of fields than the header as suspicious records."""
    found = list(proposals)
    edits = [each.edit for each in found]
    sure = [np.nan if each.edit is None else each.confidence for each in found]
    order = [
        STAYS if edit is None else orders.number([(edit.column, EDITS[edit.kind])])
        for edit in edits
    ]
    words = [_OTHER_FIELDS if edit is None else EDIT_CAUSES[edit.kind] for edit in edits]
    causes, cause = np.unique(np.array(words, dtype=str), return_inverse=True)
    evidence = [f"the line has {len(each.line.fields)} fields" for each in found]
    return Records(
        rows=np.array([each.line.row for each in found], dtype=np.int64),
        damaged=np.ones(len(found)),
        confidence=np.array(sure, dtype=float),
        sure=np.array([each.accepted for each in found], dtype=bool),
        cause=cause.astype(np.int16),
        order=np.array(order, dtype=np.int32),
        evidence=np.array(evidence, dtype=object),
        causes=causes.tolist(),
        orders=orders,
    )


@dataclass(frozen=True)
class Filter:
    """Which records to list, and how; texts are empty where they do not matter."""

    column: str = ""
    cause: str = ""
    low: float = 0.0
    high: float = 1.0
    state: str = ""
    sort: str = "sure"
    page: int = 1

    @classmethod
    def read(cls, given: Mapping[str, str]) -> "Filter":
        """Read what stands in an address; anything else is refused in a sentence."""
        values: dict[str, Any] = {}
        for each in fields(cls):
            text = given.get(each.name, "")
            if not text:
                continue
            try:
                values[each.name] = _TYPES[each.name](text)
            except ValueError:
                raise TableError(f"{each.name}={text!r} must be a number.") from None
        wanted = cls(**values)
        if wanted.sort not in SORTS:
            raise TableError(f"sort={wanted.sort!r} must be one of {', '.join(SORTS)}.")
        if wanted.state and wanted.state not in _STATES:
            raise TableError(f"state={wanted.state!r} must be one of {', '.join(_STATES)}.")
        if not (0 <= wanted.low <= 1 and 0 <= wanted.high <= 1) or wanted.page < 1:
            raise TableError("low and high must be between 0 and 1, and page at least 1.")
        return wanted

    def query(self, **other: Any) -> str:
        """Return the filter, with some things changed, as it stands in an address."""
        wanted = replace(self, **other)
        given = {each.name: getattr(wanted, each.name) for each in fields(self)
                 if getattr(wanted, each.name) != each.default}  # fmt: skip
        return urlencode(given)

    def words(self) -> str:
        """Return in words which records it lets through."""
        parts = []
        if self.state:
            parts.append({"open": "not decided", "accept": "accepted", "reject": "rejected",
                          "owner": "for their owner"}.get(self.state, self.state))  # fmt: skip
        if self.cause:
            parts.append(self.cause)
        if self.column:
            parts.append(f"column {self.column}")
        if self.low > 0:
            parts.append(f"probability ≥ {self.low:g}")
        if self.high < 1:
            parts.append(f"probability < {self.high:g}")
        return ", ".join(parts)
