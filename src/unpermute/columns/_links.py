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

from unpermute.numerics.mixture_regression import (
    TAIL,
    Regression,
    directions_of,
    fit_regression,
    log_density_of_rows,
    log_tail,
    maximise,
)

__all__ = ["RowLinks", "link_known_rows", "link_rows", "link_views"]

# Rounds of matching, share of the rows that may still change at the end, and steps of each fit.
_MAX_ROUNDS, _SETTLED, _ROUND_STEPS = 6, 0.005, 30
# Once rows are matched, hardly any noise is assumed beforehand.
_MATCHED_SIZE = 1e-7
# Rows to which regressions are fitted at most, and rows whose rivals are looked up at once.
_MAX_FITTED, _CHUNK = 20_000, 2000
# Among more rows than this, the rivals of a link are its nearest ones, and about so many others,
# each of which stands for many.
_MAX_RIVALS, _NEAREST, _OTHERS = 2000, 30, 300
# More rows than this are matched with some of their nearest ones only.
_MAX_ASSIGNED = 600
_NEIGHBOURS, _PASSES = 15, 8


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
        fits.append((problem, _fit(problem)))
    problem, model = max(fits, key=lambda fit: fit[1].evidence)
    evidence = float(model.evidence)
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
        fits.append((replace(known, rows=group), _fit(known)))
    problem, model = max(fits, key=lambda fit: fit[1].evidence)
    return _match(problem, model._replace(weights=np.zeros(n)))


def _problem(reference, group, blocks):
    U, variances = directions_of(reference.T)
    prior = np.maximum(variances * reference.shape[1], 1e-12)
    return _Problem(U * np.sqrt(len(group)), group, prior, log_density_of_rows(group), blocks)


@dataclass(frozen=True)
class _Problem(Regression):
    """Directions of the reference with mean square 1, the group's rows, and their blocks."""

    blocks: np.ndarray

    def thinned(self):
        """Return the problem with fewer rows, if there are very many."""
        return self.every(-(-len(self.rows) // _MAX_FITTED))


def _fit(problem):
    """Fit to some of the rows, if there are very many; tell of all which are in place."""
    model = fit_regression(problem.thinned())
    weights = problem.expectation(model.A, model.covariance, model.share)[1]
    return model._replace(weights=weights)


def _refit(problem, model, order):
    """Fit to the rows as matched; then tell again which rows are in place, as they stand."""
    matched = replace(problem, rows=problem.rows[order], outside=problem.outside[order])
    share = np.maximum(model.share, 0.5)
    again = maximise(
        matched.thinned(), model.A[None], share[None], model.covariance[None], size=_MATCHED_SIZE,
        max_iter=_ROUND_STEPS,
    ).take(0)  # fmt: skip
    weights = problem.expectation(again.A, again.covariance, model.share)[1]
    return again._replace(share=(weights.sum() + 1) / (len(weights) + 2), weights=weights)


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
            fit = log_tail(_squared_distances(predicted, observed), observed.shape[1])
            chosen = linear_sum_assignment(fit, maximize=True)[1]
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
    _exchange(predicted, observed, neighbour, chosen)
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
        own = np.exp(log_tail(np.sum((predicted - observed[links]) ** 2, axis=1), size))
        posterior[places] = copies * own / _rivals(predicted, observed)
    return np.minimum(posterior, 1.0)


def _rivals(predicted, observed):
    """Summed density of all rows at every place.

    Of many different rows the nearest and the commonest ones are summed, and a random sample stands
    for the others.
    """
    rows, counts = np.unique(observed, axis=0, return_counts=True)
    n, size = rows.shape
    total, near = np.zeros(len(predicted)), None
    some, weights = np.arange(n), counts.astype(float)
    if n > _MAX_RIVALS:
        distance, near = cKDTree(rows).query(predicted, k=_NEAREST)
        total = np.sum(counts[near] * np.exp(log_tail(distance**2, size)), axis=1)
        common = np.flatnonzero(counts > len(observed) / _OTHERS)
        others = np.setdiff1d(some, common)
        drawn = np.random.default_rng(0).choice(others, min(_OTHERS, len(others)), replace=False)
        some = np.r_[common, drawn]
        weights = np.r_[counts[common], counts[drawn] * (len(others) / max(len(drawn), 1))]
    for part in np.array_split(np.arange(len(predicted)), -(-len(predicted) // _CHUNK)):
        density = np.exp(log_tail(_squared_distances(predicted[part], rows[some]), size))
        if near is not None:  # these were summed already
            density[(some[:, None] == near[part, None]).any(axis=-1)] = 0.0
        total[part] += density @ weights
    return total


def _copies(rows):
    """How many rows hold the same values as each."""
    _, inverse, counts = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    return counts[inverse.ravel()]


def _whitened(problem, model, places):
    """Predicted and observed rows in units of what is left unexplained."""
    root = np.linalg.inv(np.linalg.cholesky(model.covariance)).T
    return problem.U[places] @ model.A @ root, problem.rows[places] @ root


def _squared_distances(predicted, observed):
    squares = np.sum(predicted**2, axis=1)[:, None] + np.sum(observed**2, axis=1)
    return np.maximum(squares - 2.0 * predicted @ observed.T, 0.0)


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
def _exchange(predicted, observed, neighbour, chosen):
    """Give a place one of its nearest rows in exchange for its own, while that is cheaper.

    A cost is a multiple of the logarithm of a price, so two of them are compared by products.
    """
    n, k = neighbour.shape
    place_of, paid = np.empty(n, dtype=np.int64), np.empty(n)
    for i in range(n):
        place_of[chosen[i]] = i
        paid[i] = _price(predicted, i, observed, chosen[i])
    for _ in range(_PASSES):
        n_changed = 0
        for i in range(n):
            for t in range(k):
                row, mine = neighbour[i, t], chosen[i]
                other = place_of[row]
                if other == i:
                    continue
                here = _price(predicted, i, observed, row)
                there = _price(predicted, other, observed, mine)
                if here * there < paid[i] * paid[other] * (1 - 1e-9):
                    chosen[i], chosen[other] = row, mine
                    place_of[row], place_of[mine] = i, other
                    paid[i], paid[other] = here, there
                    n_changed += 1
        if n_changed == 0:
            break


@njit(cache=True, nogil=True)
def _price(predicted, place, observed, row):
    square = 0.0
    for c in range(predicted.shape[1]):
        square += (predicted[place, c] - observed[row, c]) ** 2
    return 1.0 + square / TAIL
