"""Which partition into components is better: what repairs of held-out vectors say.

Hold-outs stay out of fitting; they are shuffled and repaired, and their errors under two partitions
of the clean vectors are compared in pairs.
"""

from dataclasses import dataclass, replace

import numpy as np
from sklearn.cluster import KMeans

from unpermute.pmsdr._judge import FAST, Membership, judge
from unpermute.pmsdr._mixture import SMALLEST, fit_mixture
from unpermute.pmsdr._trials import shuffle

__all__ = ["HoldOuts", "Partition"]

# Hold-outs, their share of the vectors and their largest size.
_SPLITS, _SHARE, _SPLIT_SIZE = 4, 0.2, 60
# Random starts are part of it: without them several components repair better than one only
# because they get stuck less often.
_EFFORT = replace(FAST, starts=3)
# Numbers of components that are tried.
_COUNTS = (2, 3, 5, 8)
# Difference in the mean logarithm of the error that is worth another partition.
_WORTH_IT = 0.1


@dataclass(frozen=True, eq=False)
class Partition:
    """Components of given labels, and perhaps of given ranks."""

    labels: np.ndarray
    rank: int | list[int] | None = None


class HoldOuts:
    """Clean vectors that are held out, shuffled and repaired, to compare partitions of the others.

    Parameters
    ----------
    X : ndarray of shape (n_clean, n_features)
        Vectors without missing entries.
    patterns : list of Pattern
        How hold-outs are shuffled.
    seed : int, default=0
    n_jobs : int, default=None
    """

    def __init__(self, X, patterns, *, seed=0, n_jobs=None):
        self.X, self.n_jobs, self.seed = X, n_jobs, seed
        size = min(max(int(_SHARE * len(X)), SMALLEST), _SPLIT_SIZE)
        order = np.random.default_rng(seed).permutation(len(X))
        # Too few vectors cannot be held out and divided.
        count = min(_SPLITS, len(X) // size) if len(X) >= 4 * SMALLEST else 0
        self.held = [order[f * size : (f + 1) * size] for f in range(count)]
        self.shuffled = [
            shuffle(X[rows], patterns, np.random.default_rng((seed, f)))[0]
            for f, rows in enumerate(self.held)
        ]
        self._errors: dict[tuple[Partition, int], np.ndarray | None] = {}

    def is_better(self, candidate, present, *, likelier=False):
        """Whether repairs are clearly better with one partition than with another.

        Both in the mean logarithm of the error, to which every vector counts alike, and in the
        total: mean logarithms alone would take ten components where one has half the error. A
        partition that is known to be `likelier` need not be clearly better, only not clearly worse.
        """
        if not self.held:
            return False
        ours, theirs = [], []
        for split in range(len(self.held)):
            both = self._repair(candidate, split), self._repair(present, split)
            if both[0] is None or both[1] is None:
                return False
            ours.append(both[0])
            theirs.append(both[1])
            change, error, ratio, ratio_error = _paired(
                np.concatenate(ours), np.concatenate(theirs)
            )
            if change >= 0.0 and not likelier:
                return False  # the rest would be wasted
        if likelier:
            return bool(change <= error and ratio <= 1.0 + ratio_error)
        return bool(change + error < -_WORTH_IT and ratio + ratio_error < 1.0)

    def divide(self, narrow):
        """Labels of components with which repairs are clearly better than with one.

        Candidates are the clusters of k-means, after vectors have gone to the component that makes
        them likeliest; more components are taken if they are clearly better than fewer, and no more
        are tried once repairs get clearly worse. The clusters are those of the vectors `narrow`,
        which may have fewer entries.
        """
        present = Partition(np.zeros(len(narrow), dtype=np.int64))
        for count in _COUNTS:
            if len(narrow) < 2 * SMALLEST * count:
                break
            clusters = KMeans(count, n_init=5, random_state=self.seed).fit_predict(narrow)
            candidate = Partition(fit_mixture(narrow, clusters, rounds=2)[1])
            if np.array_equal(candidate.labels, present.labels):
                continue
            if self.is_better(candidate, present):
                present = candidate
            elif self._is_clearly_worse(candidate, present):
                break
        return present.labels

    def _is_clearly_worse(self, candidate, present):
        """Whether the first hold-out is repaired clearly worse, as a comparison has shown."""
        errors = [self._errors.get((partition, 0)) for partition in (candidate, present)]
        return any(own is None for own in errors) or _paired(*errors)[0] > _WORTH_IT

    def _repair(self, partition, split):
        """Squared errors of both outputs; None if the partition has no mixture here."""
        if (partition, split) not in self._errors:
            self._errors[partition, split] = self._measure(partition, split)
        return self._errors[partition, split]

    def _measure(self, partition, split):
        held, shuffled = self.held[split], self.shuffled[split]
        rest = np.setdiff1d(np.arange(len(self.X)), held)
        own, labels = self.X[rest], partition.labels[rest]
        mixture, _ = fit_mixture(own, labels, rounds=0, rank=partition.rank)
        if mixture is None:
            return None
        nobody = Membership.none(len(held))
        judged = judge(shuffled, mixture, nobody, _EFFORT, n_jobs=self.n_jobs)
        errors = judged.values - self.X[held], judged.blend - self.X[held]
        return np.sum(errors[0] ** 2 + errors[1] ** 2, axis=1)


def _paired(errors, others):
    """Compare paired errors: mean log ratio, ratio of totals, and their standard errors."""
    floor = 1e-3 * np.median(others) + 1e-300
    logs = np.log(errors + floor) - np.log(others + floor)
    ratio = errors.sum() / max(others.sum(), 1e-300)
    root = np.sqrt(len(errors))
    spread = np.std(errors - ratio * others) * root / max(others.sum(), 1e-300)
    return logs.mean(), logs.std() / root, ratio, spread
