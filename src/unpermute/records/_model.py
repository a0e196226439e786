"""Learn what the records of a table look like when a part of them is damaged.

Alternate: fit the value models and the joint distribution to the records that look whole, search
for the best permutation of every record, learn how often and how records are damaged.
"""

import copy
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, fdtri, logit

from unpermute.numerics.parallel import map_blocks
from unpermute.records._cells import DATE, MISSING, NUMBER, TEXT, Cells
from unpermute.records._dependence import Dependence, fit_dependence
from unpermute.records._joint import JointModel, fit_joint
from unpermute.records._prior import (
    MovePrior,
    default_prior,
    log_prior,
    moves_of,
    update_prior,
)
from unpermute.records._record import Laws, Tables
from unpermute.records._search import Found, Prior, new_found, search_records, watch_orders
from unpermute.records._tempering import Tempering, no_tempering, temper_pairs, tempered_odds
from unpermute.records._text import prepare_texts
from unpermute.records._values import N_FOLDS, ValueModel, fit_values

__all__ = [
    "Placed",
    "RecordModel",
    "adapt_prior",
    "fit_model",
    "learn_model",
    "place_cells",
    "search_again",
    "search_placed",
]

# Rounds of learning; most tables settle after two or three.
_ROUNDS, _PRIOR_ROUNDS = 5, 2
# Share of the records that may still change for a table to be settled.
_SETTLED = 0.001
_BLOCK = 256
# Log-odds after a first look below which a record is not searched.
_SUSPICIOUS = -3.0
# Quantile of the squared distance from which on a record is searched whatever the odds, and below
# which a repaired record is searched no further.
_FAR, _USUAL = 0.99, 0.8
# Probability of an outlying cell.
_OUTLIER = 1e-3
# Probability of a repair from which on the record joins the next fit as repaired.
_EXPLAINED = 0.8
# Share of the records that must look whole for another round, and their least number.
_ENOUGH_SHARE, _ENOUGH = 0.3, 20
# Share of the cells of a column from which their kind (number, date, text) is the usual one there,
# and below which it is rare.
_MOSTLY, _RARE = 0.7, 0.05


@dataclass(frozen=True)
class RecordModel:
    """What was learned from a table.

    Attributes
    ----------
    values : list of ValueModel
        One per column.
    joint : JointModel
        Of the standardised numbers.
    dependence : Dependence
        Of categories, and columns in a fixed order.
    prior : MovePrior
        How often and how records are damaged.
    """

    values: list[ValueModel]
    joint: JointModel
    dependence: Dependence
    prior: MovePrior

    def laws(self):
        """Return what the kernels judge records by."""
        joint, links = self.joint, self.dependence.links()
        return Laws(
            joint.location, joint.precision, joint.variances, joint.used, joint.degrees, links
        )

    @property
    def trust(self):
        """Share of the evidence that counts.

        A distribution learned from few records is wrong in some direction, and the best of many
        permutations finds it.
        """
        return self.joint.n_records / (self.joint.n_records + max(self.joint.used.sum(), 1))


@dataclass(frozen=True)
class Placed:
    """Records whose words have been looked up in every column of a model.

    Attributes
    ----------
    codes : ndarray of int of shape (n, p)
        Words of every record.
    home : ndarray of int of shape (n, p)
        Words as the model learned them: those of a record damaged for a trial are its former ones.
    log_p, worth, z : ndarray of shape (n_words, p)
        Log-probability of every word in every column, the same without what Student's t says of z,
        and z.
    kinds, amounts : ndarray of shape (n_words,)
        Kind of every word, and the number or date it is.
    bins : ndarray of int of shape (n_words, p)
        Bin of every word in columns that depend on each other.
    own : ndarray of shape (n, p)
        Worth of every `home` cell in its column, by models that it did not shape.
    own_links, own_keys : ndarray of shape (n, n_links)
        The same for links between columns, and which links these are.
    version : ndarray of int of shape (n,)
        Version of the joint distribution that judges every record.
    """

    codes: np.ndarray
    home: np.ndarray
    log_p: np.ndarray
    worth: np.ndarray
    z: np.ndarray
    kinds: np.ndarray
    amounts: np.ndarray
    bins: np.ndarray
    own: np.ndarray
    own_links: np.ndarray
    own_keys: np.ndarray
    version: np.ndarray

    def take(self, rows):
        """Return some of the records."""
        return replace(
            self, codes=self.codes[rows], home=self.home[rows], own=self.own[rows],
            own_links=self.own_links[rows], own_keys=self.own_keys[rows],
            version=self.version[rows],
        )  # fmt: skip

    def tables(self, decoys=None):
        """Return the records for the kernels; values come in from `decoys` (words) if given."""
        return Tables(
            self.codes, self.home, self.codes if decoys is None else decoys, self.worth, self.z,
            self.bins, self.kinds, self.amounts, self.own, self.own_links, self.own_keys,
            self.version,
        )  # fmt: skip

    def permuted(self, orders):
        """Return the records with their cells moved, to be judged as if they came so."""
        return replace(self, codes=np.take_along_axis(self.codes, orders, axis=1))


