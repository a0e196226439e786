r"""Entropic matching: the doubly stochastic matrix nearest to a preference, in the log domain.

.. math:: \min_{P} \; \langle C, P \rangle + \epsilon \sum_{ij} P_{ij} \log P_{ij}
    \quad \text{s.t. } P 1 = 1, \; P^T 1 = 1, \; P \ge 0 .

The solution is :math:`P_{ij} = \exp((f_i + g_j - C_{ij}) / \epsilon)`; f and g are found by
updating them in turn (Sinkhorn). In the log domain no :math:`\epsilon` is too small.

References
----------
Cuturi, "Sinkhorn distances: lightspeed computation of optimal transport", NeurIPS 26, 2013,
doi:10.48550/arXiv.1306.0895.
Peyré & Cuturi, "Computational optimal transport", Foundations and Trends in Machine Learning 11,
2019, doi:10.1561/2200000073 (section 4.4, the log domain).
"""

import numpy as np
from numba import njit

__all__ = ["sinkhorn"]


def sinkhorn(costs, epsilon, potentials, *, tol=1e-3, max_iter=200):
    """Solve many matching problems of the same size, from the potentials of similar ones.

    Parameters
    ----------
    costs : ndarray of shape (n_problems, size, size)
        The costs C of each problem.
    epsilon : float
        Weight of the entropy; towards zero, P becomes a permutation.
    potentials : ndarray of shape (n_problems, size)
        The potentials g to start from; updated in place. Zeros will do.
    tol : float, default=1e-3
        Largest error of a column sum. Row sums are exact.
    max_iter : int, default=200
        Most rounds.

    Returns
    -------
    plans : ndarray of shape (n_problems, size, size)
        The matrices P.
    errors : ndarray of shape (n_problems,)
        Largest error of a column sum.

    Examples
    --------
    >>> import numpy as np
    >>> from unpermute.numerics.sinkhorn import sinkhorn
    >>> costs = np.array([[[0.0, 1.0], [1.0, 0.0]]])
    >>> plans, errors = sinkhorn(costs, 0.1, np.zeros((1, 2)))
    >>> plans.round(3)
    array([[[1., 0.], [0., 1.]]])
    """
    plans = np.empty_like(costs)
    errors = np.empty(len(costs))
    _solve(costs, float(epsilon), potentials, plans, errors, float(tol), max_iter)
    return plans, errors


@njit(cache=True, nogil=True)
def _solve(costs, epsilon, potentials, plans, errors, tol, max_iter):
    """Write the solutions into `plans` and `errors`, the potentials g into `potentials`."""
    size = costs.shape[1]
    columns = np.empty(size)
    for k in range(len(costs)):
        cost, g, plan = costs[k], potentials[k], plans[k]
        for n_iter in range(max_iter):
            # f, which is not kept, makes every row of the plan sum to one ...
            columns[:] = 0.0
            for i in range(size):
                _normalise_row(cost[i], g, epsilon, plan[i])
                for j in range(size):
                    columns[j] += plan[i, j]
            errors[k] = np.abs(columns - 1.0).max()
            if errors[k] <= tol or n_iter == max_iter - 1:
                break
            # ... and g every column.
            for j in range(size):
                g[j] -= epsilon * np.log(max(columns[j], 1e-300))


@njit(cache=True, nogil=True)
def _normalise_row(cost, g, epsilon, row):
    """Write exp((g − cost) / ε), divided by its sum, into `row`."""
    least = np.inf
    for j in range(len(g)):
        least = min(least, cost[j] - g[j])
    total = 0.0
    for j in range(len(g)):
        row[j] = np.exp((least + g[j] - cost[j]) / epsilon)
        total += row[j]
    for j in range(len(g)):
        row[j] /= total
