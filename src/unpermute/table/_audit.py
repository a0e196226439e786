"""How much of a permutation-anonymised release can be undone.

The attacker holds the release and knows which columns were shuffled, but neither the share of the
rows that moved nor which. He links the shuffled columns with the others
(:mod:`unpermute.columns`). The audit shuffles the columns itself, several times, or takes a
release and the original. It counts by value: a row is re-linked if the values that belong there are
back. Rows whose values are not unique cannot be told apart, and are counted apart.

He learns how the columns depend on each other from rows in place. Where hardly any is, he is weak,
and what he finds is no all-clear; then a stronger one is tried as well, who knows the dependence
from elsewhere (here: from the original) and links all rows.

Two yardsticks: the *baseline* guesses from the marginals, that is, deals the rows that the attacker
moves at random; the *control* attacks the same table after its columns have been drawn
independently, so that whatever it finds is not in the data.
"""

import time
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from scipy.stats import beta, t
from sklearn.utils import check_random_state

from unpermute._progress import report, show_progress
from unpermute.columns import link_group, link_known_rows, standard_views
from unpermute.table._numbers import check_names, open_frame, read_numbers

__all__ = ["AuditResult", "audit"]

_CONFIDENT = 0.95
_LEVEL = 0.95
_MEASURES = (
    "rows re-linked", "confident links right", "cells within tolerance", "rows with ties",
    "rows re-linked, dependence known",
)  # fmt: skip
# Number of trials of the control, which only shows what is found by chance; and shuffled share from
# which on too few rows are in place to learn from.
_CONTROLS, _WEAK_ATTACKER = 5, 0.9


_COARSEN = (
    "Drop or coarsen the released columns that predict the shuffled ones, or add noise to them:"
    " a shuffle does not hide what other columns tell."
)


@dataclass(frozen=True)
class AuditResult:
    """What an attacker would get back.

    Attributes
    ----------
    table : data frame
        One line per ``measure``: its ``value``, the 95% interval from ``low`` to ``high`` over the
        trials, the same by guessing (``baseline``) and without any link in the data (``control``).
    summary : dict
        ``sentence``, the figures and the settings.
    advice : list of str
        Which mitigations would help.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from unpermute.table import audit
    >>> result = audit(load_wine(as_frame=True).data, ["alcohol"], n_trials=2)
    >>> result.table["measure"].tolist()[:2]
    ['rows re-linked', 'confident links right']
    """

    table: Any
    summary: dict[str, Any]
    advice: list[str]

    def __repr__(self):
        return f"AuditResult: {self.summary['sentence']}"


