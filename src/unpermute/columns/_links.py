r"""Which rows of shuffled columns belong to which rows of the others.

Columns that were shuffled together share one permutation :math:`\pi` of the rows. With the clean
columns' directions :math:`u_i` (one row per row of the table) and the shuffled columns' rows
:math:`g_i`:

.. math:: g_{\pi(i)} = A^\top u_i + \varepsilon_i, \qquad \varepsilon_i \sim t_3(0, \Sigma),

that is, all shuffled columns are predicted at once, and what they leave unexplained may be
correlated. First a mixture tells the rows that are in place, pooled over all columns of the group:
a row that moved is a draw from the group's own rows. Then the others are matched to the places that
are left (an assignment problem with the Mahalanobis distance), and prediction and matching are
repeated with the rows found so far, until nothing changes.

How sure a link is follows from its rivals: the posterior probability of row k at place i among all
rows that could be there. Its mean is the share of links to be expected right, without any truth.
"""

from dataclasses import dataclass, replace

import numpy as np
from numba import njit
from scipy.optimize import linear_sum_assignment
from scipy.spatial import cKDTree
from scipy.special import logsumexp

from unpermute.numerics.mixture_regression import directions_of

__all__ = ["RowLinks", "link_known_rows", "link_rows", "link_views"]

_RATIOS = (0.0, 0.3, 0.5, 0.75, 0.9)
_MAX_ITER = 500
# Steps after which only the best starts go on, and how many do.
_SCREENING, _FINALISTS = 6, 3
_TOLERANCE = 1e-6
# Rounds of matching, share of the rows that may still change at the end, and steps of each fit.
_MAX_ROUNDS, _SETTLED, _ROUND_STEPS = 6, 0.005, 30
# Degrees of freedom of what is left unexplained: tables have heavy tails.
_TAIL = 3.0
# The covariance is as likely as if so many rows had left that share of the variance unexplained;
# once rows are matched, hardly any is assumed.
_PRIOR_SIZE, _PRIOR_NOISE = 10.0, 0.05
_MATCHED_SIZE = 1e-7
# Share of a column's variance that is never explained: rounding.
_FLOOR = 1e-10
# Starts are tried on about so many rows, and rivals are looked up for so many at once.
_SAMPLE, _CHUNK = 1000, 2000
# More rows than this are matched with some of their nearest ones only.
_MAX_ASSIGNED = 600
_NEIGHBOURS, _PASSES = 15, 8
_DENSITY_STEPS = 30


@dataclass(frozen=True)
class RowLinks:
    """How the rows of a group of columns are to be moved, and how sure that is.

    Attributes
    ----------
    order : ndarray of shape (n_rows,)
        Row ``order[i]`` of the group belongs to row i of the table.
    posterior : ndarray of shape (n_rows,)
        Probability of that link among its rivals.
    in_place : ndarray of shape (n_rows,)
        Probability that the row never moved.
    evidence : float
        Log evidence that the group has anything to do with the other columns.
    predicted, observed : ndarray of shape (n_rows, n_columns)
        What the other columns say of every row, and the group's rows as they stand, in units of
        what is left unexplained.
    """

    order: np.ndarray
    posterior: np.ndarray
    in_place: np.ndarray
    evidence: float
    predicted: np.ndarray
    observed: np.ndarray

    def agreement(self, rows):
        """Correlation of some rows, as they stand, with what is predicted for them."""
        a, b = (part[rows] - part[rows].mean(axis=0) for part in (self.predicted, self.observed))
        return float(np.sum(a * b) / max(np.sqrt(np.sum(a * a) * np.sum(b * b)), 1e-300))

    @property
    def strength(self):
        """Share of the links of moved rows that is to be expected right."""
        moved = self.order != np.arange(len(self.order))
        return float(self.posterior[moved].mean()) if moved.any() else 1.0


def link_rows(reference, group, *, blocks=None, start=None):
    """Find the permutation that the rows of `group` share.

    Parameters
    ----------
    reference : ndarray of shape (n_rows, n_reference)
        Standardised columns that are in order, without missing values.
    group : ndarray of shape (n_rows, n_columns)
        Standardised columns that were shuffled together, without missing values.
    blocks : ndarray of int of shape (n_rows,), default=None
        Rows only move within their block.
    start : ndarray of int of shape (n_rows,), default=None
        An order found elsewhere; it is taken if its links are surer.

    Returns
    -------
    RowLinks
    """
    return link_views([reference], [group], blocks=blocks, start=start)


