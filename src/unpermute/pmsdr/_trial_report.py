"""What the trials of a fit say, for a person to read."""

from collections import Counter
from dataclasses import dataclass, field
from html import escape

import numpy as np

from unpermute._words import counted
from unpermute.pmsdr._decide import OUTPUTS

__all__ = ["TrialReport", "report_trials"]

_BINS = 10


@dataclass
class TrialReport:
    """How the confidence was measured.

    Attributes
    ----------
    n_trials : int
        Clean vectors that were shuffled and repaired.
    patterns : dict of str to int
        How they were shuffled.
    found : float
        Share of them that looked damaged.
    closer : dict of str to float
        Share of those found whose repair was closer to the truth, for every output.
    sure : dict of str to float
        Share of those found whose confidence reached `min_confidence`.
    removed : dict of str to float
        Share of the squared error of all trials that the repairs with that confidence remove.
    n_suspicious : int
        Vectors of the matrix that look damaged by their gain alone.
    reliability : list of tuple (confidence, share closer, number)
        Of the trials with output "values", in bins of the confidence.
    abstained : bool
        Whether vectors look damaged but none was changed, or no model was found.
    reason : str
        Why, in a sentence; empty if it did not abstain.
    """

    n_trials: int = 0
    patterns: dict[str, int] = field(default_factory=dict)
    found: float = float("nan")
    closer: dict[str, float] = field(default_factory=dict)
    sure: dict[str, float] = field(default_factory=dict)
    removed: dict[str, float] = field(default_factory=dict)
    n_suspicious: int = 0
    reliability: list[tuple[float, float, int]] = field(default_factory=list)
    abstained: bool = False
    reason: str = ""

    def __repr__(self):
        if self.n_trials == 0:
            return "TrialReport: no trials"
        closer = [
            f"; {name}: {share:.1%} closer to the truth" for name, share in self.closer.items()
        ]
        told = f"{counted(self.n_trials, 'trial')}, {self.found:.0%} found"
        return f"TrialReport: {told}{''.join(closer[:1])}"

    def __str__(self):
        lines = [
            self._sentence(),
            *(
                f"{name}: {self.closer[name]:.1%} of those found were closer to the truth after"
                f" the repair; {self.sure[name]:.1%} reached the minimum confidence."
                for name in self.closer
            ),
        ]
        return "\n".join(lines + ([self.reason] if self.n_trials and self.reason else []))

    def _repr_html_(self):
        """Return the trials as a table for a notebook."""
        heads = ("Output", "Closer to the truth", "Sure", "Error removed")
        rows = [
            f"<tr><th>{name}</th>"
            + "".join(
                f"<td>{each[name]:.1%}</td>" for each in (self.closer, self.sure, self.removed)
            )
            for name in self.closer
        ]
        head = "".join(f"<th>{each}</th>" for each in heads)
        table = f"<table><tr>{head}</tr>{'</tr>'.join(rows)}</tr></table>" if rows else ""
        reason = f"<p>{escape(self.reason)}</p>" if self.n_trials and self.reason else ""
        return f"<p>{escape(self._sentence())}</p>{table}{reason}"

    def _sentence(self):
        if self.n_trials == 0:
            return self.reason or "No vector looks shuffled, so no trials were run."
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in self.patterns.items())
        vectors = counted(self.n_trials, "clean vector")
        return f"{vectors} shuffled ({kinds}); {self.found:.0%} were found."


def report_trials(judge, trials, known, min_confidence):
    """Sum up the trials of a judge, whose rule may be None; `known`: see :func:`learn_rule`."""
    kinds = Counter(pattern.kind for pattern in trials.patterns)
    report = TrialReport(n_trials=len(trials.rows), patterns=dict(kinds))
    found = trials.judged.gain > judge.cut
    report.found = float(found.mean())
    if judge.rule is None:
        return report
    before, *after = trials.squared_errors()
    damage, chance = judge.probabilities(trials.judged, trials.observed, known)
    for name, errors in zip(OUTPUTS, after, strict=True):
        closer, sure = (errors < before)[found], (damage * chance[name])[found]
        report.closer[name] = float(closer.mean())
        report.sure[name] = float(np.mean(sure >= min_confidence))
        saved = (before - errors)[found][sure >= min_confidence]
        report.removed[name] = float(saved.sum() / max(before.sum(), 1e-300))
        if name == "values":
            report.reliability = _bins(sure, closer)
    return report


def _bins(confidence, closer):
    """Mean confidence, share of successes and number in every bin that is not empty."""
    places = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    bins = []
    for place in np.unique(places):
        own = places == place
        bins.append((float(confidence[own].mean()), float(closer[own].mean()), int(own.sum())))
    return bins
