r"""Pairs of columns that look exchanged more often than damage explains.

Random damage exchanges every two columns about equally often. If one pair looks exchanged far more
often, its records were either exchanged by one cause, or they are so by nature: a patient who went
to the other kind of clinic, a firm that is named as its own partner. Both mirror the other records,
so odds and trials cannot tell them apart. Columns that are far apart, as a name and a number,
hardly ever look exchanged by nature; where the two are close, it stays open. So it does where most
of these records hold the same two values: a holiday that is no working day is one fact, however
often it occurs. With E records expected and X in excess, a share π of which counts as exchanged,

.. math:: P(\text{damaged}) \le \frac{E + πX}{E + X} .
"""

import numpy as np

from unpermute.records._model import fit_model, place_cells
from unpermute.records._prior import moves_of
from unpermute.records._tempering import CLOSE, exchange_ratios

__all__ = ["limits_of", "pair_distances", "rivals_of", "swapped_pairs"]

# Records of one fact look exchanged by nature up to so many nats.
_FAR = 30.0
# An excess is what exceeds the expected number by more than so many standard deviations; and the
# share of it that counts as exchanged.
_DEVIATIONS, _EXCHANGED = 2.0, 0.25
# So many records with the same two values, and that share of all, may be one fact.
_ONE_FACT, _MOSTLY = 4, 0.5
# Number, and share of all swaps, of records that would swap the same two columns from which on they
# may have one cause.
_TOGETHER, _ONE_CAUSE = 10, 0.25
# Log-odds that a swap is all of the repair where the records do not tell: three to one.
_LIKELIER = float(np.log(3.0))
# Records that are looked at, and numbers of records times pairs of columns: bounds the memory.
_RECORDS, _RATIOS = 500, 20_000_000


def pair_distances(model, placed):
    """Return what an exchange of every two columns costs a typical record, in nats."""
    p = placed.codes.shape[1]
    some = placed.take(slice(min(_RECORDS, max(_RATIOS // p**2, 1))))
    costs = -model.trust * exchange_ratios(model, some).reshape(-1, p * p)
    distances = np.full(p * p, np.inf)
    seen = np.flatnonzero(~np.all(np.isnan(costs), axis=0))
    distances[seen] = np.nanmedian(costs[:, seen], axis=0)
    return distances.reshape(p, p)


def limits_of(evidence, distances, cells):
    """Return the largest log-odds of damage for a swap of every two columns a < b."""
    p = len(distances)
    rows, first, second = _odd_swaps(evidence)
    counts = np.zeros((p, p))
    np.add.at(counts, (first, second), 1.0)
    expected = counts.sum() / (p * (p - 1) / 2)
    excess = counts - expected - _DEVIATIONS * np.sqrt(expected + 0.25)
    alike = _most_alike(cells.take(rows), first, second)
    one_fact = alike >= np.maximum(_ONE_FACT, _MOSTLY * counts)
    crowded = (excess > 0) & (distances < np.where(one_fact, _FAR, CLOSE))
    limits = np.full((p, p), np.inf)
    limits[crowded] = np.log(expected + _EXCHANGED * excess[crowded])
    limits[crowded] -= np.log((1 - _EXCHANGED) * excess[crowded])
    return limits


def rivals_of(model, evidence, cells, *, rank, seed, alone):
    """Return the largest log-odds that a swap of two columns a < b is all of the repair.

    One cause may have moved a third value, too, and always the same. In one record that may look
    alike, as with the answers to two questions, but the ratios of all its records add up. If the
    model was learned from this table `alone`, another one without these records judges: learned as
    they would be repaired, they would confirm that.
    """
    p = cells.shape[1]
    largest = np.full((p, p), np.inf)
    rows, first, second = _odd_swaps(evidence)
    pairs = first * p + second
    counts = np.bincount(pairs, minlength=p * p)
    crowded = counts >= max(_TOGETHER, _ONE_CAUSE * len(rows))
    if alone and crowded.any():
        others = evidence.odds <= 0
        model = fit_model(cells, others, model.prior, rank=rank, seed=seed)[0]
    most, rng = min(_RECORDS, max(_RATIOS // p**2, 1)), np.random.default_rng(seed)
    for pair in np.flatnonzero(crowded):
        a, b = divmod(int(pair), p)
        some = np.sort(rng.permutation(rows[pairs == pair])[:most])
        gain, error = _third_column(model, cells.take(some), a, b)
        least = _LIKELIER if gain <= error else error - gain
        largest[a, b] = max(-gain - error, least)
    return largest


def _third_column(model, cells, a, b):
    """What all records gain if a third column takes part in their swap of a and b, and its error.

    That is, the third column with which they may gain most.
    """
    order = np.arange(cells.shape[1])
    order[[a, b]] = b, a
    swapped = place_cells(model, cells.permuted(np.tile(order, (cells.shape[0], 1))))
    ratios = exchange_ratios(model, swapped)
    # A cycle of three is this swap and one more exchange of one of its columns.
    third = np.delete(np.arange(len(order)), [a, b])
    ratios = model.trust * np.concatenate(
        [ratios[:, np.minimum(c, third), np.maximum(c, third)] for c in (a, b)], axis=1
    )
    told = ~np.all(np.isnan(ratios), axis=0)
    if not told.any():
        return -np.inf, 0.0
    gains = np.nansum(ratios[:, told], axis=0)
    errors = _DEVIATIONS * np.sqrt(np.nansum(ratios[:, told] ** 2, axis=0))
    best = np.argmax(gains + errors)
    return gains[best], errors[best]


def _most_alike(cells, first, second):
    """How many of the records that would swap two columns hold the same two values there."""
    p = cells.shape[1]
    alike, each = np.zeros((p, p)), np.arange(len(first))
    words = cells.vocabulary()[1]
    keys = np.stack([first, second, words[each, first], words[each, second]], axis=1)
    keys, counts = np.unique(keys, axis=0, return_counts=True)
    np.maximum.at(alike, (keys[:, 0], keys[:, 1]), counts)
    return alike


def _odd_swaps(evidence):
    """Like :func:`swapped_pairs`, but only records that look damaged."""
    swaps = swapped_pairs(evidence)
    odd = evidence.odds[swaps[0]] > 0
    return tuple(part[odd] for part in swaps)


def swapped_pairs(evidence):
    """Return the records that were followed up and would swap two cells, and the two columns."""
    rows = np.flatnonzero(evidence.followed & (moves_of(evidence.permutations)[0] == 2))
    moved = evidence.permutations[rows] != np.arange(evidence.permutations.shape[1])
    return rows, np.argmax(moved, axis=1), moved.shape[1] - 1 - np.argmax(moved[:, ::-1], axis=1)
