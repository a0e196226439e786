r"""Joint term of a record: how much more likely its numbers are together than one by one.

.. math:: \log t_\nu(z; \Sigma) - \sum_c \log t_\nu(z_c; \Sigma_{cc})

z_c are the standardised values of a column with many values, squashed beyond ±3: else foreign
values, extreme together, would earn a huge bonus. Columns with a value that is common, or with few
values, enter by the normal scores of their mid-ranks.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtri

from unpermute.records._cells import DATE
from unpermute.records._scatter import fit_scatter
from unpermute.records._smooth import Smooth, fit_smooth

__all__ = ["JointModel", "fit_joint"]

# z beyond the first is squashed, and never exceeds the second.
_SQUASHED, _LARGEST = 3.0, 4.5
# A column with a value more common than this, or with fewer values, enters by ranks.
_COMMON, _FEW = 0.1, 12
# Scores of values below and above all others are so much further out.
_BEYOND = 1.5
# Noise of every column that is there anyway, in standard deviations.
_FLOOR = 0.02
# Share of the cells of a column that must be numbers or dates, and share of the two most common
# values up to which there are enough others: a column of two values has no normal scores.
_NUMERIC, _TWO_VALUES = 0.5, 0.95


@dataclass(frozen=True)
class Score:
    """How the numbers of a column become z: by a density, or by the ranks of its values."""

    smooth: Smooth | None = None
    values: np.ndarray = field(default_factory=lambda: np.zeros(0))
    scores: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def __call__(self, values):
        """Return z of the values."""
        if self.smooth is not None:
            return _squashed(self.smooth.standardised(values))
        low, high = self.scores[0] - _BEYOND, self.scores[-1] + _BEYOND
        return np.interp(values, self.values, self.scores, left=low, right=high)


@dataclass(frozen=True)
class JointModel:
    """Distribution of z, one version per fold and the last for new records.

    Attributes
    ----------
    scores : list of Score or None
        None: the column takes no part.
    location, variances : ndarray of shape (n_versions, p)
        Of every column; 0 and 1 where it takes no part.
    precision : ndarray of shape (n_versions, p, p)
        Inverse of the scatter; the identity where a column takes no part.
    degrees : float
        Degrees of freedom.
    n_records : float
        Records learned from.
    """

    scores: list
    location: np.ndarray
    variances: np.ndarray
    precision: np.ndarray
    degrees: float
    n_records: float

    @property
    def used(self):
        """Which columns take part."""
        return np.array([score is not None for score in self.scores])

    def log_marginals(self, z):
        """Return what Student's t says of every z alone, up to a constant; NaN where there is none.

        Of the version for new records: between versions it hardly differs.
        """
        variances, nu = self.variances[-1], self.degrees
        # In place: there are many words, and new memory takes longer than the sums.
        logs = z - self.location[-1]
        np.square(logs, out=logs)
        logs /= nu * variances
        np.log1p(logs, out=logs)
        logs *= 0.5 * (nu + 1)
        return np.subtract(-0.5 * np.log(variances), logs, out=logs)

    def standardised(self, words):
        """Return z of every word in every column; NaN where there is none."""
        z = np.full((len(words), len(self.scores)), np.nan)
        numbers = np.flatnonzero(words.kinds <= DATE)
        for j, score in enumerate(self.scores):
            if score is not None:
                z[numbers, j] = score(words.values[numbers])
        return z


def fit_joint(cells, used, *, rank, seed):
    """Learn the joint distribution; returns it and the version that judges every record."""
    n, p = cells.shape
    scores = [_fit_score(cells.values[used, j], int(used.sum())) for j in range(p)]
    mine = [j for j in range(p) if scores[j] is not None]
    fold = np.zeros(n, dtype=np.int64)
    location, variances = np.zeros((1, p)), np.ones((1, p))
    precision, degrees = np.eye(p)[None], 30.0
    if len(mine) >= 2:
        z = np.full((n, len(mine)), np.nan)
        for k, j in enumerate(mine):
            seen = ~np.isnan(cells.values[:, j])
            z[seen, k] = scores[j](cells.values[seen, j])
        rng = np.random.default_rng(seed)
        floor = np.full(len(mine), _FLOOR)
        scatter = fit_scatter(z, used.astype(float), floor, rank=rank, rng=rng)
        fold, degrees, versions = scatter.fold, scatter.degrees, len(scatter.location)
        location, variances = np.zeros((versions, p)), np.ones((versions, p))
        precision = np.tile(np.eye(p), (versions, 1, 1))
        location[:, mine] = scatter.location
        for version, part in enumerate(scatter.precision):
            precision[version][np.ix_(mine, mine)] = part
            variances[version, mine] = np.diag(np.linalg.inv(part))
    else:
        scores = [None] * p
    return JointModel(scores, location, variances, precision, degrees, float(used.sum())), fold


def _fit_score(values, n_records):
    """How a column becomes z, or None if it takes no part."""
    values = values[~np.isnan(values)]
    if len(values) <= _NUMERIC * n_records:
        return None
    distinct, counts = np.unique(values, return_counts=True)
    if np.sort(counts)[-2:].sum() > _TWO_VALUES * counts.sum():
        return None
    if counts.max() > _COMMON * counts.sum() or len(distinct) < _FEW:
        ranks = (np.cumsum(counts) - counts / 2) / (counts.sum() + 1)
        return Score(None, distinct, ndtri(ranks))
    return Score(fit_smooth(distinct, counts))


def _squashed(z):
    size = np.abs(z)
    far = np.flatnonzero(size > _SQUASHED)
    size[far] = np.minimum(_SQUASHED + np.log1p(size[far] - _SQUASHED), _LARGEST)
    return np.copysign(size, z)
