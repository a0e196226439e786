"""Robust principal component analysis: principal component pursuit."""

from typing import ClassVar

import numpy as np
from numba import njit
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from unpermute._progress import report
from unpermute._validation import StrOptions, check_option, validate_vectors
from unpermute.baselines._base import SOLVER_CONSTRAINTS, InductiveRecovery, positive
from unpermute.numerics.proximal import SingularValueThreshold, soft_threshold
from unpermute.numerics.result import SolverResult, warn_not_converged
from unpermute.numerics.units import in_unit, unit_of
from unpermute.recover import l1_coefficients

__all__ = ["RobustPCA", "principal_component_pursuit"]

# The penalty of the augmented Lagrangian grows by this factor while the ratio of dual and primal
# residual is below the first bound, and shrinks while it is above the second: both residuals then
# reach the tolerance together. A penalty that only grows, as in [2]_, stops short of the optimum.
_GROWTH, _BALANCE = 1.5, (30.0, 100.0)
# The factor tends to 1: only a penalty that settles ensures convergence.
_COOLING = 0.995
# The weight of the relaxed problem of the proximal gradient falls by this factor per iteration.
_DECAY = 0.9
# Singular values of the low-rank part below this share of the largest are no direction.
_NEGLIGIBLE = 1e-6


class RobustPCA(InductiveRecovery, BaseEstimator):
    r"""Split a matrix into a low-rank and a sparse part.

    .. math:: \min_{L, S} \; \|L\|_* + \lambda \|S\|_1
        \quad \text{s.t. } L_{ij} + S_{ij} = X_{ij} \text{ where } X_{ij} \text{ is observed}

    (principal component pursuit [1]_). The low-rank part is the recovered matrix.

    Choose it when all vectors together have low rank and few entries are wrong: it is convex,
    needs no rank, and the default :math:`\lambda` is the one for which exact recovery is proved.
    To it a shuffled entry is merely a wrong one: it does not use that the value is still there,
    and several subspaces together may no longer have low rank; then use
    :class:`PerSubspace` or :class:`~unpermute.PMSDR`.

    Parameters
    ----------
    lam : float, default=None
        The weight :math:`\lambda` of the sparse part; None: :math:`1 / \sqrt{\max(n, m)}` for
        n vectors of m features, divided by the root of the share that is observed.
    solver : {"ialm", "apg"}, default="ialm"
        "ialm": inexact augmented Lagrange multipliers [2]_. "apg": accelerated proximal gradient
        with continuation [3]_, slower, a check by other means.
    tol : float, default=1e-6
        Tolerance on the relative error of the equations and on the relative distance of the
        multipliers from the subdifferential.
    max_iter : int, default=1000
        Maximum number of iterations.
    random_state : int, RandomState instance or None, default=None
        Randomness of the partial decompositions of large matrices.

    Attributes
    ----------
    recovered_ : ndarray of shape (n_vectors, n_features)
        The low-rank part.
    sparse_ : ndarray of shape (n_vectors, n_features)
        The sparse part, zero where `X` is missing.
    components_ : ndarray of shape (rank, n_features)
        Orthonormal directions that span the rows of the low-rank part.
    rank_ : int
        Their number.
    lam_ : float
        The weight used.
    objective_ : ndarray of shape (n_iter,)
        :math:`\|L\|_* + \lambda \|S\|_1` of every iterate.
    duality_gap_ : float
        How far the objective of the feasible pair :math:`(L, X - L)` may be above the minimum,
        relative to it: a bound by the multipliers.
    optimality_ : float
        The larger of the two residuals that `tol` bounds.
    n_iter_ : int
        Iterations used.
    converged_ : bool
        Whether the tolerance was reached.

    References
    ----------
    .. [1] Candès, E., Li, X., Ma, Y. and Wright, J. (2011). Robust principal component analysis?
       Journal of the ACM 58(3). https://doi.org/10.1145/1970392.1970395
    .. [2] Lin, Z., Chen, M. and Ma, Y. (2010). The augmented Lagrange multiplier method for exact
       recovery of corrupted low-rank matrices. https://doi.org/10.48550/arXiv.1009.5055
    .. [3] Toh, K.-C. and Yun, S. (2010). An accelerated proximal gradient algorithm for nuclear
       norm regularized linear least squares problems. Pacific Journal of Optimization 6, 615-640.

    Examples
    --------
    >>> import numpy as np
    >>> from unpermute.baselines import RobustPCA
    >>> rng = np.random.default_rng(0)
    >>> low_rank = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 40))
    >>> X = np.where(rng.random((60, 40)) < 0.1, 5.0, low_rank)
    >>> model = RobustPCA()
    >>> bool(np.allclose(model.fit_transform(X), low_rank, atol=1e-4)), model.rank_
    (True, 2)
    """

    _parameter_constraints: ClassVar[dict] = {
        "lam": [None, positive],
        "solver": [StrOptions({"ialm", "apg"})],
        **SOLVER_CONSTRAINTS,
        "random_state": ["random_state"],
    }
    _allow_nan = True

    def __init__(self, lam=None, *, solver="ialm", tol=1e-6, max_iter=1000, random_state=None):
        self.lam = lam
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    _in_unit_of_x = ("sparse_",)

    def _recover(self, X):
        observed = ~np.isnan(X)
        share = observed.mean()
        self.lam_ = 1.0 / np.sqrt(max(X.shape) * share) if self.lam is None else float(self.lam)
        result = principal_component_pursuit(
            np.where(observed, X, 0.0),
            observed,
            lam=self.lam_,
            solver=self.solver,
            tol=self.tol,
            max_iter=self.max_iter,
            random_state=self.random_state,
        )
        low_rank, self.sparse_ = result.solution
        values, directions = result.info["values"], result.info["directions"]
        self.components_ = directions[values > _NEGLIGIBLE * values.max(initial=0.0)]
        self.rank_ = len(self.components_)
        self.objective_ = np.array(result.info["objective"])
        self.duality_gap_ = result.info["duality_gap"]
        self.optimality_, self.n_iter_ = result.optimality, result.n_iter
        self.converged_ = result.converged
        return low_rank

    def transform(self, X):
        r"""Fit new vectors by the directions of the low-rank part, with the least absolute error.

        Every vector becomes :math:`V \hat c`, with
        :math:`\hat c = \arg\min_c \|x - V c\|_1` over the entries that are observed: as in the
        fit, few wrong entries do not matter, however wrong they are.

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
        X = validate_vectors(self, X, reset=False, allow_nan=True)
        if self.rank_ == 0:
            return np.zeros_like(X)
        unit = unit_of(X)
        basis = np.ascontiguousarray(self.components_.T)
        return l1_coefficients(in_unit(X, unit), basis)[0] @ self.components_ * unit


def principal_component_pursuit(
    X, observed, *, lam, solver="ialm", tol=1e-6, max_iter=1000, random_state=None
):
    """Solve the problem of :class:`RobustPCA`.

    Parameters
    ----------
    X : ndarray of shape (n_vectors, n_features)
        The matrix; entries that are not observed are ignored but must be finite.
    observed : ndarray of bool of shape (n_vectors, n_features)
        Where `X` is observed.
    lam : float
        Weight of the sparse part.
    solver : {"ialm", "apg"}, default="ialm"
        How to solve it.
    tol : float, default=1e-6
        Tolerance on both residuals.
    max_iter : int, default=1000
        Maximum number of iterations.
    random_state : int, RandomState instance or None, default=None
        Randomness of partial decompositions.

    Returns
    -------
    SolverResult
        `solution` is the pair of the low-rank and the sparse part; `info` holds ``objective`` per
        iteration, ``duality_gap``, and ``values`` and ``directions`` of the low-rank part.
    """
    iterate = check_option("solver", solver, {"ialm": _Ialm, "apg": _Apg})(
        np.where(observed, X, 0.0), observed, lam, tol, check_random_state(random_state)
    )
    objective = []
    for n_iter in range(1, max_iter + 1):
        optimality = iterate.step()
        objective.append(iterate.low_rank.values.sum() + lam * iterate.sparse_norm)
        report("robust PCA", n_iter, max_iter)
        if optimality <= tol:
            report("robust PCA", max_iter, max_iter)
            break
    else:
        remedy = f"raise max_iter (now {max_iter}) or tol"
        warn_not_converged("Robust PCA (relative residual)", optimality, tol, remedy)
    low_rank = iterate.low_rank.matrix
    info = {
        "objective": objective,
        "duality_gap": _duality_gap(iterate, low_rank, lam),
        "values": iterate.low_rank.values,
        "directions": iterate.low_rank.directions,
    }
    solution = low_rank, np.where(observed, iterate.sparse, 0.0)
    return SolverResult(solution, float(optimality), n_iter, bool(optimality <= tol), info)


def _duality_gap(iterate, low_rank, lam):
    # The dual is max ⟨Y, X⟩ s.t. ‖Y‖₂ ≤ 1, |Y| ≤ λ, Y = 0 where nothing is observed; scaled into
    # its constraints, the multipliers bound the minimum from below.
    Y = iterate.multipliers()
    largest = max(np.linalg.norm(Y, 2), np.abs(Y).max() / lam, 1.0)
    dual = np.vdot(Y, iterate.X) / largest
    misfit = np.abs(iterate.X - low_rank)[iterate.observed].sum()
    primal = iterate.low_rank.values.sum() + lam * misfit
    return float((primal - dual) / primal)


class _Ialm:
    """Inexact augmented Lagrange multipliers, Algorithm 5 of [2]_ with balanced residuals."""

    def __init__(self, X, observed, lam, tol, rng):
        self.X, self.observed, self.lam = X, observed, lam
        self.threshold = SingularValueThreshold(rng)
        length = np.linalg.norm(X, 2)
        self.norm = np.linalg.norm(X)
        self.Y = X / max(length, np.abs(X).max() / lam)
        self.mu, self.growth = 1.25 / length, _GROWTH
        self.sparse = np.zeros_like(X)

    def step(self):
        """Update both parts and the multipliers; return the larger residual."""
        argument = self.X - self.sparse + self.Y / self.mu
        self.low_rank = self.threshold(argument, 1.0 / self.mu)
        moved, gap, self.sparse_norm, length = _update(
            self.X, self.observed, self.low_rank.matrix, self.sparse, self.Y, self.mu, self.lam
        )
        primal = np.sqrt(gap) / self.norm
        # The multipliers before the sparse step are a subgradient of the nuclear norm; those
        # after it differ from them by μ ΔS.
        dual = self.mu * np.sqrt(moved / length) if length > 0 else 0.0
        if dual < _BALANCE[0] * primal:
            self.mu *= self.growth
        elif dual > _BALANCE[1] * primal:
            self.mu /= self.growth
        self.growth **= _COOLING
        return max(primal, dual)

    def multipliers(self):
        """Return the dual variable."""
        return self.Y


class _Apg:
    """Accelerated proximal gradient for ``μ(‖L‖_* + λ‖S‖₁) + ½‖L + S − X‖²``, μ falling."""

    def __init__(self, X, observed, lam, tol, rng):
        self.X, self.observed, self.lam = X, observed, lam
        self.threshold = SingularValueThreshold(rng)
        self.norm = np.linalg.norm(X)
        self.mu = 0.99 * np.linalg.norm(X, 2)
        # At the solution the equations are wrong by μ times the multipliers, which have
        # spectral norm 1: this μ makes the error small enough.
        self.mu_last = 0.5 * tol * self.norm / np.sqrt(min(X.shape))
        self.parts = np.zeros((2, *X.shape))
        self.ahead = self.parts
        self.weight = 1.0

    @property
    def sparse(self):
        """The sparse part."""
        return self.parts[1]

    def step(self):
        """Take one accelerated step from both parts; return the larger residual."""
        low, sparse = self.ahead
        slope = 0.5 * np.where(self.observed, low + sparse - self.X, 0.0)
        self.low_rank = self.threshold(low - slope, 0.5 * self.mu)
        sparse = soft_threshold(sparse - slope, 0.5 * self.mu * self.lam)
        self.sparse_norm = np.abs(sparse).sum()
        parts = np.array([self.low_rank.matrix, sparse])
        self.residual = np.where(self.observed, self.X - parts.sum(axis=0), 0.0)
        self.used = self.mu
        # Distance of zero from the subdifferential of the relaxed problem, from both steps.
        error = np.linalg.norm(self.ahead - parts - (slope + 0.5 * self.residual))
        length = np.linalg.norm(self.residual)
        self._accelerate(parts)
        self.mu = max(_DECAY * self.mu, self.mu_last)
        return max(length / self.norm, 2.0 * error / max(length, np.finfo(float).tiny))

    def _accelerate(self, parts):
        if np.vdot(self.ahead - parts, parts - self.parts) > 0:
            self.weight = 1.0  # the momentum points uphill: begin anew
        last, self.weight = self.weight, 0.5 + np.sqrt(0.25 + self.weight**2)
        self.ahead = parts + (last - 1.0) / self.weight * (parts - self.parts)
        self.parts = parts

    def multipliers(self):
        """Return the dual variable of the relaxed problem."""
        return self.residual / self.used


@njit(cache=True)
def _update(X, observed, low_rank, sparse, Y, mu, lam):
    """Update `sparse` and the multipliers `Y` in place, in one pass.

    Returns the squared move of the sparse part, the squared error of the equations, the l1 norm
    of the sparse part and the squared length of the multipliers.
    """
    moved, gap, total, length = 0.0, 0.0, 0.0, 0.0
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            rest = X[i, j] - low_rank[i, j]
            if observed[i, j]:
                free = mu * rest + Y[i, j]
                y = min(max(free, -lam), lam)
                s = (free - y) / mu
                total += abs(s)
            else:
                # Whatever the low-rank part says is right: no multiplier, no cost.
                y, s = 0.0, rest
            error = rest - s
            moved += (s - sparse[i, j]) ** 2
            gap += error * error
            length += y * y
            sparse[i, j] = s
            Y[i, j] = y
    return moved, gap, total, length
