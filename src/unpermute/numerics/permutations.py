r"""Permutations, and the matching of observed values to a fitted vector.

Convention: ``np.take_along_axis(Y, permutations, axis=1)`` is every vector put back in order, that
is, entry i of the repaired vector is entry ``permutations[i]`` of the observed one.

For a fitted vector f and observed values y, the permutation wanted is

.. math:: \min_\pi \sum_i \frac{(y_{\pi(i)} - f_i)^2}{2\sigma^2} + \kappa\,\#\{i : \pi(i) \ne i\},
          \qquad \kappa = \log M .

Without the second term the best :math:`\pi` is a sort, which moves many entries that never moved:
values that are equal within the noise change places freely. κ is the prior for staying in place:
there are about :math:`M^k` ways to move k entries, so each has to earn log M.
"""

import numpy as np
from numba import njit

from unpermute.numerics.matching import match, prepare
from unpermute.numerics.parallel import map_blocks

__all__ = ["has_no_order", "match_values"]


def match_values(Y, fitted, *, noise_scale=None, blocks=None, n_jobs=None):
    """Match the entries of every vector of `Y` to `fitted`, moving as few as the noise allows.

    Parameters
    ----------
    Y, fitted : ndarray of shape (n_vectors, n_features)
        Observed and fitted vectors. A NaN in `Y` goes to a place that no value fits.
    noise_scale : float, ndarray of shape (n_vectors,) or None
        Standard deviation of the noise of an entry, the same for all vectors or not. The misfit
        of the sorted values is used where it is larger: then the fitted vector is not better.
    blocks : ndarray of int of shape (n_features,) or None
        Entries only move within their block.
    n_jobs : int or None
        Threads; the result does not depend on it.

    Returns
    -------
    permutations : ndarray of shape (n_vectors, n_features)
    cost : ndarray of shape (n_vectors,)
        Root mean square difference between the moved values and the fitted ones.

    Examples
    --------
    >>> import numpy as np
    >>> from unpermute.numerics.permutations import match_values
    >>> fitted = np.array([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])
    >>> Y = np.array([[1.01, 5.0, 2.99, 4.0, 2.01, 6.0]])
    >>> match_values(Y, fitted, noise_scale=0.01)[0]
    array([[0, 4, 2, 3, 1, 5]])
    """
    # In C order: numba would compile everything again for another layout.
    Y, fitted = np.ascontiguousarray(Y), np.ascontiguousarray(fitted)
    permutations = np.empty(Y.shape, dtype=np.int64)
    cost = np.empty(len(Y))
    noise = np.full(len(Y), 0.0 if noise_scale is None else noise_scale, dtype=float)
    blocks = np.zeros(Y.shape[1], dtype=np.int64) if blocks is None else blocks

    def run(start, stop):
        part = slice(start, stop)
        _match(Y[part], fitted[part], noise[part], blocks, permutations[part], cost[part])

    map_blocks(run, len(Y), block=256, stage="match", n_jobs=n_jobs)
    return permutations, cost


def has_no_order(X):
    """Vectors whose entries are all equal (or missing): no permutation changes them."""
    smallest = np.where(np.isnan(X), np.inf, X).min(axis=1)
    largest = np.where(np.isnan(X), -np.inf, X).max(axis=1)
    return largest <= smallest


@njit(cache=True, nogil=True, error_model="numpy")
def _match(Y, fitted, noise, blocks, permutations, cost):
    """Match every row; writes into the last two arguments."""
    for j in range(len(Y)):
        cost[j] = _match_vector(Y[j], fitted[j], noise[j], blocks, permutations[j])


@njit(cache=True, nogil=True, error_model="numpy")
def _match_vector(y, f, noise, blocks, permutation):
    """Match one vector; writes its permutation, returns the cost."""
    n = len(y)
    shift, order_y, largest = prepare(y, blocks)
    n_observed = len(order_y)
    order_f, order_d, distance = np.arange(n), np.arange(n), np.empty(n)
    stays, z = np.zeros(n, dtype=np.bool_), np.empty(n)
    total = match(y, f, 0, shift, order_y, order_f, order_d, distance, stays, permutation, z)
    sigma = max(noise, np.sqrt(total / max(n_observed, 1)), 1e-12 * largest)
    for i in range(n):
        permutation[i] = i
    if n_observed == 0 or sigma == 0.0:
        return 0.0
    prior = np.log(max(n, 2))
    n_stay = 0
    for i in order_y:
        n_stay += abs(y[i] - f[i]) <= sigma * np.sqrt(2 * prior)
    match(y, f, n_stay, shift, order_y, order_f, order_d, distance, stays, permutation, z)
    _place_missing(y, blocks, permutation)
    _undo_unpaid_cycles(y, f, permutation, sigma, prior)
    total = 0.0
    for i in range(n):
        difference = y[permutation[i]] - f[i]
        if difference == difference:
            total += difference * difference
    return np.sqrt(total / n_observed)


@njit(cache=True, nogil=True, error_model="numpy")
def _place_missing(y, blocks, permutation):
    """Give the places without a value (-1) the missing entries, their own where possible."""
    n = len(y)
    for i in range(n):
        if permutation[i] < 0 and y[i] != y[i]:
            permutation[i] = i
    used = np.zeros(n, dtype=np.bool_)
    for i in range(n):
        if permutation[i] >= 0:
            used[permutation[i]] = True
    for i in range(n):
        if permutation[i] < 0:
            for j in range(n):
                if not used[j] and blocks[j] == blocks[i]:
                    permutation[i] = j
                    used[j] = True
                    break


@njit(cache=True, nogil=True, error_model="numpy")
def _undo_unpaid_cycles(y, f, permutation, sigma, prior):
    """Put back every cycle whose moves do not earn their prior. Changes `permutation`."""
    n = len(y)
    seen = np.zeros(n, dtype=np.bool_)
    for start in range(n):
        if seen[start] or permutation[start] == start:
            continue
        gain, i = 0.0, start
        while not seen[i]:
            seen[i] = True
            gain += _gain(y, f, i, permutation[i], sigma) - prior
            i = permutation[i]
        if gain <= 0.0:
            i = start
            while permutation[i] != i:
                following = permutation[i]
                permutation[i] = i
                i = following


@njit(cache=True, nogil=True, error_model="numpy")
def _gain(y, f, i, j, sigma):
    """Gain of having value j at place i instead of value i; missing values cost nothing."""
    stays, moves = (y[i] - f[i]) / sigma, (y[j] - f[i]) / sigma
    gain = 0.0
    if stays == stays:
        gain += 0.5 * stays * stays
    if moves == moves:
        gain -= 0.5 * moves * moves
    return gain
