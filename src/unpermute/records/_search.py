r"""The permutation of one record that its columns make most likely.

Maximise over π the log-likelihood of :mod:`unpermute.records._likelihood` plus the log-prior of
:mod:`unpermute.records._prior`. Best-improvement search: of all exchanges of two cells take the
best, until none helps. Starts: the record as it is, the best rotation of a tail, and the placements
of :mod:`unpermute.records._placement`.

The alternatives seen, which are the exchanges next to the answer and next to the record as it is,
and all rotations, are weighed by their posterior: that gives the probabilities.
"""

import math
from collections import namedtuple

import numpy as np
from numba import njit

from unpermute.records._likelihood import (
    exchange,
    likelihood,
    log_density,
    neighbours,
    new_state,
    rebuild,
)
from unpermute.records._placement import place
from unpermute.records._record import new_space, read_record

__all__ = ["Found", "Prior", "new_found", "search_records"]

_N_STARTS = 5
# Log-prior of one permutation that moves k cells, what is added for a swap of two columns, that of
# one rotated tail, of an outlying cell; and above which log-odds or squared distance a record is
# searched, below which distance no further.
Prior = namedtuple("Prior", "moves pairs shifts outlier suspicious far usual")
# Best permutation but the identity, its log-posterior relative to that, log-odds of any change,
# probability that the better of the two is right, and the same for every cell.
Found = namedtuple("Found", "permutations gain odds right entries")


def new_found(n, p):
    """Arrays for the results of n records of p cells."""
    order = np.tile(np.arange(p), (n, 1))
    return Found(order, np.zeros(n), np.zeros(n), np.ones(n), np.ones((n, p)))


@njit(cache=True, nogil=True)
def search_records(tables, laws, prior, found):
    """Search every record of a block; writes `found`."""
    n, p = tables.codes.shape
    space = new_space(p)
    for r in range(n):
        record, joint = read_record(tables, laws, r, space)
        found.gain[r], found.odds[r], found.right[r] = _search(
            record, joint, prior, space.Q, found.permutations[r], found.entries[r]
        )


@njit(cache=True, nogil=True)
def _search(record, joint, prior, space, permutation, entries):
    """Search one record; writes `permutation` and `entries`."""
    p = len(permutation)
    state, trial = new_state(record, joint, space), np.arange(p)
    around, around_own, around_best = np.empty((p, p)), np.empty((p, p)), np.empty((p, p))
    turns = np.empty((2, p))
    best, stays, signed, q = -np.inf, -np.inf, 0, 0.0
    # One loop, so that the search is compiled into one place: the first pass only looks.
    for start in range(_N_STARTS + 1):
        value, n_steps = -np.inf, 4 * p if start else 0
        if start == 2 and signed:
            value = turns[int(signed < 0), abs(signed) - 1]
        if start < 3:
            _rotate(trial, signed if start == 2 else np.int64(0))
        else:
            place(start - 3, record, joint, trial)
        value = _climb(trial, value, n_steps, record, joint, prior, state, around)
        if start == 0:
            q = _dot(state.z, state.g)
            stays = _with_outliers(value, q, record, joint, prior, state)
            _copy(around, around_own)
            signed = _rotations(trial, record, joint, prior, state, turns)
            best = _best_seen(around_own, turns, signed, permutation)
            if not (best - stays > prior.suspicious or q > prior.far):
                return best - stays, best - stays, 1.0
        elif value > stays + 1e-9 and (value > best + 1e-9 or _apart(trial, permutation) == 0):
            # The same rotation found by a placement has the smaller prior of any permutation.
            best, q = max(best, value), _dot(state.z, state.g)
            _copy(around, around_best)
            # An assignment to a slice would take numba seconds to compile.
            for j in range(p):
                permutation[j] = trial[j]
        # Nothing to hope for from other starts once few moves make it look like any other.
        n_moved = _count_moved(permutation)
        few = n_moved == 2 if start == 1 else 6 * n_moved <= p
        if start >= 1 and best > stays and q < prior.usual and few:
            break
    odds, right = _weigh(
        record.x, permutation, best, stays, around_best, around_own, turns, entries
    )
    return best - stays, odds, right


@njit(cache=True, nogil=True)
def _with_outliers(value, q, record, joint, prior, state):
    """Log-posterior of the record as it is, one or two of its cells perhaps being outliers.

    An outlying cell says nothing about the others. The second is sought given the best first one.
    """
    p, nu, m = len(record.x), joint.degrees, record.m
    z, g, Q = state.z, state.g, state.Q
    base = value - log_density(q, nu, m)
    first, best, total = -1, -np.inf, 0.0
    pivot_first, slope_first, out_first = 1.0, 0.0, 0.0
    constant = math.lgamma(0.5 * (nu + 1)) - math.lgamma(0.5 * nu) - 0.5 * np.log(nu * np.pi)
    constant += prior.outlier
    for n_out in range(1, min(2, m - 2) + 1):
        less = math.lgamma(0.5 * (nu + m - n_out)) - math.lgamma(0.5 * (nu + m))
        less += 0.5 * n_out * np.log(nu * np.pi) + base
        following = first
        for j in range(p):
            if record.missing[j] or not joint.used[j] or j == first:
                continue
            share = Q[j, first] / pivot_first if first >= 0 else 0.0
            pivot = Q[j, j] - share * share * pivot_first
            slope = g[j] - share * slope_first
            rest = q - slope * slope / pivot - slope_first * slope_first / pivot_first
            out = out_first + constant + _log_t1(z[j], nu, joint.variances[j])
            log_weight = log_density(rest, nu, m - n_out) + less + out - 0.5 * np.log(pivot)
            total += np.exp(min(log_weight - value, 700.0))
            if log_weight > best:
                best, following = log_weight, j
        if following == first:
            break
        first, best = following, np.inf
        pivot_first, slope_first = Q[first, first], g[first]
        out_first = constant + _log_t1(z[first], nu, joint.variances[first])
        out_first -= 0.5 * np.log(pivot_first)
    return value + np.log1p(total)


