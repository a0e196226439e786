"""Sparse subspace clustering of Elhamifar and Vidal, solved by ADMM."""

from typing import ClassVar

from scipy import sparse

from unpermute._progress import report
from unpermute._validation import Integral, Interval, Real
from unpermute.cluster._base import SelfRepresentationClustering
from unpermute.numerics.result import SolverResult, warn_not_converged
from unpermute.numerics.sparse_admm import SparseAdmm, sparse_weights

__all__ = ["SparseSubspaceClustering", "sparse_self_representation"]


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
        Vectors of a smaller cluster join the nearest one; this happens to a few clusters at most.
    affine : bool, default=False
        Whether coefficients must sum to one (affine subspaces, motion data).
    tol : float, default=2e-3
        Largest disagreement allowed between the copies of the variables, and in the equations. The
        authors' code stops after 200 iterations, short of its 2e-4: unit vectors at 40 dB are then
        at 5e-4 to 3e-3, and would need 400 to more than 3000, for the same clusters.
    max_iter : int, default=3000
        Maximum number of iterations. A few hundred do for linear subspaces.
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

    The iteration is that of :mod:`unpermute.numerics.sparse_admm`.

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
        Maximum number of iterations.

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
