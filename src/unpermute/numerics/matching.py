r"""Kernels that match the values of a vector to the places of a fitted one.

For coefficients x let f = U x + b. Of the observed entries, the h with the smallest
:math:`|y_i - f_i|` are taken to be in place; the other values may go to any other place (of their
block), and the best way is to sort: the k-th smallest value goes to the place with the k-th
smallest f. Where values are missing, fewer values than places are left, and the best monotone
matching is found by dynamic programming.

All functions are numba kernels on one vector; `order_*` hold indices in ascending order.
"""

import math

import numpy as np
from numba import njit
from scipy.special import gammaln

from unpermute.numerics.active_set import FAST

__all__ = [
    "least_squares",
    "log_moves",
    "log_probability_of_small_residual",
    "match",
    "place",
    "predict",
    "prepare",
    "project",
    "sort_into",
    "sort_places",
]

# Up to here, counting the smaller keys of each beats a sort: it has no branches to be guessed.
_SHORT = 128


@njit(cache=True, nogil=True, error_model="numpy")
def sort_into(order, keys):
    """Write the indices in ascending order of `keys` into `order`; equal keys by index."""
    n = len(order)
    if n > _SHORT:
        if not _is_sorted(order, keys):
            order[:] = np.argsort(keys, kind="mergesort")
        return
    for a in range(n):
        order[a] = -1
    for i in range(n):
        key, rank = keys[i], 0
        for j in range(n):
            rank += keys[j] < key
        while order[rank] >= 0:
            rank += 1
        order[rank] = i


@njit(cache=True, nogil=True, error_model="numpy")
def _is_sorted(order, keys):
    for a in range(1, len(order)):
        i, j = order[a - 1], order[a]
        if keys[i] > keys[j] or (keys[i] == keys[j] and i > j):
            return False
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def prepare(y, blocks):
    """Shift that keeps the blocks apart when places are sorted, and the observed entries sorted."""
    n = len(y)
    largest, n_observed = 0.0, 0
    for i in range(n):
        if y[i] == y[i]:
            largest = max(largest, abs(y[i]))
            n_observed += 1
    shift, keys = np.empty(n), np.empty(n)
    order = np.arange(n)
    for i in range(n):
        shift[i] = 8.0 * largest * blocks[i]
        keys[i] = y[i] + shift[i] if y[i] == y[i] else np.inf
    sort_into(order, keys)
    return shift, order[:n_observed].copy(), largest


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def predict(U, b, x, f):
    """f = U x + b."""
    for i in range(U.shape[0]):
        total = b[i]
        for a in range(U.shape[1]):
            total += U[i, a] * x[a]
        f[i] = total


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def project(U, b, z, x):
    """x = Uᵀ (z − b), the least-squares fit to all places."""
    for a in range(U.shape[1]):
        x[a] = 0.0
    for i in range(U.shape[0]):
        for a in range(U.shape[1]):
            x[a] += U[i, a] * (z[i] - b[i])


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def least_squares(U, b, z, weights, places, n_places, x, gram, factor):
    """Weighted least squares of z − b on the rows `places[:n_places]` of U; writes x.

    A small ridge keeps it finite where the rows do not determine x.
    """
    rank = U.shape[1]
    for a in range(rank):
        x[a] = 0.0
        for c in range(a + 1):
            gram[a, c] = 0.0
    for t in range(n_places):
        i = places[t]
        for a in range(rank):
            weighted = weights[i] * U[i, a]
            x[a] += weighted * (z[i] - b[i])
            for c in range(a + 1):
                gram[a, c] += weighted * U[i, c]
    trace = 1e-300
    for a in range(rank):
        trace += gram[a, a]
    for a in range(rank):
        for c in range(a + 1):
            total = gram[a, c]
            for k in range(c):
                total -= factor[a, k] * factor[c, k]
            if a == c:
                factor[a, a] = math.sqrt(max(total, 1e-12 * trace))
            else:
                factor[a, c] = total / factor[c, c]
    for a in range(rank):
        for k in range(a):
            x[a] -= factor[a, k] * x[k]
        x[a] /= factor[a, a]
    for a in range(rank - 1, -1, -1):
        for k in range(a + 1, rank):
            x[a] -= factor[k, a] * x[k]
        x[a] /= factor[a, a]


