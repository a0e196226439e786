"""Stages 1 and 2 of PMSDR, by name or by an object of the user's own."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone

from unpermute._validation import resolve_contamination
from unpermute.cluster import (
    ElasticNetSubspaceClustering,
    OMPSubspaceClustering,
    SparseSubspaceClustering,
)
from unpermute.detect import SelfRepresentationDetector
from unpermute.numerics.robust_subspace import unit_rows

__all__ = ["CLUSTERERS", "Given", "cluster", "detect", "match_ranks", "own_stage"]

CLUSTERERS = {
    "ssc": SparseSubspaceClustering,
    "elastic-net": ElasticNetSubspaceClustering,
    "omp": OMPSubspaceClustering,
}
# Clusters to begin with where their number is not known: more than there are subspaces.
_PIECES = 16


@dataclass(frozen=True)
class Given:
    """What the user said; see :class:`unpermute.PMSDR`."""

    n_subspaces: int | None = None
    rank: Any = None
    contamination: Any = "auto"
    affine: bool = False
    detector: Any = "model"
    clusterer: Any = "model"
    basis: str = "model"
    classifier: Any = "model"
    recoverer: Any = "search"
    refine: bool = True
    seed: int = 0
    n_jobs: int | None = None
    verbose: int = 0
    pieces: int | None = None

    def is_open(self, name):
        """Whether a stage is left to the model."""
        stage = getattr(self, name)
        return isinstance(stage, str) and stage == "model"

    @property
    def asks_for_classes(self):
        """Whether the components of the model are not what was asked for."""
        named = not all(map(self.is_open, ("clusterer", "basis", "classifier")))
        return self.n_subspaces is not None or self.rank is not None or named

    @property
    def is_explicit(self):
        """Whether a number of subspaces or a stage was given, which a start must meet."""
        named = not all(map(self.is_open, ("detector", "clusterer", "basis", "classifier")))
        return self.n_subspaces is not None or named

    @property
    def n_damaged(self):
        """Number of damaged vectors; None: not known."""
        return None if self.contamination == "auto" else int(self.contamination)

    def of_clean(self, n_vectors):
        """What is known of the clean vectors as a whole: their number, and a rank."""
        single = self.n_subspaces == 1 and np.ndim(self.rank) == 0
        n_clean = None
        if self.contamination != "auto":
            n_clean = n_vectors - resolve_contamination(self.contamination, n_vectors)
        return {"n_clean": n_clean, "rank": self.rank if single else None}

    def cluster_size(self, n_clean):
        """Least size of a cluster: more vectors than its subspace has dimensions."""
        if self.n_subspaces is not None and self.n_subspaces > n_clean:
            raise ValueError(
                f"n_subspaces={self.n_subspaces} must not exceed the number of vectors taken for"
                f" clean, {n_clean}; lower n_subspaces or contamination={self.contamination!r}."
            )
        largest = 0 if self.rank is None else int(np.max(self.rank))
        return largest + 1 + self.affine

    def starts(self):
        """What was given, and many pieces, which are joined where they are one.

        A wrong number must not spoil the repairs. Where damaged vectors link the clusters of a
        graph, their number cannot be read off it, but small pieces are still pure.
        """
        pieces = Given(
            contamination=self.contamination, seed=self.seed, n_jobs=self.n_jobs, pieces=_PIECES
        )
        return [self, pieces] if self.is_explicit else [pieces]


def detect(X, detector, contamination, *, seed, n_jobs):
    """Stage 1: True where a vector is permuted."""
    if len(X) < 2:
        return np.zeros(len(X), dtype=bool)
    if isinstance(detector, str):
        detector = SelfRepresentationDetector(contamination, n_jobs=n_jobs)
    else:
        given = {}
        if contamination != "auto":
            # Other detectors take a share.
            given["contamination"] = resolve_contamination(contamination, len(X)) / len(X)
        detector = own_stage(detector, seed, given)
    mask = _check_stage("detector", detector.fit_predict(X), len(X)) == -1
    if mask.all():
        raise ValueError(
            f"the detector flagged all {len(X)} vectors, which leaves none to learn from;"
            " lower contamination."
        )
    return mask


def cluster(X, clusterer, n_subspaces, *, min_size, affine, seed, n_jobs):
    """Stage 2, first half: labels from 0 without gaps, -1 where the clusterer gives none."""
    if len(X) < 2:
        return np.zeros(len(X), dtype=np.int64)
    given = {} if n_subspaces is None else {"n_clusters": n_subspaces}
    if isinstance(clusterer, str):
        kind = CLUSTERERS["elastic-net" if clusterer == "model" else clusterer]
        clusterer = kind(min_size=min_size, random_state=seed).set_params(**given)
        if "n_jobs" in clusterer.get_params():
            clusterer.set_params(n_jobs=n_jobs)
        # Lengths say nothing about which linear subspace a vector lies in.
        X = X if affine else unit_rows(X)
    else:
        clusterer = own_stage(clusterer, seed, given)
    labels = _check_stage("clusterer", clusterer.fit_predict(X), len(X)).astype(np.int64)
    clustered = labels >= 0
    if not clustered.any():
        raise ValueError("the clusterer left out every vector (label -1); give it other options.")
    labels[clustered] = np.unique(labels[clustered], return_inverse=True)[1]
    return labels


def own_stage(stage, seed, given=None):
    """Copy a user's own stage, and hand down what PMSDR was given if it has such a parameter.

    The seed too, unless the stage has its own: the same `random_state`, the same answer.
    """
    stage = clone(stage, safe=False)
    known = stage.get_params() if hasattr(stage, "get_params") else {}
    given = dict(given or {})
    if known.get("random_state", seed) is None:
        given["random_state"] = seed
    accepted = {name: value for name, value in given.items() if name in known}
    return stage.set_params(**accepted) if accepted else stage


def _check_stage(name, labels, n_vectors):
    """One label per vector, or a sentence that names the stage."""
    labels = np.asarray(labels)
    if labels.shape != (n_vectors,):
        raise ValueError(
            f"{name}.fit_predict returned an array of shape {labels.shape} for {n_vectors}"
            " vectors; it must return one label for each."
        )
    return labels


def match_ranks(X, labels, rank):
    """Give the ranks of a list to the clusters where they leave the least residual in all."""
    if np.ndim(rank) == 0:
        return rank
    n_clusters = int(labels.max()) + 1
    energy = np.zeros((n_clusters, len(rank)))
    for k in range(n_clusters):
        values = np.linalg.svd(X[labels == k], compute_uv=False) ** 2
        energy[k] = [values[r:].sum() / max(values.sum(), 1e-300) for r in rank]
    _, chosen = linear_sum_assignment(energy)
    return [int(rank[i]) for i in chosen]