def audit(
    frame, columns, *, release=None, together=False, ratio=0.5, id=None, n_trials=20,
    tolerance=0.05, random_state=0, n_jobs=None, max_seconds=None, verbose=0,
):  # fmt: skip
    """Say how much of a release with shuffled columns can be undone.

    Parameters
    ----------
    frame : pandas, polars or pyarrow data frame
        The original table.
    columns : list of str
        Columns that are shuffled before the release.
    release : data frame, default=None
        The release, with the same rows but for the shuffled columns. None: the audit shuffles.
    together : bool, default=False
        Whether the columns are shuffled together, with one permutation, or each with its own.
    ratio : float in (0, 1], default=0.5
        Share of the rows that are shuffled. The attacker does not know it.
    id : str, default=None
        Column that names the rows; it is not used by the attacker.
    n_trials : int, default=20
        How often to shuffle and attack.
    tolerance : float, default=0.05
        A cell is recovered if it is within this many standard deviations of its column.
    random_state : int, default=0
        Seed; the same seed gives the same answer.
    n_jobs : int, default=None
        Unused: one attack takes about a second.
    max_seconds : float, default=None
        Time after which no other trial begins; ``summary["settings"]["n_trials"]`` says how many
        there were. None: all of them.
    verbose : int, default=0
        Above 0, a progress bar is drawn in a terminal or notebook.

    Returns
    -------
    AuditResult
        Figures with intervals, a sentence, and advice.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.datasets import load_iris
    >>> from unpermute.table import audit
    >>> iris = load_iris(as_frame=True).data
    >>> iris["petal area (cm2)"] = iris["petal length (cm)"] * iris["petal width (cm)"]
    >>> result = audit(iris, ["petal area (cm2)"], n_trials=3)
    >>> result.table["measure"].to_list()[0], bool(result.table["value"].iloc[0] > 0.3)
    ('rows re-linked', True)
    """
    opened = open_frame(frame)
    _check(columns, ratio, n_trials, tolerance, opened, id, max_seconds)
    clock = _Clock(max_seconds)
    original = read_numbers(opened, exclude=[id] if id is not None else [])
    missing = [name for name in columns if name not in original.names]
    if missing:
        raise ValueError(f"columns={missing[0]!r} does not hold numbers; it cannot be audited.")
    shuffled = [original.names.index(name) for name in columns]
    if len(shuffled) == len(original.names):
        raise ValueError("columns names every numeric column; the attacker needs others to link.")
    groups = [shuffled] if together else [[j] for j in shuffled]
    rng = check_random_state(random_state)
    with show_progress(verbose):
        if release is not None:
            released = open_frame(release, "release")
            check_names(original.names, released, "release")
            other = read_numbers(released, columns=original.names)
            ratio = _check_release(original, other, shuffled)
            weak = ratio >= _WEAK_ATTACKER
            trials = [_attack(original.values, other.values, groups, tolerance, weak)]
        else:
            trials = _trials(original.values, groups, ratio, n_trials, tolerance, rng, clock)
        loosened = original.values.copy()
        for j in range(loosened.shape[1]):
            loosened[:, j] = rng.permutation(loosened[:, j])
        n_controls = min(n_trials, _CONTROLS)
        control = _trials(loosened, groups, ratio, n_controls, tolerance, rng, clock, "control")
    options = dict(together=together, ratio=ratio, n_trials=len(trials), tolerance=tolerance)
    return _result(opened, columns, trials, control, options)


def _check_release(original, release, shuffled):
    """Refuse a release of other rows; return the share of the rows that were shuffled."""
    if len(release.values) != len(original.values):
        raise ValueError(
            f"release has {len(release.values)} rows, but the table has {len(original.values)};"
            " they must be the same ones."
        )
    kept = np.setdiff1d(np.arange(len(original.names)), shuffled)
    if not _equal(original.values[:, kept], release.values[:, kept]).all():
        raise ValueError(
            "release differs from the table in columns that are not named in columns; its rows must"
            " be in the same order."
        )
    moved = ~_equal(original.values[:, shuffled], release.values[:, shuffled])
    return max(float(moved.mean()), 1.0 / len(moved))


class _Clock:
    """Says when the time is up; a fifth of it is kept for the control."""

    def __init__(self, max_seconds):
        self.start, self.limit = time.monotonic(), max_seconds

    def is_up(self, stage):
        share = 0.8 if stage == "attack" else 1.0
        return self.limit is not None and time.monotonic() - self.start > share * self.limit


def _check(columns, ratio, n_trials, tolerance, frame, id, max_seconds):
    if isinstance(columns, str) or not len(columns):
        raise ValueError(f"columns={columns!r} must be a list of at least one column.")
    check_names(columns, frame, "columns")
    check_names(id, frame, "id")
    if len(set(columns)) < len(columns):
        raise ValueError(f"columns={list(columns)!r} names a column twice.")
    if not isinstance(ratio, Real) or not 0 < float(ratio) <= 1:
        raise ValueError(f"ratio={ratio!r} must be above 0 and at most 1.")
    if not isinstance(n_trials, Integral) or n_trials < 1:
        raise ValueError(f"n_trials={n_trials!r} must be an integer of at least 1.")
    if not isinstance(tolerance, Real) or float(tolerance) < 0:
        raise ValueError(f"tolerance={tolerance!r} must not be negative.")
    if max_seconds is not None and not (isinstance(max_seconds, Real) and float(max_seconds) > 0):
        raise ValueError(f"max_seconds={max_seconds!r} must be None or a number above 0.")


@dataclass(frozen=True)
class _Trial:
    """Counts of one attack: for every measure how many, of how many; and by guessing."""

    right: np.ndarray
    of: np.ndarray
    guessed: np.ndarray


