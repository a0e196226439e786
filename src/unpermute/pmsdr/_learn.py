"""From a matrix to subspaces: stages 1 and 2 in order, then refinement.

What was given (`Given`) goes in, what was learned (`Learned`) comes out; the estimator keeps the
latter as its attributes. All vectors take part, so time grows with the square of their number.
"""

import logging
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unpermute._validation import check_rank, resolve_contamination
from unpermute.numerics.permutations import has_no_order
from unpermute.numerics.subspaces import fit_subspaces
from unpermute.pmsdr._distances import distances_as_they_stand, fill_missing
from unpermute.pmsdr._peers import Peers, choose_peers, noise_differs
from unpermute.pmsdr._refine import Refiner
from unpermute.pmsdr._stages import cluster, detect, match_ranks, own_stage

__all__ = ["ROUNDING", "STAGES", "Learned", "Learner", "fit_union", "log"]

logger = logging.getLogger("unpermute")

# What "model" means where the four stages follow each other.
STAGES = {
    "detector": "self-representation",
    "clusterer": "elastic-net",
    "basis": "robust",
    "classifier": "recovery",
}
# Residuals below this share of the largest entry are rounding.
ROUNDING = 1e-8
# How far above the typical residual of a clean vector a new vector may lie, in robust standard
# deviations of those residuals.
_CLEAN_DEVIATIONS = 6.0
# Starts per vector when recovered vectors are to help the fit, a few first.
_REFINEMENT_STARTS = (0, 600)
# More vectors tell a common noise from their own; to judge each by all others would take long.
_FEW = 100
# More degrees of freedom than this do not make residuals of few vectors more alike: the subspace
# itself is known no better.
_MAX_DEGREES = 500


@dataclass
class Learned:
    """Subspaces, and how to judge vectors by them.

    Attributes
    ----------
    bases, offsets : list of ndarray
    noise : float
        Standard deviation of the noise of an entry.
    offset : float
        Vectors whose score is below it are permuted.
    mask, labels : ndarray of shape (n_vectors,)
        Which vectors the detector found permuted, and the clusters of the others (−1: none).
    peers : Peers or None
        Clean vectors that judge the others, where there are few with noise of their own.
    classifier : object
        The user's own, fitted; or None.
    is_final : bool
        Whether `mask` and `labels` are the answer for the vectors that were learned from.
    """

    bases: list[np.ndarray]
    offsets: list[np.ndarray]
    noise: float
    offset: float
    mask: np.ndarray
    labels: np.ndarray
    peers: Peers | None = None
    classifier: Any = None
    is_final: bool = False


