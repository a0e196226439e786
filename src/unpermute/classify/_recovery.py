r"""Classification by recovery: in every plausible subspace, the best certified answer wins.

Cheap tests first: subspaces are tried in the order of Algorithm 2's distance with the robust start
alone, which settles easy vectors in the first; what is left gets a few starts everywhere, and the
full budget where that looked best.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from unpermute._progress import report
from unpermute._validation import Integral, Interval, Real, StrOptions, validate_vectors
from unpermute.classify._elimination import EliminationClassifier, elimination_distances
from unpermute.numerics.search import search_vectors
from unpermute.numerics.subspaces import BASIS_METHODS

__all__ = ["FoundVectors", "RecoveryClassifier", "recover_everywhere"]

_FEW_STARTS = 120
# Subspaces that get the full budget.
_FINALISTS = 3


class RecoveryClassifier(EliminationClassifier):
    r"""Assign permuted vectors to the subspace in which they can be put back in order.

    For every subspace with basis :math:`U_k` search coefficients and permutation,
    :math:`y \approx \Pi U_k x`, and weigh the evidence :math:`e_k` that the fit is no accident
    (:mod:`unpermute.numerics.certificate`); :math:`\hat k = \arg\max_k e_k`. Subspaces are tried
    in the order of Algorithm 2's distance, and a certified answer ends it.

    Choose it when many entries of a vector moved: it uses their values, where
    :class:`EliminationClassifier` only uses the entries in place. It costs more.

    Parameters
    ----------
    rank : int, sequence of int, or None, default=None
        Dimension of the subspaces (one for all, or one each in the order of the sorted labels);
        None: by the largest gap of the singular values.
    basis : {"svd", "irls", "dpcp", "robust"}, default="robust"
        How a basis is fitted to the clean vectors of a class.
    affine : bool, default=False
        Whether the subspaces are affine.
    noise_scale : float, default=None
        Standard deviation of the noise of an entry, if known.
    max_starts : int, default=2000
        Budget of starts per vector and subspace.
    random_state : int, RandomState instance or None, default=None
        Seeds the starts.
    n_jobs : int, default=None
        Threads; the result does not depend on it.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    bases_ : list of ndarray of shape (n_features, rank)
        Orthonormal basis of each class.
    offsets_ : list of ndarray of shape (n_features,)
        Zeros unless `affine`.

    Examples
    --------
    >>> from unpermute.classify import RecoveryClassifier
    >>> from unpermute.datasets import make_permuted_subspaces
    >>> data = make_permuted_subspaces(3, 40, 30, 2, shuffled_ratio=0.6, random_state=0)
    >>> clean = ~data.outlier_mask
    >>> model = RecoveryClassifier(rank=2, random_state=0)
    >>> model.fit(data.X[clean], data.labels[clean]).score(data.X[~clean], data.labels[~clean])
    1.0
    """

    _parameter_constraints: ClassVar[dict] = {
        "rank": ["array-like", Interval(Integral, 1, None, closed="left"), None],
        "basis": [StrOptions(set(BASIS_METHODS))],
        "affine": ["boolean"],
        "noise_scale": [None, Interval(Real, 0, None, closed="neither")],
        "max_starts": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "n_jobs": [None, Integral],
    }

    def __init__(
        self,
        rank=None,
        *,
        basis="robust",
        affine=False,
        noise_scale=None,
        max_starts=2000,
        random_state=None,
        n_jobs=None,
    ):
        self.rank = rank
        self.basis = basis
        self.affine = affine
        self.noise_scale = noise_scale
        self.max_starts = max_starts
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X, y):
        """Fit one subspace to the clean vectors of every class.

        Parameters
        ----------
        X : array-like of shape (n_vectors, n_features)
            Vectors whose entries are in place.
        y : array-like of shape (n_vectors,)
            Their classes.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        super().fit(X, y)
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        return self

    def decision_function(self, X):
        """Return the evidence of every vector and class: larger means less of an accident.

        Parameters
        ----------
        X : array-like of shape (n_vectors, n_features)
            Vectors, permuted or not.

        Returns
        -------
        scores : ndarray of shape (n_vectors, n_classes) or (n_vectors,)
            −1000 where an earlier certified answer made it needless to look. For two classes the
            evidence of the second less that of the first, as scikit-learn has it.
        """
        check_is_fitted(self)
        X = validate_vectors(self, X, reset=False)
        found = recover_everywhere(
            X,
            self.bases_,
            self.offsets_,
            noise_scale=self.noise_scale,
            max_starts=self.max_starts,
            seed=self._seed,
            n_jobs=self.n_jobs,
        )
        evidence = np.maximum(found.evidence, -1e3)
        return evidence[:, 1] - evidence[:, 0] if len(self.classes_) == 2 else evidence


