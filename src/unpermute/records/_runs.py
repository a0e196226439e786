"""Runs of rows in which two columns are exchanged.

What every row says about an exchange (:mod:`unpermute.records._pairs`) is clipped to ±4, and the
segment with the largest sum is sought (Kadane), with distributions learned from all rows, from
either half and from every quarter, and again with those learned from the rows outside. A run is
accepted if the sum clearly beats the number of segments and pairs, if the evidence is as large
inside as it is against the exchange outside, at the edges too, if each of the two cells alone
agrees (or, of columns in a fixed order, if their differences are mirrored), if the exchanged values
fit as well as those outside, if the other columns do not change there, and if neither column goes
on across the edges. The side with fewer rows is the run; near half of the table it cannot be
told which is right.
"""

from dataclasses import dataclass

import numpy as np

from unpermute.records._causes import RUN
from unpermute.records._pairs import (
    CLIP,
    best_segment,
    bin_cells,
    differences,
    in_fixed_order,
    log_shares,
    ratios,
)

__all__ = ["Run", "find_runs"]

# Fewest rows of a run, and of a table that is searched for one.
_SHORTEST, _FEWEST = 6, 40
# Log-likelihood by which the sum must beat the number of segments and pairs of columns.
_NEEDED = 12.0
# Evidence per row outside; evidence of each cell alone; share of what is usual outside that the
# inside, the edges and each cell alone must reach.
_PER_ROW, _PER_CELL, _BALANCE, _CELL_BALANCE = 0.7, 0.2, 0.5, 0.3
# Columns in a fixed order: share of the rows inside that must have the order turned, and largest
# distance between the distributions of differences inside and outside.
_TURNED, _UNLIKE = 0.98, 0.3
# Columns are compared if no larger share of their differences is missing. They cross by themselves
# if the differences at an edge are smaller than this share of the usual one.
_INCOMPARABLE, _CLOSE = 0.1, 0.5
# Log-likelihood per cell that the run, once exchanged, may lack compared with the rows outside:
# values of other columns do not fit by exchanging two.
_MISFIT = 0.5
# Changes of value within a run that each column must have.
_CHANGES = 5
# Bins for comparing the other columns inside and outside, and total variation that is a change.
_COARSE, _CHANGED = 8, 0.35
# A step of a column at an edge is more than drift if it exceeds this multiple of the column's steep
# steps elsewhere, those at this quantile.
_JUMP, _STEEP = 1.5, 0.9
# Steps from row to row, relative to differences between any two rows, of a column that goes on from
# row to row, and rows whose mean is compared across an edge.
_SMOOTH, _NEAR = 0.4, 4
# Evidence per row of the table from which on a run is asked about, and repaired: with less, rows
# of another kind look like it. From the third on, the other columns may drift.
_ASKED, _REPAIRED, _PLAIN = 1.2, 2.6, 3.5
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
    probability : ndarray of shape (n,)
        Of every row of the table, to belong to the run.
    """

    cause = RUN

    a: int
    b: int
    first: int
    last: int
    share: float
    score: float
    minority: bool
    probability: np.ndarray

    @property
    def rows(self):
        """All rows of the run."""
        return np.arange(self.first, self.last + 1)


def find_runs(cells):
    """Return the runs of a table, strongest first; at most one per pair of columns."""
    n, p = cells.shape
    if n < _FEWEST or p < 2 or n * p * (p - 1) // 2 > _MOST_CELLS:
        return []
    table = bin_cells(cells)
    found: list[Run] = []
    pairs = np.stack(np.triu_indices(p, 1), axis=1)
    for _ in range(_MOST_RUNS):
        run = _strongest(table, pairs)
        if run is None or any((run.a, run.b) == (other.a, other.b) for other in found):
            break
        found.append(run)
        table = table.exchanged(run.a, run.b, slice(run.first, run.last + 1))
    return found


def _references(n):
    """Parts of the rows to learn from: all, halves, quarters."""
    quarters = np.linspace(0, n, 5).astype(int)
    parts = [(0, n), (0, n // 2), (n // 2, n)]
    return parts + list(zip(quarters[:-1].tolist(), quarters[1:].tolist(), strict=True))


def _strongest(table, pairs):
    """The best run of all pairs of columns, or None."""
    n = len(table.bins)
    needed = np.log(n * n / 2) + np.log(len(pairs)) + _NEEDED
    candidates: dict[tuple, float] = {}
    for low, high in _references(n):
        rows = slice(low, high)
        shares, signs = log_shares(table, rows), in_fixed_order(table, rows)
        # The reference is as it is by definition, unless it is the whole table.
        known = (low, high) if (low, high) != (0, n) else (0, 0)
        for a, b in pairs.tolist():
            total, first, stop = best_segment(
                table.bins, table.values, shares, signs[a, b], a, b, *known
            )
            if total > needed / 2 and stop - first >= _SHORTEST:
                key = (a, b, first, stop)
                candidates[key] = max(candidates.get(key, 0.0), total)
    best = None
    for (a, b, first, stop), _ in sorted(candidates.items(), key=lambda each: -each[1])[:_TRIED]:
        run = _judged(table, a, b, first, stop, needed)
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


def _judged(table, a, b, first, stop, needed):
    """The run once distributions are learned from the rows outside, or None if it does not hold."""
    n = len(table.bins)
    for _ in range(3):
        inside = _rows_between(first, stop, n)
        if np.sum(~inside) < max(20, 0.2 * n) or stop - first < _SHORTEST:
            return None
        evidence = _evidence(table, a, b, ~inside)
        s = np.clip(evidence.sum(axis=0), -CLIP, CLIP)
        total, start, end = _segment(s)
        if (start, end) == (first, stop):
            break
        first, stop = start, end
    inside = _rows_between(first, stop, n)
    if not _SHORTEST <= stop - first <= 0.8 * n or total < needed:
        return None
    clear = _balance(s, inside, first, stop)
    if -s[~inside].mean() < _PER_ROW or clear < _BALANCE:
        return None
    difference, ordered = differences(table, a, b), np.any(evidence[2])
    alike = _cells_agree(evidence[:2], inside) or (ordered and _mirrored(difference, inside))
    if not alike or _crosses(difference, first, stop):
        return None
    if _misfit(table, a, b, inside) > _MISFIT:
        return None
    if any(_few_changes(table.bins, c, first, stop) or _in_order(table.values[:, c], first, stop)
           for c in (a, b)):  # fmt: skip
        return None
    if _goes_on(table.values[:, a], table.values[:, b], first, stop):
        return None
    score = (s[inside].sum() - s[~inside].sum()) * min(clear, 1.0)
    if score < _ASKED * n:
        return None
    if _another_population(table.bins, (a, b), first, stop, may_drift=score >= _PLAIN * n):
        return None
    clear_enough = bool(score >= _REPAIRED * n)
    edges = _edges(s, first, stop)
    return Run(a, b, first, stop - 1, (stop - first) / n, float(score), clear_enough, edges)


def _rows_between(first, stop, n):
    inside = np.zeros(n, dtype=bool)
    inside[first:stop] = True
    return inside


def _evidence(table, a, b, rows):
    """Evidence for the exchange in every row: of either cell, and of a fixed order."""
    one, other = ratios(table, log_shares(table, rows), a, b)
    signs = np.nan_to_num(np.sign(differences(table, a, b)))
    return np.stack([one, other, in_fixed_order(table.columns([a, b]), rows)[0, 1] * signs])


def _cells_agree(evidence, inside):
    """Whether each of the two cells alone speaks for the exchange."""
    for part in np.clip(evidence, -CLIP, CLIP):
        within, without = part[inside].mean(), -part[~inside].mean()
        if without < _PER_CELL or within < max(_CELL_BALANCE * without, 1e-9):
            return False
    return True


def _mirrored(difference, inside):
    """Whether the differences of two columns inside are those outside with the sign turned."""
    seen = ~np.isnan(difference)
    usual = np.sign(np.nanmedian(difference[~inside]))
    if np.mean(difference[inside & seen] * usual < 0) < _TURNED:
        return False
    size = np.abs(difference)
    within, without = np.sort(size[inside & seen]), np.sort(size[~inside & seen])
    every = np.append(within, without)
    shares = [np.searchsorted(part, every, side="right") / len(part) for part in (within, without)]
    return np.max(np.abs(shares[0] - shares[1])) <= _UNLIKE


def _crosses(difference, first, stop):
    """Whether two columns come close to each other at an edge: they cross there by themselves."""
    n, size = len(difference), np.abs(difference)
    if np.mean(np.isnan(size)) > _INCOMPARABLE:
        return False
    width, usual = int(max(8, np.sqrt(n) / 2)), np.nanmedian(size)
    near = [size[max(edge - width, 0) : edge + width] for edge in (first, stop) if 0 < edge < n]
    return any(np.nanmean(np.append(part, np.nan)) < _CLOSE * usual for part in near)


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


def _misfit(table, a, b, inside):
    """How much less likely, per cell, the exchanged values are inside than the others outside."""
    shares, bins = log_shares(table, ~inside), table.bins
    losses = []
    for here, there in ((a, b), (b, a)):
        outside = shares[bins[~inside, here], here].mean()
        losses.append(outside - shares[bins[inside, there], here].mean())
    return max(losses)


def _another_population(bins, pair, first, stop, *, may_drift):
    """Whether half of the other columns change as well: then the rows are of another kind.

    With `may_drift`, only those count that change at the edges.
    """
    others = [c for c in range(bins.shape[1]) if c not in pair]
    inside = _rows_between(first, stop, len(bins))
    changed = 0
    for c in others:
        edges = np.unique(np.quantile(bins[:, c], np.linspace(0, 1, _COARSE + 1)[1:-1]))
        coarse = np.searchsorted(edges, bins[:, c], side="right")
        within, without = (
            np.bincount(coarse[side], minlength=_COARSE) / side.sum() for side in (inside, ~inside)
        )
        distance = 0.5 * np.abs(within - without).sum()
        changed += distance > _CHANGED and not (may_drift and not _jumps(coarse, first, stop))
    return len(others) > 0 and changed >= len(others) / 2


def _jumps(column, first, stop):
    """Whether a column changes at an edge of the run more than it usually does: no mere drift."""
    n = len(column)
    width = int(np.clip(np.sqrt(n) / 2, 4, (stop - first)))
    sums = np.append(0.0, np.cumsum(column))
    places = np.arange(width, n - width + 1)
    steps = np.abs(sums[places + width] - 2 * sums[places] + sums[places - width])
    edges = np.array([edge for edge in (first, stop) if width <= edge <= n - width])
    usual = np.quantile(steps, _STEEP)
    return len(edges) == 0 or steps[edges - width].max() >= _JUMP * usual


def _few_changes(bins, column, first, stop):
    return np.count_nonzero(np.diff(bins[first:stop, column])) < _CHANGES


def _in_order(values, first, stop):
    """Whether a column runs on in order across the edges: an exchange would have broken it."""
    width = int(max(8, np.sqrt(len(values))))
    v = values[max(first - width, 0) : stop + width]
    if np.mean(np.isnan(v)) > 0.02:
        return False
    steps = np.diff(v[~np.isnan(v)])
    return len(steps) > 0 and bool(max(np.mean(steps >= 0), np.mean(steps <= 0)) > 0.98)


def _goes_on(x, y, first, stop):
    """Whether two smooth columns go on across an edge as they are: no exchange happened there."""
    if not (_is_smooth(x) and _is_smooth(y)):
        return False
    for edge in (first, stop):
        parts = [part[side] for side in (slice(max(edge - _NEAR, 0), edge),
                                         slice(edge, edge + _NEAR)) for part in (x, y)]  # fmt: skip
        if any(np.all(np.isnan(part)) for part in parts):
            continue
        x0, y0, x1, y1 = (np.nanmean(part) for part in parts)
        if abs(x1 - x0) + abs(y1 - y0) < abs(y1 - x0) + abs(x1 - y0):
            return True
    return False


def _is_smooth(v):
    v = v[~np.isnan(v)]
    if len(v) < _FEWEST:
        return False
    anywhere = v[np.random.default_rng(0).permutation(len(v))]
    return np.median(np.abs(np.diff(v))) < _SMOOTH * np.median(np.abs(v - anywhere))


def _as_minority(run, n):
    """The same finding told of the side with fewer rows."""
    first, last, share = run.first, run.last, run.share
    at_edge = first == 0 or last == n - 1
    if share > 0.5 and at_edge:
        first, last = (last + 1, n - 1) if first == 0 else (0, first - 1)
        share = 1 - share
    inside = run.probability if share == run.share else 1 - run.probability
    minority = run.minority and share <= _MINORITY
    return Run(run.a, run.b, first, last, share, run.score, minority, inside)