def _trials(values, groups, ratio, n_trials, tolerance, rng, clock, stage="attack"):
    trials: list[_Trial] = []
    for trial in range(n_trials):
        if trials and clock.is_up(stage):
            break
        released = values.copy()
        for group in groups:
            rows = rng.choice(len(values), max(2, round(ratio * len(values))), replace=False)
            released[np.ix_(rows, group)] = values[np.ix_(rng.permutation(rows), group)]
        trials.append(_attack(values, released, groups, tolerance, ratio >= _WEAK_ATTACKER))
        report(stage, trial + 1, n_trials)
    return trials


def _attack(values, released, groups, tolerance, weak):
    """Link every group with the columns that were not shuffled, and count what is right."""
    views, originals = standard_views(released), standard_views(values) if weak else []
    shuffled = np.concatenate(groups)
    clean = np.setdiff1d(np.arange(values.shape[1]), shuffled)
    empty = np.isnan(values).all(axis=0)
    scale = np.nanstd(np.where(empty, 0.0, values), axis=0)
    right, of, guessed = np.zeros((3, len(_MEASURES)))
    for group in groups:
        links = link_group(views, clean, group)
        truth, before = values[:, group], released[:, group]
        after = before[links.order]
        moved = ~_equal(truth, before)
        ties = _copies(truth) > 1
        counted = moved & ~ties
        same = _equal(truth, after)
        sure = counted & (links.posterior >= _CONFIDENT)
        near = _near(truth, after, tolerance * scale[group])
        counts = [
            counted.sum(),
            sure.sum(),
            moved.sum() * len(group),
            moved.sum(),
            weak * counted.sum(),
        ]
        insider = 0
        if weak:
            places = ((views, clean), (views, group), (originals, group))
            known = link_known_rows(*([view[:, part] for view in each] for each, part in places))
            insider = _equal(truth, before[known])[counted].sum()
        right += [
            same[counted].sum(), same[sure].sum(), near[moved].sum(), ties[moved].sum(), insider
        ]  # fmt: skip
        of += counts
        cells = np.mean([_chance(values[:, j], tolerance * scale[j]) for j in group])
        by_chance = _right_by_chance(truth, before, links.in_place < 0.5)
        guessed += [
            by_chance[counted].sum(), by_chance[sure].sum(), cells * counts[2], np.nan,
            counts[-1] / len(truth),
        ]  # fmt: skip
    return _Trial(right, of, guessed)


def _equal(a, b):
    return np.all((a == b) | (np.isnan(a) & np.isnan(b)), axis=1)


def _near(truth, after, tolerance):
    with np.errstate(invalid="ignore"):
        close = np.abs(truth - after) <= tolerance
    return close | (np.isnan(truth) & np.isnan(after))


def _copies(rows):
    """How many rows hold the same values as each."""
    _, inverse, counts = np.unique(
        np.nan_to_num(rows, nan=np.inf), axis=0, return_inverse=True, return_counts=True
    )
    return counts[inverse.ravel()]


def _right_by_chance(truth, before, loose):
    """Probability that a place gets its own row back if the rows the attacker moves are dealt."""
    rows = np.vstack([truth, before])
    _, key = np.unique(np.nan_to_num(rows, nan=np.inf), axis=0, return_inverse=True)
    key = key.ravel()
    origin = np.full(key.max() + 1, -1)
    origin[key[len(truth) :]] = np.arange(len(truth))
    mine = origin[key[: len(truth)]]
    # A release may have rounded the values: then no row of it is the right one.
    return loose * (mine >= 0) * loose[mine] / max(loose.sum(), 1)


def _chance(column, tolerance):
    """Probability that two values of a column drawn at random are within the tolerance."""
    ordered = np.sort(column[~np.isnan(column)])
    if len(ordered) == 0:
        return 1.0
    inside = np.searchsorted(ordered, ordered + tolerance, "right") - np.searchsorted(
        ordered, ordered - tolerance, "left"
    )
    return float(np.mean(inside) / len(ordered))