@njit(cache=True, nogil=True)
def _log_t1(z, nu, s2):
    """Log-density of Student's t with scale² s2, up to a constant of ν."""
    return -0.5 * np.log(s2) - 0.5 * (nu + 1) * np.log1p(z * z / (nu * s2))


@njit(cache=True, nogil=True)
def _climb(permutation, value, n_steps, record, joint, prior, state, around):
    """Exchange two cells while it helps; changes `permutation`, returns its log-posterior.

    Writes the log-posterior after every exchange a < b that changes a value into `around`, -inf
    elsewhere. `value` is -inf or a log-posterior that counts instead of the permutation's own.
    """
    p = len(permutation)
    rebuild(permutation, record, joint, state)
    k = _count_moved(permutation)
    if value == -np.inf:
        value = likelihood(permutation, record, joint, state) + prior.moves[k]
    for step in range(n_steps + 1):
        neighbours(permutation, record, joint, state, around)
        k = _count_moved(permutation)
        best, first, second = -np.inf, 0, 0
        for a in range(p):
            i = permutation[a]
            for b in range(p):
                j = permutation[b]
                if b <= a or record.x[i] == record.x[j]:
                    around[a, b] = -np.inf
                    continue
                around[a, b] += prior.moves[k + (j != a) + (i != b) - (i != a) - (j != b)]
                if k == 0:
                    around[a, b] += prior.pairs[a, b]
                if around[a, b] > best:
                    best, first, second = around[a, b], a, b
        if step == n_steps or not best > value + 1e-9:
            break
        value = best
        exchange(permutation, first, second, record, joint, state)
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
def _rotations(permutation, record, joint, prior, state, turns):
    """Log-posterior of every rotation of a tail by one; writes `turns`, returns the best.

    A longer tail differs from the next shorter one by one exchange. See `_rotate` for the number
    returned.
    """
    p = len(permutation)
    best, signed = -np.inf, 0
    for turn in range(2):
        _rotate(permutation, np.int64(0))
        rebuild(permutation, record, joint, state)
        for start in range(p - 1, -1, -1):
            turns[turn, start] = -np.inf
            if start == p - 1:
                continue
            other = start + 1 if turn else p - 1
            exchange(permutation, start, other, record, joint, state)
            if prior.shifts[start] > -np.inf:
                value = likelihood(permutation, record, joint, state) + prior.shifts[start]
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
    best, first, second = -np.inf, 0, 0
    for a in range(len(around)):
        for b in range(a + 1, len(around)):
            if around[a, b] > best:
                best, first, second = around[a, b], a, b
    if signed and turns[int(signed < 0), abs(signed) - 1] > best:
        _rotate(permutation, signed)
        return turns[int(signed < 0), abs(signed) - 1]
    _rotate(permutation, np.int64(0))
    permutation[first], permutation[second] = second, first
    return best


@njit(cache=True, nogil=True)
def _weigh(x, permutation, best, stays, around, around_own, turns, entries):
    """Log-odds of a change, and the probability that the answer is right; writes `entries`.

    The answer is the record as it is unless `best` is above `stays`.
    """
    p = len(x)
    moves, top = best > stays, max(best, stays)
    wrong, state, answer = np.zeros(p), np.arange(p), np.arange(p)
    # `same` is the weight of the states that hold the values of the answer.
    changed, same = 0.0, np.exp(max(best, stays) - top)
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
                same += _miss(x, state, answer, weight, wrong)
            state[a], state[b] = a, b
    for turn in range(2):
        for start in range(p):
            weight = np.exp(turns[turn, start] - top)
            if weight > 1e-12:
                _rotate(state, -(start + 1) if turn else start + 1)
                # One that is next to the answer counts as an exchange and as a shifted tail.
                if not (moves and _apart(state, permutation) == 0):
                    changed += weight
                    same += _miss(x, state, answer, weight, wrong)
    total = changed + np.exp(stays - top)
    for j in range(p):
        entries[j] = min(max(1.0 - wrong[j] / total, 0.0), 1.0)
    return np.log(max(changed, 1e-300)) + top - stays, same / total


@njit(cache=True, nogil=True)
def _miss(x, state, answer, weight, wrong):
    """Add the weight of a state to the cells in which its values differ from the answer's.

    Returns the weight if there are none.
    """
    equal = True
    for j in range(len(x)):
        if x[state[j]] != x[answer[j]]:
            wrong[j] += weight
            equal = False
    return weight if equal else 0.0


@njit(cache=True, nogil=True)
def _apart(state, permutation):
    """Number of places at which they differ: two are one exchange."""
    apart = 0
    for j in range(len(state)):
        apart += state[j] != permutation[j]
    return apart
