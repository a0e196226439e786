"""Repair records whose values stand under the wrong columns: cells in, decisions out.

Every record is decided about alone. Two numbers say how sure that is: `damaged`, the probability
that the record is damaged, and `confidence`, the probability that all of the proposed repair is
right. A record is changed if, and only if, its confidence reaches `min_confidence`.
"""

from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.special import expit

from unpermute.numerics.parallel import one_blas_thread
from unpermute.records._calibrate import calibrate
from unpermute.records._causes import ANOTHER_ORDER
from unpermute.records._cells import Cells, number_cells
from unpermute.records._crowds import limits_of, pair_distances, rivals_of
from unpermute.records._decide import EVEN, LISTED, decide
from unpermute.records._evidence import Judge
from unpermute.records._exchanges import (
    add_questions,
    exchange_orders,
    find_exchanges,
    with_exchanges,
)
from unpermute.records._large import weigh_all
from unpermute.records._model import (
    Placed,
    adapt_prior,
    learn_model,
    place_cells,
)
from unpermute.records._parts import find_parts
from unpermute.records._result import KnownRecords, RecordRepairs
from unpermute.records._rule import Rule
from unpermute.records._screen import fit_screen
from unpermute.records._sources import repair_sources
from unpermute.records._tempering import no_tempering
from unpermute.records._trials import Trials, choose_records, run_trials, weigh

__all__ = ["learn_records", "repair_records"]

# Records that a model is learned from.
_LEARNED_FROM = 10_000
_FEWEST_RECORDS = 20
_MOST_COLUMNS = 1000
# Columns up to which products are so small that waking threads costs more than it gains.
_NARROW = 100
# Evidence of the records of one source is divided by this: their errors have causes in common.
_IN_COMMON = 3.0
# Share of the records from which on a change of order is a question: the others may be wrong.
_MOST_MOVED = 0.4
# Log-odds of proposals in trials above which their parts tell nothing: 99%.
_CLEAR = 4.6
# Trials whose proposals are searched again for parts, at most: more take as long as a small table.
_PARTS_TRIED = 150
# Probability of being right from which on a repair counts as likely.
_LIKELY = 0.8
_NO_TRIALS = {"n": 0, "n_changed": 0, "n_right": 0}


def repair_records(
    cells, *, reference=None, groups=None, rank=None, max_moves=None, min_confidence=0.95,
    random_state=None, n_jobs=None, known=None, exchanges=(), n_learned=None,
):  # fmt: skip
    """Find records whose values stand under the wrong columns, and put the values back.

    Parameters
    ----------
    cells : Cells or array of shape (n, p)
        The table; of an array, NaN is missing.
    reference : Cells or array or None
        Clean table to learn from instead.
    groups : array of int of shape (n,) or None
        Source of every record: all records of a source share one order of the columns.
    rank : int or None
        Number of factors that the columns have in common; None: no limit.
    max_moves : int or None
        Most cells to move in one record.
    min_confidence : float
        Least confidence with which a record is changed.
    random_state : int, RandomState instance or None
        Deals the records into folds, chooses those to learn from, and damages those of trials.
    n_jobs : int or None
        Threads; the result does not depend on it.
    known : KnownRecords or None
        Learned before; then nothing is learned but how records are damaged.
    exchanges : sequence of tuple of int
        What a person says: two columns that are exchanged from a first to a last row, or two
        columns that are exchanged wherever they are unlike one row.
    n_learned : int or None
        Most records to learn from; None: 10,000.

    Returns
    -------
    RecordRepairs
        Permutations, probabilities, status and cause of every record.

    Examples
    --------
    >>> import numpy as np
    >>> from unpermute.records import repair_records
    >>> rng = np.random.default_rng(0)
    >>> height = rng.normal(170, 10, size=(200, 1))
    >>> X = height * [1, 0.45, 0.01] + rng.normal(size=(200, 3)) * [1, 2, 0.001]
    >>> X[7] = X[7, [1, 0, 2]]
    >>> result = repair_records(X, random_state=0)
    >>> np.flatnonzero(result.status == "recovered")
    array([7])
    >>> result.cause[7]
    'two fields swapped'
    """
    cells = _as_cells(cells)
    reference = None if reference is None else _as_cells(reference)
    seed = _seed(random_state)
    if reason := _not_judged(cells if reference is None else reference, known):
        return _untouched(cells, reason)
    options = dict(rank=rank, seed=seed, n_jobs=n_jobs, n_learned=n_learned)
    if groups is not None:
        if known is None and reference is not None:
            known = learn_records(reference, **options)[0]
        return _repair_groups(cells, groups, known, max_moves, min_confidence, options)
    certain, questions = find_exchanges(cells, exchanges)
    orders, sure, cause = exchange_orders(certain, *cells.shape)
    whole = cells.permuted(orders.astype(np.int64)) if certain else cells
    with one_blas_thread() if cells.shape[1] <= _NARROW else nullcontext():
        result = _repair_each(whole, reference, known, max_moves, min_confidence, options)
    result = with_exchanges(result, orders, sure, cause, min_confidence)
    result = result if exchanges else add_questions(result, cells, questions)
    return _with_closed(result, [*certain, *result.questions])


