r"""Evidence of every row for an exchange of two columns, by distributions that few rows shape.

Cells are put into bins (quantiles of numbers and of dates, texts by what they read), one
distribution f per column. In every row, exchanging columns a and b changes the log-likelihood by

.. math:: s = \log f_a(x_b) + \log f_b(x_a) - \log f_a(x_a) - \log f_b(x_b)
          + \log g(-\operatorname{sign}(x_a - x_b)) - \log g(\operatorname{sign}(x_a - x_b)) .

The last two terms are there only for columns in a fixed order (joined, last seen), whose values
alone say little: g are the shares of lower, equal and higher values.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from unpermute.records._cells import DATE, NUMBER, TEXT, kinds_of
from unpermute.records._text import prepare_texts

__all__ = [
    "CLIP",
    "Binned",
    "best_segment",
    "bin_cells",
    "differences",
    "in_fixed_order",
    "log_shares",
    "ratios",
]

# Bins of numbers, of dates and of texts; the last bin is for missing cells.
_NUMBER_BINS, _DATE_BINS, _TEXT_BINS = 48, 24, 240
_N_BINS = _NUMBER_BINS + _DATE_BINS + _TEXT_BINS + 1
# Share of the rows from which on a text may have a bin of its own, and bins for those.
_FREQUENT, _NAMED = 0.005, 200
# Largest evidence of one row: one odd row must not make a run.
CLIP = 4.0
# Share of the rows in which one column is below the other for the two to be in a fixed order, and
# share of the rows in which both must hold numbers, or dates.
_ORDERED, _COMPARED = 0.98, 0.9


@dataclass(frozen=True)
class Binned:
    """A table of n rows and p columns, prepared for the comparison of columns.

    Attributes
    ----------
    bins : ndarray of int of shape (n, p)
        Bin of every cell.
    values : ndarray of shape (n, p)
        Numbers, and dates as days; NaN for texts and missing cells.
    kinds : ndarray of int8 of shape (n, p)
        NUMBER, DATE, TEXT or MISSING.
    """

    bins: np.ndarray
    values: np.ndarray
    kinds: np.ndarray

    def columns(self, places):
        """Return some of the columns."""
        return Binned(self.bins[:, places], self.values[:, places], self.kinds[:, places])

    def exchanged(self, a, b, rows):
        """Return the table with two columns exchanged in some rows."""
        parts = []
        for part in (self.bins, self.values, self.kinds):
            part = part.copy()
            part[rows, a], part[rows, b] = part[rows, b], part[rows, a].copy()
            parts.append(part)
        return Binned(*parts)


def bin_cells(cells):
    """Return the table with its cells in bins."""
    kinds = kinds_of(cells.classes)
    bins = np.full(cells.shape, _N_BINS - 1, dtype=np.int64)
    start = 0
    for kind, size in ((NUMBER, _NUMBER_BINS), (DATE, _DATE_BINS)):
        mine = kinds == kind
        if mine.any():
            edges = np.unique(np.quantile(cells.values[mine], np.linspace(0, 1, size + 1)[1:-1]))
            bins[mine] = start + np.searchsorted(edges, cells.values[mine], side="right")
        start += size
    mine = kinds == TEXT
    if mine.any():
        bins[mine] = start + _text_bins(cells)[cells.texts[mine]]
    return Binned(bins, cells.values, kinds)


def _text_bins(cells):
    """Bin of every text: one of its own if it is among the most frequent, else by its pattern."""
    counts = np.bincount(cells.texts[cells.texts >= 0], minlength=len(cells.text_list))
    rank = np.empty(len(counts), dtype=np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    patterns = np.unique(prepare_texts(cells.text_list).pattern, return_inverse=True)[1]
    named = (counts >= _FREQUENT * cells.shape[0]) & (rank < _NAMED)
    return np.where(named, rank, _NAMED + patterns % (_TEXT_BINS - _NAMED))


def log_shares(table, rows):
    """Log-probability of every bin in every column, learned from some rows; shape (bins, p)."""
    part = table.bins[rows]
    counts = np.stack([np.bincount(column, minlength=_N_BINS) for column in part.T], axis=1)
    pooled = counts.sum(axis=1, keepdims=True) + 0.5
    # Two cells of the average column smooth every column.
    return np.log((counts + 2 * pooled / pooled.sum()) / (len(part) + 2))


def ratios(table, shares, a, b):
    """Evidence of each of the two cells for the exchange, in every row."""
    x, y = table.bins[:, a], table.bins[:, b]
    first, second = shares[x, b] - shares[x, a], shares[y, a] - shares[y, b]
    equal = x == y
    return np.where(equal, 0.0, first), np.where(equal, 0.0, second)


def differences(table, a, b):
    """Column a minus column b; NaN where they do not hold two numbers or two dates."""
    same_kind = table.kinds[:, a] == table.kinds[:, b]
    return np.where(same_kind, table.values[:, a] - table.values[:, b], np.nan)


def in_fixed_order(table, rows):
    """How much the sign of a difference says, for columns in a fixed order among some rows.

    Returns an antisymmetric array of shape (p, p): evidence for an exchange of a and b in rows
    where a is above b; 0 for columns that are in no fixed order.
    """
    p = table.bins.shape[1]
    # One column after the other in memory.
    kinds = np.ascontiguousarray(table.kinds[rows].T)
    values = np.ascontiguousarray(table.values[rows].T)
    numeric = (kinds == NUMBER) | (kinds == DATE)
    evidence = np.zeros((p, p))
    for a in range(p):
        compared = (kinds == kinds[a]) & numeric
        above = np.count_nonzero(compared & (values > values[a]), axis=1)
        below = np.count_nonzero(compared & (values < values[a]), axis=1)
        n_seen = np.count_nonzero(compared, axis=1)
        ordered = (n_seen >= _COMPARED * kinds.shape[1]) & (above >= _ORDERED * n_seen)
        evidence[a] = np.where(ordered, np.log((above + 0.5) / (below + 0.5)), 0.0)
    return np.minimum(evidence, CLIP) - np.minimum(evidence, CLIP).T


@njit(cache=True, nogil=True)
def best_segment(bins, values, shares, sign, a, b, low, high):
    """Sum, start and stop of the segment of clipped evidence with the largest sum.

    `sign` is the evidence where column a is above column b. Between `low` and `high` nothing speaks
    for an exchange.
    """
    best, first, stop = 0.0, 0, 0
    total, start = 0.0, 0
    for r in range(len(bins)):
        x, y = bins[r, a], bins[r, b]
        s = 0.0
        if x != y:
            s = shares[x, b] - shares[x, a] + shares[y, a] - shares[y, b]
        if sign != 0.0:
            if values[r, a] > values[r, b]:
                s += sign
            elif values[r, a] < values[r, b]:
                s -= sign
        s = min(max(s, -CLIP), CLIP)
        if low <= r < high:
            s = min(s, 0.0)
        if total <= 0.0:
            total, start = 0.0, r
        total += s
        if total > best:
            best, first, stop = total, start, r + 1
    return best, first, stop
