"""Random starts of :mod:`unpermute.numerics.search`, a batch at a time.

Systems of a few equations keep a processor waiting when they are solved one by one. Here a batch is
solved in step: one column per start, so that the inner loops are long however small the rank.
"""

import math

import numpy as np
from numba import njit

from unpermute.numerics.active_set import FAST
from unpermute.numerics.matching import project, sort_into

__all__ = ["random_permutation_start", "sample_starts"]


@njit(cache=True, nogil=True, error_model="numpy")
def sample_starts(y, U, b, n_stay, probability, starts, state, work):
    """Least squares on weighted samples of entries, then two concentration steps; writes starts."""
    order_d, distance = work[1], work[7]
    n, rank = U.shape
    kept, F = np.empty((n, len(starts))), np.empty((n, len(starts)))
    X = np.empty((rank, len(starts)))
    for s in range(len(starts)):
        for i in range(n):
            distance[i] = np.inf
            if probability[i] > 0.0:
                # The smallest exponential keys are a weighted sample without replacement.
                distance[i] = -math.log(_uniform(state)) / probability[i]
        _keep_smallest(kept, s, min(rank + 2, n_stay), order_d, distance)
    _least_squares_all(U, b, y, kept, X)
    for _ in range(2):
        _predict_all(U, b, X, F)
        for s in range(len(starts)):
            for i in range(n):
                distance[i] = abs(y[i] - F[i, s]) if y[i] == y[i] else np.inf
            _keep_smallest(kept, s, n_stay, order_d, distance)
        _least_squares_all(U, b, y, kept, X)
    for s in range(len(starts)):
        for a in range(rank):
            starts[s, a] = X[a, s]


@njit(cache=True, nogil=True, error_model="numpy")
def _keep_smallest(kept, s, n_kept, order, keys):
    """Column s of `kept` is 1 where the keys are smallest, else 0."""
    sort_into(order, keys)
    for a in range(len(order)):
        kept[order[a], s] = 1.0 if a < n_kept else 0.0


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _predict_all(U, b, X, F):
    """F = U X + b, one column per vector of coefficients."""
    for i in range(U.shape[0]):
        for s in range(X.shape[1]):
            F[i, s] = b[i]
        for a in range(U.shape[1]):
            for s in range(X.shape[1]):
                F[i, s] += U[i, a] * X[a, s]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _least_squares_all(U, b, z, kept, X):
    """Least squares of z − b on the rows of U where column s of `kept` is 1, for every s.

    Writes X, one column per system. Elimination on the normal equations; a small ridge keeps X
    finite where the rows do not determine it.
    """
    n, rank = U.shape
    n_systems = kept.shape[1]
    # The last column is the right-hand side.
    gram = np.zeros((rank, rank + 1, n_systems))
    floor, multiple = np.full(n_systems, 1e-300), np.empty(n_systems)
    inverse = np.empty((rank, n_systems))
    for a in range(rank):
        for c in range(a, rank + 1):
            for i in range(n):
                if z[i] == z[i]:
                    product = U[i, a] * (U[i, c] if c < rank else z[i] - b[i])
                    for s in range(n_systems):
                        gram[a, c, s] += product * kept[i, s]
        for s in range(n_systems):
            floor[s] += 1e-12 * gram[a, a, s]
    for c in range(rank):
        for s in range(n_systems):
            inverse[c, s] = 1.0 / max(gram[c, c, s], floor[s])
        for a in range(c + 1, rank):
            for s in range(n_systems):
                multiple[s] = gram[c, a, s] * inverse[c, s]
            for k in range(a, rank + 1):
                for s in range(n_systems):
                    gram[a, k, s] -= multiple[s] * gram[c, k, s]
    for c in range(rank - 1, -1, -1):
        for s in range(n_systems):
            X[c, s] = gram[c, rank, s]
        for a in range(c + 1, rank):
            for s in range(n_systems):
                X[c, s] -= gram[c, a, s] * X[a, s]
        for s in range(n_systems):
            X[c, s] *= inverse[c, s]


@njit(cache=True, nogil=True, error_model="numpy")
def random_permutation_start(y, U, b, order_y, x, state, work):
    """Fit to a random permutation of the values."""
    _, _, order_k, _, _, z, _, distance, _, _, _ = work
    n = len(y)
    for i in range(n):
        distance[i] = _uniform(state)
    sort_into(order_k, distance)
    for i in range(n):
        z[i] = 0.0
    for a in range(len(order_y)):
        z[order_k[a]] = y[order_y[a]]
    project(U, b, z, x)


@njit(cache=True, nogil=True, error_model="numpy")
def _uniform(state):
    """Next number in (0, 1) of the splitmix64 sequence; changes `state`."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    v = state[0]
    v = (v ^ (v >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    v = (v ^ (v >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    v = v ^ (v >> np.uint64(31))
    return (np.float64(v >> np.uint64(11)) + 0.5) / 9007199254740992.0
