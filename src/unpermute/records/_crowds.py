r"""Pairs of columns that look exchanged more often than damage explains.

Random damage exchanges every two columns about equally often. If one pair looks exchanged far more
often, its records were either exchanged by one cause, or they are so by nature: a patient who went
to the other kind of clinic, a firm that is named as its own partner. Both mirror the other records,
so odds and trials cannot tell them apart. Columns that are far apart, as a name and a number,
hardly ever look exchanged by nature; where the two are close, it stays open. With E records
expected and X in excess, a share π of which counts as exchanged,

.. math:: P(\text{damaged}) \le \frac{E + πX}{E + X} .
"""

import numpy as np

from unpermute.records._prior import moves_of
from unpermute.records._tempering import exchange_ratios

__all__ = ["limits_of", "pair_distances", "swapped_pairs"]

# Two columns are close if an exchange costs a typical record less than so many nats: records that
# look exchanged by nature were found in such pairs only.
_CLOSE = 15.0
# An excess is what exceeds the expected number by more than so many standard deviations; and the
# share of it that counts as exchanged.
_DEVIATIONS, _EXCHANGED = 2.0, 0.25
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


def limits_of(evidence, distances):
    """Return the largest log-odds of damage for a swap of every two columns a < b."""
    p = len(distances)
    rows, first, second = swapped_pairs(evidence)
    odd = evidence.odds[rows] > 0
    counts = np.zeros((p, p))
    np.add.at(counts, (first[odd], second[odd]), 1.0)
    expected = counts.sum() / (p * (p - 1) / 2)
    excess = counts - expected - _DEVIATIONS * np.sqrt(expected + 0.25)
    crowded = (excess > 0) & (distances < _CLOSE)
    limits = np.full((p, p), np.inf)
    limits[crowded] = np.log(expected + _EXCHANGED * excess[crowded])
    limits[crowded] -= np.log((1 - _EXCHANGED) * excess[crowded])
    return limits


def swapped_pairs(evidence):
    """Return the records that were followed up and would swap two cells, and the two columns."""
    rows = np.flatnonzero(evidence.followed & (moves_of(evidence.permutations)[0] == 2))
    moved = evidence.permutations[rows] != np.arange(evidence.permutations.shape[1])
    return rows, np.argmax(moved, axis=1), moved.shape[1] - 1 - np.argmax(moved[:, ::-1], axis=1)
