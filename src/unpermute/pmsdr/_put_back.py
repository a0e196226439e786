"""Stages 3 and 4 together: where permuted vectors belong, and what they become."""

from dataclasses import dataclass

import numpy as np

from unpermute._progress import on_progress
from unpermute.classify._recovery import recover_everywhere, starts_for
from unpermute.numerics.parallel import map_blocks
from unpermute.recover import recover_vectors
from unpermute.recover._pl import pl
from unpermute.recover._problem import RecoveryProblem, RecoverySolution
from unpermute.recover._recover import finish

__all__ = ["Repaired", "put_back"]

# Starts per vector of up to 100 entries and subspace; the search stops earlier wherever it can
# certify its answer.
_MAX_STARTS = 2000
# Permuted vectors that are worked on at once.
_BLOCK = 2048
# Differences of evidence, in nats, that mean little where nothing is certified.
_DOUBT = 4.0


@dataclass(frozen=True)
class Repaired:
    """The matrix with its permuted vectors put back, and what is known about every vector.

    Attributes
    ----------
    X : ndarray of shape (n_vectors, n_features)
    labels : ndarray of shape (n_vectors,)
    permutations : ndarray of shape (n_vectors, n_features)
    confidence : ndarray of shape (n_vectors,)
    entry_confidence : ndarray of shape (n_vectors, n_features)
    """

    X: np.ndarray
    labels: np.ndarray
    permutations: np.ndarray
    confidence: np.ndarray
    entry_confidence: np.ndarray

    @classmethod
    def untouched(cls, X, labels):
        """Every vector as it stands."""
        # Small types: for very many vectors these matrices are most of the memory.
        kind = np.int16 if X.shape[1] <= np.iinfo(np.int16).max else np.int32
        places = np.tile(np.arange(X.shape[1], dtype=kind), (len(X), 1))
        sure = np.ones(X.shape, dtype=np.float32)
        return cls(X.copy(), labels.copy(), places, np.ones(len(X)), sure)


def put_back(
    X, mask, labels, bases, offsets, *, classify, recoverer, output, min_confidence, noise_scale,
    seed, n_jobs,
):  # fmt: skip
    """Classify and recover the vectors of `mask`; all others stay as they are."""
    repaired = Repaired.untouched(X, labels)
    rows = np.flatnonzero(mask)
    options = {
        "recoverer": recoverer, "output": output, "min_confidence": min_confidence,
        "noise_scale": noise_scale, "seed": seed,
    }  # fmt: skip
    if len(rows) <= _BLOCK:
        # Threads inside the block, where progress is seen.
        _put_back_block(repaired, X, rows, bases, offsets, classify(X[rows]), n_jobs, **options)
        return repaired

    def work(start, stop):
        block = rows[start:stop]
        with on_progress(_ignore):
            own = classify(X[block])
            _put_back_block(repaired, X, block, bases, offsets, own, 1, **options)

    # Functions of the user's own need not stand threads.
    alone = not isinstance(recoverer, str)
    map_blocks(work, len(rows), block=_BLOCK, stage="recover", n_jobs=1 if alone else n_jobs)
    return repaired


def _ignore(stage, done, total):
    """Progress inside a block is not that of the whole."""


def _put_back_block(
    repaired, X, rows, bases, offsets, own, n_jobs, *, recoverer, output, min_confidence,
    noise_scale, seed,
):  # fmt: skip
    """Recover the vectors `rows`, in the subspaces `own` (None: wherever it works)."""
    if len(rows) == 0:
        return
    found = None
    max_starts = starts_for(X.shape[1], _MAX_STARTS)
    if own is None:
        found = recover_everywhere(
            X[rows], bases, offsets, noise_scale=noise_scale, max_starts=max_starts, seed=seed,
            n_jobs=n_jobs,
        )  # fmt: skip
        own = found.labels
    repaired.labels[rows] = own
    for k in np.unique(own):
        mine = np.flatnonzero(own == k)
        problem = RecoveryProblem(
            X[rows[mine]], bases[k], offsets[k], np.zeros(X.shape[1], dtype=np.int64),
            noise_scale=noise_scale, max_starts=max_starts, seed=seed, n_jobs=n_jobs,
        )  # fmt: skip
        if found is not None and recoverer == "search":
            solution = RecoverySolution(
                found.coefficients[mine, : bases[k].shape[1]], found.certain[mine]
            )
            result = finish(problem, solution)
        else:
            result = _recover(problem, recoverer)
        certain = result.confidence >= min_confidence
        fallback = None
        if found is not None and output == "subspace":
            fallback = _fallback(problem, found, mine, bases, offsets)
        _enter(repaired, rows[mine], result, certain, output, problem, fallback)


def _recover(problem, recoverer):
    """Recover vectors whose subspace is known by a method's name, or by a callable."""
    options = {
        "offset": problem.offset if problem.offset.any() else None,
        "noise_scale": problem.noise_scale,
        "random_state": problem.seed,
        "n_jobs": problem.n_jobs,
    }
    if isinstance(recoverer, str):
        return recover_vectors(problem.Y, problem.basis, method=recoverer, **options)
    return recoverer(problem.Y, problem.basis, **options)


def _enter(repaired, rows, result, certain, output, problem, fallback):
    """Write the vectors of one subspace into the result."""
    moved = np.take_along_axis(problem.Y, result.permutations, axis=1)
    repaired.confidence[rows] = result.confidence
    repaired.entry_confidence[rows] = result.entry_confidence
    repaired.permutations[rows[certain]] = result.permutations[certain]
    if output == "values":
        repaired.X[rows[certain]] = moved[certain]
    elif output == "subspace":
        fitted = result.fitted
        if fallback is not None:
            fitted = np.where(certain[:, None], fitted, fallback)
        repaired.X[rows] = fitted
    else:
        repaired.X[rows] = _blend(problem, result, certain, moved)


def _fallback(problem, found, mine, bases, offsets):
    """Mean of the projections on all subspaces, weighed by their evidence: never a wild guess."""
    evidence = found.evidence[mine]
    weights = np.exp((evidence - evidence.max(axis=1, keepdims=True)) / _DOUBT)
    weights /= weights.sum(axis=1, keepdims=True)
    Y = np.where(np.isnan(problem.Y), 0.0, problem.Y)
    total = np.zeros_like(Y)
    for k, (basis, offset) in enumerate(zip(bases, offsets, strict=True)):
        total += weights[:, [k]] * (((Y - offset) @ basis) @ basis.T + offset)
    return total


def _blend(problem, result, certain, moved):
    """Least expected squared error: observed and fitted value weighed per entry.

    Values that were moved back with confidence count as observed; elsewhere the weight is the
    posterior probability of being in place (pseudo-likelihood).
    """
    solution = pl(problem)
    weights = solution.info["weights"]
    fitted = solution.coefficients @ problem.basis.T + problem.offset
    observed = np.where(np.isnan(problem.Y), fitted, problem.Y)
    blended = weights * observed + (1.0 - weights) * fitted
    values = np.where(np.isnan(moved), result.fitted, moved)
    return np.where(certain[:, None], values, blended)
