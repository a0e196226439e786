r"""Pseudo-likelihood: a mixture of entries in place and entries from anywhere.

.. math:: \max_{x, \sigma, \rho} \; \sum_i \log\bigl(
          (1 - \rho)\, \mathcal N(y_i;\, u_i^\top x, \sigma^2) + \rho\, f(y_i) \bigr),

where ρ is the share of moved entries and f the marginal density of the vector's values, here the
normal with their mean and variance (per block, where the blocks restrict the moves). It is the
likelihood the entries would have if each had moved independently of the others.

Choose it when a share of the entries is in place but neither that share nor the noise is known, and
when the probability that an entry is in place is wanted: it weighs the entries instead of dropping
them, so it uses clean ones fully, and its coefficients are as accurate as the noise allows. Like
``l1`` it ignores that the moved values are still there; with most or all entries moved, use
``search``.

Solved by expectation-maximisation from the ``l1`` solution: no step can lower the likelihood.
The noise is kept above 1e-6 of the vector's root mean square, since the likelihood is unbounded
where σ → 0 and r entries are fitted exactly. A known noise is used as that lower bound first and
fixed afterwards: fixed from the start it would trust only the r entries the ``l1`` solution fits.

References
----------
Slawski, Diao & Ben-David, "A pseudo-likelihood approach to linear regression with partially
shuffled data", Journal of Computational and Graphical Statistics, 2021,
doi:10.1080/10618600.2020.1870482.
"""

import numpy as np
from numba import njit

from unpermute.numerics.elimination import add_outer, dot, solve_positive_definite
from unpermute.numerics.parallel import map_blocks
from unpermute.numerics.result import warn_not_converged
from unpermute.recover._l1 import l1_coefficients
from unpermute.recover._problem import RecoverySolution

__all__ = ["pl"]

_TOLERANCE = 1e-8
_MAX_ITER = 2000
_MAX_START_ITER = 200
# Smallest noise, as a share of the root mean square of the vector.
_NOISE_FLOOR = 1e-6
# A share of exactly 0 or 1 could never be left again.
_SHARE_FLOOR = 1e-8
# Weight of the whole vector, in values, in the mean and variance of a block: few values estimate
# them badly.
_PRIOR_SIZE = 3.0


def pl(problem):
    """Solve a :class:`RecoveryProblem` by maximising the pseudo-likelihood.

    Parameters
    ----------
    problem : RecoveryProblem
        Missing entries are left out; `shuffled_ratio` and `noise_scale` are kept fixed if given.

    Returns
    -------
    RecoverySolution
        ``info`` holds, for every vector, ``log_likelihood``, ``shuffled_ratio``, ``noise_scale``,
        ``n_iter`` and the relative ``increase`` of the last step, and for every entry ``weights``,
        the probability of being in place (NaN where missing). Converged where the last step
        increased the likelihood by at most 1e-8 and there are at least as many entries as
        coefficients.
    """
    Y, basis = problem.centred, problem.basis
    n_observed = np.sum(~np.isnan(Y), axis=1)
    scale = np.sqrt(np.nansum(Y * Y, axis=1) / np.maximum(n_observed, 1))
    scale[scale == 0.0] = 1.0
    coefficients, state, weights = _maximise(problem, Y / scale[:, None], 1.0 / scale)
    if np.any(state[:, 4] > _TOLERANCE):
        warn_not_converged(
            f"pseudo-likelihood of {np.sum(state[:, 4] > _TOLERANCE)} of {len(Y)} vectors",
            state[:, 4].max(),
            _TOLERANCE,
            "give noise_scale or shuffled_ratio, or use method='l1'",
        )
    info = {
        "log_likelihood": state[:, 0] - n_observed * np.log(scale),
        "shuffled_ratio": state[:, 1].copy(),
        "noise_scale": state[:, 2] * scale,
        "n_iter": state[:, 3].astype(np.int64),
        "increase": state[:, 4].copy(),
        "weights": weights,
    }
    converged = (state[:, 4] <= _TOLERANCE) & (n_observed >= basis.shape[1])
    return RecoverySolution(coefficients * scale[:, None], converged, info)


def _maximise(problem, Y, unit):
    """Maximise for vectors of root mean square 1; `unit` converts the noise to theirs."""
    basis, n = problem.basis, len(Y)
    coefficients = l1_coefficients(Y, basis, n_jobs=problem.n_jobs)[0]
    outside = _log_marginal(Y, problem.blocks)
    state, weights = np.zeros((n, 5)), np.full(Y.shape, np.nan)
    max_iter = np.array([_MAX_START_ITER, _MAX_ITER])
    # The kernels take a negative number for what is not known.
    share = -1.0 if problem.shuffled_ratio is None else float(problem.shuffled_ratio)
    noise = np.full(n, -1.0) if problem.noise_scale is None else problem.noise_scale * unit

    def run(start, stop):
        part = slice(start, stop)
        _maximise_all(
            *(Y[part], basis, outside[part], noise[part], share, max_iter),
            *(coefficients[part], state[part], weights[part]),
        )

    map_blocks(run, n, block=64, stage="recover", n_jobs=problem.n_jobs)
    return coefficients, state, weights


