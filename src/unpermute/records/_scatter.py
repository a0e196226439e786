r"""Joint distribution of the standardised columns: a multivariate t, robust against moved cells.

The record z has the density of Student's t with ν degrees of freedom, location μ and scatter Σ,

.. math:: \log f(z) = c - \tfrac12\log|\Sigma| - \tfrac{\nu+p}{2}\log(1 + q/\nu),
          \qquad q = (z-\mu)^\top \Sigma^{-1} (z-\mu).

It starts from the correlations of normal scores (ranks), which moved cells can hardly bend, and
goes on with the weights (ν + p) / (ν + q) of the likelihood; a missing value is replaced by its
conditional mean, and its conditional covariance is added. Then Σ is shrunk towards its diagonal
and scaled. How much, and ν, maximise the likelihood of records that the fit has not seen: every
record is judged by a distribution that it did not shape.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit
from scipy.special import gammaln, ndtri

__all__ = ["Scatter", "fit_scatter", "log_densities"]

_DEGREES = (2.5, 4.0, 6.0, 9.0, 15.0, 30.0, 100.0)
_SHRINKAGE = (1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0)
_STEPS = 12
# Records beyond this number leave nothing to gain from judging each by the others.
_ENOUGH = 6000
_FOLDS = 5
# Standard deviation, in units of the column's scale, below which nothing is told apart.
_SMALLEST = 1e-4


@dataclass(frozen=True)
class Scatter:
    """Distribution of standardised records, one version per fold and the last for new records.

    Attributes
    ----------
    location : ndarray of shape (n_folds + 1, p)
    precision : ndarray of shape (n_folds + 1, p, p)
        Inverse of the scatter.
    degrees : float
        Degrees of freedom ν.
    fold : ndarray of shape (n_records,)
        Version by which a record of the training table is judged.
    shrinkage : float
        Share of the diagonal in the scatter.
    n_records : float
        Number of records it was fitted to.
    """

    location: np.ndarray
    precision: np.ndarray
    degrees: float
    fold: np.ndarray
    shrinkage: float
    n_records: float


def fit_scatter(z, weights, floor, *, rank=None, degrees=4.0, rng=None):
    """Fit to records with weights in [0, 1]; NaN is missing.

    Parameters
    ----------
    z : ndarray of shape (n, p)
    weights : ndarray of shape (n,)
        0 leaves a record out of the fit, but not out of the folds.
    floor : ndarray of shape (p,)
        Noise of every column that is there anyway.
    rank : int or None
        Number of factors; None: no limit.
    degrees : float
        ν while fitting.
    rng : numpy Generator
        Deals the records into folds.

    Returns
    -------
    Scatter
    """
    n = len(z)
    n_folds = _FOLDS if 2 * _FOLDS <= n <= _ENOUGH else 0
    fold = rng.permutation(n) % n_folds if n_folds else np.zeros(n, dtype=np.int64)
    noise = np.maximum(floor, _SMALLEST) ** 2
    parts = [weights * (fold != k) for k in range(n_folds)] + [weights]
    start = _normal_scores(z, weights) + np.diag(noise)
    fits = [_fit_t(z, part, start, noise, degrees) for part in parts]
    fits = [(mu, _factors(S, rank) if rank else S) for mu, S in fits]
    if n_folds:
        judged = [(z[fold == k], weights[fold == k]) for k in range(n_folds)]
        shrinkage, nu, factor = _choose(judged, fits[:-1])
    else:
        shrinkage, nu, factor = _choose([(z, weights)], fits)
    location = np.stack([mu for mu, _ in fits])
    precision = np.stack([np.linalg.inv(factor * _shrink(S, shrinkage)) for _, S in fits])
    return Scatter(location, precision, nu, fold, shrinkage, float(weights.sum()))


def log_densities(scatter, z):
    """Log-density of records that are new to the distribution, up to a constant of ν and p."""
    q = _squared_distances(z, scatter.location[-1], scatter.precision[-1])
    logdet = np.linalg.slogdet(scatter.precision[-1])[1]
    nu, p = scatter.degrees, z.shape[1]
    return logdet / 2 - (nu + p) / 2 * np.log1p(q / nu)


def _squared_distances(z, location, precision):
    """Squared Mahalanobis distance of every record, over its observed cells."""
    residuals = z - location
    complete = ~np.isnan(residuals).any(axis=1)
    q = np.empty(len(z))
    factor = np.linalg.cholesky(precision)
    q[complete] = np.sum((residuals[complete] @ factor) ** 2, axis=1)
    if not complete.all():
        filled = residuals[~complete]
        q[~complete] = _impute(filled, precision, np.ones(len(filled)))[0]
    return q


def _ranks(values):
    """Ranks from 1, the mean rank for equal values: scipy.stats takes half a second to import."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[places]


