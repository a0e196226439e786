r"""Fit a component of the model of clean vectors; everything but directions on held-out vectors.

One component says

.. math:: x = \mu + z V + e, \quad z_l \sim N(0, \lambda_l), \quad e_j \sim s \sqrt{\rho_j}\, t_4 .

The rows of V are principal directions of the clean vectors. Everything else is measured on vectors
held out in folds, which did not shape V: the variance :math:`\lambda_l` along every direction, the
noise :math:`\psi` (the typical :math:`s^2`) and its share :math:`\rho_j` per entry. The noise s of
a vector is its own. A union of exact subspaces is the limit of small :math:`\psi`.
"""

import itertools
from dataclasses import replace

import numpy as np
from numba import njit
from scipy.optimize import isotonic_regression

from unpermute.pmsdr._explain import (
    Component,
    centred,
    in_place,
    leave_one_out,
    posterior,
)

__all__ = [
    "fit_component",
    "held_out_standing",
    "mean_outside",
    "predicted",
    "principal_directions",
]

# Folds of a component with enough vectors; a small one is held out in smaller parts, so that the
# fit without a part is nearly that of the whole.
_FOLDS, _SMALL = 5, 1000
# Most directions of a component, and the sizes between 1 and it that are tried.
_MAX_RANK, _RANKS_TRIED = 150, 12
# Share of the entries of held-out vectors that predict the hidden rest, and the relative excess of
# the squared error at which a smaller rank is preferred; one standard error also is no difference.
_SHOWN, _RANK_LOSS = 0.6, 0.02
# Conjugate-gradient steps of that prediction.
_STEPS = 6
# Noise below this share of the mean variance of an entry is rounding of float32 products.
_RESOLUTION = 1e-6
# Vectors at most that have the same entries hidden.
_ALIKE = 8
# A mean that leaves the directions by more than this many times what noise explains is one of them.
_OUTSIDE = 4.0


def fit_component(X, *, rank=None, seed=0):
    """Fit a component to clean vectors.

    Parameters
    ----------
    X : ndarray of shape (n_members, n_features)
        Vectors without missing entries.
    rank : int, default=None
        Number of directions, if the vectors suffice for so many; None: estimated.
    seed : int, default=0
        Of the folds and the hidden entries.

    Returns
    -------
    Component
    """
    n, n_features = X.shape
    rng = np.random.default_rng(seed)
    folds = _random_folds(X, rng)
    most = int(max(min(_MAX_RANK, n - np.bincount(folds).max() - 1, n_features - 1), 1))
    means, directions, scores, total = _hold_out(X, folds, most)
    floor = _RESOLUTION * total / n_features + 1e-12
    variances = np.maximum(isotonic_regression(scores, increasing=False).x, floor)
    left = n_features - np.arange(1, most + 1)
    noises = np.maximum((total - np.cumsum(scores)) / np.maximum(left, 1), floor)
    order = np.argsort(folds, kind="stable")
    ends = np.searchsorted(folds[order], np.arange(len(means) + 1))
    Z = (X[order] - means[folds[order]]).astype(np.float32)
    if rank is None:
        rank = _choose_rank(Z, directions, ends, variances, noises, floor, rng)
    rank = min(rank, most)
    noise = noises[rank - 1]
    variances = np.maximum(variances[:rank], 1.001 * noise).astype(np.float32)
    directions = np.ascontiguousarray(directions[:, :rank])
    entry_noise = _entry_noise(Z, directions, ends, variances, np.float32(noise))
    mean = X.mean(axis=0)
    whole = principal_directions(X - mean, rank).astype(np.float32)
    component = Component(
        np.vstack([means, mean]), np.concatenate([directions, whole[None]]), folds,
        variances, noise, entry_noise,
    )  # fmt: skip
    noise = max(float(held_out_standing(X, component).noise.mean()), 0.05 * noise)
    return replace(component, noise=noise)


def held_out_standing(X, component):
    """Judge the members of a component as they stand, each by the fit without its fold."""
    return in_place(X, component, component.folds)


