"""Which partition into components is better: what repairs of held-out vectors say.

Hold-outs stay out of fitting; they are shuffled and repaired, and their errors under two partitions
of the clean vectors are compared in pairs.
"""

from dataclasses import dataclass

import numpy as np

from unpermute.pmsdr._judge import FAST, Membership, judge
from unpermute.pmsdr._mixture import SMALLEST, fit_mixture
from unpermute.pmsdr._trials import shuffle

__all__ = ["Partition", "is_better"]

# Hold-outs, their share of the vectors and their largest size.
_SPLITS, _SHARE, _SPLIT_SIZE = 4, 0.2, 60
# Gain in the mean logarithm of the error that another partition must bring.
_WORTH_IT = 0.1


@dataclass(frozen=True, eq=False)
class Partition:
    """Components of given labels, and perhaps of given ranks."""

    labels: np.ndarray
    rank: int | list[int] | None = None


def is_better(X, candidate, present, patterns, *, seed=0, n_jobs=None):
    """Whether repairs of held-out vectors are clearly better with one partition than another.

    Both in the mean logarithm of the error, to which every vector counts alike, and in the total:
    mean logarithms alone would take ten components where one has half the error.

    Parameters
    ----------
    X : ndarray of shape (n_clean, n_features)
        Vectors without missing entries.
    candidate, present : Partition
    patterns : list of Pattern
        How hold-outs are shuffled.
    seed : int, default=0
    n_jobs : int, default=None

    Returns
    -------
    bool
    """
    if len(X) < 4 * SMALLEST:
        return False  # too few to be held out and divided
    size = min(max(int(_SHARE * len(X)), SMALLEST), _SPLIT_SIZE)
    order = np.random.default_rng(seed).permutation(len(X))
    errors: list[np.ndarray] = []
    others: list[np.ndarray] = []
    for f in range(min(_SPLITS, len(X) // size)):
        held = order[f * size : (f + 1) * size]
        shuffled = shuffle(X[held], patterns, np.random.default_rng((seed, f)))[0]
        for partition, found in ((candidate, errors), (present, others)):
            own = _errors(X, held, shuffled, partition, n_jobs)
            if own is None:
                return False
            found.append(own)
    change, error, ratio, ratio_error = _paired(np.concatenate(errors), np.concatenate(others))
    return bool(change + error < -_WORTH_IT and ratio + ratio_error < 1)


def _errors(X, held, shuffled, partition, n_jobs):
    """Squared errors of both outputs; None if the partition has no mixture here."""
    fitted = np.setdiff1d(np.arange(len(X)), held)
    mixture, _ = fit_mixture(X[fitted], partition.labels[fitted], rounds=0, rank=partition.rank)
    if mixture is None:
        return None
    judged = judge(shuffled, mixture, Membership.none(len(held)), FAST, n_jobs=n_jobs)
    return np.sum((judged.values - X[held]) ** 2 + (judged.blend - X[held]) ** 2, axis=1)


def _paired(errors, others):
    """Compare paired errors: mean log ratio, ratio of totals, and their standard errors."""
    floor = 1e-3 * np.median(others) + 1e-300
    logs = np.log(errors + floor) - np.log(others + floor)
    ratio = errors.sum() / max(others.sum(), 1e-300)
    root = np.sqrt(len(errors))
    spread = np.std(errors - ratio * others) * root / max(others.sum(), 1e-300)
    return logs.mean(), logs.std() / root, ratio, spread
