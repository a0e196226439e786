r"""How unlikely it is that a wrong permutation fits as well: the certificate of a recovery.

A random permutation of y leaves a residual of about :math:`s_0^2 \chi^2_m` outside the subspace,
m = M − r, and there are :math:`N_k` ways to move k entries. The **evidence** of coefficients x,
with the values matched to U x, k of them moved and a residual sum of squares E, is

.. math:: e = \max_k \; -\log N_k - \log P\left(\chi^2_m \le E / s_0^2\right) ,

and :math:`\exp(-e)` bounds the expected number of wrong permutations that fit so well. It needs
neither the noise level nor the shuffled ratio.
"""

import numpy as np
from numba import njit

from unpermute.numerics.matching import (
    log_moves,
    log_probability_of_small_residual,
    match,
    predict,
    prepare,
    project,
)
from unpermute.numerics.parallel import map_blocks

__all__ = ["CERTAIN", "certify", "evaluate", "null_scales", "workspace"]

# Evidence from which a solution counts as found: one wrong permutation in e^15 searches.
CERTAIN = 15.0


def certify(Y, basis, offset, blocks, coefficients, *, n_jobs=None):
    """Evidence of given coefficients, and the mean square residual at it, for every vector."""
    evidence, residual = np.zeros(len(Y)), np.zeros(len(Y))
    basis = np.ascontiguousarray(basis)
    null, ways = null_scales(Y, basis, offset, blocks), log_moves(blocks)

    def run(start, stop):
        for j in range(start, stop):
            evidence[j], residual[j] = _certify_vector(
                Y[j], basis, offset, null[j], ways, blocks, coefficients[j].copy()
            )

    map_blocks(run, len(Y), block=64, stage="certify", n_jobs=n_jobs)
    return evidence, residual


def null_scales(Y, basis, offset, blocks):
    """Mean square residual, per degree of freedom, of a random permutation of every vector.

    With block means μ_k and variances v_k, and the offset b,
    E‖(I − P)(πy − b)‖² = ‖(I − P)(Σ_k μ_k 1_k − b)‖²
    + Σ_k v_k (tr_k(I − P) − 1_kᵀ(I − P)1_k / n_k).
    """
    n_features, rank = basis.shape
    total = np.zeros(len(Y))
    means = np.zeros_like(Y)
    for block in np.unique(blocks):
        places = np.flatnonzero(blocks == block)
        values, rows = Y[:, places], basis[places]
        count = np.maximum(np.sum(~np.isnan(values), axis=1), 1)
        mean = np.nansum(values, axis=1) / count
        spread = np.nansum((values - mean[:, None]) ** 2, axis=1) / np.maximum(count - 1, 1)
        trace = len(places) - np.sum(rows**2)
        ones = len(places) - np.sum(rows.sum(axis=0) ** 2)
        means[:, places] = mean[:, None]
        total += spread * (trace - ones / len(places))
    means -= offset
    total += np.sum((means - (means @ basis) @ basis.T) ** 2, axis=1)
    return total / (n_features - rank)


@njit(cache=True, nogil=True)
def workspace(n, rank):
    order_f, order_d, order_k = np.arange(n), np.arange(n), np.arange(n)
    stays, source = np.zeros(n, dtype=np.bool_), np.empty(n, dtype=np.int64)
    z, f, distance = np.empty(n), np.empty(n), np.empty(n)
    gram, factor = np.empty((rank, rank)), np.zeros((rank, rank))
    return order_f, order_d, order_k, stays, source, z, f, distance, gram, factor, np.ones(n)


@njit(cache=True, nogil=True)
def evaluate(y, U, b, null, ways, shift, order_y, x, work):
    """Best evidence of x over the number of entries in place, and the residual there.

    Leaves the best matching in `work`, and refits x to it.
    """
    order_f, order_d, _, stays, source, z, f, distance, _, _, _ = work
    rank, n_observed = U.shape[1], len(order_y)
    predict(U, b, x, f)
    best, best_stay, best_cost = -np.inf, 0, 0.0
    step = max(1, n_observed // 24)
    for n_stay in range(n_observed, -1, -step):
        cost = match(y, f, n_stay, shift, order_y, order_f, order_d, distance, stays, source, z)
        evidence = -ways[n_observed - n_stay] - log_probability_of_small_residual(
            cost / (null * (n_observed - rank)), n_observed - rank
        )
        if evidence > best:
            best, best_stay, best_cost = evidence, n_stay, cost
    match(y, f, best_stay, shift, order_y, order_f, order_d, distance, stays, source, z)
    project(U, b, z, x)
    return best, best_cost


@njit(cache=True, nogil=True)
def _certify_vector(y, U, b, null, ways, blocks, x):
    shift, order_y, largest = prepare(y, blocks)
    degrees = len(order_y) - U.shape[1]
    if degrees <= 0 or null <= 1e-24 * largest * largest or largest == 0.0:
        return 0.0, 0.0
    evidence, cost = evaluate(y, U, b, null, ways, shift, order_y, x, workspace(*U.shape))
    return evidence, cost / degrees
