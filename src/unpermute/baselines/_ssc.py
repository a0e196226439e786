"""Sparse self-representation as recovery."""

from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from unpermute._progress import report
from unpermute.baselines._base import SOLVER_CONSTRAINTS, MatrixRecovery, positive
from unpermute.numerics.parallel import one_blas_thread
from unpermute.numerics.result import warn_not_converged
from unpermute.numerics.sparse_admm import SparseAdmm, sparse_weights

__all__ = ["SSCReconstruction"]


class SSCReconstruction(MatrixRecovery, BaseEstimator):
    r"""Represent every vector by few others, and return the representations.

    .. math:: \min_{C, E} \; \|C\|_1 + \gamma \|E\|_1 \quad \text{s.t. } X = C X + E, \;
        \operatorname{diag}(C) = 0 \quad (\text{and } C 1 = 1 \text{ if affine}),

    the self-representation of sparse subspace clustering [1]_. ``C X`` is the recovered matrix;
    the graph ``|C| + |C|ᵀ`` tells the subspaces apart
    (:class:`~unpermute.cluster.SparseSubspaceClustering`).

    Choose it as the simplest recovery that knows of several subspaces, without their number or
    dimension. The other vectors that represent one may be shuffled themselves, and the sparsity
    shortens every vector: hardly ever the best.

    Parameters
    ----------
    alpha : float, default=20.0
        Weight of errors against coefficients: :math:`\gamma = \alpha / \max_j \|x_j\|_1`.
    affine : bool, default=False
        Whether coefficients must sum to one (affine subspaces, motion data).
    tol : float, default=2e-3
        Largest disagreement allowed between the copies of the variables, and in the equations.
    max_iter : int, default=3000
        Maximum number of iterations.

    Attributes
    ----------
    recovered_ : ndarray of shape (n_vectors, n_features)
        The represented vectors.
    coefficients_ : ndarray of shape (n_vectors, n_vectors)
        Row j represents vector j.
    objective_ : ndarray of shape (n_iter,)
        :math:`\|C\|_1 + \gamma \|X - C X\|_1` of every iterate.
    optimality_ : float
        The disagreement reached, which `tol` bounds.
    n_iter_ : int
        Iterations used.
    converged_ : bool
        Whether the tolerance was reached.

    References
    ----------
    .. [1] Elhamifar, E. and Vidal, R. (2013). Sparse subspace clustering: algorithm, theory, and
       applications. IEEE Transactions on Pattern Analysis and Machine Intelligence 35(11),
       2765-2781. https://doi.org/10.1109/TPAMI.2013.57

    Examples
    --------
    >>> import numpy as np
    >>> from unpermute.baselines import SSCReconstruction
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(15, 2)) @ rng.normal(size=(2, 8)) for _ in range(2)])
    >>> C = SSCReconstruction().fit(X).coefficients_
    >>> bool(np.abs(C[:15, 15:]).max() < 1e-6)
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "alpha": [positive],
        "affine": ["boolean"],
        **SOLVER_CONSTRAINTS,
    }

    def __init__(self, alpha=20.0, *, affine=False, tol=2e-3, max_iter=3000):
        self.alpha = alpha
        self.affine = affine
        self.tol = tol
        self.max_iter = max_iter

    def _recover(self, X):
        gamma, mu = sparse_weights(X, self.alpha)
        if mu == 0.0:
            raise ValueError(
                "X holds only vectors that are orthogonal to each other, or zero: none of them"
                " represents another; there must be two that are not."
            )
        with one_blas_thread():
            self._solve(X, gamma, SparseAdmm(X, gamma, mu, self.alpha, self.affine))
            return self.coefficients_ @ X

    def _solve(self, X, gamma, state):
        objective = []
        for n_iter in range(1, self.max_iter + 1):
            self.optimality_ = float(state.step())
            C = state.coefficients()
            objective.append(np.abs(C).sum() + gamma * np.abs(X - C @ X).sum())
            report("sparse self-representation", n_iter, self.max_iter)
            if self.optimality_ <= self.tol:
                report("sparse self-representation", self.max_iter, self.max_iter)
                break
        else:
            remedy = f"raise max_iter (now {self.max_iter}) or lower alpha (now {self.alpha:g})"
            warn_not_converged("Sparse self-representation", self.optimality_, self.tol, remedy)
        self.coefficients_, self.n_iter_ = C, n_iter
        self.objective_ = np.array(objective)
        self.converged_ = bool(self.optimality_ <= self.tol)