@dataclass
class FoundVectors:
    """Best solution of every vector over all subspaces.

    Attributes
    ----------
    labels : ndarray of shape (n_vectors,)
    coefficients : list of ndarray
        Of its own subspace.
    evidence : ndarray of shape (n_vectors, n_subspaces)
        −inf where a subspace was not tried.
    certain : ndarray of bool of shape (n_vectors,)
    """

    labels: np.ndarray
    coefficients: list
    evidence: np.ndarray
    certain: np.ndarray


def recover_everywhere(Y, bases, offsets, *, noise_scale, max_starts, seed, n_jobs=None):
    """Return the :class:`FoundVectors` of `Y`; each vector is treated as if it were alone."""
    n, n_subspaces = len(Y), len(bases)
    blocks = np.zeros(Y.shape[1], dtype=np.int64)
    filled = np.where(np.isnan(Y), 0.0, Y) if np.isnan(Y).any() else Y
    distances = elimination_distances(filled, bases, offsets, n_jobs=n_jobs)
    order = np.argsort(distances, axis=1)
    found = FoundVectors(
        order[:, 0].copy(), [None] * n, np.full((n, n_subspaces), -np.inf), np.zeros(n, dtype=bool)
    )

    def attempt(rows, columns, budget):
        """Search vectors `rows`, each in the subspace `columns`, and keep what is better."""
        for k in np.unique(columns):
            mine = rows[columns == k]
            coefficients, certain, evidence, _ = search_vectors(
                Y[mine],
                bases[k],
                offsets[k],
                blocks,
                noise_scale=noise_scale,
                max_starts=budget,
                seed=seed,
                n_jobs=n_jobs,
                stage="search",
            )
            _keep_better(found, mine, k, coefficients, certain, evidence)
        report("recover", int(found.certain.sum()), n)

    for position in range(n_subspaces):
        rows = np.flatnonzero(~found.certain)
        attempt(rows, order[rows, position], 0)
    if max_starts == 0:
        return found
    if n_subspaces > 1:
        for k in range(n_subspaces):
            rows = np.flatnonzero(~found.certain)
            attempt(rows, np.full(len(rows), k), _FEW_STARTS)
    # Evidence and distance err on different vectors: by the sum of both ranks.
    ranks = np.argsort(np.argsort(-found.evidence, axis=1), axis=1) + np.argsort(order, axis=1)
    best = np.argsort(ranks, axis=1, kind="stable")
    for position in range(min(_FINALISTS, n_subspaces)):
        rows = np.flatnonzero(~found.certain)
        attempt(rows, best[rows, position], max_starts)
    report("recover", n, n)
    return found


def _keep_better(found, rows, k, coefficients, certain, evidence):
    """Enter the solutions of `rows` in subspace k where they beat what was found before."""
    for position, j in enumerate(rows):
        best = found.evidence[j, found.labels[j]]
        found.evidence[j, k] = max(found.evidence[j, k], evidence[position])
        if found.coefficients[j] is None or evidence[position] > best:
            found.labels[j] = k
            found.coefficients[j] = coefficients[position]
        found.certain[j] |= certain[position]
