r"""Which columns depend on each other, beyond what the joint distribution of the numbers says.

**Categories.** Every column that takes no part in the joint distribution may depend on one other
column, its parent, so that the model stays a probability: with N occurrences of two bins together,

.. math:: \log\frac{p(c \mid b)}{p(c)}, \qquad p(c \mid b) = \frac{N_{cb} + α\,p(c)}{N_b + α} .

α and the parent are those with the best likelihood of cells that are left out; a parent must be
worth it.

**Order.** See :mod:`unpermute.records._orders`.

Both are learned from the records in use, and leave the record out that they judge.
"""

from dataclasses import dataclass, field

import numpy as np

from unpermute.records._bins import MOST_BINS, Bins, fit_bins
from unpermute.records._orders import find_orders, log_signs, signs_of
from unpermute.records._record import Links

__all__ = ["Dependence", "fit_dependence"]

# Weights of the marginal distribution that are tried.
_WEIGHTS = (0.5, 2.0, 8.0, 32.0)
# Log-likelihood that a parent must be worth, in all and per record.
_WORTH, _WORTH_EACH = 12.0, 0.01
# Records and bins of all columns that are looked at when parents are chosen.
_RECORDS, _MOST_LEVELS = 3000, 2500


@dataclass(frozen=True)
class Dependence:
    """Links between columns.

    Attributes
    ----------
    bins : dict of int to Bins
        Of every column that has a link by bins.
    first, second : ndarray of int of shape (n_links,)
        Child and parent, or the column of lower and that of higher values.
    kind : ndarray of int of shape (n_links,)
        -1: by bins; NUMBER or DATE: an order of columns of this kind.
    counts : list of ndarray
        Of every link: records by bins of child and parent, or by sign.
    weights : ndarray of shape (n_links,)
        α of links by bins.
    expected : list of ndarray
        Shares of signs that the correlation gives an order; empty for bins.
    """

    bins: dict[int, Bins] = field(default_factory=dict)
    first: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    second: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    kind: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    counts: list = field(default_factory=list)
    weights: np.ndarray = field(default_factory=lambda: np.zeros(0))
    expected: list = field(default_factory=list)

    def __len__(self):
        return len(self.first)

    def sound(self, p):
        """Return whether these can be links of p columns; one read from a file may be anything."""
        ends, n = np.concatenate([self.first, self.second]), len(self)
        lengths = {len(part) for part in (self.second, self.kind, self.weights)}
        lengths |= {len(self.counts), len(self.expected)}
        if lengths != {n} or np.any((ends < 0) | (ends >= p)):
            return False
        if not set(self.bins) <= set(range(p)) or not all(b.sound() for b in self.bins.values()):
            return False
        for e, (a, b) in enumerate(zip(self.first.tolist(), self.second.tolist(), strict=True)):
            if self.kind[e] >= 0:
                good = self.counts[e].shape == self.expected[e].shape == (3,)
            else:
                good = {a, b} <= set(self.bins) and self.weights[e] > 0
                good = good and self.counts[e].shape == (self.bins[a].size, self.bins[b].size)
            if not good or np.any(self.counts[e] < 0):
                return False
        return True

    def links(self):
        """Return the links for the kernels; None if there are none."""
        if not len(self):
            return None
        terms = np.zeros((len(self), *(2 * [MOST_BINS if len(self.bins) else 3])))
        for e, counts in enumerate(self.counts):
            if self.kind[e] >= 0:
                terms[e, 0, :3] = log_signs(counts, self.expected[e])
            else:
                a, b = counts.shape
                terms[e, :a, :b] = _log_ratios(counts, self.weights[e])
        return Links(np.column_stack([self.first, self.second, self.kind]).astype(np.int64), terms)

    def place(self, words, p):
        """Return the bin of every word in every column, -1 where there is none."""
        placed = np.full((len(words) if len(self) else 1, p), -1, dtype=np.int16)
        for column, bins in self.bins.items():
            placed[:, column] = bins.place(words)
        return placed

    def own(self, placed, words, home, used):
        """Return the terms of the records' own links, left out where `used`, and their keys."""
        n = len(home)
        terms, keys = np.zeros((n, len(self))), np.full((n, len(self)), -1, dtype=np.int64)
        for e, (a, b) in enumerate(zip(self.first, self.second, strict=True)):
            if self.kind[e] >= 0:
                keys[:, e] = signs_of(words, home[:, a], home[:, b], self.kind[e])
            else:
                one = placed[home[:, a], a].astype(np.int64)
                other = placed[home[:, b], b].astype(np.int64)
                keys[:, e] = np.where((one >= 0) & (other >= 0), one * MOST_BINS + other, -1)
            known, rows = np.unique(keys[:, e], return_inverse=True)
            values = np.array(
                [[self._term(e, key, without) for key in known] for without in (0, 1)]
            )
            terms[:, e] = values[used.astype(int), rows]
        return terms, keys

    def _term(self, e, key, without):
        if key < 0:
            return 0.0
        counts = self.counts[e].astype(float)
        place = key if self.kind[e] >= 0 else divmod(key, MOST_BINS)
        counts[place] = max(counts[place] - without, 0.0)
        if self.kind[e] >= 0:
            return log_signs(counts, self.expected[e])[place]
        return _log_ratios(counts, self.weights[e])[place]


