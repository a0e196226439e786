"""The decision about every record: changed, listed as uncertain, or clean.

A record is changed if the confidence of its proposal reaches `min_confidence`. If that of the whole
proposal does not, but that of a part does, the part is proposed instead.
"""

from dataclasses import replace

import numpy as np

from unpermute.records._causes import name_causes
from unpermute.records._result import RecordRepairs

__all__ = ["EVEN", "LISTED", "decide"]

# Probability of damage from which on a record is listed, and the largest one if nothing tells which
# side is right.
LISTED, EVEN = 0.15, 0.5
# Probability of damage from which on parts are tried: they are for records that are surely damaged,
# and must not change more of those that are odd by nature.
_SURELY = 0.99
# A gap may move if one of its columns has fewer gaps than this, if no decoy gains as much, or if
# the log-odds exceed the second: where gaps are common, a gap more or less says nothing.
_RARE_GAPS, _STRONG = 0.01, 20.0


def decide(cells, evidence, calibration, max_moves, min_confidence, gaps, undecided, parts_of=None):
    """Decide about every record.

    Parameters
    ----------
    cells : Cells
        The records.
    evidence : Evidence
        What speaks for their proposals.
    calibration : Calibration
        From evidence to probabilities.
    max_moves, min_confidence
        As for :func:`repair_records`.
    gaps : ndarray of shape (p,)
        Share of the missing cells of every column.
    undecided : float
        Above 0: so many records would move that it cannot be told which ones are right.
    parts_of : callable or None
        ``parts_of(rows, permutations)`` finds the parts of proposals
        (:class:`~unpermute.records._parts.Parts`); None: records are changed as a whole.

    Returns
    -------
    RecordRepairs
        Without what was learned.
    """
    n, p = cells.shape
    damaged, confidence = calibration.probabilities(evidence)
    partial = np.zeros(n, dtype=bool)
    if undecided:
        damaged, confidence = np.minimum(damaged, EVEN), np.minimum(confidence, EVEN)
    elif parts_of is not None:
        evidence, partial = _with_parts(
            evidence, calibration, damaged, confidence, min_confidence, parts_of
        )
    moved = evidence.permutations != np.arange(p)
    allowed = (undecided == 0) & evidence.followed & (moved.sum(axis=1) <= (max_moves or p))
    allowed &= ~_through_gaps(cells, moved, evidence, gaps)
    sure = allowed & (confidence >= min_confidence)
    listed = evidence.followed & (damaged >= LISTED)
    status = np.where(sure, "recovered", np.where(listed, "uncertain", "clean"))
    suspicious = status != "clean"
    cause = np.full(n, "", dtype=object)
    cause[suspicious] = name_causes(evidence.permutations[suspicious])
    return RecordRepairs(
        np.where(sure[:, None], evidence.permutations, np.arange(p, dtype=np.int16)),
        evidence.permutations, evidence.odds, damaged,
        np.where(suspicious, confidence, 1 - damaged), status, cause, None, 0.0, {},
        undecided=undecided, partial=partial,
    )  # fmt: skip


def _with_parts(evidence, calibration, damaged, confidence, least, parts_of):
    """Propose the largest sure part where the whole of a proposal is not sure.

    Returns the evidence with these proposals, and which ones they are; changes `confidence`.
    """
    surely = damaged >= max(least, _SURELY)
    unsure = np.flatnonzero(evidence.followed & (confidence < least) & surely)
    parts = parts_of(unsure, evidence.permutations[unsure])
    probability = calibration.confidence_of(parts, damaged[parts.rows])
    # The parts of a record follow each other, from the smallest to the whole.
    whole = _lasts(parts.rows)
    confidence[parts.rows[whole]] = probability[whole]
    sure = np.flatnonzero(probability >= least)
    chosen = np.setdiff1d(sure[_lasts(parts.rows[sure])], whole)
    rows, partial = parts.rows[chosen], np.zeros(len(damaged), dtype=bool)
    if len(rows):
        confidence[rows], partial[rows] = probability[chosen], True
        permutations = evidence.permutations.copy()
        permutations[rows] = parts.permutations[chosen]
        evidence = replace(evidence, permutations=permutations)
    return evidence, partial


def _lasts(rows):
    """The places at which another row follows, or none."""
    return np.flatnonzero(np.append(np.diff(rows) > 0, True)[: len(rows)])


def _through_gaps(cells, moved, evidence, share):
    """Proposals that move a gap although gaps are common in the columns it moves between."""
    found = np.zeros(len(moved), dtype=bool)
    rows = np.flatnonzero(evidence.followed)
    gaps = cells.take(rows).missing()
    rarest = np.where(moved[rows], share, 1.0).min(axis=1, initial=1.0)
    strong = (evidence.margin[rows] > 0) | (evidence.odds[rows] > _STRONG)
    found[rows] = np.any(gaps & moved[rows], axis=1) & (rarest >= _RARE_GAPS) & ~strong
    return found
