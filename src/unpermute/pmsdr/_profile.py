"""Which values a vector holds, whatever their order: a shuffle changes nothing about them.

A damaged vector holds values as clean ones do. One that holds other values is of another kind, and
trials tell nothing about it. Two vectors are as far apart as their sorted values (the Wasserstein
distance of their distributions).
"""

from dataclasses import dataclass

import numpy as np

__all__ = ["Profiles"]

# Quantiles that stand for the sorted values of a vector, and clean vectors that it is compared
# with, at most: more cost time where very many vectors are judged.
_QUANTILES, _COMPARED = 32, 1000
# The distance to the third nearest counts: the nearest one may be alike by chance.
_NEAREST = 3


@dataclass(frozen=True)
class Profiles:
    """Sorted values of clean vectors.

    Attributes
    ----------
    quantiles : ndarray of shape (n_compared, n_quantiles)
    folds : ndarray of int of shape (n_compared,)
    """

    quantiles: np.ndarray
    folds: np.ndarray

    @classmethod
    def of(cls, X, folds, *, seed=0):
        """Learn from clean vectors without missing entries, and their folds."""
        rows = np.random.default_rng(seed).permutation(len(X))[:_COMPARED]
        return cls(_quantiles(X[rows]), folds[rows])

    def likeness(self, Y, folds):
        """Minus the logarithm of the distance to clean vectors of other folds, for their spread."""
        own, found = _quantiles(Y), np.zeros(len(Y))
        for fold in np.unique(folds):
            rows, others = folds == fold, self.quantiles[self.folds != fold]
            squares = (own[rows] ** 2).sum(axis=1)[:, None] + (others**2).sum(axis=1)
            squares = np.maximum(squares - 2.0 * own[rows] @ others.T, 0.0)
            nearest = min(_NEAREST, len(others)) - 1
            found[rows] = np.partition(squares, nearest, axis=1)[:, nearest]
        return -0.5 * np.log((found + 1e-12) / (own.var(axis=1) * own.shape[1] + 1e-12))


def _quantiles(Y):
    """Quantiles of the entries of every vector; missing ones are left out."""
    levels, found = (np.arange(_QUANTILES) + 0.5) / _QUANTILES, np.empty((len(Y), _QUANTILES))
    gaps = np.isnan(Y).any(axis=1)
    if len(Y) > 0:
        found[~gaps] = np.quantile(Y[~gaps], levels, axis=1).T
    for i in np.flatnonzero(gaps):
        found[i] = np.nanquantile(Y[i], levels)
    return found
