"""Stages 3 and 4 together: where permuted vectors belong, and what they become."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from unpermute._progress import on_progress
from unpermute.numerics.parallel import map_blocks
from unpermute.recover import (
    RecoveryProblem,
    RecoverySolution,
    pl,
    recover_everywhere,
    recover_vectors,
    starts_for,
)
from unpermute.recover import finish_recovery as finish

__all__ = ["Repaired", "put_back", "recover_by"]

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
    status : ndarray of str of shape (n_vectors,)
    damage_probability, expected_error : ndarray of shape (n_vectors,)
    certified, odd : ndarray of bool of shape (n_vectors,)
        Whether the order is proven; whether a vector is unlike clean ones, repaired or not.
    """

    X: np.ndarray
    labels: np.ndarray
    permutations: np.ndarray
    confidence: np.ndarray
    entry_confidence: np.ndarray
    status: np.ndarray
    damage_probability: np.ndarray
    expected_error: np.ndarray
    certified: np.ndarray
    odd: np.ndarray

    @classmethod
    def untouched(cls, X, labels):
        """Every vector as it stands."""
        # Small types: for very many vectors these matrices are most of the memory.
        kind = np.int16 if X.shape[1] <= np.iinfo(np.int16).max else np.int32
        places = np.tile(np.arange(X.shape[1], dtype=kind), (len(X), 1))
        sure = np.ones(X.shape, dtype=np.float32)
        n = len(X)
        return cls(
            X.copy(), labels.copy(), places, np.ones(n), sure, np.full(n, "clean", dtype="<U9"),
            np.zeros(n), np.zeros(n), np.zeros(n, dtype=bool), np.zeros(n, dtype=bool),
        )  # fmt: skip

    def enter(self, rows, part):
        """Enter what is known of some vectors."""
        for field in fields(self):
            getattr(self, field.name)[rows] = getattr(part, field.name)

    def decide(self, mask, min_confidence):
        """Enter the status of vectors that are known to be permuted or clean."""
        certain = self.confidence >= min_confidence
        self.status[mask] = np.where(certain, "recovered", "uncertain")[mask]
        self.damage_probability[mask] = 1.0
        self.odd[:] = mask
        return self


def put_back(
    X, mask, labels, bases, offsets, *, classify, recoverer, output, min_confidence, noise_scale,
    seed, n_jobs,
):  # fmt: skip
    """Classify and recover the vectors of `mask`; all others stay as they are."""
    repaired = Repaired.untouched(X, labels)
    rows = np.flatnonzero(mask)
    work = _Work(repaired, X, bases, offsets, recoverer, output, min_confidence, noise_scale, seed)

    def put_back_block(rows, n_jobs):
        own = classify(X[rows])
        if own is None:
            work.everywhere(rows, n_jobs)
        else:
            work.within(rows, own, n_jobs)

    if len(rows) <= _BLOCK:
        # Threads inside the block, where progress is seen.
        put_back_block(rows, n_jobs)
        return repaired

    def part(start, stop):
        with on_progress(_ignore):
            put_back_block(rows[start:stop], 1)

    # Functions of the user's own need not stand threads.
    alone = not isinstance(recoverer, str)
    map_blocks(part, len(rows), block=_BLOCK, stage="recover", n_jobs=1 if alone else n_jobs)
    return repaired


def _ignore(stage, done, total):
    """Progress inside a block is not that of the whole."""


