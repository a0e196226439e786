r"""Vectors that share one permutation, and places with units of their own.

For the vectors v of a group, one permutation π and the noise σ s_i of every place,

.. math:: \min_{\pi, x, \sigma} \; \frac{E}{2\sigma^2} + m \log\sigma
          + \kappa\,\#\{i : \pi(i) \ne i\}, \qquad
          E = \sum_v \sum_i \frac{(y_{v\pi(i)} - f_{vi})^2}{s_i^2}, \quad f_v = U x_v + b ,

with π inside the blocks, κ = log M the prior for staying in place, and m = Σ_v (M_v − r) residual
degrees of freedom, M_v being the number of observed entries. Missing ones add nothing to E.

Alternate: π is an assignment problem (a sort no longer solves it), x a weighted least-squares fit
to the moved values, σ² = E / m. Each step lowers the cost; it ends when none does. Starts: robust
regression, the identity, what the chosen method finds for the vectors one by one, the places whose
leverages look alike, and samples of places. The lowest cost wins.

References
----------
Crouse, "On implementing 2D rectangular assignment algorithms", 2016,
doi:10.1109/TAES.2016.140952 (the assignment problem, in scipy).
Pananjady, Wainwright & Courtade, "Denoising linear models with permuted data", 2017,
doi:10.1109/ISIT.2017.8006567 (matching leverages).
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numba import njit
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from unpermute.numerics.certificate import CERTAIN, certify
from unpermute.numerics.matching import log_moves
from unpermute.numerics.parallel import map_blocks
from unpermute.recover._group_evidence import (
    group_evidence,
    independent_vectors,
    pooled_null_scales,
)

__all__ = ["Assignment", "assign_groups"]

# Mean square residual, relative to that of a random order, that ends the starts if σ is unknown.
_DOWN_AT_NOISE = 10.0**-2.5
_MAX_STEPS = 100
# Vectors of a group whose own solution is a start: the most confident ones.
_OWN_STARTS = 3
# Shares of the places assumed right when places are sampled, samples of each, and those kept.
_SHARES, _SAMPLES, _KEPT = (0.75, 0.5, 0.35), 40, 2
# Shares of the best-fitting places from which a solution is refitted when it is polished.
_LEVELS = (0.35, 0.5, 0.65, 0.8, 0.9)
# Leverages are compared between all pairs of places, which takes M³ steps.
_MAX_FEATURES_LEVERAGE = 400


@dataclass(frozen=True)
class Assignment:
    """Solution for all vectors, groups having been solved one by one.

    Attributes
    ----------
    coefficients : ndarray of shape (n_vectors, rank)
        Weighted least-squares fit to the moved values.
    permutations : ndarray of shape (n_vectors, n_features)
        Identical rows within a group.
    evidence : ndarray of shape (n_vectors,)
        Of the group; see :func:`group_evidence`.
    residual : ndarray of shape (n_vectors,)
        Mean square residual per degree of freedom, in units of the scale.
    certain : ndarray of bool of shape (n_vectors,)
        Whether the evidence certifies the answer and the residual is down at the noise.
    """

    coefficients: np.ndarray
    permutations: np.ndarray
    evidence: np.ndarray
    residual: np.ndarray
    certain: np.ndarray


@dataclass(frozen=True)
class _Group:
    """Vectors of one permutation: `weights` are 1 / s_i, `blocks` lists of places."""

    Y: np.ndarray
    basis: np.ndarray
    offset: np.ndarray
    weights: np.ndarray
    blocks: list[np.ndarray]
    noise: float
    null: np.ndarray
    degrees: np.ndarray
    n_independent: float
    ways: np.ndarray
    seed: int


@dataclass(frozen=True)
class _State:
    cost: float
    coefficients: np.ndarray
    permutation: np.ndarray
    residuals: np.ndarray


def assign_groups(problem, coefficients, groups, scale):
    """Solve every group, given coefficients of the vectors found one by one.

    Parameters
    ----------
    problem : RecoveryProblem
        Its `noise_scale` is in units of `scale`.
    coefficients : ndarray of shape (n_vectors, rank)
        Of the chosen method: one of the starts.
    groups : ndarray of int of shape (n_vectors,)
        Number of the group of every vector, from 0.
    scale : ndarray of shape (n_features,)
        Standard deviation of the noise of every place, up to a common factor.

    Returns
    -------
    Assignment
        For all vectors.
    """
    own_evidence = certify(
        problem.Y,
        problem.basis,
        problem.offset,
        problem.blocks,
        coefficients,
        n_jobs=problem.n_jobs,
    )[0]
    rows = np.split(np.argsort(groups, kind="stable"), np.cumsum(np.bincount(groups))[:-1])
    null = pooled_null_scales(problem, scale)
    n = len(groups)
    found = Assignment(
        np.zeros_like(coefficients), np.zeros(problem.Y.shape, dtype=np.int64),
        np.zeros(n), np.zeros(n), np.zeros(n, dtype=bool),
    )  # fmt: skip

    def run(start, stop):
        for members in rows[start:stop]:
            group = _group(problem, members, scale, null)
            order = np.argsort(-own_evidence[members], kind="stable")
            best = _best(group, coefficients[members], order)
            found.coefficients[members] = best.coefficients
            found.permutations[members] = best.permutation
            found.evidence[members] = _evidence(group, best)
            found.residual[members] = best.residuals / np.maximum(group.degrees, 1)
            found.certain[members] = _is_certain(group, best)

    map_blocks(run, len(rows), block=1, stage="assign", n_jobs=problem.n_jobs)
    return found


def _group(problem, members, scale, null):
    Y = problem.Y[members]
    noise = 0.0 if problem.noise_scale is None else float(problem.noise_scale)
    degrees = np.maximum(np.sum(~np.isnan(Y), axis=1) - problem.basis.shape[1], 0)
    degrees[null[members] == 0] = 0
    n_independent = independent_vectors(Y[degrees > 0] / scale, problem.blocks)
    blocks = [np.flatnonzero(problem.blocks == b) for b in np.unique(problem.blocks)]
    return _Group(
        Y, problem.basis, problem.offset, 1.0 / scale, blocks, noise, null[members], degrees,
        n_independent, log_moves(problem.blocks), problem.seed,
    )  # fmt: skip


def _best(group, own, order):
    """State of the lowest cost over the starts; certain ones at the noise floor end them."""
    best = None
    for start in _starts(group, own, order):
        free = _alternate(group, start, 0.0)
        for coefficients in (start, free.coefficients):
            state = _alternate(group, coefficients, math.log(len(group.basis)))
            if best is None or _is_below(state, best):
                best = _polish(group, state)
        if not group.degrees.any() or _is_certain(group, best):
            break
    return best


def _polish(group, state):
    """Refit to the places that fit best and go on from there, while the cost falls."""
    n_features, rank = group.basis.shape
    level = 0
    while level < len(_LEVELS):
        h = max(round(_LEVELS[level] * n_features), rank + 1)
        moved = group.Y[:, state.permutation]
        coefficients = _fit_best(group, moved, state.coefficients, h)
        trial = _alternate(group, coefficients, math.log(n_features))
        level += 1
        if _is_below(trial, state):
            state, level = trial, 0
    return state


def _is_below(state, other):
    return state.cost < other.cost - 1e-9 * (1 + abs(other.cost))


def _evidence(group, state):
    moved = np.any(~np.isnan(group.Y), axis=0)[state.permutation]
    moved &= state.permutation != np.arange(len(state.permutation))
    log_ways = group.ways[np.count_nonzero(moved)]
    return group_evidence(state.residuals, group.null, group.degrees, log_ways, group.n_independent)


def _is_certain(group, state):
    counts, degrees = group.degrees > 0, group.degrees.sum()
    if degrees == 0:
        return False
    if group.noise > 0:
        limit = group.noise**2 * degrees * (1 + 4 * math.sqrt(2 / degrees))
        down = np.sum(state.residuals[counts]) <= limit
    else:
        ratios = state.residuals[counts] / group.null[counts]
        down = np.sum(ratios) <= _DOWN_AT_NOISE * degrees
    return down and _evidence(group, state) >= CERTAIN


def _alternate(group, coefficients, prior):
    """Alternate assignment, fit and noise level while the cost falls."""
    degrees = max(np.sum(~np.isnan(group.Y)) - coefficients.size, 1)
    floor = max(group.noise, 1e-12 * np.max(np.abs(np.nan_to_num(group.Y)) * group.weights), 1e-150)
    misfits = _misfits(group, coefficients)
    permutation = _assign(group, misfits, 0.0)
    residuals = _residuals(group, group.Y[:, permutation], coefficients)
    sigma = max(floor, math.sqrt(np.nansum(residuals**2) / degrees))
    best = None
    for _ in range(_MAX_STEPS):
        permutation = _assign(group, misfits, 2 * sigma**2 * prior)
        moved = group.Y[:, permutation]
        coefficients = _fit(group, moved, group.weights)
        residuals = np.nansum(_residuals(group, moved, coefficients) ** 2, axis=1)
        total, n_moved = residuals.sum(), np.sum(permutation != np.arange(len(permutation)))
        sigma = max(floor, math.sqrt(total / degrees))
        cost = total / (2 * sigma**2) + degrees * math.log(sigma) + prior * n_moved
        state = _State(cost, coefficients, permutation, residuals)
        if best is not None and not _is_below(state, best):
            break
        best = state
        misfits = _misfits(group, coefficients)
    return best


def _misfits(group, coefficients):
    """Σ_v (y_vj − f_vi)² / s_i², one matrix (place i, value j) per block."""
    fitted = coefficients @ group.basis.T + group.offset
    return [_pool(group.Y, fitted, group.weights, places) for places in group.blocks]


def _assign(group, misfits, price):
    """Best permutation if every move costs `price`."""
    permutation = np.empty(len(group.basis), dtype=np.int64)
    for places, misfit in zip(group.blocks, misfits, strict=True):
        cost = misfit + price
        np.fill_diagonal(cost, misfit.diagonal())
        permutation[places] = places[linear_sum_assignment(cost)[1]]
    return permutation


def _fit(group, moved, weights):
    """Least squares of every vector, residuals multiplied by `weights`."""
    A = weights[:, None] * group.basis
    B = weights * (moved - group.offset)
    missing = np.isnan(B)
    if not missing.any():
        return np.linalg.lstsq(A, B.T, rcond=None)[0].T
    pairs = zip(~missing, B, strict=True)
    return np.stack([np.linalg.lstsq(A[seen], b[seen], rcond=None)[0] for seen, b in pairs])


def _residuals(group, moved, coefficients):
    return (moved - coefficients @ group.basis.T - group.offset) * group.weights


def _starts(group, own, order):
    """Yield coefficients of the group, those most likely to end the search first."""
    yield _robust_regression(group)
    yield _fit(group, group.Y, group.weights)
    for v in order[:_OWN_STARTS]:
        permutation = _assign(group, _misfits(replace(group, Y=group.Y[[v]]), own[[v]]), 0.0)
        yield _fit(group, group.Y[:, permutation], group.weights)
    yield own
    if (permutation := _match_leverages(group)) is not None:
        yield _fit(group, group.Y[:, permutation], group.weights)
    yield from _sampled_places(group)


def _fit_best(group, moved, coefficients, h):
    """Least squares on the h places that `coefficients` fit best."""
    kept = np.zeros(len(group.basis))
    kept[np.argsort(_distances(group, moved, coefficients), kind="stable")[:h]] = 1.0
    return _fit(group, moved, group.weights * kept)


def _distances(group, moved, coefficients):
    """Root mean square residual of every place over the vectors."""
    residuals = _residuals(group, moved, coefficients)
    observed = ~np.isnan(residuals)
    squares = np.where(observed, residuals, 0.0) ** 2
    distances = np.sqrt(squares.sum(axis=0) / np.maximum(observed.sum(axis=0), 1))
    return np.where(observed.any(axis=0), distances, np.inf)


def _robust_regression(group):
    """Minimise Σ_i (Σ_v r_vi²)^½ by reweighting: whole places are in or out of order."""
    weights, last = group.weights, np.inf
    for _ in range(50):
        coefficients = _fit(group, group.Y, weights)
        distances = _distances(group, group.Y, coefficients)
        finite = distances[np.isfinite(distances)]
        total = finite.sum()
        if not 0 < total < last * (1 - 1e-4):
            break
        last = total
        weights = group.weights / np.sqrt(np.maximum(distances, 1e-5 * total / len(finite)))
    return coefficients


def _sampled_places(group):
    """Fit to samples of places, concentrate on those that fit; yield the best of every share."""
    rng = np.random.default_rng(group.seed)
    n_features, rank = group.basis.shape
    for share in _SHARES:
        h = max(round(share * n_features), rank + 1)
        trials = []
        for _ in range(_SAMPLES):
            kept = np.zeros(n_features)
            kept[rng.permutation(n_features)[: rank + 2]] = 1.0
            coefficients = _fit(group, group.Y, group.weights * kept)
            for _ in range(2):
                coefficients = _fit_best(group, group.Y, coefficients, h)
            distances = np.sort(_distances(group, group.Y, coefficients))
            trials.append((np.sum(distances[:h] ** 2), coefficients))
        yield from (trial[1] for trial in sorted(trials, key=lambda trial: trial[0])[:_KEPT])


def _match_leverages(group):
    """Match places by the projection onto the vectors' span, which is that of U with rows moved.

    Row i of a projection, sorted, does not depend on the order of the places.
    """
    n_features, rank = group.basis.shape
    Y = group.Y[~np.isnan(group.Y).any(axis=1)]
    affine = bool(group.offset.any())
    if n_features > _MAX_FEATURES_LEVERAGE or len(Y) < rank + affine:
        return None
    if affine:
        Y = Y - Y.mean(axis=0)
    span = np.linalg.svd(Y, full_matrices=False)[2][:rank]
    wanted = _signatures(group.basis @ group.basis.T, group.blocks)
    given = _signatures(span.T @ span, group.blocks)
    misfits = [cdist(wanted[p], given[p], "sqeuclidean") for p in group.blocks]
    return _assign(group, misfits, 0.0)


def _signatures(projection, blocks):
    parts = [np.sort(projection[:, places], axis=1) for places in blocks]
    return np.hstack([projection.diagonal()[:, None], *parts])


@njit(cache=True, nogil=True, error_model="numpy")
def _pool(Y, fitted, weights, places):
    """Pooled misfit of every value (column) at every place (row) of a block."""
    n = len(places)
    misfit = np.zeros((n, n))
    for v in range(len(Y)):
        for a in range(n):
            i = places[a]
            for c in range(n):
                difference = (Y[v, places[c]] - fitted[v, i]) * weights[i]
                if difference == difference:
                    misfit[a, c] += difference * difference
    return misfit
