r"""Where vectors stand among the trials, and what that says about damage.

A trial is a clean vector, shuffled as the damaged vectors seem to be. A damaged vector stands
anywhere among the trials; an undamaged one that looks damaged stands among the weakest. How near to
the weakest, and how often, the training vectors tell (:class:`Ranks`). A new vector may belong to
any matrix: it is compared with the training vectors that are not damaged (:class:`Reference`).
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import logit

__all__ = ["Ranks", "Reference"]

# Shapes of the beta distribution of the ranks of undamaged vectors, and shares of these among what
# looks damaged, that are averaged over, as if this part of one and one damaged vector had been seen
# before. That all are undamaged is as likely as everything else: a matrix may well be whole.
_NEARNESS, _FALSE_BEFORE = np.geomspace(0.05, 0.2, 8)[:, None], 0.1
_SOME = np.geomspace(1e-8, 0.99, 80)
_SOME_BEFORE = _SOME**_FALSE_BEFORE * (1.0 - _SOME)
_FALSE = np.append(_SOME, 1.0)
_BEFORE = np.append(_SOME_BEFORE / _SOME_BEFORE.sum(), 1.0)
# Shapes of the ranks of damaged vectors, 1 if the trials are just like them, less if stronger; and
# by how much they may be so, roughly.
_WEAKER, _STRONGER = np.linspace(0.7, 1.0, 4)[:, None, None], 0.08
# Interquartile ranges below the lower quartile from which a value is far out (Tukey).
_FAR_OUT = 3.0
# Difference of a strength, which is a logarithm, that means nothing.
_ALIKE = 0.1


@dataclass(frozen=True)
class Ranks:
    """Where vectors stand among the trials: damaged ones anywhere, others among the weakest.

    Whatever makes an undamaged vector look damaged, it gains less by its repair than shuffled ones
    do, or less than the number of arrangements explains, is expected to improve less, is still
    unlike clean vectors after it, or has fewer entries that seem to have moved. Its rank among the
    trials, by the lowest of the five, is near 0, where that of a damaged vector is uniform.

    How near to 0 the ranks of undamaged vectors are (a beta distribution), how many there are, and
    how much stronger trials are than damaged vectors (another one, near to uniform) is not
    estimated, but averaged over, by how likely it makes the ranks of all that look damaged.

    Attributes
    ----------
    strengths : list of ndarray
        Of the trials, sorted: gains, gains less the logarithms of how many arrangements there were,
        expected improvements, little noise after the repair, shares of moved entries.
    lowest : ndarray
        The lowest of the five ranks of every trial, sorted.
    odds : ndarray of shape (n_trials + 1,)
        Undamaged vectors expected per damaged one at every rank, as logarithms.
    """

    strengths: list[np.ndarray]
    lowest: np.ndarray
    odds: np.ndarray

    @classmethod
    def among(cls, tried):
        """Ranks among trials, whatever they say about damage: without odds."""
        strengths, nothing = [np.sort(own) for own in tried], np.empty(0)
        return cls(strengths, np.sort(cls(strengths, nothing, nothing).lowest_of(tried)), nothing)

    @classmethod
    def of(cls, tried, known):
        """Ranks among trials, and the odds that follow from the strengths of vectors.

        Both have a row per strength.
        """
        n, ranks = len(tried[0]), cls.among(tried)
        places = (np.arange(n + 1.0) + 1.0)[:, None, None, None] / (n + 2.0)
        undamaged = _NEARNESS * places ** (_NEARNESS - 1.0) * _FALSE
        damaged = _WEAKER * places ** (_WEAKER - 1.0) * (1.0 - _FALSE)
        found = np.bincount(ranks.rank(known), minlength=n + 1)
        log_both = np.log(undamaged + damaged)
        log_weights = np.tensordot(found, log_both, axes=1) + np.log(_BEFORE)
        log_weights += -0.5 * ((1.0 - _WEAKER) / _STRONGER) ** 2
        # A vector is no witness in its own case.
        log_weights = log_weights - (found > 0)[:, None, None, None] * log_both
        every = (1, 2, 3)
        weights = np.exp(log_weights - log_weights.max(axis=every, keepdims=True))
        share = np.sum(weights * damaged / np.exp(log_both), axis=every) / weights.sum(axis=every)
        return cls(ranks.strengths, ranks.lowest, -logit(share))

    def log_odds(self, known):
        """Undamaged vectors expected per damaged one, as a logarithm."""
        odds = self.odds[self.rank(known)]
        # Of vectors unlike any trial the trials tell nothing.
        return np.where(self._is_beyond(known), np.maximum(odds, 0.0), odds)

    def _is_beyond(self, known):
        """Vectors that are far weaker than all trials: below Tukey's outer fence."""
        beyond = np.zeros(len(known[0]), dtype=bool)
        for ours, own in zip(self.strengths, known, strict=True):
            lower, upper = np.quantile(ours, [0.25, 0.75])
            beyond |= own < min(lower - _FAR_OUT * (upper - lower), ours[0] - _ALIKE)
        return beyond

    def lowest_of(self, known):
        """Lowest rank of vectors, of those by every strength: from 0 to 1."""
        columns = zip(self.strengths, known, strict=True)
        return np.min(
            [np.searchsorted(ours, own + _ALIKE) / len(ours) for ours, own in columns], axis=0
        )

    def rank(self, known):
        """Number of trials whose lowest rank is smaller."""
        return np.searchsorted(self.lowest, self.lowest_of(known))


@dataclass(frozen=True)
class Reference:
    """Odds of new vectors: does any undamaged training vector look as damaged as this one?

    The training matrix says how many of its own vectors are damaged, not how many new ones are: one
    without damage would make all new vectors look undamaged. So a new vector counts as damaged as
    likely as not before it is looked at. It looks more damaged than all n undamaged training
    vectors with probability 1 / (n + 1) if it is undamaged and of the same kinds, since it might
    have been any of n + 1 (conformal prediction), and as often as trials do if it is damaged. Where
    an undamaged training vector looks as damaged, nothing is said.

    Attributes
    ----------
    ranks : Ranks
        Among the trials.
    least : float
        Lowest rank (:class:`Ranks`) that new vectors must exceed.
    n_undamaged : int
        Number of undamaged training vectors.
    """

    ranks: Ranks
    least: float
    n_undamaged: int

    @classmethod
    def of(cls, tried, undamaged, n_undamaged):
        """Learn from strengths of trials, and of undamaged vectors that look damaged.

        `n_undamaged` is the number of all undamaged vectors.
        """
        ranks, least = Ranks.among(tried), 0.0
        if len(undamaged[0]) > 0:
            least = float(np.max(ranks.lowest_of(undamaged)))
        return cls(ranks, least, n_undamaged)

    def log_odds(self, known):
        """Undamaged vectors per damaged one, as a logarithm; infinite where nothing is said."""
        as_strong = (np.sum(self.ranks.lowest > self.least) + 1.0) / (len(self.ranks.lowest) + 1.0)
        odds = -np.log(self.n_undamaged + 1.0) - np.log(as_strong)
        return np.where(self.ranks.lowest_of(known) > self.least, odds, np.inf)