@dataclass(frozen=True)
class Learned:
    """A model and what it was learned from.

    Attributes
    ----------
    model, for_others : RecordModel
        The model for the records it was learned from, and the same for others.
    placed : Placed
        The records as they came.
    repaired : Cells
        The records as they were learned from: those that a permutation explains as repaired.
    found : Found
        What the search found in them.
    tempering : Tempering
        How far every pair of columns is to be believed.
    """

    model: RecordModel
    for_others: RecordModel
    placed: Placed
    repaired: Cells
    found: Found
    tempering: Tempering


def learn_model(cells, *, rank, seed, n_jobs):
    """Learn from a table of which a part may be damaged; returns :class:`Learned`.

    Records that a permutation explains join the next fit as repaired, others that look damaged stay
    out of it. How much evidence of a pair of columns is believed is decided by the first fit:
    otherwise columns with similar values would sort themselves into two.
    """
    n, p = cells.shape
    identity = np.arange(p)
    prior, orders, tempering = default_prior(p), np.tile(identity, (n, 1)), no_tempering(p)
    coded = _Coded(cells, seed)
    used = ~_foreign(coded.words.kinds[coded.codes])
    for round_ in range(_ROUNDS):
        model, placed = coded.fit(used, prior, rank=rank, seed=seed)
        found = search_placed(model, placed, n_jobs=n_jobs)
        if round_ == 0 and len(witnesses := _false_witnesses(found, coded)):
            used[witnesses] = False
            model, placed = coded.fit(used, prior, rank=rank, seed=seed)
            found = search_placed(model, placed, n_jobs=n_jobs)
        if round_ == 0:
            tempering = temper_pairs(model, placed, found, seed=seed)
        probability = expit(tempered_odds(found, model.prior, tempering))
        prior = update_prior(probability, found.permutations, n)
        whole = probability < 0.5
        explained = ~whole & (found.right > _EXPLAINED) & (found.gain > 0)
        last, orders = orders, np.where(explained[:, None], found.permutations, identity)
        changed = np.any(last != orders, axis=1) | (used != (whole | explained))
        settled = np.mean(changed) <= _SETTLED
        if settled or round_ == _ROUNDS - 1 or whole.sum() < max(_ENOUGH, _ENOUGH_SHARE * n):
            break
        used, coded = whole | explained, coded.as_repaired(orders)
    others = update_prior(probability, found.permutations, n, for_others=True)
    model, for_others = replace(model, prior=prior), replace(model, prior=others)
    tempering = tempering.and_also(temper_pairs(model, placed, found, seed=seed))
    return Learned(model, for_others, placed, coded.repaired, found, tempering)


def _foreign(kinds):
    """Records with a value whose kind is unusual in its column, but usual where another one is odd.

    For instance, a name among dates, and a number among names. They must not be learned from: what
    one cause did to many records would look usual. None, if a large share of the records is so.
    """
    counts = np.array([np.sum(kinds == kind, axis=0) for kind in (NUMBER, DATE, TEXT)])
    usual, told = counts.argmax(axis=0), counts.max(axis=0) > _MOSTLY * counts.sum(axis=0)
    odd = (kinds != usual) & (kinds != MISSING) & told
    foreign = np.zeros(len(kinds), dtype=bool)
    for kind in (NUMBER, DATE, TEXT):
        foreign |= (odd & (kinds == kind)).any(axis=1) & (odd & (usual == kind)).any(axis=1)
    return foreign & (np.mean(foreign) < 1.0 - _MOSTLY)


def _false_witnesses(found, coded):
    """Records that would exchange two values, and make each other look whole.

    Two of them have the same values, seen nowhere else there: each would be the only witness of the
    other. Or both values are of a kind that is rare in their columns, whatever else the record
    holds: the names of a few damaged records would show that names occur there.
    """
    codes, kinds = coded.codes, coded.words.kinds
    suspicious = found.odds > _SUSPICIOUS
    rows = np.flatnonzero(suspicious & (moves_of(found.permutations)[0] == 2))
    moved = found.permutations[rows] != np.arange(codes.shape[1])
    places = np.nonzero(moved)[1].reshape(-1, 2)
    words = np.take_along_axis(codes[rows], places, axis=1)
    keys = np.hstack([places, words])
    _, group, sizes = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    false = (sizes[group.ravel()] == 2) & (found.odds[rows] > 0)
    for k in np.flatnonzero(false):
        false[k] = np.all(np.sum(codes[:, places[k]] == words[k], axis=0) == 2)
    shares = np.array([np.mean(kinds[codes] == kind, axis=0) for kind in range(kinds.max() + 1)])
    false |= np.all(shares[kinds[words], places] < _RARE, axis=1)
    return rows[false]


def fit_model(cells, used, prior, *, rank, seed):
    """Fit once to the records that are `used`; returns the model and all records in it."""
    return _Coded(cells, seed).fit(used, prior, rank=rank, seed=seed)