def _random_folds(X, rng):
    """Folds at random; equal vectors share one, for a copy in another fold gives a vector away."""
    seen: dict[bytes, int] = {}
    copies = np.array([seen.setdefault(x.tobytes(), len(seen)) for x in X])
    if len(seen) < 2:
        copies = np.arange(len(X))
    n = int(copies.max()) + 1
    return (rng.permutation(n) % min(n, max(_FOLDS, _SMALL // n)))[copies]


def principal_directions(Z, rank):
    """First principal directions of the rows of a matrix, as rows; zeros beyond its rank."""
    wide = len(Z) <= Z.shape[1]
    found = _leading(Z @ Z.T, rank, Z) if wide else _leading(Z.T @ Z, rank)
    return np.pad(found, [(0, rank - len(found)), (0, 0)])


def _leading(products, rank, Z=None):
    """First principal directions, as rows, by the products of columns, or of the rows of Z."""
    values, vectors = np.linalg.eigh(products)
    values, vectors = values[::-1][:rank], vectors.T[::-1][:rank]
    kept = values > 1e-12 * max(values[0], 1e-300)
    if Z is None:
        return np.where(kept[:, None], vectors, 0.0)
    return np.where(kept, 1.0 / np.sqrt(np.where(kept, values, 1.0)), 0.0)[:, None] * (vectors @ Z)


def _hold_out(X, folds, rank):
    """Fits without each fold; mean squares of held-out vectors along directions, and in all.

    Products of all vectors are made once; those of a fold are parts of them.
    """
    n, n_features = X.shape
    count = int(folds.max()) + 1
    centre = X.mean(axis=0)
    Z, wide = X - centre, n <= n_features
    products = Z @ Z.T if wide else Z.T @ Z
    means, directions = np.empty((count, n_features)), np.zeros((count, rank, n_features), "f4")
    scores, total = np.zeros(rank), 0.0
    for f in range(count):
        kept, held = np.flatnonzero(folds != f), np.flatnonzero(folds == f)
        mean = Z[kept].mean(axis=0)
        if wide:
            deviations = Z[kept] - mean
            inside = products[np.ix_(kept, kept)]
            across = inside.mean(axis=0)
            found = _leading(inside - across - (across - across.mean())[:, None], rank, deviations)
        else:
            inside = products - Z[held].T @ Z[held] - len(kept) * np.outer(mean, mean)
            found = _leading(inside, rank)
        own = Z[held] - mean
        means[f], directions[f, : len(found)] = centre + mean, found
        scores[: len(found)] += np.sum((own @ found.T) ** 2, axis=0)
        total += np.sum(own**2)
    return means, directions, scores / n, total / n


def _choose_rank(Z, directions, ends, variances, noises, floor, rng):
    """Smallest rank whose prediction of hidden entries is nearly as good as the best.

    Vectors are sorted by fold, `ends` says where each begins and ends. A few vectors have the same
    entries hidden: their scores solve equations with one matrix.
    """
    parts = np.array(
        [
            (f, *part)
            for f, (a, b) in enumerate(itertools.pairwise(ends))
            for part in itertools.pairwise(np.linspace(a, b, -(-(b - a) // _ALIKE) + 1).astype(int))
        ]
    )
    shown = (rng.random((len(parts), Z.shape[1])) < _SHOWN).astype(np.float32)
    gram, known = _normal_equations(Z, shown, parts, directions)
    squares: dict[int, np.ndarray] = {}

    def loss(rank):
        """Squared error of the hidden entries of every vector."""
        if rank not in squares:
            noise = np.float32(noises[rank - 1])
            prior = np.maximum(variances[:rank], 1.001 * noise).astype(np.float32)
            squares[rank] = _hidden_loss(Z, shown, parts, directions, gram, known, prior, noise)
        return squares[rank]

    hidden = np.sum((1.0 - shown).sum(axis=1) * (parts[:, 2] - parts[:, 1]), dtype=float)
    rounding = floor * hidden
    grid = np.unique(np.geomspace(1, len(variances), _RANKS_TRIED).round().astype(int)).tolist()
    best = min((loss(rank) for rank in grid), key=np.sum)

    def suffices(rank):
        excess = loss(rank) - best
        allowed = _RANK_LOSS * best.sum(), excess.std() * np.sqrt(len(excess)), rounding
        return excess.sum() <= max(allowed)

    chosen = min((rank for rank in grid if suffices(rank)), default=1)
    too_small = max((rank for rank in grid if rank < chosen), default=0)
    while chosen - too_small > 1:  # between the sizes tried
        middle = (chosen + too_small) // 2
        if suffices(middle):
            chosen = middle
        else:
            too_small = middle
    return chosen


@njit(cache=True, nogil=True, error_model="numpy")
def _normal_equations(Z, shown, parts, directions):
    """Products of the directions over the shown entries, and of vectors with them."""
    rank = directions.shape[1]
    gram = np.empty((len(parts), rank, rank), np.float32)
    known = np.empty((len(Z), rank), np.float32)
    for p, (f, a, b) in enumerate(parts):
        V = directions[f] * shown[p]
        gram[p], known[a:b] = np.dot(V, V.T), np.dot(Z[a:b], V.T)
    return gram, known


@njit(cache=True, nogil=True, error_model="numpy")
def _hidden_loss(Z, shown, parts, directions, gram, known, variances, noise):
    """Squared error of the hidden entries of every vector, predicted by its fold's directions."""
    loss, rank = np.zeros(len(Z)), len(variances)
    for p, (f, a, b) in enumerate(parts):
        A = gram[p, :rank, :rank].copy()
        for k in range(rank):
            A[k, k] += noise / variances[k]
        scores = _conjugate_gradients(A, known[a:b, :rank].copy(), _STEPS)
        fitted = np.dot(scores, directions[f, :rank])
        for i in range(a, b):
            for j in range(Z.shape[1]):
                loss[i] += (np.float32(1.0) - shown[p, j]) * (Z[i, j] - fitted[i - a, j]) ** 2
    return loss


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _conjugate_gradients(A, residual, steps):
    """Solve equations with one matrix, from 0; rows of `residual` are the right-hand sides."""
    count, rank = residual.shape
    scores, direction = np.zeros_like(residual), np.zeros_like(residual)
    squared = np.ones(count, np.float32)
    for _ in range(steps):
        for i in range(count):
            following = np.float32(0.0)
            for k in range(rank):
                following += residual[i, k] * residual[i, k] / A[k, k]
            ratio = following / max(squared[i], np.float32(1e-30))
            for k in range(rank):
                direction[i, k] = residual[i, k] / A[k, k] + ratio * direction[i, k]
            squared[i] = following
        along = np.dot(direction, A)
        for i in range(count):
            curvature = np.float32(0.0)
            for k in range(rank):
                curvature += along[i, k] * direction[i, k]
            length = squared[i] / max(curvature, np.float32(1e-30))
            for k in range(rank):
                scores[i, k] += length * direction[i, k]
                residual[i, k] -= length * along[i, k]
    return scores


@njit(cache=True, nogil=True, error_model="numpy")
def _predict(Z, ws, V, variances, steps):
    """Predict vectors from entries with weights over noise variances `ws`."""
    scores, fitted = np.zeros((len(Z), len(V)), np.float32), np.zeros_like(Z)
    precision, diagonal = np.float32(1.0) / variances, np.dot(ws, (V * V).T)
    posterior(Z, ws, V, precision, scores, fitted, steps, diagonal)
    return fitted


def _entry_noise(Z, directions, ends, variances, noise):
    """Noise of every entry relative to the typical one, from held-out vectors."""
    n, n_features = Z.shape
    even = np.ones(n_features, np.float32)
    ratio, spread = np.empty((2, *Z.shape), np.float32)
    for f, V in enumerate(directions):
        z, part = Z[ends[f] : ends[f + 1]], slice(ends[f], ends[f + 1])
        scores = (z @ V.T) * (variances / (variances + noise))
        ws = np.full_like(z, 1.0 / noise)
        leave_one_out(
            z, scores @ V, ws, V * V, 1.0 / variances, ws @ (V * V).T,
            np.full(len(z), noise), even, ratio[part], spread[part],
        )  # fmt: skip
    squares = np.sum(np.minimum(ratio, 25.0), axis=0, dtype=float)
    relative = (squares + 5.0) / (n + 5.0)  # as if five vectors had told it before
    return np.clip(relative / np.exp(np.mean(np.log(relative))), 0.02, 20.0).astype(np.float32)


def predicted(X, component):
    """Predict vectors from the entries that are seen, by the component fitted to all."""
    Z, seen = centred(X, component.mean)
    ws, steps = seen / np.float32(component.noise), max(component.rank, _STEPS)
    return _predict(Z, ws, component.directions[-1], component.variances, steps) + component.mean


def mean_outside(component, size, shift=0.0):
    """What of the mean, moved by `shift`, leaves the directions, and whether noise explains it not.

    A linear subspace has it as one more direction. The mean is that of `size` vectors.
    """
    directions, mean = component.directions[-1].astype(float), component.mean + shift
    outside = mean - directions.T @ (directions @ mean)
    explained = component.noise * len(mean) / max(size, 1)
    return outside, np.sum(outside**2) > _OUTSIDE * explained and component.rank < len(mean)
