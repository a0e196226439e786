"""Low-rank representation of Liu and others."""

from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from unpermute._progress import report
from unpermute._validation import StrOptions, check_option
from unpermute.baselines._base import SOLVER_CONSTRAINTS, MatrixRecovery, positive
from unpermute.numerics.proximal import SingularValueThreshold, shrink_rows, soft_threshold
from unpermute.numerics.result import SolverResult, warn_not_converged

__all__ = ["LowRankRepresentation", "low_rank_representation"]

# The penalty grows or shrinks by this factor where the ratio of dual and primal residual leaves
# these bounds; the factor tends to 1, because only a penalty that settles ensures convergence.
_GROWTH, _COOLING, _BALANCE = 1.5, 0.98, (3.0, 30.0)
# Singular values below this share of the largest are rounding.
_NEGLIGIBLE = 1e-10


class LowRankRepresentation(MatrixRecovery, BaseEstimator):
    r"""Represent every vector by all vectors, with coefficients of low rank.

    .. math:: \min_{Z, E} \; \|Z\|_* + \lambda \|E\|
        \quad \text{s.t. } X = Z X + E,

    with the norm :math:`\|E\|_{2,1} = \sum_i \|e_i\|_2` over the vectors, or
    :math:`\|E\|_1` over the entries [1]_. ``Z X = X - E`` is the recovered matrix; the graph
    ``|Z| + |Z|ᵀ`` tells the subspaces apart.

    Choose it for vectors of several independent subspaces: without errors Z is then zero between
    vectors of different ones. With `norm` "l21" whole vectors may be wrong (shuffled ones among
    them are removed rather than repaired), with "l1" single entries. Wrong vectors stand in the
    dictionary too, which :class:`RobustPCA` avoids.

    Parameters
    ----------
    lam : float, default=None
        The weight :math:`\lambda`; None: half the inverse of the median norm (l2 for "l21", l1
        for "l1") of the vectors. A vector alone costs 1 if it represents itself, and
        :math:`\lambda` times its norm if it is all error: from the inverse norm on, nothing is.
    norm : {"l21", "l1"}, default="l21"
        Which errors are few: wrong vectors ("l21"), or wrong entries ("l1").
    tol : float, default=1e-4
        Tolerance on the relative errors of the equations, and on the relative distance of the
        multipliers from the subdifferential.
    max_iter : int, default=1000
        Maximum number of iterations.
    random_state : int, RandomState instance or None, default=None
        Randomness of the partial decompositions of large matrices.

    Attributes
    ----------
    recovered_ : ndarray of shape (n_vectors, n_features)
        The represented vectors.
    coefficients_ : ndarray of shape (n_vectors, n_vectors)
        Row j represents vector j.
    errors_ : ndarray of shape (n_vectors, n_features)
        The errors.
    lam_ : float
        The weight used.
    objective_ : ndarray of shape (n_iter,)
        The cost of every iterate.
    optimality_ : float
        The measure that `tol` bounds.
    n_iter_ : int
        Iterations used.
    converged_ : bool
        Whether the tolerance was reached.

    References
    ----------
    .. [1] Liu, G., Lin, Z., Yan, S., Sun, J., Yu, Y. and Ma, Y. (2013). Robust recovery of
       subspace structures by low-rank representation. IEEE Transactions on Pattern Analysis and
       Machine Intelligence 35(1), 171-184. https://doi.org/10.1109/TPAMI.2012.88

    Examples
    --------
    >>> import numpy as np
    >>> from unpermute.baselines import LowRankRepresentation
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(15, 2)) @ rng.normal(size=(2, 8)) for _ in range(2)])
    >>> model = LowRankRepresentation(10.0).fit(X)
    >>> float(np.abs(model.coefficients_[:15, 15:]).max().round(4))
    0.0
    """

    _parameter_constraints: ClassVar[dict] = {
        "lam": [None, positive],
        "norm": [StrOptions({"l21", "l1"})],
        **SOLVER_CONSTRAINTS,
        "random_state": ["random_state"],
    }

    def __init__(self, lam=None, *, norm="l21", tol=1e-4, max_iter=1000, random_state=None):
        self.lam = lam
        self.norm = norm
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    _in_unit_of_x = ("errors_",)

    def _recover(self, X):
        lam = self._weight(X)
        self.lam_ = lam / self._unit
        result = low_rank_representation(
            X,
            lam=lam,
            norm=self.norm,
            tol=self.tol,
            max_iter=self.max_iter,
            random_state=self.random_state,
        )
        self.coefficients_, self.errors_ = result.solution
        self.objective_ = np.array(result.info["objective"])
        self.optimality_, self.n_iter_ = result.optimality, result.n_iter
        self.converged_ = result.converged
        return self.coefficients_ @ X

    def _weight(self, X):
        if self.lam is not None:
            return float(self.lam) * self._unit
        norms = np.linalg.norm(X, ord=2 if self.norm == "l21" else 1, axis=1)
        return float(0.5 / np.median(norms[norms > 0]))


