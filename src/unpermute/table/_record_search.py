r"""The permutation of one record that its columns make most likely.

Maximise over π the log-likelihood of :mod:`unpermute.table._record_likelihood` plus the log-prior
of :mod:`unpermute.table._record_prior`. Best-improvement search: of all exchanges of two cells
take the best, until none helps. Starts: the record as it is, the best rotation of a tail, and the
placements of :mod:`unpermute.table._record_placement`.

The alternatives seen, which are the exchanges next to the answer and next to the record as it is,
and all rotations, are weighed by their posterior: that gives the confidences.
"""

import math

import numpy as np
from numba import njit

from unpermute.table._record_columns import place_values
from unpermute.table._record_likelihood import (
    exchange,
    likelihood,
    log_density,
    neighbours,
    rebuild,
)
from unpermute.table._record_placement import place

__all__ = ["search_records"]

_N_STARTS = 5
# Half-width of the distribution of outlying cells, in scales of the column.
_WIDE = 3.0


@njit(cache=True, nogil=True)
def search_records(
    values, classes, fold, location, precision, degrees, kind, offset, centre, scale, outside,
    evidence, log_prior, log_shift, log_outlier, bonus, suspicious, far, usual, permutations,
    gain, odds, confidence, outlying, entries,
):  # fmt: skip
    """Search every record of a block; writes the last six arrays.

    Parameters
    ----------
    values, classes : arrays of shape (n, p)
    fold : array of shape (n,)
        Which of `location` and `precision` judges the record.
    location, precision, degrees
        Of the joint distribution.
    kind, offset, centre, scale, outside, evidence
        Of the columns.
    log_prior : array of shape (p + 1,)
        Of one permutation that moves k cells; -inf: never.
    log_shift : array of shape (p,)
        Of one rotation by one of the tail from a place on.
    log_outlier : float
        Of one cell being an outlier in its place.
    bonus : array of shape (n,)
        Added to the log-prior of every permutation but the identity.
    suspicious, far : float
        A record is searched if the log-odds after a first look, or its squared distance, exceed
        these.
    usual : float
        Squared distance below which a repaired record needs no more starts.
    permutations, gain, odds, confidence, outlying, entries : arrays, written
        Best permutation but the identity, its log-posterior relative to that, the log-odds of any
        change, the probabilities that all cells, and every cell, hold the right value once the
        record is changed if, and only if, the gain is positive; and of an outlier if it is not.
    """
    n, p = values.shape
    Z, worth, space = np.empty((p, p)), np.empty((p, p)), np.empty((p, p))
    prior, shift, missing = np.empty(p + 1), np.empty(p), np.empty(p, dtype=np.bool_)
    for r in range(n):
        x, version = values[r], fold[r]
        mu, P = location[version], precision[version]
        place_values(x, classes[r], kind, offset, centre, scale, outside, evidence, Z, worth)
        for j in range(p):
            missing[j] = x[j] != x[j]
        n_missing = np.sum(missing)
        prior[p] = log_prior[p] + bonus[r]
        for j in range(p):
            prior[j] = log_prior[j] + bonus[r] * (j > 0)
            shift[j] = log_shift[j] + bonus[r]
        for i in range(p):
            for j in range(p):
                Z[i, j] -= 0.0 if missing[i] else mu[j]
        Q = space if n_missing else P
        gain[r], odds[r], confidence[r], outlying[r] = _search(
            x, missing, n_missing, Z, worth, P, Q, degrees, prior, shift, log_outlier, suspicious,
            far, usual, permutations[r], entries[r],
        )  # fmt: skip


@njit(cache=True, nogil=True)
def _search(
    x, missing, n_missing, Z, worth, P, Q, nu, prior, log_shift, log_outlier, suspicious, far,
    usual, permutation, entries,
):  # fmt: skip
    """Search one record; writes `permutation` and `entries`."""
    p = len(x)
    z, g, constant, trial = np.empty(p), np.empty(p), np.empty(1), np.arange(p)
    around, around_own, around_best = np.empty((p, p)), np.empty((p, p)), np.empty((p, p))
    turns = np.empty((2, p))
    best, stays, outlying, signed, q = -np.inf, -np.inf, 0.0, 0, 0.0
    # One loop, so that the search is compiled into one place: the first pass only looks.
    for start in range(_N_STARTS + 1):
        value, n_steps = -np.inf, 4 * p if start else 0
        if start == 2 and signed:
            value = turns[int(signed < 0), abs(signed) - 1]
        if start < 3:
            _rotate(trial, signed if start == 2 else np.int64(0))
        else:
            place(start - 3, missing, Z, worth, P, nu, trial)
        value = _climb(
            trial, value, n_steps, x, missing, n_missing, Z, worth, P, nu, prior, z, g, Q,
            constant, around,
        )  # fmt: skip
        if start == 0:
            q = _dot(z, g)
            stays, outlying = _with_outliers(
                value, q, missing, p - n_missing, nu, log_outlier, z, g, Q
            )
            _copy(around, around_own)
            signed = _rotations(
                trial, missing, n_missing, Z, worth, P, nu, log_shift, z, g, Q, constant, turns
            )
            best = _best_seen(around_own, turns, signed, permutation)
            if not (best - stays > suspicious or q > far):
                break
        elif value > stays + 1e-9 and (value > best + 1e-9 or _apart(trial, permutation) == 0):
            best, q = value, _dot(z, g)
            _copy(around, around_best)
            # An assignment to a slice would take numba seconds to compile.
            for j in range(p):
                permutation[j] = trial[j]
        # Nothing to hope for from other starts once few moves make it look like any other.
        if start >= 2 and best > stays and q < usual and 6 * _count_moved(permutation) <= p:
            break
    odds, right = _weigh(x, permutation, best, stays, around_best, around_own, turns, entries)
    return best - stays, odds, right, outlying


