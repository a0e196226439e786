"""What decides about a record besides the model: learned from a table, kept for others.

With it every record is decided about alone (:mod:`unpermute.records._alone`).
"""

from dataclasses import dataclass

import numpy as np

from unpermute.records._calibrate import Calibration
from unpermute.records._screen import Screen
from unpermute.records._trials import N_KINDS

__all__ = ["Rule"]


@dataclass(frozen=True)
class Rule:
    """What decides about a record, besides the model.

    Attributes
    ----------
    calibration : Calibration
        From evidence to probabilities, by the table's own records and trials.
    screen : Screen or None
        Tells records that are not worth a search; None: all are.
    gaps : ndarray of shape (p,)
        Share of the cells of every column that are missing.
    undecided : float
        Share of the table's records that would move, if too large for any to be moved; else 0.
    closed : ndarray of int of shape (n_pairs, 2)
        Columns between which nothing moves, because their exchange is a question.
    seed : int
        Draws decoys.
    recoverability : float
        Share of the wrong cells that likely repairs put back in trials.
    trials : dict of str to int
        How the confidence was measured.
    """

    calibration: Calibration
    screen: Screen | None
    gaps: np.ndarray
    undecided: float
    closed: np.ndarray
    seed: int
    recoverability: float
    trials: dict[str, int]

    def sound(self, p):
        """Return whether this can be a rule for p columns; one read from a file may be anything."""
        calibration, screen = self.calibration, self.screen
        n, n_trials = len(calibration.odds), len(calibration.trial_odds)
        return (
            self.gaps.shape == (p,)
            and self.closed.ndim == 2
            and self.closed.shape[1] == 2
            and np.all((self.closed >= 0) & (self.closed < p))
            and calibration.limits.shape == calibration.rivals.shape == (p, p)
            and calibration.correction.shape == calibration.of_parts.shape == (2 + N_KINDS,)
            and calibration.long.shape == (n,)
            and len(calibration.trial_long) == len(calibration.trial_weights) == n_trials
            and (screen is None or (screen.usual.shape == (p,) and len(screen.cells) > 0))
            and (screen is None or screen.distances.shape == screen.cells.shape)
        )
