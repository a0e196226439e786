"""How accurate fits are where noise is not independent, found out by trial.

What the rank of a subspace does not hold is no independent noise: neighbouring pixels share a
shadow, and a fit to thousands of them is far less accurate than their number promises. How much
less, clean vectors tell: shuffled in the places where damaged ones seem to be, and recovered like
these. A fit is right if it is within 5% of the best one, or within the noise if that is more.
"""

import numpy as np
from scipy.special import logit
from sklearn.linear_model import LogisticRegression

from unpermute.numerics.certificate import certify
from unpermute.recover import (
    RIGHT,
    Accuracy,
    expected_error,
    found_probability,
    recover_everywhere,
)

__all__ = ["is_right", "try_accuracy"]

_TRIALS = 100
# Entries farther from the fit than this many times the noise count as moved. Some of those in place
# do too, and some that moved do not.
_MOVED = 1.5
# Share of the entries that move in trials if no vector is damaged.
_SHARE = 0.5
# Inverse of a weak penalty: right and wrong trials may be separable, and odds must stay finite.
_PENALTY = 10.0
# Expected errors of two fits whose outcome goes without trial, relative to the allowed one.
_SURELY_RIGHT, _SURELY_WRONG = 0.01, 1.0


def try_accuracy(X, nearest, mask, bases, noise, *, seed, n_jobs=None):
    """Find out how accurate fits are.

    Parameters
    ----------
    X : ndarray of shape (n_vectors, n_features)
        Vectors without missing entries, with noise of one scale.
    nearest : ndarray of int of shape (n_vectors,)
        Subspaces of clean vectors, those nearest to damaged ones.
    mask : ndarray of bool of shape (n_vectors,)
        Which vectors are damaged.
    bases : list of ndarray of shape (n_features, rank)
        Of linear subspaces.
    noise : float
        Noise of an entry.
    seed : int
        Of the choice of vectors, and of how they are shuffled.
    n_jobs : int, default=None
        Threads; the result does not depend on them.

    Returns
    -------
    Accuracy
    """
    rng = np.random.default_rng(seed)
    damaged, clean = (rng.permutation(np.flatnonzero(m))[:_TRIALS] for m in (mask, ~mask))
    moved = rng.random((_TRIALS, X.shape[1])) < _SHARE
    if len(damaged) > 0:
        fitted = _fit(X[damaged], nearest[damaged], bases, noise, seed, n_jobs)[0]
        moved = np.abs(X[damaged] - fitted) > _MOVED * noise
    trials = X[clean]
    for trial, place in zip(trials, moved[rng.integers(len(moved), size=len(clean))], strict=True):
        trial[place] = rng.permutation(trial[place])
    fitted, expected, found = _fit(trials, nearest[clean], bases, noise, seed, n_jobs)
    right = is_right(fitted, X[clean], nearest[clean], bases, noise)
    # Of what is not found that is known; a zero vector has no relative error.
    tried = found & np.isfinite(expected)
    known = max(RIGHT, noise) * np.array([_SURELY_RIGHT, _SURELY_WRONG])
    return _curve(np.append(expected[tried], known), np.append(right[tried], [True, False]))


def is_right(fitted, X, labels, bases, noise):
    """Whether fits are as near to the projections of the vectors in order as the noise allows."""
    right = np.empty(len(X), dtype=bool)
    for k in np.unique(labels):
        mine = labels == k
        best = (X[mine] @ bases[k]) @ bases[k].T
        errors = np.linalg.norm(fitted[mine] - best, axis=1)
        allowed = np.maximum(RIGHT * np.linalg.norm(best, axis=1), noise * np.sqrt(X.shape[1]))
        right[mine] = errors < allowed
    return right


def _fit(Y, labels, bases, noise, seed, n_jobs):
    """Recover vectors in their subspaces: fits, expected relative errors, and whether found."""
    fitted, expected, found = np.empty_like(Y), np.empty(len(Y)), np.empty(len(Y), dtype=bool)
    zeros = np.zeros(Y.shape[1])
    for k in np.unique(labels):
        mine, basis = labels == k, bases[k]
        coefficients = recover_everywhere(
            Y[mine], [basis], [zeros], noise_scale=noise, max_starts=0, seed=seed, n_jobs=n_jobs
        ).coefficients
        evidence, residual = certify(
            Y[mine], basis, zeros, zeros.astype(np.int64), coefficients, n_jobs=n_jobs
        )
        fitted[mine], found[mine] = coefficients @ basis.T, found_probability(evidence) > 0.5
        expected[mine] = expected_error(residual, noise, fitted[mine], basis.shape[1])
    return fitted, expected, found


def _curve(expected, right):
    logs = np.log(expected)
    centre, scale = logs.mean(), logs.std()
    model = LogisticRegression(C=_PENALTY).fit(((logs - centre) / scale)[:, None], right)
    slope, middle = float(model.coef_[0, 0] / scale), float(model.intercept_[0])
    if slope >= 0.0:  # the expected error tells nothing: all are as likely as trials were right
        return Accuracy(float(logit(right.mean())), 0.0)
    return Accuracy(middle - slope * centre, slope)
