"""Subspace clustering by orthogonal matching pursuit."""

from typing import ClassVar

import numpy as np
from numba import njit
from scipy import sparse

from unpermute._validation import Integral, Interval, Real
from unpermute.cluster._base import SelfRepresentationClustering
from unpermute.numerics.parallel import map_blocks
from unpermute.numerics.result import SolverResult
from unpermute.numerics.robust_subspace import unit_rows

__all__ = ["OMPSubspaceClustering", "orthogonal_matching_pursuit"]

# Vectors per task: enough rows for an efficient matrix product, few enough that the correlations
# of one task stay below 32 MB.
_BLOCK = 256
_CORRELATIONS = 2**22
# A chosen vector this close to the span of the chosen ones adds only rounding.
_DEPENDENT = 1e-10


class OMPSubspaceClustering(SelfRepresentationClustering):
    r"""Cluster vectors by the subspace they lie in: greedy self-representation.

    Scales the vectors to unit length and looks, for every one, for a sparse representation,

    .. math:: \min_c \; \|x_j - \textstyle\sum_i c_i x_i\|_2^2
        \quad \text{s.t. } \|c\|_0 \le k, \; c_j = 0,

    greedily: the vector most correlated with the residual enters, the coefficients are refitted
    [1]_. Then clusters the graph ``|C| + |C|ᵀ`` spectrally.

    Choose it when the dimension of the subspaces is known and the noise small: nothing else needs
    tuning. With noise the coefficients beyond that dimension point to other subspaces, and
    :class:`ElasticNetSubspaceClustering` is both more accurate and faster.

    Parameters
    ----------
    n_clusters : int, optional
        Number of subspaces. None takes the largest gap between the eigenvalues of the graph.
    max_nonzeros : int, default=10
        Most vectors that represent one; the dimension of the subspaces or somewhat more.
    tol : float, default=1e-6
        A vector is represented when its residual is no longer than this (unit vectors).
    keep : float in (0, 1], default=1.0
        Of every vector keep the largest coefficients that reach this share of their l1 norm.
    min_size : int, default=1
        Vectors of a smaller cluster join the nearest one; this happens to a few clusters at most.
    n_jobs : int, optional
        Threads, as in joblib. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Randomness of the spectral clustering.

    Attributes
    ----------
    labels_ : ndarray of shape (n_vectors,)
        Cluster of every vector.
    n_clusters_ : int
        Number of clusters.
    coefficients_ : csr_array of shape (n_vectors, n_vectors)
        Row j represents vector j.
    affinity_matrix_ : csr_array of shape (n_vectors, n_vectors)
        The graph.
    eigenvalues_ : ndarray
        Smallest eigenvalues of its normalised Laplacian.

    References
    ----------
    .. [1] You, C., Robinson, D. and Vidal, R. (2016). Scalable sparse subspace clustering by
       orthogonal matching pursuit. CVPR. https://doi.org/10.1109/CVPR.2016.425

    Examples
    --------
    >>> import numpy as np
    >>> from unpermute.cluster import OMPSubspaceClustering
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(15, 2)) @ rng.normal(size=(2, 8)) for _ in range(2)])
    >>> OMPSubspaceClustering(2, random_state=0).fit_predict(X).tolist() == [0] * 15 + [1] * 15
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **SelfRepresentationClustering._parameter_constraints,
        "max_nonzeros": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_jobs": [None, Integral],
    }

    def __init__(
        self,
        n_clusters=None,
        *,
        max_nonzeros=10,
        tol=1e-6,
        keep=1.0,
        min_size=1,
        n_jobs=None,
        random_state=None,
    ):
        self.n_clusters = n_clusters
        self.max_nonzeros = max_nonzeros
        self.tol = tol
        self.keep = keep
        self.min_size = min_size
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _self_representation(self, X):
        result = orthogonal_matching_pursuit(
            unit_rows(X), max_nonzeros=self.max_nonzeros, tol=self.tol, n_jobs=self.n_jobs
        )
        return result.solution


def orthogonal_matching_pursuit(X, *, max_nonzeros=10, tol=1e-6, n_jobs=None):
    """Represent every vector by at most `max_nonzeros` others; see :class:`OMPSubspaceClustering`.

    Parameters
    ----------
    X : ndarray of shape (n_vectors, n_features)
        Vectors in rows, of unit length or zero.
    max_nonzeros : int, default=10
        Most vectors that represent one.
    tol : float, default=1e-6
        Length of the residual at which a vector counts as represented.
    n_jobs : int, optional
        Threads, as in joblib.

    Returns
    -------
    SolverResult
        `solution` is a csr_array whose row j represents vector j; `optimality`, `n_iter` and
        `converged` tell, per vector, the length of its residual, how many represent it, and
        whether it is represented. With noise `max_nonzeros` ends the search: that is no failure.
    """
    n = len(X)
    size = min(max_nonzeros, n - 1, X.shape[1])

    def solve(start, stop):
        return _solve_block(X, start, stop, size, tol)

    block = max(1, min(_BLOCK, _CORRELATIONS // n))
    parts = map_blocks(solve, n, block=block, stage="cluster", n_jobs=n_jobs)
    counts, chosen, values, lengths = map(np.concatenate, zip(*parts, strict=True))
    used = np.arange(size) < counts[:, None]
    indptr = np.concatenate([[0], np.cumsum(counts)])
    solution = sparse.csr_array((values[used], chosen[used], indptr), shape=(n, n))
    solution.sort_indices()
    return SolverResult(solution, lengths, counts, lengths <= tol, {})


def _solve_block(X, start, stop, size, tol):
    n_targets = stop - start
    residuals = X[start:stop].copy()
    chosen = np.zeros((n_targets, size), dtype=np.int64)
    counts = np.zeros(n_targets, dtype=np.int64)
    directions = np.zeros((n_targets, size, X.shape[1]))
    factors = np.zeros((n_targets, size, size))
    projections = np.zeros((n_targets, size))
    active = np.arange(n_targets)
    for step in range(size):
        grown = counts[active] == step
        active = active[grown & (np.linalg.norm(residuals[active], axis=1) > tol)]
        if len(active) == 0:
            break
        correlations = residuals[active] @ X.T
        correlations[np.arange(len(active)), start + active] = 0.0  # no vector represents itself
        _enter(X, correlations, active, residuals, chosen, counts, directions, factors, projections)
    values = _solve_triangular(factors, projections, counts)
    return counts, chosen, values, np.linalg.norm(residuals, axis=1)


@njit(cache=True, nogil=True, error_model="numpy")
def _enter(X, correlations, active, residuals, chosen, counts, directions, factors, projections):
    """Let the best vector enter every active representation.

    The chosen vectors are orthogonalised as they come, chosen = factorᵀ directions. Updates all
    but the first three arguments in place; where no vector helps, `counts` stays as it is.
    """
    for row in range(len(active)):
        b = active[row]
        k = counts[b]
        best = _most_correlated(correlations[row], chosen[b, :k])
        if best < 0:
            continue
        new = X[best].copy()
        for _ in range(2):  # one pass of Gram-Schmidt would lose orthogonality to rounding
            for i in range(k):
                share = np.dot(directions[b, i], new)
                factors[b, i, k] += share
                new -= share * directions[b, i]
        length = np.linalg.norm(new)
        if length <= _DEPENDENT:
            continue
        new /= length
        factors[b, k, k] = length
        directions[b, k] = new
        projections[b, k] = np.dot(new, residuals[b])
        residuals[b] -= projections[b, k] * new
        chosen[b, k] = best
        counts[b] = k + 1


@njit(cache=True, nogil=True, error_model="numpy")
def _most_correlated(correlations, chosen):
    """Index of the largest absolute correlation outside `chosen`, -1 if all are zero."""
    for i in chosen:
        correlations[i] = 0.0
    best, largest = -1, 0.0
    for i in range(len(correlations)):
        if abs(correlations[i]) > largest:
            best, largest = i, abs(correlations[i])
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def _solve_triangular(factors, projections, counts):
    """Coefficients of the chosen vectors by back substitution."""
    values = np.zeros_like(projections)
    for b in range(len(counts)):
        for i in range(counts[b] - 1, -1, -1):
            rest = projections[b, i]
            for j in range(i + 1, counts[b]):
                rest -= factors[b, i, j] * values[b, j]
            values[b, i] = rest / factors[b, i, i]
    return values
