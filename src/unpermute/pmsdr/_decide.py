r"""One decision: flagged if it looks damaged rather than odd, changed if trials show that it helps.

A vector looks damaged if its repair gains more than a cut. It may be clean or odd all the same, and
five things tell, all measured on this very matrix:

1. The **rank** among the trials, clean vectors shuffled as the damaged ones seem to be: damaged
   vectors stand anywhere, others among the weakest.
2. The **gain**: clean vectors, judged by folds that they did not shape, have gains with a tail.
3. What it **deviates** by (:mod:`unpermute.pmsdr._natural`): odd vectors deviate as clean ones do.
4. The **values** it holds (:mod:`unpermute.pmsdr._profile`): those of odd vectors may be others.
5. Its **smoothness** (:mod:`unpermute.pmsdr._smooth`): an odd vector is still smooth, a shuffled
   one is as rough as its repair shuffled anew.

How many vectors of either kind there are, and how the undamaged ones are spread, is averaged over
what explains all vectors, so that it is never surer than this matrix allows.

The odds of the first, second and fourth add up; evidence for the repair that no arrangement of an
odd vector has bounds those of the first and fourth. They are multiplied by the odds of the others.
Of new vectors, the training matrix does not tell how many are damaged: they are compared with the
undamaged training vectors as well (:class:`~unpermute.pmsdr._ranks.Reference`). How likely the
repair of a damaged vector is closer to the truth, the outcomes of trials that are like it tell. The
confidence is the product of both.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from unpermute.pmsdr._natural import Naturalness
from unpermute.pmsdr._ranks import Ranks, Reference
from unpermute.pmsdr._smooth import Smoothness
from unpermute.pmsdr._success import Success

__all__ = ["OUTPUTS", "WEAK", "Rule", "learn_reference", "learn_rule"]

OUTPUTS = ("values", "blend", "subspace")
# Fewer trials with a gain above the cut say nothing about repairs.
_ENOUGH = 20
# Logarithm of a gain, one nat, that is none; and least width of a kernel on that scale.
_NO_GAIN, _LEAST_WIDTH = float(np.log(2.0)), 0.05
# Scales of the tail of clean gains on a logarithmic scale (at 1 it has no mean), and shares of
# damaged vectors above its start, that are averaged over; and by how much the logarithms of the
# gains of trials may be off, roughly.
_SCALES, _DAMAGED = np.geomspace(0.1, 1.0, 25), (np.arange(60) + 0.5) / 60
_SHIFTS, _ROUGHLY = np.linspace(-0.4, 0.4, 9), 0.2
# Gains at which the odds are known, and to which others are rounded.
_PLACES = 200
# Share of moved entries above which a vector is like any other in any order, number of clean
# vectors below which they are few, and the evidence in nats that both need.
_MOSTLY, _FEW, _NEED = 0.7, 50, 20.0
# Training vectors count as undamaged below this probability of damage.
_SURELY = 0.95
# Share of the trials that count as weak.
WEAK = 0.05
# Least scale, in nats, of the evidence for a repair that clean vectors have by chance.
_CHANCE = 5.0
# Relative error of the logarithm of the number of arrangements: evidence below it proves nothing.
_COUNTED = 0.1


@dataclass(frozen=True)
class Gains:
    """Gains of two groups on a logarithmic scale: the tail of clean vectors, and damaged ones.

    Above the typical gain of those clean vectors that gain anything, the logarithms of clean gains
    have an exponential tail. Those of damaged vectors are spread as those of the trials, but for a
    shift: how many entries moved is known roughly. The share of the damaged ones, the scale of the
    tail and the shift are not estimated, but averaged over, all by how likely they make the gains
    of all vectors: where clean gains reach as far as those that look damaged, no vector is surely
    damaged.

    Attributes
    ----------
    places, odds : ndarray
        Logarithms of gains, and of the clean vectors expected per damaged one there.
    """

    places: np.ndarray
    odds: np.ndarray

    @classmethod
    def of(cls, clean, damaged, tried):
        """Learn from gains of clean vectors, of those that look damaged, and of trials."""
        clean, damaged, tried = (np.log1p(np.maximum(g, 0.0)) for g in (clean, damaged, tried))
        gaining = clean[clean > _NO_GAIN]
        start = float(np.median(gaining)) if len(gaining) else _NO_GAIN
        tried = tried[tried > start]
        if len(tried) < _ENOUGH:
            return cls(np.zeros(1), np.zeros(1))  # clean vectors gain more: even odds
        lower, upper = np.quantile(tried, [0.25, 0.75])
        width = max((upper - lower) / 1.35 * len(tried) ** -0.2, _LEAST_WIDTH)  # Silverman
        every = np.concatenate([clean, damaged])
        every = every[every > start]
        places = np.linspace(start, max(every.max(initial=start), tried.max()), _PLACES)
        counts = np.bincount(np.rint((every - start) / (places[1] - start)).astype(int))
        # Jeffreys' prior of the share; that of the scale is uniform on its logarithm.
        log_weights = -0.5 * np.log(_DAMAGED * (1.0 - _DAMAGED)) + np.zeros((len(_SCALES), 1))
        log_weights = log_weights - 0.5 * (_SHIFTS / _ROUGHLY)[:, None, None] ** 2
        for place, count in zip(places, counts, strict=False):
            if count > 0:
                both = np.add(*_densities(place, start, tried, width))
                log_weights += count * np.log(both)
        weights = np.exp(log_weights - log_weights.max())
        shares = np.empty(_PLACES)
        for i, log_gain in enumerate(places):
            ours, theirs = _densities(log_gain, start, tried, width)
            shares[i] = np.sum(weights * (ours / (ours + theirs))) / weights.sum()
        return cls(places, -logit(np.clip(shares, 1e-12, 1.0 - 1e-12)))

    def log_odds(self, gain):
        """Clean vectors expected per damaged one at a gain, as a logarithm."""
        return np.interp(np.log1p(np.maximum(gain, 0.0)), self.places, self.odds)


def _densities(log_gain, start, tried, width):
    """Densities of damaged and clean vectors at a gain, for every shift, scale and share."""
    # Beyond most trials damaged vectors are rare too, but not for that more likely clean.
    places = np.minimum(log_gain - _SHIFTS, np.quantile(tried, 0.95))
    damaged = np.exp(-0.5 * ((places[:, None] - tried) / width) ** 2).mean(axis=1)
    damaged = damaged / (width * np.sqrt(2 * np.pi)) + 1e-6
    clean = np.exp(-max(log_gain - start, 0.0) / _SCALES) / _SCALES
    return damaged[:, None, None] * _DAMAGED, clean[:, None] * (1.0 - _DAMAGED)


def _strengths(known):
    """Of what is known of repairs, what undamaged vectors have little of."""
    return known[:, 0], known[:, 1], known[:, 2], -known[:, 4], known[:, 5]


@dataclass(frozen=True)
class Rule:
    """How what is known of a repair becomes probabilities.

    Attributes
    ----------
    cut : float
        Gain above which a vector looks damaged.
    ranks, likeness : Ranks
        Where it stands among the trials, and where its values do (None: unknown).
    gains : Gains
        Clean rather than damaged, by the gain.
    natural : Naturalness or None
        The same, by what a vector deviates by.
    smooth : Smoothness or None
        The same, by how its entries go together.
    chance : tuple of float
        Logarithm of the number of clean vectors, and the scale of evidence by chance: the largest
        for a repair of one of them, or a few nats.
    proven : float
        Probability that a certified repair is right, by trials.
    closer : dict of str to Success
        Closer to the truth after the repair, given that it is damaged; for every output.
    few : bool
        Whether it was learned from few vectors.
    reference : Reference or None
        Odds of new vectors; None: not known yet.
    """

    cut: float
    ranks: Ranks
    likeness: Ranks | None
    gains: Gains
    natural: Naturalness | None
    smooth: Smoothness | None
    chance: tuple[float, float]
    proven: float
    closer: dict[str, Success]
    few: bool = False
    reference: Reference | None = None

    def probabilities(self, judged, Y, known=None, *, new=False):
        """Probability that vectors are damaged, and that repairs of damaged ones are closer.

        The latter by output; both are 0 where nothing is gained. `known`: of the vectors that gain
        more than the cut, if it has been worked out before. `new`: the share of damaged vectors in
        the training matrix says nothing about these.
        """
        damage, rows = np.zeros(len(Y)), np.flatnonzero(judged.gain > self.cut)
        known = known_of(judged.part(rows), Y[rows]) if known is None else known
        clean = self.gains.log_odds(judged.gain[rows])
        # A certified order is no accident, however weak the vector is among the trials.
        certified, odd = judged.certified[rows], self.ranks.log_odds(_strengths(known))
        # Where most entries moved, or few vectors tell, odd vectors can be sorted as well.
        needed = np.where(self.few | (judged.share[rows] > _MOSTLY), np.log1p(_NEED), -np.inf)
        by_chance = known[:, 1] <= needed
        # Values unlike those of clean vectors are seldom put right by an order.
        if self.likeness is not None:
            odd = np.logaddexp(odd, self.likeness.log_odds([judged.likeness[rows]]))
        # However odd: so much evidence for a repair no vector has that was not shuffled.
        evidence = np.sign(known[:, 1]) * np.expm1(np.abs(known[:, 1]))
        arrangements = np.expm1(known[:, 0]) - evidence
        by_accident = np.maximum(self.chance[1], _COUNTED * arrangements)
        odd = np.minimum(odd, self.chance[0] - evidence / by_accident)
        odd = np.where(by_chance, np.maximum(odd, -np.log(2.0)), odd)
        undamaged = np.logaddexp(odd, clean)
        if new and self.reference is not None:
            unlike = self.reference.log_odds((*_strengths(known), judged.likeness[rows]))
            undamaged = np.minimum(undamaged, np.where(by_chance, np.inf, unlike))
        undamaged = undamaged + self._nature(judged.part(rows))
        undamaged = np.where(certified, np.minimum(undamaged, -logit(self.proven)), undamaged)
        damage[rows] = expit(-undamaged)
        closer = {output: np.zeros(len(Y)) for output in self.closer}
        for output, success in self.closer.items():
            found = success(known)
            closer[output][rows] = np.where(certified, np.maximum(found, self.proven), found)
        return damage, closer

    def is_weak(self, judged, Y):
        """Vectors whose repair is weaker than nearly all trials."""
        lowest = self.ranks.lowest_of(_strengths(known_of(judged, Y)))
        return lowest <= np.quantile(self.ranks.lowest, WEAK)

    def _nature(self, judged):
        """Log-odds that vectors are odd by nature rather than shuffled."""
        odds = np.zeros(len(judged.gain))
        if self.natural is not None:
            odds = self.natural.log_odds(judged.natural, judged.natural_after)
        return odds if self.smooth is None else self.smooth.log_odds(judged.margins, odds)


def known_of(judged, Y):
    """What is known of repairs, one row each, on scales on which it is roughly normal."""
    left, values, blend = judged.expected_squares(Y)
    evidence = judged.evidence(Y)
    return np.column_stack(
        [
            np.log1p(np.maximum(judged.gain, 0.0)),
            np.sign(evidence) * np.log1p(np.abs(evidence)),
            np.log((left + 1e-300) / (values + 1e-300)),
            np.log((left + 1e-300) / (blend + 1e-300)),
            np.log(judged.noise_after + 1e-300),
            np.log(judged.share + 1.0 / Y.shape[1]),
        ]
    )


def learn_rule(judged, Y, cut, clean, vectors, trials, whole):
    """Learn the rule.

    Parameters
    ----------
    judged : Judged
        Of the vectors that look damaged.
    Y : ndarray of shape (n_damaged, n_features)
        These vectors.
    cut : float
        Gain above which a vector looks damaged.
    clean : Judged
        Of clean vectors, judged by folds that they did not shape.
    vectors : ndarray of shape (n_clean, n_features)
        These.
    trials : Trials
    whole : ndarray of shape (n_trials,)
        Margins that the trials would have, had they not been shuffled.

    Returns
    -------
    rule : Rule or None
        None if too few trials look damaged.
    tried : ndarray
        What is known of the repairs of trials that look damaged.
    """
    found = trials.judged.gain > cut
    tried_ones = trials.judged.part(found)
    tried = known_of(tried_ones, trials.observed[found])
    if found.sum() < _ENOUGH:
        return None, tried
    ranks = Ranks.of(_strengths(tried), _strengths(known_of(judged, Y)))
    few = len(vectors) < _FEW  # too few to tell which values vectors may hold
    likeness = None if few else Ranks.of([tried_ones.likeness], [judged.likeness])
    gains = Gains.of(clean.gain, judged.gain, trials.judged.gain)
    natural = Naturalness.of(clean.natural, tried_ones.natural, tried_ones.natural_after)
    n_tried = len(np.unique(trials.rows[found]))
    smooth = Smoothness.of(whole[found], tried_ones.margins[:, 0], n_tried)
    errors = trials.squared_errors()
    closer = {}
    for output, after in zip(OUTPUTS, errors[1:], strict=True):
        outcome = (after < errors[0])[found].astype(int)
        closer[output] = Success.of(tried, outcome, trials.rows[found])
    certified = trials.judged.certified
    right = np.sum(certified & (errors[1] < errors[0]))
    proven = (right + 0.5) / (certified.sum() + 1.0)
    gaining = np.flatnonzero(clean.gain > 0.0)
    largest = np.max(clean.part(gaining).evidence(vectors[gaining]), initial=_CHANCE)
    chance = float(np.log(max(len(vectors), 1))), float(largest)
    rule = Rule(
        cut, ranks, likeness, gains, natural, smooth, chance, float(proven), closer, few
    )  # fmt: skip
    return rule, tried


def learn_reference(rule, judged, Y, trials, unseen=(), n_damaged=None):
    """Learn how damaged undamaged vectors look; returns a :class:`Reference`.

    Parameters
    ----------
    rule : Rule
    judged : Judged
        Of all training vectors Y.
    Y : ndarray of shape (n_vectors, n_features)
    trials : Trials
    unseen : iterable of (Judged, ndarray)
        Clean vectors judged by models without their kind, and these vectors.
    n_damaged : int, default=None
        Number of damaged training vectors, if it is known: those that gain most.
    """

    def strengths(judged, Y):
        part = judged.part(judged.gain > rule.cut)
        return np.array([*_strengths(known_of(part, Y[judged.gain > rule.cut])), part.likeness])

    damaged = rule.probabilities(judged, Y)[0] >= _SURELY
    if n_damaged is not None:
        damaged[:] = False
        damaged[np.argsort(-judged.gain, kind="stable")[:n_damaged]] = True
    own = strengths(judged.part(~damaged), Y[~damaged])
    others = [strengths(*each) for each in unseen]
    tried = strengths(trials.judged, trials.observed)
    return Reference.of(tried, np.hstack([own, *others]), int(np.sum(~damaged)))