def _interval(trials, measure):
    """Share over all trials, and its 95% interval.

    The wider of two: of the counts, as if every row were drawn anew (Clopper and Pearson), and of
    the shares of the trials (Student), which may differ more than that.
    """
    right = np.array([trial.right[measure] for trial in trials])
    of = np.array([trial.of[measure] for trial in trials])
    if of.sum() == 0:
        return np.nan, np.nan, np.nan
    total, all_of = right.sum(), of.sum()
    share, tail = total / all_of, (1 - _LEVEL) / 2
    low = beta.ppf(tail, total, all_of - total + 1) if total > 0 else 0.0
    high = beta.ppf(1 - tail, total + 1, all_of - total) if total < all_of else 1.0
    shares = right[of > 0] / of[of > 0]
    if len(shares) > 1:
        half = t.ppf(1 - tail, len(shares) - 1) * shares.std(ddof=1) / np.sqrt(len(shares))
        low, high = min(low, share - half), max(high, share + half)
    return share, max(low, 0.0), min(high, 1.0)


def _result(frame, columns, trials, control, options):
    lines = []
    for measure, name in enumerate(_MEASURES):
        if measure == len(_MEASURES) - 1 and options["ratio"] < _WEAK_ATTACKER:
            continue
        value, low, high = _interval(trials, measure)
        of = sum(trial.of[measure] for trial in trials)
        guessed = sum(trial.guessed[measure] for trial in trials) / of if of else np.nan
        lines.append((name, value, low, high, guessed, _interval(control, measure)[0]))
    names = ("measure", "value", "low", "high", "baseline", "control")
    table = nw.from_dict(
        {name: [line[k] for line in lines] for k, name in enumerate(names)},
        {name: nw.Float64 if k else nw.String for k, name in enumerate(names)},
        backend=nw.get_native_namespace(frame),
    )
    summary = {
        "sentence": _sentence(lines[0], columns, options),
        "measures": {line[0]: dict(zip(names[1:], line[1:], strict=True)) for line in lines},
        "settings": {"columns": list(columns), **options},
    }
    return AuditResult(table.to_native(), summary, _advice(lines, columns, options))


def _sentence(line, columns, options):
    _, value, low, high, baseline, _ = line
    how = "together" if options["together"] else "each by itself"
    what = f"{len(columns)} columns shuffled {how}" if len(columns) > 1 else columns[0]
    if np.isnan(value):
        return f"No row with unique values moved in {what}."
    spread = f"95% interval {low:.1%} to {high:.1%}; guessing: {baseline:.1%}"
    return f"Of the moved rows of {what}, {value:.1%} are re-linked ({spread})."


def _advice(lines, columns, options):
    """Return the mitigations that would help, in sentences."""
    if options["ratio"] >= _WEAK_ATTACKER:
        return _advice_for_all_rows(lines[-1])
    _, value, low, high, baseline, _ = lines[0]
    if np.isnan(value) or high <= max(2 * baseline, 0.01):
        advice = ["The other columns tell no more than guessing: the shuffle protects the links."]
        return [
            *advice,
            f"{1 - options['ratio']:.0%} of the rows stay in place and are released as they are:"
            " shuffle all rows.",
        ]
    if low <= max(2 * baseline, 0.01):
        return [
            "So few trials cannot show whether an attack does better than guessing: run more of"
            " them (n_trials, --trials)."
        ]
    advice = []
    if options["together"] and len(columns) > 1:
        advice.append(
            "Shuffle every column by itself: columns that move together are linked by all of their"
            " values at once."
        )
    advice.append(
        "Shuffle all rows: those that stay in place teach the attacker how the columns depend"
        " on each other."
    )
    return [*advice, _COARSEN]


def _advice_for_all_rows(line):
    """Advice where the attacker has no rows in place to learn from."""
    _, value, low, _, baseline, _ = line
    weak = (
        "This attacker learns from rows in place, and there are hardly any. That he finds little"
        " does not mean that the release is safe."
    )
    if np.isnan(value):
        return [weak]
    strong = (
        " An attacker who knows from elsewhere how the columns depend on each other re-links"
        f" {value:.1%} (guessing: {baseline:.1%})."
    )
    told = low > max(2 * baseline, 0.01)
    return [weak + strong, *([_COARSEN] if told else [])]
