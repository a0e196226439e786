"""The cost of MRUC and what lowers it for one group, in terms of few vectors."""

from itertools import pairwise

import numpy as np
from scipy.optimize import linear_sum_assignment

from unpermute.numerics.subspaces import estimate_rank

__all__ = ["Problem", "best_order"]

# The default λ, relative to the largest singular value of the anchor: above the noise, below
# the singular values of the directions that matter.
_RELATIVE_WEIGHT = 0.3


class Problem:
    """The cost, for permutations or doubly stochastic matrices P, in terms of factors.

    With T = [X₀; X_g P_gᵀ] the best B shrinks the singular values of T. A group only enters
    through X_gᵀ X_g, so that one with more vectors than places is replaced by a factor of that.
    """

    def __init__(self, vectors, lam, rank):
        self.anchor, *self.factors = [_factor(Y) for Y in vectors]
        self.rank, self.size = rank, vectors[0].shape[1]
        values = np.zeros(self.size)
        found = np.linalg.svd(self.anchor, compute_uv=False)
        values[: len(found)] = found
        self.n_directions = _anchor_rank(values, len(self.anchor)) if rank is None else rank
        self.lam = _RELATIVE_WEIGHT * values[0] if lam is None else lam
        if not values[0] > 0:
            raise ValueError(
                "X is zero in all vectors of the anchor; name as anchor a group that is not."
            )
        # Where the vectors of each group are in T.
        ends = np.cumsum([len(self.anchor), *map(len, self.factors)])
        self.rows = [slice(*pair) for pair in pairwise(ends.tolist())]

    def scale(self, g):
        """Mean square of a place of group `g`."""
        # A group that is zero fits everywhere; its scale only has to be positive.
        return np.sum(self.factors[g] ** 2) / self.size or 1.0

    def evaluate(self, T):
        """Return the cost, and B, for a stack of T."""
        # Either Gram matrix has the squares of all singular values that are not zero.
        wide = T.shape[-2] < T.shape[-1]
        other = np.swapaxes(T, -1, -2)
        squares, vectors = np.linalg.eigh(T @ other if wide else other @ T)
        values = np.sqrt(np.maximum(squares, 0.0))
        if self.rank is None:
            kept = np.maximum(values - self.lam, 0.0)
            costs = self.lam * kept + 0.5 * (values - kept) ** 2
            factors = kept / np.where(values > 0, values, 1.0)
        else:
            factors = np.zeros_like(values)
            factors[..., -self.rank :] = 1.0
            costs = 0.5 * values**2 * (1.0 - factors)
        shrink = (vectors * factors[..., None, :]) @ np.swapaxes(vectors, -1, -2)
        return costs.sum(axis=-1), shrink @ T if wide else T @ shrink

    def combine(self, permutations, groups=slice(None)):
        """The matrix T of the anchor and the groups in the order of `permutations`."""
        moved = zip(self.factors[groups], permutations, strict=True)
        return np.vstack([self.anchor, *(F[:, order] for F, order in moved)])

    def mix(self, plans):
        """The matrices T for a stack of doubly stochastic matrices, one per start and group."""
        T = np.empty((len(plans), len(self.anchor) + sum(map(len, self.factors)), self.size))
        T[:, : len(self.anchor)] = self.anchor
        for g, (F, rows) in enumerate(zip(self.factors, self.rows, strict=True)):
            T[:, rows] = F @ np.swapaxes(plans[:, g], -1, -2)
        return T

    def projector(self, permutations):
        """Projector on the leading directions of all vectors in order."""
        T = self.combine(permutations)
        directions = np.linalg.svd(T, full_matrices=False)[2][: self.n_directions]
        return directions.T @ directions


def _factor(Y):
    """Y, or if it is tall a square matrix F with FᵀF = YᵀY."""
    return np.linalg.qr(Y, mode="r") if len(Y) > Y.shape[1] else Y


def _anchor_rank(values, n_vectors):
    """Rank of the anchor: the largest gap of its singular values, below the trivial end."""
    # The gap after the last vector, or in the second half of the places, says nothing.
    return estimate_rank(values, max(1, min(len(values) // 2, n_vectors - 1)))


def best_order(B, F):
    """The order of the columns of F that is nearest to the columns of B, ``‖B − F[:, order]‖``."""
    if len(F) > 1:
        # Squares that no permutation changes make the search short: most are nearest to their own.
        squares = np.einsum("ij,ij->j", B, B)[:, None] + np.einsum("ij,ij->j", F, F)
        return linear_sum_assignment(0.5 * squares - B.T @ F)[1]
    # Numbers are matched best in ascending order.
    order = np.empty(F.shape[1], dtype=np.int64)
    order[np.argsort(B[0], kind="stable")] = np.argsort(F[0], kind="stable")
    return order
