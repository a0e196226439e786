"""Sparse subspace clustering of Elhamifar and Vidal, solved by ADMM."""

from typing import ClassVar

import numpy as np
from numba import njit
from scipy import linalg, sparse

from unpermute._progress import report
from unpermute._validation import Integral, Interval, Real
from unpermute.cluster._base import SelfRepresentationClustering
from unpermute.numerics.result import SolverResult, warn_not_converged

__all__ = [
    "SparseAdmm",
    "SparseSubspaceClustering",
    "sparse_self_representation",
    "sparse_weights",
]


class SparseSubspaceClustering(SelfRepresentationClustering):
    r"""Cluster vectors by the subspace they lie in: sparse self-representation with sparse errors.

    Represents every vector by few others of its own subspace,

    .. math:: \min_{C, E} \; \|C\|_1 + \gamma \|E\|_1 \quad \text{s.t. } X = C X + E, \;
        \operatorname{diag}(C) = 0 \quad (\text{and } C 1 = 1 \text{ if affine}),

    and clusters the graph ``|C| + |C|ᵀ`` spectrally [1]_.

    Choose it to reproduce published results, or when single entries are grossly wrong (the error
    term takes them). It works on dense n x n matrices: a few thousand vectors at most.
    :class:`ElasticNetSubspaceClustering` is faster and scales further. Vectors are used as they
    are; divide them by their lengths first when these differ much.

    Parameters
    ----------
    n_clusters : int, optional
        Number of subspaces. None takes the largest gap between the eigenvalues of the graph.
    alpha : float, default=20.0
        Weight of errors against coefficients: :math:`\gamma = \alpha / \max_j \|x_j\|_1`. Also
        sets the penalties of the iteration, as in the authors' code.
    keep : float in (0, 1], default=1.0
        Of every vector keep the largest coefficients that reach this share of their l1 norm.
    min_size : int, default=1
        Clusters with fewer vectors are split off, a few at most; theirs join the nearest cluster.
    affine : bool, default=False
        Whether coefficients must sum to one (affine subspaces, motion data).
    tol : float, default=2e-3
        Largest disagreement allowed between the copies of the variables, and in the equations. The
        authors' code stops after 200 iterations, short of its 2e-4: unit vectors at 40 dB are then
        at 5e-4 to 3e-3, and would need 400 to more than 3000, for the same clusters.
    max_iter : int, default=3000
        Most iterations. A few hundred do for linear subspaces.
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
    n_iter_ : int
        Iterations used.

    References
    ----------
    .. [1] Elhamifar, E. and Vidal, R. (2013). Sparse subspace clustering: algorithm, theory, and
       applications. IEEE Transactions on Pattern Analysis and Machine Intelligence 35(11),
       2765-2781. https://doi.org/10.1109/TPAMI.2013.57

    Examples
    --------
    >>> import numpy as np
    >>> from unpermute.cluster import SparseSubspaceClustering
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(15, 2)) @ rng.normal(size=(2, 8)) for _ in range(2)])
    >>> SparseSubspaceClustering(random_state=0).fit_predict(X).tolist() == [0] * 15 + [1] * 15
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **SelfRepresentationClustering._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "affine": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_clusters=None,
        *,
        alpha=20.0,
        keep=1.0,
        min_size=1,
        affine=False,
        tol=2e-3,
        max_iter=3000,
        random_state=None,
    ):
        self.n_clusters = n_clusters
        self.alpha = alpha
        self.keep = keep
        self.min_size = min_size
        self.affine = affine
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def _self_representation(self, X):
        result = sparse_self_representation(
            X, alpha=self.alpha, affine=self.affine, tol=self.tol, max_iter=self.max_iter
        )
        self.n_iter_ = result.n_iter
        return result.solution


def sparse_self_representation(X, *, alpha=20.0, affine=False, tol=2e-3, max_iter=3000):
    r"""Solve the problem of :class:`SparseSubspaceClustering` by ADMM.

    With the dictionary :math:`P = [X; I/\gamma]` (rows) and the unknown :math:`Z = [C, \gamma E]`,

    .. math:: \min_Z \; \|Z\|_1 \quad \text{s.t. } X = Z P, \; \operatorname{diag}(C) = 0,

    alternates a least-squares step in Z, soft thresholding of a copy of Z at :math:`1/\alpha` and
    steps of the multipliers, with the penalties of the authors' code: :math:`\alpha` for the copy,
    :math:`\mu = \alpha / \min_j \max_{i \ne j} |x_i^T x_j|` for the equations. Two rearrangements
    leave the iterates as they are: by Woodbury only a matrix of order n_features is inverted, and
    the affine constraint is one more feature.

    Parameters
    ----------
    X : ndarray of shape (n_vectors, n_features)
        Vectors in rows.
    alpha : float, default=20.0
        Weight of fit against sparsity.
    affine : bool, default=False
        Whether coefficients must sum to one.
    tol : float, default=2e-3
        Tolerance on the three residuals.
    max_iter : int, default=3000
        Most iterations.

    Returns
    -------
    SolverResult
        `solution` is a csr_array whose row j represents vector j; `optimality` the largest of: the
        difference of the two copies, the relative error of the equations, the error of the sums.
    """
    n = len(X)
    gamma, mu = sparse_weights(X, alpha)
    if mu == 0.0:  # all vectors are zero or orthogonal: nothing represents anything
        return SolverResult(sparse.csr_array((n, n)), 0.0, 0, True, {"errors": []})
    state = SparseAdmm(X, gamma, mu, alpha, affine)
    errors = []
    for n_iter in range(1, max_iter + 1):
        errors.append(state.step())
        report("cluster", n_iter, max_iter)
        if errors[-1] <= tol:
            report("cluster", max_iter, max_iter)
            break
    else:
        remedy = f"raise max_iter (now {max_iter}) or lower alpha (now {alpha:g})"
        warn_not_converged("Sparse self-representation", errors[-1], tol, remedy)
    solution = sparse.csr_array(state.coefficients())
    return SolverResult(solution, errors[-1], n_iter, bool(errors[-1] <= tol), {"errors": errors})


def sparse_weights(X, alpha):
    longest = np.abs(X).sum(axis=1).max()
    correlations = np.abs(X @ X.T)
    np.fill_diagonal(correlations, 0.0)
    closest = correlations.max(axis=1)
    # Zero vectors correlate with nothing; in the minimum they would make the weight infinite.
    closest = closest[closest > 0]
    if len(closest) == 0:
        return 0.0, 0.0
    return alpha / longest, alpha / closest.min()


class SparseAdmm:
    """Variables of the iteration, in rows and scaled so that both constraints look alike.

    `targets` holds √μ X, and √α 1 as one more feature if affine; `multipliers` those of the
    equations. The copies and their multipliers are kept as T = Z + U before thresholding: the
    multiplier is U = clip(T, ±1/α) and the thresholded copy is T − U.
    """

    def __init__(self, X, gamma, mu, alpha, affine):
        n, n_features = X.shape
        self.X, self.gamma, self.mu, self.alpha, self.affine = X, gamma, mu, alpha, affine
        self.targets = np.sqrt(mu) * X
        if affine:
            ones = np.full((n, 1), np.sqrt(alpha))
            self.targets = np.hstack([self.targets, ones])
        self.slack = np.zeros(self.targets.shape[1])
        self.slack[:n_features] = np.sqrt(mu) / gamma
        self.gram = self.targets.T @ self.targets + np.diag(self.slack**2)
        shifted = self.gram + alpha * np.eye(len(self.gram))
        self.inverse = linalg.cho_solve(linalg.cho_factor(shifted), np.eye(len(self.gram)))
        self.multipliers = np.zeros_like(self.targets)
        self.before = np.zeros((n, n))  # T, of the coefficients
        self.work = np.zeros((n, n))  # in turn 2(T − U) − T and the least-squares correction
        self.before_error = np.zeros((n, n_features))
        self.work_error = np.zeros((n, n_features))

    def step(self):
        """Do one iteration and return the largest residual."""
        n_features, limit = self.X.shape[1], 1.0 / self.alpha
        slack = self.slack[:n_features]
        # Z = V + (targets + multipliers − V P) (α I + Pᵀ P)⁻¹ Pᵀ, V = copy − multiplier
        represented = self.work @ self.targets
        represented[:, :n_features] += self.work_error * slack
        solved = (self.targets + self.multipliers - represented) @ self.inverse
        errors = self.work_error + solved[:, :n_features] * slack
        # Z P from V P, the Gram matrix and the diagonal that is set to zero: no third n x n product
        represented += solved @ self.gram
        represented -= np.einsum("ij,ij->i", solved, self.targets)[:, None] * self.targets
        np.matmul(solved, self.targets.T, out=self.work)
        np.fill_diagonal(self.work, 0.0)
        np.subtract(errors, self.work_error, out=self.work_error)
        disagreement = max(
            _threshold(self.before, self.work, limit),
            _threshold(self.before_error, self.work_error, limit),
        )
        residual = self.targets - represented
        self.multipliers += residual
        return max(disagreement, self._equation_error(residual, errors))

    def _equation_error(self, residual, errors):
        n_features = self.X.shape[1]
        lengths = np.linalg.norm(self.X - errors / self.gamma, axis=1)
        misfit = np.linalg.norm(residual[:, :n_features], axis=1) / np.sqrt(self.mu)
        # A vector that is all error (or zero) has nothing left to compare the misfit with.
        relative = misfit / np.where(lengths > 1e-12 * lengths.max(), lengths, 1.0)
        sums = np.abs(residual[:, n_features:]).max(initial=0.0) / np.sqrt(self.alpha)
        return max(relative.max(), sums)

    def coefficients(self):
        """Return the thresholded coefficients."""
        limit = 1.0 / self.alpha
        return self.before - np.clip(self.before, -limit, limit)


@njit(cache=True)
def _threshold(before, work, limit):
    """Complete one iteration entry by entry, in place.

    `before` (T) and `work` (the least-squares correction) become the next T and 2 (T − U) − T;
    returns the largest change of the multiplier U, which is the disagreement Z − copy.
    """
    largest = 0.0
    for i in range(before.shape[0]):
        for j in range(before.shape[1]):
            t = before[i, j]
            u = min(max(t, -limit), limit)
            t = t - u + work[i, j]
            v = min(max(t, -limit), limit)
            before[i, j] = t
            work[i, j] = t - 2.0 * v
            largest = max(largest, abs(v - u))
    return largest