def _with_closed(result, exchanges):
    """Let the rule leave columns alone that are exchanged in many rows: it sees one at a time."""
    known, pairs = result.known, [(each.a, each.b) for each in exchanges]
    closed = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return replace(result, known=replace(known, rule=replace(known.rule, closed=closed)))


def _seed(random_state):
    """Return a seed, by scikit-learn's convention, which need not be imported for a number."""
    if isinstance(random_state, int | np.integer):
        generator = np.random.RandomState(random_state)
    else:
        from sklearn.utils import check_random_state

        generator = check_random_state(random_state)
    return generator.randint(np.iinfo(np.int32).max)


def _repair_each(cells, reference, known, max_moves, min_confidence, options):
    """Judge every record alone."""
    weighed, seed, n_jobs = None, options["seed"], options["n_jobs"]
    alone = known is None and reference is None
    if known is None and reference is not None:
        known = learn_records(reference, **options)[0]
    elif known is None:
        known, weighed = learn_records(cells, **options)
    if weighed is None:
        known, weighed = _meet(known, cells, seed, n_jobs, options["n_learned"])
    judge, rows, placed, evidence = weighed
    tried = _trial_records(known)
    trials = run_trials(judge, tried, seed=seed)
    weights = weigh(trials, evidence)
    looked_at = cells.take(rows)
    limits = limits_of(evidence, pair_distances(judge.model, tried), looked_at)
    rivals = rivals_of(
        judge.model, evidence, looked_at, rank=options["rank"], seed=seed, alone=alone
    )
    parts, parts_weights = _parts_of_trials(judge, tried, trials, weights)
    calibration = calibrate(evidence, trials, weights, limits, rivals, parts, parts_weights)
    screen = None
    if len(rows) < cells.shape[0]:
        screen = _screen(judge, known, cells, rows, evidence, trials, calibration)
        evidence = weigh_all(judge, cells, rows, evidence, screen)
    gaps, undecided = cells.missing().mean(axis=0), 0.0
    if alone:
        undecided = _share_undecided(calibration, evidence)

    result = decide(
        cells, evidence, calibration, max_moves, min_confidence, gaps, undecided,
        partial(_parts_of_records, judge, cells, rows, placed),
    )  # fmt: skip
    measured = _measured(trials, weights, calibration, min_confidence)
    rule = Rule(calibration, screen, gaps, undecided, np.zeros((0, 2), dtype=np.int64), seed,
                **measured)  # fmt: skip
    return replace(result, known=replace(known, rule=rule), **measured)


