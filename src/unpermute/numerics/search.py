r"""Search for coefficients and permutation together, stopped by a certificate.

For coefficients x the best permutation is a sort, and its cost is at the noise floor only if x is
right. The search maximises the evidence that a solution is no accident
(:mod:`unpermute.numerics.certificate`) over x and the number of moved entries, and stops as soon
as that certifies the answer. It needs neither the noise level nor the shuffled ratio.

Starts: robust (least absolute) regression first, which settles easy vectors at once. Then batches
of small weighted samples of entries, least squares, concentration on the h best-fitting entries,
alternation of matching and refitting; after every batch the sampling weights move towards the
entries that the best few kept in place (cross-entropy). Several h take turns, since the number of
entries in place is unknown; h = 0 starts from random permutations, for vectors shuffled completely.

References
----------
Rousseeuw & Van Driessen, "Computing LTS regression for large data sets", 2006,
doi:10.1007/s10618-005-0024-4 (concentration steps).
Rubinstein, "The cross-entropy method for combinatorial and continuous optimization", 1999,
doi:10.1023/A:1010091220143.
"""

import math

import numpy as np
from numba import njit

from unpermute.numerics.certificate import CERTAIN, LONG, evaluate, null_scales, workspace
from unpermute.numerics.matching import (
    least_squares,
    log_moves,
    match,
    predict,
    prepare,
    project,
    sort_into,
)
from unpermute.numerics.parallel import map_blocks
from unpermute.numerics.starts import random_permutation_start, sample_starts

__all__ = ["climb_vectors", "search_vectors"]

# A wrong solution that shares most of its moves with the right one may reach it too, but not with
# a residual down at the noise. Where the noise is unknown, down at 25 dB below a random order.
_DOWN_AT_NOISE = 10.0**-2.5
# Evidence per degree of freedom that no such near miss has: polishing is skipped.
_BEYOND_DOUBT = 2.0
# Starts per batch, those that are followed to convergence, and those that steer the sampling.
_BATCH, _FOLLOWED, _ELITE = 60, 12, 6
_FEW_STEPS, _MANY_STEPS = 3, 60
_LEARNING_RATE = 0.6
# Batches after which an arm forgets what it has learned: by then it repeats itself.
_ROUNDS = 16
# Sizes of the best-fitting part from which a solution is refitted when it is polished.
_LEVELS = 8
# Shares of the entries assumed in place, one arm of the search each. A share 15% off still works.
_SHARES = (0.84, 0.7, 0.58, 0.48, 0.4, 0.33)
# Starts from random permutations are hopeless in more dimensions than this.
_MAX_RANK_FULLY_SHUFFLED = 8
# Random permutations learn nothing from one another, so more of them are needed.
_FULLY_SHUFFLED_ARMS = 3


def search_vectors(
    Y, basis, offset, blocks, *, shuffled_ratio=None, expected_ratio=None, noise_scale=None,
    max_starts, seed=0, n_jobs=None, stage="recover",
):  # fmt: skip
    """Search the coefficients of every vector, each as if it were alone.

    Parameters
    ----------
    Y : ndarray of shape (n_vectors, n_features)
        Observed vectors; NaN where missing.
    basis, offset : ndarray of shape (n_features, rank) and (n_features,)
        Their subspace.
    blocks : ndarray of int of shape (n_features,)
        Entries only move between places of the same block.
    shuffled_ratio, noise_scale : float or None
        If known.
    expected_ratio : float or None
        Share of moved entries that is usual, if that is all that is known.
    max_starts : int
        Budget per vector, up to the next full turn of the arms; 0: the robust start alone.
    seed, n_jobs, stage
        Of the random starts; threads; name under which progress is reported.

    Returns
    -------
    coefficients : ndarray of shape (n_vectors, rank)
    certain : ndarray of bool of shape (n_vectors,)
        Where the evidence certifies the answer, with a residual down at the noise.
    evidence : ndarray of shape (n_vectors,)
    n_starts : ndarray of int of shape (n_vectors,)
    """
    n, rank = len(Y), basis.shape[1]
    # In C order: numba would compile everything again for another layout.
    basis = np.ascontiguousarray(basis)
    coefficients, evidence = np.zeros((n, rank)), np.zeros(n)
    n_starts, certain = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=bool)
    null, ways = null_scales(Y, basis, offset, blocks), log_moves(blocks)
    noise, ratios = float(noise_scale or 0.0), (shuffled_ratio, expected_ratio)

    def run(start, stop):
        for j in range(start, stop):
            coefficients[j], certain[j], evidence[j], n_starts[j] = _search_vector(
                Y[j], basis, offset, null[j], ways, blocks, noise, ratios, max_starts, seed
            )

    map_blocks(run, n, block=8, stage=stage, n_jobs=n_jobs)
    return coefficients, certain, evidence, n_starts


