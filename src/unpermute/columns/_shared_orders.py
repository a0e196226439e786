"""Which columns were shuffled together, when nobody tells.

Two columns that depend on each other, one regressed on the other, tell which rows of the two still
belong together. If the two are in the same order, all of them do. If one was shuffled, the rows in
which it was do not; and if several columns were shuffled together, these are the same rows for
every pair of a shuffled and another column. So pairs whose broken rows agree speak of one event.
In those rows columns on the same side keep their correlation, and columns on different sides have
none: that divides them. The smaller side counts as shuffled.
"""

from typing import NamedTuple

import numpy as np

from unpermute.numerics.mixture_regression import directions_of, fit_mixtures

__all__ = ["shuffled_together"]

# Pairs to compare: per column, from which correlation on, and at most.
_PARTNERS, _CORRELATED, _MOST_PAIRS = 6, 0.2, 600
# Evidence from which on two columns depend on each other.
_DEPENDENT = 30.0
# Share of rows that belong together, below which a pair is broken; the second limit is for tables
# where the first finds nothing.
_BROKEN = (0.85, 0.95)
# Correlation of the broken rows of two pairs that speak of one event.
_SAME_EVENT = 0.4
# Broken pairs that make an event: single ones may be curved or heavy-tailed.
_PAIRS_OF_AN_EVENT = 2
# Correlations and standardised values are clipped: one wild cell must not decide.
_LARGEST, _CLIPPED = 0.95, 3.0
# Log-likelihood ratio from which on it is decided on which side a column is.
_DECIDED = 5.0
# Least gain of independence across the sides, as a share of the gain of dependence within them:
# otherwise the rows are merely unusual.
_DIVIDED = 0.5
_MAX_FLIPS = 1000


class _Pair(NamedTuple):
    """Two columns that depend on each other."""

    evidence: float
    columns: tuple[int, int]
    share: float
    in_place: np.ndarray


def shuffled_together(X):
    """Find groups of columns that share one permutation of the rows.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns)
        Standardised columns.

    Returns
    -------
    groups : list of ndarray of int
        Numbers of columns.
    """
    dependent = _dependent_pairs(X)
    for limit in _BROKEN:
        groups = _events(X, [pair for pair in dependent if pair.share < limit])
        if groups:
            break
    return groups


def _events(X, pairs):
    """Groups of columns that pairs speak of, the strongest event first."""
    groups: list[np.ndarray] = []
    while len(pairs) >= _PAIRS_OF_AN_EVENT:
        same = [_correlation(pair.in_place, pairs[0].in_place) > _SAME_EVENT for pair in pairs]
        event = [pair for pair, is_same in zip(pairs, same, strict=True) if is_same]
        pairs = [pair for pair, is_same in zip(pairs, same, strict=True) if not is_same]
        if len(event) < _PAIRS_OF_AN_EVENT:
            continue
        weights = np.array([pair.evidence for pair in event])
        in_place = np.average([pair.in_place for pair in event], axis=0, weights=weights)
        side = _smaller_side(X, in_place > 0.5)
        groups.append(side)
        pairs = [pair for pair in pairs if not set(side.tolist()) & set(pair.columns)]
    return [group for group in groups if len(group)]


def _dependent_pairs(X):
    """Pairs of columns that depend on each other, the strongest dependence first."""
    correlations = np.abs(np.triu(X.T @ X, 1)) / len(X)
    strongest = np.sort(correlations, axis=None)[::-1][: min(_PARTNERS * X.shape[1], _MOST_PAIRS)]
    pairs = []
    for j, k in np.argwhere(correlations >= max(strongest[-1], _CORRELATED)):
        fit = fit_mixtures(X[:, [j]].T, *directions_of(X[:, [k]].T))
        if fit.evidence[0] > _DEPENDENT:
            columns = int(j), int(k)
            pairs.append(_Pair(fit.evidence[0], columns, fit.share[0], fit.weights[0]))
    return sorted(pairs, key=lambda pair: -pair.evidence)


def _smaller_side(X, in_place):
    """Divide the columns by the rows that one event broke; return the side with fewer of them.

    Nothing is returned if the columns keep their correlations in these rows.
    """
    kept = np.clip(X[in_place].T @ X[in_place] / np.sum(in_place), -_LARGEST, _LARGEST)
    moved = np.clip(X[~in_place], -_CLIPPED, _CLIPPED)
    # Log-likelihood ratio of two normal variables with the correlation they have elsewhere to two
    # independent ones, in the rows that moved.
    products, squares = moved.T @ moved, np.sum(moved**2, axis=0)
    quadratic = kept**2 * (squares[:, None] + squares) - 2 * kept * products
    ratio = -0.5 * (quadratic / (1 - kept**2) + len(moved) * np.log1p(-(kept**2)))
    np.fill_diagonal(ratio, 0.0)
    side = np.sign(np.linalg.eigh(ratio)[1][:, -1])
    for _ in range(_MAX_FLIPS):
        agreement = side * (ratio @ side)
        if agreement.min() >= 0.0:
            break
        side[np.argmin(agreement)] *= -1.0
    ones, others = side > 0, side < 0
    across = ratio[np.ix_(ones, others)].sum()
    within = 0.5 * (ratio[np.ix_(ones, ones)].sum() + ratio[np.ix_(others, others)].sum())
    if across > -_DIVIDED * within:
        return np.zeros(0, dtype=np.int64)
    decided = side * (ratio @ side) > _DECIDED
    return min(np.flatnonzero(decided & ones), np.flatnonzero(decided & others), key=len)


def _correlation(a, b):
    a, b = a - a.mean(), b - b.mean()
    return a @ b / max(np.sqrt((a @ a) * (b @ b)), 1e-300)
