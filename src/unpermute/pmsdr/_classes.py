r"""Subspaces of a given number or rank, and the class of every vector.

Which vectors are damaged, and what they were, the model of clean vectors says, with as many
components as repairs gain from. What a user gave, L subspaces of rank r, is a question about the
vectors once they are repaired: the clean ones are clustered into L groups, a basis of rank r is
fitted to each, and a repaired vector belongs to the nearest.

Distances are compared within one vector only, so that its length does not matter.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from unpermute.classify import EliminationClassifier, RecoveryClassifier
from unpermute.cluster import ShapeInteractionClustering
from unpermute.numerics.subspaces import fit_subspaces, residual_norms
from unpermute.pmsdr._model import fit_component, mean_outside
from unpermute.pmsdr._stages import Given, cluster, match_ranks, own_stage

__all__ = ["Classes", "find_classes"]

# Vectors that are clustered: the shape interaction matrix is dense. The others go to the nearest
# subspace.
_CLUSTERED = 1500


@dataclass(frozen=True)
class Classes:
    """Subspaces, and how damaged vectors are told to belong to one.

    Attributes
    ----------
    bases, offsets : list of ndarray
    classifier : object or None
        Fitted to clean vectors, for damaged ones as observed; None: repaired ones go to the
        nearest subspace.
    """

    bases: list[np.ndarray]
    offsets: list[np.ndarray]
    classifier: Any = None

    def label(self, X, estimates, flags):
        """Return the class of every vector: observed, as estimated, and whether it is damaged."""
        labels = residual_norms(estimates, self.bases, self.offsets).argmin(axis=1)
        if self.classifier is not None and flags.any():
            labels[flags] = self.classifier.predict(np.where(np.isnan(X), estimates, X)[flags])
        return labels

    def project(self, estimates, labels):
        """Return the nearest point of its subspace to every estimate."""
        fitted = np.empty_like(estimates)
        for k in np.unique(labels):
            basis, offset = self.bases[k], self.offsets[k]
            own = estimates[labels == k] - offset
            fitted[labels == k] = (own @ basis) @ basis.T + offset
        return fitted


def find_classes(X, estimates, flags, sure, components, given: Given, *, seed, n_jobs=None):
    """Find the subspaces that were asked for.

    Parameters
    ----------
    X, estimates : ndarray of shape (n_vectors, n_features)
        Vectors as observed, and as they probably were; the latter without missing entries.
    flags, sure : ndarray of bool of shape (n_vectors,)
        Which are damaged, and which of these are repaired with confidence.
    components : ndarray of int of shape (n_vectors,)
        Components of the model of clean vectors.
    given : Given
    seed : int
    n_jobs : int, default=None

    Returns
    -------
    classes : Classes
    labels : ndarray of int of shape (n_vectors,)
    """
    clean = np.flatnonzero(~flags)
    own = _cluster(estimates[clean], components[clean], given, seed, n_jobs)
    labels = np.full(len(X), -1)
    labels[clean] = own
    classes = _fit(estimates, labels, given)
    nearest = classes.label(X, estimates, flags)
    # Repaired vectors help to fit the bases: clean ones alone may be few.
    helpful = np.where(labels >= 0, labels, np.where(sure | ~flags, nearest, -1))
    classes = _fit(estimates, helpful, given)
    classifier = _classifier(given, classes, seed, n_jobs)
    if classifier is not None and len(classes.bases) > 1:
        classifier.fit(estimates[clean], helpful[clean])
        classes = Classes(classes.bases, classes.offsets, classifier)
    everyone = classes.label(X, estimates, flags)
    return classes, np.where(labels >= 0, labels, everyone)


def _cluster(X, components, given, seed, n_jobs):
    """Labels of clean vectors; −1 where only the nearest subspace will tell."""
    count = given.n_subspaces
    if count is None:
        return np.unique(components, return_inverse=True)[1]
    if count == 1:
        return np.zeros(len(X), dtype=np.int64)
    rank = None if given.rank is None else int(np.max(given.rank))
    least = 2 if rank is None else max(rank + 2, 2 * rank)
    if not (isinstance(given.clusterer, str) and given.clusterer == "model"):
        options = {"min_size": least, "affine": given.affine, "seed": seed, "n_jobs": n_jobs}
        return cluster(X, given.clusterer, count, **options)
    rows = np.random.default_rng(seed).permutation(len(X))[:_CLUSTERED]
    labels = np.full(len(X), -1)
    clusterer = ShapeInteractionClustering(
        min(count, len(rows)), rank, affine=given.affine, n_jobs=n_jobs,
        min_size=max(min(least, len(rows) // count), 1),
        random_state=seed,
    )  # fmt: skip
    labels[rows] = clusterer.fit_predict(X[rows])
    return labels


def _fit(X, labels, given):
    """Fit a basis to every cluster."""
    rows, count = labels >= 0, int(labels.max()) + 1
    rank = match_ranks(X[rows], labels[rows], given.rank)
    if rank is None:
        rank = [_linear_rank(X[labels == k], given.affine) for k in range(count)]
    elif given.n_subspaces is None:  # components may be smaller than subspaces of that rank
        rank = [min(rank, max(np.sum(labels == k) - given.affine, 1)) for k in range(count)]
    method = "svd" if given.basis == "model" else given.basis
    return Classes(
        *fit_subspaces(X[rows], labels[rows], rank, count, method=method, affine=given.affine)
    )


def _linear_rank(X, affine):
    """Rank of a cluster; the mean is one more direction of a linear subspace."""
    if len(X) < 2:
        return 1
    component = fit_component(X)
    return component.rank + int(not affine and mean_outside(component, len(X))[1])


def _classifier(given, classes, seed, n_jobs):
    """The classifier that was given; None: the nearest subspace to the repaired vector."""
    if not isinstance(given.classifier, str):
        return own_stage(given.classifier, seed)
    named = {"elimination": EliminationClassifier, "recovery": RecoveryClassifier}
    if given.classifier not in named:
        return None
    ranks = [basis.shape[1] for basis in classes.bases]
    classifier = named[given.classifier](ranks, affine=given.affine, n_jobs=n_jobs)
    return own_stage(classifier, seed)
