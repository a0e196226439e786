"""Learn what the records of a table look like when a part of them is damaged.

Alternate: fit columns and joint distribution to the records that look whole, search for the best
permutation of every record, learn how often and how records are damaged. Records that a
permutation explains join the next fit as repaired, the others that look damaged stay out of it.
"""

from dataclasses import dataclass, fields, replace

import numpy as np
from scipy.special import expit, logit
from scipy.stats import f as f_distribution

from unpermute.numerics.parallel import map_blocks
from unpermute.table._record_columns import Columns, fit_columns, standardise
from unpermute.table._record_prior import MovePrior, default_prior, log_prior, update_prior
from unpermute.table._record_scatter import Scatter, fit_scatter
from unpermute.table._record_search import search_records

__all__ = [
    "RecordModel",
    "Search",
    "adapt_model",
    "is_sure",
    "learn_model",
    "probability_of_damage",
    "search",
]

_ROUNDS = 3
_BLOCK = 64
# Log-odds after a first look below which a record is not searched.
_SUSPICIOUS = -7.0
# Quantile of the squared distance from which on a record is searched whatever the odds.
_FAR = 0.99
# Quantile below which a repaired record is searched no further.
_USUAL = 0.8
# Share of outlying cells before anything is learned, and what that is worth.
_OUTLIERS, _PSEUDO_RECORDS = 0.0005, 20.0
_LEAST_SURE = 0.5
# Cells further from their column, in scales, take no part in the first fit.
_MARGINAL = 4.0


@dataclass(frozen=True)
class RecordModel:
    """What was learned from a table.

    Attributes
    ----------
    columns : Columns
        Transform, location, scale and evidence of every column.
    scatter : Scatter
        Joint distribution of the standardised columns.
    prior : MovePrior
        How often and how records are damaged.
    foreign_rate : float
        Share of records with a cell that does not parse.
    outlier_rate : float
        Share of outlying cells.
    """

    columns: Columns
    scatter: Scatter
    prior: MovePrior
    foreign_rate: float
    outlier_rate: float = _OUTLIERS


@dataclass(frozen=True)
class Search:
    """Best permutation of every record; see :func:`search_records`."""

    permutations: np.ndarray
    gain: np.ndarray
    odds: np.ndarray
    confidence: np.ndarray
    outlying: np.ndarray
    entries: np.ndarray

    def take(self, rows):
        """The same for some of the records, or for records repeated."""
        return Search(*(getattr(self, field.name)[rows] for field in fields(self)))


def learn_model(values, classes, *, foreign, integer, no_null, rank, seed, n_jobs):
    """Learn from a table; returns the model, whose folds belong to its records."""
    n, p = values.shape
    weights = np.ones(n)
    prior = default_prior(p)
    repaired, written = values, classes
    rate = (np.count_nonzero(foreign) + 0.5) / (n + 1) if foreign is not None else 0.5
    outliers = _OUTLIERS
    for round_ in range(_ROUNDS):
        columns = fit_columns(repaired, written, weights, integer, no_null)
        z, _ = standardise(columns, repaired)
        if round_ == 0:
            # The same cells moved in many records would look like structure.
            z[np.abs(z) > _MARGINAL] = np.nan
        scatter = fit_scatter(z, weights, columns.floor, rank=rank, rng=np.random.default_rng(seed))
        model = RecordModel(columns, scatter, prior, rate, outliers)
        found = search(model, values, classes, foreign=foreign, fold=scatter.fold, n_jobs=n_jobs)
        probability = probability_of_damage(found)
        prior = update_prior(probability, found.permutations, n)
        outliers = _outlier_rate(found, probability, p)
        damaged = probability > 0.5
        explained = damaged & (found.confidence > 0.5)
        order = np.where(explained[:, None], found.permutations, np.arange(p))
        repaired = np.take_along_axis(values, order, axis=1)
        written = np.take_along_axis(classes, order, axis=1)
        weights = np.where(damaged & ~explained, 0.0, 1.0)
        if not weights.sum() > max(5, 0.1 * n):
            break
    return replace(model, prior=prior, outlier_rate=outliers)


def adapt_model(model, values, classes, *, foreign, n_jobs):
    """Learn from another table how often and how its records are damaged, and nothing else."""
    model = replace(model, prior=default_prior(values.shape[1]))
    for _ in range(_ROUNDS - 1):
        found = search(model, values, classes, foreign=foreign, n_jobs=n_jobs)
        probability = probability_of_damage(found)
        model = replace(model, prior=update_prior(probability, found.permutations, len(values)))
    return model


def _outlier_rate(found, probability, p):
    """Share of outlying cells, with a few records' worth of the general expectation."""
    outliers = np.sum(found.outlying * (1 - probability)) + _PSEUDO_RECORDS * p * _OUTLIERS
    return float(outliers / (p * (np.sum(1 - probability) + _PSEUDO_RECORDS)))


def probability_of_damage(found):
    """Posterior probability that a value of the record has moved."""
    return expit(found.odds)


def search(model, values, classes, *, foreign=None, fold=None, n_jobs=None):
    """Search all records with a learned model, each by the version of its fold."""
    n, p = values.shape
    if fold is None:
        fold = np.full(n, len(model.scatter.location) - 1)
    bonus = np.zeros(n)
    if foreign is not None:
        bonus[foreign] = max(np.log(0.5 / model.foreign_rate), 0.0)
    moves, shifts = log_prior(model.prior)
    log_outlier = float(np.log(model.outlier_rate))
    found = Search(
        np.tile(np.arange(p), (n, 1)),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
        np.ones((n, p)),
    )
    c, s = model.columns, model.scatter
    far, usual = p * f_distribution.ppf((_FAR, _USUAL), p, s.degrees)

    def run(start, stop):
        part = slice(start, stop)
        search_records(
            values[part], classes[part], fold[part], s.location, s.precision, s.degrees,
            c.kind, c.offset, c.location, c.scale, c.outside, c.evidence, moves, shifts,
            log_outlier, bonus[part], _SUSPICIOUS, far, usual, found.permutations[part],
            found.gain[part], found.odds[part], found.confidence[part], found.outlying[part],
            found.entries[part],
        )  # fmt: skip

    if p > 1:
        map_blocks(run, n, block=_BLOCK, stage="search records", n_jobs=n_jobs)
    else:
        found.gain[:], found.odds[:], found.confidence[:] = -np.inf, -np.inf, 1.0
    # A distribution learned from few records is wrong in some direction, and the best of many
    # permutations finds it: that share of the evidence does not count.
    share = s.n_records / (s.n_records + p)
    prior_odds = logit(model.prior.damaged)
    for log_odds in (found.gain, found.odds):
        log_odds[:] = prior_odds + share * (log_odds - prior_odds)
    return found


def is_sure(found, min_confidence):
    """Records to change: of these, the expected share of whole ones is at most 1 − min_confidence.

    The share is controlled over all of them, but none is changed on odds below even.
    """
    probability = probability_of_damage(found)
    eligible = (found.gain > 0) & (probability >= min(_LEAST_SURE, min_confidence))
    order = np.flatnonzero(eligible)[np.argsort(-probability[eligible], kind="stable")]
    false = np.cumsum(1 - probability[order]) / np.arange(1, len(order) + 1)
    sure = np.zeros(len(probability), dtype=bool)
    sure[order[: np.searchsorted(false, 1 - min_confidence, side="right")]] = True
    return sure
