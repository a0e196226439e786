r"""Which entries of a vector are in place, where few and noisy vectors tell what to expect.

Every vector is regressed on directions :math:`u_1, …, u_k` that other vectors span, with a mixture
for the entries that have moved and a prior for the coefficients:

.. math:: \max_{a, v, \pi} \; \sum_i \log\bigl(\pi\, t_3(y_i;\, u_i^\top a, v)
          + (1 - \pi)\, f(y_i)\bigr) - \sum_j \frac{a_j^2}{2 \tau_j^2} + \log p(v),

where :math:`t_3` is Student's density with location and squared scale, f the density of the
vector's values (a moved entry is a draw from them) and :math:`\tau_j^2` the mean square of the
other vectors along :math:`u_j`. Every vector has its own noise v and share π of entries in place.

Choose it for tables: their columns have much variation of their own, so that no subspace of low
rank is exact and no noise level common to all, but every direction helps a little. The prior lets
all of them take part.

Expectation-maximisation from many starts. Entries that moved at random are not correlated with
anything: the least-squares coefficients are right but for a factor π, at any shuffled ratio. So
the starts are those coefficients in the first 1, 2, 4, … directions, stretched as if half, three
quarters, nine tenths of the entries had moved. The start with the most evidence (Laplace's
approximation of the integral over a) wins.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.ndimage import gaussian_filter1d
from scipy.special import gammaln

from unpermute.numerics.parallel import map_blocks
from unpermute.numerics.result import warn_not_converged

__all__ = ["MixtureFit", "directions_of", "fit_mixtures"]

_RATIOS = (0.0, 0.5, 0.75, 0.9)
_TOLERANCE = 1e-6
_MAX_ITER = 3000
# Steps after which only the best starts go on, and how many do.
_SCREENING, _FINALISTS = 10, 4
# Prior of the noise: as if this many entries with this share of the variance had been seen. Without
# it the likelihood is unbounded where k entries are fitted exactly.
_PRIOR_SIZE, _PRIOR_NOISE = 10.0, 0.05
# Least-squares coefficients are stretched up to the variance of the vector, and a little more.
_MAX_STRETCH = 1.2
# Directions below this share of the largest singular value are rounding.
_RANK_TOLERANCE = 1e-6
# More directions cost k² operations per entry and step, and the prior leaves little of them.
_MAX_DIRECTIONS = 60
# Longer vectors are first fitted on about this many of their entries.
_SAMPLE = 2000
# Bins of the histogram that is smoothed to a density.
_BINS = 1024
# Degrees of freedom of the entries in place: real tables have heavy tails, which a normal
# density would take for entries that moved.
_TAIL = 3.0
# A share of exactly 1 would leave the others without a logarithm.
_ALL = 1.0 - 1e-9


@dataclass(frozen=True)
class MixtureFit:
    """What is known about every vector and every entry.

    Attributes
    ----------
    predicted : ndarray of shape (n_vectors, n_features)
        Value to expect in every place.
    weights : ndarray of shape (n_vectors, n_features)
        Probability that the entry is in place; 0 where missing.
    share : ndarray of shape (n_vectors,)
        Share π of the entries in place.
    noise : ndarray of shape (n_vectors,)
        Standard deviation of an entry in place.
    evidence : ndarray of shape (n_vectors,)
        Log evidence against "every entry has moved".
    damage : ndarray of shape (n_vectors,)
        Log-likelihood ratio against "no entry has moved".
    """

    predicted: np.ndarray
    weights: np.ndarray
    share: np.ndarray
    noise: np.ndarray
    evidence: np.ndarray
    damage: np.ndarray


def directions_of(X):
    """Orthonormal directions that vectors span, and the mean square of a unit vector along each.

    Parameters
    ----------
    X : ndarray of shape (n_vectors, n_features)
        Vectors without missing entries.

    Returns
    -------
    directions : ndarray of shape (n_features, k)
    variances : ndarray of shape (k,)
    """
    lengths = np.linalg.norm(X, axis=1)
    X = X[lengths > 0.0] / lengths[lengths > 0.0, None]
    if len(X) == 0:
        return np.zeros((X.shape[1], 0)), np.zeros(0)
    values, directions = np.linalg.svd(X, full_matrices=False)[1:]
    kept = np.flatnonzero(values > _RANK_TOLERANCE * values[0])[:_MAX_DIRECTIONS]
    return np.ascontiguousarray(directions[kept].T), values[kept] ** 2 / len(X)


def fit_mixtures(Y, directions, variances, *, n_jobs=None):
    """Fit the mixture to every vector.

    Parameters
    ----------
    Y : ndarray of shape (n_vectors, n_features)
        Vectors; missing entries are NaN and left out.
    directions : ndarray of shape (n_features, k)
        Orthonormal columns.
    variances : ndarray of shape (k,)
        Mean square of a vector of length 1 along each.
    n_jobs : int, default=None
        Threads; the result does not depend on it.

    Returns
    -------
    MixtureFit
    """
    n, n_features = Y.shape
    fit = MixtureFit(*(np.zeros((n, n_features)) for _ in range(2)), *np.zeros((4, n)))

    increase = np.zeros(n)

    def run(start, stop):
        for j in range(start, stop):
            observed = np.flatnonzero(~np.isnan(Y[j]))
            y = Y[j, observed]
            mean, scale = y.mean() if len(y) else 0.0, y.std() if len(y) else 0.0
            fit.predicted[j], fit.share[j] = mean, 1.0
            fit.weights[j, observed] = 1.0
            if scale == 0.0 or len(variances) == 0:
                continue
            # In units of the vector, where a prior of length 1 has mean square 1.
            z, prior = (y - mean) / scale, variances * n_features
            a, fit.share[j], fit.evidence[j], fit.damage[j], increase[j], weights = _fit(
                z, _log_density(z), directions[observed], prior
            )
            fit.predicted[j] += scale * (directions @ a)
            fit.weights[j, observed] = weights
            residuals = y - fit.predicted[j, observed]
            fit.noise[j] = np.sqrt(np.average(residuals**2, weights=weights + 1e-300))

    map_blocks(run, n, block=1, stage="weigh", n_jobs=n_jobs)
    if np.any(increase > _TOLERANCE):
        warn_not_converged(
            f"mixture of {np.sum(increase > _TOLERANCE)} of {n} vectors (increase per entry)",
            increase.max(),
            _TOLERANCE,
            "leave out directions that hardly matter",
        )
    return fit


def _log_density(y):
    """Log density of every value among all: a histogram, smoothed by Silverman's rule."""
    low, high = np.quantile(y, [0.25, 0.75])
    spread = min(y.std(), (high - low) / 1.349) or y.std()
    bandwidth = 0.9 * spread * len(y) ** -0.2
    edges = np.linspace(y.min() - 4 * bandwidth, y.max() + 4 * bandwidth, _BINS + 1)
    counts = np.histogram(y, edges)[0]
    width = edges[1] - edges[0]
    density = gaussian_filter1d(counts / (len(y) * width), bandwidth / width, mode="constant")
    return np.log(np.interp(y, edges[:-1] + width / 2, density))


