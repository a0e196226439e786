r"""Turn the evidence for proposals into probabilities, by trials on the table itself.

`damaged`: trials show which odds damaged records get. At the highest odds natural outliers are
rare, so the records there tell how many damaged ones there are, and how many of them to expect at
lower odds; natural outliers are what is observed beyond that. The log-odds of damage are the
logarithm of expected over observed records, plus something for the model's own odds and the margin
over decoys.

`confidence`: that times the probability that every cell that the proposal moves ends right if the
record is damaged. This is what the model says, corrected by a logistic function fitted to the
trials. Parts of proposals have a correction of their own.

Trials count as often as damage of their kind seems to occur
(:func:`unpermute.records._trials.weigh`).
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from unpermute.records._crowds import swapped_pairs
from unpermute.records._parts import swap_limits
from unpermute.records._prior import moves_of
from unpermute.records._trials import N_KINDS, damage_kinds

__all__ = ["Calibration", "calibrate"]

# Log-odds of damage: what is measured counts in full; a constant, the model's odds and the margin
# say what is usual in tables, since one alone has too few natural outliers to learn that from
# (docs/decisions.md says what these three numbers were chosen by).
_CONSTANT, _ODDS, _MARGIN = 2.4, 0.25, 0.12
# More evidence than this counts no more.
_ODDS_RANGE, _MARGIN_RANGE = (-4.0, 20.0), (-20.0, 10.0)
# Width of the window of odds in which expected and observed records are compared, and records added
# to both, so that few do not decide.
_WINDOW, _PSEUDO = 1.5, 0.05
# Quantiles of the trials' odds above which records are counted.
_COUNTED_ABOVE = np.linspace(0.0, 0.8, 9)
# The correction that changes nothing, the weight that it has, in trials, and the least slope: more
# evidence never lowers a probability.
_AS_IT_IS = np.append([1.0, 0.0], np.zeros(N_KINDS))
_PULL = 3.0 * np.append([4.0, 1.0], np.ones(N_KINDS))
_LEAST_SLOPE = 0.05
# Most steps of Newton's method, the shares of one that are tried, and the size of the last one.
_NEWTON_STEPS, _STEP_SIZES, _SETTLED = 50, 0.5 ** np.arange(12), 1e-6


@dataclass(frozen=True)
class Calibration:
    """Maps evidence to probabilities.

    Attributes
    ----------
    odds : ndarray
        Odds of the records of the table that were followed up.
    long : ndarray of bool
        Which of them would move more than two cells.
    trial_odds, trial_long, trial_weights : ndarray
        The same of the trials that were followed up, and how much each counts.
    correction : ndarray of shape (2 + N_KINDS,)
        Slope, constant, and what is added to that for every kind of proposal, of the log-odds that
        a proposal is right.
    limits : ndarray of shape (p, p)
        Largest log-odds of damage for a swap of every two columns.
    rivals : ndarray of shape (p, p)
        Largest log-odds that such a swap is all of the repair.
    of_parts : ndarray of shape (2 + N_KINDS,)
        As `correction`, for parts of a proposal.
    """

    odds: np.ndarray
    long: np.ndarray
    trial_odds: np.ndarray
    trial_long: np.ndarray
    trial_weights: np.ndarray
    correction: np.ndarray
    limits: np.ndarray
    rivals: np.ndarray
    of_parts: np.ndarray

    def log_odds(self, evidence):
        """Return the log-odds of damage of the proposals that were followed up."""
        odds, margin = evidence.odds[evidence.followed], evidence.margin[evidence.followed]
        long, ratio = _is_long(evidence), np.empty(len(odds))
        # Proposals to move many cells are compared among themselves: a single unusual record can
        # look like a shifted one.
        for kind in (False, True):
            mine, tried = long == kind, self.trial_long == kind
            ratio[mine] = _log_ratio(
                odds[mine], self.odds[self.long == kind], self.trial_odds[tried],
                self.trial_weights[tried],
            )  # fmt: skip
        own = _ODDS * np.clip(odds, *_ODDS_RANGE) + _MARGIN * np.clip(margin, *_MARGIN_RANGE)
        return np.minimum(_CONSTANT + own + ratio, _of_swaps(self.limits, evidence))

    def probabilities(self, evidence):
        """Return the probability of damage, and that all of the proposal is right."""
        followed = evidence.followed
        damaged = expit(np.minimum(evidence.odds, -np.log(99.0)))
        damaged[followed] = expit(self.log_odds(evidence))
        right = np.zeros(len(damaged))
        kinds = damage_kinds(evidence.permutations[followed])
        corrected = _corrected(self.correction, evidence.clear[followed], kinds)
        right[followed] = expit(np.minimum(corrected, _of_swaps(self.rivals, evidence)))
        return damaged, damaged * right

    def confidence_of(self, parts, damaged):
        """Return the probability that all of every part is right; `damaged`: of their records.

        That a record is damaged does not say that each of its odd cells is. A part with a swap that
        records look like by nature is no surer than that swap alone.
        """
        limited = expit(swap_limits(self.limits, parts.permutations))
        corrected = _corrected(self.of_parts, parts.clear, damage_kinds(parts.permutations))
        right = expit(np.minimum(corrected, swap_limits(self.rivals, parts.permutations)))
        return np.minimum(damaged, limited) * right


def calibrate(evidence, trials, weights, limits, rivals, parts, parts_weights):
    """Learn from the evidence of the table's records and of its weighted trials.

    `limits` and `rivals` are those of :mod:`unpermute.records._crowds`, `parts` those of the
    proposals in some trials, which have weights of their own.
    """
    tried = trials.evidence
    followed, long = tried.followed, _is_long(tried)
    of_parts = _fit_parts(trials, parts_weights, parts)
    weights, kinds = weights[followed], damage_kinds(tried.permutations[followed])
    correction = _fit_correction(tried.clear[followed], kinds, trials.right[followed], weights)
    odds = evidence.odds[evidence.followed]
    return Calibration(
        odds, _is_long(evidence), tried.odds[followed], long, weights, correction, limits, rivals,
        of_parts,
    )  # fmt: skip


def _fit_parts(trials, weights, parts):
    """The correction of parts; a trial counts once, however many parts its proposal has."""
    if not len(parts.rows):
        return _AS_IT_IS
    rows, counts = np.unique(parts.rows, return_counts=True)
    weights = weights[rows]
    # As many as these trials are worth: few heavy ones must not decide.
    weights = weights * weights.sum() / np.sum(weights**2)
    right = trials.moves_right(parts.rows, parts.permutations)
    shared = np.repeat(weights / counts, counts)
    return _fit_correction(parts.clear, damage_kinds(parts.permutations), right, shared)


def _of_swaps(limits, evidence):
    """The limit of every proposal that was followed up; infinite for all but swaps."""
    found = np.full(len(evidence.odds), np.inf)
    rows, first, second = swapped_pairs(evidence)
    found[rows] = limits[first, second]
    return found[evidence.followed]


def _is_long(evidence):
    """Which of the proposals that were followed up move more than two cells."""
    return moves_of(evidence.permutations[evidence.followed])[0] > 2


def _log_ratio(at, observed, tried, weights):
    """Log of the expected number of damaged records near these odds over the observed number."""
    density = _window_mean(at, observed) * len(observed)
    expected = np.zeros(len(at))
    if weights.sum() > 0:
        # The number of damaged records is what the counts at all limits allow. A record does not
        # count for itself, but one more might be there.
        order = np.argsort(tried)
        ranks = np.cumsum(weights[order]) / weights.sum()
        limits = tried[order][np.minimum(np.searchsorted(ranks, _COUNTED_ABOVE), len(tried) - 1)]
        share = np.array([weights[tried > limit].sum() for limit in limits]) / weights.sum()
        counts = np.array([np.sum(observed > limit) for limit in limits])
        others = counts - (at[:, None] > limits) + 1.0
        n_damaged = np.min(others / (share + 0.5 / (len(tried) + 1)), axis=1)
        expected = n_damaged * _window_mean(at, tried, weights)
    return np.log((expected + _PSEUDO) / (np.maximum(density, 1.0) + _PSEUDO))


def _window_mean(at, points, weights=None):
    """Mean of a Gaussian window around every place over the points."""
    if not len(points) or not len(at):
        return np.zeros(len(at))
    # Places in steps of a tenth: tables may have very many.
    grid, places = np.unique(np.round(at, 1), return_inverse=True)
    windows = np.exp(-0.5 * ((grid[:, None] - points) / _WINDOW) ** 2)
    return np.average(windows, axis=1, weights=weights)[places]


def _corrected(correction, clear, kinds):
    return correction[0] * clear + correction[1] + correction[2 + kinds]


def _fit_correction(clear, kinds, right, weights):
    """Slope and constants, pulled towards those that change nothing.

    Newton's method, halving steps that go too far. The loss is convex, so it ends at the minimum
    whatever the rounding of the evidence; searches along numerical gradients stop anywhere near.
    """
    design = np.column_stack([clear, np.ones(len(clear)), np.eye(N_KINDS)[kinds]])

    def loss(correction):
        wrong = np.where(right, -1.0, 1.0) * (design @ correction)
        return weights @ np.logaddexp(0.0, wrong) + 0.5 * _PULL @ (correction - _AS_IT_IS) ** 2

    found = _AS_IT_IS
    for _ in range(_NEWTON_STEPS):
        p = expit(design @ found)
        gradient = (weights * (p - right)) @ design + _PULL * (found - _AS_IT_IS)
        curvature = (design.T * (weights * p * (1 - p))) @ design + np.diag(_PULL)
        step = np.linalg.solve(curvature, gradient)
        if np.max(np.abs(step)) < _SETTLED:
            found = found - step
            break
        found = min((found - size * step for size in _STEP_SIZES), key=loss)
    return np.append(max(found[0], _LEAST_SLOPE), found[1:])
