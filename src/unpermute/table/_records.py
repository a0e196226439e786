"""Repair records whose attributes were permuted: arrays in, permutations out.

Records are changed in the order of the posterior probability that one of their values has moved, as
long as the expected share of whole records among the changed ones stays below 1 − `min_confidence`:
that controls false changes over the whole table. A changed record gets the permutation with the
highest posterior. That all of its cells are right is less sure, as near-equal values are
exchangeable: that is its `confidence`.
"""

from dataclasses import dataclass, replace

import numpy as np
from sklearn.utils import check_random_state

from unpermute.table._record_causes import ANOTHER_ORDER, name_causes
from unpermute.table._record_columns import cell_classes
from unpermute.table._record_model import (
    RecordModel,
    Search,
    adapt_model,
    is_sure,
    learn_model,
    probability_of_damage,
    search,
)
from unpermute.table._record_sources import repair_sources
from unpermute.table._record_structure import Structure, measure_structure, no_structure

__all__ = ["RecordRepairs", "repair_records"]

# Records that a model is learned from.
_LEARNED_FROM = 20_000
_FEWEST_RECORDS = 5
_MOST_COLUMNS = 1000
# Probability of damage from which on a record is listed.
_SUSPICIOUS = 0.15
# Share of damaged records above which a model learned from them does not describe them.
_MOST_DAMAGED = 0.6
# A changed record is judged again until nothing changes.
_MAX_PASSES = 3
# Evidence of the records of one source is divided by this.
_IN_COMMON = 3.0


@dataclass(frozen=True)
class RecordRepairs:
    """What was found in a table of n records and p columns.

    Attributes
    ----------
    permutations : ndarray of int of shape (n, p)
        ``np.take_along_axis(values, permutations, axis=1)`` is the repaired table.
    proposals : ndarray of int of shape (n, p)
        The best permutation but the identity, also where it is too unsure to be applied.
    gain : ndarray of shape (n,)
        Log-posterior of the proposal relative to leaving the record alone.
    score : ndarray of shape (n,)
        Log-odds that a value of the record has moved.
    confidence : ndarray of shape (n,)
        Probability that all cells of the repaired record hold the right value.
    entry_confidence : ndarray of shape (n, p)
        Probability that a cell does.
    status : ndarray of str of shape (n,)
        "clean", "recovered", or "uncertain": suspicious, but left alone.
    cause : ndarray of str of shape (n,)
        What happened to suspicious records; "" for clean ones.
    model : RecordModel or None
        What was learned; None if nothing could be.
    structure : Structure
        How much structure the table has.
    """

    permutations: np.ndarray
    proposals: np.ndarray
    gain: np.ndarray
    score: np.ndarray
    confidence: np.ndarray
    entry_confidence: np.ndarray
    status: np.ndarray
    cause: np.ndarray
    model: RecordModel | None
    structure: Structure


@dataclass(frozen=True)
class _Table:
    """Checked input: cells, how they are written, and which records hold text."""

    values: np.ndarray
    classes: np.ndarray
    foreign: np.ndarray | None

    def take(self, rows):
        foreign = None if self.foreign is None else self.foreign[rows]
        return _Table(self.values[rows], self.classes[rows], foreign)

    def permuted(self, permutations):
        values = np.take_along_axis(self.values, permutations, axis=1)
        classes = np.take_along_axis(self.classes, permutations, axis=1)
        return _Table(values, classes, self.foreign)


