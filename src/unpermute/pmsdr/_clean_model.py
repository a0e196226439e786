"""From a matrix to a model that judges any vector: select, certify, try, decide.

`learn_model` is the whole way; the :class:`CleanModel` that it returns examines training vectors by
folds that they did not shape, and others as new ones, with one rule for both.
"""

from dataclasses import dataclass, replace

import numpy as np

from unpermute.pmsdr._certify import Certifier
from unpermute.pmsdr._decide import OUTPUTS, Rule, learn_rule
from unpermute.pmsdr._judge import FULL, Membership, Mixture, judge
from unpermute.pmsdr._put_back import Repaired
from unpermute.pmsdr._select import Selector
from unpermute.pmsdr._trial_report import TrialReport, report_trials
from unpermute.pmsdr._trials import ALL_SHARES, noise_ratio, patterns_of, run_trials, scattered
from unpermute.recover import entry_confidence

__all__ = ["FAR_AWAY", "CleanModel", "learn_model", "mean_outside"]

# Random starts of the EM for vectors that look damaged; trials get the same.
_EFFORT = replace(FULL, starts=12)
_TRIALS = 300
# Trials that tell how many entries moved.
_GLANCES = 240
# Probability of damage from which a vector is flagged.
_FLAGGED = 0.5
# Scale of a t distribution with 4 degrees of freedom that is fitted to normal noise of variance 1.
_NORMAL = 0.831
# Vectors so many times larger than most are not judged.
FAR_AWAY = 1e4
# Entries that lie so many times farther from 0 than they differ are judged from their median.
_FAR_OFF = 1e3
# A mean that leaves the directions by more than this many times what noise explains is one of them.
_OUTSIDE = 4.0


