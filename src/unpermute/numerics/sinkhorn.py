r"""Entropic matching: the doubly stochastic matrix nearest to a preference, in the log domain.

.. math:: \min_{P} \; \langle C, P \rangle + \epsilon \sum_{ij} P_{ij} \log P_{ij}
    \quad \text{s.t. } P 1 = 1, \; P^T 1 = 1, \; P \ge 0 .

The solution is :math:`P_{ij} = \exp((f_i + g_j - C_{ij}) / \epsilon)`; f and g are found by
updating them in turn (Sinkhorn). In the log domain no :math:`\epsilon` is too small; in between,
as long as they change little, the exponentials need not be taken anew (section 4.4 there).

References
----------
Cuturi, "Sinkhorn distances: lightspeed computation of optimal transport", NeurIPS 26, 2013,
doi:10.48550/arXiv.1306.0895.
Peyré & Cuturi, "Computational optimal transport", Foundations and Trends in Machine Learning 11,
2019, doi:10.1561/2200000073 (section 4.4, the log domain).
"""

import numpy as np
from numba import njit

from unpermute.numerics.active_set import FAST

__all__ = ["sinkhorn"]

# Beyond this factor the potentials are put into the kernel anew: what was too small for it may
# count by then. Below the exponent, products with such factors would leave the range of floats.
_MAX_SCALE, _LEAST_EXPONENT = 1e8, -680.0


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
        Maximum number of rounds.

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


@njit(cache=True, nogil=True, error_model="numpy")
def _solve(costs, epsilon, potentials, plans, errors, tol, max_iter):
    """Write the solutions into `plans` and `errors`, the potentials g into `potentials`."""
    size = costs.shape[1]
    columns, scales = np.empty(size), np.empty(size)
    for k in range(len(costs)):
        # The plan is held as kernel · scales, and scales as what g changed by since: a round then
        # takes products only.
        kernel, g = plans[k], potentials[k]
        absorbed = False
        for n_iter in range(max_iter):
            if not absorbed:
                _absorb(costs[k], g, epsilon, kernel)
                scales[:] = 1.0
                absorbed = True
            # The rows of the plan are made to sum to one ...
            _sum_columns(kernel, scales, columns)
            errors[k] = np.abs(columns - 1.0).max()
            if errors[k] <= tol or n_iter == max_iter - 1:
                break
            # ... and then its columns.
            for j in range(size):
                factor = 1.0 / max(columns[j], 1e-300)
                g[j] += epsilon * np.log(factor)
                scales[j] *= factor
                absorbed = absorbed and 1.0 / _MAX_SCALE < scales[j] < _MAX_SCALE
        _write_plan(kernel, scales)


@njit(cache=True, nogil=True, error_model="numpy")
def _absorb(cost, g, epsilon, kernel):
    """Write exp((g − cost) / ε), divided by the largest of the row, into `kernel`."""
    for i in range(len(cost)):
        row, out = cost[i], kernel[i]
        least = np.inf
        for j in range(len(g)):
            least = min(least, row[j] - g[j])
        for j in range(len(g)):
            exponent = (least + g[j] - row[j]) / epsilon
            out[j] = np.exp(exponent) if exponent > _LEAST_EXPONENT else 0.0


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _sum_columns(kernel, scales, columns):
    """Sums of the columns of kernel · scales once its rows sum to one."""
    columns[:] = 0.0
    for i in range(len(kernel)):
        row = kernel[i]
        total = 0.0
        for j in range(len(scales)):
            total += row[j] * scales[j]
        share = 1.0 / total
        for j in range(len(scales)):
            columns[j] += share * row[j]
    for j in range(len(scales)):
        columns[j] *= scales[j]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _write_plan(kernel, scales):
    """Replace the kernel by the plan, whose rows sum to one."""
    for i in range(len(kernel)):
        row = kernel[i]
        total = 0.0
        for j in range(len(scales)):
            row[j] *= scales[j]
            total += row[j]
        share = 1.0 / total
        for j in range(len(scales)):
            row[j] *= share