def learn_records(cells, *, rank=None, seed=0, n_jobs=None, n_learned=None):
    """Learn from a table; returns what is known, and what was found in it.

    That is a judge, the rows that were learned from, these records, and their evidence.
    """
    rows = _sample(cells, seed, n_learned)
    some = cells if len(rows) == cells.shape[0] else cells.take(rows)
    learned = learn_model(some, rank=rank, seed=seed, n_jobs=n_jobs)
    placed, tempering = learned.placed, learned.tempering
    judge = Judge(learned.model, tempering, seed, n_jobs)
    whole = placed.codes[learned.found.odds < 0]
    evidence = judge.weigh(placed, learned.found, pool=whole)
    chosen = choose_records(placed, evidence.odds, seed)
    kept = placed.take(chosen)
    known = KnownRecords(
        learned.for_others, tempering, learned.repaired.take(chosen), kept.own, kept.own_links,
        kept.version,
    )  # fmt: skip
    return known, (replace(judge, model=known.model), rows, placed, evidence)


def _meet(known, cells, seed, n_jobs, n_learned):
    """Adapt what is known to the damage of another table."""
    rows = _sample(cells, seed, n_learned)
    placed = place_cells(known.model, cells.take(rows))
    model, for_others = adapt_prior(known.model, placed, n_jobs=n_jobs)
    judge = Judge(model, known.tempering, seed, n_jobs)
    evidence = judge.weigh(placed, pool=placed.codes)
    judge = replace(judge, model=for_others)
    return replace(known, model=for_others), (judge, rows, placed, evidence)


def _repair_groups(cells, groups, known, max_moves, min_confidence, options):
    """One order of the columns per source."""
    sources = np.unique(groups, return_inverse=True)[1].ravel()
    model = None if known is None else known.model
    found = repair_sources(cells, sources, rank=options["rank"], seed=options["seed"], model=model)
    # Records of one source have more in common than an order: they do not count in full.
    odds = found.odds / _IN_COMMON
    damaged = expit(odds)
    confidence = damaged * found.confidence
    n_moved = np.sum(found.alternative != np.arange(cells.shape[1]), axis=1)
    sure = (confidence >= min_confidence) & (n_moved <= (max_moves or cells.shape[1]))
    # Where most records would move, it cannot be told which of the orders is the right one.
    if model is None and np.mean(sure[sources]) >= _MOST_MOVED:
        sure[:] = False
    status = np.where(sure, "recovered", np.where(damaged >= LISTED, "uncertain", "clean"))
    orders = np.where(sure[:, None], found.alternative, np.arange(cells.shape[1]))
    cause = np.where(status != "clean", ANOTHER_ORDER, "").astype(object)
    kept = known or KnownRecords(
        found.model, no_tempering(cells.shape[1]), cells.take(slice(0)), np.zeros((0, 0)),
        np.zeros((0, 0)), np.zeros(0, dtype=int),
    )  # fmt: skip
    confidence = np.where(status == "clean", 1 - damaged, confidence)
    return RecordRepairs(
        orders[sources], found.alternative[sources], odds[sources], damaged[sources],
        confidence[sources], status[sources], cause[sources], kept, 1.0, _NO_TRIALS,
    )  # fmt: skip


def _as_cells(cells):
    return cells if isinstance(cells, Cells) else number_cells(cells)


def _not_judged(cells, known):
    """Why nothing can be learned, or ""."""
    p = cells.shape[1]
    if p < 2:
        return "there is only one column to judge"
    if p > _MOST_COLUMNS:
        return f"records of more than {_MOST_COLUMNS:,} columns are not judged"
    if known is None and np.sum(np.any(~cells.missing(), axis=1)) < _FEWEST_RECORDS:
        return f"there are fewer than {_FEWEST_RECORDS} records to learn from"
    return ""


def _sample(cells, seed, n_learned):
    """Some of the records of a large table, in order."""
    n, most = cells.shape[0], n_learned or _LEARNED_FROM
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))


def _trial_records(known) -> Placed:
    placed = place_cells(known.model, known.cells)
    return replace(placed, own=known.own, own_links=known.own_links, version=known.version)


