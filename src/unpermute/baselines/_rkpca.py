"""Robust kernel principal component analysis of Fan and Chow."""

from typing import ClassVar

import numpy as np
from scipy import linalg
from scipy.linalg import lapack
from scipy.spatial.distance import pdist
from sklearn.base import BaseEstimator

from unpermute._validation import StrOptions
from unpermute.baselines._base import SOLVER_CONSTRAINTS, MatrixRecovery, positive
from unpermute.numerics.orthant_descent import orthant_descent
from unpermute.numerics.result import warn_not_converged
from unpermute.numerics.robust_subspace import unit_rows

__all__ = ["RobustKernelPCA", "robust_kernel_pca"]

# Added to the kernel matrix: where vectors coincide, the root of its eigenvalues has no slope.
_RIDGE = 1e-5
# Eigenvalues above it by less than this share of it count as near it: the derivative of their roots
# is off by less than 1e-5 of itself.
_TAIL = 0.01
# Least scale of a vector, relative to the largest: far vectors have hardly any curvature.
_LEAST_SCALE = 1e-3


class RobustKernelPCA(MatrixRecovery, BaseEstimator):
    r"""Split a matrix into vectors of low rank in a kernel's feature space and sparse errors.

    .. math:: \min_{E} \; \operatorname{tr} \big( (K + \epsilon I)^{1/2} \big) + \lambda \|E\|_1,
        \qquad K_{ij} = \exp\big( -\|y_i - y_j\|^2 / (2 \sigma^2) \big), \quad Y = X - E,

    the nuclear norm of the vectors in the feature space of a Gaussian kernel [1]_. ``X - E`` is
    the recovered matrix.

    Choose it when the vectors lie on a union of subspaces or on a curved surface whose matrix has
    no low rank, and few entries are wrong. The problem is not convex: the answer is a stationary
    point, and depends on :math:`\lambda`, for which there is no rule. An iteration takes an
    eigendecomposition of order n_vectors: some thousands of them at most.

    Parameters
    ----------
    lam : float, default=0.5
        Weight of the errors; it is divided by the mean l1 norm of the vectors, as the authors do,
        so that it does not depend on units. Sensible values are 0.05 to 1.
    bandwidth : "mean" or float, default="mean"
        The width :math:`\sigma` of the kernel; "mean": `bandwidth_scale` times the mean distance
        between two vectors, the rule of [1]_.
    bandwidth_scale : float, default=1.0
        Factor of that rule.
    normalize : bool, default=False
        Whether to divide the vectors by their lengths first and multiply them afterwards
        (Algorithm 3 of [2]_), for vectors of very different lengths. Zero vectors stay zero.
    tol : float, default=1e-3
        Tolerance on the length of the proximal gradient, relative to :math:`\lambda` and to the
        root of the number of entries: zero at stationary points.
    max_iter : int, default=500
        Maximum number of iterations.

    Attributes
    ----------
    recovered_ : ndarray of shape (n_vectors, n_features)
        The vectors less their errors.
    errors_ : ndarray of shape (n_vectors, n_features)
        The sparse errors.
    bandwidth_ : float
        The width used.
    objective_ : ndarray of shape (n_iter,)
        The cost, of every iterate; it never rises.
    optimality_ : float
        The measure that `tol` bounds.
    n_iter_ : int
        Iterations used.
    converged_ : bool
        Whether the tolerance was reached.

    References
    ----------
    .. [1] Fan, J. and Chow, T. (2020). Exactly robust kernel principal component analysis. IEEE
       Transactions on Neural Networks and Learning Systems 31(3), 749-761.
       https://doi.org/10.1109/TNNLS.2019.2909686
    .. [2] Xie & Fan, "Multi-subspace matrix recovery from permuted data", AAAI 2025.

    Examples
    --------
    >>> import numpy as np
    >>> from unpermute.baselines import RobustKernelPCA
    >>> from unpermute.metrics import recovery_error
    >>> rng = np.random.default_rng(0)
    >>> t = rng.uniform(-1, 1, size=(80, 1))
    >>> curve = np.hstack([t**k for k in range(1, 7)]) @ rng.normal(size=(6, 20))
    >>> X = curve + np.where(rng.random(curve.shape) < 0.1, rng.normal(size=curve.shape), 0.0)
    >>> error = recovery_error(curve, RobustKernelPCA().fit_transform(X))
    >>> bool(error < 0.5 * recovery_error(curve, X))
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "lam": [positive],
        "bandwidth": [StrOptions({"mean"}), positive],
        "bandwidth_scale": [positive],
        "normalize": ["boolean"],
        **SOLVER_CONSTRAINTS,
    }

    def __init__(
        self,
        lam=0.5,
        *,
        bandwidth="mean",
        bandwidth_scale=1.0,
        normalize=False,
        tol=1e-3,
        max_iter=500,
    ):
        self.lam = lam
        self.bandwidth = bandwidth
        self.bandwidth_scale = bandwidth_scale
        self.normalize = normalize
        self.tol = tol
        self.max_iter = max_iter

    _in_unit_of_x = ("errors_",)

    def _recover(self, X):
        lengths = np.linalg.norm(X, axis=1, keepdims=True) if self.normalize else 1.0
        Y = unit_rows(X) if self.normalize else X
        bandwidth = self._choose_bandwidth(Y)
        self.bandwidth_ = bandwidth * (1.0 if self.normalize else self._unit)
        result = robust_kernel_pca(
            Y,
            lam=self.lam * len(Y) / np.abs(Y).sum(),
            bandwidth=bandwidth,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        self.errors_ = result.solution * lengths
        self.objective_ = np.array(result.info["objective"])
        self.optimality_, self.n_iter_ = result.optimality, result.n_iter
        self.converged_ = result.converged
        return X - self.errors_

    def _choose_bandwidth(self, X):
        if self.bandwidth != "mean":
            return float(self.bandwidth) / (1.0 if self.normalize else self._unit)
        # The mean over all ordered pairs, a vector and itself included, as the authors have it.
        mean = 2.0 * pdist(X).sum() / len(X) ** 2
        if mean == 0.0:
            raise ValueError(
                "bandwidth='mean' is zero because all vectors of X are equal; there must be two"
                " that differ, or bandwidth must be a positive number."
            )
        return float(self.bandwidth_scale * mean)


def robust_kernel_pca(X, *, lam, bandwidth, tol=1e-3, max_iter=500):
    """Solve the problem of :class:`RobustKernelPCA` by quasi-Newton descent.

    Parameters
    ----------
    X : ndarray of shape (n_vectors, n_features)
        Vectors in rows.
    lam : float
        Weight of the errors, as it stands.
    bandwidth : float
        Width of the kernel.
    tol : float, default=1e-3
        Tolerance on the proximal gradient relative to `lam`.
    max_iter : int, default=500
        Maximum number of iterations, each one eigendecomposition unless the step must be shortened.

    Returns
    -------
    SolverResult
        `solution` holds the errors; `info` the ``objective`` per iteration.
    """
    result = orthant_descent(
        lambda errors: _cost_slope_and_scale(X - errors, bandwidth),
        np.zeros_like(X),
        lam,
        first_step=lambda slope: _first_step(slope, lam, X),
        tol=tol,
        max_iter=max_iter,
        task="robust kernel PCA",
    )
    if not result.converged:
        remedy = f"raise max_iter (now {max_iter}) or tol"
        if result.n_iter < max_iter:
            remedy = "no step lowers the cost beyond rounding; raise tol or the bandwidth"
        warn_not_converged("Robust kernel PCA (quasi-Newton)", result.optimality, tol, remedy)
    return result


def _first_step(slope, lam, X):
    # The entry with the steepest slope may move by a tenth of the largest entry.
    steepest = max(np.abs(slope).max() - lam, 1e-3 * lam)
    return 0.1 * np.abs(X).max() / steepest


def _cost_slope_and_scale(Y, bandwidth):
    """Return ``tr (K + εI)^½``, its slope with respect to the errors, and a scale per vector.

    The scale is proportional to the curvature of the cost in the entries of one vector if the
    weights of K stood still, and bounded from below: large for vectors with many near ones, small
    for those far from all.
    """
    # Differences of vectors do not depend on their mean; rounding does.
    Y = Y - Y.mean(axis=0)
    squares = np.einsum("ij,ij->i", Y, Y)
    K = squares[:, None] + squares - 2.0 * (Y @ Y.T)
    np.maximum(K, 0.0, out=K)
    K *= -0.5 / bandwidth**2
    np.exp(K, out=K)
    K.flat[:: len(K) + 1] = 1.0 + _RIDGE
    cost, weights = _root_and_derivative(K)
    # dK_ij = −K_ij ⟨y_i − y_j, dy_i − dy_j⟩ / σ².
    weights *= K
    weights.flat[:: len(K) + 1] = 0.0
    total = weights.sum(axis=1, keepdims=True)
    slope = (2.0 / bandwidth**2) * (total * Y - weights @ Y)
    return cost, slope, np.maximum(-total, _LEAST_SCALE * np.abs(total).max())


def _root_and_derivative(K):
    """Return ``tr K^½`` and its derivative ``½ K^{-½}``, for K with eigenvalues from ε on.

    Most eigenvalues are close to ε, where the derivative is linear in them for all that matters:
    ``½ K^{-½} = aI + bK + V diag(½ k^{-½} − a − bk) Vᵀ`` takes the eigenvectors V of the others
    only. The tridiagonal form has to be worked out for all of them.
    """
    n = len(K)
    # The lower triangle of the transpose, which LAPACK reads without another copy.
    lwork = int(lapack.dsytrd_lwork(n, lower=1)[0])
    reflectors, diagonal, beside, tau, _ = lapack.dsytrd(K.T, lower=1, lwork=lwork)
    values, vectors = linalg.eigh_tridiagonal(diagonal, beside, check_finite=False)
    values = np.maximum(values, _RIDGE)
    few = values > _RIDGE * (1.0 + _TAIL)
    ends = _RIDGE * np.array([1.0, 1.0 + _TAIL])
    b = np.diff(0.5 / np.sqrt(ends))[0] / np.diff(ends)[0]
    a = 0.5 / np.sqrt(_RIDGE) - b * _RIDGE
    vectors = np.asfortranarray(vectors[:, few])
    vectors[1:] = lapack.dormqr("L", "N", reflectors[1:, :-1], tau, vectors[1:], 64 * n)[0]
    derivative = (vectors * (0.5 / np.sqrt(values[few]) - a - b * values[few])) @ vectors.T
    derivative += b * K
    derivative.flat[:: n + 1] += a
    return np.sqrt(values).sum(), derivative