@njit(cache=True, nogil=True)
def _with_outliers(value, q, missing, m, nu, log_outlier, z, g, Q):
    """Log-posterior of the record as it is, and the share in it of one or two outlying cells.

    An outlying cell says nothing about the others and has a wide distribution of its own. The
    second one is sought given the best first one.
    """
    p = len(z)
    base = value - log_density(q, nu, m)
    first, best, total = -1, -np.inf, 0.0
    pivot_first, slope_first, out_first = 1.0, 0.0, 0.0
    for n_out in range(1, min(2, m - 2) + 1):
        less = math.lgamma(0.5 * (nu + m - n_out)) - math.lgamma(0.5 * (nu + m))
        less += 0.5 * n_out * np.log(nu * np.pi) + base
        following = first
        for j in range(p):
            if missing[j] or j == first:
                continue
            share = Q[j, first] / pivot_first if first >= 0 else 0.0
            pivot = Q[j, j] - share * share * pivot_first
            slope = g[j] - share * slope_first
            rest = q - slope * slope / pivot - slope_first * slope_first / pivot_first
            out = out_first + _log_wide(z[j]) + log_outlier - 0.5 * np.log(pivot)
            log_weight = log_density(rest, nu, m - n_out) + less + out
            total += np.exp(min(log_weight - value, 700.0))
            if log_weight > best:
                best, following = log_weight, j
        if following == first:
            break
        first, best = following, np.inf
        pivot_first, slope_first = Q[first, first], g[first]
        out_first = _log_wide(z[first]) + log_outlier - 0.5 * np.log(pivot_first)
    return value + np.log1p(total), total / (1.0 + total)


@njit(cache=True, nogil=True)
def _log_wide(z):
    """Cauchy distribution of an outlying cell."""
    return -np.log(np.pi * _WIDE * (1.0 + (z / _WIDE) ** 2))


@njit(cache=True, nogil=True)
def _climb(
    permutation, value, n_steps, x, missing, n_missing, Z, worth, P, nu, prior, z, g, Q, constant,
    around,
):  # fmt: skip
    """Exchange two cells while it helps; changes `permutation`, returns its log-posterior.

    Writes the log-posterior after every exchange a < b that changes a value into `around`, -inf
    elsewhere. `value` is -inf or a log-posterior that counts instead of the permutation's own.
    """
    p = len(permutation)
    rebuild(permutation, missing, n_missing, Z, P, z, g, Q, constant)
    k = _count_moved(permutation)
    if value == -np.inf:
        value = likelihood(permutation, n_missing, worth, nu, z, g, constant) + prior[k]
    for step in range(n_steps + 1):
        neighbours(permutation, missing, n_missing, Z, worth, P, nu, z, g, Q, constant, around)
        k = _count_moved(permutation)
        best, first, second = -np.inf, 0, 0
        for a in range(p):
            i = permutation[a]
            for b in range(p):
                j = permutation[b]
                if b <= a or not _differs(x, i, j):
                    around[a, b] = -np.inf
                    continue
                around[a, b] += prior[k + (j != a) + (i != b) - (i != a) - (j != b)]
                if around[a, b] > best:
                    best, first, second = around[a, b], a, b
        if step == n_steps or not best > value + 1e-9:
            break
        value = best
        exchange(permutation, first, second, missing, n_missing, Z, P, z, g, Q, constant)
    return value


@njit(cache=True, nogil=True)
def _dot(a, b):
    total = 0.0
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


@njit(cache=True, nogil=True)
def _copy(source, target):
    for a in range(source.shape[0]):
        for b in range(source.shape[1]):
            target[a, b] = source[a, b]


@njit(cache=True, nogil=True)
def _count_moved(permutation):
    k = 0
    for j in range(len(permutation)):
        k += permutation[j] != j
    return k


