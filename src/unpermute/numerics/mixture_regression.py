r"""Which entries of a vector are in place, where few and noisy vectors tell what to expect.

Every vector is regressed on directions :math:`u_1, …, u_k` that other vectors span, with a mixture
for the entries that have moved and a prior for the coefficients. Vectors that were shuffled
together have one indicator per place: then :math:`y_i` is a row of all of them.

.. math:: \max_{A, \Sigma, \pi} \; \sum_i \log\bigl(\pi\, t_3(y_i;\, A^\top u_i, \Sigma)
          + (1 - \pi)\, f(y_i)\bigr) - \sum_{jc} \frac{A_{jc}^2}{2 \tau_j^2} + \log p(\Sigma),

where :math:`t_3` is Student's density with location and scatter, f the density of the rows (a moved
one is a draw from them) and :math:`\tau_j^2` the mean square of the other vectors along
:math:`u_j`. Every regression has its own noise Σ and share π of places in order.

Choose it for tables: their columns have much variation of their own, so that no subspace of low
rank is exact and no noise level common to all, but every direction helps a little. The prior lets
all of them take part.

Expectation-maximisation from many starts. Entries that moved at random are not correlated with
anything: the least-squares coefficients are right but for a factor π, at any shuffled ratio. So
the starts are those coefficients in the first 1, 2, 4, … directions, stretched as if half, three
quarters, nine tenths of the entries had moved. The start with the most evidence (Laplace's
approximation of the integral over a) wins.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.ndimage import gaussian_filter1d
from scipy.special import gammaln

from unpermute.numerics.parallel import map_blocks
from unpermute.numerics.result import warn_not_converged

__all__ = [
    "TAIL",
    "MixtureFit",
    "Regression",
    "Solutions",
    "directions_of",
    "fit_mixtures",
    "fit_regression",
    "log_density_of_rows",
    "log_tail",
    "maximise",
]

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
# Bins of the histogram that is smoothed to a density; steps in which one of rows is fitted.
_BINS, _DENSITY_STEPS = 1024, 30
# Share of the variance that is never explained: rounding.
_FLOOR = 1e-10
# Degrees of freedom of the entries in place: real tables have heavy tails, which a normal
# density would take for entries that moved.
TAIL = 3.0
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
            problem = Regression(directions[observed], z[:, None], prior, _log_density(z))
            found = fit_regression(problem)
            fit.share[j], fit.evidence[j], increase[j] = found.share, found.evidence, found.increase
            fit.damage[j] = found.objective - _nothing_moved(problem, found)
            fit.predicted[j] += scale * (directions @ found.A[:, 0])
            fit.weights[j, observed] = found.weights
            residuals = y - fit.predicted[j, observed]
            fit.noise[j] = np.sqrt(np.average(residuals**2, weights=found.weights + 1e-300))

    map_blocks(run, n, block=1, stage="weigh", n_jobs=n_jobs)
    if np.any(increase > _TOLERANCE):
        warn_not_converged(
            f"mixture of {np.sum(increase > _TOLERANCE)} of {n} vectors (increase per entry)",
            increase.max(),
            _TOLERANCE,
            "leave out directions that hardly matter",
        )
    return fit


def _nothing_moved(problem, found):
    """Best objective if nothing has moved: from least squares, and from what was found."""
    A = np.stack([_least_squares(problem), found.A])
    residuals = problem.rows - problem.U @ A
    noise = np.mean(residuals**2, axis=1)[..., None] * np.eye(problem.rows.shape[1])
    return maximise(problem, A, np.full(2, _ALL), noise, fixed_share=True).objective.max()


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


@dataclass(frozen=True)
class Regression:
    """Rows to be predicted, some of which have moved.

    Attributes
    ----------
    U : ndarray of shape (n, k)
        Directions, one row per place.
    rows : ndarray of shape (n, q)
        What stands there.
    prior : ndarray of shape (k,)
        Prior variances of the coefficients.
    outside : ndarray of shape (n,)
        Log density of every row if it came from anywhere.
    """

    U: np.ndarray
    rows: np.ndarray
    prior: np.ndarray
    outside: np.ndarray

    def every(self, step):
        """Return one in so many of the places, drawn at random: tables may be periodic."""
        n = len(self.rows)
        if step <= 1:
            return self
        places = np.sort(np.random.default_rng(0).choice(n, -(-n // step), replace=False))
        parts = {name: getattr(self, name)[places] for name in ("U", "rows", "outside")}
        return replace(self, **parts)

    def expectation(self, A, covariance, share):
        """Log-likelihood and probability to be in place of every row, and its squared distance.

        Of one solution, or of several at once.
        """
        distance, log_det = _mahalanobis(self.rows - self.U @ A, covariance)
        inside = np.log(share)[..., None] + _log_student(distance, log_det, self.rows.shape[1])
        odds = inside - np.log1p(-share)[..., None] - self.outside
        smaller = np.exp(-np.abs(odds))
        weights = np.where(odds > 0, 1.0, smaller) / (1.0 + smaller)
        return inside + np.log1p(smaller) - np.minimum(odds, 0.0), weights, distance


class Solutions(NamedTuple):
    """Coefficients, shares, covariances and what they reached; one of each per start."""

    A: np.ndarray
    share: np.ndarray
    covariance: np.ndarray
    weights: np.ndarray
    objective: np.ndarray
    evidence: np.ndarray
    increase: np.ndarray

    def take(self, rows):
        """Return some of them, or one without the axis of starts."""
        return Solutions(*(values[rows] for values in self))


def fit_regression(problem):
    """Return the solution with the most evidence, from many starts on a sample of the places."""
    sample = problem.every(-(-len(problem.rows) // _SAMPLE))
    first = maximise(sample, *_starts(sample), max_iter=_SCREENING)
    best = first.take(np.argsort(-first.evidence, kind="stable")[:_FINALISTS])
    last = maximise(sample, best.A, best.share, best.covariance)
    winner = last.take([np.argmax(last.evidence)])
    if len(sample.rows) < len(problem.rows):
        winner = maximise(problem, winner.A, winner.share, winner.covariance)
    return winner.take(0)


def _starts(problem):
    """Least squares in the first 1, 2, 4, … directions, stretched for several shuffled ratios."""
    U, G = problem.U, problem.rows
    least = _least_squares(problem)
    k = len(least)
    ranks = np.unique(np.minimum(2 ** np.arange(8), k))
    first = [np.where(np.arange(k)[:, None] < rank, least, 0.0) for rank in ranks]
    A = np.array([each / (1 - ratio) for each in first for ratio in _RATIOS])
    variance = np.mean((U @ A) ** 2, axis=1, keepdims=True)
    A *= np.sqrt(np.minimum(1.0, _MAX_STRETCH / np.maximum(variance, 1e-300)))
    share = np.tile(1.0 - np.array(_RATIOS), len(ranks))
    squares = np.sort((G - U @ A) ** 2, axis=1)
    middle = np.minimum((share * len(G) / 2).astype(int), len(G) - 1)
    noise = np.maximum(2.2 * squares[np.arange(len(A)), middle], 1e-4)
    return A, np.minimum(share, 0.99), noise[..., None] * np.eye(G.shape[1])


def _least_squares(problem):
    gram = problem.U.T @ problem.U + np.diag(1.0 / np.maximum(problem.prior, 1e-12))
    return np.linalg.solve(gram, problem.U.T @ problem.rows)


def maximise(
    problem, A, share, covariance, *, size=_PRIOR_SIZE, max_iter=_MAX_ITER, fixed_share=False
):  # fmt: skip
    """Expectation-maximisation from several starts at once.

    `size` is the number of rows that the prior of the covariance is worth.
    """
    U, G, prior = problem.U, problem.rows, problem.prior
    n, q = G.shape
    objective = np.full(len(A), -np.inf)
    for _ in range(max_iter):
        total, weights, distance = problem.expectation(A, covariance, share)
        penalty = 0.5 * np.sum(A**2 / prior[:, None], axis=(1, 2)) + _penalty(covariance, size)
        previous, objective = objective, total.sum(axis=1) - penalty
        # Student's t as a normal whose precision differs from row to row.
        precise = weights * (TAIL + q) / (TAIL + distance)
        gram = np.stack([(U.T * row) @ U for row in precise])
        increase = (objective - previous) / n
        if np.all(increase <= _TOLERANCE):
            break
        ridge = np.trace(covariance, axis1=1, axis2=2)[:, None, None] / q * np.diag(1.0 / prior)
        A = np.linalg.solve(gram + ridge, U.T @ (precise[..., None] * G))
        covariance = _covariance(G - U @ A, precise, weights.sum(axis=1), size)
        share = share if fixed_share else (weights.sum(axis=1) + 1) / (n + 2)
    evidence = objective - _occam(gram, covariance, prior) - np.sum(problem.outside)
    return Solutions(A, share, covariance, weights, objective, evidence, increase)


def _covariance(residuals, weights, total, size):
    """Weighted covariances of residuals, with their prior, of several solutions at once."""
    moments = np.swapaxes(residuals * weights[..., None], 1, 2) @ residuals
    n, q = residuals.shape[1:]
    prior = (size * _PRIOR_NOISE + _FLOOR * n) * np.eye(q)
    return (moments + prior) / (total + size + (q + 1 if size else 0))[:, None, None]


def _penalty(covariance, size):
    """Minus log prior of covariances (inverse Wishart), up to a constant."""
    q = covariance.shape[-1]
    traces = np.trace(np.linalg.inv(covariance), axis1=1, axis2=2)
    return 0.5 * ((size + q + 1) * np.linalg.slogdet(covariance)[1] + size * _PRIOR_NOISE * traces)


def _occam(gram, covariance, prior):
    """Laplace's correction: coefficients that must be exact are less likely to be met."""
    total = np.zeros(len(gram))
    for variance in np.diagonal(covariance, axis1=1, axis2=2).T:
        hessian = gram / variance[:, None, None] + np.diag(1.0 / prior)
        total += 0.5 * (np.linalg.slogdet(hessian)[1] + np.sum(np.log(prior)))
    return total