def _log_marginal(Y, blocks):
    """Log density of every value among those it may have changed places with.

    −∞ where an entry is alone in its block: it is in place.
    """
    observed = ~np.isnan(Y)
    total_mean, total_variance = _moments(Y, observed)
    log_density = np.full(Y.shape, -np.inf)
    for block in np.unique(blocks):
        members = np.flatnonzero(blocks == block)
        if len(members) == 1:
            continue
        values = Y[:, members]
        count = np.sum(observed[:, members], axis=1)
        own_mean, own_variance = _moments(values, observed[:, members])
        trust = count / (count + (_PRIOR_SIZE if len(members) < Y.shape[1] else 0.0) + 1e-300)
        mean = trust * own_mean + (1 - trust) * total_mean
        variance = trust * own_variance + (1 - trust) * total_variance
        variance = np.maximum(variance, _NOISE_FLOOR)[:, None]
        log_density[:, members] = -0.5 * (
            (values - mean[:, None]) ** 2 / variance + np.log(2 * np.pi * variance)
        )
    return log_density


def _moments(values, observed):
    """Mean and variance of the observed entries of every row."""
    count = np.maximum(observed.sum(axis=1), 1)
    filled = np.where(observed, values, 0.0)
    mean = filled.sum(axis=1) / count
    deviation = np.where(observed, filled - mean[:, None], 0.0)
    return mean, np.sum(deviation**2, axis=1) / count


@njit(cache=True, nogil=True, error_model="numpy")
def _maximise_all(Y, basis, outside, noise, share, max_iter, coefficients, state, weights):
    """Maximise for every row of Y, noise free first if it is known. Changes the last three."""
    n_features, rank = basis.shape
    rows = np.empty((n_features, rank))
    y, log_outside, weight = np.empty(n_features), np.empty(n_features), np.empty(n_features)
    for j in range(len(Y)):
        # A plain 0 would have numba compile everything below once more for the constant.
        size = np.int64(0)
        for i in range(n_features):
            if not np.isnan(Y[j, i]):
                for a in range(rank):
                    rows[size, a] = basis[i, a]
                y[size] = Y[j, i]
                log_outside[size] = outside[j, i]
                size += 1
        if size == 0:
            continue
        x, floor = coefficients[j], max(noise[j], _NOISE_FLOOR)
        problem = (rows, y, log_outside, size, share)
        for stage in range(0 if noise[j] >= 0.0 else 1, 2):
            free = stage == 0 or noise[j] < 0.0
            _maximise_one(problem, floor, free, max_iter[stage], x, state[j], weight)
        position = 0
        for i in range(n_features):
            if not np.isnan(Y[j, i]):
                weights[j, i] = weight[position]
                position += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _maximise_one(problem, noise, noise_is_free, max_iter, x, state, weight):
    """Expectation-maximisation from x; `noise` is the smallest allowed if free, else the noise.

    Changes x, state and weight.
    """
    rows, y, log_outside, size, share = problem
    residual, gram = np.empty(size), np.empty((len(x), len(x)))
    step = np.empty(len(x))
    _residual(rows, y, size, x, residual)
    sigma = max(_start_noise(residual, len(x)), noise) if noise_is_free else noise
    rho = 0.5 if share < 0.0 else min(share, 1.0 - _SHARE_FLOOR)
    likelihood = _expectation(residual, log_outside, sigma, rho, weight)
    increase, n_iter = np.inf, 0
    while n_iter < max_iter and increase > _TOLERANCE:
        n_iter += 1
        _weighted_step(rows, residual, size, weight, gram, step, x)
        _residual(rows, y, size, x, residual)
        total, squares = 0.0, 0.0
        for i in range(size):
            total += weight[i]
            squares += weight[i] * residual[i] ** 2
        if noise_is_free and total > 0.0:
            sigma = max(np.sqrt(squares / total), noise)
        if share < 0.0:
            rho = min(max(1.0 - total / size, _SHARE_FLOOR), 1.0 - _SHARE_FLOOR)
        previous = likelihood
        likelihood = _expectation(residual, log_outside, sigma, rho, weight)
        increase = (likelihood - previous) / (size + abs(likelihood))
    state[0], state[1], state[2], state[3], state[4] = likelihood, rho, sigma, n_iter, increase


@njit(cache=True, nogil=True, error_model="numpy")
def _start_noise(residual, rank):
    """Median absolute residual, less the r that the start fits exactly, as a normal deviation."""
    ordered = np.sort(np.abs(residual))
    middle = min((len(residual) + rank) // 2, len(residual) - 1)
    return 1.4826 * ordered[middle]


@njit(cache=True, nogil=True, error_model="numpy")
def _residual(rows, y, size, x, residual):
    for i in range(size):
        residual[i] = y[i] - dot(rows[i], x)


@njit(cache=True, nogil=True, error_model="numpy")
def _expectation(residual, log_outside, sigma, rho, weight):
    """Log-likelihood; writes into `weight` the probability of every entry to be in place."""
    constant = np.log(1.0 - rho) - np.log(sigma) - 0.5 * np.log(2.0 * np.pi)
    log_rho = np.log(rho) if rho > 0.0 else -np.inf
    total = 0.0
    for i in range(len(residual)):
        inside = constant - 0.5 * (residual[i] / sigma) ** 2
        outside = log_rho + log_outside[i]
        larger, smaller = max(inside, outside), min(inside, outside)
        log_sum = larger + np.log1p(np.exp(smaller - larger))
        weight[i] = np.exp(inside - log_sum)
        total += log_sum
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _weighted_step(rows, residual, size, weight, gram, step, x):
    """Add to x the weighted least-squares solution for the residual.

    Damping directions without information keeps this a step that cannot lower the likelihood.
    """
    gram.fill(0.0)
    step.fill(0.0)
    for i in range(size):
        add_outer(gram, rows[i], weight[i])
        for a in range(len(x)):
            step[a] += weight[i] * rows[i, a] * residual[i]
    solve_positive_definite(gram, step)
    for a in range(len(x)):
        x[a] += step[a]