def repair_records(
    values, *, decimals=None, foreign=None, integer=None, no_null=None, reference=None,
    reference_decimals=None, groups=None, rank=None, max_moves=None, min_confidence=0.95,
    random_state=None, n_jobs=None, model=None,
):  # fmt: skip
    """Find records whose attributes were permuted, and put the values back.

    Parameters
    ----------
    values : array of shape (n, p)
        The table; NaN is missing.
    decimals : array of int of shape (n, p) or None
        Decimal places of every cell as it is written, -1 if unknown; None: those of the shortest
        decimal fraction equal to the value.
    foreign : array of bool of shape (n, p) or None
        Cells whose text is no number; their value is NaN.
    integer, no_null : array of bool of shape (p,) or None
        Columns that no fraction, and that no missing value, may enter.
    reference : array of shape (m, p) or None
        Clean table to learn from instead of `values`.
    reference_decimals : array of int of shape (m, p) or None
        As `decimals`.
    groups : array of int of shape (n,) or None
        Source of every record: all records of a source share one permutation.
    rank : int or None
        Number of factors that the columns have in common; None: no limit.
    max_moves : int or None
        Most cells to move in one record.
    min_confidence : float
        Of the changed records, the expected share of truly damaged ones is at least this.
    random_state : int, RandomState instance or None
        Deals the records into folds, and chooses those to learn from.
    n_jobs : int or None
        Threads; the result does not depend on it.
    model : RecordModel or None
        Learned before; then nothing is learned.

    Returns
    -------
    RecordRepairs
        Permutations, confidences, status and cause of every record.

    Examples
    --------
    >>> import numpy as np
    >>> from unpermute.table._records import repair_records
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
    values = np.ascontiguousarray(values, dtype=float)
    p = values.shape[1]
    seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    table = _table(values, decimals, foreign)
    if reason := _hopeless(values if reference is None else np.asarray(reference), model):
        return _untouched(table, reason)
    options = dict(integer=_flags(integer, p), no_null=_flags(no_null, p), rank=rank, seed=seed)
    if reference is not None and model is None:
        clean = _table(np.ascontiguousarray(reference, dtype=float), reference_decimals, None)
        model = _learn(clean, n_jobs=n_jobs, **options)[0]
    if groups is not None:
        return _repair_groups(table, groups, model, max_moves, min_confidence, n_jobs, options)
    fold, own = None, model is None
    if model is None:
        model, fold = _learn(table, n_jobs=n_jobs, **options)
    else:
        some = _sample(table, seed)
        model = adapt_model(model, some.values, some.classes, foreign=some.foreign, n_jobs=n_jobs)
    return _repair(table, model, fold, own, max_moves, min_confidence, n_jobs)


def _table(values, decimals, foreign):
    classes = cell_classes(values, decimals, foreign)
    return _Table(values, classes, None if foreign is None else np.any(foreign, axis=1))


def _flags(flags, p):
    return np.zeros(p, dtype=bool) if flags is None else np.asarray(flags, dtype=bool)


def _hopeless(values, model):
    """Why nothing can be learned, or None."""
    if values.shape[1] < 2:
        return "there is only one column"
    if values.shape[1] > _MOST_COLUMNS:
        return f"records of more than {_MOST_COLUMNS} columns are not judged"
    if model is None and np.sum(np.any(~np.isnan(values), axis=1)) < _FEWEST_RECORDS:
        return f"there are fewer than {_FEWEST_RECORDS} records to learn from"
    return None


def _learn(table, *, integer, no_null, rank, seed, n_jobs):
    """Model, and the fold of every record if all of them took part."""
    some = _sample(table, seed)
    model = learn_model(
        some.values, some.classes, foreign=some.foreign, integer=integer, no_null=no_null,
        rank=rank, seed=seed, n_jobs=n_jobs,
    )  # fmt: skip
    fold = model.scatter.fold if some is table else None
    return replace(model, scatter=replace(model.scatter, fold=np.zeros(0, dtype=int))), fold


def _sample(table, seed):
    """Some of the records of a large table."""
    n = len(table.values)
    if n <= _LEARNED_FROM:
        return table
    rows = np.random.default_rng(seed).choice(n, _LEARNED_FROM, replace=False)
    return table.take(np.sort(rows))


def _repair(table, model, fold, own, max_moves, min_confidence, n_jobs):
    found = search(
        model, table.values, table.classes, foreign=table.foreign, fold=fold, n_jobs=n_jobs
    )
    probability = probability_of_damage(found)
    sure, listed = is_sure(found, min_confidence), probability > _SUSPICIOUS
    structure = measure_structure(
        model, table.values, table.classes, found.permutations, sure, probability < 0.5,
        fold=fold, min_confidence=min_confidence, n_jobs=n_jobs,
    )  # fmt: skip
    if own and np.mean(probability) > _MOST_DAMAGED:
        structure = no_structure("most records look damaged, so the columns are not understood")
    if structure.weak:
        # Where most cells could not be put back, what seems sure is a guess, and listed as such.
        listed, sure = sure, np.zeros_like(sure)
    _settle(table, model, fold, found, np.flatnonzero(sure), min_confidence, n_jobs)
    # The search has no limit: the best of few moves is not the truth if that takes more.
    sure = sure & _few_enough(found.permutations, max_moves)
    return _result(found, sure, listed, model, structure)


def _result(found, sure, listed, model, structure, cause=None):
    """Apply what is sure; `cause` of all suspicious records, or None to tell it from the moves."""
    # The confidences of a better proposal that is not applied are those of leaving alone.
    left = np.flatnonzero(~sure & (found.gain > 0))
    found.confidence[left] = 1 - probability_of_damage(found.take(left))
    found.entries[left] = found.confidence[left][:, None]
    permutations = np.tile(np.arange(found.permutations.shape[1]), (len(sure), 1))
    permutations[sure] = found.permutations[sure]
    status = np.where(sure, "recovered", np.where(listed, "uncertain", "clean"))
    causes = np.full(len(sure), "", dtype=object)
    suspicious = status != "clean"
    causes[suspicious] = cause or name_causes(found.permutations[suspicious])
    return RecordRepairs(
        permutations, found.permutations, found.gain, found.odds, found.confidence, found.entries,
        status, causes, model, structure,
    )  # fmt: skip


def _settle(table, model, fold, found, rows, min_confidence, n_jobs):
    """Judge changed records again as repaired, and move on where that is sure; changes `found`.

    Without it a second repair could change a record again.
    """
    for _ in range(_MAX_PASSES):
        if not len(rows):
            return
        repaired = table.take(rows).permuted(found.permutations[rows])
        again = search(
            model, repaired.values, repaired.classes, foreign=None,
            fold=None if fold is None else fold[rows], n_jobs=n_jobs,
        )  # fmt: skip
        composed = np.take_along_axis(found.permutations[rows], again.permutations, axis=1)
        sure = (probability_of_damage(again) >= min_confidence) & (again.gain > 0)
        rows, part = rows[sure], again.take(sure)
        found.permutations[rows] = composed[sure]
        found.confidence[rows] = np.minimum(found.confidence[rows], part.confidence)
        found.entries[rows] = np.minimum(found.entries[rows], part.entries)


def _repair_groups(table, groups, model, max_moves, min_confidence, n_jobs, options):
    sources = np.unique(groups, return_inverse=True)[1].ravel()
    options = {name: option for name, option in options.items() if name != "no_null"}
    result = repair_sources(table.values, table.classes, sources, model=model, **options)
    # Records of one source have more in common than a permutation: they do not count in full.
    of_sources = Search(
        result.alternative, result.gain / _IN_COMMON, result.odds / _IN_COMMON, result.confidence,
        np.zeros_like(result.gain), result.entries,
    )  # fmt: skip
    sure = is_sure(of_sources, min_confidence)
    # If most sources seem to be in another order, it is the model that is wrong.
    sure = (sure & (np.mean(sure) <= 0.5) & _few_enough(result.alternative, max_moves))[sources]
    found = of_sources.take(sources)
    probability = probability_of_damage(found)
    structure = measure_structure(
        result.model, table.values, table.classes, found.permutations, sure, probability < 0.5,
        fold=None, min_confidence=min_confidence, n_jobs=n_jobs,
    )  # fmt: skip
    listed = probability > _SUSPICIOUS
    sure = sure & (not structure.weak)
    return _result(found, sure, listed, result.model, structure, cause=ANOTHER_ORDER)


def _few_enough(permutations, max_moves):
    """Records in which no more cells move than is allowed."""
    p = permutations.shape[1]
    return np.sum(permutations != np.arange(p), axis=1) <= (max_moves or p)


def _untouched(table, reason):
    n, p = table.values.shape
    identity = np.tile(np.arange(p), (n, 1))
    low = np.full(n, -np.inf)
    return RecordRepairs(
        identity, identity.copy(), low, low.copy(), np.ones(n), np.ones((n, p)),
        np.full(n, "clean", dtype="<U9"), np.full(n, "", dtype=object), None, no_structure(reason),
    )  # fmt: skip
