r"""Recover vectors whose subspace is unknown: in every plausible one, the best certified wins.

Cheap tests first: subspaces are tried in the order of Algorithm 2's distance with the robust start
alone, which settles easy vectors in the first; what is left gets a few starts everywhere, and the
full budget where that looked best.
"""

from dataclasses import dataclass

import numpy as np

from unpermute._progress import report
from unpermute.classify._elimination import elimination_distances
from unpermute.recover._certificate import CERTAIN
from unpermute.recover._problem import RecoveryProblem
from unpermute.recover._search import search

__all__ = ["FoundVectors", "recover_everywhere"]

_FEW_STARTS = 120
# Subspaces that get the full budget.
_FINALISTS = 2


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
            problem = RecoveryProblem(
                Y[mine],
                bases[k],
                offsets[k],
                np.zeros(Y.shape[1], dtype=np.int64),
                noise_scale=noise_scale,
                max_starts=budget,
                seed=seed,
                n_jobs=n_jobs,
            )
            _keep_better(found, mine, k, search(problem))
        report("recover", int(found.certain.sum()), n)

    for position in range(n_subspaces):
        rows = np.flatnonzero(~found.certain)
        attempt(rows, order[rows, position], 0)
    rows = np.flatnonzero(~found.certain)
    if n_subspaces > 1:
        for k in range(n_subspaces):
            rows = np.flatnonzero(~found.certain)
            attempt(rows, np.full(len(rows), k), _FEW_STARTS)
    best = np.argsort(-found.evidence, axis=1)
    for position in range(min(_FINALISTS, n_subspaces)):
        rows = np.flatnonzero(~found.certain)
        attempt(rows, best[rows, position], max_starts)
    report("recover", n, n)
    return found


def _keep_better(found, rows, k, solution):
    """Enter the solutions of `rows` in subspace k where they beat what was found before."""
    evidence = solution.info["evidence"]
    for position, j in enumerate(rows):
        best = found.evidence[j, found.labels[j]]
        found.evidence[j, k] = max(found.evidence[j, k], evidence[position])
        if found.coefficients[j] is None or evidence[position] > best:
            found.labels[j] = k
            found.coefficients[j] = solution.coefficients[position]
        if solution.converged[position] and evidence[position] >= CERTAIN:
            found.certain[j] = True