def climb_vectors(Y, basis, offset, blocks, coefficients, *, noise_scale=None, n_jobs=None):
    """Climb from given coefficients to the next maximum of the evidence; no search.

    Parameters
    ----------
    Y : ndarray of shape (n_vectors, n_features)
        Observed vectors; NaN where missing.
    basis, offset : ndarray of shape (n_features, rank) and (n_features,)
        Their subspace.
    blocks : ndarray of int of shape (n_features,)
        Entries only move between places of the same block.
    coefficients : ndarray of shape (n_vectors, rank)
        Where to start; not changed.
    noise_scale, n_jobs
        As for :func:`search_vectors`.

    Returns
    -------
    coefficients, certain, evidence
        As from :func:`search_vectors`; evidence −inf where nothing depends on the order.
    at_noise : ndarray of bool of shape (n_vectors,)
        Whether the residual is down at the noise.
    """
    basis, found = np.ascontiguousarray(basis), np.array(coefficients, order="C")
    at_noise, evidence = np.zeros(len(Y), dtype=bool), np.full(len(Y), -np.inf)
    null, ways = null_scales(Y, basis, offset, blocks), log_moves(blocks)
    noise = float(noise_scale or 0.0)

    def run(start, stop):
        part = slice(start, stop)
        out = found[part], at_noise[part], evidence[part]
        _climb_block(Y[part], basis, offset, null[part], ways, blocks, noise, *out)

    map_blocks(run, len(Y), block=64, stage="climb", n_jobs=n_jobs)
    return found, at_noise & (evidence >= CERTAIN), evidence, at_noise


