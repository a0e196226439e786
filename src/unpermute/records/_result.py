"""What is learned from a table of records, and what is found in one."""

from dataclasses import dataclass, field

import numpy as np

from unpermute._words import counted
from unpermute.records._cells import Cells
from unpermute.records._model import RecordModel
from unpermute.records._rule import Rule
from unpermute.records._tempering import Tempering

__all__ = ["KnownRecords", "RecordRepairs"]


@dataclass(frozen=True)
class KnownRecords:
    """What was learned from a table, to be used for it or for others.

    Attributes
    ----------
    model : RecordModel
        Value models, joint distribution, and how records are damaged.
    tempering : Tempering
        How much of the evidence for an exchange of two columns to believe.
    cells : Cells
        Some records that look whole, for trials.
    own, own_links, version : ndarray
        What their cells and links are worth with themselves left out, and which version of the
        joint distribution they did not shape.
    rule : Rule or None
        What decides about records alone; None if records were judged with others only.
    """

    model: RecordModel
    tempering: Tempering
    cells: Cells
    own: np.ndarray
    own_links: np.ndarray
    version: np.ndarray
    rule: Rule | None = None

    def __repr__(self):
        return f"KnownRecords: {counted(len(self.own), 'record')} for trials"


@dataclass(frozen=True)
class RecordRepairs:
    """What was found in a table of n records and p columns.

    Attributes
    ----------
    permutations : ndarray of int of shape (n, p)
        ``np.take_along_axis(values, permutations, axis=1)`` is the repaired table.
    proposals : ndarray of int of shape (n, p)
        The best permutation but the identity, also where it is not applied; or a sure part of it.
    score : ndarray of shape (n,)
        Log-odds of damage before calibration: higher is more suspicious.
    damaged : ndarray of shape (n,)
        Probability that the record is damaged.
    confidence : ndarray of shape (n,)
        Of suspicious records: probability that every cell that the proposal moves ends right,
        applied or not. Of clean ones: probability that they are.
    status : ndarray of str of shape (n,)
        "clean", "recovered", or "uncertain": suspicious, but left alone.
    cause : ndarray of str of shape (n,)
        What happened to suspicious records; "" for clean ones.
    known : KnownRecords or None
        What was learned; None if nothing could be.
    recoverability : float
        Share of the wrong cells that likely repairs put back in trials.
    trials : dict
        How the confidence was measured: ``n``, ``n_changed``, ``n_right``.
    reason : str
        Why the records were not judged; "" if they were.
    questions : list of Run or Division
        Exchanges in many rows for which the table does not tell which side is right.
    undecided : float
        Share of the records that would move, if it is too large to tell which ones are right:
        then none is changed. Else 0.
    partial : ndarray of bool of shape (n,) or False
        Records of which a part is proposed: other values look misplaced, too. False: there are
        none.
    """

    permutations: np.ndarray
    proposals: np.ndarray
    score: np.ndarray
    damaged: np.ndarray
    confidence: np.ndarray
    status: np.ndarray
    cause: np.ndarray
    known: KnownRecords | None
    recoverability: float
    trials: dict
    reason: str = ""
    questions: list = field(default_factory=list)
    undecided: float = 0.0
    partial: np.ndarray | bool = False
