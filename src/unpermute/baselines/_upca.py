"""Unlabeled principal component analysis of Yao, Peng and Tsakiris."""

from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from unpermute._progress import report
from unpermute._validation import (
    Integral,
    Interval,
    StrOptions,
    check_rank,
    validate_vectors,
)
from unpermute.baselines._base import SOLVER_CONSTRAINTS, InductiveRecovery
from unpermute.numerics.parallel import one_blas_thread
from unpermute.numerics.robust_subspace import dpcp_basis, irls_basis
from unpermute.numerics.subspaces import fit_subspace
from unpermute.recover import RECOVERERS, recover_vectors

__all__ = ["UPCA"]

# Number of vectors above which the subgradient method is faster: it needs no product of all vectors
# per round.
_MANY_VECTORS = 20_000


class UPCA(InductiveRecovery, BaseEstimator):
    r"""Find one subspace despite shuffled vectors, then recover every vector in it.

    .. math:: \hat U = \arg\min_{U^T U = I} \; \sum_i \|x_i - U U^T x_i\|_2, \qquad
        \min_{\Pi, c} \; \|x_i - \Pi \hat U c\|_2 \text{ for every } i

    (dual principal component pursuit, then unlabeled sensing [1]_). A vector becomes
    :math:`\hat U c`.

    Choose it when all vectors lie in one subspace and the shuffled ones, each with its own
    permutation, may be many: it is the ancestor of :class:`~unpermute.PMSDR`, which also leaves
    clean vectors alone, knows several subspaces and says how sure it is.

    Parameters
    ----------
    rank : int, default=None
        Dimension of the subspace; None: where the typical distance to it drops most.
    solver : {"auto", "irls", "subgradient"}, default="auto"
        How to find it: iteratively reweighted least squares, or the projected subgradient method;
        "auto": the latter above 20 000 vectors.
    recoverer : str or callable, default="lsrf"
        A method of :func:`unpermute.recover.recover_vectors`, or a callable with its signature.
        "lsrf" is the authors' choice, "search" the better one.
    tol : float, default=1e-7
        Stop when a round lowers the mean distance by no more ("irls"), or when only steps by a
        smaller angle would ("subgradient"). Vectors count as of unit length.
    max_iter : int, default=1000
        Maximum number of rounds.
    n_jobs : int, default=None
        Threads of the recovery; the result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seeds the recovery.

    Attributes
    ----------
    recovered_ : ndarray of shape (n_vectors, n_features)
        The fitted vectors.
    components_ : ndarray of shape (rank, n_features)
        Orthonormal basis, in rows.
    rank_ : int
        Dimension of the subspace.
    permutations_ : ndarray of shape (n_vectors, n_features)
        ``np.take_along_axis(X, permutations_, axis=1)`` is every vector put back in order.
    objective_ : ndarray of shape (n_iter,)
        Mean distance of the vectors, of unit length, to the subspace in every round.
    optimality_ : float
        The measure that `tol` bounds.
    n_iter_ : int
        Rounds used.
    converged_ : bool
        Whether the tolerance was reached.

    References
    ----------
    .. [1] Yao, Y., Peng, L. and Tsakiris, M. (2021). Unlabeled principal component analysis.
       NeurIPS 34. https://doi.org/10.48550/arXiv.2101.09446

    Examples
    --------
    >>> from unpermute.baselines import UPCA
    >>> from unpermute.datasets import make_permuted_subspaces
    >>> from unpermute.metrics import recovery_error
    >>> data = make_permuted_subspaces(1, 100, 40, 3, outlier_ratio=0.4, random_state=0)
    >>> recovered = UPCA(3, random_state=0).fit_transform(data.X)
    >>> bool(recovery_error(data.X_clean, recovered) < 0.02)
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "rank": [None, Interval(Integral, 1, None, closed="left")],
        "solver": [StrOptions({"auto", "irls", "subgradient"})],
        "recoverer": [StrOptions(set(RECOVERERS)), callable],
        **SOLVER_CONSTRAINTS,
        "n_jobs": [None, Integral],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        rank=None,
        *,
        solver="auto",
        recoverer="lsrf",
        tol=1e-7,
        max_iter=1000,
        n_jobs=None,
        random_state=None,
    ):
        self.rank = rank
        self.solver = solver
        self.recoverer = recoverer
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _recover(self, X):
        self._check_rank(*X.shape)
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        report("subspace", 0, 1)
        with one_blas_thread():
            rank = self.rank
            if rank is None:
                rank = fit_subspace(X, method="irls")[0].shape[1]
            fit = irls_basis if self._uses_irls(len(X)) else dpcp_basis
            result = fit(X, rank, tol=self.tol, max_iter=self.max_iter)
        report("subspace", 1, 1)
        self.components_ = np.ascontiguousarray(result.solution.T)
        self.rank_ = rank
        self.objective_ = np.array(result.info["costs"])
        self.optimality_, self.n_iter_ = float(result.optimality), result.n_iter
        self.converged_ = bool(result.converged)
        recovered = self._recover_vectors(X)
        self.permutations_ = recovered.permutations
        return recovered.fitted

    def transform(self, X):
        """Recover new vectors in the subspace that was found.

        Parameters
        ----------
        X : array-like of shape (n_vectors, n_features)
            Vectors, one per row.

        Returns
        -------
        X_recovered : ndarray of shape (n_vectors, n_features)
            The fitted vectors.
        """
        check_is_fitted(self)
        X = validate_vectors(self, X, reset=False)
        return self._recover_vectors(X).fitted

    def _uses_irls(self, n_vectors):
        return self.solver == "irls" or (self.solver == "auto" and n_vectors <= _MANY_VECTORS)

    def _check_rank(self, n_vectors, n_features):
        if n_features < 2:
            raise ValueError(
                f"X has {n_features} feature(s); at least 2 are needed for a subspace to be found."
            )
        check_rank(self.rank, n_features)
        if self.rank is not None and self.rank > n_vectors:
            raise ValueError(
                f"rank={self.rank} needs at least as many vectors, but X has {n_vectors}."
            )

    def _recover_vectors(self, X):
        options = {"random_state": self._seed, "n_jobs": self.n_jobs}
        basis = np.ascontiguousarray(self.components_.T)
        if isinstance(self.recoverer, str):
            return recover_vectors(X, basis, method=self.recoverer, **options)
        return self.recoverer(X, basis, **options)