def _screen(judge, known, cells, rows, evidence, trials, calibration):
    """Return the screen that skips records not worth a search, or None."""
    listed, tried = (
        each.followed & (calibration.probabilities(each)[0] >= LISTED)
        for each in (evidence, trials.evidence)
    )
    damaged = known.cells.take(trials.rows[tried]).permuted(trials.orders[tried])
    fresh = np.setdiff1d(np.arange(cells.shape[0]), rows)
    fresh = np.random.default_rng(judge.seed).permutation(fresh)[:_LEARNED_FROM]
    return fit_screen(judge.model, cells.take(fresh), [cells.take(rows[listed]), damaged])


def _parts_of_trials(judge, tried, trials, weights):
    """Parts of the proposals in trials that are not clear as they are, and weights of the trials.

    Trials that count more are drawn more often: those that are like the damage of the table.
    """
    found = trials.evidence
    rows = np.flatnonzero(found.followed & (found.clear < _CLEAR))
    drawn, own = _draw(weights[rows], _PARTS_TRIED, np.random.default_rng(judge.seed))
    rows, weights = rows[drawn], np.zeros(len(weights))
    weights[rows] = own
    damaged = tried.take(trials.rows[rows]).permuted(trials.orders[rows])
    return find_parts(judge, damaged, rows, found.permutations[rows]), weights


def _draw(weights, count, rng):
    """Draw some `count` places, and the weights with which they stand for all.

    A place is drawn with a probability that is proportional to its weight, but at most 1.
    """
    chances = np.ones(len(weights))
    open_ = np.full(len(weights), len(weights) > count)
    while open_.any():
        left = count - np.sum(~open_)
        chances[open_] = left * weights[open_] / weights[open_].sum()
        certain = open_ & (chances > 1.0)
        if not certain.any():
            break
        chances[certain], open_ = 1.0, open_ & ~certain
    order = rng.permutation(len(weights))
    steps = np.floor(np.cumsum(chances[order]) + rng.random())
    drawn = np.sort(order[np.diff(steps, prepend=0.0) > 0.0])
    return drawn, weights[drawn] / chances[drawn]


def _parts_of_records(judge, cells, rows, placed, unsure, permutations):
    """Parts of proposals; records that were learned from are judged without their own cells."""
    own = np.isin(unsure, rows)
    learned = placed.take(np.searchsorted(rows, unsure[own]))
    parts = find_parts(judge, learned, unsure[own], permutations[own])
    if own.all():
        return parts
    others = place_cells(judge.model, cells.take(unsure[~own]))
    return parts.joined(find_parts(judge, others, unsure[~own], permutations[~own]))


def _share_undecided(calibration, evidence):
    """Share of the records that would move where it is too large to tell which are right, or 0."""
    share = float(np.mean(calibration.probabilities(evidence)[0] >= EVEN))
    return share if share >= _MOST_MOVED else 0.0


def _measured(trials: Trials, weights, calibration, min_confidence):
    """Outcome of repairs at this confidence in trials, weighted by the table's kinds of damage."""
    damaged, confidence = calibration.probabilities(trials.evidence)
    changed = trials.evidence.followed & (confidence >= min_confidence)
    # Share of known damage that can be put back: the amount of damage does not matter here.
    likely = trials.evidence.followed & (confidence >= _LIKELY * damaged)
    n_left = np.where(likely, trials.n_left, trials.n_wrong)
    share = 1 - weights @ n_left / max(weights @ trials.n_wrong, 1e-9)
    counts = {
        "n": len(changed),
        "n_changed": round(weights @ changed),
        "n_right": round(weights @ (trials.right & changed)),
    }
    return dict(recoverability=float(max(share, 0.0)), trials=counts)


def _untouched(cells, reason):
    n, p = cells.shape
    identity = np.tile(np.arange(p, dtype=np.int16), (n, 1))
    return RecordRepairs(
        identity, identity.copy(), np.full(n, -np.inf), np.zeros(n), np.ones(n),
        np.full(n, "clean", dtype="<U9"), np.full(n, "", dtype=object), None, 0.0,
        _NO_TRIALS, reason,
    )  # fmt: skip
