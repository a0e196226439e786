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

from unpermute.numerics.parallel import map_blocks

__all__ = ["match_values"]


def match_values(Y, fitted, *, noise_scale=None, n_jobs=None):
    """Match the entries of every vector of `Y` to `fitted`, moving as few as the noise allows.

    Parameters
    ----------
    Y, fitted : ndarray of shape (n_vectors, n_features)
        Observed and fitted vectors. A NaN in `Y` stays where it is.
    noise_scale : float or None
        Standard deviation of the noise of an entry. The misfit of the sorted values is used
        where it is larger: then the fitted vector is not better than that.
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
    permutations = np.empty(Y.shape, dtype=np.int64)
    cost = np.empty(len(Y))
    noise = 0.0 if noise_scale is None else float(noise_scale)

    def run(start, stop):
        _match(Y[start:stop], fitted[start:stop], noise, permutations[start:stop], cost[start:stop])

    map_blocks(run, len(Y), block=256, stage="match", n_jobs=n_jobs)
    return permutations, cost


@njit(cache=True, nogil=True)
def _match(Y, fitted, noise, permutations, cost):
    """Match every row. Writes into the last two arguments."""
    n_features = Y.shape[1]
    prior = np.log(max(n_features, 2))
    for j in range(len(Y)):
        y, f, permutation = Y[j], fitted[j], permutations[j]
        observed = np.flatnonzero(~np.isnan(y))
        sigma = max(noise, _sorted_misfit(y[observed], f[observed]), 1e-12 * np.abs(f).max())
        for i in range(n_features):
            permutation[i] = i
        if len(observed) == 0 or sigma == 0.0:
            cost[j] = 0.0
            continue
        far = np.abs(y[observed] - f[observed]) > sigma * np.sqrt(2 * prior)
        moved = observed[far]
        by_fit, by_value = moved[np.argsort(f[moved])], moved[np.argsort(y[moved])]
        for a in range(len(moved)):
            permutation[by_fit[a]] = by_value[a]
        _undo_unpaid_cycles(y, f, permutation, moved, sigma, prior)
        total = 0.0
        for i in observed:
            total += (y[permutation[i]] - f[i]) ** 2
        cost[j] = np.sqrt(total / len(observed))


@njit(cache=True, nogil=True)
def _sorted_misfit(y, f):
    """Root mean square difference of the sorted values: what no permutation can improve."""
    if len(y) == 0:
        return 0.0
    difference = y[np.argsort(y)] - f[np.argsort(f)]
    return np.sqrt(np.mean(difference * difference))


@njit(cache=True, nogil=True)
def _undo_unpaid_cycles(y, f, permutation, moved, sigma, prior):
    """Put back every cycle whose moves do not earn their prior. Changes `permutation`."""
    seen = np.zeros(len(permutation), dtype=np.bool_)
    for start in moved:
        if seen[start]:
            continue
        gain, i = 0.0, int(start)
        while not seen[i]:
            seen[i] = True
            stays, moves = (y[i] - f[i]) / sigma, (y[permutation[i]] - f[i]) / sigma
            gain += 0.5 * (stays * stays - moves * moves) - prior
            i = int(permutation[i])
        if gain <= 0.0:
            i = int(start)
            while permutation[i] != i:
                following = int(permutation[i])
                permutation[i] = i
                i = following
