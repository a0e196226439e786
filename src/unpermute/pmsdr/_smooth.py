r"""Roughness: is an odd vector a shuffled one, or does it only differ from the others?

Neighbouring samples, pixels or months go together in every clean vector, also in an odd one: an
event at another time, an object in another place. A shuffle separates them. So every entry is
predicted from the few entries it is most correlated with, and the smoothness of a vector is how
much of its variance these predictions explain:

.. math:: s(x) = \log \frac{\sum_j (x_j - \mu_j)^2}{\sum_j (x_j - \hat x_j)^2}, \quad
          \hat x_j = \mu_j + \sum_{k \in N(j)} b_{jk} (x_k - \mu_k) .

If x is a shuffled vector and v its repair, then v with the moved entries shuffled anew is about as
rough as x. The **margin** s(x) − s(shuffled v) is near 0 for a shuffled vector and large for one
that is in order. The clean vectors and the trials of the same matrix show how large. Where entries
do not go together, all margins are near 0, and they say nothing.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

__all__ = ["Neighbours", "Smoothness"]

# Entries that predict one entry, and the most entries that are predicted: more take longer and
# give the same margins.
_NEIGHBOURS, _PREDICTED = 4, 500
# Ridge of the regression, relative to the variance of the neighbours, which may be equal.
_RIDGE = 1e-2
# Fewer clean vectors, or fewer trials, do not determine a distribution.
_ENOUGH = 20
# Least width of a density estimate: a small sample may lie closer together by chance.
_LEAST_WIDTH = 0.1
# Quantiles that stand for a larger sample: the density is evaluated for every vector of a matrix.
_QUANTILES = 400


@dataclass(frozen=True)
class Neighbours:
    """Regressions of entries on their neighbours, fitted to either half of the clean vectors.

    Attributes
    ----------
    order : ndarray of int of shape (n_features,)
        Random order in which a new shuffle passes every moved value on to the next moved entry.
    entries : ndarray of int of shape (n_predicted,)
        The entries that are predicted.
    means : ndarray of shape (2, n_features)
        Of the clean vectors in odd folds, and of those in even folds.
    neighbours : ndarray of int of shape (2, n_predicted, n_neighbours)
        The entries that predict each of them.
    slopes : ndarray of shape (2, n_predicted, n_neighbours)
        The regression coefficients.
    """

    order: np.ndarray
    entries: np.ndarray
    means: np.ndarray
    neighbours: np.ndarray
    slopes: np.ndarray

    @classmethod
    def of(cls, X, folds, *, seed=0):
        """Fit to clean vectors without missing entries; None if there are too few."""
        halves = [X[folds % 2 != half] for half in range(2)]
        if min(map(len, halves)) < _ENOUGH // 2 or X.shape[1] <= _NEIGHBOURS:
            return None
        rng = np.random.default_rng(seed)
        order, entries = rng.permutation(X.shape[1]), rng.permutation(X.shape[1])[:_PREDICTED]
        fitted = [_regress(half, entries) for half in halves]
        return cls(order, entries, *(np.stack(each) for each in zip(*fitted, strict=True)))

    def margins(self, Y, repaired, moved, folds):
        """Smoothness less that of the repairs with their `moved` entries shuffled anew.

        Returns two columns: the margins of the vectors as they stand, and of their repairs.
        """
        shuffled = self._smoothness(_shuffled(repaired, moved, self.order), folds)
        return np.column_stack([self._smoothness(X, folds) - shuffled for X in (Y, repaired)])

    def _smoothness(self, Y, folds):
        """Smoothness of vectors without missing entries, by the half that excludes their fold."""
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
    """Mean of X; neighbours of some entries, and their slopes."""
    mean = X.mean(axis=0)
    Z = X - mean
    covariance, scale = Z[:, entries].T @ Z, np.sqrt(np.einsum("ij,ij->j", Z, Z))
    correlation = np.abs(covariance) / np.maximum(scale, 1e-300)  # up to a factor per entry
    correlation[np.arange(len(entries)), entries] = -1.0
    near = np.argpartition(-correlation, _NEIGHBOURS - 1, axis=1)[:, :_NEIGHBOURS]
    among = np.einsum("inj,ink->njk", Z[:, near], Z[:, near])
    ridge = _RIDGE * np.einsum("njj->n", among) / _NEIGHBOURS + 1e-300
    among += ridge[:, None, None] * np.eye(_NEIGHBOURS)
    slopes = np.linalg.solve(among, np.take_along_axis(covariance, near, axis=1)[..., None])
    return mean, near, slopes[..., 0]


@njit(cache=True, nogil=True)
def _shuffled(Y, moved, order):
    """Pass the value of every moved entry on to the next moved one in the given order."""
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
class Smoothness:
    """Margins of clean vectors and of shuffled ones (trials).

    Attributes
    ----------
    clean, shuffled : ndarray
        Samples.
    halfway : float
        Between their medians: repairs with a larger margin are in order.
    most : float
        Largest log-odds that so many vectors can tell.
    """

    clean: np.ndarray
    shuffled: np.ndarray
    halfway: float
    most: float

    @classmethod
    def of(cls, clean, shuffled, n_vectors):
        """Learn from samples of so many vectors; None if they are few or not clearly apart."""
        if min(len(clean), len(shuffled), n_vectors) < _ENOUGH:
            return None
        if np.quantile(clean, 0.25) <= np.quantile(shuffled, 0.75):
            return None
        halfway = 0.5 * float(np.median(clean) + np.median(shuffled))
        return cls(_quantiles(clean), _quantiles(shuffled), halfway, float(np.log(n_vectors)))

    def log_odds(self, margins, natural):
        """Log-odds that vectors are odd by nature rather than shuffled.

        The margin of an odd vector is like that of a clean one, or lies anywhere in between. A
        repair that is itself rough is no evidence of a shuffle, so a small margin then counts for
        nothing. Otherwise smoothness outweighs `natural`, the log-odds by the directions of the
        deviation: a shuffled vector that is also odd deviates along the directions of odd vectors.
        """
        margin, after = margins.T
        span = np.ptp(np.concatenate([self.clean, self.shuffled])) + _LEAST_WIDTH
        odd = 0.5 * (_density(margin, self.clean) + 1.0 / span)
        odds = np.log(odd) - np.log(_density(margin, self.shuffled))
        odds = np.clip(odds, -self.most, self.most)
        counts = (odds > 0.0) | (after >= self.halfway)
        return np.where(counts, np.maximum(natural, 0.0) + odds, natural)


def _quantiles(sample):
    """The sample, or evenly spaced quantiles of a large one."""
    if len(sample) <= _QUANTILES:
        return sample
    return np.quantile(sample, (np.arange(_QUANTILES) + 0.5) / _QUANTILES)


def _density(x, sample):
    """Kernel density estimate; kernels are Student's t with four degrees of freedom."""
    lower, upper = np.quantile(sample, [0.25, 0.75])
    width = max((upper - lower) / 1.35 * len(sample) ** -0.2, _LEAST_WIDTH)  # Silverman
    tails = 1.0 + 0.25 * ((x[:, None] - sample) / width) ** 2
    return 0.375 / width * np.mean(tails**-2.5, axis=1)
