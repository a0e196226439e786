"""Subspaces that a minority of stray vectors cannot tilt: least sum of distances.

Rows are vectors. Both solvers minimise the same cost over r-dimensional subspaces,

    min_U  (1/n) Σ_i ‖x_i − U Uᵀ x_i‖₂   s.t.  Uᵀ U = I,

where the singular value decomposition would square the distances. The vectors are scaled to unit
length first, so that the cost weighs directions and a long stray vector counts no more than a
short one; zero vectors have no direction and are ignored.
"""

import numpy as np

from unpermute.numerics.result import SolverResult, warn_not_converged

__all__ = [
    "distance_profile",
    "dpcp_basis",
    "geometric_median",
    "irls_basis",
    "principal_directions",
    "unit_rows",
]

# Below this distance (of unit vectors) the absolute distance is replaced by a parabola, so that
# a vector inside the subspace gets a large weight, not an infinite one.
_SMOOTHING = 1e-10
# Singular values below this share of the largest are rounding.
_NEGLIGIBLE = 1e-12
# A profile only compares ranks: coarse fits will do.
_PROFILE_TOL, _PROFILE_ITER, _PROFILE_FLOOR = 0.01, 30, 1e-6


def irls_basis(X, rank, *, affine=False, tol=1e-7, max_iter=200):
    """Least-distances subspace by iteratively reweighted least squares.

    Repeats ``w_i = 1 / max(d_i, δ)``, with d_i the distance of x_i to the subspace, and
    U the leading eigenvectors of ``Σ_i w_i x_i x_iᵀ`` (the fast median subspace of [1]_). No round
    raises the cost. With `affine` every round also moves the centre m to the weighted mean, which
    minimises the cost ``Σ_i ω_i ‖(I − U Uᵀ)(x_i − m)‖`` over U and m together.

    Choose it first: a handful of small eigenproblems, no step size. :func:`dpcp_basis` reaches the
    same subspaces another way and serves as its check.

    Parameters
    ----------
    X : ndarray of shape (n_vectors, n_features)
        Vectors in rows.
    rank : int
        Dimension of the subspace.
    affine : bool, default=False
        Whether the subspace may miss the origin. Lengths are then taken from the geometric median
        of the vectors, and ω_i = 1 / max(length, median length): far vectors are pulled in, but
        near ones, whose direction is mostly noise, are not stretched.
    tol : float, default=1e-7
        Stop when a round lowers the mean distance (of unit vectors) by no more than this.
    max_iter : int, default=200
        Maximum number of rounds.

    Returns
    -------
    SolverResult
        `solution` is an orthonormal basis of shape (n_features, rank), ``info["center"]`` a point
        of the subspace (the origin unless `affine`).

    References
    ----------
    .. [1] Lerman, G. and Maunu, T. (2018). Fast, robust and non-convex subspace recovery.
       Information and Inference 7(2), 277-336. https://doi.org/10.1093/imaiai/iax012
    """
    Y, scales, start = _balance(X, affine)
    Y, directions = _reduce(Y, rank)
    if Y.shape[1] <= rank:
        return SolverResult(directions[:, :rank], 0.0, 0, True, {"center": start, "costs": []})
    basis, shift, _, costs = _irls(Y, scales, rank, tol, max_iter)
    decrease = costs[-2] - costs[-1]
    if decrease > tol:
        remedy = f"raise max_iter (now {max_iter}), or check whether rank={rank} is too large"
        warn_not_converged("The robust basis (decrease of the distance)", decrease, tol, remedy)
    directions = directions[:, : Y.shape[1]]
    solution = np.linalg.qr(directions @ basis)[0]
    info = {"center": start + directions @ shift, "costs": costs[1:]}
    return SolverResult(solution, decrease, len(costs) - 1, bool(decrease <= tol), info)


