r"""The model of clean vectors: a mixture of low-rank Gaussians, judged on vectors held out.

One component says

.. math:: x = \mu + z V + e, \quad z_l \sim N(0, \lambda_l), \quad e_j \sim s \sqrt{\rho_j}\, t_4 .

The rows of V are principal directions of the clean vectors. Everything else is measured on vectors
held out in folds, which did not shape V: the variance :math:`\lambda_l` along every direction, the
noise :math:`\psi` (the typical :math:`s^2`) and its share :math:`\rho_j` per entry. The noise s of
a vector is its own. A union of exact subspaces is the limit of small :math:`\psi`.

Two explanations of an observed vector are compared:

- **in place**: nothing moved. Every entry is predicted from all the others, and the sum of the
  log-densities (the pseudo-likelihood) says how well.
- **moved**: an entry is in place with probability 1 − q, or it is drawn from the values of its
  vector. EM over z and the in-place probabilities, with the noise annealed from a quarter of the
  vector's variance down to :math:`\psi`: it starts from a blurred view that excludes nothing.

All vectors are worked on at once in float32, as products of matrices; a leading axis holds the
folds. Missing entries (NaN) have weight zero in both.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln
from sklearn.isotonic import isotonic_regression

__all__ = [
    "Component",
    "Moved",
    "View",
    "fit_component",
    "in_place",
    "mean_outside",
    "moved",
    "pad",
    "predicted",
    "value_density",
]

# Degrees of freedom of the noise: tails that forgive a few odd entries of a clean vector.
_TAILS = np.float32(4.0)
_LOG_T = float(gammaln(2.5) - gammaln(2.0) - 0.5 * np.log(4.0 * np.pi))
# Folds of a component with enough vectors; a small one is held out in smaller parts, so that the
# fit without a part is nearly that of the whole.
_FOLDS, _SMALL = 5, 1000
# Most directions of a component, and the sizes between 1 and it that are tried.
_MAX_RANK, _RANKS_TRIED = 150, 12
# Share of the entries of held-out vectors that predict the hidden rest, and the relative excess of
# the squared error at which a smaller rank is preferred; one standard error also is no difference.
_SHOWN, _RANK_LOSS = 0.6, 0.02
# Noise below this share of the mean variance of an entry is rounding of float32 products.
_RESOLUTION = 1e-6
# Entries of all folds that are worked on at once.
_FOLDS_AT_ONCE = 4_000_000
# Weight, in entries, of the typical noise when that of one vector is estimated.
_PRIOR_ENTRIES = np.float32(10.0)
# A mean that leaves the directions by more than this many times what noise explains is one of them.
_OUTSIDE = 4.0
# Iterations of the two explanations, and conjugate-gradient steps in each.
_STEADY, _STEADY_STEPS = 4, 3


class View(NamedTuple):
    """A component as fitted without certain vectors; the leading axis counts the folds.

    Attributes
    ----------
    mean : ndarray of shape (n_folds, 1, n_features)
    directions : ndarray of shape (n_folds, rank, n_features)
    """

    mean: np.ndarray
    directions: np.ndarray


@dataclass(frozen=True)
class Component:
    """One low-rank Gaussian.

    Attributes
    ----------
    whole : View
        Fitted to all members.
    held_out : View
        Fitted without each fold of them.
    folds : ndarray of shape (n_members,)
        The fold of every member.
    variances : ndarray of shape (rank,)
        Along every direction, of held-out vectors.
    noise : float
        Typical squared scale of the noise of an entry.
    entry_noise : ndarray of shape (n_features,)
        The noise of every entry relative to it.
    """

    whole: View
    held_out: View
    folds: np.ndarray
    variances: np.ndarray
    noise: float
    entry_noise: np.ndarray

    @property
    def rank(self):
        """Number of directions."""
        return len(self.variances)


class Moved(NamedTuple):
    """What the explanation "some entries moved" says of vectors.

    Attributes
    ----------
    fitted : ndarray
        The vectors it predicts.
    staying : ndarray
        Probability that an entry is in place.
    likelihood : ndarray
        Log-likelihood of every vector.
    share : ndarray
        Share of the entries that moved.
    variance : ndarray
        Of the prediction of every entry, noise included.
    """

    fitted: np.ndarray
    staying: np.ndarray
    likelihood: np.ndarray
    share: np.ndarray
    variance: np.ndarray


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
    held_out, scores, total = _hold_out(X, folds, most)
    floor = _RESOLUTION * total / n_features + 1e-12
    variances = np.maximum(isotonic_regression(scores, increasing=False), floor)
    left = n_features - np.arange(1, most + 1)
    noises = np.maximum((total - np.cumsum(scores)) / np.maximum(left, 1), floor)
    rows, real = pad([np.flatnonzero(folds == f) for f in range(folds.max() + 1)])
    centred_X = (X[rows] - held_out.mean).astype(np.float32)
    shown = (rng.random((n, n_features)) < _SHOWN)[rows]
    if rank is None:
        rank = _choose_rank(centred_X, shown, real, held_out, variances, noises, floor)
    rank = min(rank, most)
    noise = noises[rank - 1]
    variances = np.maximum(variances[:rank], 1.001 * noise).astype(np.float32)
    held_out = View(held_out.mean, np.ascontiguousarray(held_out.directions[:, :rank]))
    entry_noise = _entry_noise(centred_X, real, held_out, variances, noise)
    mean = X.mean(axis=0)
    directions = principal_directions(X - mean, rank).astype(np.float32)
    component = Component(
        View(mean[None, None], directions[None]), held_out, folds, variances, noise, entry_noise
    )
    own = in_place(X[rows], held_out, component)[1][real]
    noise = max(float(own.mean()), 0.05 * noise)
    return Component(component.whole, held_out, folds, variances, noise, entry_noise)


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


def pad(groups):
    """Index lists as one array, shorter ones padded by their last index; and which are real."""
    longest = max(len(group) for group in groups)
    rows = np.array([np.r_[g, np.full(longest - len(g), g[-1])] for g in groups], dtype=np.int64)
    return rows, np.arange(longest)[None] < np.array([len(g) for g in groups])[:, None]


def _hold_out(X, folds, rank):
    """Views without each fold; mean squares of held-out vectors along directions, and in all."""
    n, n_features = X.shape
    kept = (folds != np.arange(folds.max() + 1)[:, None]).astype(float)[..., None]
    means = (kept * X).sum(axis=1, keepdims=True) / kept.sum(axis=1, keepdims=True)
    V = np.empty((len(kept), rank, n_features), np.float32)
    scores, total = np.zeros(rank), 0.0
    # All folds at once: held-out vectors are rows of zeros, which change no direction.
    size = max(_FOLDS_AT_ONCE // (n * n_features), 1)
    for start in range(0, len(kept), size):
        part = slice(start, start + size)
        centred = X - means[part]
        found = principal_directions(kept[part] * centred, rank)
        V[part] = found
        centred *= 1.0 - kept[part]
        scores += np.sum((centred @ _transposed(found)) ** 2, axis=(0, 1))
        total += np.sum(centred**2)
    return View(means, V), scores / n, total / n


def _choose_rank(Z, shown, real, view, variances, noises, floor):
    """Smallest rank whose prediction of hidden entries is nearly as good as the best."""
    hidden, weights = ~shown & real[..., None], shown.astype(np.float32)
    squares = {}

    def loss(rank):
        """Squared error of the hidden entries of every vector."""
        if rank not in squares:
            noise, V = noises[rank - 1], view.directions[:, :rank]
            precision = (1.0 / np.maximum(variances[:rank], 1.001 * noise)).astype(np.float32)
            _, predicted = _posterior(Z, weights * np.float32(1.0 / noise), V, precision, steps=6)
            error = np.where(hidden, Z - predicted, 0.0)
            squares[rank] = np.sum(error * error, axis=-1, dtype=float)[real]
        return squares[rank]

    rounding = floor * np.sum(hidden)
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


def _entry_noise(Z, real, view, variances, noise):
    """Noise of every entry relative to the typical one, from held-out vectors."""
    noise = np.float32(noise)
    scores = (Z @ _transposed(view.directions)) * (variances / (variances + noise))
    weights = np.full_like(Z, 1.0 / noise)
    error, variance, _ = _leave_one_out(
        Z, scores @ view.directions, weights, view.directions**2, 1.0 / variances, noise
    )
    squares = np.sum(np.minimum(error**2 / variance, 25.0) * real[..., None], axis=(0, 1))
    n = real.sum()
    ratio = (squares + 5.0) / (n + 5.0)  # as if five vectors had told it before
    return np.clip(ratio / np.exp(np.mean(np.log(ratio))), 0.02, 20.0).astype(np.float32)


def in_place(Y, view, component):
    """Judge vectors as they stand.

    Parameters
    ----------
    Y : ndarray of shape (n_folds, n_vectors, n_features)
        NaN where missing.
    view : View
        Of the component, without these vectors.
    component : Component

    Returns
    -------
    likelihood, noise, peak : ndarray of shape (n_folds, n_vectors)
        Log pseudo-likelihood of nothing having moved, the squared noise scale of the vector, and
        its largest squared error in that scale.
    """
    Z, seen = _centred(Y, view.mean)
    V, precision, typical = view.directions, 1.0 / component.variances, np.float32(component.noise)
    squares, rho = V**2, component.entry_noise
    scores = (Z @ _transposed(V)) * (component.variances / (component.variances + typical))
    fitted = scores @ V
    s2 = np.full((*Z.shape[:-1], 1), typical, np.float32)
    weights = np.ones_like(Z) if seen is None else seen
    for _ in range(_STEADY):
        variance = s2 * rho
        ws = weights / variance
        diagonal = ws @ _transposed(squares)
        scores, fitted = _posterior(
            Z, ws, V, precision, scores, fitted, steps=_STEADY_STEPS, diagonal=diagonal
        )
        error, spread, _ = _leave_one_out(Z, fitted, ws, squares, precision, variance, diagonal)
        e2 = error * error / spread * s2
        for _ in range(3):
            s2 = _own_noise(e2, s2, typical, seen)
        weights = 1.0 / (1.0 + e2 / (_TAILS * s2))
        if seen is not None:
            weights *= seen
    variance = s2 * rho
    error, spread, _ = _leave_one_out(Z, fitted, weights / variance, squares, precision, variance)
    squares = error * error / spread
    density = _LOG_T - 0.5 * np.log(spread) - 2.5 * np.log1p(squares / _TAILS)
    if seen is not None:
        density *= seen
        squares *= seen
    return density.sum(axis=-1, dtype=float), s2[..., 0].astype(float), squares.max(axis=-1)


def predicted(X, component):
    """Predict vectors from the entries that are seen, by the component fitted to all."""
    view = component.whole
    Z, seen = _centred(X[None], view.mean)
    weights = (np.ones_like(Z) if seen is None else seen) / np.float32(component.noise)
    precision = 1.0 / component.variances
    _, fitted = _posterior(Z, weights, view.directions, precision, steps=max(component.rank, 6))
    return (fitted + view.mean)[0]


def mean_outside(component, size, shift=0.0):
    """What of the mean, moved by `shift`, leaves the directions, and whether noise explains it not.

    A linear subspace has it as one more direction. The mean is that of `size` vectors.
    """
    directions, mean = component.whole.directions[0].astype(float), component.whole.mean[0, 0]
    mean = mean + shift
    outside = mean - directions.T @ (directions @ mean)
    explained = component.noise * len(mean) / max(size, 1)
    return outside, np.sum(outside**2) > _OUTSIDE * explained and component.rank < len(mean)


def moved(Y, view, component, density, *, iterations, anneal, steps, weights=None):
    """Explain vectors by entries that moved; returns a :class:`Moved`.

    Parameters
    ----------
    Y : ndarray of shape (n_folds, n_vectors, n_features)
        NaN where missing.
    view : View
    component : Component
    density : ndarray, same shape
        Density of every value among the values of its vector, divided by that of t at 0.
    iterations, anneal, steps : int
        EM iterations, those in which the noise is lowered, conjugate-gradient steps in each.
    weights : ndarray, default=None
        Probabilities of being in place to start from.
    """
    Z, seen = _centred(Y, view.mean)
    V, precision, typical = view.directions, 1.0 / component.variances, np.float32(component.noise)
    squares, rho = V**2, component.entry_noise
    count = _sum(np.ones_like(Z) if seen is None else seen)
    mean = _sum(Z) / count
    hottest = np.maximum(np.float32(0.25) * (_dot(Z, Z) / count - mean * mean), typical)
    own, share = np.full_like(hottest, typical), np.full_like(hottest, 0.3)
    weights = np.full_like(Z, 0.7) if weights is None else weights.astype(np.float32)
    if seen is not None:
        weights = weights * seen
    scores = fitted = None
    for step in range(iterations):
        heat = np.float32(max(0.0, 1.0 - step / anneal)) if anneal else np.float32(0.0)
        s2 = own * (hottest / typical) ** heat
        variance = s2 * rho ** (1 - heat)
        ws = weights / variance
        diagonal = ws @ _transposed(squares)
        scores, fitted = _posterior(
            Z, ws, V, precision, scores, fitted, steps=steps, diagonal=diagonal
        )
        error, spread, uncertain = _leave_one_out(
            Z, fitted, ws, squares, precision, variance, diagonal
        )
        error *= error
        error /= spread
        tail = 1 + error / _TAILS
        fits = (1 - share) / (np.sqrt(spread * tail) * tail * tail)  # t density with ν = 4
        foreign = share * density + np.float32(1e-30)
        staying = fits / (fits + foreign)
        if seen is not None:
            staying *= seen
        if step == iterations - 1:
            logs = np.log(fits + foreign)
            logs = logs if seen is None else logs * seen
            likelihood = logs.sum(axis=-1, dtype=float) + _LOG_T * count[..., 0]
        share = np.clip(1 - _sum(staying) / count, np.float32(1e-3), np.float32(0.9))
        weights = staying / tail
        if heat < 0.3:
            own = np.minimum(_own_noise(error * s2, s2, typical, staying), hottest)
    return Moved(
        fitted + view.mean, staying, likelihood, share[..., 0],
        uncertain + variance,
    )  # fmt: skip


def value_density(Y):
    """Density of every value among the values of its vector, divided by that of t at 0.

    A histogram of 96 bins smoothed by a normal kernel (Silverman's width).
    """
    n_bins = 96
    seen = ~np.isnan(Y)
    count = np.maximum(seen.sum(axis=1), 1)
    lowest = np.where(seen, Y, np.inf).min(axis=1)
    width = np.maximum(np.where(seen, Y, -np.inf).max(axis=1) - lowest, 1e-12) / n_bins
    filled = np.where(seen, Y, lowest[:, None])
    bins = np.clip(((filled - lowest[:, None]) / width[:, None]).astype(int), 0, n_bins - 1)
    places = (np.arange(len(Y))[:, None] * n_bins + bins).ravel()
    histogram = np.bincount(places, seen.ravel() / np.repeat(count, Y.shape[1]), len(Y) * n_bins)
    histogram = histogram.reshape(len(Y), n_bins)
    spread = np.sqrt(np.maximum(np.nanvar(np.where(seen, Y, np.nan), axis=1), 0.0))
    bandwidth = np.maximum(1.06 * spread * count**-0.2 / width, 0.6).round(1)
    offsets = (np.arange(n_bins)[:, None] - np.arange(n_bins)) ** 2
    out = np.empty(Y.shape, np.float32)
    for h in np.unique(bandwidth):
        rows = bandwidth == h
        kernel = np.exp(-0.5 * offsets / h**2) / (h * np.sqrt(2 * np.pi))
        smooth = np.take_along_axis(histogram[rows] @ kernel, bins[rows], axis=1)
        out[rows] = smooth / width[rows, None] / np.exp(_LOG_T)
    return out


def _centred(Y, mean):
    """Vectors less their mean, in float32 with zeros where missing; and which entries are seen."""
    Z = Y - mean
    missing = np.isnan(Z)
    if not missing.any():
        return Z.astype(np.float32), None
    return np.where(missing, 0.0, Z).astype(np.float32), (~missing).astype(np.float32)


def _posterior(Z, ws, V, precision, scores=None, fitted=None, *, steps, diagonal=None):
    """Posterior mean of the scores, and the vectors they give; conjugate gradients from there.

    ``ws`` are weights over noise variances; ``diagonal`` is their product with the squared
    directions, which also preconditions.
    """
    if diagonal is None:
        diagonal = ws @ _transposed(V * V)
    scale, Vt = 1.0 / (precision + diagonal), _transposed(V)
    if fitted is None:
        residual = (ws * Z) @ Vt
        fitted = scores = np.float32(0.0)
    else:
        residual = (ws * (Z - fitted)) @ Vt - precision * scores
    direction = scale * residual
    squared = _dot(residual, direction)
    for step in range(steps):
        along = direction @ V
        weighted = ws * along
        curvature = _dot(precision * direction, direction) + _dot(weighted, along)
        length = squared / np.maximum(curvature, 1e-30)
        scores = scores + length * direction
        fitted = fitted + length * along
        if step == steps - 1:
            break
        residual = residual - length * (precision * direction + weighted @ Vt)
        preconditioned = scale * residual
        following = _dot(residual, preconditioned)
        direction = preconditioned + following / np.maximum(squared, 1e-30) * direction
        squared = following
    return scores, fitted


def _leave_one_out(Z, fitted, ws, squares, precision, variance, diagonal=None):
    """Error of every entry predicted from the others, its variance, and that of the fit.

    With leverage h the error without the entry is the residual divided by 1 − h; the posterior
    covariance of the scores is taken for diagonal.
    """
    if diagonal is None:
        diagonal = ws @ _transposed(squares)
    uncertain = (1.0 / (precision + diagonal)) @ squares
    rest = np.clip(1 - ws * uncertain, np.float32(0.05), np.float32(1.0))
    return (Z - fitted) / rest, variance + uncertain / rest, uncertain


def _own_noise(e2, s2, typical, weights=None):
    """One step of the noise of every vector: robust mean of squares, drawn to the typical one."""
    robust = (_TAILS + 1) / (_TAILS + e2 / s2)
    if weights is None:
        total, count = _dot(robust, e2), np.float32(e2.shape[-1])
    else:
        total, count = _dot(weights * robust, e2), _sum(weights)
    mean = (total + _PRIOR_ENTRIES * typical) / (count + _PRIOR_ENTRIES)
    return np.maximum(mean, 0.25 * typical).astype(np.float32)


def _transposed(A):
    return A.swapaxes(-1, -2)


def _sum(A):
    return A.sum(axis=-1, keepdims=True)


def _dot(A, B):
    return np.einsum("...j,...j->...", A, B)[..., None]
