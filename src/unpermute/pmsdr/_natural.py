r"""Whether a vector is as rough as a shuffle of its repair would be, or odd by nature.

A clean vector that is odd as a whole (an outline unlike all others, an event at another time) is
still usual in its parts: neighbouring samples are alike, pixels of one cheek have one shade. A shuffle
leaves no two entries together. So every entry is predicted from a few others, those it is most
correlated with in clean vectors. This gives the smoothness of a vector,

.. math:: s(x) = \log \frac{\sum_j (x_j - \mu_j)^2}{\sum_j (x_j - \hat x_j)^2}, \quad
          \hat x_j = \mu_j + \sum_{k \in N(j)} b_{jk} (x_k - \mu_k) .

If x is a shuffle of its repair v, then v with the same entries shuffled anew is about as smooth as x.
The margin s(x) − s(shuffled v) is then near 0, and large if x is odd by nature. How large, the clean
vectors and the trials of this very matrix tell. Where no entries go together, as in noise, both have
margins near 0, and these tell nothing.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

__all__ = ["Naturalness", "Neighbours"]

# Entries that predict one, and at most so many are predicted: more cost time and tell the same.
_NEIGHBOURS, _PREDICTED = 4, 500
# Ridge of that prediction, relative to the variance of the neighbours: these may be all alike.
_RIDGE = 1e-2
# Fewer clean vectors, or trials, do not tell a distribution.
_ENOUGH = 20
# Least width of a kernel: small samples may be alike by chance.
_LEAST_WIDTH = 0.1
# Points at most that stand for a sample: quantiles of more tell the same.
_POINTS = 400
# Quantile of the trials below which a repaired vector is not smooth.
_UNUSUAL = 0.05


@dataclass(frozen=True)
class Neighbours:
    """Which entries predict which, learned from either half of the clean vectors.

    Attributes
    ----------
    entries : ndarray of int of shape (n_predicted,)
        Entries that are predicted.
    means : ndarray of shape (2, n_features)
        Of the clean vectors of odd folds, and of even ones.
    neighbours : ndarray of int of shape (2, n_predicted, n_neighbours)
        Entries that predict each.
    slopes : ndarray of shape (2, n_predicted, n_neighbours)
        How.
    order : ndarray of int of shape (n_features,)
        A random order, in which a shuffle passes every value on to the next entry.
    """

    order: np.ndarray
    entries: np.ndarray
    means: np.ndarray
    neighbours: np.ndarray
    slopes: np.ndarray

    @classmethod
    def of(cls, X, folds, *, seed=0):
        """Learn from clean vectors without missing entries, and their folds; None: too few."""
        halves = [X[folds % 2 != half] for half in range(2)]
        if min(map(len, halves)) < _ENOUGH // 2 or X.shape[1] <= _NEIGHBOURS:
            return None
        rng = np.random.default_rng(seed)
        order, entries = rng.permutation(X.shape[1]), rng.permutation(X.shape[1])[:_PREDICTED]
        learned = [_regress(half, entries) for half in halves]
        return cls(order, entries, *(np.stack(each) for each in zip(*learned, strict=True)))

    def margin(self, Y, repaired, moved, folds):
        """How much smoother vectors are than their repairs with the `moved` entries shuffled."""
        shuffled = _shuffled(repaired, moved, self.order)
        return self.smoothness(Y, folds) - self.smoothness(shuffled, folds)

    def smoothness(self, Y, folds):
        """Smoothness of vectors without missing entries, by the half without their fold."""
        found = np.empty(len(Y))
        for half in range(2):
            rows = folds % 2 == half
            Z = Y[rows] - self.means[half]
            own = Z[:, self.entries]
            errors = own.copy()
            for near, slopes in zip(self.neighbours[half].T, self.slopes[half].T, strict=True):
                errors -= slopes * Z[:, near]
            squares = (np.einsum("ij,ij->i", each, each) + 1e-300 for each in (own, errors))
            found[rows] = np.log(np.divide(*squares))
        return found


def _regress(X, entries):
    """Mean, and neighbours and slopes of some entries."""
    mean = X.mean(axis=0)
    Z = X - mean
    together, scale = Z[:, entries].T @ Z, np.sqrt(np.einsum("ij,ij->j", Z, Z))
    likeness = np.abs(together) / np.maximum(scale, 1e-300)
    likeness[np.arange(len(entries)), entries] = -1.0
    near = np.argpartition(-likeness, _NEIGHBOURS - 1, axis=1)[:, :_NEIGHBOURS]
    among = np.einsum("inj,ink->njk", Z[:, near], Z[:, near])
    ridge = _RIDGE * np.einsum("njj->n", among) / _NEIGHBOURS + 1e-300
    among += ridge[:, None, None] * np.eye(_NEIGHBOURS)
    slopes = np.linalg.solve(among, np.take_along_axis(together, near, axis=1)[..., None])
    return mean, near, slopes[..., 0]


@njit(cache=True, nogil=True)
def _shuffled(Y, moved, order):
    """Pass the values of moved entries on from one to the next."""
    shuffled = Y.copy()
    for i in range(len(Y)):
        first, last = -1, -1
        for j in order:
            if moved[i, j]:
                if last < 0:
                    first = j
                else:
                    shuffled[i, j] = Y[i, last]
                last = j
        if last >= 0:
            shuffled[i, first] = Y[i, last]
    return shuffled


@dataclass(frozen=True)
class Naturalness:
    """Margins of clean vectors and of trials.

    Attributes
    ----------
    clean, damaged : ndarray
        Their margins.
    least_after : float
        Smoothness from which on a repaired vector is as natural as repaired trials.
    """

    clean: np.ndarray
    damaged: np.ndarray
    least_after: float

    @classmethod
    def of(cls, clean, tried, tried_after):
        """Learn from margins of clean vectors and of trials, and how smooth repaired trials are.

        None if they are too few.
        """
        if min(len(clean), len(tried)) < _ENOUGH:
            return None
        return cls(clean, tried, float(np.quantile(tried_after, _UNUSUAL)))

    def log_odds(self, margin, after):
        """Odd vectors per damaged one, as a logarithm.

        Odd vectors have margins like clean ones, or any between these and those of trials. No odds
        are surer than so many vectors can tell. A vector that is not smooth even when it is repaired
        is not more likely damaged for that; and none is where clean vectors and trials are not
        clearly different.
        """
        span = np.ptp(np.concatenate([self.clean, self.damaged])) + _LEAST_WIDTH
        odd = 0.5 * (_density(margin, self.clean) + 1.0 / span)
        odds = np.log(odd) - np.log(_density(margin, self.damaged))
        odds = np.clip(odds, -np.log(len(self.clean)), np.log(len(self.damaged)))
        apart = np.quantile(self.clean, 0.25) > np.quantile(self.damaged, 0.75)
        told = (after >= self.least_after) & apart
        return np.where(told, odds, np.maximum(odds, 0.0))


def _density(x, points):
    """Density by kernels that are Student's t with four degrees of freedom."""
    lower, upper = np.quantile(points, [0.25, 0.75])
    width = max((upper - lower) / 1.35 * len(points) ** -0.2, _LEAST_WIDTH)  # Silverman
    if len(points) > _POINTS:
        points = np.quantile(points, (np.arange(_POINTS) + 0.5) / _POINTS)
    tails = 1.0 / (1.0 + 0.25 * ((x[:, None] - points) / width) ** 2)
    return 0.375 / width * np.mean(tails * tails * np.sqrt(tails), axis=1)
