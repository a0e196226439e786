r"""Represent damaged vectors by all clean ones together, with sparse errors.

.. math:: \min_X \; \|Y - X C\|_1 + \tfrac{\varrho}{2} \|X\|_F^2

The absolute value forgives entries that moved; the clean vectors, of several groups perhaps,
compete for the rest.

Alternating directions on E = Y − XC; the multipliers Z stay within ±1, which is dual feasible, so
that the duality gap bounds how far the cost is from the least.

References
----------
Zhang, Yang & Feng, "Sparse representation or collaborative representation: which helps face
recognition?", ICCV 2011, doi:10.1109/ICCV.2011.6126277.
"""

import numpy as np
from scipy import linalg

from unpermute._progress import report
from unpermute.numerics.proximal import soft_threshold
from unpermute.numerics.result import SolverResult, warn_not_converged

__all__ = ["represent_together"]

_CHECK_EVERY = 10


def represent_together(Y, clean, *, ridge, step=3.0, tol=1e-3, max_iter=500):
    r"""Represent the rows of `Y` by those of `clean`.

    Parameters
    ----------
    Y : ndarray of shape (n_vectors, n_features)
        Vectors with some wrong entries.
    clean : ndarray of shape (n_clean, n_features)
        Vectors without.
    ridge : float
        The weight :math:`\varrho` of the coefficients.
    step : float, default=3.0
        The inverse of an error that counts as small; only the speed depends on it.
    tol : float, default=1e-3
        Tolerance on the duality gap, relative to the cost, of every vector.
    max_iter : int, default=500
        Most iterations.

    Returns
    -------
    SolverResult
        `solution` holds the coefficients, of shape (n_vectors, n_clean); `optimality` the gap of
        every vector.
    """
    gram = clean @ clean.T
    gram.flat[:: len(gram) + 1] += ridge / step
    factor = linalg.cho_factor(gram)
    X, gap = np.zeros((len(Y), len(clean))), np.full(len(Y), np.inf)
    # Each vector stops by itself: its answer does not depend on the others.
    rows, target = np.arange(len(Y)), Y
    errors, multipliers, n_iter = np.zeros_like(Y), np.zeros_like(Y), 0
    while len(rows) > 0 and n_iter < max_iter:
        for _ in range(_CHECK_EVERY):
            products = (target - errors + multipliers / step) @ clean.T
            X[rows] = linalg.cho_solve(factor, products.T).T
            residual = target - X[rows] @ clean
            errors = soft_threshold(residual + multipliers / step, 1.0 / step)
            multipliers = np.clip(multipliers + step * residual, -1.0, 1.0)
        n_iter += _CHECK_EVERY
        gap[rows] = _relative_gap(target, clean, ridge, X[rows], residual, multipliers)
        left = gap[rows] > tol
        rows, target = rows[left], target[left]
        errors, multipliers = errors[left], multipliers[left]
        report("represent", len(Y) - len(rows), len(Y))
    if len(rows) > 0:
        remedy = f"raise max_iter (now {max_iter}) or tol"
        warn_not_converged("Collaborative representation (ADMM)", gap.max(), tol, remedy)
    return SolverResult(X, gap, n_iter, gap <= tol, {})


def _relative_gap(Y, clean, ridge, X, residual, multipliers):
    cost = np.abs(residual).sum(axis=1) + 0.5 * ridge * np.sum(X**2, axis=1)
    bound = np.sum(multipliers * Y, axis=1)
    bound -= np.sum((multipliers @ clean.T) ** 2, axis=1) / (2.0 * ridge)
    return (cost - bound) / np.maximum(cost, np.finfo(float).tiny)
