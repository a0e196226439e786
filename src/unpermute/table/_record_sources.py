r"""Records of one source share one permutation: their log-likelihoods add up.

.. math:: \max_\pi \sum_{r \in \text{source}} L_r(\pi) + \log\mathrm{prior}(\pi)

Most sources have their columns in order, but which? The source whose distribution explains the
other ones best comes first; a distribution learned from it finds the order of the others, which
join it. Then every source is judged by the sources of the other folds. The search exchanges two
columns while it helps, from several starts: the order as it is, assignments by the marginals and by
the correlations between columns, and each improved by what the other columns predict.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from unpermute._progress import report
from unpermute.table._record_columns import fit_columns, place_values, standardise
from unpermute.table._record_likelihood import likelihood, neighbours, rebuild
from unpermute.table._record_model import RecordModel
from unpermute.table._record_prior import default_prior, log_prior
from unpermute.table._record_scatter import fit_scatter, log_densities

__all__ = ["Sources", "repair_sources"]

# Records of a source that are looked at, and the memory their tables may take.
_RECORDS, _CELLS = 200, 4_000_000
# Sources that are tried as the one the others are compared with.
_CANDIDATES = 8
_FOLDS = 5
_DAMAGED = 0.1
_ROUNDS = 2
# Passes in which all columns are assigned anew by what the others predict.
_REASSIGNMENTS = 4


@dataclass(frozen=True)
class Sources:
    """One permutation per source.

    Attributes
    ----------
    model : RecordModel
        Learned from all sources, put in order.
    permutations : ndarray of shape (n_sources, p)
        The best one; the identity where nothing is better.
    alternative : ndarray of shape (n_sources, p)
        The best one but the identity.
    gain, odds, confidence : ndarray of shape (n_sources,)
        Log-posterior of the alternative relative to leaving alone, log-odds of any change, and
        probability of the better one.
    entries : ndarray of shape (n_sources, p)
        Probability that a column is right.
    """

    model: RecordModel
    permutations: np.ndarray
    alternative: np.ndarray
    gain: np.ndarray
    odds: np.ndarray
    confidence: np.ndarray
    entries: np.ndarray


def repair_sources(values, classes, sources, *, integer, rank, seed, model=None):
    """Find the order of the columns of every source; `sources` are numbers from 0."""
    rng = np.random.default_rng(seed)
    p = values.shape[1]
    limit = int(np.clip(_CELLS // p**2, 10, _RECORDS))
    mixed = rng.permutation(len(values))
    mixed = mixed[np.argsort(sources[mixed], kind="stable")]
    members = np.split(mixed, np.cumsum(np.bincount(sources))[:-1])
    members = [np.sort(rows[:limit]) for rows in members]
    prior = log_prior(default_prior(p, _DAMAGED))[0]
    learn = _Learner(values, classes, members, integer, rank, seed)
    orders = np.tile(np.arange(p), (len(members), 1))
    if model is None:
        first = learn.model(orders, [_most_typical(learn)])
        orders = np.stack([_search(first, values, classes, rows, prior)[0] for rows in members])
    for _ in range(_ROUNDS):
        versions = model and [model]
        folds = np.arange(len(members)) % min(_FOLDS, len(members))
        if versions is None:
            versions = [learn.model(orders, np.flatnonzero(folds != k)) for k in np.unique(folds)]
        found: list[tuple] = []
        for s, rows in enumerate(members):
            version = versions[folds[s] if len(versions) > 1 else 0]
            found.append(_judge(version, values, classes, rows, prior, orders[s]))
            report("sources", s + 1, len(members))
        last, orders = orders, np.stack([result[0] for result in found])
        if model is not None or np.array_equal(last, orders):
            break
    parts = [np.array(part) for part in zip(*found, strict=True)]
    model = learn.model(orders, np.arange(len(members))) if model is None else model
    return Sources(model, *parts)


@dataclass(frozen=True)
class _Learner:
    """Learns a model from some of the sources, put in order."""

    values: np.ndarray
    classes: np.ndarray
    members: list[np.ndarray]
    integer: np.ndarray
    rank: int | None
    seed: int

    def model(self, orders, chosen):
        if not len(chosen):
            chosen = np.arange(len(self.members))
        rows = np.concatenate([self.members[s] for s in chosen])
        order = np.concatenate([np.tile(orders[s], (len(self.members[s]), 1)) for s in chosen])
        values = np.take_along_axis(self.values[rows], order, axis=1)
        classes = np.take_along_axis(self.classes[rows], order, axis=1)
        weights = np.ones(len(rows))
        # Where a type has no missing values says nothing about which source is in order.
        anywhere = np.zeros(values.shape[1], dtype=bool)
        columns = fit_columns(values, classes, weights, self.integer, no_null=anywhere)
        z = standardise(columns, values)[0]
        rng = np.random.default_rng(self.seed)
        scatter = fit_scatter(z, weights, columns.floor, rank=self.rank, rng=rng)
        return RecordModel(columns, scatter, default_prior(values.shape[1], _DAMAGED), 0.5)


def _most_typical(learn):
    """Source whose distribution gives the typical other source the highest likelihood."""
    sizes = np.array([len(rows) for rows in learn.members])
    candidates = np.argsort(-sizes, kind="stable")[:_CANDIDATES]
    identity = np.tile(np.arange(learn.values.shape[1]), (len(sizes), 1))
    best, chosen = -np.inf, candidates[0]
    for s in candidates:
        others = [t for t in range(len(sizes)) if t != s]
        if not others:
            break
        model = learn.model(identity, [s])
        levels = []
        for t in others[:50]:
            z, worth = standardise(model.columns, learn.values[learn.members[t]])
            # Medians: a level that few odd records cannot move.
            levels.append(float(np.median(log_densities(model.scatter, z) + worth)))
        level = np.sort(levels)[len(levels) // 2]
        if level > best:
            best, chosen = level, s
    return int(chosen)


def _judge(model, values, classes, rows, prior, start):
    """Best order of a source and how sure it is."""
    p = values.shape[1]
    identity = np.arange(p)
    best, value = _search(model, values, classes, rows, prior, start)
    state = _tables(model, values, classes, rows)
    around_own = np.empty((p, p))
    stays = _pool(identity, state, around_own) + prior[0]
    around_own += _move_prior(identity, prior)
    same = _same_columns(values[rows])
    around_own[same] = -np.inf
    if np.array_equal(best, identity) or value <= stays:
        best = identity
        a, b = np.unravel_index(np.argmax(around_own), around_own.shape)
        alternative = identity.copy()
        alternative[[a, b]] = b, a
        weights = np.exp(np.minimum(around_own - stays, 0.0))
        total = 1 + weights.sum()
        entries = 1 - (weights.sum(axis=0) + weights.sum(axis=1)) / total
        gain = float(around_own[a, b] - stays)
        return best, alternative, gain, gain, 1 / total, np.clip(entries, 0, 1)
    around = np.empty((p, p))
    _pool(best, state, around)
    around += _move_prior(best, prior)
    around[same[np.ix_(best, best)]] = -np.inf
    weights = np.exp(np.minimum(around - value, 0.0))
    own = np.exp(stays - value)
    total = 1 + weights.sum() + own
    wrong = weights.sum(axis=0) + weights.sum(axis=1) + own * (best != identity)
    gain = value - stays
    return best, best, gain, gain, 1 / total, np.clip(1 - wrong / total, 0, 1)


def _search(model, values, classes, rows, prior, start=None):
    """Best order of a source over several starts, and its log-posterior."""
    state = _tables(model, values, classes, rows)
    p = values.shape[1]
    best, top = np.arange(p), -np.inf
    if not len(rows):
        return best, 0.0
    starts = [np.arange(p), _by_marginals(*state), _by_correlations(model, values[rows])]
    if start is not None:
        starts.insert(0, start)
    for start in starts:
        order, value = _climb(start, state, prior)
        for _ in range(_REASSIGNMENTS):
            other, other_value = _climb(_by_prediction(order, *state), state, prior)
            if not other_value > value + 1e-9:
                break
            order, value = other, other_value
        if value > top + 1e-9:
            best, top = order, value
    return best, top


def _tables(model, values, classes, rows):
    """What the records of a source are compared by: missing, z, worth, precision, degrees."""
    c, s = model.columns, model.scatter
    Z, worth = _place_all(
        values[rows], classes[rows], c.kind, c.offset, c.location, c.scale, c.outside, c.evidence,
        s.location[-1],
    )  # fmt: skip
    return np.isnan(values[rows]), Z, worth, s.precision[-1], s.degrees


def _climb(start, state, prior):
    """Exchange two columns while it helps."""
    p = len(start)
    order, around = start.copy(), np.empty((p, p))
    value = _pool(order, state, around) + prior[np.count_nonzero(order != np.arange(p))]
    for _ in range(4 * p):
        around += _move_prior(order, prior)
        a, b = np.unravel_index(np.argmax(around), around.shape)
        if not around[a, b] > value + 1e-9:
            break
        value = float(around[a, b])
        order[[a, b]] = order[[b, a]]
        _pool(order, state, around)
    return order, value


def _pool(order, state, around):
    missing, Z, worth, P, nu = state
    return _pooled(order, missing, Z, worth, P, nu, around)


def _move_prior(order, prior):
    """Log-prior after the exchange of places a and b."""
    places = np.arange(len(order))
    moved = order != places
    lands = order[None, :] != places[:, None]
    k = moved.sum() + lands + lands.T - moved[:, None] - moved[None, :]
    np.fill_diagonal(k, 0)
    return prior[k]


def _same_columns(values):
    """Pairs of columns that hold the same values in all records."""
    filled = np.where(np.isnan(values), np.inf, values)
    return np.array([np.all(filled == column[:, None], axis=0) for column in filled.T])


def _by_marginals(missing, Z, worth, P, nu):
    """Assign all columns by their own distributions."""
    variances = np.diag(np.linalg.inv(P))
    price = 0.5 * (nu + 1) * np.log1p(Z**2 / (nu * variances)) + 0.5 * np.log(variances)
    return _cheapest(np.where(missing[:, :, None], 0.0, price) - worth)


def _by_correlations(model, values):
    """Match columns whose correlations with all others, sorted, look alike."""
    z = standardise(model.columns, values)[0]
    ranks = np.argsort(np.argsort(np.nan_to_num(z), axis=0, kind="stable"), axis=0)
    given = np.zeros((z.shape[1], z.shape[1]))
    if len(ranks) > 1:  # one record has no correlations
        with np.errstate(invalid="ignore", divide="ignore"):
            given[:] = np.nan_to_num(np.corrcoef(ranks.T))
    covariance = np.linalg.inv(model.scatter.precision[-1])
    deviations = np.sqrt(np.diag(covariance))
    wanted = covariance / np.outer(deviations, deviations)
    return linear_sum_assignment(cdist(np.sort(wanted, axis=1), np.sort(given, axis=1)))[1]


def _by_prediction(order, missing, Z, worth, P, nu):
    """Assign all columns by what the others predict in the present order."""
    places = np.arange(len(order))
    z = Z[:, order, places]
    variance = 1 / np.diag(P)
    predicted = z - (z @ P) * variance
    price = 0.5 * (nu + 1) * np.log1p((Z - predicted[:, None, :]) ** 2 / (nu * variance))
    return _cheapest(np.where(missing[:, :, None], 0.0, price) - worth)


def _cheapest(price):
    """Value of every place, for prices of shape (record, value, place)."""
    return linear_sum_assignment(price.sum(axis=0).T)[1]


@njit(cache=True, nogil=True)
def _place_all(
    values, classes, kind, offset, centre, scale, outside, evidence, location
):  # fmt: skip
    """z and worth of every value of every record in every column."""
    n, p = values.shape
    Z, worth = np.empty((n, p, p)), np.empty((n, p, p))
    for r in range(n):
        place_values(
            values[r], classes[r], kind, offset, centre, scale, outside, evidence, Z[r], worth[r]
        )
        for i in range(p):
            for j in range(p):
                Z[r, i, j] -= location[j] if values[r, i] == values[r, i] else 0.0
    return Z, worth


@njit(cache=True, nogil=True)
def _pooled(permutation, missing, Z, worth, P, nu, around):
    """Summed log-likelihood; writes that after every exchange a < b into `around`, else -inf."""
    p = len(permutation)
    z, g, constant = np.empty(p), np.empty(p), np.empty(1)
    own, space = np.empty((p, p)), np.empty((p, p))
    total = 0.0
    for a in range(p):
        for b in range(p):
            around[a, b] = 0.0 if a < b else -np.inf
    for r in range(len(Z)):
        n_missing = np.sum(missing[r])
        Q = space if n_missing else P
        rebuild(permutation, missing[r], n_missing, Z[r], P, z, g, Q, constant)
        total += likelihood(permutation, n_missing, worth[r], nu, z, g, constant)
        neighbours(
            permutation, missing[r], n_missing, Z[r], worth[r], P, nu, z, g, Q, constant, own
        )
        for a in range(p):
            for b in range(a + 1, p):
                around[a, b] += own[a, b]
    return total