def _normal_scores(z, weights):
    """Correlation of the normal scores; missing values score 0."""
    kept = z[weights > 0.5]
    scores = np.zeros_like(kept)
    for j in range(z.shape[1]):
        seen = ~np.isnan(kept[:, j])
        count = np.count_nonzero(seen)
        if count > 2:
            scores[seen, j] = ndtri(_ranks(kept[seen, j]) / (count + 1))
    norms = np.linalg.norm(scores, axis=0)
    scores /= np.where(norms > 0, norms, 1.0)
    S = scores.T @ scores
    np.fill_diagonal(S, 1.0)
    return 0.98 * S + 0.02 * np.eye(len(S))


def _fit_t(z, weights, S, noise, degrees):
    """Location and scatter by reweighting; records with weight 0 are not used."""
    used = weights > 0
    z, weights = z[used], weights[used]
    n, p = z.shape
    mu = np.zeros(p)
    if n < 3:
        return mu, S
    observed = np.sum(~np.isnan(z), axis=1)
    complete = observed == p
    for _ in range(_STEPS):
        precision = np.linalg.inv(S)
        residuals = z - mu
        q = np.empty(n)
        q[complete] = np.einsum("ij,ij->i", residuals[complete] @ precision, residuals[complete])
        added = np.zeros_like(S)
        if not complete.all():
            filled = residuals[~complete]
            q[~complete], added = _impute(filled, precision, weights[~complete])
            residuals[~complete] = filled
        w = weights * (degrees + observed) / (degrees + q)
        shift = w @ residuals / w.sum()
        mu = mu + shift
        residuals -= shift
        last, S = S, (residuals.T @ (w[:, None] * residuals) + added) / weights.sum()
        # With fewer records than columns this keeps it invertible.
        S.flat[:: p + 1] += noise + 1e-9 * np.trace(S) / p
        if np.max(np.abs(S - last)) < 1e-3 * np.max(np.abs(S)):
            break
    return mu, S


def _shrink(S, share):
    return (1 - share) * S + share * np.diag(np.diag(S))


def _factors(S, rank):
    """Limit to a number of factors plus noise of every column, by iterated principal factors."""
    p = len(S)
    if rank >= p:
        return S
    deviations = np.sqrt(np.diag(S))
    R = S / np.outer(deviations, deviations)
    uniqueness = np.full(p, 0.5)
    for _ in range(50):
        values, vectors = np.linalg.eigh(R - np.diag(uniqueness))
        loadings = vectors[:, -rank:] * np.sqrt(np.maximum(values[-rank:], 0))
        uniqueness = np.clip(1 - np.sum(loadings**2, axis=1), 1e-6, 1)
    fitted = loadings @ loadings.T + np.diag(uniqueness)
    return fitted * np.outer(deviations, deviations)


def _choose(judged, fits):
    """Shrinkage, degrees of freedom and factor of the scatter with the best likelihood."""
    best, choice = -np.inf, (0.1, 4.0, 1.0)
    p = len(fits[0][0])
    weights = np.concatenate([w for _, w in judged])
    for share in _SHRINKAGE:
        shrunk = [(mu, _shrink(S, share)) for mu, S in fits]
        pairs = list(zip(judged, shrunk, strict=True))
        q = np.concatenate(
            [_squared_distances(z, mu, np.linalg.inv(S)) for (z, _), (mu, S) in pairs]
        )
        logdet = np.repeat(
            [np.linalg.slogdet(S)[1] for _, S in shrunk], [len(z) for z, _ in judged]
        )
        for nu in _DEGREES:
            factor = _scale(q, weights, nu, p)
            constant = gammaln((nu + p) / 2) - gammaln(nu / 2) - p / 2 * np.log(nu * factor)
            logs = constant - logdet / 2 - (nu + p) / 2 * np.log1p(q / (factor * nu))
            value = float(weights @ logs)
            if value > best:
                best, choice = value, (share, nu, factor)
    return choice


def _scale(q, weights, nu, p):
    """Factor of the scatter with the best likelihood."""
    factor, scaled, total = 1.0, (nu + p) * q, p * weights.sum()
    for _ in range(20):
        last, factor = factor, max(float(weights @ (scaled / (nu + q / factor)) / total), 1e-12)
        if factor == last:
            break
    return factor


@njit(cache=True, nogil=True)
def _impute(residuals, precision, weights):
    """Fill missing residuals by their conditional means, in place.

    Returns the squared distances over the observed cells, and the summed conditional covariances.
    """
    n, p = residuals.shape
    q = np.zeros(n)
    added = np.zeros((p, p))
    for i in range(n):
        holes = np.flatnonzero(np.isnan(residuals[i]))
        residuals[i, holes] = 0.0
        row = residuals[i]
        g = precision @ row
        if len(holes):
            inverse = np.linalg.inv(precision[holes][:, holes])
            fill = -inverse @ g[holes]
            for a in range(len(holes)):
                residuals[i, holes[a]] = fill[a]
                for b in range(len(holes)):
                    added[holes[a], holes[b]] += weights[i] * inverse[a, b]
            g = precision @ residuals[i]
        q[i] = residuals[i] @ g
    return q, added
