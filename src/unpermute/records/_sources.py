r"""Records of one source share one permutation: their log-likelihoods add up.

.. math:: \max_\pi \sum_{r \in \text{source}} L_r(\pi) + \log\mathrm{prior}(\pi)

Most sources have their columns in order, but which? The source whose distribution explains the
other ones best comes first; a distribution learned from it finds the order of the others, which
join it. Then every source is judged by the sources of the other folds. The search exchanges two
columns while it helps, from several starts: the order as it is, assignments by the marginals and by
the correlations between columns, and each improved by what the other columns predict. The order
that most records share counts as the right one: a majority is never turned.
"""

from dataclasses import dataclass

import numpy as np

from unpermute._progress import report
from unpermute.records._cells import Cells
from unpermute.records._model import RecordModel, fit_model, place_cells
from unpermute.records._prior import default_prior, log_prior
from unpermute.records._record import HOLE, WORTH, Laws, Work, Z, new_room, new_work, read_records
from unpermute.records._search import exchanged

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
# Other sources that a candidate is compared with.
_COMPARED = 50


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


def repair_sources(cells, sources, *, rank, seed, model=None):
    """Find the order of the columns of every source; `sources` are numbers from 0."""
    rng = np.random.default_rng(seed)
    p = cells.shape[1]
    limit = int(np.clip(_CELLS // p**2, 10, _RECORDS))
    sizes = np.bincount(sources)
    mixed = rng.permutation(len(sources))
    mixed = mixed[np.argsort(sources[mixed], kind="stable")]
    members = [np.sort(rows[:limit]) for rows in np.split(mixed, np.cumsum(sizes)[:-1])]
    prior = log_prior(default_prior(p, _DAMAGED))[0]
    learn = _Learner(cells, members, rank, seed)
    orders = np.tile(np.arange(p), (len(members), 1))
    if model is None:
        first = learn.model(orders, [_most_typical(learn)])
        states = [_state(first, cells.take(rows)) for rows in members]
        orders = np.stack([_search(state, prior)[0] for state in states])
        orders = _majority_first(orders, sizes)
    for _ in range(_ROUNDS):
        versions = model and [model]
        folds = np.arange(len(members)) % min(_FOLDS, len(members))
        if versions is None:
            versions = [learn.model(orders, np.flatnonzero(folds != k)) for k in np.unique(folds)]
        found: list[tuple] = []
        for s, rows in enumerate(members):
            version = versions[folds[s] if len(versions) > 1 else 0]
            found.append(_judge(_state(version, cells.take(rows)), prior, orders[s]))
            report("sources", s + 1, len(members))
        last, orders = orders, np.stack([result[0] for result in found])
        if model is None:
            orders = _majority_first(orders, sizes)
        if model is not None or np.array_equal(last, orders):
            break
    parts = [np.array(part) for part in zip(*found, strict=True)]
    model = learn.model(orders, np.arange(len(members))) if model is None else model
    return Sources(model, *parts)


def _majority_first(orders, sizes):
    """Orders relative to the one that most records share."""
    distinct, which = np.unique(orders, axis=0, return_inverse=True)
    common = distinct[np.argmax(np.bincount(which.ravel(), weights=sizes))]
    return orders[:, np.argsort(common)]


@dataclass(frozen=True)
class _Learner:
    """Learns a model from some of the sources, put in order."""

    cells: Cells
    members: list[np.ndarray]
    rank: int | None
    seed: int

    def model(self, orders, chosen) -> RecordModel:
        if not len(chosen):
            chosen = np.arange(len(self.members))
        rows = np.concatenate([self.members[s] for s in chosen])
        order = np.concatenate([np.tile(orders[s], (len(self.members[s]), 1)) for s in chosen])
        cells = self.cells.take(rows).permuted(order)
        used = np.ones(len(rows), dtype=bool)
        prior = default_prior(cells.shape[1], _DAMAGED)
        return fit_model(cells, used, prior, rank=self.rank, seed=self.seed)[0]


@dataclass(frozen=True)
class _State:
    """The records of a source as a model sees them: z and worth of every value in every column."""

    codes: np.ndarray
    missing: np.ndarray
    Z: np.ndarray
    worth: np.ndarray
    work: Work
    room: np.ndarray | None
    laws: Laws
    z: np.ndarray

    def pool(self, order, around):
        """Sum log-likelihoods; writes those after every exchange a < b into `around`, else -inf."""
        stays, after = exchanged(self.work, self.room, self.laws, order)
        # Equal values may be exchanged: nothing changes.
        after = np.where(after > -np.inf, after, stays[:, None, None])
        around[:] = np.where(np.triu(np.ones(around.shape, dtype=bool), 1), after.sum(0), -np.inf)
        return stays.sum()


def _state(model, cells):
    placed = place_cells(model, cells)
    n, p = placed.codes.shape
    tables, laws = placed.tables(), model.laws()
    work = new_work(n, p, laws)
    read_records(tables, laws, 0, n, work)
    missing, z = work.cells[:, HOLE] > 0, placed.z[placed.codes, np.arange(p)]
    return _State(
        placed.codes, missing, work.planes[:, Z], work.planes[:, WORTH], work, new_room(tables),
        laws, z,
    )  # fmt: skip


def _most_typical(learn):
    """Source whose distribution gives the typical other source the highest likelihood."""
    sizes = np.array([len(rows) for rows in learn.members])
    candidates = np.argsort(-sizes, kind="stable")[:_CANDIDATES]
    p = learn.cells.shape[1]
    identity = np.tile(np.arange(p), (len(sizes), 1))
    best, chosen, around = -np.inf, candidates[0], np.empty((p, p))
    for s in candidates:
        others = [t for t in range(len(sizes)) if t != s][:_COMPARED]
        if not others:
            break
        model = learn.model(identity, [s])
        levels = []
        for t in others:
            state = _state(model, learn.cells.take(learn.members[t]))
            levels.append(state.pool(np.arange(p), around) / max(sizes[t], 1))
        level = np.sort(levels)[len(levels) // 2]
        if level > best:
            best, chosen = level, s
    return int(chosen)


def _judge(state, prior, start):
    """Best order of a source and how sure it is."""
    p = state.codes.shape[1]
    identity = np.arange(p)
    best, value = _search(state, prior, start)
    around_own = np.empty((p, p))
    stays = state.pool(identity, around_own) + prior[0]
    around_own += _move_prior(identity, prior)
    same = np.array([np.all(state.codes == column[:, None], axis=0) for column in state.codes.T])
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
    state.pool(best, around)
    around += _move_prior(best, prior)
    around[same[np.ix_(best, best)]] = -np.inf
    weights = np.exp(np.minimum(around - value, 0.0))
    own = np.exp(stays - value)
    total = 1 + weights.sum() + own
    wrong = weights.sum(axis=0) + weights.sum(axis=1) + own * (best != identity)
    gain = value - stays
    return best, best, gain, gain, 1 / total, np.clip(1 - wrong / total, 0, 1)


def _search(state, prior, start=None):
    """Best order of a source over several starts, and its log-posterior."""
    p = state.codes.shape[1]
    best, top = np.arange(p), -np.inf
    if not len(state.codes):
        return best, 0.0
    starts = [np.arange(p), _by_marginals(state), _by_correlations(state)]
    if start is not None:
        starts.insert(0, start)
    for start in starts:
        order, value = _climb(start, state, prior)
        for _ in range(_REASSIGNMENTS):
            other, other_value = _climb(_by_prediction(order, state), state, prior)
            if not other_value > value + 1e-9:
                break
            order, value = other, other_value
        if value > top + 1e-9:
            best, top = order, value
    return best, top


def _climb(start, state, prior):
    """Exchange two columns while it helps."""
    p = len(start)
    order, around = start.copy(), np.empty((p, p))
    value = state.pool(order, around) + prior[np.count_nonzero(order != np.arange(p))]
    for _ in range(4 * p):
        around += _move_prior(order, prior)
        a, b = np.unravel_index(np.argmax(around), around.shape)
        if not around[a, b] > value + 1e-9:
            break
        value = float(around[a, b])
        order[[a, b]] = order[[b, a]]
        state.pool(order, around)
    return order, value


def _move_prior(order, prior):
    """Log-prior after the exchange of places a and b."""
    places = np.arange(len(order))
    moved = order != places
    lands = order[None, :] != places[:, None]
    k = moved.sum() + lands + lands.T - moved[:, None] - moved[None, :]
    np.fill_diagonal(k, 0)
    return prior[k]


def _by_marginals(state):
    """Assign all columns by their own distributions."""
    nu, variances = state.laws.degrees, state.laws.variances[-1]
    price = 0.5 * (nu + 1) * np.log1p(state.Z**2 / (nu * variances)) + 0.5 * np.log(variances)
    return _cheapest(np.where(state.missing[:, :, None], 0.0, price) - state.worth)


def _by_correlations(state):
    """Match columns whose correlations with all others, sorted, look alike."""
    from scipy.spatial.distance import cdist

    z = state.z
    ranks = np.argsort(np.argsort(z, axis=0, kind="stable"), axis=0)
    observed = np.zeros((z.shape[1], z.shape[1]))
    if len(ranks) > 1:  # one record has no correlations
        with np.errstate(invalid="ignore", divide="ignore"):
            observed[:] = np.nan_to_num(np.corrcoef(ranks.T))
    covariance = np.linalg.inv(state.laws.precision[-1])
    deviations = np.sqrt(np.diag(covariance))
    wanted = covariance / np.outer(deviations, deviations)
    return _assignment(cdist(np.sort(wanted, axis=1), np.sort(observed, axis=1)))


def _by_prediction(order, state):
    """Assign all columns by what the others predict in the present order."""
    places, P, nu = np.arange(len(order)), state.laws.precision[-1], state.laws.degrees
    z = state.Z[:, order, places]
    variance = 1 / np.diag(P)
    predicted = z - (z @ P) * variance
    price = 0.5 * (nu + 1) * np.log1p((state.Z - predicted[:, None, :]) ** 2 / (nu * variance))
    return _cheapest(np.where(state.missing[:, :, None], 0.0, price) - state.worth)


def _cheapest(price):
    """Value of every place, for prices of shape (record, value, place)."""
    return _assignment(price.sum(axis=0).T)


def _assignment(costs):
    # Imported where it is needed, as `cdist` above: most tables have no sources.
    from scipy.optimize import linear_sum_assignment

    return linear_sum_assignment(costs)[1]
