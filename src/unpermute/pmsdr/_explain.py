r"""Two explanations of an observed vector by a component: in place, or some entries moved.

One component of the model of clean vectors says

.. math:: x = \mu + z V + e, \quad z_l \sim N(0, \lambda_l), \quad e_j \sim s \sqrt{\rho_j}\, t_4 .

- **In place**: nothing moved. Every entry is predicted from all the others, and the sum of the
  log-densities (the pseudo-likelihood) says how well.
- **Moved**: an entry is in place with probability 1 − q, or it is drawn from the values of its
  vector. EM over z and the in-place probabilities, with the noise annealed from a quarter of the
  vector's variance down to the typical noise: it starts from a blurred view that excludes nothing.

The posterior mean of z is found by conjugate gradients, all vectors of a block at once in float32:
products of matrices by BLAS, and everything between two products in one pass of a kernel. Missing
entries (NaN) have weight zero in both.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.special import gammaln

__all__ = [
    "Component",
    "Moved",
    "Standing",
    "centred",
    "in_place",
    "leave_one_out",
    "moved",
    "posterior",
    "value_density",
]

# Degrees of freedom of the noise: tails that forgive a few odd entries of a clean vector.
_TAILS = np.float32(4.0)
_LOG_T = float(gammaln(2.5) - gammaln(2.0) - 0.5 * np.log(4.0 * np.pi))
# Weight, in entries, of the typical noise when that of one vector is estimated, and the share of
# the typical noise that it does not fall below.
_PRIOR_ENTRIES, _LEAST_NOISE = np.float32(10.0), np.float32(0.25)
# Rounds of reweighting of a vector in place, and conjugate-gradient steps in each.
_ROUNDS, _STEPS = 4, 3
# An entry keeps this share of its residual at least, however large its leverage.
_LEAST_REST = np.float32(0.05)
# Shares of moved entries to begin with, and the bounds of the estimate.
_FIRST_SHARE, _LEAST_SHARE, _MOST_MOVED = np.float32(0.3), np.float32(1e-3), np.float32(0.9)
# Heat below which the noise of a vector is estimated: before, everything looks like noise.
_WARM = 0.3
# Bins of the values of a vector.
_BINS = 96
_ONE, _TINY = np.float32(1.0), np.float32(1e-30)
# Sums may be reordered, but infinities stay what they are: an enormous entry is just unlikely.
_FAST = {"reassoc", "contract", "arcp", "nsz"}


@dataclass(frozen=True)
class Component:
    """One low-rank Gaussian.

    Attributes
    ----------
    means : ndarray of shape (n_folds + 1, n_features)
        Fitted without each fold of the members; the last one to all of them.
    directions : ndarray of float32 of shape (n_folds + 1, rank, n_features)
        Likewise.
    folds : ndarray of int of shape (n_members,)
        The fold of every member.
    variances : ndarray of float32 of shape (rank,)
        Along every direction, of held-out vectors.
    noise : float
        Typical squared scale of the noise of an entry.
    entry_noise : ndarray of float32 of shape (n_features,)
        The noise of every entry relative to it.
    """

    means: np.ndarray
    directions: np.ndarray
    folds: np.ndarray
    variances: np.ndarray
    noise: float
    entry_noise: np.ndarray

    @property
    def rank(self):
        """Number of directions."""
        return len(self.variances)

    @property
    def mean(self):
        """Mean of all members."""
        return self.means[-1]


class Standing(NamedTuple):
    """What a component says of vectors as they stand.

    Attributes
    ----------
    likelihood : ndarray
        Log pseudo-likelihood of nothing having moved.
    noise : ndarray
        Squared noise scale of the vector.
    peak : ndarray
        Largest squared error of an entry in that scale.
    """

    likelihood: np.ndarray
    noise: np.ndarray
    peak: np.ndarray


class Moved(NamedTuple):
    """What the explanation "some entries moved" says of vectors.

    Attributes
    ----------
    fitted : ndarray of shape (n_vectors, n_features)
        The vectors it predicts.
    staying : ndarray of shape (n_vectors, n_features)
        Probability that an entry is in place.
    likelihood : ndarray of shape (n_vectors,)
        Log-likelihood of every vector.
    share : ndarray of shape (n_vectors,)
        Share of the entries that moved.
    variance : ndarray of shape (n_vectors, n_features)
        Of the prediction of every entry, noise included.
    """

    fitted: np.ndarray
    staying: np.ndarray
    likelihood: np.ndarray
    share: np.ndarray
    variance: np.ndarray


def in_place(Y, component, folds):
    """Judge vectors as they stand; returns a :class:`Standing`.

    Parameters
    ----------
    Y : ndarray of shape (n_vectors, n_features)
        NaN where missing.
    component : Component
    folds : ndarray of int of shape (n_vectors,)
        The fold of every vector; −1: it did not shape the component.
    """
    order, runs, Z, seen = _by_fold(Y, component, folds)
    found = np.empty((3, len(Y)))
    _in_place_by_fold(
        Z, seen, runs, component.directions, component.variances, np.float32(component.noise),
        component.entry_noise, order, found,
    )  # fmt: skip
    return Standing(*found)


def moved(Y, component, folds, density, *, iterations, anneal, steps, weights=None):
    """Explain vectors by entries that moved; returns a :class:`Moved`.

    Parameters
    ----------
    Y : ndarray of shape (n_vectors, n_features)
        NaN where missing.
    component : Component
    folds : ndarray of int of shape (n_vectors,)
        The fold of every vector; −1: it did not shape the component.
    density : ndarray of float32 of shape (n_vectors, n_features)
        Density of every value among the values of its vector, divided by that of t at 0.
    iterations, anneal, steps : int
        EM iterations, those in which the noise is lowered, conjugate-gradient steps in each.
    weights : ndarray, default=None
        Probabilities of being in place to start from.
    """
    order, runs, Z, seen = _by_fold(Y, component, folds)
    weights = seen * np.float32(0.7) if weights is None else weights[order] * seen
    entries, numbers = np.empty((3, *Z.shape), np.float32), np.empty((2, len(Z)))
    _moved_by_fold(
        Z, seen, runs, component.directions, component.variances, np.float32(component.noise),
        component.entry_noise, density[order], weights.astype(np.float32), iterations, anneal,
        steps, order, entries, numbers,
    )  # fmt: skip
    fitted, staying, variance = entries
    likelihood, share = numbers
    return Moved(fitted + component.means[folds], staying, likelihood, share, variance)


def _by_fold(Y, component, folds):
    """Vectors sorted by fold: their order, runs (fold, first, last), centred values, which seen."""
    order = np.argsort(folds, kind="stable")
    each = folds[order]
    first = np.flatnonzero(np.diff(each, prepend=-2))  # folds are numbered from −1 on
    runs = np.stack([each[first], first, np.append(first, len(each))[1:]], axis=1)
    return order, runs, *centred(Y[order], component.means[each])


def value_density(Y):
    """Density of every value among the values of its vector, divided by that of t at 0.

    A histogram of 96 bins smoothed by a normal kernel (Silverman's width).
    """
    density = np.zeros(Y.shape, np.float32)
    _value_density(Y, density)
    return density


def centred(Y, mean):
    """Vectors less their mean in float32, zeros where missing; and which entries are seen."""
    Z = (Y - mean).astype(np.float32)
    seen = ~np.isnan(Z)
    return np.where(seen, Z, np.float32(0.0)), seen.astype(np.float32)


@njit(cache=True, nogil=True, error_model="numpy")
def _value_density(Y, density):
    """Write the densities of the values of every vector; zeros where missing."""
    smooth = np.empty(_BINS, np.float32)
    for i in range(len(Y)):
        seen = np.flatnonzero(~np.isnan(Y[i]))
        if len(seen) == 0:
            continue
        y = Y[i][seen]
        lowest = y.min()
        width = max(y.max() - lowest, 1e-12) / _BINS
        bins = np.minimum(((y - lowest) / width).astype(np.int64), _BINS - 1)
        histogram = np.bincount(bins, minlength=_BINS).astype(np.float32)
        # Of bins; rounded, since the density need not be exact.
        h = round(max(1.06 * np.std(y) * len(y) ** -0.2 / width, 0.6), 1)
        kernel = np.exp(-0.5 * (np.arange(1 - _BINS, _BINS) / h) ** 2).astype(np.float32)
        kernel /= len(y) * width * h * math.sqrt(2.0 * math.pi) * math.exp(_LOG_T)
        _smooth(histogram, kernel, smooth)
        for j in range(len(seen)):
            density[i, seen[j]] = smooth[bins[j]]


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def _smooth(histogram, kernel, smooth):
    """Convolve a histogram with a symmetric kernel; writes the last argument."""
    n_bins = len(histogram)
    smooth[:] = 0.0
    for b in range(n_bins):
        if histogram[b] > 0.0:
            for k in range(n_bins):
                smooth[k] += histogram[b] * kernel[n_bins - 1 - b + k]


@njit(cache=True, nogil=True, error_model="numpy")
def _in_place_by_fold(Z, seen, runs, directions, variances, typical, rho, order, found):
    """Judge vectors sorted by fold; writes the last argument, in the order of the vectors."""
    for f, a, b in runs:
        own = _in_place(Z[a:b], seen[a:b], directions[f], variances, typical, rho)
        for i in range(a, b):
            for k in range(3):
                found[k, order[i]] = own[k][i - a]


@njit(cache=True, nogil=True, error_model="numpy")
def _moved_by_fold(
    Z, seen, runs, directions, variances, typical, rho, density, weights, iterations, anneal, steps,
    order, entries, numbers,
):  # fmt: skip
    """Explain vectors sorted by fold; writes the last two arguments, in their order."""
    for f, a, b in runs:
        fitted, staying, likelihood, share, variance = _moved(
            Z[a:b], seen[a:b], directions[f], variances, typical, rho, density[a:b], weights[a:b],
            iterations, anneal, steps,
        )  # fmt: skip
        for i in range(a, b):
            j, own = order[i], i - a
            entries[0, j], entries[1, j], entries[2, j] = fitted[own], staying[own], variance[own]
            numbers[0, j], numbers[1, j] = likelihood[own], share[own]


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def _in_place(Z, seen, V, variances, typical, rho):
    """Likelihood, squared noise scale and largest squared error of vectors as they stand."""
    n, n_features = Z.shape
    squares, precision = V * V, _ONE / variances
    scores = np.dot(Z, V.T) * (variances / (variances + typical))
    fitted = np.dot(scores, V)
    s2, weights = np.full(n, typical), seen.copy()
    ws, ratio, spread = np.empty_like(Z), np.empty_like(Z), np.empty_like(Z)
    for step in range(_ROUNDS + 1):
        _divide(weights, s2, rho, ws)
        diagonal = np.dot(ws, squares.T)
        if step < _ROUNDS:
            posterior(Z, ws, V, precision, scores, fitted, _STEPS, diagonal)
        leave_one_out(Z, fitted, ws, squares, precision, diagonal, s2, rho, ratio, spread)
        if step == _ROUNDS:
            break
        for i in range(n):
            before = s2[i]
            for _ in range(3):
                s2[i] = _own_noise(ratio[i], before, seen[i], s2[i], typical)
            relative = before / (_TAILS * s2[i])
            for j in range(n_features):
                weights[i, j] = seen[i, j] / (_ONE + relative * ratio[i, j])
    likelihood, noise, peak = np.zeros(n), np.empty(n), np.empty(n)
    for i in range(n):
        largest = np.float32(0.0)
        for j in range(n_features):
            tail = np.float64(_ONE + ratio[i, j] / _TAILS)
            density = _LOG_T - 0.5 * np.log(spread[i, j] * tail * tail * tail * tail * tail)
            likelihood[i] += seen[i, j] * density
            largest = max(largest, seen[i, j] * ratio[i, j])
        noise[i], peak[i] = s2[i], largest
    return likelihood, noise, peak


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def _moved(Z, seen, V, variances, typical, rho, density, weights, iterations, anneal, steps):
    """EM of the explanation "some entries moved"; changes `weights`."""
    n, n_features = Z.shape
    squares, precision = V * V, _ONE / variances
    scores, fitted = np.zeros((n, len(V)), np.float32), np.zeros_like(Z)
    count, hottest = _largest_noise(Z, seen, typical)
    own, share = np.full(n, typical), np.full(n, _FIRST_SHARE)
    s2, staying, likelihood = np.empty(n, np.float32), np.empty_like(Z), np.zeros(n)
    ws, ratio, spread = np.empty_like(Z), np.empty_like(Z), np.empty_like(Z)
    cooled, uncertain = rho, ws
    for step in range(iterations):
        heat = np.float32(max(0.0, 1.0 - step / anneal)) if anneal > 0 else np.float32(0.0)
        for i in range(n):
            s2[i] = own[i] * (hottest[i] / typical) ** heat
        cooled = rho ** (_ONE - heat)
        _divide(weights, s2, cooled, ws)
        diagonal = np.dot(ws, squares.T)
        posterior(Z, ws, V, precision, scores, fitted, steps, diagonal)
        uncertain = leave_one_out(
            Z, fitted, ws, squares, precision, diagonal, s2, cooled, ratio, spread
        )
        last = step == iterations - 1
        for i in range(n):
            in_order, total = _ONE - share[i], np.float32(0.0)
            for j in range(n_features):
                tail = _ONE + ratio[i, j] / _TAILS
                fits = in_order / (np.sqrt(spread[i, j] * tail) * tail * tail)  # t with ν = 4
                foreign = share[i] * density[i, j] + _TINY
                staying[i, j] = seen[i, j] * fits / (fits + foreign)
                weights[i, j] = staying[i, j] / tail
                total += staying[i, j]
                if last:
                    likelihood[i] += seen[i, j] * (np.log(np.float64(fits + foreign)) + _LOG_T)
            share[i] = min(max(_ONE - total / count[i], _LEAST_SHARE), _MOST_MOVED)
            if heat < _WARM:
                found = _own_noise(ratio[i], s2[i], staying[i], s2[i], typical)
                own[i] = min(found, hottest[i])
    for i in range(n):
        for j in range(n_features):
            uncertain[i, j] += s2[i] * cooled[j]
    return fitted, staying, likelihood, share, uncertain


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def posterior(Z, ws, V, precision, scores, fitted, steps, diagonal):
    """Move scores, and the vectors they give, to the posterior mean; changes both.

    Conjugate gradients from where they are. ``ws`` are weights over noise variances;
    ``diagonal`` is their product with the squared directions, which preconditions.
    """
    n, n_features = Z.shape
    rank = len(precision)
    weighted, squared = np.empty_like(Z), np.empty(n, np.float32)
    for i in range(n):
        for j in range(n_features):
            weighted[i, j] = ws[i, j] * (Z[i, j] - fitted[i, j])
    residual = np.dot(weighted, V.T)
    direction = np.empty_like(residual)
    for i in range(n):
        squared[i] = np.float32(0.0)
        for k in range(rank):
            residual[i, k] -= precision[k] * scores[i, k]
            direction[i, k] = residual[i, k] / (precision[k] + diagonal[i, k])
            squared[i] += residual[i, k] * direction[i, k]
    for step in range(steps):
        along = np.dot(direction, V)
        lengths = np.empty(n, np.float32)
        for i in range(n):
            curvature = np.float32(0.0)
            for j in range(n_features):
                weighted[i, j] = ws[i, j] * along[i, j]
                curvature += weighted[i, j] * along[i, j]
            for k in range(rank):
                curvature += precision[k] * direction[i, k] * direction[i, k]
            length = squared[i] / max(curvature, _TINY)
            for j in range(n_features):
                fitted[i, j] += length * along[i, j]
            for k in range(rank):
                scores[i, k] += length * direction[i, k]
            lengths[i] = length
        if step == steps - 1:
            break
        back = np.dot(weighted, V.T)
        for i in range(n):
            following = np.float32(0.0)
            for k in range(rank):
                residual[i, k] -= lengths[i] * (precision[k] * direction[i, k] + back[i, k])
                scaled = residual[i, k] / (precision[k] + diagonal[i, k])
                following += residual[i, k] * scaled
                back[i, k] = scaled
            ratio = following / max(squared[i], _TINY)
            for k in range(rank):
                direction[i, k] = back[i, k] + ratio * direction[i, k]
            squared[i] = following


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def leave_one_out(Z, fitted, ws, squares, precision, diagonal, s2, rho, ratio, spread):
    """Predict every entry from the others; returns the variances of the fit.

    Writes the variance of the prediction into `spread`, and the squared error over it into
    `ratio`. With leverage h the error without the entry is the residual divided by 1 − h; the
    posterior covariance of the scores is taken for diagonal.
    """
    n, n_features = Z.shape
    uncertain = np.dot(_ONE / (precision + diagonal), squares)
    for i in range(n):
        for j in range(n_features):
            rest = min(max(_ONE - ws[i, j] * uncertain[i, j], _LEAST_REST), _ONE)
            error = (Z[i, j] - fitted[i, j]) / rest
            spread[i, j] = s2[i] * rho[j] + uncertain[i, j] / rest
            ratio[i, j] = error * error / spread[i, j]
    return uncertain


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def _divide(weights, s2, rho, ws):
    """Write weights over noise variances into `ws`."""
    for i in range(len(ws)):
        for j in range(ws.shape[1]):
            ws[i, j] = weights[i, j] / (s2[i] * rho[j])


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def _largest_noise(Z, seen, typical):
    """Number of entries of every vector, and a quarter of its variance."""
    n = len(Z)
    count, hottest = np.zeros(n, np.float32), np.empty(n, np.float32)
    for i in range(n):
        total, squares = np.float32(0.0), np.float32(0.0)
        for j in range(Z.shape[1]):
            count[i] += seen[i, j]
            total += Z[i, j]
            squares += Z[i, j] * Z[i, j]
        mean = total / count[i]
        hottest[i] = max(np.float32(0.25) * (squares / count[i] - mean * mean), typical)
    return count, hottest


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def _own_noise(ratio, scale, weights, s2, typical):
    """One step of the noise of a vector: robust mean of squares, drawn to the typical one.

    The squared errors are `ratio` times `scale`.
    """
    total, count, relative = np.float32(0.0), np.float32(0.0), scale / s2
    for j in range(len(ratio)):
        robust = (_TAILS + _ONE) / (_TAILS + ratio[j] * relative)
        total += weights[j] * robust * ratio[j]
        count += weights[j]
    mean = (total * scale + _PRIOR_ENTRIES * typical) / (count + _PRIOR_ENTRIES)
    return max(mean, _LEAST_NOISE * typical)