def _fit(y, outside, U, prior):
    """Coefficients, share, evidence, damage, last increase and weights of one vector."""
    # A regular sample is as good as a random one: the order of the places means nothing here.
    step = -(-len(y) // _SAMPLE)
    sample = y[::step], outside[::step], np.ascontiguousarray(U[::step]), prior
    starts = _starts(sample[0], sample[2], prior)
    first = _maximise(*sample, *starts, max_iter=_SCREENING)
    best = np.argsort(-first.evidence, kind="stable")[:_FINALISTS]
    last = _maximise(*sample, first.a[best], first.share[best], first.noise[best])
    winner = last.take([np.argmax(last.evidence)])
    if step > 1:
        winner = _maximise(y, outside, U, prior, winner.a, winner.share, winner.noise)
    # Nothing has moved: from least squares, and from what was found.
    a = np.vstack([starts[0][len(starts[0]) - len(_RATIOS)], winner.a[0]])
    noise = np.mean((y - a @ U.T) ** 2, axis=1)
    none = _maximise(y, outside, U, prior, a, np.full(2, _ALL), noise, fixed_share=True)
    weights = _expectation(outside, y - winner.a @ U.T, winner.share, winner.noise)[1]
    damage = winner.objective[0] - none.objective.max()
    return winner.a[0], winner.share[0], winner.evidence[0], damage, winner.increase[0], weights[0]


def _starts(y, U, prior):
    """Least squares in the first 1, 2, 4, … directions, stretched for several shuffled ratios."""
    gram = U.T @ U + np.diag(1.0 / np.maximum(prior, 1e-12))
    least = np.linalg.solve(gram, U.T @ y)
    k = len(least)
    ranks = np.unique(np.minimum(2 ** np.arange(8), k))
    a = np.array(
        [np.where(np.arange(k) < rank, least, 0.0) / (1 - q) for rank in ranks for q in _RATIOS]
    )
    variance = np.mean((a @ U.T) ** 2, axis=1)
    a *= np.sqrt(np.minimum(1.0, _MAX_STRETCH / np.maximum(variance, 1e-300)))[:, None]
    share = np.tile(1.0 - np.array(_RATIOS), len(ranks))
    residuals = np.sort((y - a @ U.T) ** 2, axis=1)
    middle = np.minimum((share * len(y) / 2).astype(int), len(y) - 1)
    noise = np.maximum(2.2 * residuals[np.arange(len(a)), middle], 1e-4)
    return a, np.minimum(share, 0.99), noise


class _Solutions(NamedTuple):
    """Coefficients, shares, squared scales, and what they reached; one row per start."""

    a: np.ndarray
    share: np.ndarray
    noise: np.ndarray
    objective: np.ndarray
    evidence: np.ndarray
    increase: np.ndarray

    def take(self, rows):
        return _Solutions(*(values[rows] for values in self))


def _maximise(
    y, outside, U, prior, a, share, noise, *, max_iter=_MAX_ITER, fixed_share=False
):  # fmt: skip
    """Expectation-maximisation from several starts at once."""
    objective = np.full(len(a), -np.inf)
    for _ in range(max_iter):
        residuals = y - a @ U.T
        likelihood, weights = _expectation(outside, residuals, share, noise)
        previous, total = objective, weights.sum(axis=1)
        penalty = (_PRIOR_SIZE / 2 + 1) * np.log(noise) + _PRIOR_SIZE * _PRIOR_NOISE / (2 * noise)
        objective = likelihood - 0.5 * np.sum(a * a / prior, axis=1) - penalty
        # Student's t as a normal whose precision differs from entry to entry.
        weights *= (_TAIL + 1) / (_TAIL + residuals**2 / noise[:, None])
        gram = np.stack([(U.T * row) @ U for row in weights])
        hessian = gram / noise[:, None, None] + np.diag(1.0 / prior)
        increase = (objective - previous) / len(y)
        if np.all(increase <= _TOLERANCE):
            break
        a = np.linalg.solve(hessian, ((weights * y) @ U / noise[:, None])[..., None])[..., 0]
        squares = np.sum(weights * (y - a @ U.T) ** 2, axis=1)
        noise = (squares + _PRIOR_SIZE * _PRIOR_NOISE) / (total + _PRIOR_SIZE + 2)
        share = share if fixed_share else (total + 1) / (len(y) + 2)
    occam = 0.5 * (np.linalg.slogdet(hessian)[1] + np.sum(np.log(prior)))
    return _Solutions(a, share, noise, objective, objective - occam - np.sum(outside), increase)


def _expectation(outside, residuals, share, noise):
    """Log-likelihood of every start, and the probability of every entry to be in place."""
    inside = np.log(share)[:, None] + _log_student(residuals, noise[:, None])
    total = np.logaddexp(inside, np.log1p(-share)[:, None] + outside)
    return total.sum(axis=1), np.exp(inside - total)


def _log_student(x, variance):
    """Log density of Student's t with few degrees of freedom, scaled."""
    constant = gammaln((_TAIL + 1) / 2) - gammaln(_TAIL / 2) - 0.5 * np.log(np.pi * _TAIL)
    tail = (_TAIL + 1) / 2 * np.log1p(x * x / (_TAIL * variance))
    return constant - 0.5 * np.log(variance) - tail
