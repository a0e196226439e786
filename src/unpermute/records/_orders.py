"""Columns in a fixed order: the values of one hardly ever exceed those of another.

Where that is so (joined, last seen), the sign of the difference says more than the correlation. The
term of a sign is the logarithm of its share over the share that normal scores of the correlation
would give it. Exceptions count in that share, unless they look like the others exchanged.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from unpermute.records._cells import DATE, NUMBER

__all__ = ["Order", "find_orders", "log_signs", "signs_of"]

# Share of records up to which an order may be violated, least share that the correlation must
# allow for it to say anything, and records it takes.
_VIOLATED, _ALLOWED, _FEWEST = 0.005, 0.01, 40
# Larger share of violations that is allowed if they mirror the other records: if their differences
# are as large (mean rank 1/2 among the others), they are exchanged, not exceptions.
_EXCHANGED, _MIRRORED, _LEAST_MIRRORED = 0.05, (0.35, 0.7), 3
# Largest evidence of one sign.
_LEAST_SIGN, _MOST_SIGN = -6.0, 2.0
_DRAWS, _MOST_COLUMNS = 4000, 200


class Order(NamedTuple):
    """Column `low` is hardly ever above column `high`.

    `counts` are the records with a lower, an equal and a higher value, and `expected` the shares of
    these that the correlation would give.
    """

    low: int
    high: int
    kind: int
    counts: np.ndarray
    expected: np.ndarray


def find_orders(words, some, home, joint):
    """Return the orders among the columns that take part in a joint distribution.

    They are sought in the records of words `some`, and counted in those of `home`.
    """
    columns = np.flatnonzero(joint.used)
    if not 2 <= len(columns) <= _MOST_COLUMNS or len(some) < _FEWEST:
        return []
    found: dict[tuple[int, int], tuple] = {}
    for kind in (NUMBER, DATE):
        values = np.where(words.kinds == kind, words.values, np.nan)[some[:, columns]]
        mine = np.flatnonzero(np.sum(~np.isnan(values), axis=0) >= max(_FEWEST, len(some) / 2))
        for a, b, expected in _candidates(values[:, mine], columns[mine], joint):
            found[a, b] = kind, expected
    orders = []
    for (a, b), (kind, expected) in found.items():
        # An order that follows from two others is not counted again.
        if not any((a, int(c)) in found and (int(c), b) in found for c in columns):
            orders.append(
                Order(a, b, kind, _counted(words, home[:, a], home[:, b], kind), expected)
            )
    return orders


def _candidates(values, columns, joint):
    """Low and high column of every order that says something, and the expected shares of signs."""
    covariance = np.linalg.inv(joint.precision[-1])
    deviations = np.sqrt(np.diag(covariance))
    draws = np.random.default_rng(0).standard_normal((2, _DRAWS))
    for k, a in enumerate(columns):
        differences = values - values[:, [k]]
        n_seen = np.sum(~np.isnan(differences), axis=0)
        violated = np.sum(differences < 0, axis=0) / np.maximum(n_seen, 1)
        for m in np.flatnonzero((violated <= _EXCHANGED) & (n_seen >= _FEWEST)):
            seen = ~np.isnan(differences[:, m])
            if m == k or not _ordered(differences[seen, m]):
                continue
            x, y, b = values[seen, k], values[seen, m], columns[m]
            correlation = covariance[a, b] / (deviations[a] * deviations[b])
            expected = _expected(np.sort(x), np.sort(y), correlation, draws)
            if expected[2] >= _ALLOWED and np.any(x < y):
                yield int(a), int(b), expected


def _counted(words, low, high, kind):
    """Records with a lower, an equal, a higher value; exchanged ones do not count as higher."""
    signs = signs_of(words, low, high, kind)
    counts = np.bincount(signs[signs >= 0], minlength=3).astype(float)
    if _mirrored((words.values[high] - words.values[low])[signs >= 0]):
        counts[2] = 0.0
    return counts


def _ordered(differences):
    violated = np.mean(differences < 0)
    return violated <= _VIOLATED or (violated <= _EXCHANGED and _mirrored(differences))


def _mirrored(differences):
    """Whether the negative differences are as large as the others."""
    odd, usual = -differences[differences < 0], np.sort(differences[differences > 0])
    if len(odd) < _LEAST_MIRRORED or not len(usual):
        return False
    low, high = _MIRRORED
    return bool(low <= np.mean(np.searchsorted(usual, odd)) / len(usual) <= high)


def _expected(x, y, correlation, draws):
    """Shares of x < y, x = y and x > y if only the correlation of normal scores bound them."""
    rho = float(np.clip(correlation, -0.9999, 0.9999))
    u, v = ndtr(draws[0]), ndtr(rho * draws[0] + np.sqrt(1 - rho**2) * draws[1])
    a, b = (each[(share * len(each)).astype(int)] for each, share in ((x, u), (y, v)))
    return np.array([np.mean(a < b), np.mean(a == b), np.mean(a > b)])


def signs_of(words, low, high, kind):
    """0, 1, 2 where the first is lower, equal, higher; -1 where one is of another kind."""
    kinds, a, b = words.kinds, words.values[low], words.values[high]
    signs = np.where(a < b, 0, np.where(a == b, 1, 2))
    return np.where((kinds[low] == kind) & (kinds[high] == kind), signs, -1)


def log_signs(counts, expected):
    """Logarithm of the share of every sign over the expected one."""
    share = (counts + 0.5) / (counts.sum() + 1.5)
    return np.clip(np.log(share / (expected + 1e-3)), _LEAST_SIGN, _MOST_SIGN)