def _search_vector(y, U, b, null, ways, blocks, noise, ratios, max_starts, seed):
    """Search one vector; returns coefficients, if they are certain, evidence, number of starts."""
    rank = U.shape[1]
    (shift, order_y, largest), work = _prepare_search(y, blocks, rank)
    x = np.empty(rank)
    degrees = len(order_y) - rank
    if null <= 1e-24 * largest * largest or largest == 0.0 or degrees <= 0:
        # Nothing depends on the order: the zero vector, equal entries, or too few of them.
        gram, factor, ones = work[-3:]
        least_squares(U, b, y, ones, order_y, len(order_y), x, gram, factor)
        return x, False, 0.0, 0
    floor = _largest_residual(noise, null, degrees)
    enough, usual = _beyond_doubt(degrees, len(y)), _usual_residual(noise, degrees)

    probability = np.empty(len(y))
    _robust_regression(y, U, b, order_y, x, probability, work)
    best, residual = _polish(y, U, b, null, ways, shift, order_y, x, enough, usual, work)
    x_best, n_starts = x.copy(), 0
    certain = best >= CERTAIN and residual <= floor
    arms = _arms(len(order_y), rank, *ratios)
    learned = np.empty((len(arms), len(y)))
    starts, costs = np.empty((_BATCH, rank)), np.empty(_BATCH)
    state = np.array([seed], dtype=np.uint64)
    while not certain:
        n_rounds, arm = divmod(n_starts // _BATCH, len(arms))
        if arm == 0 and n_starts >= max_starts:  # all arms had their turn
            break
        if n_rounds % _ROUNDS == 0:
            learned[arm] = probability
        lowest = _batch(
            y, U, b, arms[arm], shift, order_y, learned[arm], starts, costs, state, work
        )
        n_starts += _BATCH
        x = starts[lowest].copy()
        evidence, residual = evaluate(y, U, b, null, ways, shift, order_y, x, work)
        if evidence > min(best, CERTAIN / 2):
            evidence, residual = _polish(
                y, U, b, null, ways, shift, order_y, x, enough, usual, work
            )
        if evidence > best:
            best, x_best = evidence, x
            certain = best >= CERTAIN and residual <= floor
    return x_best, certain, best, n_starts


@njit(cache=True, nogil=True, error_model="numpy")
def _prepare_search(y, blocks, rank):
    """Prepare a vector and the memory to work in.

    For Python alone. A kernel that returns arrays to Python and is also part of other kernels may
    be in the cache in two versions, and numba takes one for the other.
    """
    return prepare(y, blocks), workspace(len(y), rank)


def _arms(n_observed, rank, known=None, expected=None):
    """Numbers of entries assumed in place, which take turns.

    A known share of moved entries leaves one; the expected share takes every other turn, so that
    vectors of another share are still found.
    """
    if known is not None:
        return [_in_place(n_observed, rank, known)]
    arms = [round(share * n_observed) for share in _SHARES]
    arms = [h for h in arms if h >= rank + 3]
    if rank <= _MAX_RANK_FULLY_SHUFFLED or not arms:
        arms += [0] * _FULLY_SHUFFLED_ARMS
    if expected is None:
        return arms
    usual = _in_place(n_observed, rank, expected)
    return [h for arm in arms for h in (usual, arm)]


def _in_place(n_observed, rank, ratio):
    """Number of entries in place if that share has moved; 0: start from random permutations."""
    h, least = round((1.0 - ratio) * n_observed), rank + 3
    hopeless = rank > _MAX_RANK_FULLY_SHUFFLED and least <= n_observed
    return max(h, least) if h >= least or hopeless else 0


@njit(cache=True, nogil=True, error_model="numpy")
def _largest_residual(noise, null, degrees):
    """Sum of squares up to which a residual is down at the noise (0: unknown)."""
    if noise == 0.0:
        return _DOWN_AT_NOISE * null * degrees
    # The residual of one right answer in a million is larger; each would cost the whole budget.
    return noise * noise * degrees * (1.0 + 6.5 * math.sqrt(2.0 / degrees))


@njit(cache=True, nogil=True, error_model="numpy")
def _usual_residual(noise, degrees):
    """Sum of squares that most right answers have: two standard deviations above the mean."""
    return noise * noise * degrees * (1.0 + 2.0 * math.sqrt(2.0 / degrees))


@njit(cache=True, nogil=True, error_model="numpy")
def _beyond_doubt(degrees, n_features):
    """Evidence that no near miss has. Long vectors, with entries in place to spare, need less."""
    return (_BEYOND_DOUBT if n_features <= LONG else 0.1) * degrees


@njit(cache=True, nogil=True, error_model="numpy")
def _climb_block(Y, U, b, null, ways, blocks, noise, X, at_noise, evidence):
    """Climb from every row of X. Writes into the last three arguments."""
    work = workspace(*U.shape)
    for j in range(len(Y)):
        shift, order_y, largest = prepare(Y[j], blocks)
        degrees = len(order_y) - U.shape[1]
        if null[j] <= 1e-24 * largest * largest or largest == 0.0 or degrees <= 0:
            continue
        evidence[j], residual = _climb(Y[j], U, b, null[j], ways, shift, order_y, X[j], work)
        enough, usual = _beyond_doubt(degrees, U.shape[0]), _usual_residual(noise, degrees)
        if CERTAIN <= evidence[j] < enough and residual > usual:
            # Near misses are certified now and then, but not when they are polished.
            evidence[j], residual = _polish(
                Y[j], U, b, null[j], ways, shift, order_y, X[j], enough, usual, work
            )
        at_noise[j] = residual <= _largest_residual(noise, null[j], degrees)


@njit(cache=True, nogil=True, error_model="numpy")
def _robust_regression(y, U, b, order_y, x, probability, work):
    """Least absolute deviations by reweighting; writes x and the first sampling weights."""
    _, _, _, _, _, _, f, distance, gram, factor, _ = work
    n = len(y)
    # In memory order: long vectors would not be in the cache otherwise.
    observed = np.sort(order_y)
    weights = np.ones(n)
    scale = 0.0
    for i in observed:
        scale += abs(y[i]) / len(observed)
    previous = np.inf
    for _ in range(40):
        least_squares(U, b, y, weights, observed, len(observed), x, gram, factor)
        predict(U, b, x, f)
        total = 0.0
        for i in observed:
            distance[i] = abs(y[i] - f[i])
            total += distance[i]
            weights[i] = 1.0 / max(distance[i], 1e-4 * scale)
        if total > previous * (1.0 - 1e-3):
            break
        previous = total
    typical = max(total / len(observed), 1e-12 * scale)
    for i in range(n):
        probability[i] = 1.0 / (distance[i] + 0.5 * typical) if y[i] == y[i] else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _settle(y, U, b, n_stay, shift, order_y, x, work, max_steps):
    """Alternate matching and refitting; returns the last cost, writes x."""
    order_f, order_d, _, stays, source, z, f, distance, _, _, _ = work
    last = np.inf
    for _ in range(max_steps):
        predict(U, b, x, f)
        cost = match(y, f, n_stay, shift, order_y, order_f, order_d, distance, stays, source, z)
        if cost >= last * (1.0 - 1e-9):
            break
        last = cost
        project(U, b, z, x)
    return last


@njit(cache=True, nogil=True, error_model="numpy")
def _polish(y, U, b, null, ways, shift, order_y, x, enough, usual, work):
    """Climb to a local maximum of the evidence, also from the best-fitting part of the matching.

    Evidence of `enough` ends it at once, and so does certainty with the `usual` residual.
    """
    _, _, order_k, _, _, z, f, distance, gram, factor, ones = work
    n, rank = U.shape
    best, residual = _climb(y, U, b, null, ways, shift, order_y, x, work)
    trial = np.empty(rank)
    level = 0
    n_levels = _LEVELS if n <= LONG else 2
    while level < 2 * n_levels and best < enough and (best < CERTAIN or residual > usual):
        h = rank + 1 + (n - rank - 1) * (level // 2) // n_levels
        evaluate(y, U, b, null, ways, shift, order_y, x, work)
        for i in range(n):
            value = y[i] if level % 2 == 0 else z[i]
            distance[i] = abs(value - f[i]) if value == value else np.inf
        sort_into(order_k, distance)
        source = y if level % 2 == 0 else z
        least_squares(U, b, source, ones, order_k, min(h, len(order_y)), trial, gram, factor)
        evidence, cost = _climb(y, U, b, null, ways, shift, order_y, trial, work)
        level += 1
        if evidence > best + 1e-4 * (1.0 + abs(best)):
            best, residual, level = evidence, cost, 0
            for a in range(rank):
                x[a] = trial[a]
    return best, residual


@njit(cache=True, nogil=True, error_model="numpy")
def _climb(y, U, b, null, ways, shift, order_y, x, work):
    """Alternate evaluation and refitting while the evidence grows; writes the best x."""
    rank = len(x)
    best, residual = -np.inf, np.inf
    trial = x.copy()
    for _ in range(50):
        kept = trial.copy()
        evidence, cost = evaluate(y, U, b, null, ways, shift, order_y, trial, work)
        if evidence <= best + 1e-5 * (1.0 + abs(best)):
            break
        best, residual = evidence, cost
        for a in range(rank):
            x[a] = kept[a]
    return best, residual


@njit(cache=True, nogil=True, error_model="numpy")
def _batch(y, U, b, n_stay, shift, order_y, probability, starts, costs, state, work):
    """One batch of starts of one arm; updates its sampling weights, returns the best start."""
    if n_stay == 0:
        for s in range(_BATCH):
            random_permutation_start(y, U, b, order_y, starts[s], state, work)
    else:
        sample_starts(y, U, b, n_stay, probability, starts, state, work)
    for s in range(_BATCH):
        costs[s] = _settle(y, U, b, n_stay, shift, order_y, starts[s], work, _FEW_STEPS)
    order = np.argsort(costs)
    for a in range(_FOLLOWED):
        s = order[a]
        costs[s] = _settle(y, U, b, n_stay, shift, order_y, starts[s], work, _MANY_STEPS)
    order = np.argsort(costs)
    if n_stay > 0:
        _learn(y, U, b, n_stay, shift, order_y, probability, starts, order, work)
    return order[0]


@njit(cache=True, nogil=True, error_model="numpy")
def _learn(y, U, b, n_stay, shift, order_y, probability, starts, order, work):
    """Move the sampling weights towards the entries that the best starts kept in place."""
    order_f, order_d, _, stays, source, z, f, distance, _, _, _ = work
    n = len(y)
    share = np.zeros(n)
    for a in range(_ELITE):
        predict(U, b, starts[order[a]], f)
        match(y, f, n_stay, shift, order_y, order_f, order_d, distance, stays, source, z)
        for i in range(n):
            share[i] += stays[i] / _ELITE
    total = 0.0
    for i in range(n):
        total += probability[i]
    for i in range(n):
        old = probability[i] / total
        probability[i] = (1.0 - _LEARNING_RATE) * old + _LEARNING_RATE * (share[i] + 0.02) / n
        if y[i] != y[i]:
            probability[i] = 0.0