def fit_dependence(words, home, used, joint, seed):
    """Learn which columns depend on each other.

    Parameters
    ----------
    words : Vocabulary
        Distinct cells.
    home : ndarray of int of shape (n, p)
        Words of every record.
    used : ndarray of bool of shape (n,)
        Records to learn from.
    joint : JointModel
        What the numbers say together.
    seed : int
        Chooses the records that are looked at.

    Returns
    -------
    Dependence
    """
    rows = np.flatnonzero(used)
    home = home[rows]
    some = home
    if len(rows) > _RECORDS:
        some = home[np.sort(np.random.default_rng(seed).permutation(len(rows))[:_RECORDS])]
    parents = _parents(words, home, some, ~joint.used)
    bins, linked = {}, [(*parent, -1, np.zeros(0)) for parent in parents[1]]
    for child, parent, *_ in linked:
        bins[child], bins[parent] = parents[0][child], parents[0][parent]
    for order in find_orders(words, some, home, joint):
        linked.append((order.low, order.high, 0.0, order.counts, order.kind, order.expected))
    if not linked:
        return Dependence()
    first, second, weights, counts, kind, expected = zip(*linked, strict=True)
    return Dependence(
        bins, np.array(first), np.array(second), np.array(kind), list(counts), np.array(weights),
        list(expected),
    )  # fmt: skip


def _parents(words, home, some, children):
    """Bins of all columns; and child, parent, weight and counts of every link worth having."""
    p = home.shape[1]
    if not children.any():
        return [], []
    counts = [np.bincount(column, minlength=len(words)).astype(float) for column in home.T]
    bins = [fit_bins(words, column) for column in counts]
    columns = np.flatnonzero([each.size >= 2 for each in bins])
    sizes = np.array([bins[j].size for j in columns])
    if not len(columns) or sizes.sum() > _MOST_LEVELS:
        return bins, []
    starts = np.cumsum(sizes) - sizes
    levels = np.zeros((some.shape[0], sizes.sum()), dtype=np.float32)
    for start, j in zip(starts, columns, strict=True):
        placed = bins[j].place(words)[some[:, j]]
        seen = np.flatnonzero(placed >= 0)
        levels[seen, start + placed[seen]] = 1.0
    gains, weights = _gains(levels, starts, sizes)
    gains[:, ~children[columns]] = -np.inf
    np.fill_diagonal(gains, -np.inf)
    least = _WORTH + _WORTH_EACH * len(some)
    found, parent_of = [], np.full(p, -1)
    for place in np.argsort(-gains, axis=None, kind="stable"):
        a, b = divmod(int(place), len(columns))
        parent, child = int(columns[a]), int(columns[b])
        if gains[a, b] < least:
            break
        if parent_of[child] < 0 and not _leads_to(parent_of, parent, child):
            parent_of[child] = parent
            together = _together(bins, words, home, child, parent)
            found.append((child, parent, weights[a, b], together))
    return bins, found


def _leads_to(parent_of, column, wanted):
    while column >= 0 and column != wanted:
        column = parent_of[column]
    return column == wanted


def _gains(levels, starts, sizes):
    """Gain in log-likelihood of every parent (row) for every child, and its best weight."""
    together = (levels.T @ levels).astype(float)
    single, n = np.diag(together).copy(), len(levels)
    # Of cells left out: rows are bins of parents, columns those of children.
    share = (np.maximum(single - 1, 0) + 0.5 / np.repeat(sizes, sizes)) / (n - 0.5)
    best = np.full((len(sizes), len(sizes)), -np.inf)
    chosen = np.zeros(best.shape)
    for weight in _WEIGHTS:
        top = np.maximum(together - 1, 0) + weight * share
        below = np.maximum(single[:, None] - 1, 0) + weight
        each = together * (np.log(top) - np.log(below) - np.log(share))
        gains = np.add.reduceat(np.add.reduceat(each, starts, axis=0), starts, axis=1)
        better = gains > best
        best[better], chosen[better] = gains[better], weight
    return best, chosen


def _together(bins, words, home, child, parent):
    """Records by bins of child and parent."""
    one, other = (bins[j].place(words)[home[:, j]] for j in (child, parent))
    seen = (one >= 0) & (other >= 0)
    size = bins[parent].size
    flat = np.bincount(one[seen].astype(np.int64) * size + other[seen],
                       minlength=bins[child].size * size)  # fmt: skip
    return flat.reshape(-1, size).astype(float)


def _log_ratios(counts, weight):
    n = counts.sum()
    share = (counts.sum(axis=1, keepdims=True) + 0.5 / len(counts)) / (n + 0.5)
    given = (counts + weight * share) / (counts.sum(axis=0) + weight)
    return np.log(given) - np.log(share)
