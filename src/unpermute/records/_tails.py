"""Shifted tails that pass through columns which are not judged.

A tail shifts over all columns of a file. Where some of them are left out, the search sees a tail of
the others only, and putting that back alone would leave one value in the wrong column. Therefore
tails through all columns are tried as well. Whichever makes the record most like those that are not
suspicious is proposed, and a record is left alone where none clearly does: it is never half
repaired.
"""

from dataclasses import replace

import numpy as np
from scipy.special import expit

from unpermute.records._causes import SHIFTED
from unpermute.records._pairs import bin_cells, log_shares

__all__ = ["shift_whole_tails"]

# Log-likelihood by which one reading must beat the others for a record to be changed.
_CLEARLY = 5.0


def shift_whole_tails(repairs, cells, judged, min_confidence):
    """Return the repairs over all columns of a table, with tails shifted as a whole.

    Parameters
    ----------
    repairs : RecordRepairs
        Of the judged columns.
    cells : Cells
        All columns.
    judged : list of int
        Places of the judged columns among all, ascending.
    min_confidence : float
        Least confidence with which a record is changed.

    Returns
    -------
    RecordRepairs
        With permutations and proposals over all columns.
    """
    places, judged = np.arange(cells.shape[1]), np.asarray(judged)
    permutations = _widened(repairs.permutations, judged, places)
    proposals = _widened(repairs.proposals, judged, places)
    table = bin_cells(cells)
    shares = log_shares(table, repairs.status == "clean")
    status, confidence = repairs.status.copy(), repairs.confidence.copy()
    words = cells.vocabulary()[1]
    for r in np.flatnonzero((repairs.cause == SHIFTED) & (repairs.status != "clean")):
        orders = _readings(proposals[r], judged, words[r])
        if len(orders) == 1:
            continue
        fits = shares[table.bins[r][orders], places].sum(axis=1)
        best = 1 + int(np.argmax(fits[1:]))
        if fits[best] > fits[0]:
            proposals[r] = orders[best]
            permutations[r] = orders[best] if status[r] == "recovered" else places
        second, first = np.sort(fits)[-2:]
        confidence[r] *= expit(first - second)
        unclear = first - second < _CLEARLY or confidence[r] < min_confidence
        if unclear and status[r] == "recovered":
            status[r], permutations[r] = "uncertain", places
    return replace(
        repairs, permutations=permutations, proposals=proposals, status=status,
        confidence=confidence,
    )  # fmt: skip


def _widened(orders, judged, places):
    """Permutations of the judged columns as such of all."""
    wide = np.tile(places, (len(orders), 1))
    wide[:, judged] = judged[orders]
    return wide


def _readings(order, judged, words):
    """The order, and shifts of the same kind that pass through columns which are not judged.

    Only what gives other values than the readings before it.
    """
    p = len(order)
    moved = np.flatnonzero(order != np.arange(p))
    # Values come from the right if the first one does not come from the end.
    step = -1 if order[moved[0]] < moved[-1] else 1
    # Behind a column that is not judged, the beginning of a tail is not to be seen.
    first = int(moved[0])
    starts = range(first, (first if first - 1 in judged else 0) - 1, -1)
    readings, known = [order], {words[order].tobytes()}
    for start in starts:
        shifted = np.arange(p)
        shifted[start:] = np.roll(shifted[start:], step)
        values = words[shifted].tobytes()
        if values not in known:
            readings.append(shifted)
            known.add(values)
    return np.array(readings)
