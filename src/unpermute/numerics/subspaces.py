"""Linear and affine subspaces: estimate them, choose their dimension, measure distances to them.

Rows are vectors. A subspace is a pair: an orthonormal ``basis`` of shape (n_features, rank) and an
``offset`` of shape (n_features,) orthogonal to it (zero for linear subspaces).
"""

import numpy as np

from unpermute._validation import check_option
from unpermute.numerics.parallel import one_blas_thread
from unpermute.numerics.robust_subspace import (
    distance_profile,
    dpcp_basis,
    irls_basis,
    principal_directions,
)

__all__ = [
    "BASIS_METHODS",
    "SmallClusterError",
    "estimate_rank",
    "fit_subspace",
    "fit_subspaces",
    "residual_norms",
]

# Singular values below this share of the largest are rounding: they count as equal.
_NEGLIGIBLE = 1e-12


class SmallClusterError(ValueError):
    """A cluster has fewer vectors than a subspace of the given rank needs."""


def estimate_rank(singular_values, max_rank):
    """Dimension at the largest ratio of consecutive singular values, ``argmax_k s_k / s_{k+1}``.

    Parameters
    ----------
    singular_values : ndarray
        In descending order.
    max_rank : int
        Largest dimension to consider.

    Returns
    -------
    int
        At least 1 and at most `max_rank`; 1 when all singular values are zero.

    Examples
    --------
    >>> from unpermute.numerics.subspaces import estimate_rank
    >>> estimate_rank([9.0, 7.0, 0.2, 0.1], max_rank=3)
    2
    """
    values = np.asarray(singular_values, dtype=float)
    n_candidates = min(max_rank, len(values) - 1)
    if n_candidates < 1 or values[0] <= 0:
        return 1
    values = np.maximum(values[: n_candidates + 1], _NEGLIGIBLE * values[0])
    return int(np.argmax(values[:-1] / values[1:])) + 1


def fit_subspace(X, rank=None, *, method="svd", affine=False):
    """Subspace nearest to the vectors.

    Minimises, over orthonormal U (and offsets o if `affine`),

    - ``svd``: ``Σ_i ‖(I − U Uᵀ)(x_i − o)‖²``. Choose it when every vector belongs.
    - ``irls``, ``dpcp``: ``Σ_i ‖(I − U Uᵀ)(x_i − o)‖ / ‖x_i‖``, which a minority of stray vectors
      cannot tilt (see :mod:`unpermute.numerics.robust_subspace`). ``robust`` stands for ``irls``.

    The offset is the mean (``svd``) or the point that belongs to the robust fit's weights.

    Parameters
    ----------
    X : ndarray of shape (n_vectors, n_features)
        Vectors in rows.
    rank : int, optional
        Dimension. None chooses it, at most half the features (rounded up) and below the number of
        vectors: at the largest ratio of consecutive singular values (``svd``), or at the largest
        drop of the typical distance (robust methods, at most half the vectors plus one; see
        :func:`~unpermute.numerics.robust_subspace.distance_profile`).
    method : {"svd", "irls", "robust", "dpcp"}, default="svd"
        How to estimate it.
    affine : bool, default=False
        Whether the subspace may miss the origin.

    Returns
    -------
    basis : ndarray of shape (n_features, rank)
        Orthonormal, whatever the data: missing directions are completed.
    offset : ndarray of shape (n_features,)
        Orthogonal to the basis; zero unless `affine`.
    """
    fit = check_option("method", method, BASIS_METHODS)
    with one_blas_thread():
        return fit(X, rank, affine)