def dpcp_basis(X, rank, *, tol=1e-6, max_iter=1000):
    """Least-distances subspace by dual principal component pursuit.

    Searches the orthogonal complement of the subspace (holistic DPCP, [1]_)::

        min_B ‖X B‖_{1,2}   s.t.  Bᵀ B = I

    with B of shape (n_features, n_features − rank), by the projected Riemannian subgradient method
    from the spectral start (the trailing singular vectors). The step shrinks geometrically: it is
    halved whenever it does not lower the cost (the backtracking rule of [2]_).

    Choose it when the rank is close to the number of features, where the complement is small, or
    to check :func:`irls_basis`.

    Parameters
    ----------
    X : ndarray of shape (n_vectors, n_features)
        Vectors in rows.
    rank : int
        Dimension of the subspace.
    tol : float, default=1e-6
        Stop when only steps shorter than this (an angle, in radians) would lower the cost.
    max_iter : int, default=1000
        Maximum number of steps.

    Returns
    -------
    SolverResult
        `solution` is an orthonormal basis of shape (n_features, rank).

    References
    ----------
    .. [1] Zhu, Z., Ding, T., Robinson, D., Tsakiris, M. and Vidal, R. (2019). A linearly
       convergent method for non-smooth non-convex optimization on the Grassmannian with
       applications to robust subspace and dictionary learning. NeurIPS 32.
    .. [2] Zhu, Z., Wang, Y., Robinson, D., Naiman, D., Vidal, R. and Tsakiris, M. (2018). Dual
       principal component pursuit: improved analysis and efficient algorithms. NeurIPS 31.
    """
    Y, directions = _reduce(unit_rows(X), rank)
    if Y.shape[1] <= rank:
        return SolverResult(directions[:, :rank], 0.0, 0, True, {"costs": []})
    normals, step, costs = np.eye(Y.shape[1])[:, rank:], 1.0, []
    for _ in range(max_iter):
        cost, slope = _cost_and_slope(Y, normals)
        costs.append(cost)
        candidate, step, angle = _descend(Y, normals, cost, slope, step, tol)
        if angle <= tol:
            break
        normals = candidate
    else:
        remedy = f"raise max_iter (now {max_iter}), or check whether rank={rank} is too large"
        warn_not_converged("The DPCP basis (angle of a step)", angle, tol, remedy)
    basis = np.linalg.qr(normals, mode="complete")[0][:, normals.shape[1] :]
    solution = np.linalg.qr(directions[:, : Y.shape[1]] @ basis)[0]
    return SolverResult(solution, angle, len(costs), bool(angle <= tol), {"costs": costs})


def distance_profile(X, max_rank, *, affine=False):
    """Typical distance to the least-distances subspace of every rank 0, …, max_rank.

    It drops to the noise where the rank suffices for most vectors; singular values, in contrast,
    count every stray vector as a direction of its own. Typical is the geometric mean, in which
    stray vectors hardly matter, of the distances raised to at least their median, because the
    subspace passes through some vectors exactly. Distances are those of :func:`irls_basis` (unit
    vectors, a few rounds each); values below 1e-6 are raised to it.

    Parameters
    ----------
    X : ndarray of shape (n_vectors, n_features)
        Vectors in rows.
    max_rank : int
        Largest rank.
    affine : bool, default=False
        Whether the subspaces may miss the origin.

    Returns
    -------
    ndarray of shape (max_rank + 1,)
        The distances.
    """
    Y, scales, _ = _balance(X, affine)
    Y, _ = _reduce(Y, 1)
    profile = np.full(max_rank + 1, _PROFILE_FLOOR)
    for rank in range(min(max_rank + 1, Y.shape[1])):
        distances = _irls(Y, scales, rank, _PROFILE_TOL, _PROFILE_ITER, relative=True)[2]
        floor = max(np.median(distances), _PROFILE_FLOOR)
        profile[rank] = np.exp(np.mean(np.log(np.maximum(distances, floor))))
    return profile


def geometric_median(X, *, tol=1e-4, max_iter=200):
    """Point with the least sum of distances to the vectors, ``min_m Σ_i ‖x_i − m‖₂`` (Weiszfeld).

    Fewer than half of the vectors may be moved arbitrarily far without carrying it away. `tol` is
    relative to the spread of the vectors.

    Parameters
    ----------
    X : ndarray of shape (n_vectors, n_features)
        Vectors in rows.
    tol : float, default=1e-4
        Stop when a round moves the point by no more than `tol` times the median distance to it.
    max_iter : int, default=200
        Maximum number of rounds.

    Returns
    -------
    SolverResult
        `solution` is the point, of shape (n_features,).
    """
    center, moves = np.median(X, axis=0), [0.0]
    for _ in range(max_iter):
        distances = np.linalg.norm(X - center, axis=1)
        scale = np.median(distances)
        if scale <= _NEGLIGIBLE * np.abs(X).max(initial=0.0):
            break
        weights = 1.0 / np.maximum(distances, _SMOOTHING * scale)
        update = weights @ X / weights.sum()
        moves.append(np.linalg.norm(update - center) / scale)
        center = update
        if moves[-1] <= tol:
            break
    else:
        remedy = f"raise max_iter (now {max_iter})"
        warn_not_converged("The geometric median (relative move)", moves[-1], tol, remedy)
    return SolverResult(center, moves[-1], len(moves) - 1, bool(moves[-1] <= tol), {})