class Learner:
    """The work on one matrix.

    Parameters
    ----------
    X : ndarray of shape (n_vectors, n_features)
        The observed vectors; NaN where missing.
    given : Given
    merge : bool or None
        Whether clusters of one subspace are merged; None: if their number was not given.
    max_noise : float
        Standard deviation of the noise that clean vectors can have at most.
    """

    def __init__(self, X, given, *, merge=None, max_noise=np.inf):
        self.X, self.given, self.max_noise = X, given, max_noise
        self.merge = given.n_subspaces is None if merge is None else merge
        self.filled = fill_missing(X, [], [])
        self.orderly = has_no_order(X)
        self.frame = None
        if self.filled is X and 2 * len(X) < X.shape[1]:
            # Few long vectors are refined in coordinates of the space that they span.
            self.frame = np.linalg.qr(X.T)[0]

    def learn(self):
        """Detect, cluster and refine; return the :class:`Learned`."""
        mask, labels = self.start()
        if not self.given.refine:
            noise, offset = self._typical
            return Learned(
                self.bases, self.offsets, noise, offset, mask, labels, classifier=self.classifier,
                is_final=True,
            )  # fmt: skip
        refiner = self.settle(labels)
        peers = self._choose_peers(refiner, labels >= 0)
        if self.given.recoverer == "search" and peers is None:
            refiner.add_recovered(
                _REFINEMENT_STARTS, seed=self.given.seed, n_jobs=self.given.n_jobs
            )
        bases, offsets = refiner.subspaces.bases, refiner.subspaces.offsets
        log(self.given, "refine: %d subspaces of ranks %s", len(bases), refiner.ranks)
        offset = -refiner.limit() if peers is None else -peers.limit
        return Learned(bases, offsets, refiner.noise, offset, mask, labels, peers=peers)

    def start(self):
        """Stages 1 and 2: which vectors seem permuted, and the clusters of the others."""
        given = self.given
        open_number = given.n_subspaces is None and np.ndim(given.rank) == 0
        if given.affine and open_number and given.refine:
            return self._start_from_hulls()
        mask = np.zeros(len(self.X), dtype=bool)
        mask[~self.orderly] = detect(
            self.filled[~self.orderly],
            given.detector,
            given.contamination,
            seed=given.seed,
            n_jobs=given.n_jobs,
        )
        log(given, "detect: %d of %d vectors are permuted", mask.sum(), len(mask))
        members = ~mask if self.orderly.all() else ~mask & ~self.orderly
        labels = np.full(len(self.X), -1)
        labels[members] = self._fit_subspaces(self.filled[members], given.n_subspaces)
        return mask, labels

    def _start_from_hulls(self):
        """Count affine subspaces by the linear ones that they span, of up to one more dimension.

        Affine subspaces of a few vectors each would fit exactly: there is no end to them.
        """
        hulls = Learner(
            self.X, replace(self.given, affine=False, rank=None), max_noise=self.max_noise
        )
        mask, labels = hulls.start()
        found = hulls.settle(labels)
        self.merge = False
        # Those through the origin are their own hulls: of the others the rank is lowered later.
        rank = self.given.rank
        self.ranks = found.ranks if rank is None else [int(rank)] * len(found.ranks)
        return mask, found.labels

    def settle(self, labels):
        """Refine from these labels, and from other numbers of subspaces if that is open."""
        refiner = self._settle(labels)
        if not self.merge or self.given.n_subspaces is not None or np.ndim(self.given.rank) > 0:
            return refiner
        members, suggested = labels >= 0, self.suggested
        for count in suggested:
            labels = np.full(len(self.X), -1)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it is only a suggestion
                try:
                    labels[members] = self._fit_subspaces(self.filled[members], count)
                except ValueError:  # a cluster too small for its rank: not plausible
                    continue
            other = self._settle(labels)
            if other.description_length() < refiner.description_length():
                refiner = other
        return refiner

    def _fit_subspaces(self, X, n_subspaces):
        """Stage 2: cluster the clean vectors, fit the bases, measure the noise; return labels."""
        given = self.given
        if n_subspaces is not None and n_subspaces > len(X):
            raise ValueError(
                f"n_subspaces={n_subspaces} must not exceed the number of vectors taken for"
                f" clean, {len(X)}; lower n_subspaces or contamination={given.contamination!r}."
            )
        # A cluster needs more vectors than its subspace has dimensions.
        largest_rank = 0 if given.rank is None else int(np.max(given.rank))
        min_size = largest_rank + 1 + given.affine
        labels, self.suggested = cluster(
            X, given.clusterer, n_subspaces, min_size=min_size, affine=given.affine,
            seed=given.seed, n_jobs=given.n_jobs,
        )  # fmt: skip
        count = int(labels.max()) + 1
        check_rank(given.rank, X.shape[1], count)
        ranks = match_ranks(X, labels, given.rank)
        self.bases, self.offsets = fit_subspaces(
            X, labels, ranks, count, method=given.basis, affine=given.affine
        )
        self.ranks = [basis.shape[1] for basis in self.bases]
        log(given, "cluster: %d subspaces of ranks %s", count, self.ranks)
        residuals = distances_as_they_stand(X, self.bases, self.offsets)
        # Clusterers may leave vectors out (label -1): those belong to the nearest subspace.
        labels = np.where(labels >= 0, labels, residuals.argmin(axis=1))
        self._typical = _typical_residual(residuals.min(axis=1), np.abs(X).max())
        self.classifier = None
        if not isinstance(given.classifier, str) and not given.refine:
            self.classifier = own_stage(given.classifier, given.seed).fit(X, labels)
        return labels

    def _settle(self, labels):
        refiner = Refiner(
            self.X,
            labels,
            self.ranks,
            estimate_rank=self.given.rank is None,
            merge=self.merge,
            method=self.given.basis,
            affine=self.given.affine,
            rounding=ROUNDING * np.nanmax(np.abs(self.X)),
            max_noise=self.max_noise,
            frame=self.frame,
        )
        refiner.settle()
        return refiner

    def _choose_peers(self, refiner, seemed_clean):
        """Let few vectors with noise of their own judge each other."""
        X, movable = self.X, ~self.orderly
        if len(X) >= min(X.shape[1], _FEW) or not (seemed_clean & movable).any():
            return None
        n_degrees = min(X.shape[1] - max(refiner.ranks), _MAX_DEGREES)
        if not noise_differs(refiner.distances_of(seemed_clean & movable), n_degrees):
            return None
        filled = fill_missing(X, refiner.subspaces.bases, refiner.subspaces.offsets)[movable]
        count = None
        if self.given.contamination != "auto":
            count = resolve_contamination(self.given.contamination, len(filled))
        return choose_peers(filled, count, n_jobs=self.given.n_jobs)


def fit_union(X, given):
    """Fit a union of exact subspaces: stages 1 and 2, and refinement; returns a :class:`Refiner`.

    Parameters
    ----------
    X : ndarray of shape (n_vectors, n_features)
    given : Given
        Stages that are not named are the ones that the four stages are best at.
    """
    named = {
        name: stage
        for name, stage in STAGES.items()
        if isinstance(getattr(given, name), str) and getattr(given, name) == "model"
    }
    rank = given.rank if given.n_subspaces is not None else None
    if rank is not None:  # of the linear hulls, in as many columns as are looked at
        rank = np.minimum(np.asarray(rank) + given.affine, X.shape[1] - 1).tolist()
    learner = Learner(X, replace(given, **named, affine=False, rank=rank))
    return learner.settle(learner.start()[1])


def log(given, message, *values):
    """Say how far the work is: louder if the user wants to hear it."""
    logger.log(logging.INFO if given.verbose else logging.DEBUG, message, *values)


def _typical_residual(residuals, largest):
    """Typical residual of a clean vector, and the threshold for the scores of new ones."""
    noise = float(np.median(residuals))
    deviation = 1.4826 * np.median(np.abs(residuals - noise))
    return noise, -float(noise + _CLEAN_DEVIATIONS * deviation + ROUNDING * largest)