@njit(cache=True, nogil=True)
def _rotations(
    permutation, missing, n_missing, Z, worth, P, nu, log_shift, z, g, Q, constant, turns
):  # fmt: skip
    """Log-posterior of every rotation of a tail by one; writes `turns`, returns the best.

    A longer tail differs from the next shorter one by one exchange. See `_rotate` for the number
    returned.
    """
    p = len(permutation)
    best, signed = -np.inf, 0
    for turn in range(2):
        _rotate(permutation, np.int64(0))
        rebuild(permutation, missing, n_missing, Z, P, z, g, Q, constant)
        for start in range(p - 1, -1, -1):
            turns[turn, start] = -np.inf
            if start == p - 1:
                continue
            other = start + 1 if turn else p - 1
            exchange(permutation, start, other, missing, n_missing, Z, P, z, g, Q, constant)
            if log_shift[start] > -np.inf:
                value = likelihood(permutation, n_missing, worth, nu, z, g, constant)
                value += log_shift[start]
                turns[turn, start] = value
                if value > best:
                    best, signed = value, -(start + 1) if turn else start + 1
    return signed


@njit(cache=True, nogil=True)
def _rotate(permutation, signed):
    """Write the identity (0), or the rotation of the tail that starts at |signed| − 1.

    Positive: every place gets the value of the next one; negative: that of the one before.
    """
    p = len(permutation)
    start = abs(signed) - 1 if signed else p
    for j in range(p):
        permutation[j] = j
        if j >= start and signed > 0:
            permutation[j] = j + 1 if j < p - 1 else start
        elif j >= start:
            permutation[j] = j - 1 if j > start else p - 1


@njit(cache=True, nogil=True)
def _best_seen(around, turns, signed, permutation):
    """Best of all exchanges and rotations of the record as it is; writes `permutation`."""
    best, first, second = _best_exchange(around)
    if signed and turns[int(signed < 0), abs(signed) - 1] > best:
        _rotate(permutation, signed)
        return turns[int(signed < 0), abs(signed) - 1]
    _rotate(permutation, np.int64(0))
    permutation[first], permutation[second] = second, first
    return best


@njit(cache=True, nogil=True)
def _best_exchange(around):
    p = len(around)
    best, first, second = -np.inf, 0, 0
    for a in range(p):
        for b in range(a + 1, p):
            if around[a, b] > best:
                best, first, second = around[a, b], a, b
    return best, first, second


@njit(cache=True, nogil=True)
def _weigh(x, permutation, best, stays, around, around_own, turns, entries):
    """Log-odds of a change, and the probability that the answer is right; writes `entries`.

    The answer is the record as it is unless `best` is above `stays`.
    """
    p = len(x)
    moves, top = best > stays, max(best, stays)
    wrong, state, answer = np.zeros(p), np.arange(p), np.arange(p)
    changed = 0.0
    if moves:
        n_moved = _count_moved(permutation)
        changed = 1.0
        for j in range(p):
            answer[j] = permutation[j]
        for a in range(p):
            for b in range(a + 1, p):
                weight = np.exp(around[a, b] - top)
                leads_back = n_moved == 2 and permutation[a] == b and permutation[b] == a
                if not leads_back:
                    changed += weight
                    wrong[a] += weight
                    wrong[b] += weight
        _miss(x, state, answer, np.exp(stays - top), wrong)
    for a in range(p):
        for b in range(a + 1, p):
            weight = np.exp(around_own[a, b] - top)
            state[a], state[b] = b, a
            if weight > 1e-12 and not (moves and _apart(state, permutation) <= 2):
                changed += weight
                _miss(x, state, answer, weight, wrong)
            state[a], state[b] = a, b
    for turn in range(2):
        for start in range(p):
            weight = np.exp(turns[turn, start] - top)
            if weight > 1e-12:
                _rotate(state, -(start + 1) if turn else start + 1)
                if not (moves and _apart(state, permutation) <= 2):
                    changed += weight
                    _miss(x, state, answer, weight, wrong)
    total = changed + np.exp(stays - top)
    for j in range(p):
        entries[j] = min(max(1.0 - wrong[j] / total, 0.0), 1.0)
    return np.log(max(changed, 1e-300)) + top - stays, 1.0 / total


@njit(cache=True, nogil=True)
def _miss(x, state, answer, weight, wrong):
    """Add the weight of a state to the cells in which its values differ from the answer's."""
    for j in range(len(x)):
        if _differs(x, state[j], answer[j]):
            wrong[j] += weight


@njit(cache=True, nogil=True)
def _apart(state, permutation):
    """Number of places at which they differ: two are one exchange."""
    apart = 0
    for j in range(len(state)):
        apart += state[j] != permutation[j]
    return apart


@njit(cache=True, nogil=True)
def _differs(x, i, j):
    """Whether values i and j of the record differ; two missing ones do not."""
    return i != j and x[i] != x[j] and not (x[i] != x[i] and x[j] != x[j])