def fit_subspaces(X, labels, rank=None, n_subspaces=None, *, method="svd", affine=False):
    """One subspace per label 0, …, n_subspaces − 1; see :func:`fit_subspace`.

    Parameters
    ----------
    X : ndarray of shape (n_vectors, n_features)
        Vectors in rows.
    labels : ndarray of shape (n_vectors,)
        Subspace of every vector; other labels (−1, say) are left out.
    rank : int or sequence of int, optional
        Dimension of all subspaces, or of each; None estimates each.
    n_subspaces : int, optional
        Number of subspaces; None takes the largest label plus one.
    method : {"svd", "irls", "robust", "dpcp"}, default="svd"
        How to estimate them.
    affine : bool, default=False
        Whether the subspaces may miss the origin.

    Returns
    -------
    bases : list of ndarray of shape (n_features, rank_k)
        Orthonormal bases.
    offsets : list of ndarray of shape (n_features,)
        Their offsets.
    """
    labels = np.asarray(labels)
    if n_subspaces is None:
        n_subspaces = int(labels.max()) + 1
    ranks = [rank] * n_subspaces if np.ndim(rank) == 0 else list(rank)
    bases, offsets = [], []
    for k in range(n_subspaces):
        members = X[labels == k]
        _check_size(k, len(members), ranks[k], affine)
        basis, offset = fit_subspace(members, ranks[k], method=method, affine=affine)
        bases.append(basis)
        offsets.append(offset)
    return bases, offsets


def residual_norms(X, bases, offsets):
    """Distance of every vector to every subspace, ``‖(I − U_k U_kᵀ)(x_i − o_k)‖``.

    The residual itself is formed: the shorter ``‖x‖² − ‖Uᵀx‖²`` cancels near the subspace.

    Parameters
    ----------
    X : ndarray of shape (n_vectors, n_features)
        Vectors in rows.
    bases : sequence of ndarray of shape (n_features, rank_k)
        Orthonormal bases.
    offsets : sequence of ndarray of shape (n_features,)
        Offsets.

    Returns
    -------
    ndarray of shape (n_vectors, n_subspaces)
        The distances.
    """
    norms = np.empty((len(X), len(bases)))
    for k, (basis, offset) in enumerate(zip(bases, offsets, strict=True)):
        residual = X - offset
        residual -= (residual @ basis) @ basis.T
        norms[:, k] = np.linalg.norm(residual, axis=1)
    return norms


def _fit_svd(X, rank, affine):
    center = X.mean(axis=0) if affine else np.zeros(X.shape[1])
    singular_values, directions = principal_directions(X - center, _max_rank(X, rank))
    if rank is None:
        rank = estimate_rank(singular_values, _max_rank(X))
    basis = directions[:, :rank]
    return basis, _orthogonal_part(center, basis)


def _fit_irls(X, rank, affine):
    fitted = irls_basis(X, _robust_rank(X, rank, affine), affine=affine)
    return fitted.solution, _orthogonal_part(fitted.info["center"], fitted.solution)


def _fit_dpcp(X, rank, affine):
    rank = _robust_rank(X, rank, affine)
    center = irls_basis(X, rank, affine=True).info["center"] if affine else np.zeros(X.shape[1])
    basis = dpcp_basis(X - center, rank).solution
    return basis, _orthogonal_part(center, basis)


BASIS_METHODS = {"svd": _fit_svd, "irls": _fit_irls, "robust": _fit_irls, "dpcp": _fit_dpcp}


def _robust_rank(X, rank, affine):
    if rank is not None:
        return rank
    # A larger subspace could pass through most vectors exactly, whatever they are.
    max_rank = min(_max_rank(X), len(X) // 2 + 1)
    return estimate_rank(distance_profile(X, max_rank, affine=affine), max_rank)


def _max_rank(X, rank=None):
    if rank is not None:
        return rank
    n_vectors, n_features = X.shape
    return max(1, min(n_features - 1, n_vectors - 1, (n_features + 1) // 2))


def _orthogonal_part(vector, basis):
    vector = vector - basis @ (basis.T @ vector)
    return vector - basis @ (basis.T @ vector)  # twice is enough: the first pass leaves rounding


def _check_size(k, n_members, rank, affine):
    needed = (1 if rank is None else int(rank)) + int(affine)
    if n_members < needed:
        wanted = "" if rank is None else f" of rank {rank}"
        kind = "an affine" if affine else "a linear"
        raise SmallClusterError(
            f"cluster {k} has {n_members} vectors, but {kind} subspace{wanted} needs at least"
            f" {needed}; lower rank, ask for fewer subspaces, or add vectors."
        )
