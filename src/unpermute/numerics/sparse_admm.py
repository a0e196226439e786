r"""Sparse self-representation with sparse errors, by the alternating direction method (ADMM).

With the dictionary :math:`P = [X; I/\gamma]` (rows) and the unknown :math:`Z = [C, \gamma E]`,

.. math:: \min_Z \; \|Z\|_1 \quad \text{s.t. } X = Z P, \; \operatorname{diag}(C) = 0,

alternates a least-squares step in Z, soft thresholding of a copy of Z at :math:`1/\alpha` and steps
of the multipliers, with the penalties of the authors' code: :math:`\alpha` for the copy,
:math:`\mu = \alpha / \min_j \max_{i \ne j} |x_i^T x_j|` for the equations. Two rearrangements leave
the iterates as they are: by Woodbury only a matrix of order n_features is inverted, and the affine
constraint is one more feature.

References
----------
Elhamifar & Vidal, "Sparse subspace clustering: algorithm, theory, and applications", 2013,
doi:10.1109/TPAMI.2013.57.
"""

import numpy as np
from numba import njit
from scipy import linalg

__all__ = ["SparseAdmm", "sparse_weights"]


def sparse_weights(X, alpha):
    """Weights γ of the errors and μ of the equations; both 0 if no vector represents another."""
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
