"""From a matrix to a model that judges any vector: select, certify, try, decide.

`learn_model` is the whole way; the :class:`CleanModel` that it returns examines training vectors by
folds that they did not shape, and others as new ones.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from unpermute.pmsdr._certify import Certifier, recover_as_told
from unpermute.pmsdr._decide import OUTPUTS, Rule, learn_reference, learn_rule
from unpermute.pmsdr._judge import (
    FULL,
    Judged,
    Membership,
    Mixture,
    as_they_stand,
    judge,
    repair,
    repair_further,
)
from unpermute.pmsdr._model import mean_outside
from unpermute.pmsdr._natural import natural_shares
from unpermute.pmsdr._profile import Profiles
from unpermute.pmsdr._put_back import Repaired
from unpermute.pmsdr._select import Selector
from unpermute.pmsdr._smooth import Neighbours
from unpermute.pmsdr._some_entries import VERY_LONG, SomeEntries, is_everywhere
from unpermute.pmsdr._trial_report import TrialReport, report_trials
from unpermute.pmsdr._trials import ALL_SHARES, noise_ratio, patterns_of, run_trials, scattered
from unpermute.pmsdr._unseen import judge_unseen
from unpermute.recover import entry_confidence

__all__ = ["CleanModel", "Judge", "decide_by_trials", "learn_model", "units_of"]

# Random starts of the EM for vectors that look damaged; trials get the same.
_STARTS = 12
# Trials that tell what repairs are worth, and first how many entries moved.
_TRIALS, _GLANCES = 300, 240
# Trials of long vectors cost most and hardly ever fail: so many entries are tried in all, but no
# fewer vectors; without a failure these allow a confidence of .995. Of very long ones that have to
# be tried as a whole, so many are.
_ENTRIES_TRIED, _FEWEST_TRIALS, _FEWEST_WHOLE = 150_000, 100, 40
# Probability of damage from which a vector is flagged.
_FLAGGED = 0.5
# Scale of a t distribution with 4 degrees of freedom that is fitted to normal noise of variance 1.
_NORMAL = 0.831
# Entries that lie so many times farther from 0 than they differ are judged from their median.
_FAR_OFF = 1e3


@dataclass(kw_only=True)
class Judge(ABC):
    """How vectors are judged and repaired, whatever proposes the repairs.

    Attributes
    ----------
    centre, unit : float
        Median of all entries, and typical size of what is left: vectors are judged in this unit.
    bases, offsets : list of ndarray
        Of the subspaces, one per component.
    cut : float
        Gain above which a vector looks damaged.
    loudest : float
        Largest noise ratio of a clean vector.
    noise_report : list of dict
        What a person may want to know of every component.
    rule : Rule or None
        None: too few trials look damaged to tell what repairs are worth.
    report : TrialReport
    judged : Judged or None
        The best repairs of the training vectors.
    """

    centre: float
    unit: float
    bases: list[np.ndarray]
    offsets: list[np.ndarray]
    cut: float
    loudest: float
    noise_report: list[dict]
    rule: Rule | None = None
    report: TrialReport = field(default_factory=TrialReport)
    judged: Judged | None = None

    def in_units(self, X):
        """Vectors in the unit of the model; a permutation changes both alike."""
        return (X - self.centre) / self.unit

    @abstractmethod
    def propose(self, Y, membership=None, *, n_jobs=None):
        """Best repairs of vectors in units of the model; returns a :class:`Judged`."""

    def glance(self, Y, membership, *, n_jobs=None):
        """Repairs that are looked for less hard."""
        return self.propose(Y, membership, n_jobs=n_jobs)

    def explain(self, Y, *, n_jobs=None):
        """Repairs of new vectors that tell whether they can be explained: without random starts."""
        return self.propose(Y, n_jobs=n_jobs)

    def margins(self, Y, judged, membership):
        """Margins of smoothness (:mod:`unpermute.pmsdr._smooth`); zeros if they are not known."""
        return np.zeros((len(Y), 2))

    def shortened(self):
        """What judges trials of very long vectors by some of their entries; None: by all."""
        return None

    def is_suspicious(self, judged, Y):
        """Vectors that gain by a repair, or have far more noise than clean ones."""
        return (judged.gain > self.cut) | (noise_ratio(judged, Y) > self.loudest)

    def is_explained(self, judged, Y):
        """Vectors that are like clean ones once they are repaired."""
        return (judged.gain > self.cut) & (noise_ratio(judged, Y, after=True) <= self.loudest)

    def enter(self, X, judged, output, min_confidence, *, flags=None, new=False):
        """Decide about proposals and write the result.

        `flags`: which are known to be damaged; `new`: the share of damaged vectors in the training
        matrix says nothing about these.
        """
        Y = self.in_units(X)
        probability, closer = self.probabilities(judged, Y, new=new)
        if flags is None:
            flags = probability >= _FLAGGED
        else:
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

    def probabilities(self, judged, Y, known=None, *, new=False):
        """Probability of damage, and of repairs being closer; zeros where trials could not tell."""
        if self.rule is None:
            return np.zeros(len(Y)), {name: np.zeros(len(Y)) for name in OUTPUTS}
        return self.rule.probabilities(judged, Y, known, new=new)

    def scores(self, X, *, n_jobs=None):
        """Minus the logarithm of what a repair gains, where it is not for nothing."""
        Y = self.in_units(X)
        judged = self.propose(Y, n_jobs=n_jobs)
        own = -np.log1p(np.maximum(judged.gain, 0.0))
        damaged = self.probabilities(judged, Y, new=True)[0] >= _FLAGGED
        return np.where(damaged, own, np.maximum(own, self.offset))

    @property
    def offset(self):
        """Score below which a vector looks damaged."""
        return -float(np.log1p(self.cut))

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


@dataclass(kw_only=True)
class CleanModel(Judge):
    """A mixture of clean vectors, and how to judge vectors by it.

    Attributes
    ----------
    mixture : Mixture
    certifier : Certifier
    profiles : Profiles
        Which values clean vectors hold.
    neighbours : Neighbours or None
        Which entries go together; None: too few vectors tell.
    recoverer : str or callable
        Whose answers count; "search": those of the EM and of the search, whichever is likelier.
    seed : int
    some : SomeEntries or None
        The entries by which trials of very long vectors are judged.
    """

    mixture: Mixture
    certifier: Certifier
    profiles: Profiles
    neighbours: Neighbours | None
    recoverer: Any = "search"
    seed: int = 0
    some: SomeEntries | None = None

    def propose(self, Y, membership=None, *, n_jobs=None):
        """Best repairs of vectors in units of the model; returns a :class:`Judged`."""
        membership = Membership.none(len(Y)) if membership is None else membership
        judged, rows = self._without_starts(Y, membership, n_jobs)
        self.work_harder(judged, Y, rows, membership, n_jobs=n_jobs)
        self.look_at_deviations(judged, Y, np.flatnonzero(judged.gain > self.cut), membership)
        return judged

    def explain(self, Y, *, n_jobs=None):
        """Repairs of new vectors, by the search and the EM without random starts."""
        return self._without_starts(Y, Membership.none(len(Y)), n_jobs)[0]

    def _without_starts(self, Y, membership, n_jobs):
        """Repairs, and the vectors that random starts might help: neither quiet nor certified."""
        judged, quiet = as_they_stand(Y, self.mixture, membership, n_jobs=n_jobs)
        rows = np.flatnonzero(~quiet)
        part = judged.part(rows)
        self.certifier.improve(part, Y[rows], membership[rows], n_jobs=n_jobs)
        judged.replace(rows, part)
        rows = rows[~part.certified]
        repair(judged, Y, rows, self.mixture, membership, FULL, n_jobs=n_jobs)
        return judged, rows

    def look_at_deviations(self, judged, Y, rows, membership):
        """Enter what tells odd vectors from shuffled ones, of vectors that gain more than the cut.

        How natural they are is entered of all the given rows.
        """
        odd = rows[judged.gain[rows] > self.cut]
        judged.likeness[odd] = self.profiles.likeness(Y[odd], membership.folds[odd])
        judged.margins[odd] = self.margins(Y[odd], judged.part(odd), membership[odd])
        mixture = self.mixture if self.some is None else self.some.mixture
        own = mixture, membership[rows], judged.component[rows]
        for shares, vectors in ((judged.natural, Y), (judged.natural_after, judged.values)):
            filled = np.where(np.isnan(vectors[rows]), judged.fitted[rows], vectors[rows])
            filled = filled if self.some is None else filled[:, self.some.columns]
            shares[rows] = natural_shares(filled, *own)

    def margins(self, Y, judged, membership):
        """Margins of smoothness, of the vectors as they stand and of their repairs."""
        if self.neighbours is None:
            return np.zeros((len(Y), 2))
        observed, repaired = (
            np.where(np.isnan(each), judged.fitted, each) for each in (Y, judged.values)
        )
        moved = judged.permutations != np.arange(Y.shape[1])
        return self.neighbours.margins(observed, repaired, moved, membership.folds)

    def shortened(self):
        """Judge by some entries, if these are many; a recoverer of the user's own sees all."""
        return None if self.some is None else replace(self, mixture=self.some.mixture, some=None)

    def glance(self, Y, membership, *, n_jobs=None):
        """Repairs by the EM from one start."""
        return judge(Y, self.mixture, membership, FULL, n_jobs=n_jobs)

    def work_harder(self, judged, Y, rows, membership, *, n_jobs=None):
        """Try random starts on those of some vectors that look damaged, or as the user told."""
        rows = rows[self.is_suspicious(judged.part(rows), Y[rows])]
        if len(rows) == 0:
            return
        options = {"seed": self.seed, "n_jobs": n_jobs}
        repair_further(judged, Y, rows, self.mixture, membership, _STARTS, **options)
        part, own = judged.part(rows), membership[rows]
        if isinstance(self.recoverer, str) and self.recoverer == "search":
            self.certifier.insist(part, Y[rows], own, n_jobs=n_jobs)
        else:
            recover_as_told(self.recoverer, self.certifier, part, Y[rows], own, n_jobs=n_jobs)
        judged.replace(rows, part)


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
    """
    centre, unit = units_of(X)
    Y = (X - centre) / unit
    selector = Selector(Y, given)
    selection = selector.select()
    if selection is None:
        return None
    mixture, members, n_jobs = selection.mixture, selection.membership, given.n_jobs
    certifier = Certifier(mixture, *_subspaces(selection, given.affine, 0.0), seed=given.seed)
    bases, offsets = _subspaces(selection, given.affine, centre / unit)
    judged, clean = selection.judged, selection.clean
    own = selector.filled[clean], members.folds[clean]
    profiles = Profiles.of(*own, seed=given.seed)
    # Trials of very long vectors see some entries only.
    neighbours = Neighbours.of(*own, seed=given.seed) if Y.shape[1] <= VERY_LONG else None
    model = CleanModel(
        centre=centre, unit=unit, bases=bases, offsets=[unit * offset for offset in offsets],
        cut=selection.cut, loudest=selection.loudest, judged=judged,
        noise_report=_noise_report(selection, unit), mixture=mixture, certifier=certifier,
        profiles=profiles, neighbours=neighbours, recoverer=given.recoverer, seed=given.seed,
    )  # fmt: skip
    if model.recoverer == "search":
        model.some = SomeEntries.of(mixture, seed=given.seed)
    damaged = np.flatnonzero(selection.damaged)
    seen = judged.part(damaged)  # as trials are seen at a glance
    _repair_suspicious(model, selection, selector.filled, Y, n_jobs)
    model.look_at_deviations(judged, Y, np.arange(len(Y)), members)
    decide_by_trials(
        model, Y, damaged, members, seen, min_confidence=min_confidence, rng=selector.rng,
        n_jobs=n_jobs, n_damaged=given.n_damaged,
        unseen=partial(_unseen, selector.filled, selection, given),
    )  # fmt: skip
    return model


def _unseen(X, selection, given):
    """Clean vectors judged without their kind, and these vectors."""
    clean, labels = X[selection.clean], selection.labels[selection.clean]
    options = {"seed": given.seed, "n_jobs": given.n_jobs}
    judged, rows = judge_unseen(clean, labels, selection.mixture, **options)
    return [(each, clean[own]) for each, own in zip(judged, rows, strict=True)]


def _repair_suspicious(model, selection, filled, Y, n_jobs):
    """Look harder for repairs of the training vectors that look damaged.

    Random starts are kept for those that the search does not certify at once. What it certifies
    improves the bases, and they certify more.
    """
    judged, certifier, members = model.judged, model.certifier, selection.membership
    rows = left = np.flatnonzero(model.is_suspicious(judged, Y))
    by_search = len(rows) > 0 and model.recoverer == "search"
    if by_search:
        part = judged.part(rows)
        certifier.pilot(part, Y[rows], members[rows], model.loudest, n_jobs)
        certifier.improve(part, Y[rows], members[rows], n_jobs=n_jobs)
        judged.replace(rows, part)
        left = rows[~part.certified]
    model.work_harder(judged, Y, left, members, n_jobs=n_jobs)
    if by_search and judged.certified[rows].any():
        part = judged.part(rows)
        _learn_from_certified(certifier, selection, filled, part)
        certifier.improve(part, Y[rows], members[rows], n_jobs=n_jobs)
        certifier.insist(part, Y[rows], members[rows], n_jobs=n_jobs)
        judged.replace(rows, part)


def decide_by_trials(
    model, Y, damaged, members, seen, *, min_confidence, rng, n_jobs=None, trials=_TRIALS,
    glances=_GLANCES, n_damaged=None, unseen=tuple,
):  # fmt: skip
    """Run trials; sets the rule and the report of the model.

    Parameters
    ----------
    model : Judge
        Its `judged` has the best repairs of the vectors.
    Y : ndarray of shape (n_vectors, n_features)
        In units of the model.
    damaged : ndarray of int
        Vectors that look damaged; all others that gain no more than the cut are taken for clean.
    members : Membership
        Of all vectors.
    seen : Judged
        The damaged ones, at a glance.
    min_confidence : float
    rng : numpy.random.Generator
    n_jobs : int, default=None
    trials, glances : int
        Trials that tell what repairs are worth, and first how many entries moved, at most.
    n_damaged : int, default=None
        Number of damaged vectors, if it is known.
    unseen : callable
        ``unseen()`` returns what :func:`learn_reference` needs to know of vectors of unseen kinds.
    """
    others = np.setdiff1d(np.arange(len(Y)), damaged)
    # One that looked clean, but gains as damaged ones do now that more was tried, is neither.
    quiet = others[model.judged.gain[others] <= model.cut]
    clean = quiet if len(quiet) else others
    vectors, own = Y[clean], members[clean]

    judge = model.shortened() or model
    most = _most_trials(Y.shape[1] if judge is model else len(model.some.columns))
    trials, glances = min(trials, most), min(glances, most)

    def run(judge, propose, patterns, count):
        some = vectors if judge is model else vectors[:, model.some.columns]
        tried = run_trials(
            some, partial(propose, n_jobs=n_jobs), own, patterns, count=count, rng=rng
        )
        return tried if judge is model else model.some.stretched(tried)

    wide = run(judge, judge.glance, scattered(ALL_SHARES), glances)
    patterns = patterns_of(seen, Y[damaged], wide, count=trials)
    if judge is not model and not all(map(is_everywhere, patterns)):
        # Some entries do not show it: all are shuffled, in fewer trials.
        judge, trials = model, min(trials, _FEWEST_WHOLE)
    tried = run(judge, judge.propose, patterns, trials)
    found = model.judged.part(damaged)
    judged = model.judged.part(clean)
    whole = judge.margins(tried.truth, tried.judged, tried.membership)[:, 0]
    model.rule, known = learn_rule(found, Y[damaged], model.cut, judged, vectors, tried, whole)
    if model.rule is not None:
        reference = learn_reference(model.rule, model.judged, Y, tried, unseen(), n_damaged)
        model.rule = replace(model.rule, reference=reference)
    model.report = report_trials(model, tried, known, min_confidence)
    model.report.n_suspicious = len(damaged)


def _most_trials(n_entries):
    return max(_ENTRIES_TRIED // n_entries, _FEWEST_TRIALS)


def units_of(X):
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


def _learn_from_certified(certifier, selection, X, part):
    """Certified vectors are as good as clean ones: clean ones alone may leave the bases loose."""
    certified = part.certified & ~np.isnan(part.values).any(axis=1)
    vectors = np.vstack([X[selection.clean], part.values[certified]])
    labels = np.r_[selection.labels[selection.clean], part.component[certified]]
    certifier.learn(vectors, labels)


def _subspaces(selection, affine, shift):
    """Orthonormal bases and offsets of the components, with their means moved by `shift`."""
    bases, offsets = [], []
    sizes = np.bincount(selection.labels[selection.clean], minlength=1)
    for component, size in zip(selection.mixture.components, sizes, strict=True):
        directions = component.directions[-1].astype(float)
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


def _noise_report(selection, unit):
    report = []
    for k, component in enumerate(selection.mixture.components):
        typical = np.sqrt(component.noise) * unit / _NORMAL
        spread = typical * np.sqrt(component.entry_noise)
        report.append(
            {
                "rank": component.rank,
                "n_vectors": int(np.sum(selection.labels == k)),
                "noise": float(typical),
                "smallest_of_an_entry": float(spread.min()),
                "largest_of_an_entry": float(spread.max()),
            }
        )
    return report