def low_rank_representation(X, *, lam, norm="l21", tol=1e-4, max_iter=1000, random_state=None):
    """Solve the problem of :class:`LowRankRepresentation` by augmented Lagrange multipliers.

    The rows of Z lie in the column space of X = U Σ Vᵀ, so that ``Z = W Uᵀ`` with W of shape
    (n_vectors, rank) and ``X = W (Σ Vᵀ) + E``: the decompositions are of that size, and the
    least-squares step for W inverts a diagonal matrix.

    Parameters
    ----------
    X : ndarray of shape (n_vectors, n_features)
        Vectors in rows.
    lam : float
        Weight of the errors.
    norm : {"l21", "l1"}, default="l21"
        Norm of the errors.
    tol : float, default=1e-4
        Tolerance on the residuals.
    max_iter : int, default=1000
        Maximum number of iterations.
    random_state : int, RandomState instance or None, default=None
        Randomness of partial decompositions.

    Returns
    -------
    SolverResult
        `solution` is the pair of the coefficients and the errors; `info` holds the ``objective``
        per iteration.
    """
    state = _Alm(X, lam, norm, check_random_state(random_state))
    objective = []
    for n_iter in range(1, max_iter + 1):
        optimality = state.step()
        objective.append(state.objective())
        report("low-rank representation", n_iter, max_iter)
        if optimality <= tol:
            report("low-rank representation", max_iter, max_iter)
            break
    else:
        remedy = f"raise max_iter (now {max_iter}) or tol, or change lam (now {lam:g})"
        warn_not_converged("Low-rank representation (residual)", optimality, tol, remedy)
    solution = state.low_rank.matrix @ state.left.T, state.errors
    info = {"objective": objective}
    return SolverResult(solution, float(optimality), n_iter, bool(optimality <= tol), info)


class _Alm:
    """Variables of the iteration: W, its low-rank copy, the errors, and two multipliers."""

    def __init__(self, X, lam, norm, rng):
        left, values, right = np.linalg.svd(X, full_matrices=False)
        rank = int(np.sum(values > _NEGLIGIBLE * values[0]))
        self.X, self.lam = X, lam
        self.left, self.dictionary = left[:, :rank], values[:rank, None] * right[:rank]
        # All in units of the largest singular value, so that both equations weigh alike.
        self.scale = values[0]
        self.X, self.dictionary = X / self.scale, self.dictionary / self.scale
        self.lam = lam * self.scale
        self.diagonal = 1.0 + (values[:rank] / self.scale) ** 2
        self.shrink = check_option("norm", norm, {"l21": shrink_rows, "l1": soft_threshold})
        self.measure = {"l21": _l21_norm, "l1": _l1_norm}[norm]
        self.threshold = SingularValueThreshold(rng)
        self.mu, self.growth = 1.0, _GROWTH
        self.W = np.zeros((len(X), rank))
        self.E = np.zeros_like(self.X)
        self.Y_equation, self.Y_copy = np.zeros_like(self.X), np.zeros_like(self.W)
        self.norm = np.linalg.norm(self.X)

    @property
    def errors(self):
        """The errors in the units of the data."""
        return self.E * self.scale

    def step(self):
        """One round of updates; return the largest relative residual."""
        before_W = self.W
        self.low_rank = self.threshold(self.W + self.Y_copy / self.mu, 1.0 / self.mu)
        copy = self.low_rank.matrix
        target = self.X - self.W @ self.dictionary + self.Y_equation / self.mu
        self.E = self.shrink(target, self.lam / self.mu)
        # min_W ‖X − W D − E + Y₁/μ‖² + ‖W − copy + Y₂/μ‖²; D Dᵀ is diagonal.
        right = (self.X - self.E + self.Y_equation / self.mu) @ self.dictionary.T
        self.W = (right + copy - self.Y_copy / self.mu) / self.diagonal
        equation = self.X - self.W @ self.dictionary - self.E
        difference = self.W - copy
        self.Y_equation += self.mu * equation
        self.Y_copy += self.mu * difference
        copy_error = np.linalg.norm(difference) / np.fmax(np.linalg.norm(copy), 1.0)
        primal = max(np.linalg.norm(equation) / self.norm, copy_error)
        moved = self.mu * np.linalg.norm(self.W - before_W)
        dual = moved / np.fmax(np.linalg.norm(self.Y_copy), 1.0)
        if dual < _BALANCE[0] * primal:
            self.mu *= self.growth
        elif dual > _BALANCE[1] * primal:
            self.mu /= self.growth
        self.growth **= _COOLING
        return max(primal, dual)

    def objective(self):
        """Cost of the current pair."""
        return self.low_rank.values.sum() + self.lam * self.measure(self.E)


def _l21_norm(E):
    return np.linalg.norm(E, axis=1).sum()


def _l1_norm(E):
    return np.abs(E).sum()
