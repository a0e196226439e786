r"""Vectors with noise of their own, as the columns of tables: the clean ones explain the others.

Where few vectors of many entries are each close to a subspace in a degree of their own, no common
noise tells the clean from the permuted. Each is then judged by what it is like: regressed on all
the others, a vector with moved entries is a mixture of entries that fit well and entries from
anywhere (:mod:`unpermute.numerics.mixture_regression`). How much better that explains it than heavy
tails alone, as a log-likelihood ratio, is its damage. The vectors without damage are the peers of
all others, training or new.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit
from scipy.stats import chi2

from unpermute.numerics.mixture_regression import directions_of, fit_mixtures
from unpermute.numerics.parallel import map_blocks
from unpermute.numerics.permutations import match_values
from unpermute.numerics.subspaces import residual_norms
from unpermute.recover import entry_confidence

__all__ = ["Peers", "choose_peers", "noise_differs"]

# Log-likelihood ratio up to which a vector is clean.
_NO_DAMAGE = 10.0
# Residuals that vary so many times more between clean vectors than a common noise has them vary.
_TOO_DIFFERENT = 5.0
# Fewer distances do not tell.
_ENOUGH = 3
# A vector is right if its relative error is below this.
_RIGHT = 0.05


def noise_differs(distances, n_degrees):
    """Whether clean vectors lie at distances that a common noise does not explain.

    The logarithm of a χ variable with d degrees of freedom has the standard deviation 1/√(2d).
    Only the near side counts: far away may lie permuted vectors that seem clean.
    """
    finite = distances[np.isfinite(distances)]
    if len(finite) < _ENOUGH:
        return False
    low, middle = np.quantile(finite, [0.2, 0.5])
    return bool(low < middle * np.exp(-_TOO_DIFFERENT / np.sqrt(2.0 * n_degrees)))


def choose_peers(X, count, *, n_jobs=None):
    """Judge every vector by all others: even permuted ones are of use to each other.

    Parameters
    ----------
    X : ndarray of shape (n_vectors, n_features)
        Vectors without missing entries.
    count : int or None
        Number of permuted vectors, if known.
    n_jobs : int, default=None
        Threads; the result does not depend on it.

    Returns
    -------
    Peers
    """
    damage = np.empty(len(X))

    def judge(start, stop):
        for j in range(start, stop):
            others = directions_of(np.delete(X, j, axis=0))
            damage[j] = fit_mixtures(X[[j]], *others).damage[0]

    map_blocks(judge, len(X), block=1, stage="judge", n_jobs=n_jobs)
    clean = damage <= (_NO_DAMAGE if count is None else np.sort(damage)[-1 - count])
    if clean.sum() < 2:
        clean[:] = True
    directions, variances = directions_of(X[clean])
    peers = Peers(directions, variances, _NO_DAMAGE)
    if clean.all():
        return peers
    # One rule for all, training or new: between the permuted and the clean, which now fit well.
    own = peers.damage(X, n_jobs=n_jobs)
    highest, lowest = own[clean].max(), own[~clean].min()
    return Peers(directions, variances, float(max((highest + lowest) / 2, highest)))


@dataclass(frozen=True)
class Peers:
    """Directions of the clean vectors, and the damage that they may have.

    Attributes
    ----------
    directions : ndarray of shape (n_features, k)
    variances : ndarray of shape (k,)
        Mean square of a vector of length 1 along each.
    limit : float
        Vectors with more damage are permuted.
    """

    directions: np.ndarray
    variances: np.ndarray
    limit: float

    def damage(self, X, *, n_jobs=None):
        """Log-likelihood ratio of "some entries have moved" to "none has" for every vector."""
        return fit_mixtures(X, self.directions, self.variances, n_jobs=n_jobs).damage

    def put_back(self, repaired, mask, bases, offsets, *, output, min_confidence, n_jobs=None):
        """Recover the vectors of `mask`; changes `repaired`, whose `X` holds them as observed."""
        rows = np.flatnonzero(mask)
        if len(rows) == 0:
            return repaired
        Y = repaired.X[rows]
        fit = fit_mixtures(Y, self.directions, self.variances, n_jobs=n_jobs)
        blended = _blend(Y, fit)
        confidence = _confidence(Y, fit)
        orders, cost = match_values(Y, blended, noise_scale=fit.noise, n_jobs=n_jobs)
        certain = confidence >= min_confidence
        repaired.labels[rows] = residual_norms(blended, bases, offsets).argmin(axis=1)
        repaired.confidence[rows] = confidence
        repaired.entry_confidence[rows] = entry_confidence(
            Y, blended, orders, confidence, np.maximum(cost, fit.noise)
        )
        repaired.permutations[rows[certain]] = orders[certain]
        if output == "values":
            repaired.X[rows[certain]] = np.take_along_axis(Y, orders, axis=1)[certain]
        elif output == "blend":
            repaired.X[rows] = blended
        else:
            for j, y in zip(rows, blended, strict=True):
                k = repaired.labels[j]
                repaired.X[j] = bases[k] @ ((y - offsets[k]) @ bases[k]) + offsets[k]
        return repaired


def _blend(Y, fit):
    """Least expected squared error, with the chance that nothing was found counted in."""
    observed = np.where(np.isnan(Y), fit.predicted, Y)
    estimate = fit.weights * observed + (1.0 - fit.weights) * fit.predicted
    mean = np.nanmean(Y, axis=1, keepdims=True)
    found = expit(fit.evidence)[:, None]
    return found * estimate + (1.0 - found) * mean


def _confidence(Y, fit):
    """Probability that the relative error of the estimate is below 5%.

    Something must have been found, and the noise must be small enough in as many entries as moved.
    """
    moved = np.maximum(np.sum(1.0 - fit.weights, axis=1), 1.0)
    allowed = _RIGHT**2 * np.nansum(Y * Y, axis=1)
    variance = np.maximum(fit.noise**2, 1e-300)
    return expit(fit.evidence) * chi2.cdf(allowed / variance, moved)
