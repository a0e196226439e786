r"""The permutation of one record that its columns make most likely.

Maximise over π the log-likelihood of :mod:`unpermute.records._likelihood` plus the log-prior of
:mod:`unpermute.records._prior`. Best-improvement search: of all exchanges of two cells take the
best, until none helps. Starts: the record as it is, the best rotation of a tail, and the placements
of :mod:`unpermute.records._placement`.

All orders seen on the way are weighed by their posterior (:mod:`unpermute.records._weigh`): that
gives the probabilities.
"""

import math
from collections import namedtuple
from functools import partial

import numpy as np
from numba import njit
from numba.extending import register_jitable

from unpermute.records._likelihood import exchange, likelihood, log_density, neighbours, rebuild
from unpermute.records._placement import place_records
from unpermute.records._record import (
    AROUND,
    DEGREES,
    DISTANCE,
    FIRST,
    HOLE,
    LEFT,
    N_CELLS,
    NEXT,
    ORDER,
    PLACED,
    SECOND,
    SLOPE,
    START,
    STAYS,
    TURN,
    TURNED,
    TURNED_BACK,
    USED,
    VALUE,
    VARIANCE,
    WORD,
    Work,
    new_room,
    new_work,
    read_records,
    record_of,
    take_records,
)
from unpermute.records._weigh import Seen

__all__ = [
    "Found",
    "Prior",
    "exchanged",
    "new_found",
    "read_blocks",
    "search_records",
    "watch_orders",
]

_N_STARTS = 5
# Numbers of a plane of all records that are in work at once: more would not fit into a cache.
_ROOM = 50_000
# Log-posteriors that differ by less are equal.
_EQUAL = 1e-9
# Log-prior of one permutation that moves k cells, what is added for a swap of two columns, that of
# one rotated tail, of an outlying cell; and above which log-odds or squared distance a record is
# searched, below which distance no further.
Prior = namedtuple("Prior", "moves pairs shifts outlier suspicious far usual")
# Best permutation but the identity, its log-posterior relative to that, log-odds of any change, and
# probability that the better of the two is right.
Found = namedtuple("Found", "permutations gain odds right")


def new_found(n, p):
    """Arrays for the results of n records of p cells."""
    order = np.tile(np.arange(p), (n, 1))
    return Found(order, np.zeros(n), np.zeros(n), np.ones(n))


def search_records(tables, laws, prior, found):
    """Search every record; writes `found`."""
    rotated, room, suspicious = _rotations(tables.codes.shape[1]), new_room(tables), []
    for part, work in read_blocks(tables, laws):
        some = Found(*(array[part] for array in found))
        rows = _look(work, room, laws, prior, rotated, some)[2]
        suspicious.append(part.start + np.flatnonzero(rows))
    rows = np.concatenate(suspicious)
    for part, work in read_blocks(take_records(tables, rows), laws):
        some = Found(*(array[rows[part]] for array in found))
        _search_further(work, room, laws, prior, rotated, some)
        for array, values in zip(found, some, strict=True):
            array[rows[part]] = values


def watch_orders(tables, laws, prior, watch):
    """Search every record from all starts; ``watch(part, words, stays)`` sees all orders of some.

    It returns a :class:`~unpermute.records._weigh.Seen` for these records, whose `weigh` is called
    at the end.
    """
    p = tables.codes.shape[1]
    rotated, room = _rotations(p), new_room(tables)
    for part, work in read_blocks(tables, laws):
        some = new_found(len(work.cells), p)
        _search_further(work, room, laws, prior, rotated, some, partial(watch, part))


