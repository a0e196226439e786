r"""How unlikely it is that a wrong permutation fits as well: the certificate of a recovery.

A random permutation of y leaves a residual of about :math:`s_0^2 \chi^2_m` outside the subspace,
m = M − r, and there are :math:`N_k` ways to move k entries. The **evidence** of coefficients x,
with the values matched to U x, k of them moved and a residual sum of squares E, is

.. math:: e = \max_k \; -\log N_k - \log P\left(\chi^2_m \le E / s_0^2\right) ,

and :math:`\exp(-e)` bounds the expected number of wrong permutations that fit so well. It needs
neither the noise level nor the shuffled ratio.

Log N_k grows like k log M, faster than what k values of a given precision can prove. Of long
vectors therefore only the entries in place count, with the ways to choose them:
:math:`e = \max_k \; -\log \binom{M}{k} - \log P(\chi^2_{m - k} \le E_{M - k} / s_0^2)`.
"""

import math

import numpy as np
from numba import njit

from unpermute.numerics.matching import (
    log_moves,
    log_probability_of_small_residual,
    place,
    predict,
    prepare,
    project,
    sort_places,
)
from unpermute.numerics.parallel import map_blocks

__all__ = ["CERTAIN", "LONG", "certify", "evaluate", "null_scales", "workspace"]

# Evidence from which a solution counts as found: one wrong permutation in e^15 searches.
CERTAIN = 15.0
# Vectors longer than this are judged by their entries in place alone.
LONG = 1000


def certify(Y, basis, offset, blocks, coefficients, *, n_jobs=None):
    """Evidence of given coefficients, and the mean square residual at it, for every vector."""
    evidence, residual = np.zeros(len(Y)), np.zeros(len(Y))
    basis, coefficients = np.ascontiguousarray(basis), np.ascontiguousarray(coefficients)
    null, ways = null_scales(Y, basis, offset, blocks), log_moves(blocks)

    def run(start, stop):
        part = slice(start, stop)
        out = evidence[part], residual[part]
        _certify(Y[part], basis, offset, null[part], ways, blocks, coefficients[part], *out)

    map_blocks(run, len(Y), block=64, stage="certify", n_jobs=n_jobs)
    return evidence, residual


def null_scales(Y, basis, offset, blocks):
    """Mean square residual, per degree of freedom, of a random permutation of every vector.

    With block means μ_k and variances v_k, and the offset b,
    E‖(I − P)(πy − b)‖² = ‖(I − P)(Σ_k μ_k 1_k − b)‖²
    + Σ_k v_k (tr_k(I − P) − 1_kᵀ(I − P)1_k / n_k).
    """
    n_features, rank = basis.shape
    numbers = np.unique(blocks)
    total, means = np.zeros(len(Y)), np.empty((len(Y), len(numbers)))
    for k, block in enumerate(numbers):
        places = np.flatnonzero(blocks == block)
        values, rows = Y if len(numbers) == 1 else Y[:, places], basis[places]
        means[:, k], spread = _moments(values)
        trace = len(places) - np.sum(rows**2)
        ones = len(places) - np.sum(rows.sum(axis=0) ** 2)
        total += spread * (trace - ones / len(places))
    indicators = np.vstack([blocks == numbers[:, None], -offset[None]])
    outside = indicators - (indicators @ basis) @ basis.T
    total += np.sum((means @ outside[:-1] + outside[-1]) ** 2, axis=1)
    return total / (n_features - rank)


def _moments(values):
    """Mean and variance of every row, missing values left out."""
    if not np.isnan(np.sum(values)):
        mean = values.mean(axis=1)
        deviations = values - mean[:, None]
        squares = np.einsum("ij,ij->i", deviations, deviations)
        return mean, squares / max(values.shape[1] - 1, 1)
    count = np.maximum(np.sum(~np.isnan(values), axis=1), 1)
    mean = np.nansum(values, axis=1) / count
    return mean, np.nansum((values - mean[:, None]) ** 2, axis=1) / np.maximum(count - 1, 1)