@dataclass(frozen=True)
class _Work:
    """What recovering a vector takes; results are entered into `repaired`."""

    repaired: Repaired
    X: np.ndarray
    bases: list[np.ndarray]
    offsets: list[np.ndarray]
    recoverer: Any
    output: str
    min_confidence: float
    noise_scale: float | None
    seed: int

    def everywhere(self, rows, n_jobs):
        """Recover vectors wherever it works."""
        if len(rows) == 0:
            return
        found = recover_everywhere(
            self.X[rows], self.bases, self.offsets, noise_scale=self.noise_scale,
            max_starts=starts_for(self.X.shape[1], _MAX_STARTS), seed=self.seed, n_jobs=n_jobs,
        )  # fmt: skip
        for k in np.unique(found.labels):
            mine = np.flatnonzero(found.labels == k)
            problem = self._problem(rows[mine], k, n_jobs)
            result = self._result(problem, found, mine)
            fallback = None
            if self.output == "subspace":
                fallback = _fallback(problem, found, mine, self.bases, self.offsets)
            self._enter(rows[mine], k, result, problem, fallback)

    def within(self, rows, own, n_jobs):
        """Recover every vector in its own subspace."""
        for k in np.unique(own):
            mine = rows[own == k]
            problem = self._problem(mine, k, n_jobs)
            result = self._result(problem)
            self._enter(mine, k, result, problem, None)

    def _problem(self, rows, k, n_jobs):
        return RecoveryProblem(
            self.X[rows], self.bases[k], self.offsets[k],
            np.zeros(self.X.shape[1], dtype=np.int64), noise_scale=self.noise_scale,
            max_starts=starts_for(self.X.shape[1], _MAX_STARTS), seed=self.seed, n_jobs=n_jobs,
        )  # fmt: skip

    def _result(self, problem, found=None, mine=slice(None)):
        """Finish what the search found in all subspaces, or recover in the problem's own."""
        if self.recoverer != "search":
            return recover_by(
                self.recoverer, problem.Y, problem.basis, problem.offset,
                noise_scale=problem.noise_scale, seed=problem.seed, n_jobs=problem.n_jobs,
            )  # fmt: skip
        if found is None:
            found = recover_everywhere(
                problem.Y, [problem.basis], [problem.offset], noise_scale=problem.noise_scale,
                max_starts=problem.max_starts,
                seed=problem.seed, n_jobs=problem.n_jobs,
            )  # fmt: skip
        rank = problem.basis.shape[1]
        return finish(
            problem, RecoverySolution(found.coefficients[mine, :rank], found.certain[mine])
        )

    def _enter(self, rows, k, result, problem, fallback):
        """Write vectors of subspace k into the result."""
        repaired, certain = self.repaired, result.confidence >= self.min_confidence
        settled = rows[certain]
        moved = np.take_along_axis(self.X[rows], result.permutations, axis=1)
        repaired.labels[rows] = k
        repaired.confidence[rows] = result.confidence
        repaired.entry_confidence[rows] = result.entry_confidence
        repaired.permutations[settled] = result.permutations[certain]
        if self.output == "values":
            repaired.X[settled] = moved[certain]
            return
        if self.output == "subspace":
            fitted = result.fitted
            if fallback is not None:
                fitted = np.where(certain[:, None], fitted, fallback)
        else:
            fitted = _blend(problem, result, certain, moved)
        repaired.X[rows] = fitted


def recover_by(recoverer, Y, basis, offset, *, noise_scale, seed, n_jobs):
    """Recover vectors whose subspace is known by a method's name, or by a callable."""
    options = {
        "offset": offset if offset.any() else None,
        "noise_scale": noise_scale,
        "random_state": seed,
        "n_jobs": n_jobs,
    }
    if isinstance(recoverer, str):
        return recover_vectors(Y, basis, method=recoverer, **options)
    return recoverer(Y, basis, **options)


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

    The weight of a value that was moved back with confidence is that confidence, of any other the
    posterior probability of being in place (pseudo-likelihood).
    """
    solution = pl(problem)
    fitted = solution.coefficients @ problem.basis.T + problem.offset
    fitted = np.where(certain[:, None], result.fitted, fitted)
    trusted = certain[:, None] & (moved != problem.Y)
    weights = np.where(trusted, result.entry_confidence, solution.info["weights"])
    values = np.where(certain[:, None], moved, problem.Y)
    return np.where(np.isnan(values), fitted, weights * values + (1.0 - weights) * fitted)
