r"""How sure the answer about a record is: all orders seen in its search, by their posterior.

Seen are the orders that the search went through, every exchange next to each of them, and the
rotated tails. Each counts once, however often it was seen. An order that puts the same values
everywhere as the answer does speaks for it, every other one against it. The way to the answer
matters as much as its surroundings: of columns that are alike the search takes the likeliest, and
the others that would do as well are next to an order before that.

Orders are compared by 64-bit sums of random keys, which an exchange changes by one product. Two
different orders of a record have the same sum with a probability of about 2⁻⁵⁹.
"""

import numpy as np

__all__ = ["Seen"]

# Orders with less weight, relative to the best seen so far, are not kept: all of them together
# hardly count.
_LOG_NEGLIGIBLE = np.log(1e-6)
# Orders of one block that are kept at once, which bounds the memory that wide tables need; and of a
# record for p² cells, whatever stands beside it.
_MOST_KEPT, _OF_RECORD = 200_000, 2


class Seen:
    """Orders seen of some records.

    Parameters
    ----------
    words : ndarray of int of shape (n, p)
        Words of the records, in which equal values are equal.
    stays : ndarray of shape (n,)
        Log-posterior of the records as they are.
    """

    def __init__(self, words, stays):
        n, p = words.shape
        rng = np.random.default_rng(0)
        of_cells, self.of_places = rng.integers(2**64, size=(2, p), dtype=np.uint64)
        self.of_records = rng.integers(2**64, size=n, dtype=np.uint64)
        # Equal values have the key of the first of them.
        first = np.argmax(words[:, :, None] == words[:, None, :], axis=2)
        self.keys = np.tile(of_cells, (n, 1)), of_cells[first]
        self.stays, self.top = stays, stays.copy()
        self.parts, self.n_kept = [], 0

    def add(self, rows, orders, log_posteriors):
        """Add orders of some records, which may occur more than once."""
        np.maximum.at(self.top, rows, log_posteriors)
        kept = np.flatnonzero(log_posteriors > self._limits()[rows])
        rows = rows[kept]
        self._keep(rows, self._sums(rows, orders[kept]), log_posteriors[kept])

    def add_around(self, rows, orders, log_posteriors, around, best):
        """Add one order of each of some records, and the exchanges of places a < b next to it.

        Parameters
        ----------
        rows : ndarray of int of shape (m,)
            The records, each once.
        orders : ndarray of int of shape (m, p)
            Their orders.
        log_posteriors : ndarray of shape (m,)
            Of the orders.
        around : ndarray of shape (m, p, p)
            Log-posteriors of the exchanges.
        best : ndarray of shape (m,)
            The largest of these.
        """
        sums, top = self._sums(rows, orders), np.maximum(self.top[rows], log_posteriors)
        kept = np.flatnonzero(log_posteriors > top + _LOG_NEGLIGIBLE)
        self._keep(rows[kept], [total[kept] for total in sums], log_posteriors[kept])
        self.top[rows] = top = np.maximum(top, best)
        which, a, b = np.nonzero(around > (top + _LOG_NEGLIGIBLE)[:, None, None])
        sums = self._exchanged(which, rows, orders, a, b, sums)
        self._keep(rows[which], sums, around[which, a, b])

    def weigh(self, orders, best):
        """Return the log-odds of a change, and the probability that the answer is right.

        The answer is the best order but the identity, or the identity where that is likelier.
        """
        every, moves = np.arange(len(best)), best > self.stays
        self.add(every, orders, best)
        rows, order_sums, value_sums, log_posteriors = self._likeliest()
        identity = np.tile(np.arange(orders.shape[1]), (len(orders), 1))
        answer = self._sums(every, np.where(moves[:, None], orders, identity))[1]
        weights = np.exp(log_posteriors - self.top[rows])
        weights[order_sums == self._sums(every, identity)[0][rows]] = 0.0
        changed = np.bincount(rows, weights, minlength=len(best))
        same = np.bincount(rows, weights * (value_sums == answer[rows]), minlength=len(best))
        left = np.exp(self.stays - self.top)
        odds = np.log(np.maximum(changed, 1e-300)) + self.top - self.stays
        return odds, (same + ~moves * left) / (changed + left)

    def _limits(self):
        """Log-posteriors below which orders of every record hardly count."""
        return self.top + _LOG_NEGLIGIBLE

    def _sums(self, rows, orders):
        """Sums of keys by cells, and by values."""
        return [np.sum(keys[rows[:, None], orders] * self.of_places, axis=1) for keys in self.keys]

    def _exchanged(self, which, rows, orders, a, b, sums):
        """Sums after exchanges of places a and b of the orders `which`."""
        own, places = rows[which], self.of_places[a] - self.of_places[b]
        cells = orders[which, a], orders[which, b]
        return [
            total[which] + (keys[own, cells[1]] - keys[own, cells[0]]) * places
            for total, keys in zip(sums, self.keys, strict=True)
        ]

    def _keep(self, rows, sums, log_posteriors):
        self.parts.append((rows, *sums, log_posteriors))
        self.n_kept += len(rows)
        if self.n_kept > _MOST_KEPT:
            self.parts = [tuple(self._likeliest())]
            self.n_kept = len(self.parts[0][0])

    def _likeliest(self):
        """The likeliest orders of every record, as many as it may have."""
        parts = self._distinct()
        by_record = np.lexsort((-parts[-1], parts[0]))
        rows = parts[0][by_record]
        rank = np.arange(len(rows)) - np.searchsorted(rows, rows)
        kept = by_record[rank < _OF_RECORD * len(self.of_places) ** 2]
        return [array[kept] for array in parts]

    def _distinct(self):
        """Every order once, with its largest log-posterior."""
        parts = [np.concatenate(arrays) for arrays in zip(*self.parts, strict=True)]
        rows, order_sums, _, log_posteriors = parts
        keys = order_sums + self.of_records[rows]
        by_order = np.lexsort((-log_posteriors, keys))
        first = np.append(True, np.diff(keys[by_order]) != 0)[: len(keys)]
        return [array[by_order[first]] for array in parts]