class _Coded:
    """A table as words, so that several fits look them up once."""

    def __init__(self, cells, seed):
        self.cells = self.repaired = cells
        self.words, self.codes = cells.vocabulary()
        self.home = self.codes
        self.prepared = prepare_texts(self.words.text_list) if self.words.text_list else None
        self.fold = np.random.default_rng(seed).permutation(len(self.codes)) % N_FOLDS

    def as_repaired(self, orders):
        """The same table, to be fitted as repaired."""
        other = copy.copy(self)
        other.repaired = self.cells.permuted(orders)
        other.home = np.take_along_axis(self.codes, orders, axis=1)
        return other

    def fit(self, used, prior, *, rank, seed):
        words, styles = self.words, self.cells.style_names
        values = [
            fit_values(words, self.prepared, styles, column, used, self.fold)
            for column in self.home.T
        ]
        joint, version = fit_joint(self.repaired, used, rank=rank, seed=seed)
        dependence = fit_dependence(words, self.home, used, joint, seed)
        model = RecordModel(values, joint, dependence, prior)
        return model, _placed(model, self, used, version)


def place_cells(model, cells):
    """Look up records that are new to the model."""
    coded = _Coded(cells, 0)
    n = len(coded.codes)
    version = np.full(n, len(model.joint.location) - 1)
    return _placed(model, coded, np.zeros(n, dtype=bool), version)


def _placed(model, coded, used, version):
    words, prepared, styles = coded.words, coded.prepared, coded.cells.style_names
    log_p = np.empty((len(words), len(model.values)))
    own = np.empty(coded.codes.shape)
    for j, column in enumerate(model.values):
        looked_up = column.look_up(words, prepared, styles)
        log_p[:, j] = looked_up.log_probability()
        if used.any():
            own[:, j] = looked_up.log_own(coded.home[:, j], used, coded.fold)
        else:
            own[:, j] = log_p[coded.home[:, j], j]
    z, dependence = model.joint.standardised(words), model.dependence
    # What Student's t says of z alone is part of the joint term.
    alone, unknown = model.joint.log_marginals(z), np.isnan(z)
    alone[unknown], z[unknown] = 0.0, 0.0
    own -= alone[coded.home, np.arange(own.shape[1])]
    bins = dependence.place(words, own.shape[1])
    own_links, own_keys = dependence.own(bins, words, coded.home, used)
    return Placed(
        coded.codes, coded.home, log_p, log_p - alone, z, words.kinds,
        np.nan_to_num(words.values), bins, own, own_links, own_keys, version,
    )  # fmt: skip


def search_placed(model, placed, *, decoys=None, n_jobs=None):
    """Search all records; with `decoys`, values come in from those records (words) instead.

    Of decoys only the best exchange and the best rotation are sought.
    """
    n, p = placed.codes.shape
    found, laws, prior = new_found(n, p), model.laws(), _search_prior(model)
    if decoys is not None:
        prior = prior._replace(suspicious=np.inf, far=np.inf)

    def run(start, stop):
        part = slice(start, stop)
        tables = placed.take(part).tables(None if decoys is None else decoys[part])
        search_records(tables, laws, prior, Found(*(array[part] for array in found)))

    map_blocks(run, n, block=_BLOCK, stage="search records", n_jobs=n_jobs)
    prior_odds = logit(model.prior.damaged)
    for log_odds in (found.gain, found.odds):
        log_odds[:] = prior_odds + model.trust * (log_odds - prior_odds)
    return found


def search_again(model, placed, watch, *, n_jobs=None):
    """Search records that were found suspicious once more, and let `watch` see all their orders.

    ``watch(rows, words, stays)`` is called for parts of the records, as
    :func:`unpermute.records._search.watch_orders` says.
    """
    laws, prior = model.laws(), _search_prior(model)

    def run(start, stop):
        def of_part(part, words, stays):
            return watch(slice(start + part.start, start + part.stop), words, stays)

        watch_orders(placed.take(slice(start, stop)).tables(), laws, prior, of_part)

    map_blocks(run, len(placed.codes), block=_BLOCK, stage="search records", n_jobs=n_jobs)


def _search_prior(model):
    """What the search needs besides the likelihood."""
    joint = model.joint
    m = max(int(joint.used.sum()), 1)
    far, usual = m * fdtri(m, joint.degrees, (_FAR, _USUAL))
    moves, shifts = log_prior(model.prior)
    outlier = float(np.log(_OUTLIER))
    return Prior(moves, model.prior.pairs, shifts, outlier, _SUSPICIOUS, far, usual)


def adapt_prior(model, placed, *, n_jobs):
    """Learn from new records how often and how they are damaged, and nothing else.

    Returns the model for these records, and the one for others.
    """
    n, p = placed.codes.shape
    model = replace(model, prior=default_prior(p))
    for _ in range(_PRIOR_ROUNDS):
        found = search_placed(model, placed, n_jobs=n_jobs)
        seen = expit(found.odds), found.permutations, n
        model = replace(model, prior=update_prior(*seen))
    return model, replace(model, prior=update_prior(*seen, for_others=True))