@njit(cache=True, nogil=True, error_model="numpy")
def match(y, f, n_stay, shift, order_y, order_f, order_d, distance, stays, source, z):
    """Keep `n_stay` entries in place and sort the rest; return the sum of squares.

    Parameters
    ----------
    y, f : arrays of shape (n_features,)
        Observed (NaN: missing) and fitted vector.
    n_stay : int
        How many entries stay, those with the smallest |y − f|.
    shift : array of shape (n_features,)
        Added to f when places are sorted: keeps the blocks apart.
    order_y : array of shape (n_observed,)
        Observed entries, sorted by y + shift.
    order_f, order_d, distance : work arrays of shape (n_features,)
    stays, source, z : arrays of shape (n_features,), written
        Whether the entry stays; the entry whose value comes here (-1: none); that value (the
        fitted one where no value is left).
    """
    sort_places(y, f, shift, order_f, order_d, distance)
    return place(y, f, n_stay, shift, order_y, order_f, order_d, stays, source, z)


@njit(cache=True, nogil=True, error_model="numpy")
def sort_places(y, f, shift, order_f, order_d, distance):
    """Sort the entries by |y − f| into `order_d`, the places by f into `order_f`."""
    n = len(y)
    for i in range(n):
        distance[i] = abs(y[i] - f[i]) if y[i] == y[i] else np.inf
    sort_into(order_d, distance)
    for i in range(n):
        distance[i] = f[i] + shift[i]
    sort_into(order_f, distance)


@njit(cache=True, nogil=True, error_model="numpy")
def place(y, f, n_stay, shift, order_y, order_f, order_d, stays, source, z):
    """Do the second half of :func:`match`, for places that are sorted already."""
    n = len(y)
    for a in range(n):
        stays[order_d[a]] = a < n_stay
    if len(order_y) < n:
        return _match_with_missing(y, f, shift, order_y, order_f, stays, source, z)
    total = 0.0
    following = 0
    for a in range(n):
        i = order_f[a]
        j = i
        if not stays[i]:
            while stays[order_y[following]]:
                following += 1
            j = order_y[following]
            following += 1
        source[i] = j
        z[i] = y[j]
        total += (y[j] - f[i]) ** 2
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _match_with_missing(y, f, shift, order_y, order_f, stays, source, z):
    """The same when fewer values than places are left: some places get none."""
    n = len(y)
    total = 0.0
    places = np.empty(n, dtype=np.int64)
    values = np.empty(n, dtype=np.int64)
    n_places, n_values = 0, 0
    for i in order_f:
        if stays[i]:
            source[i] = i
            z[i] = y[i]
            total += (y[i] - f[i]) ** 2
        else:
            places[n_places] = i
            n_places += 1
            source[i] = -1
            z[i] = f[i]
    for j in order_y:
        if not stays[j]:
            values[n_values] = j
            n_values += 1
    spare = n_places - n_values
    # cost[v, s]: the first v values are placed and s places were skipped.
    cost = np.full((n_values + 1, spare + 1), np.inf)
    cost[0, 0] = 0.0
    for v in range(n_values + 1):
        for s in range(spare + 1):
            best = cost[v, s]
            if s > 0:
                best = min(best, cost[v, s - 1])
            if v > 0:
                i, j = places[v + s - 1], values[v - 1]
                step = (y[j] - f[i]) ** 2 if shift[i] == shift[j] else np.inf
                best = min(best, cost[v - 1, s] + step)
            cost[v, s] = best
    total += cost[n_values, spare]
    v, s = n_values, spare
    while v > 0:
        if s > 0 and cost[v, s] == cost[v, s - 1]:
            s -= 1
            continue
        i, j = places[v + s - 1], values[v - 1]
        source[i] = j
        z[i] = y[j]
        v -= 1
    return total


def log_moves(blocks):
    """Logarithm of the number of ways to move k entries within their blocks, k = 0 … n.

    C(n, k) · k! with one block; with several, each moved entry counts for its share of the
    logarithm of the permutations of its block.
    """
    n = len(blocks)
    sizes = np.bincount(blocks)
    per_entry = np.sum(gammaln(sizes + 1.0)) / n
    k = np.arange(n + 1)
    choose = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    return choose + np.minimum(gammaln(k + 1.0), k * per_entry)


@njit(cache=True, nogil=True, error_model="numpy")
def log_probability_of_small_residual(ratio, degrees):
    """log P(χ²_d ≤ d·ratio): the chance that a wrong permutation fits so well.

    Series of the incomplete gamma function; 0 from ratio = 1 on.
    """
    if ratio >= 1.0:
        return 0.0
    if ratio <= 0.0:
        return -np.inf
    a, z = 0.5 * degrees, 0.5 * degrees * ratio
    term = 1.0 / a
    total = term
    for k in range(1, 500):
        term *= z / (a + k)
        total += term
        if term < 1e-14 * total:
            break
    return min(a * math.log(z) - z - math.lgamma(a) + math.log(total), 0.0)
