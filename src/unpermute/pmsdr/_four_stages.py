"""The paper's method: detect, cluster, classify and recover, each once and in this order.

The detector's mask decides for the training matrix. New vectors count as permuted if they are
farther from every subspace than clean training vectors are.
"""

import logging
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unpermute._validation import check_rank
from unpermute.classify import elimination_distances
from unpermute.numerics.parallel import map_blocks
from unpermute.numerics.permutations import has_no_order
from unpermute.numerics.subspaces import fit_subspaces
from unpermute.pmsdr._distances import distances_as_they_stand, fill_missing
from unpermute.pmsdr._put_back import put_back
from unpermute.pmsdr._stages import Given, cluster, detect, match_ranks, own_stage

__all__ = ["FourStages"]

logger = logging.getLogger("unpermute")

# What "model" means here.
_STAGES = {
    "detector": "self-representation",
    "clusterer": "elastic-net",
    "basis": "robust",
    "classifier": "recovery",
}
# Residuals below this share of the largest entry are rounding.
_ROUNDING = 1e-8
# How far above the typical residual of a clean vector a new vector may lie, in robust standard
# deviations of those residuals.
_CLEAN_DEVIATIONS = 6.0
# Vectors that are judged at once: intermediate results then stay in the cache.
_BLOCK = 4096


@dataclass
class FourStages:
    """Subspaces, and what the stages do with vectors.

    Attributes
    ----------
    given : Given
        Every stage is named.
    bases, offsets : list of ndarray
    noise_scale : float
        Typical residual of a clean vector.
    offset : float
        Vectors whose score is below it are permuted.
    classifier : object
        The user's own, fitted; or None.
    """

    given: Given
    bases: list[np.ndarray]
    offsets: list[np.ndarray]
    noise_scale: float
    offset: float
    classifier: Any = None

    @classmethod
    def fit(cls, X, given):
        """Stages 1 and 2.

        Parameters
        ----------
        X : ndarray of shape (n_vectors, n_features)
            NaN where entries are missing.
        given : Given

        Returns
        -------
        stages : FourStages
        mask : ndarray of bool of shape (n_vectors,)
            Which vectors are permuted.
        labels : ndarray of int of shape (n_vectors,)
            Subspaces of the others; −1 where still to be classified.
        """
        named = {name: stage for name, stage in _STAGES.items() if given.is_open(name)}
        given = replace(given, **named)
        filled, constant = fill_missing(X, [], []), has_no_order(X)
        mask = np.zeros(len(X), dtype=bool)
        options = {"seed": given.seed, "n_jobs": given.n_jobs}
        mask[~constant] = detect(filled[~constant], given.detector, given.contamination, **options)
        logger.debug("detect: %d of %d vectors are permuted", mask.sum(), len(mask))
        members = ~mask if constant.all() else ~mask & ~constant
        stages, own = cls._fit_subspaces(filled[members], given)
        labels = np.full(len(X), -1)
        labels[members] = own
        rest = np.flatnonzero((labels < 0) & ~mask)  # without order, thus neither
        labels[rest] = stages.distances(X[rest]).argmin(axis=1)
        return stages, mask, labels

    @classmethod
    def _fit_subspaces(cls, X, given):
        """Stage 2: cluster the clean vectors, fit the bases, measure the noise."""
        labels = cluster(
            X, given.clusterer, given.n_subspaces, min_size=given.cluster_size(len(X)),
            affine=given.affine, seed=given.seed, n_jobs=given.n_jobs,
        )  # fmt: skip
        count = int(labels.max()) + 1
        check_rank(given.rank, X.shape[1], count)
        ranks = match_ranks(X, labels, given.rank)
        bases, offsets = fit_subspaces(
            X, labels, ranks, count, method=given.basis, affine=given.affine
        )
        logger.debug("cluster: %d subspaces of ranks %s", count, [b.shape[1] for b in bases])
        residuals = distances_as_they_stand(X, bases, offsets)
        # Clusterers may leave vectors out (label -1): those belong to the nearest subspace.
        labels = np.where(labels >= 0, labels, residuals.argmin(axis=1))
        noise, offset = _typical_residual(residuals.min(axis=1), np.abs(X).max())
        classifier = None
        if not isinstance(given.classifier, str):
            classifier = own_stage(given.classifier, given.seed).fit(X, labels)
        return cls(given, bases, offsets, noise, offset, classifier), labels

    def distances(self, X):
        """Root mean square residual to every subspace."""
        return distances_as_they_stand(X, self.bases, self.offsets)

    def scores(self, X, *, n_jobs=None):
        """Minus the distance to the nearest subspace; larger is more normal."""

        def judge(start, stop):
            return -self.distances(X[start:stop]).min(axis=1)

        return np.concatenate(map_blocks(judge, len(X), block=_BLOCK, stage="judge", n_jobs=n_jobs))

    def examine(self, X, output, min_confidence, *, n_jobs=None):
        """Judge and repair new vectors; returns a :class:`Repaired`."""
        mask = (self.scores(X, n_jobs=n_jobs) < self.offset) & ~has_no_order(X)
        labels = np.where(mask, -1, self.distances(X).argmin(axis=1))
        return self.put_back(X, mask, labels, output, min_confidence, n_jobs=n_jobs)

    def put_back(self, X, mask, labels, output, min_confidence, *, n_jobs=None):
        """Stages 3 and 4 for the vectors of `mask`; returns a :class:`Repaired`."""
        repaired = put_back(
            X, mask, labels, self.bases, self.offsets, classify=self._classify,
            recoverer=self.given.recoverer, output=output, min_confidence=min_confidence,
            noise_scale=self.noise_scale, seed=self.given.seed, n_jobs=n_jobs,
        )  # fmt: skip
        repaired.expected_error[mask] = np.nan
        return repaired.decide(mask, min_confidence)

    def _classify(self, Y):
        """Stage 3: subspace of every permuted vector, or None where the recovery shall tell."""
        if self.classifier is not None:
            return self.classifier.predict(Y)
        if self.given.classifier == "recovery":
            return None
        options = {"n_jobs": self.given.n_jobs}
        return elimination_distances(Y, self.bases, self.offsets, **options).argmin(axis=1)


def _typical_residual(residuals, largest):
    """Typical residual of a clean vector, and the threshold for the scores of new ones."""
    noise = float(np.median(residuals))
    deviation = 1.4826 * np.median(np.abs(residuals - noise))
    return noise, -float(noise + _CLEAN_DEVIATIONS * deviation + _ROUNDING * largest)