@dataclass
class CleanModel:
    """A mixture of clean vectors, and how to judge vectors by it.

    Attributes
    ----------
    centre, unit : float
        Median of all entries, and typical size of what is left: vectors are judged in this unit.
    mixture : Mixture
    bases, offsets : list of ndarray
        Of the subspaces, one per component.
    certifier : Certifier
    rule : Rule or None
        None: too few trials look damaged to tell what repairs are worth.
    cut : float
        Gain above which a vector looks damaged.
    loudest : float
        Largest noise ratio of a clean vector.
    members : Membership
        Of the vectors that it was fitted to.
    seed : int
    report : TrialReport
    """

    centre: float
    unit: float
    mixture: Mixture
    bases: list[np.ndarray]
    offsets: list[np.ndarray]
    certifier: Certifier
    cut: float
    loudest: float
    members: Membership
    seed: int
    rule: Rule | None = None
    report: TrialReport | None = None

    def in_units(self, X):
        """Vectors in the unit of the model; a permutation changes both alike."""
        return (X - self.centre) / self.unit

    def is_near(self, X):
        """Vectors that are not far larger than those of the fit; the others are not judged."""
        with np.errstate(over="ignore"):
            sizes = np.abs(self.in_units(X))
        return np.max(sizes, axis=1, where=~np.isnan(sizes), initial=0.0) <= FAR_AWAY

    def propose(self, Y, membership=None, *, n_jobs=None):
        """Best repairs of vectors in units of the model; returns a :class:`Judged`."""
        membership = Membership.none(len(Y)) if membership is None else membership
        judged = judge(Y, self.mixture, membership, FULL, n_jobs=n_jobs)
        rows = np.flatnonzero(self.is_suspicious(judged, Y))
        self.work_harder(judged, Y, rows, membership, n_jobs)
        return judged

    def is_suspicious(self, judged, Y):
        """Vectors that gain by a repair, or have far more noise than clean ones."""
        return (judged.gain > self.cut) | (noise_ratio(judged, Y) > self.loudest)

    def work_harder(self, judged, Y, rows, membership, n_jobs):
        """Try the search, and random starts where it certifies nothing, on some vectors."""
        part, members = judged.part(rows), membership[rows]
        self.certifier.improve(part, Y[rows], members, n_jobs=n_jobs)
        left = np.flatnonzero(~part.certified)
        if len(left) > 0:
            options = {"seed": self.seed, "n_jobs": n_jobs}
            again = judge(Y[rows[left]], self.mixture, members[left], _EFFORT, **options)
            part.replace(left, again)
        judged.replace(rows, part)

    def enter(self, X, judged, output, min_confidence, *, seen=True, count=None):
        """Decide about proposals and write the result."""
        Y = self.in_units(X)
        probability, closer = self._probabilities(judged, Y, seen=seen)
        flags = probability >= _FLAGGED
        if count is not None:  # the user knows how many are damaged
            flags = _likeliest(judged, count)
            probability = flags.astype(float)
        repaired = Repaired.untouched(X, np.where(flags, judged.component, judged.nearest))
        repaired.damage_probability[:] = probability
        repaired.odd[:] = flags | self.is_suspicious(judged, Y)
        rows = np.flatnonzero(flags)
        confidence = {name: probability[rows] * own[rows] for name, own in closer.items()}
        repaired.confidence[:] = 1.0 - probability
        repaired.confidence[rows] = confidence[output]
        certain = confidence[output] >= min_confidence
        repaired.status[rows] = np.where(certain, "recovered", "uncertain")
        repaired.certified[rows] = judged.certified[rows]
        repaired.expected_error[rows] = self._expected_error(judged, Y, rows, output)
        changed = rows[certain]
        repaired.permutations[changed] = judged.permutations[changed]
        repaired.entry_confidence[rows] = entry_confidence(
            Y[rows], judged.fitted[rows], judged.permutations[rows].astype(np.int64),
            confidence[output], np.sqrt(judged.noise_after[rows]),
        )  # fmt: skip
        proposals = self._proposals(X, judged, rows, confidence)
        written = changed if output != "subspace" else rows
        repaired.X[written] = proposals[output][np.searchsorted(rows, written)]
        return repaired, proposals

    def _probabilities(self, judged, Y, *, seen):
        """Probability of damage, and of repairs being closer; zeros where trials could not tell."""
        if self.rule is None:
            return np.zeros(len(Y)), {name: np.zeros(len(Y)) for name in OUTPUTS}
        return self.rule.probabilities(judged, Y, seen=seen)

    def is_damaged(self, judged, Y):
        """Which vectors are flagged."""
        return self._probabilities(judged, Y, seen=False)[0] >= _FLAGGED

    def noise_report(self):
        """What a person may want to know of every component."""
        report = []
        for k, component in enumerate(self.mixture.components):
            typical = np.sqrt(component.noise) * self.unit / _NORMAL
            spread = typical * np.sqrt(component.entry_noise)
            report.append(
                {
                    "rank": component.rank,
                    "n_vectors": int(np.sum(self.members.labels == k)),
                    "noise": float(typical),
                    "smallest_of_an_entry": float(spread.min()),
                    "largest_of_an_entry": float(spread.max()),
                }
            )
        return report

    def estimates(self, X, judged, flags):
        """Vectors as they probably were; missing entries as predicted."""
        Y = self.in_units(X)
        certified = judged.certified[:, None]
        repaired = np.where(certified, judged.values, judged.blend)
        Y = np.where(flags[:, None], repaired, Y)
        return np.where(np.isnan(Y), judged.fitted, Y) * self.unit + self.centre

    def _proposals(self, X, judged, rows, confidence):
        """What every flagged vector would become."""
        orders = judged.permutations[rows].astype(np.int64)
        made = {
            "rows": rows,
            "values": np.take_along_axis(X[rows], orders, axis=1),
            "blend": judged.blend[rows] * self.unit + self.centre,
            "subspace": judged.fitted[rows] * self.unit + self.centre,
        }
        return made | {f"confidence_{name}": confidence[name] for name in OUTPUTS}

    def _expected_error(self, judged, Y, rows, output):
        """Expected relative error of what is proposed."""
        _, values, blend = judged.part(rows).expected_squares(Y[rows])
        squares = values if output == "values" else blend
        lengths = np.sqrt(np.nansum((Y[rows] + self.centre / self.unit) ** 2, axis=1))
        return np.sqrt(squares) / np.maximum(lengths, 1e-300)


def learn_model(X, given, *, min_confidence):
    """Learn the model of clean vectors of a matrix.

    Parameters
    ----------
    X : ndarray of shape (n_vectors, n_features)
        Vectors whose entries are not all equal; NaN where missing.
    given : Given
    min_confidence : float
        Confidence from which repairs are made.

    Returns
    -------
    model : CleanModel or None
        None if no majority of vectors fits together.
    judged : Judged
        The best repairs of these vectors.
    """
    centre, unit = _centre_and_unit(X)
    Y = (X - centre) / unit
    affine, seed, n_jobs = given.affine, given.seed, given.n_jobs
    selector = Selector(Y, given)
    selection = selector.select()
    if selection is None:
        return None, None
    certifier = Certifier(selection.mixture, *_subspaces(selection, affine, 0.0), seed=seed)
    bases, offsets = _subspaces(selection, affine, centre / unit)
    model = CleanModel(
        centre, unit, selection.mixture, bases, [unit * offset for offset in offsets], certifier,
        selection.cut, selection.loudest, selection.membership, seed,
    )  # fmt: skip
    judged = selection.judged
    seen, rows = judged.part(np.arange(len(Y))), np.flatnonzero(model.is_suspicious(judged, Y))
    model.work_harder(judged, Y, rows, selection.membership, n_jobs)
    if len(rows) > 0:
        part, members = judged.part(rows), selection.membership[rows]
        certifier.pilot(part, Y[rows], members, n_jobs)
        certifier.improve(part, Y[rows], members, n_jobs=n_jobs)
        if part.certified.any():
            _learn_from_certified(certifier, selection, selector.filled, part)
            certifier.improve(part, Y[rows], members, n_jobs=n_jobs)
        judged.replace(rows, part)
    rows = np.flatnonzero(selection.damaged)
    seen = seen.part(rows)
    _learn_rule(model, selection, Y, rows, seen, min_confidence, selector.rng, n_jobs)
    return model, judged