def link_views(references, groups, *, blocks=None, start=None):
    """The same where columns are given in several views: in that which tells most of the group."""
    n = len(groups[0])
    blocks = np.zeros(n, dtype=np.int64) if blocks is None else blocks
    fits = []
    for reference, group in zip(references, groups, strict=True):
        problem = _problem(reference, group, blocks)
        fits.append((problem, *_fit(problem)))
    problem, model, evidence = max(fits, key=lambda fit: fit[2])
    order = np.arange(n)
    for _ in range(_MAX_ROUNDS):
        previous, order = order, _match(problem, model)
        model = _refit(problem, model, order)
        if np.mean(order != previous) <= _SETTLED:
            break
    posterior = _posterior(problem, model, order)
    if start is not None and not blocks.any():
        other = _posterior(problem, model, start)
        if other.sum() > posterior.sum():
            order, posterior = start, other
    predicted, observed = _whitened(problem, model, np.arange(n))
    return RowLinks(order, posterior, model.weights, evidence, predicted, observed)


def link_known_rows(references, groups, originals):
    """Order of the rows of a group, by somebody who knows how it depends on the reference.

    `originals` are the rows of the group in place; they teach the dependence, and nothing else.
    """
    n, fits = len(groups[0]), []
    for reference, group, original in zip(references, groups, originals, strict=True):
        known = _problem(reference, original, np.zeros(n, dtype=np.int64))
        fits.append((replace(known, rows=group), *_fit(known)))
    problem, model, _ = max(fits, key=lambda fit: fit[2])
    return _match(problem, replace(model, weights=np.zeros(n)))


def _problem(reference, group, blocks):
    U, variances = directions_of(reference.T)
    prior = np.maximum(variances * reference.shape[1], 1e-12)
    return _Problem(U * np.sqrt(len(group)), group, prior, blocks, _log_density(group))


@dataclass(frozen=True)
class _Problem:
    """What is given.

    Directions of the reference with mean square 1, the group's rows, prior variances of the
    coefficients, blocks, and the log density of rows that may come from anywhere.
    """

    U: np.ndarray
    rows: np.ndarray
    prior: np.ndarray
    blocks: np.ndarray
    outside: np.ndarray

    def take(self, rows):
        return replace(
            self,
            U=self.U[rows],
            rows=self.rows[rows],
            blocks=self.blocks[rows],
            outside=self.outside[rows],
        )


@dataclass(frozen=True)
class _Model:
    """Prediction A, covariance Σ of what it leaves, and which rows are in place."""

    coefficients: np.ndarray
    covariance: np.ndarray
    share: float
    weights: np.ndarray
    objective: float