def principal_directions(X, n_directions):
    """Singular values and right singular vectors (columns), at least `n_directions` of the latter.

    Vectors without enough independent directions get any that are orthogonal to the others.
    """
    n_vectors, n_features = X.shape
    if n_vectors > n_features:
        X = np.linalg.qr(X, mode="r")
    _, singular_values, transposed = np.linalg.svd(X, full_matrices=False)
    directions = transposed.T
    found = directions.shape[1]
    if found < n_directions:
        # Not the full decomposition: with many entries its matrix would not fit into memory.
        anything = np.eye(n_features, n_directions)
        completed = np.linalg.qr(np.hstack([directions, anything]))[0]
        directions = np.hstack([directions, completed[:, found:n_directions]])
    return singular_values, directions


def unit_rows(X):
    """Scale every row to unit length; zero rows stay zero."""
    # The largest entry goes first: squares of entries below 1e-154 or above 1e154 leave float64.
    largest = np.abs(X).max(axis=1, keepdims=True, initial=0.0)
    Y = X / np.where(largest > 0, largest, 1.0)
    lengths = np.linalg.norm(Y, axis=1, keepdims=True)
    return Y / np.where(lengths > 0, lengths, 1.0)


def _balance(X, affine):
    # Linear: unit vectors. Affine: far vectors pulled in towards the start of the centre; the
    # scales say how much of the centre's shift each scaled vector feels.
    if not affine:
        return unit_rows(X), np.zeros(len(X)), np.zeros(X.shape[1])
    start = geometric_median(X).solution
    lengths = np.linalg.norm(X - start, axis=1)
    typical = np.median(lengths[lengths > 0]) if lengths.any() else 1.0
    scales = 1.0 / np.maximum(lengths, typical)
    return (X - start) * scales[:, None], scales, start


def _reduce(Y, rank):
    # In coordinates of the row space the eigenproblems have at most n_vectors unknowns.
    singular_values, directions = principal_directions(Y, rank)
    size = int(np.sum(singular_values > _NEGLIGIBLE * singular_values.max(initial=0.0)))
    return Y @ directions[:, :size], directions


def _irls(Y, scales, rank, tol, max_iter, *, relative=False):
    basis, shift, costs = np.eye(Y.shape[1])[:, :rank], np.zeros(Y.shape[1]), [np.inf]
    for _ in range(max_iter):
        residual = Y - scales[:, None] * shift
        distances = np.linalg.norm(residual - (residual @ basis) @ basis.T, axis=1)
        costs.append(distances.mean())
        if costs[-2] - costs[-1] <= tol * (costs[-1] if relative else 1.0):
            break
        weights = 1.0 / np.maximum(distances, _SMOOTHING)
        pull = weights * scales
        if pull.any():
            shift = pull @ Y / (pull @ scales)
        residual = Y - scales[:, None] * shift
        gram = (residual * weights[:, None]).T @ residual
        basis = np.linalg.eigh(gram)[1][:, Y.shape[1] - rank :]
    return basis, shift, distances, costs


def _cost_and_slope(Y, normals):
    projected = Y @ normals
    distances = np.linalg.norm(projected, axis=1)
    projected /= np.maximum(distances, _SMOOTHING)[:, None]
    slope = Y.T @ projected / len(Y)
    return distances.mean(), slope - normals @ (normals.T @ slope)  # Riemannian subgradient


def _descend(Y, normals, cost, slope, step, tol):
    # Halve the step until it lowers the cost (Armijo), or only negligible steps would.
    length = np.linalg.norm(slope)
    while step * length > tol:
        candidate = np.linalg.qr(normals - step * slope)[0]
        reached = np.linalg.norm(Y @ candidate, axis=1).mean()
        if reached < cost - 1e-4 * step * length**2:
            return candidate, step, step * length
        step /= 2
    return normals, step, step * length