@njit(cache=True, nogil=True, error_model="numpy")
def workspace(n, rank):
    """Arrays that a thread uses again for every vector."""
    order_f, order_d, order_k = np.arange(n), np.arange(n), np.arange(n)
    stays, source = np.zeros(n, dtype=np.bool_), np.empty(n, dtype=np.int64)
    z, f, distance = np.empty(n), np.empty(n), np.empty(n)
    gram, factor = np.empty((rank, rank)), np.zeros((rank, rank))
    return order_f, order_d, order_k, stays, source, z, f, distance, gram, factor, np.ones(n)


@njit(cache=True, nogil=True, error_model="numpy")
def evaluate(y, U, b, null, ways, shift, order_y, x, work):
    """Best evidence of x over the number of entries in place, and the residual there.

    Leaves the best matching in `work`, and refits x to it.
    """
    order_f, order_d, _, stays, source, z, f, distance, _, _, _ = work
    rank, n_observed = U.shape[1], len(order_y)
    predict(U, b, x, f)
    sort_places(y, f, shift, order_f, order_d, distance)
    if n_observed > LONG:
        best, best_stay = _evaluate_in_place(y, f, null, rank, n_observed, order_d)
        cost = place(y, f, best_stay, shift, order_y, order_f, order_d, stays, source, z)
        project(U, b, z, x)
        return best, cost
    best, best_stay, best_cost = -np.inf, 0, 0.0
    step, half = max(1, n_observed // 24), 0.5 * (n_observed - rank)
    largest = math.lgamma(half + 1.0)
    for n_stay in range(n_observed, -1, -step):
        cost = place(y, f, n_stay, shift, order_y, order_f, order_d, stays, source, z)
        ratio = cost / (null * (n_observed - rank))
        # The first term of the series of the probability, which takes long, bounds the evidence.
        bound = half * (math.log(half * ratio) - ratio) - largest if 0.0 < ratio < 1.0 else -np.inf
        if -ways[n_observed - n_stay] - bound <= best:
            continue
        evidence = -ways[n_observed - n_stay] - log_probability_of_small_residual(
            ratio, n_observed - rank
        )
        if evidence > best:
            best, best_stay, best_cost = evidence, n_stay, cost
    place(y, f, best_stay, shift, order_y, order_f, order_d, stays, source, z)
    project(U, b, z, x)
    return best, best_cost


@njit(cache=True, nogil=True, error_model="numpy")
def _evaluate_in_place(y, f, null, rank, n_observed, order_d):
    """Best evidence of the entries that fit best, over their number; returns it and the number."""
    best, best_stay, cost = -np.inf, n_observed, 0.0
    step = n_observed // 100
    for a in range(n_observed):
        i, n_stay = order_d[a], a + 1
        cost += (y[i] - f[i]) ** 2
        if (n_observed - n_stay) % step > 0 or n_stay <= rank:
            continue
        ways = math.lgamma(n_observed + 1.0)
        ways -= math.lgamma(n_stay + 1.0) + math.lgamma(n_observed - n_stay + 1.0)
        degrees = n_stay - rank
        evidence = -ways - log_probability_of_small_residual(cost / (null * degrees), degrees)
        if evidence > best:
            best, best_stay = evidence, n_stay
    return best, best_stay


@njit(cache=True, nogil=True, error_model="numpy")
def _certify(Y, U, b, null, ways, blocks, X, evidence, residual):
    """Evidence and residual of the coefficients X. Writes into the last two arguments."""
    work = workspace(*U.shape)
    for j in range(len(Y)):
        shift, order_y, largest = prepare(Y[j], blocks)
        degrees = len(order_y) - U.shape[1]
        if degrees <= 0 or null[j] <= 1e-24 * largest * largest or largest == 0.0:
            continue
        evidence[j], cost = evaluate(Y[j], U, b, null[j], ways, shift, order_y, X[j].copy(), work)
        residual[j] = cost / degrees