def log_density_of_rows(rows):
    """Log density of rows, each as if it came from anywhere among them.

    The covariance is fitted like that of the rows in place: with another one the mixture would find
    a link where there is none.
    """
    n, q = rows.shape
    centred = (rows - rows.mean(axis=0))[None]
    weights, total = np.ones((1, n)), np.full(1, float(n))
    for _ in range(_DENSITY_STEPS):
        covariance = _covariance(centred, weights, total, 0.0)
        distance, log_det = _mahalanobis(centred, covariance)
        weights = (TAIL + q) / (TAIL + distance)
    return _log_student(distance, log_det, q)[0]


def log_tail(distance, size):
    """Log density of Student's t in `size` dimensions at a squared distance, up to a constant."""
    return -0.5 * (TAIL + size) * np.log1p(distance / TAIL)


def _log_student(distance, log_det, q):
    constant = gammaln((TAIL + q) / 2) - gammaln(TAIL / 2) - 0.5 * q * np.log(np.pi * TAIL)
    return constant - 0.5 * log_det[..., None] + log_tail(distance, q)


def _mahalanobis(residuals, covariance):
    """Squared distances, and the log-determinants of the covariances."""
    root = np.linalg.cholesky(covariance)
    # A product is several times as fast as a solution for thousands of right-hand sides.
    white = residuals @ np.swapaxes(np.linalg.inv(root), -1, -2)
    log_det = 2.0 * np.sum(np.log(np.diagonal(root, axis1=-2, axis2=-1)), axis=-1)
    return np.einsum("...ij,...ij->...i", white, white), log_det
