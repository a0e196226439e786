r"""Parts of a repair that are sure although the whole of it is not.

A permutation consists of cycles, each of which moves values among its own places only. If a record
was damaged twice, one cycle of the best repair may be certain and another one a guess. Then the
certain ones are worth carrying out alone. No other part is: the cells that a part moves can all be
right only if it consists of cycles of the true repair, since the value that is wanted in one place
has to leave another one, and something has to come there.

How sure a part is follows from the orders seen in the search of the record
(:mod:`unpermute.records._weigh`): the share of those, by posterior, that put the same values into
the places of the part. Parts are nested: the surest cycle, the two surest, and so on. The last one
is all of the proposal. That, too, may be surer than it seems: a rival that moves the same values in
the same way, and others as well, does not speak against it.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import logit

from unpermute.records._evidence import CLEAREST
from unpermute.records._model import search_again
from unpermute.records._weigh import Seen

__all__ = ["Parts", "cycles_of", "find_parts", "swap_limits"]

# Cycles that are told apart; a record that seems to have more has the others as one.
_MOST_CYCLES = 8
# Shares are no closer to 0 and 1 than this.
_LEAST_SHARE = 1e-6


@dataclass(frozen=True)
class Parts:
    """Parts of the proposals of some records, the larger of a record's parts later.

    Attributes
    ----------
    rows : ndarray of int of shape (m,)
        The record of every part, ascending.
    permutations : ndarray of int of shape (m, p)
        What the part moves.
    clear : ndarray of shape (m,)
        Log-odds that all of the part is right if the record is damaged, by the model alone.
    """

    rows: np.ndarray
    permutations: np.ndarray
    clear: np.ndarray

    def joined(self, other):
        """Return these and others, in the order of their records."""
        arrays = [
            np.concatenate(pair) for pair in zip(self._arrays(), other._arrays(), strict=True)
        ]
        order = np.argsort(arrays[0], kind="stable")
        return Parts(*(array[order] for array in arrays))

    def _arrays(self):
        return self.rows, self.permutations, self.clear


def cycles_of(permutations):
    """Return the number of the cycle of every place, from 0; -1 where nothing moves."""
    n, p = permutations.shape
    first, step = np.tile(np.arange(p), (n, 1)), permutations.astype(np.int64)
    # The least place of a cycle is within 1, 2, 4 … steps.
    for _ in range(max(int(np.ceil(np.log2(p))), 1) if p > 1 else 0):
        first = np.minimum(first, np.take_along_axis(first, step, axis=1))
        step = np.take_along_axis(step, step, axis=1)
    moved = permutations != np.arange(p)
    begins = moved & (first == np.arange(p))
    numbers = np.cumsum(begins, axis=1) - 1
    return np.where(moved, np.take_along_axis(numbers, first, axis=1), -1)


def swap_limits(limits, permutations):
    """Return the least limit of the swaps that permutations consist of; infinite without any.

    `limits` holds a limit for every two columns a < b.
    """
    p = permutations.shape[1]
    places, there = np.arange(p), permutations.astype(np.int64)
    swapped = (there > places) & (np.take_along_axis(there, there, axis=1) == places)
    return np.where(swapped, limits[places, there], np.inf).min(axis=1, initial=np.inf)


def find_parts(judge, placed, rows, permutations):
    """Return the parts of proposals.

    Parameters
    ----------
    judge : Judge
        What the records were judged with.
    placed : Placed
        The records.
    rows : ndarray of int of shape (n,)
        What to call them; ascending.
    permutations : ndarray of int of shape (n, p)
        Their proposals.

    Returns
    -------
    Parts
    """
    p = permutations.shape[1]
    cycles = np.minimum(cycles_of(permutations), _MOST_CYCLES - 1)
    n_cycles = cycles.max(axis=1, initial=-1) + 1
    permutations = permutations.astype(np.int64)
    ranks, shares = _nested(judge, placed, permutations, cycles)
    # Part k holds the k + 1 surest cycles.
    of, k = np.nonzero(np.arange(_MOST_CYCLES) < n_cycles[:, None])
    moved = (cycles[of] >= 0) & (np.take_along_axis(ranks[of], cycles[of], axis=1) <= k[:, None])
    parts = np.where(moved, permutations[of], np.arange(p)).astype(np.int16)
    share = np.clip(shares[of, k], _LEAST_SHARE, 1 - _LEAST_SHARE)
    return Parts(rows[of], parts, np.clip(logit(share), -CLEAREST, CLEAREST))


def _nested(judge, placed, permutations, cycles):
    """Rank of every cycle of every record, the surest first, and the shares of the nested parts."""
    n = len(cycles)
    ranks, shares = np.empty((n, _MOST_CYCLES), dtype=np.int64), np.empty((n, _MOST_CYCLES))

    def watch(part, words, stays):
        values = np.take_along_axis(words, permutations[part], axis=1)
        return _Broken(words, stays, values, cycles[part], (ranks[part], shares[part]))

    search_again(judge.model, placed, watch, n_jobs=judge.n_jobs)
    return ranks, shares


class _Broken(Seen):
    """Orders seen of some records, and which cycles of an answer each of them contradicts.

    In the place of a sum by values stands a number: bit k is set if values of cycle k differ.
    Writes ranks and shares into `results`.
    """

    def __init__(self, words, stays, values, cycles, results):
        super().__init__(words, stays)
        self.words, self.values, self.cycles, self.results = words, values, cycles, results

    def weigh(self, orders, best):
        """Write the ranks and shares."""
        every = np.arange(len(best))
        self.add(every, orders, best)
        rows, order_sums, broken, log_posteriors = self._likeliest()
        weights = np.exp(log_posteriors - self.top[rows])
        identity = np.tile(np.arange(orders.shape[1]), (len(orders), 1))
        weights[order_sums == self._order_sums(every, identity)[rows]] = 0.0
        total = np.maximum(np.bincount(rows, weights, minlength=len(best)), 1e-300)

        def share(kept):
            return np.bincount(rows, weights * kept, minlength=len(best)) / total

        bits = np.uint64(1) << np.arange(_MOST_CYCLES, dtype=np.uint64)
        alone = np.stack([share((broken & bit) == 0) for bit in bits], axis=1)
        # Cycles that a record does not have come last.
        alone[np.arange(_MOST_CYCLES) > self.cycles.max(axis=1)[:, None]] = -1.0
        surest = np.argsort(-alone, axis=1, kind="stable")
        ranks, shares = self.results
        ranks[:] = np.argsort(surest, axis=1)
        together = np.bitwise_or.accumulate(bits[surest], axis=1)
        for k in range(_MOST_CYCLES):
            shares[:, k] = share((broken & together[rows, k]) == 0)

    def _sums(self, rows, orders):
        differ = np.take_along_axis(self.words[rows], orders, axis=1) != self.values[rows]
        return [self._order_sums(rows, orders), self._bits(rows, differ)]

    def _order_sums(self, rows, orders):
        return super()._sums(rows, orders)[0]

    def _exchanged(self, which, rows, orders, a, b, sums):
        order_sums = super()._exchanged(which, rows, orders, a, b, sums)[0]
        own, each = rows[which], np.arange(len(which))
        differ = np.take_along_axis(self.words[rows], orders, axis=1) != self.values[rows]
        differ = differ[which]
        words = self.words[own, orders[which, a]], self.words[own, orders[which, b]]
        differ[each, a] = words[1] != self.values[own, a]
        differ[each, b] = words[0] != self.values[own, b]
        return [order_sums, self._bits(own, differ)]

    def _bits(self, rows, differ):
        bits, cycles = np.zeros(len(rows), dtype=np.uint64), self.cycles[rows]
        for k in range(self.cycles.max() + 1):
            of_cycle = np.any(differ & (cycles == k), axis=1)
            bits |= of_cycle.astype(np.uint64) << np.uint64(k)
        return bits
