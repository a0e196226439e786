"""Which records of a large table are worth a search.

A search looks up every value in every column. Most records are usual in every cell and together,
and no damaged record that could be repaired looks like them. Two numbers say so at the cost of one
look at every cell in its own column: its least likely cell, and the squared distance of its
numbers. The limit is where hardly any of the table's own suspicious records, and of those damaged
on purpose, would be missed.
"""

from dataclasses import dataclass, replace

import numpy as np
from numba import njit

from unpermute.records._cells import DATE, Vocabulary
from unpermute.records._text import prepare_texts

__all__ = ["Screen", "fit_screen"]

# Share of suspicious records that may be missed.
_MISSED = 0.01
# So many records pass in any case; a screen that lets more of them pass than this saves nothing.
_LEAST_PASSING, _MOST_PASSING = 0.03, 0.8


@dataclass(frozen=True)
class Screen:
    """Limits of the two numbers, as ranks among the records it was fitted to.

    Attributes
    ----------
    usual : ndarray of shape (p,)
        Log-probability of a typical cell of every column.
    cells, distances : ndarray
        The two numbers of the records it was fitted to, in order.
    limit : float
        Rank from which on a record is worth a search.
    """

    usual: np.ndarray
    cells: np.ndarray
    distances: np.ndarray
    limit: float

    def passes(self, model, cells):
        """Return which records are worth a search."""
        return self.ranks(*_oddness(model, cells, self.usual)[:2]) >= self.limit

    def ranks(self, odd, distances):
        """Return the larger of the ranks of the two numbers."""
        ranks = [
            np.searchsorted(known, values) / len(known)
            for known, values in ((self.cells, odd), (self.distances, distances))
        ]
        return np.maximum(*ranks)


def fit_screen(model, fresh, wanted):
    """Fit to records that the model has not seen, and to some that it must not miss.

    Values that the model has seen are likelier than others, so records it was learned from do not
    tell what is usual. Returns None if a screen would save nothing.
    """
    odd, distances, usual = _oddness(model, fresh)
    screen = Screen(usual, np.sort(odd), np.sort(distances), 0.0)
    ranks = screen.ranks(odd, distances)
    missed = [
        screen.ranks(*_oddness(model, cells, usual)[:2]) for cells in wanted if cells.shape[0]
    ]
    limit = float(np.quantile(ranks, 1 - _LEAST_PASSING))
    if missed:
        limit = min(limit, float(np.quantile(np.concatenate(missed), _MISSED)))
    if np.mean(ranks >= limit) > _MOST_PASSING:
        return None
    return replace(screen, limit=limit)


def _oddness(model, cells, usual=None):
    """How unlikely the least likely cell of every record is, and how far away its numbers are.

    The third array is the log-probability of a typical cell of every column: the given one, or the
    median of these records.
    """
    n, p = cells.shape
    joint = model.joint
    odd, z = np.full(n, -np.inf), np.zeros((n, p))
    medians = np.empty(p) if usual is None else usual
    for j, column in enumerate(model.values):
        words, codes = _words(cells, j)
        prepared = prepare_texts(words.text_list) if words.text_list else None
        log_p = column.look_up(words, prepared, cells.style_names).log_probability()[codes]
        if usual is None:
            medians[j] = np.median(log_p)
        odd = np.maximum(odd, medians[j] - log_p)
        if joint.scores[j] is not None:
            numeric = words.kinds <= DATE
            scores = np.full(len(words), joint.location[-1, j])
            scores[numeric] = joint.scores[j](words.values[numeric])
            z[:, j] = scores[codes] - joint.location[-1, j]
    return odd, _squared_distances(z, joint.precision[-1]), medians


def _words(cells, j):
    """Return the distinct cells of a column and where they stand; of numbers, simply all cells."""
    column = cells.columns([j])
    if np.any(column.texts >= 0):
        words, codes = column.vocabulary()
        return words, codes[:, 0]
    parts = column.values, column.classes, column.styles, column.texts
    values, classes, styles, texts = (part[:, 0] for part in parts)
    return Vocabulary(values, classes, styles, texts, []), slice(None)


@njit(cache=True, nogil=True)
def _squared_distances(z, precision):
    """Squared distance of every row, by sums whose order other rows do not change."""
    n, p = z.shape
    found, along = np.zeros(n), np.empty(p)
    for r in range(n):
        along[:] = 0.0
        for b in range(p):
            for a in range(p):
                along[a] += precision[b, a] * z[r, b]
        for a in range(p):
            found[r] += along[a] * z[r, a]
    return found