def _fit(problem):
    """Mixture of rows in place and rows from anywhere, from several starts; and its evidence."""
    sample = problem.take(slice(None, None, -(-len(problem.rows) // _SAMPLE)))
    U, G, prior = sample.U, sample.rows, sample.prior
    least = np.linalg.solve(U.T @ U + np.diag(1.0 / prior), U.T @ G)
    starts = []
    for rank in np.unique(np.minimum(2 ** np.arange(8), len(prior))):
        for ratio in _RATIOS:
            start = np.where(np.arange(len(prior))[:, None] < rank, least, 0.0) / (1 - ratio)
            explained = np.mean((U @ start) ** 2, axis=0)
            start = start * np.sqrt(np.minimum(1.0, 1.0 / np.maximum(explained, 1e-12)))
            starts.append(_maximise(sample, start, 1 - ratio, _PRIOR_SIZE, max_iter=_SCREENING))
    starts.sort(key=lambda model: _occam(sample, model) - model.objective)
    finalists = [
        _maximise(sample, model.coefficients, model.share, _PRIOR_SIZE)
        for model in starts[:_FINALISTS]
    ]
    evidence = [model.objective - _occam(sample, model) for model in finalists]
    best = finalists[int(np.argmax(evidence))]
    if len(G) < len(problem.rows):
        best = _maximise(problem, best.coefficients, best.share, _PRIOR_SIZE)
    return best, max(evidence) - np.sum(sample.outside)


def _maximise(problem, A, share, size, *, max_iter=_MAX_ITER):
    """Expectation-maximisation; the indicator of a row is shared by all columns of the group."""
    U, G, prior = problem.U, problem.rows, problem.prior
    n, objective = len(G), -np.inf
    residuals = G - U @ A
    nearest = np.argsort(np.sum(residuals**2, axis=1))[: max(int(share * n / 2), 3)]
    covariance = _covariance(residuals[nearest], np.ones(len(nearest)), len(nearest), size)
    share = min(share, 0.99)
    for _ in range(max_iter):
        distance = _mahalanobis(residuals, covariance)
        inside = np.log(share) + _log_student(distance, covariance)
        total = np.logaddexp(inside, np.log1p(-share) + problem.outside)
        weights = np.exp(inside - total)
        penalty = 0.5 * np.sum(A**2 / prior[:, None]) + _penalty(covariance, size)
        previous, objective = objective, float(total.sum() - penalty)
        if objective - previous <= _TOLERANCE * n:
            break
        precise = weights * (_TAIL + G.shape[1]) / (_TAIL + distance)
        ridge = np.diag(np.mean(np.diag(covariance)) / prior)
        A = np.linalg.solve((U.T * precise) @ U + ridge, (U.T * precise) @ G)
        residuals = G - U @ A
        covariance = _covariance(residuals, precise, weights.sum(), size)
        share = float((weights.sum() + 1) / (n + 2))
    return _Model(A, covariance, share, weights, objective)


def _refit(problem, model, order):
    """Fit to the rows as matched; then tell again which rows are in place, as they stand."""
    matched = replace(problem, rows=problem.rows[order], outside=problem.outside[order])
    again = _maximise(
        matched, model.coefficients, max(model.share, 0.5), _MATCHED_SIZE, max_iter=_ROUND_STEPS
    )
    residuals = problem.rows - problem.U @ again.coefficients
    distance = _mahalanobis(residuals, again.covariance)
    inside = np.log(model.share) + _log_student(distance, again.covariance)
    outside = np.log1p(-model.share) + problem.outside
    weights = np.exp(inside - np.logaddexp(inside, outside))
    share = float((weights.sum() + 1) / (len(weights) + 2))
    return replace(again, share=share, weights=weights)


def _match(problem, model):
    """Match the rows that are not in place to the places that are left."""
    order = np.arange(len(problem.rows))
    loose = model.weights < 0.5
    for block in np.unique(problem.blocks[loose]):
        places = np.flatnonzero(loose & (problem.blocks == block))
        predicted, observed = _whitened(problem, model, places)
        if observed.shape[1] == 1:
            # Along one direction the best matching is a sort.
            chosen = np.empty(len(places), dtype=np.int64)
            chosen[np.argsort(predicted[:, 0])] = np.argsort(observed[:, 0])
        elif len(places) <= _MAX_ASSIGNED:
            cost = _cost(_squared_distances(predicted, observed), observed.shape[1])
            chosen = linear_sum_assignment(cost)[1]
        else:
            chosen = _match_nearest(predicted, observed)
        order[places] = places[chosen]
    return order


def _match_nearest(predicted, observed):
    """Match every place with one of its nearest rows: greedily, then exchanging while it helps."""
    k = min(_NEIGHBOURS, len(predicted))
    distance, neighbour = cKDTree(observed).query(predicted, k=k)
    chosen = np.full(len(predicted), -1)
    taken = _greedy(np.argsort(distance, axis=None), neighbour, chosen)
    places, rows = np.flatnonzero(chosen < 0), np.flatnonzero(~taken)
    chosen[places[np.argsort(predicted[places, 0])]] = rows[np.argsort(observed[rows, 0])]
    _exchange(predicted, observed, neighbour, 0.5 * (_TAIL + observed.shape[1]), chosen)
    return chosen


def _posterior(problem, model, order):
    """Probability of the values of every link among all rows of the block."""
    posterior = np.ones(len(order))
    for block in np.unique(problem.blocks):
        places = np.flatnonzero(problem.blocks == block)
        predicted, observed = _whitened(problem, model, places)
        links, size = np.searchsorted(places, order[places]), observed.shape[1]
        # Rows that hold the same values are one row for the table.
        copies = _copies(problem.rows[places])[links]
        for part in np.array_split(np.arange(len(places)), -(-len(places) // _CHUNK)):
            cost = _cost(_squared_distances(predicted[part], observed), size)
            own = cost[np.arange(len(part)), links[part]]
            posterior[places[part]] = copies[part] * np.exp(-own - logsumexp(-cost, axis=1))
    return np.minimum(posterior, 1.0)


def _copies(rows):
    """How many rows hold the same values as each."""
    _, inverse, counts = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    return counts[inverse.ravel()]


def _whitened(problem, model, places):
    """Predicted and observed rows in units of what is left unexplained."""
    root = np.linalg.inv(np.linalg.cholesky(model.covariance)).T
    return problem.U[places] @ model.coefficients @ root, problem.rows[places] @ root


def _squared_distances(predicted, observed):
    squares = np.sum(predicted**2, axis=1)[:, None] + np.sum(observed**2, axis=1)
    return np.maximum(squares - 2.0 * predicted @ observed.T, 0.0)


def _cost(distance, size):
    """Minus log density of rows of `size` columns at a squared distance, up to a constant."""
    return 0.5 * (_TAIL + size) * np.log1p(distance / _TAIL)


def _covariance(residuals, weights, total, size):
    """Weighted covariance of the residuals, with its prior."""
    moments = (residuals.T * weights) @ residuals
    prior = (size * _PRIOR_NOISE + _FLOOR * len(residuals)) * np.eye(len(moments))
    return (moments + prior) / (total + size)


def _penalty(covariance, size):
    """Minus log prior of a covariance, up to a constant."""
    log_det = np.linalg.slogdet(covariance)[1]
    return 0.5 * size * (log_det + _PRIOR_NOISE * np.trace(np.linalg.inv(covariance)))


def _occam(problem, model):
    """Laplace's correction: coefficients that must be exact are less likely to be met."""
    gram = (problem.U.T * model.weights) @ problem.U
    total = 0.0
    for variance in np.diag(model.covariance):
        hessian = gram / variance + np.diag(1.0 / problem.prior)
        total += 0.5 * (np.linalg.slogdet(hessian)[1] + np.sum(np.log(problem.prior)))
    return total


def _log_density(rows):
    """Log density of the group's rows, each as if it came from anywhere among them.

    The covariance is fitted like that of the rows in place: with another one the mixture would
    find a link where there is none.
    """
    centred = rows - rows.mean(axis=0)
    covariance = _covariance(centred, np.ones(len(rows)), len(rows), 0.0)
    for _ in range(_DENSITY_STEPS):
        precise = (_TAIL + rows.shape[1]) / (_TAIL + _mahalanobis(centred, covariance))
        covariance = _covariance(centred, precise, len(rows), 0.0)
    return _log_student(_mahalanobis(centred, covariance), covariance)


def _mahalanobis(rows, covariance):
    return np.sum(np.linalg.solve(np.linalg.cholesky(covariance), rows.T) ** 2, axis=0)


def _log_student(distance, covariance):
    """Log density of the multivariate t, up to a constant."""
    return -0.5 * np.linalg.slogdet(covariance)[1] - _cost(distance, len(covariance))


@njit(cache=True, nogil=True)
def _greedy(pairs, neighbour, chosen):
    """Match pairs from the nearest on; writes `chosen`, returns which rows are taken."""
    n, k = neighbour.shape
    taken = np.zeros(n, dtype=np.bool_)
    for pair in pairs:
        place = pair // k
        row = neighbour[place, pair % k]
        if chosen[place] < 0 and not taken[row]:
            chosen[place] = row
            taken[row] = True
    return taken


@njit(cache=True, nogil=True)
def _exchange(predicted, observed, neighbour, power, chosen):
    """Give a place one of its nearest rows in exchange for its own, while that is cheaper."""
    n, k = neighbour.shape
    place_of = np.empty(n, dtype=np.int64)
    for i in range(n):
        place_of[chosen[i]] = i
    for _ in range(_PASSES):
        n_changed = 0
        for i in range(n):
            for t in range(k):
                row, mine = neighbour[i, t], chosen[i]
                other = place_of[row]
                if other == i:
                    continue
                now = _price(predicted[i], observed[mine], power)
                now += _price(predicted[other], observed[row], power)
                then = _price(predicted[i], observed[row], power)
                then += _price(predicted[other], observed[mine], power)
                if then < now - 1e-9:
                    chosen[i], chosen[other] = row, mine
                    place_of[row], place_of[mine] = i, other
                    n_changed += 1
        if n_changed == 0:
            break


@njit(cache=True, nogil=True)
def _price(predicted, observed, power):
    square = 0.0
    for c in range(len(predicted)):
        square += (predicted[c] - observed[c]) ** 2
    return power * np.log1p(square / _TAIL)
