r"""Fit a component of the model of clean vectors; everything but directions on held-out vectors.

One component says

.. math:: x = \mu + z V + e, \quad z_l \sim N(0, \lambda_l), \quad e_j \sim s \sqrt{\rho_j}\, t_4 .

The rows of V are principal directions of the clean vectors. Everything else is measured on vectors
held out in folds, which did not shape V: the variance :math:`\lambda_l` along every direction, the
noise :math:`\psi` (the typical :math:`s^2`) and its share :math:`\rho_j` per entry. The noise s of
a vector is its own. A union of exact subspaces is the limit of small :math:`\psi`.
"""

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
# Directions beyond the rank that are kept at most.
_FURTHER = 30
# Conjugate-gradient steps of that prediction.
_STEPS = 6
# Noise below this share of the mean variance of an entry is rounding of float32 products.
_RESOLUTION = 1e-6
# Entries of all folds that are worked on at once: they stay in the cache.
_FOLDS_AT_ONCE = 200_000
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
        shown = (rng.random((n, n_features)) < _SHOWN).astype(np.float32)[order]
        rank = _choose_rank(Z, shown, directions, ends, variances, noises, floor)
    rank = min(rank, most)
    noise = noises[rank - 1]
    variances = np.maximum(variances[:rank], 1.001 * noise).astype(np.float32)
    # Those that follow tell what clean vectors leave over; most of them would hold anything.
    last = min(rank + min(_FURTHER, (n_features - rank) // 4), most)
    further, directions = directions[:, rank:last], np.ascontiguousarray(directions[:, :rank])
    entry_noise = _entry_noise(Z, directions, ends, variances, np.float32(noise))
    mean = X.mean(axis=0)
    whole = principal_directions(X - mean, last).astype(np.float32)
    component = Component(
        np.vstack([means, mean]), np.concatenate([directions, whole[None, :rank]]),
        np.concatenate([further, whole[None, rank:]]), folds, variances, noise, entry_noise,
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
    """First principal directions of the rows of every matrix, as rows; zeros beyond its rank."""
    n, n_features = Z.shape[-2:]
    wide = n <= n_features
    values, vectors = np.linalg.eigh(Z @ _transposed(Z) if wide else _transposed(Z) @ Z)
    values, vectors = values[..., ::-1][..., :rank], _transposed(vectors[..., ::-1][..., :rank])
    kept = values > 1e-12 * np.maximum(values[..., :1], 1e-300)
    scale = np.where(kept, 1.0 / np.sqrt(np.where(kept, values, 1.0)) if wide else 1.0, 0.0)
    found = scale[..., None] * (vectors @ Z if wide else vectors)
    if found.shape[-2] < rank:
        padding = [(0, 0)] * (Z.ndim - 2) + [(0, rank - found.shape[-2]), (0, 0)]
        found = np.pad(found, padding)
    return found


def _hold_out(X, folds, rank):
    """Fits without each fold; mean squares of held-out vectors along directions, and in all."""
    n, n_features = X.shape
    kept = (folds != np.arange(folds.max() + 1)[:, None]).astype(float)[..., None]
    means = (kept * X).sum(axis=1, keepdims=True) / kept.sum(axis=1, keepdims=True)
    directions = np.empty((len(kept), rank, n_features), np.float32)
    scores, total = np.zeros(rank), 0.0
    # All folds at once: held-out vectors are rows of zeros, which change no direction.
    size = max(_FOLDS_AT_ONCE // (n * n_features), 1)
    for start in range(0, len(kept), size):
        part = slice(start, start + size)
        deviations = X - means[part]
        found = principal_directions(kept[part] * deviations, rank)
        directions[part] = found
        deviations *= 1.0 - kept[part]
        scores += np.sum((deviations @ _transposed(found)) ** 2, axis=(0, 1))
        total += np.sum(deviations**2)
    return means[:, 0], directions, scores / n, total / n


def _choose_rank(Z, shown, directions, ends, variances, noises, floor):
    """Smallest rank whose prediction of hidden entries is nearly as good as the best.

    Vectors are sorted by fold, `ends` says where each begins and ends.
    """
    squares: dict[int, np.ndarray] = {}

    def loss(rank):
        """Squared error of the hidden entries of every vector."""
        if rank not in squares:
            noise = np.float32(noises[rank - 1])
            prior = np.maximum(variances[:rank], 1.001 * noise).astype(np.float32)
            squares[rank] = _hidden_loss(Z, shown, directions, ends, prior, noise)
        return squares[rank]

    rounding = floor * np.sum(1.0 - shown, dtype=float)
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
def _hidden_loss(Z, shown, directions, ends, variances, noise):
    """Squared error of the hidden entries of every vector, predicted by its fold's directions."""
    loss, rank = np.zeros(len(Z)), len(variances)
    for f in range(len(directions)):
        z, own = Z[ends[f] : ends[f + 1]], shown[ends[f] : ends[f + 1]]
        fitted = _predict(z, own / noise, directions[f, :rank].copy(), variances, _STEPS)
        for i in range(len(z)):
            for j in range(Z.shape[1]):
                loss[ends[f] + i] += (np.float32(1.0) - own[i, j]) * (z[i, j] - fitted[i, j]) ** 2
    return loss


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


def _transposed(A):
    return A.swapaxes(-1, -2)
