r"""Turn the evidence for proposals into probabilities, by trials on the table itself.

`damaged`: the trials show which odds damaged records get, so the number of records with high odds
tells how many there are, and how many of them to expect at lower odds; natural outliers are what is
there beyond that. A logistic function of the odds, of the expected against the observed number of
records with such odds, of the number of damaged ones, and of the margin over decoys is the
probability of damage.

`confidence`: that times the probability that the proposal is right in all cells if the record is
damaged. This is what the model says, corrected by a logistic function fitted to the trials.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from unpermute.records._prior import moves_of

__all__ = ["Calibration", "calibrate"]

# Log-odds above which nearly all records are damaged, so that they can be counted.
_TOP = 5.0
# Width of the window of odds in which expected and observed records are compared.
_WINDOW = 1.5
# Records added to both, so that few do not decide.
_PSEUDO = 0.2
# Coefficients of the logistic function: constant, odds, log of expected over observed, log of the
# number of other damaged records, margin, odds beyond those of the second coefficient. Fitted once
# to 31,484 proposals on public tables and made ones (docs/decisions.md); a table's own trials enter
# through the variables.
COEFFICIENTS = np.array([2.7, 0.4, 0.81, -0.18, 0.127, 0.053])
# A record that moves more than two cells must be e^4 times as convincing where hardly any other one
# does, or e times if its odds are beyond the last number: one unusual record can look like a
# shifted one, but is not odd in many cells.
_ALONE, _ALONE_BUT_ODD, _FEW_OTHERS, _ODD = -4.0, -1.0, 3, 15.0
_ODDS_RANGE, _MARGIN_RANGE, _MOST_COUNTED, _MOST_BEYOND = (-4.0, 8.0), (-20.0, 10.0), 2.5, 40.0
# Weight of the model's own probability in the correction, in trials.
_PRIOR_TRIALS = 10.0
# The correction that changes nothing; the least slope: more evidence never lowers a probability.
_AS_IT_IS, _LEAST_SLOPE = np.array([0.0, 1.0, 0.0]), 0.05
# Only rivals next to a proposal are weighed, and trials are damaged as proposals look: where it is
# not clear, the log-odds are lower by the first number, from the second to the third less and less.
_UNSEEN, _UNCLEAR, _CLEAR = 0.55, 1.0, 3.0


@dataclass(frozen=True)
class Calibration:
    """Maps evidence to probabilities.

    Attributes
    ----------
    odds : ndarray
        Odds of the records of the table that were followed up.
    long : ndarray of bool
        Which of them would move more than two cells.
    trial_odds : ndarray
        Odds of the trials; -inf where nothing was found.
    top_share : float
        Share of damaged records whose odds are so high that they can be counted.
    correction : ndarray of shape (3,)
        Constant, slope, and constant for more than two moved cells, of the log-odds that a
        proposal is right.
    """

    odds: np.ndarray
    long: np.ndarray
    trial_odds: np.ndarray
    top_share: float
    correction: np.ndarray

    def log_odds(self, evidence):
        """Return the log-odds of damage of the proposals that were followed up."""
        odds = evidence.odds[evidence.followed]
        others = (np.sum(self.odds > _TOP) - (odds > _TOP)) / self.top_share
        others = np.maximum(others, 0.0)
        finite = self.trial_odds[np.isfinite(self.trial_odds)]
        share = len(finite) / max(len(self.trial_odds), 1)
        expected = others * share * _window_mean(odds, finite)
        observed = len(self.odds) * _window_mean(odds, self.odds)
        variables = (
            np.clip(odds, *_ODDS_RANGE),
            np.log((expected + _PSEUDO) / (np.maximum(observed, 1.0) + _PSEUDO)),
            np.minimum(np.log1p(others), _MOST_COUNTED),
            np.clip(evidence.margin[evidence.followed], *_MARGIN_RANGE),
            np.clip(odds - _ODDS_RANGE[1], 0.0, _MOST_BEYOND),
        )
        long = moves_of(evidence.permutations[evidence.followed])[0] > 2
        others = np.sum(self.odds[self.long] > _TOP) - (odds > _TOP)
        alone = long & (others < _FEW_OTHERS)
        penalty = np.where(odds > _ODD, _ALONE_BUT_ODD, _ALONE) * alone
        return COEFFICIENTS[0] + COEFFICIENTS[1:] @ np.stack(variables) + penalty

    def probabilities(self, evidence):
        """Return the probability of damage, and that all of the proposal is right."""
        followed = evidence.followed
        damaged = expit(np.minimum(evidence.odds, -np.log(99.0)))
        damaged[followed] = expit(self.log_odds(evidence))
        right = np.zeros(len(damaged))
        long = moves_of(evidence.permutations[followed])[0] > 2
        log_odds = _corrected(self.correction, evidence.clear[followed], long)
        unclear = np.clip((_CLEAR - log_odds) / (_CLEAR - _UNCLEAR), 0.0, 1.0)
        right[followed] = expit(log_odds - _UNSEEN * unclear)
        return damaged, damaged * right


def calibrate(evidence, trials):
    """Learn from the evidence of the table's records and of its trials."""
    odds = evidence.odds[evidence.followed]
    trial_odds = np.where(trials.evidence.followed, trials.evidence.odds, -np.inf)
    share = (np.sum(trial_odds > _TOP) + 0.5) / (len(trial_odds) + 1)
    followed = trials.evidence.followed
    tried = moves_of(trials.evidence.permutations[followed])[0] > 2
    correction = _fit_correction(trials.evidence.clear[followed], tried, trials.right[followed])
    long = moves_of(evidence.permutations[evidence.followed])[0] > 2
    return Calibration(odds, long, trial_odds, share, correction)


def _window_mean(at, points):
    """Mean of a Gaussian window around every place over the points."""
    if not len(points):
        return np.zeros(len(at))
    # Places in steps of a tenth: tables may have very many.
    grid, places = np.unique(np.round(at, 1), return_inverse=True)
    level = np.exp(-0.5 * ((grid[:, None] - points) / _WINDOW) ** 2).mean(axis=1)
    return level[places]


def _corrected(correction, clear, long):
    return correction[0] + correction[1] * clear + correction[2] * long


def _fit_correction(clear, long, right):
    """Constants and slope, pulled towards 0 and 1 by the weight of some trials."""
    weights = _PRIOR_TRIALS * np.array([1.0, 4.0, 1.0])

    def loss(correction):
        linear = _corrected(correction, clear, long)
        fit = np.sum(np.where(right, log_expit(linear), log_expit(-linear)))
        return -fit + 0.5 * weights @ (correction - _AS_IT_IS) ** 2

    found = minimize(loss, _AS_IT_IS, method="BFGS").x
    return np.array([found[0], max(found[1], _LEAST_SLOPE), found[2]])
