"""Bins of a column's values, used to find the other column that it depends on.

Few numbers have a bin each, many are binned by their quantiles, and so are dates; frequent texts
have a bin each, and missing cells share one. What is rare in the column has none: two cells that
were exchanged are rare together, and that is no dependence.
"""

from dataclasses import dataclass

import numpy as np

from unpermute.records._cells import DATE, MISSING, NUMBER, TEXT

__all__ = ["MOST_BINS", "Bins", "fit_bins"]

# Most distinct numbers that get a bin each, number of quantile bins if there are more, and number
# of frequent texts that get a bin.
_FEW, _QUANTILES, _MOST_TEXTS = 12, 8, 40
# Least number and share of the cells in a bin of their own, and share of numbers or dates in a
# column that they have bins at all.
_FEWEST, _SHARE, _OF_A_KIND = 3, 0.01, 0.1
MOST_BINS = 2 * _FEW + _MOST_TEXTS + 1


@dataclass(frozen=True)
class Bins:
    """How the words of one column are binned.

    Attributes
    ----------
    amounts : dict of int to tuple
        For NUMBER and DATE: the first bin, and the values or the edges, and whether these are
        values.
    texts : dict of str to int
        Bins of frequent texts.
    missing : int
        Bin of missing cells; -1: there is none.
    size : int
        Number of bins.
    """

    amounts: dict[int, tuple]
    texts: dict[str, int]
    missing: int
    size: int

    def sound(self):
        """Return whether all bins are within the size; bins read from a file may be anything."""
        last = [self.missing, *self.texts.values()]
        for first, points, exact in self.amounts.values():
            last += [first, first + len(points) - bool(exact)]
        return 0 <= self.size <= MOST_BINS and all(-1 <= place < self.size for place in last)

    def place(self, words):
        """Return the bin of every word of a vocabulary, -1 where there is none."""
        kinds = words.kinds
        bins = np.full(len(words), -1, dtype=np.int16)
        for kind, (first, points, exact) in self.amounts.items():
            mine = np.flatnonzero(kinds == kind)
            values = words.values[mine]
            if exact:
                places = np.minimum(np.searchsorted(points, values), len(points) - 1)
                bins[mine] = np.where(points[places] == values, first + places, -1)
            else:
                bins[mine] = first + np.searchsorted(points, values, side="right")
        if self.texts:
            for k in np.flatnonzero(kinds == TEXT):
                bins[k] = self.texts.get(words.text_list[words.texts[k]], -1)
        bins[kinds == MISSING] = self.missing
        return bins


def fit_bins(words, counts):
    """Choose the bins of a column in which every word occurs so often."""
    kinds, amounts, size = words.kinds, {}, 0
    least = max(_FEWEST, _SHARE * counts.sum())
    for kind in (NUMBER, DATE):
        mine = np.flatnonzero((kinds == kind) & (counts > 0))
        values, places = np.unique(words.values[mine], return_inverse=True)
        times = np.bincount(places, weights=counts[mine], minlength=len(values))
        exact = times[np.argsort(-times, kind="stable")][:_FEW].sum() >= times.sum() - least
        if times.sum() < max(least, _OF_A_KIND * counts.sum()):
            continue
        if exact:
            points = values[times >= least]
        else:
            ranks = np.cumsum(times)
            wanted = np.linspace(0, 1, _QUANTILES + 1)[1:-1] * ranks[-1]
            points = np.unique(values[np.searchsorted(ranks, wanted)])
        if len(points):
            amounts[kind] = (size, points, exact)
            size += len(points) + (not exact)
    mine = np.flatnonzero((kinds == TEXT) & (counts >= least))
    mine = mine[np.argsort(-counts[mine], kind="stable")][:_MOST_TEXTS]
    texts = {words.text_list[words.texts[k]]: size + t for t, k in enumerate(mine)}
    size += len(texts)
    missing = -1
    if counts[kinds == MISSING].sum() >= least:
        missing, size = size, size + 1
    return Bins(amounts, texts, missing, size)