def read_blocks(tables, laws):
    """Yield blocks of records: a slice, and the records, which the next block overwrites."""
    n, p = tables.codes.shape
    size = int(np.clip(_ROOM // p**2, 1, max(n, 1)))
    work = new_work(size, p, laws)
    for start in range(0, n, size):
        part = slice(start, min(start + size, n))
        read_records(tables, laws, start, part.stop - start, work)
        yield part, Work(*(array[: part.stop - start] for array in work))


def exchanged(work, room, laws, order):
    """Log-likelihoods of records in an order, and after every exchange of two places a < b.

    The second are -inf where the two values are equal, and where b is not above a.
    """
    p = len(order)
    prior = Prior(np.zeros(p + 1), np.zeros((p, p)), np.zeros(p), 0.0, 0.0, 0.0, 0.0)
    work.cells[:, ORDER], work.numbers[:, VALUE] = order, -np.inf
    look_around(work, np.arange(len(work.cells)), laws.precision, room, laws.links, prior)
    return work.numbers[:, VALUE], work.planes[:, AROUND]


def _rotations(p):
    """Orders of all tails, rotated by one.

    First every place gets the value of the next one, and the last that of the first; second every
    place gets the value of the one before.
    """
    place, start = np.arange(p), np.arange(p)[:, None]
    forth = np.where(place < p - 1, place + 1, start)
    back = np.where(place > start, place - 1, p - 1)
    return np.where(place < start, place, np.stack([forth, back]))


def _look(work, room, laws, prior, rotated, found):
    """Find the best exchange or rotation of every record.

    Returns its log-posterior, that of the record as it is, and which records look suspicious.
    """
    every, numbers = np.arange(len(found.gain)), work.numbers
    numbers[:, VALUE] = -np.inf
    look_around(work, every, laws.precision, room, laws.links, prior)
    _turn_records(work, every, laws.precision, room, laws.links, prior)
    first, second, turn, start = numbers[:, [FIRST, SECOND, TURN, START]].T.astype(int)
    found.permutations[:] = np.arange(found.permutations.shape[1])
    found.permutations[every, first] = second
    found.permutations[every, second] = first
    best, turned = numbers[:, NEXT].copy(), work.rows[every, TURNED + turn, start]
    turns = turned > best
    found.permutations[turns] = rotated[turn[turns], start[turns]]
    best[turns] = turned[turns]
    stays = numbers[:, STAYS].copy()
    found.gain[:] = found.odds[:] = best - stays
    return best, stays, (found.gain > prior.suspicious) | (numbers[:, DISTANCE] > prior.far)


def _search_further(work, room, laws, prior, rotated, found, watch=Seen):
    """Search suspicious records from all starts; writes `found`, or what else `watch` finds."""
    best, stays, _ = _look(work, room, laws, prior, rotated, found)
    p, q, going = rotated.shape[2], work.numbers[:, DISTANCE].copy(), np.arange(len(best))
    seen = watch(work.cells[:, WORD], stays)
    turned = work.rows[:, [TURNED, TURNED_BACK]]
    rows, turn, tail = np.nonzero(turned > -np.inf)
    seen.add(rows, rotated[turn, tail], turned[rows, turn, tail])
    for start in range(1, _N_STARTS + 1):
        _begin(start, work, going, laws, rotated)
        _climb(work, going, room, laws, prior, seen)
        value, order = work.numbers[going, VALUE], work.cells[going, ORDER]
        # The same rotation found by a placement has the smaller prior of any permutation.
        same = np.all(order == found.permutations[going], axis=1)
        better = (value > stays[going] + _EQUAL) & ((value > best[going] + _EQUAL) | same)
        those = going[better]
        best[those] = np.maximum(best[those], value[better])
        found.permutations[those] = order[better]
        q[those] = work.numbers[those, DISTANCE]
        # Nothing to hope for from other starts once few moves make it look like any other.
        n_moved = np.count_nonzero(found.permutations[going] != np.arange(p), axis=1)
        few = n_moved == 2 if start == 1 else 6 * n_moved <= p
        going = going[~((best[going] > stays[going]) & (q[going] < prior.usual) & few)]
    found.gain[:] = best - stays
    weighed = seen.weigh(found.permutations, best)
    if weighed is not None:
        found.odds[:], found.right[:] = weighed


def _climb(work, chosen, room, laws, prior, seen):
    """Exchange two cells while it helps; changes the order and its log-posterior of chosen records.

    The value is -inf or a log-posterior that counts instead of the order's own.
    """
    for _ in range(4 * work.cells.shape[2] + 1):
        look_around(work, chosen, laws.precision, room, laws.links, prior)
        orders, numbers = work.cells[chosen, ORDER], work.numbers[chosen]
        values = numbers[:, VALUE], work.planes[chosen, AROUND], numbers[:, NEXT]
        seen.add_around(chosen, orders, *values)
        better = numbers[:, NEXT] > numbers[:, VALUE] + _EQUAL
        chosen, numbers = chosen[better], numbers[better]
        if not len(chosen):
            break
        first, second = numbers[:, [FIRST, SECOND]].T.astype(int)
        work.cells[chosen, ORDER, first] = orders[better, second]
        work.cells[chosen, ORDER, second] = orders[better, first]
        work.numbers[chosen, VALUE] = numbers[:, NEXT]


def _begin(start, work, chosen, laws, rotated):
    """Write the order from which a search starts, and -inf or a value that counts for its own."""
    work.numbers[chosen, VALUE] = -np.inf
    if start == 2:
        turn, tail = work.numbers[chosen][:, [TURN, START]].T.astype(int)
        value = work.rows[chosen, TURNED + turn, tail]
        turns = value > -np.inf
        work.cells[chosen, ORDER] = np.arange(rotated.shape[2])
        work.cells[chosen[turns], ORDER] = rotated[turn, tail][turns]
        work.numbers[chosen, VALUE] = value
    elif start > 2:
        place_records(start - 3, work, chosen, laws.precision)


@njit(cache=True, nogil=True)
def look_around(work, chosen, precision, room, links, prior):
    """Find the best exchange of two cells next to the order of every chosen record.

    Writes the log-posterior after every exchange a < b that changes a value into the plane AROUND,
    -inf elsewhere, and that of the order where it is -inf so far.
    """
    for r in chosen:
        record, P = record_of(work, r), precision[work.version[r]]
        order, words, numbers = record.cells[ORDER], record.cells[WORD], record.numbers
        around, p, k = record.planes[AROUND], len(order), _count_moved(order)
        rebuild(order, record, P, room)
        likelihood = neighbours(order, record, P, room, links)
        if numbers[VALUE] == -np.inf:
            numbers[VALUE] = likelihood + prior.moves[k]
        best, first, second = -np.inf, 0, 0
        for a in range(p):
            i = order[a]
            for b in range(p):
                j = order[b]
                if b <= a or words[i] == words[j]:
                    around[a, b] = -np.inf
                    continue
                around[a, b] += prior.moves[k + (j != a) + (i != b) - (i != a) - (j != b)]
                if k == 0:
                    around[a, b] += prior.pairs[a, b]
                if around[a, b] > best:
                    best, first, second = around[a, b], a, b
        numbers[NEXT], numbers[FIRST], numbers[SECOND] = best, first, second
        numbers[DISTANCE] = 0.0
        for j in range(p):
            numbers[DISTANCE] += record.rows[PLACED, j] * record.rows[SLOPE, j]


@njit(cache=True, nogil=True)
def _turn_records(work, chosen, precision, room, links, prior):
    """Log-posterior of every rotation of a tail by one, and of records as they are, with outliers.

    A longer tail differs from the next shorter one by one exchange.
    """
    for r in chosen:
        record, P = record_of(work, r), precision[work.version[r]]
        order, numbers, p = record.cells[ORDER], record.numbers, record.cells.shape[1]
        best, best_turn, best_start = -np.inf, 0, 0
        for turn in range(2):
            for j in range(p):
                order[j] = j
            rebuild(order, record, P, room)
            if turn == 0:
                numbers[STAYS] = _with_outliers(
                    record, P if room is None else room[LEFT], prior.outlier
                )
            for start in range(p - 1, -1, -1):
                record.rows[TURNED + turn, start] = -np.inf
                if start == p - 1:
                    continue
                exchange(order, start, start + 1 if turn else p - 1, record, P, room)
                if prior.shifts[start] > -np.inf:
                    value = likelihood(order, record, links) + prior.shifts[start]
                    record.rows[TURNED + turn, start] = value
                    if value > best:
                        best, best_turn, best_start = value, turn, start
        numbers[TURN], numbers[START] = best_turn, best_start
        for j in range(p):
            order[j] = j


@register_jitable
def _with_outliers(record, Q, price):
    """Log-posterior of the record as it is, one or two of its cells perhaps being outliers.

    An outlying cell says nothing about the others. The second is sought given the best first one.
    """
    rows, cells, numbers = record.rows, record.cells, record.numbers
    p, nu, m = cells.shape[1], numbers[DEGREES], numbers[N_CELLS]
    value, q = numbers[VALUE], numbers[DISTANCE]
    base = value - log_density(q, nu, m)
    first, best, total = -1, -np.inf, 0.0
    pivot_first, slope_first, out_first = 1.0, 0.0, 0.0
    constant = math.lgamma(0.5 * (nu + 1)) - math.lgamma(0.5 * nu) - 0.5 * np.log(nu * np.pi)
    constant += price
    for n_out in range(1, 3):
        if n_out > m - 2:
            break
        less = math.lgamma(0.5 * (nu + m - n_out)) - math.lgamma(0.5 * (nu + m))
        less += 0.5 * n_out * np.log(nu * np.pi) + base
        following = first
        for j in range(p):
            if cells[HOLE, j] or not cells[USED, j] or j == first:
                continue
            share = Q[j, first] / pivot_first if first >= 0 else 0.0
            pivot = Q[j, j] - share * share * pivot_first
            slope = rows[SLOPE, j] - share * slope_first
            rest = q - slope * slope / pivot - slope_first * slope_first / pivot_first
            out = out_first + constant + _log_t1(rows[PLACED, j], nu, rows[VARIANCE, j])
            log_weight = log_density(rest, nu, m - n_out) + less + out - 0.5 * np.log(pivot)
            total += np.exp(log_weight - value if log_weight - value < 700.0 else 700.0)
            if log_weight > best:
                best, following = log_weight, j
        if following == first:
            break
        first, best = following, np.inf
        pivot_first, slope_first = Q[first, first], rows[SLOPE, first]
        out_first = constant + _log_t1(rows[PLACED, first], nu, rows[VARIANCE, first])
        out_first -= 0.5 * np.log(pivot_first)
    return value + np.log1p(total)


@register_jitable
def _log_t1(z, nu, s2):
    """Log-density of Student's t with scale² s2, up to a constant of ν."""
    return -0.5 * np.log(s2) - 0.5 * (nu + 1) * np.log1p(z * z / (nu * s2))


@register_jitable
def _count_moved(order):
    k = 0
    for j in range(len(order)):
        k += order[j] != j
    return k
