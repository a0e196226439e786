r"""Refinement: which vectors are clean, and the subspaces they span, until nothing changes.

A vector is clean if its distance to a subspace is what the noise explains. The subspaces are
fitted to the clean vectors, so each vector is judged by a basis it did not shape: with leverage
:math:`h_j = x_j^\top (X_k^\top X_k)^{-1} x_j` (within the subspace), the residual of a vector
that took part in the fit is too small by :math:`\sqrt{1 - h_j}`, that of any other too large by
:math:`\sqrt{1 + h_j}`. What remains, divided by the noise, is a χ variable.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2
from sklearn.exceptions import ConvergenceWarning

from unpermute.numerics.permutations import match_values
from unpermute.numerics.subspaces import fit_subspace
from unpermute.pmsdr._distances import fill_missing
from unpermute.recover import recover_everywhere, starts_for

__all__ = ["Refiner", "Subspaces", "clean_limit", "noise_level", "relative_distances"]

_MAX_ROUNDS = 30
_ROUNDS_TO_MERGE = 3
_MAX_SETTLES = 10
# A vector farther from its subspace than this many standard deviations of the χ variable is not
# clean. Lightly shuffled vectors are much farther, clean ones never.
_DEVIATIONS = 6.0
# Singular values above the largest that noise alone would have, by this factor, are signal.
_ABOVE_NOISE = 1.3
# Share of recovered vectors below which more starts are not spent on helping the fit.
_WORTH_IT = 0.1
# Two clusters are one if so many members of the smaller lie within the noise of the larger.
_SHARED = 0.8
# A direction that a single vector defines says nothing about that vector.
_MAX_LEVERAGE = 0.95


@dataclass(frozen=True)
class Subspaces:
    """Bases, offsets and how well their members determine them.

    Attributes
    ----------
    bases : list of ndarray of shape (n_features, rank)
    offsets : list of ndarray of shape (n_features,)
    spreads : list of ndarray of shape (rank, rank)
        Inverse of the members' second moments in the basis, (X_kᵀ X_k)⁻¹.
    """

    bases: list[np.ndarray]
    offsets: list[np.ndarray]
    spreads: list[np.ndarray]


def fit_members(X, labels, ranks, *, method, affine):
    """Fit every subspace to the vectors that carry its label (−1: none)."""
    bases, offsets, spreads = [], [], []
    for k, rank in enumerate(ranks):
        members = X[labels == k]
        basis, offset = fit_subspace(members, rank, method=method, affine=affine)
        scores = (members - offset) @ basis
        if affine:
            scores = np.hstack([scores, np.ones((len(scores), 1))])
        moments = scores.T @ scores
        ridge = 1e-12 * max(np.trace(moments), 1e-300)
        bases.append(basis)
        offsets.append(offset)
        spreads.append(np.linalg.inv(moments + ridge * np.eye(len(moments))))
    return Subspaces(bases, offsets, spreads)


def relative_distances(X, subspaces, labels, n_features, *, max_leverage=np.inf):
    """Root mean square residual per degree of freedom, corrected for the vector's own influence.

    Parameters
    ----------
    X : ndarray of shape (n_vectors, n_features)
    subspaces : Subspaces
    labels : ndarray of shape (n_vectors,)
        Subspace whose fit a vector took part in; −1: none.
    n_features : int
        Number of entries of a vector, however many coordinates are given.
    max_leverage : float
        Largest leverage that excuses the distance of a vector that did not take part.

    Returns
    -------
    distances : ndarray of shape (n_vectors, n_subspaces)
        Infinite where a vector alone defines a direction of its subspace.
    """
    distances = np.empty((len(X), len(subspaces.bases)))
    parts = zip(subspaces.bases, subspaces.offsets, subspaces.spreads, strict=True)
    for k, (basis, offset, spread) in enumerate(parts):
        centred = X - offset
        scores = centred @ basis
        residual = np.linalg.norm(centred - scores @ basis.T, axis=1)
        if len(spread) > basis.shape[1]:
            scores = np.hstack([scores, np.ones((len(X), 1))])
        leverage = np.einsum("ij,jk,ik->i", scores, spread, scores)
        member = labels == k
        variance = np.where(member, 1.0 - leverage, 1.0 + np.minimum(leverage, max_leverage))
        degrees = n_features - basis.shape[1]
        distances[:, k] = residual / np.sqrt(degrees * np.maximum(variance, 1e-6))
        distances[member & (leverage > _MAX_LEVERAGE), k] = np.inf
    return distances


def noise_level(distances, n_degrees):
    """Robust standard deviation of the noise from the distances of clean vectors."""
    finite = distances[np.isfinite(distances)]
    if len(finite) == 0:
        return 0.0
    return float(np.median(finite) / np.sqrt(chi2.median(n_degrees) / n_degrees))


def clean_limit(noise, n_degrees, rounding):
    """Largest distance of a clean vector."""
    return noise * (1.0 + _DEVIATIONS / np.sqrt(2.0 * n_degrees)) + rounding


def refine(
    X, labels, ranks, *, n_features, method, affine, rounding, max_noise=np.inf,
    max_rounds=_MAX_ROUNDS,
):  # fmt: skip
    """Alternate fitting the subspaces and selecting their members until nothing changes.

    Parameters
    ----------
    X : ndarray of shape (n_vectors, n_features)
    labels : ndarray of shape (n_vectors,)
        First guess: subspace of every vector that seems clean, −1 for the others.
    ranks : sequence of int
        Dimension of every subspace.
    n_features : int
        Number of entries of a vector, however many coordinates are given.
    method : str
        How to fit a subspace.
    affine : bool
        Whether the subspaces have an offset.
    rounding : float
        Distance that counts as zero.
    max_rounds : int
        Rounds after which it stops in any case.

    Returns
    -------
    subspaces : Subspaces
    labels : ndarray of shape (n_vectors,)
        The members.
    noise : float
    """
    n_degrees = n_features - int(np.median(ranks))
    seen = set()
    for _ in range(max_rounds):
        subspaces = fit_members(X, labels, ranks, method=method, affine=affine)
        distances = relative_distances(X, subspaces, labels, n_features)
        members = labels >= 0
        own = distances[members, labels[members]]
        noise = min(noise_level(own, n_degrees), max_noise)
        nearest = distances.argmin(axis=1)
        clean = distances.min(axis=1) <= clean_limit(noise, n_degrees, rounding)
        updated = np.where(clean, nearest, -1)
        _keep_alive(updated, distances, np.array(ranks) + 1 + affine)
        key = updated.tobytes()
        if np.array_equal(updated, labels) or key in seen:
            break
        seen.add(key)
        labels = updated
    return subspaces, labels, noise


def _keep_alive(labels, distances, needed):
    """Give subspaces with fewer members than they need the nearest vectors, in place.

    Another subspace only gives away what it does not need itself.
    """
    sizes = np.bincount(labels[labels >= 0], minlength=len(needed))
    for k in np.flatnonzero(sizes < needed):
        for j in np.argsort(distances[:, k], kind="stable"):
            if sizes[k] == needed[k]:
                break
            owner = labels[j]
            if owner == k or (owner >= 0 and sizes[owner] <= needed[owner]):
                continue
            sizes[k] += 1
            if owner >= 0:
                sizes[owner] -= 1
            labels[j] = k


def estimate_ranks(X, labels, subspaces, noise, affine, n_features):
    """Number of singular values of every cluster that noise cannot explain.

    The largest singular value of an n × M matrix of noise is about σ(√n + √M).
    """
    ranks = []
    for k, offset in enumerate(subspaces.offsets):
        members = X[labels == k]
        centre = members.mean(axis=0) if affine else offset
        values = np.linalg.svd(members - centre, compute_uv=False)
        edge = _ABOVE_NOISE * noise * (np.sqrt(len(members)) + np.sqrt(n_features))
        largest = min(X.shape[1] - 1, len(members) - 1 - affine)
        ranks.append(int(np.clip(np.sum(values > edge), 1, max(largest, 1))))
    return ranks


def merge_equal(X, labels, subspaces, noise, rounding, n_features):
    """Give clusters the same label whose members lie in one subspace; return labels and order.

    Returns the new labels, and the old number of every new cluster.
    """
    ranks = np.array([basis.shape[1] for basis in subspaces.bases])
    distances = relative_distances(X, subspaces, np.full(len(X), -1), n_features)
    labels = labels.copy()
    kept: list[int] = []
    sizes = np.bincount(labels[labels >= 0], minlength=len(ranks))
    for k in np.lexsort((-sizes, -ranks)):
        members = labels == k
        if not members.any():
            continue
        for other in kept:
            limit = clean_limit(noise, n_features - ranks[other], rounding)
            if np.mean(distances[members, other] <= 1.5 * limit) > _SHARED:
                labels[members] = other
                break
        else:
            kept.append(int(k))
    kept.sort()
    renumbered = np.full(len(ranks), -1)
    renumbered[kept] = np.arange(len(kept))
    return np.where(labels >= 0, renumbered[labels], -1), kept


class Refiner:
    """Subspaces, members and noise, improved step by step.

    Parameters
    ----------
    X : ndarray of shape (n_vectors, n_features)
        The observed vectors; NaN where missing.
    labels : ndarray of shape (n_vectors,)
        First guess: subspace of every vector that seems clean, −1 for the others.
    ranks : sequence of int
        First guess of the dimensions.
    estimate_rank, merge : bool
        Whether the dimensions, and the number of subspaces, are to be estimated.
    method : str
        How to fit a subspace.
    affine : bool
        Whether the subspaces have an offset.
    rounding : float
        Distance that counts as zero.
    max_noise : float
        Largest noise that clean vectors may have.
    frame : ndarray of shape (n_features, n_coordinates) or None
        Orthonormal directions that span all vectors, if these are fewer than their entries.
    """

    def __init__(
        self, X, labels, ranks, *, estimate_rank, merge, method, affine, rounding,
        max_noise=np.inf, frame=None,
    ):  # fmt: skip
        self.X, self.labels, self.ranks = X, labels, [int(rank) for rank in ranks]
        self.estimate_rank, self.merge = estimate_rank, merge
        self.options = {
            "method": method, "affine": affine, "rounding": rounding, "max_noise": max_noise,
            "n_features": X.shape[1],
        }  # fmt: skip
        self.frame = frame
        self.incomplete = bool(np.isnan(X).any())
        self.subspaces = Subspaces([], [], [])
        self.sizes = self._count(labels)

    def settle(self):
        """Refine until members, dimensions and number of subspaces no longer change."""
        with warnings.catch_warnings():
            # Fits on the way need not converge: what counts is that the members no longer change.
            warnings.simplefilter("ignore", ConvergenceWarning)
            self._settle()

    def _settle(self):
        coordinates = None if self.frame is None else self.X @ self.frame
        for _ in range(_MAX_SETTLES):
            before = list(self.ranks), self.labels.copy()
            filled = coordinates
            if coordinates is None:
                filled = fill_missing(self.X, self.subspaces.bases, self.subspaces.offsets)
            self._step(filled)
            self.sizes = self._count(self.labels)
            same = before[0] == self.ranks and np.array_equal(before[1], self.labels)
            if same and not self.incomplete:
                break
        if coordinates is not None:
            bases, offsets, spreads = vars(self.subspaces).values()
            bases, offsets = ([self.frame @ part for part in parts] for parts in (bases, offsets))
            self.subspaces = Subspaces(bases, offsets, spreads)

    def _step(self, filled):
        """Members, then the number of subspaces, then their dimensions."""
        n_features = self.X.shape[1]
        # Clusters that are one subspace compete for members: merge them before they settle.
        max_rounds = _ROUNDS_TO_MERGE if self.merge else _MAX_ROUNDS
        self.subspaces, self.labels, self.noise = refine(
            filled, self.labels, self.ranks, max_rounds=max_rounds, **self.options
        )
        if self.merge:
            self.labels, kept = merge_equal(
                filled, self.labels, self.subspaces, self.noise, self.options["rounding"],
                n_features,
            )  # fmt: skip
            self.ranks = [self.ranks[k] for k in kept]
            self._fit(filled)
        if self.estimate_rank:
            self.ranks = estimate_ranks(
                filled, self.labels, self.subspaces, self.noise, self.options["affine"], n_features
            )

    def add_recovered(self, budgets, *, seed, n_jobs):
        """Recover the vectors that are not clean, and fit the subspaces again with those certain.

        Each budget of starts is spent on the vectors that are still uncertain, as long as it is
        worth it: some are, but not nearly all.
        """
        restored = np.array(fill_missing(self.X, self.subspaces.bases, self.subspaces.offsets))
        labels = self.labels.copy()
        for budget in budgets:
            rows = np.flatnonzero(labels < 0)
            if len(rows) == 0:
                break
            certain = self._restore(rows, restored, labels, budget, seed, n_jobs)
            self.subspaces = fit_members(
                restored, labels, self.ranks, method="svd", affine=self.options["affine"]
            )
            self.sizes = self._count(labels)
            if certain < _WORTH_IT * len(rows) or len(rows) - certain < _WORTH_IT * len(labels):
                break

    def _restore(self, rows, restored, labels, budget, seed, n_jobs):
        """Enter the vectors of `rows` that can be recovered; return how many."""
        found = recover_everywhere(
            self.X[rows], self.subspaces.bases, self.subspaces.offsets,
            noise_scale=self.noise * self._inflation(),
            max_starts=starts_for(self.X.shape[1], budget), seed=seed, n_jobs=n_jobs,
        )  # fmt: skip
        for k, (basis, offset) in enumerate(
            zip(self.subspaces.bases, self.subspaces.offsets, strict=True)
        ):
            mine = np.flatnonzero(found.certain & (found.labels == k))
            fitted = found.coefficients[mine, : basis.shape[1]] @ basis.T + offset
            Y = self.X[rows[mine]]
            orders, _ = match_values(Y, fitted, noise_scale=self.noise, n_jobs=n_jobs)
            moved = np.take_along_axis(Y, orders, axis=1)
            restored[rows[mine]] = np.where(np.isnan(moved), fitted, moved)
            labels[rows[mine]] = k
        return int(found.certain.sum())

    def distances_of(self, rows):
        """Distances of vectors to their nearest subspace; rounding counts as one distance."""
        filled = fill_missing(self.X, self.subspaces.bases, self.subspaces.offsets)
        distances = relative_distances(filled, self.subspaces, self.labels, self.X.shape[1])
        distances = distances[rows].min(axis=1)
        return np.maximum(distances, self.options["rounding"])

    def description_length(self):
        """Nats to describe the matrix by these subspaces, up to what all descriptions share.

        A member costs its residual at the noise and its coordinates at the spread of the data, any
        other vector all its entries at that spread; a basis costs its degrees of freedom, at the
        precision that as many members give. As many members as dimensions thus save nothing.
        """
        n_features = self.X.shape[1]
        spread = max(np.sqrt(np.nanmean(self.X**2)), 1e-300)
        noise = min(max(self.noise, self.options["rounding"], 1e-300), spread)
        ranks, sizes = np.array(self.ranks), np.maximum(self._count(self.labels), 1)
        saved = (sizes - ranks) * np.log(spread / noise) - 0.5 * ranks * np.log(sizes)
        return -np.sum((n_features - ranks) * saved)

    def limit(self):
        """Largest distance, as it stands, of a clean vector to its subspace."""
        n_degrees = self.X.shape[1] - max(self.ranks)
        return self._inflation() * clean_limit(self.noise, n_degrees, self.options["rounding"])

    def _inflation(self):
        """How much the uncertainty of the bases adds to the noise of a vector that did not help."""
        shares = np.array(self.ranks) / np.maximum(self.sizes, 1)
        return float(np.sqrt(1.0 + 2.0 * np.max(shares)))

    def _count(self, labels):
        return np.bincount(labels[labels >= 0], minlength=len(self.ranks))

    def _fit(self, filled):
        self.subspaces = fit_members(
            filled, self.labels, self.ranks,
            method=self.options["method"], affine=self.options["affine"],
        )  # fmt: skip