def _learn_from_certified(certifier, selection, X, part):
    """Certified vectors are as good as clean ones: clean ones alone may leave the bases loose."""
    certified = part.certified & ~np.isnan(part.values).any(axis=1)
    vectors = np.vstack([X[selection.clean], part.values[certified]])
    labels = np.r_[selection.labels[selection.clean], part.component[certified]]
    certifier.learn(vectors, labels)


def _centre_and_unit(X):
    """Median of all entries, if these are far off, and the typical size of the rest.

    Products in float32 would lose what differs between entries that are all nearly equal.
    """
    largest = float(np.nanmax(np.abs(X))) or 1.0
    Y = X / largest
    centre = float(np.nanmedian(Y))
    sizes = np.sqrt(np.nanmean((Y - centre) ** 2, axis=1))
    if abs(centre) < _FAR_OFF * np.median(sizes):
        centre, sizes = 0.0, np.sqrt(np.nanmean(Y**2, axis=1))
    return centre * largest, max(float(np.median(sizes)) * largest, 1e-300)


def _learn_rule(model, selection, Y, rows, seen, min_confidence, rng, n_jobs):
    """Run trials; sets the rule and the report of the model."""
    clean = np.flatnonzero(~selection.damaged)
    members, vectors = selection.membership[clean], Y[clean]

    def propose(Y, membership):
        return model.propose(Y, membership, n_jobs=n_jobs)

    def glance(Y, membership):
        return judge(Y, model.mixture, membership, FULL, n_jobs=n_jobs)

    wide = run_trials(vectors, glance, members, scattered(ALL_SHARES), count=_GLANCES, rng=rng)
    patterns = patterns_of(seen, Y[rows], wide, count=_TRIALS)

    trials = run_trials(vectors, propose, members, patterns, count=_TRIALS, rng=rng)
    gains = selection.judged.gain[clean]
    model.rule = learn_rule(selection.judged.part(rows), Y[rows], model.cut, gains, trials)
    model.report = report_trials(model.rule, model.cut, trials, min_confidence)
    model.report.n_suspicious = len(rows)


def _subspaces(selection, affine, shift):
    """Orthonormal bases and offsets of the components, with their means moved by `shift`."""
    bases, offsets = [], []
    sizes = np.bincount(selection.labels[selection.clean], minlength=1)
    for component, size in zip(selection.mixture.components, sizes, strict=True):
        directions = component.whole.directions[0].astype(float)
        outside, is_direction = mean_outside(component, size, shift)
        if affine:
            bases.append(np.linalg.qr(directions.T)[0])
            offsets.append(outside)
            continue
        if is_direction:
            directions = np.vstack([directions, outside / np.linalg.norm(outside)])
        bases.append(np.linalg.qr(directions.T)[0])
        offsets.append(np.zeros(len(outside)))
    return bases, offsets


def mean_outside(component, size, shift=0.0):
    """What of the mean, moved by `shift`, leaves the directions, and whether noise explains it not.

    A linear subspace has it as one more direction.
    """
    directions, mean = component.whole.directions[0].astype(float), component.whole.mean[0, 0]
    mean = mean + shift
    outside = mean - directions.T @ (directions @ mean)
    explained = component.noise * len(mean) / max(size, 1)
    return outside, np.sum(outside**2) > _OUTSIDE * explained and component.rank < len(mean)


def _likeliest(judged, count):
    """The `count` vectors with the largest gains; without any, the least likely as they stand."""
    flags = np.zeros(len(judged.gain), dtype=bool)
    if count > 0:
        flags[np.lexsort((-judged.observed, np.maximum(judged.gain, 0.0)))[-count:]] = True
    return flags
