r"""Few long vectors, as the columns of tables: the clean ones explain the others.

Where there are fewer vectors than a mixture can be learned from, each is regressed on all the
others: a vector with moved entries is a mixture of entries that fit well and entries from anywhere
(:mod:`unpermute.numerics.mixture_regression`). How much better that explains it than heavy tails
alone, as a log-likelihood ratio, is its gain. The vectors without it are the peers of all others;
every one of them is shuffled many times, and judged by the rest.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from unpermute.numerics.mixture_regression import directions_of, fit_mixtures
from unpermute.numerics.parallel import map_blocks
from unpermute.numerics.permutations import match_values
from unpermute.pmsdr._clean_model import Judge, decide_by_trials, units_of
from unpermute.pmsdr._decide import WEAK
from unpermute.pmsdr._judge import Judged, Membership

__all__ = ["Peers", "learn_from_peers"]

# Log-likelihood ratio up to which a vector is clean.
_NO_DAMAGE = 10.0
# Log-likelihood ratio at which a vector is damaged as likely as not.
_SURELY = 20.0
# Probability where it cannot be told, and share of the vectors that look damaged from which that is
# so: they may as well be the clean ones, of another kind.
_EVEN, _TOO_MANY = 0.5, 0.4
# Trials; a regression takes longer than the EM of the model.
_TRIALS, _GLANCES = 100, 48


@dataclass(kw_only=True)
class Peers(Judge):
    """Vectors that seem clean, by which others are judged.

    Attributes
    ----------
    peers : ndarray of shape (n_peers, n_features)
        In units of the model.
    undecided : bool
        So many vectors look damaged that it cannot be told which side is right.
    of_weak : float
        Probability of damage where the repair is weaker than nearly all trials.
    """

    peers: np.ndarray
    undecided: bool = False
    of_weak: float = _EVEN

    def propose(self, Y, membership=None, *, n_jobs=None):
        """Regress vectors on the peers, without the one that they are; returns a `Judged`."""
        membership = Membership.none(len(Y)) if membership is None else membership
        nothing = np.zeros(len(Y), dtype=np.int64)
        judged = Judged.untouched(Y, nothing, np.zeros(len(Y)), np.ones(len(Y)))
        for own in np.unique(membership.labels):
            rows = np.flatnonzero(membership.labels == own)
            others = self.peers if own < 0 else np.delete(self.peers, own, axis=0)
            judged.replace(rows, _explain(Y[rows], judged.part(rows), others, n_jobs))
        return judged

    def probabilities(self, judged, Y, known=None, *, new=False):
        """Probability that vectors are damaged, and that repairs of damaged ones are closer.

        Few vectors differ too much to be compared with each other: whether one is damaged its own
        likelihood ratios say, against "no entry has moved" and against "every one has", for a
        vector that has nothing to do with the others looks like that. One of another kind has large
        ratios, too, but its repair helps less than nearly all trials. What a repair is worth the
        trials say.
        """
        damage, closer = super().probabilities(judged, Y, known, new=new)
        if self.rule is not None:
            damage = expit(np.minimum(judged.gain, judged.likelihood) - _SURELY)
            rows = np.flatnonzero(damage > _EVEN)
            damage[rows[self.rule.is_weak(judged.part(rows), Y[rows])]] = self.of_weak
        return np.minimum(damage, _EVEN) if self.undecided else damage, closer

    def count_weak(self, judged, Y):
        """Learn how many of the vectors whose repair is weak are damaged.

        Of damaged ones, few are expected to be weak; all beyond that are of another kind.
        """
        if self.rule is not None:
            rows = np.flatnonzero(np.minimum(judged.gain, judged.likelihood) > _SURELY)
            found = np.sum(self.rule.is_weak(judged.part(rows), Y[rows]))
            self.of_weak = min(WEAK * len(rows) / max(found, 1), _EVEN)


def _explain(Y, judged, peers, n_jobs):
    """Enter what a regression on peers says of vectors."""
    fit = fit_mixtures(Y, *directions_of(peers), n_jobs=n_jobs)
    # Something must have been found: else the best guess of an entry is the mean.
    found = expit(fit.evidence)[:, None]
    mean = np.nanmean(Y, axis=1, keepdims=True)
    judged.fitted[:] = found * fit.predicted + (1.0 - found) * mean
    judged.staying[:] = found * fit.weights
    judged.share[:] = 1.0 - fit.share
    judged.noise[:] = judged.noise_after[:] = fit.noise**2
    judged.variance[:] = (fit.noise**2)[:, None]
    judged.gain[:], judged.likelihood[:] = fit.damage, fit.evidence
    staying, error = judged.staying, np.nan_to_num(Y - judged.fitted)
    judged.blend[:] = judged.fitted + staying * (Y - judged.fitted)
    judged.doubt[:] = (1.0 - staying) * (staying * error**2 + judged.variance)
    target = np.where(np.isnan(Y), judged.fitted, judged.blend)
    judged.permutations[:], _ = match_values(Y, target, noise_scale=fit.noise, n_jobs=n_jobs)
    judged.move_values(Y)
    return judged


def learn_from_peers(X, given, *, min_confidence):
    """Find the peers, and what repairs by them are worth.

    Parameters
    ----------
    X : ndarray of shape (n_vectors, n_features)
        Vectors whose entries are not all equal; NaN where missing.
    given : Given
    min_confidence : float

    Returns
    -------
    model : Peers or None
        None if fewer than three vectors seem clean.
    """
    centre, unit = units_of(X)
    Y = (X - centre) / unit
    means = np.nanmean(Y, axis=1, keepdims=True)
    filled = np.where(np.isnan(Y), means, Y)
    damage = _damage(Y, filled, given.n_jobs)
    clean = damage <= _NO_DAMAGE
    if given.contamination != "auto":
        clean = damage <= np.sort(damage)[-1 - int(given.contamination)]
    if clean.sum() < 3:
        return None
    labels = np.full(len(Y), -1)
    labels[clean] = np.arange(clean.sum())
    members = Membership(labels, labels)
    directions = np.linalg.qr(directions_of(filled[clean])[0])[0]
    model = Peers(
        centre=centre, unit=unit, bases=[directions], offsets=[np.zeros(X.shape[1])],
        cut=_NO_DAMAGE, loudest=np.inf, noise_report=[], peers=filled[clean],
        undecided=bool(np.mean(~clean) >= _TOO_MANY),
    )  # fmt: skip
    model.judged = judged = model.propose(Y, members, n_jobs=given.n_jobs)
    model.noise_report.append(
        {
            "rank": directions.shape[1],
            "n_vectors": int(clean.sum()),
            "noise": float(np.sqrt(np.median(judged.noise[clean])) * unit),
        }
    )
    decide_by_trials(
        model, Y, np.flatnonzero(~clean), members, judged.part(~clean),
        min_confidence=min_confidence, rng=np.random.default_rng(given.seed), n_jobs=given.n_jobs,
        trials=_TRIALS, glances=_GLANCES,
    )  # fmt: skip
    model.count_weak(judged, Y)
    return model


def _damage(Y, filled, n_jobs):
    """Judge every vector by all others: even permuted ones are of use to each other."""
    damage = np.empty(len(Y))

    def judge(start, stop):
        for j in range(start, stop):
            others = directions_of(np.delete(filled, j, axis=0))
            damage[j] = fit_mixtures(Y[[j]], *others).damage[0]

    map_blocks(judge, len(Y), block=1, stage="judge", n_jobs=n_jobs)
    return damage
