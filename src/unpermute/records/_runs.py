r"""Runs of rows in which two columns are exchanged.

Cells are put into bins (quantiles of numbers and of dates, texts by what they read), one
distribution f per column. In every row, exchanging columns a and b changes the log-likelihood by

.. math:: s = \log f_a(x_b) + \log f_b(x_a) - \log f_a(x_a) - \log f_b(x_b), \qquad |s| \le 4 .

The segment with the largest sum of s is sought (Kadane) with f learned from all rows, from either
half and from every quarter, and again with f learned from the rows outside. A run is accepted if
the sum clearly beats the number of segments and pairs, if s is as large inside as -s is outside, at
the edges too, if each of the two cells alone agrees, if the exchanged values fit as well as those
outside, if the other columns do not change there, and if neither column runs on in order across the
edges. The side with fewer rows is the run; near half of the table it cannot be told which is right.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from unpermute.records._cells import DATE, NUMBER, TEXT, kinds_of
from unpermute.records._text import prepare_texts

__all__ = ["Run", "find_runs", "run_orders"]

# Bins of numbers, of dates and of texts; the last bin is for missing cells.
_NUMBER_BINS, _DATE_BINS, _TEXT_BINS = 48, 24, 120
# Share of the rows from which on a text has a bin of its own kind, and bins for those.
_FREQUENT, _NAMED = 0.005, 90
_N_BINS = _NUMBER_BINS + _DATE_BINS + _TEXT_BINS + 1
# No row says more than this: one odd row is no run.
_CLIP = 4.0
# Fewest rows of a run, and of a table that is searched for one.
_SHORTEST, _FEWEST = 6, 40
# Log-likelihood by which the sum must beat the number of segments and pairs of columns.
_NEEDED = 12.0
# Evidence per row outside; evidence of each cell alone; share of what is usual outside that the
# inside, the edges and each cell alone must reach.
_PER_ROW, _PER_CELL, _BALANCE, _CELL_BALANCE = 0.7, 0.2, 0.5, 0.3
# Log-likelihood per cell that the run, once exchanged, may lack compared with the rows outside:
# values of other columns do not fit by exchanging two.
_MISFIT = 0.5
# Changes of value within a run that each column must have.
_CHANGES = 5
# Bins for comparing the other columns inside and outside, and total variation that is a change.
_COARSE, _CHANGED = 8, 0.35
# Evidence per row of the table from which on a run is asked about, and repaired: with less, rows
# of another kind look like it.
_ASKED, _REPAIRED = 1.2, 2.6
# Share of the rows up to which a run is repaired.
_MINORITY = 0.4
# Runs of a table, and candidates that are looked at more closely for each.
_MOST_RUNS, _TRIED = 4, 12
# Columns of a pair that together would take too much memory are not searched.
_MOST_CELLS = 60_000_000


@dataclass(frozen=True)
class Run:
    """Two columns exchanged in the rows from `first` to `last`, both included.

    Attributes
    ----------
    a, b : int
        The columns.
    first, last : int
        Rows, from 0.
    share : float
        Share of all rows.
    score : float
        Evidence of all rows, for the exchange inside and against it outside.
    minority : bool
        Whether it is clear that these rows are the exchanged ones.
    edges : ndarray of shape (n,)
        Probability that every row of the table belongs to the run.
    """

    a: int
    b: int
    first: int
    last: int
    share: float
    score: float
    minority: bool
    edges: np.ndarray


def run_orders(runs, n, p):
    """Order of the cells of every record, and the probability that it is right in runs."""
    orders, sure = np.tile(np.arange(p, dtype=np.int16), (n, 1)), np.ones(n)
    for run in runs:
        rows = np.arange(run.first, run.last + 1)
        orders[rows, run.a], orders[rows, run.b] = orders[rows, run.b], orders[rows, run.a]
        sure = np.minimum(sure, np.maximum(run.edges, 1 - run.edges))
    return orders, sure


def find_runs(cells):
    """Return the runs of a table, strongest first; at most one per pair of columns."""
    n, p = cells.shape
    if n < _FEWEST or p < 2 or n * p * (p - 1) // 2 > _MOST_CELLS:
        return []
    bins = _binned(cells)
    found: list[Run] = []
    pairs = np.stack(np.triu_indices(p, 1), axis=1)
    for _ in range(_MOST_RUNS):
        run = _strongest(cells, bins, pairs)
        if run is None or any((run.a, run.b) == (other.a, other.b) for other in found):
            break
        found.append(run)
        rows = slice(run.first, run.last + 1)
        bins[rows, run.a], bins[rows, run.b] = bins[rows, run.b], bins[rows, run.a].copy()
    return found


def _binned(cells):
    """Bin of every cell."""
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
    return bins


def _text_bins(cells):
    """Bin of every text: a random one if it is frequent, else one for its pattern."""
    n_texts = len(cells.text_list)
    counts = np.bincount(cells.texts[cells.texts >= 0], minlength=n_texts)
    frequent = counts >= _FREQUENT * cells.shape[0]
    patterns = np.unique(prepare_texts(cells.text_list).pattern, return_inverse=True)[1]
    draw = np.random.default_rng(0).permutation(max(n_texts, len(patterns)) + _TEXT_BINS)
    return np.where(frequent, draw[:n_texts] % _NAMED, _NAMED + patterns % (_TEXT_BINS - _NAMED))


def _references(n):
    """Parts of the rows to learn from: all, halves, quarters."""
    quarters = np.linspace(0, n, 5).astype(int)
    parts = [(0, n), (0, n // 2), (n // 2, n)]
    return parts + list(zip(quarters[:-1].tolist(), quarters[1:].tolist(), strict=True))


def _log_shares(bins, rows):
    """Log-probability of every bin in every column, learned from some rows; shape (bins, p)."""
    p = bins.shape[1]
    part = bins[rows]
    counts = np.stack([np.bincount(part[:, j], minlength=_N_BINS) for j in range(p)], axis=1)
    pooled = counts.sum(axis=1, keepdims=True) + 0.5
    # Two cells of the average column smooth every column.
    return np.log((counts + 2 * pooled / pooled.sum()) / (len(part) + 2))


def _ratios(bins, log_shares, a, b):
    """Evidence of each of the two cells for the exchange, in every row."""
    x, y = bins[:, a], bins[:, b]
    first = log_shares[x, b] - log_shares[x, a]
    second = log_shares[y, a] - log_shares[y, b]
    equal = x == y
    return np.where(equal, 0.0, first), np.where(equal, 0.0, second)


def _strongest(cells, bins, pairs):
    """The best run of all pairs of columns, or None."""
    n = len(bins)
    needed = np.log(n * n / 2) + np.log(len(pairs)) + _NEEDED
    candidates: dict[tuple, float] = {}
    for low, high in _references(n):
        log_shares = _log_shares(bins, slice(low, high))
        # The reference is as it is by definition, unless it is the whole table.
        known = (low, high) if (low, high) != (0, n) else (0, 0)
        for a, b in pairs.tolist():
            total, first, stop = _best_segment(bins, log_shares, a, b, *known)
            if total > needed / 2 and stop - first >= _SHORTEST:
                key = (a, b, first, stop)
                candidates[key] = max(candidates.get(key, 0.0), total)
    best = None
    for (a, b, first, stop), _ in sorted(candidates.items(), key=lambda each: -each[1])[:_TRIED]:
        run = _judged(cells, bins, a, b, first, stop, needed)
        if run is not None and (best is None or run.score > best.score):
            best = run
    return best and _as_minority(best, n)


def _segment(s):
    """Sum, start and stop of the segment with the largest sum."""
    sums = np.append(0.0, np.cumsum(s))
    lowest = np.minimum.accumulate(sums)
    stop = int(np.argmax(sums - lowest))
    start = int(np.flatnonzero(sums[: stop + 1] == lowest[stop])[-1])
    return float(sums[stop] - lowest[stop]), start, stop


def _judged(cells, bins, a, b, first, stop, needed):
    """The run once f is learned from the rows outside, or None if it does not hold."""
    n = len(bins)
    for _ in range(3):
        inside = np.zeros(n, dtype=bool)
        inside[first:stop] = True
        if np.sum(~inside) < max(20, 0.2 * n) or stop - first < _SHORTEST:
            return None
        one, other = _ratios(bins, _log_shares(bins, ~inside), a, b)
        s = np.clip(one + other, -_CLIP, _CLIP)
        total, start, end = _segment(s)
        if (start, end) == (first, stop):
            break
        first, stop = start, end
    inside = np.zeros(n, dtype=bool)
    inside[first:stop] = True
    if not _SHORTEST <= stop - first <= 0.8 * n or total < needed:
        return None
    clear = _balance(s, inside, first, stop)
    for part in (one, other):
        part = np.clip(part, -_CLIP, _CLIP)
        within, without = part[inside].mean(), -part[~inside].mean()
        if without < _PER_CELL or within < max(_CELL_BALANCE * without, 1e-9):
            return None
    if _misfit(bins, a, b, inside) > _MISFIT:
        return None
    if -s[~inside].mean() < _PER_ROW or clear < _BALANCE:
        return None
    if any(_few_changes(bins, c, first, stop) or _in_order(cells, c, first, stop) for c in (a, b)):
        return None
    if _another_population(bins, (a, b), inside):
        return None
    score = (s[inside].sum() - s[~inside].sum()) * min(clear, 1.0)
    if score < _ASKED * n:
        return None
    clear_enough = bool(score >= _REPAIRED * n)
    edges = _edges(s, first, stop)
    return Run(a, b, first, stop - 1, (stop - first) / n, float(score), clear_enough, edges)


def _edges(s, first, stop):
    """Probability that every row belongs to the run, given that its middle does."""
    middle, inside = (first + stop) // 2, np.ones(len(s))
    for part, backwards in ((slice(middle, None), False), (slice(0, middle), True)):
        steps = s[part][::-1] if backwards else s[part]
        # The run ends after k of these rows with a weight that grows with their sum.
        sums = np.append(0.0, np.cumsum(steps))
        weights = np.exp(sums - sums.max())
        beyond = 1 - np.cumsum(weights)[:-1] / weights.sum()
        inside[part] = beyond[::-1] if backwards else beyond
    return inside


def _balance(s, inside, first, stop):
    """The least of the evidence inside and at the edges, relative to what is usual."""
    n, usual = len(s), max(-s[~inside].mean(), 0.05)
    width = int(min(max(8, np.sqrt(n)), stop - first, 60))
    shares = [s[inside].mean() / usual]
    if first > 0:
        shares += [s[first : first + width].mean() / usual]
        shares += [-s[max(first - width, 0) : first].mean() / usual]
    if stop < n:
        shares += [s[stop - width : stop].mean() / usual, -s[stop : stop + width].mean() / usual]
    return min(shares)


def _misfit(bins, a, b, inside):
    """How much less likely, per cell, the exchanged values are inside than the others outside."""
    log_shares = _log_shares(bins, ~inside)
    losses = []
    for here, there in ((a, b), (b, a)):
        outside = log_shares[bins[~inside, here], here].mean()
        losses.append(outside - log_shares[bins[inside, there], here].mean())
    return max(losses)


def _another_population(bins, pair, inside):
    """Whether half of the other columns change as well: then the rows are of another kind."""
    others = [c for c in range(bins.shape[1]) if c not in pair]
    changed = 0
    for c in others:
        edges = np.unique(np.quantile(bins[:, c], np.linspace(0, 1, _COARSE + 1)[1:-1]))
        coarse = np.searchsorted(edges, bins[:, c], side="right")
        within, without = (
            np.bincount(coarse[side], minlength=_COARSE) / side.sum() for side in (inside, ~inside)
        )
        changed += 0.5 * np.abs(within - without).sum() > _CHANGED
    return len(others) > 0 and changed >= len(others) / 2


def _few_changes(bins, column, first, stop):
    return np.count_nonzero(np.diff(bins[first:stop, column])) < _CHANGES


def _in_order(cells, column, first, stop):
    """Whether a column runs on in order across the edges: an exchange would have broken it."""
    width = int(max(8, np.sqrt(cells.shape[0])))
    v = cells.values[max(first - width, 0) : stop + width, column]
    if np.mean(np.isnan(v)) > 0.02:
        return False
    steps = np.diff(v[~np.isnan(v)])
    return len(steps) > 0 and bool(max(np.mean(steps >= 0), np.mean(steps <= 0)) > 0.98)


def _as_minority(run, n):
    """The same finding told of the side with fewer rows."""
    first, last, share = run.first, run.last, run.share
    at_edge = first == 0 or last == n - 1
    if share > 0.5 and at_edge:
        first, last = (last + 1, n - 1) if first == 0 else (0, first - 1)
        share = 1 - share
    edges = run.edges if share == run.share else 1 - run.edges
    minority = run.minority and share <= _MINORITY
    return Run(run.a, run.b, first, last, share, run.score, minority, edges)


@njit(cache=True, nogil=True)
def _best_segment(bins, log_shares, a, b, low, high):
    """Sum, start and stop of the segment of clipped evidence with the largest sum.

    Between `low` and `high` nothing speaks for an exchange.
    """
    best, first, stop = 0.0, 0, 0
    total, start = 0.0, 0
    for r in range(len(bins)):
        x, y = bins[r, a], bins[r, b]
        s = 0.0
        if x != y:
            s = log_shares[x, b] - log_shares[x, a] + log_shares[y, a] - log_shares[y, b]
            s = min(max(s, -_CLIP), _CLIP)
            if low <= r < high:
                s = min(s, 0.0)
        if total <= 0.0:
            total, start = 0.0, r
        total += s
        if total > best:
            best, first, stop = total, start, r + 1
    return best, first, stop
