"""`recover_vectors`, which calls all recoverers, and the result that they share."""

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from unpermute._validation import (
    Integral,
    Interval,
    Real,
    check_basis,
    check_option,
    check_vectors,
    validate_params,
)
from unpermute._words import counted
from unpermute.numerics.certificate import certify
from unpermute.numerics.permutations import match_values
from unpermute.numerics.units import in_unit, unit_of
from unpermute.recover._aiem import aiem
from unpermute.recover._assignment import assign_groups
from unpermute.recover._branch_and_bound import branch_and_bound
from unpermute.recover._confidence import entry_confidence, vector_confidence
from unpermute.recover._l1 import l1
from unpermute.recover._lsrf import lsrf
from unpermute.recover._pl import pl
from unpermute.recover._problem import RecoveryProblem
from unpermute.recover._search import search

__all__ = ["RECOVERERS", "RecoveryResult", "finish_recovery", "recover_vectors"]

# name -> function(RecoveryProblem) -> RecoverySolution
RECOVERERS = {
    "search": search,
    "lsrf": lsrf,
    "l1": l1,
    "pl": pl,
    "aiem": aiem,
    "branch-and-bound": branch_and_bound,
}
# Starts per vector where the search is only one of several starts.
_STARTS_IN_GROUPS = 2000


@dataclass(frozen=True)
class RecoveryResult:
    """Vectors put back in order.

    Attributes
    ----------
    coefficients : ndarray of shape (n_vectors, rank)
        Coordinates in the basis.
    fitted : ndarray of shape (n_vectors, n_features)
        ``coefficients @ basis.T + offset``.
    permutations : ndarray of shape (n_vectors, n_features)
        ``np.take_along_axis(Y, permutations, axis=1)`` is every vector put back in order.
    cost : ndarray of shape (n_vectors,)
        Root mean square difference between the moved values and the fitted ones, in units of the
        scale if that was given.
    confidence : ndarray of shape (n_vectors,)
        Probability that the fitted vector is right (relative error below 5%).
    entry_confidence : ndarray of shape (n_vectors, n_features)
        Probability that the value put into a place is right, up to the noise.
    converged : ndarray of bool of shape (n_vectors,)
        Whether the method's own stopping rule was met.
    info : dict
        ``evidence`` (see :mod:`unpermute.numerics.certificate`) and what the method adds, for
        instance its optimality gap.

    Examples
    --------
    >>> import numpy as np
    >>> from unpermute.recover import recover_vectors
    >>> basis = np.linalg.qr(np.random.default_rng(0).standard_normal((12, 2)))[0]
    >>> truth = basis @ [3.0, -1.0]
    >>> shuffled = np.r_[truth[2], truth[0], truth[1], truth[3:]]
    >>> result = recover_vectors([shuffled], basis, random_state=0)
    >>> bool(np.allclose(shuffled[result.permutations[0]], truth))
    True
    """

    coefficients: np.ndarray
    fitted: np.ndarray
    permutations: np.ndarray
    cost: np.ndarray
    confidence: np.ndarray
    entry_confidence: np.ndarray
    converged: np.ndarray
    info: dict[str, Any] = field(default_factory=dict)

    def __repr__(self):
        n_vectors, n_features = self.fitted.shape
        vectors = f"{counted(n_vectors, 'vector')} of {n_features:,} entries"
        return f"RecoveryResult: {vectors}, {np.sum(self.converged):,} converged"


@validate_params(
    {
        "shuffled_ratio": [None, Interval(Real, 0, 1, closed="both")],
        "noise_scale": [None, Interval(Real, 0, None, closed="left")],
        "max_starts": [None, Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "n_jobs": [None, Integral],
    },
    prefer_skip_nested_validation=True,
)
def recover_vectors(
    Y,
    basis,
    *,
    method="search",
    offset=None,
    scale=None,
    blocks=None,
    groups=None,
    shuffled_ratio=None,
    noise_scale=None,
    max_starts=None,
    random_state=None,
    n_jobs=None,
):
    r"""Find coefficients and permutation of every vector, given the basis of its subspace.

    Every vector is :math:`y = \Pi (U x + b) + \varepsilon` with an unknown permutation
    :math:`\Pi`; wanted are x and Π.

    Parameters
    ----------
    Y : array-like of shape (n_vectors, n_features)
        Vectors, permuted or not. A missing entry (NaN) may have moved like any other.
    basis : array-like of shape (n_features, rank)
        Orthonormal basis of their common subspace.
    method : str, default="search"
        "search": coefficients and permutation together, certified where possible. "lsrf": least
        squares, drop the worst entry, until rank + 1 entries remain (the paper's). "l1": least
        absolute deviations. "pl": pseudo-likelihood. "aiem": algebraic, for vectors shuffled
        completely, rank at most 4. "branch-and-bound": exact, small ranks. The page "Choosing a
        recoverer" compares them.
    offset : array-like of shape (n_features,), default=None
        Offset b of an affine subspace.
    scale : array-like of shape (n_features,), default=None
        Standard deviation of the noise of every place, up to a common factor, where places have
        units of their own. The fit is then weighted, and values are matched to places by solving
        an assignment problem, in time that grows with the cube of the largest block.
    blocks : array-like of shape (n_features,), default=None
        Names of blocks: entries only move between places of the same block.
    groups : array-like of shape (n_vectors,), default=None
        Names of groups: the vectors of a group share one permutation, found by what they cost
        together.
    shuffled_ratio : float in [0, 1], default=None
        Share of the entries that may have moved, if known.
    noise_scale : float, default=None
        Standard deviation of the noise of an entry, if known; in units of `scale` if that is
        given.
    max_starts : int, default=None
        Budget of starts per vector ("search", "aiem") or of boxes ("branch-and-bound"). "search"
        tries the most promising vectors first, learns from those it found what share of entries to
        expect moved, and stops when it certifies fewer than one vector in twenty.
    random_state : int, RandomState instance or None, default=None
        Seeds the starts; those of a vector do not depend on its position.
    n_jobs : int, default=None
        Threads; the result does not depend on it.

    Returns
    -------
    RecoveryResult
        Coefficients, fitted vectors, permutations, their cost and confidence.

    Examples
    --------
    >>> import numpy as np
    >>> from unpermute.recover import recover_vectors
    >>> basis = np.linalg.qr(np.vander(np.linspace(0, 1, 12), 2))[0]  # straight lines
    >>> line = np.arange(12.0)[None]
    >>> shuffled = line[:, [0, 1, 7, 3, 4, 5, 6, 2, 8, 9, 10, 11]]
    >>> result = recover_vectors(shuffled, basis, random_state=0)
    >>> np.take_along_axis(shuffled, result.permutations, axis=1)
    array([[ 0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11.]])
    """
    Y = check_vectors(Y, name="Y", allow_nan=True, min_features=2)
    basis = check_basis(basis, Y.shape[1])
    solve = check_option("method", method, RECOVERERS)
    offset = _check_offset(offset, Y.shape[1])
    problem = RecoveryProblem(
        Y,
        basis,
        offset,
        _check_blocks(blocks, Y.shape[1]),
        shuffled_ratio=shuffled_ratio,
        noise_scale=noise_scale,
        max_starts=max_starts,
        seed=int(check_random_state(random_state).randint(2**31 - 1)),
        n_jobs=n_jobs,
    )
    scale = _check_scale(scale, Y.shape[1])
    groups = _check_groups(groups, len(Y))
    unit = unit_of(Y, problem.offset)
    problem = _in_unit(problem, unit)
    if np.all(scale == scale[0]):
        result = _recover_one_unit(problem, solve, groups, scale[0])
    else:
        result = _recover_groups(problem, solve, groups, scale)
    return result if unit == 1.0 else replace(
        result, coefficients=result.coefficients * unit, fitted=result.fitted * unit,
        cost=result.cost * unit,
    )  # fmt: skip


def _in_unit(problem, unit):
    """The same problem with vectors whose squares neither vanish nor overflow."""
    if unit == 1.0:
        return problem
    noise = None if problem.noise_scale is None else problem.noise_scale / unit
    return replace(
        problem, Y=in_unit(problem.Y, unit), offset=in_unit(problem.offset, unit), noise_scale=noise
    )


def _recover_one_unit(problem, solve, groups, unit):
    """Only vectors that share their permutation with others need an assignment problem."""
    if problem.noise_scale is not None:
        problem = replace(problem, noise_scale=problem.noise_scale * unit)
    alone = np.bincount(groups)[groups] == 1
    if alone.all():
        result = finish_recovery(problem, solve(problem))
        return replace(result, cost=result.cost / unit)
    parts = []
    if alone.any():
        part = replace(problem, Y=problem.Y[alone])
        parts.append((np.flatnonzero(alone), finish_recovery(part, solve(part))))
    part = replace(problem, Y=problem.Y[~alone])
    numbers = np.unique(groups[~alone], return_inverse=True)[1]
    pooled = _recover_groups(part, solve, numbers, np.ones(part.Y.shape[1]))
    result = _merge([*parts, (np.flatnonzero(~alone), pooled)])
    return replace(result, cost=result.cost / unit)


def _recover_groups(problem, solve, groups, scale):
    """Solve every vector alone, then every group from there, and weigh the pooled evidence."""
    Y, basis = problem.Y, problem.basis
    alone = problem
    if solve is search and problem.max_starts is None:
        alone = replace(problem, max_starts=_STARTS_IN_GROUPS)
    solution = solve(alone)
    found = assign_groups(problem, solution.coefficients, groups, scale)
    fitted = found.coefficients @ basis.T + problem.offset
    # E‖U(x̂ − x)‖² = σ² tr (Uᵀ S⁻² U)⁻¹: the noise that one unit would need for the same error.
    inflation = np.trace(np.linalg.pinv((basis / scale[:, None] ** 2).T @ basis)) / basis.shape[1]
    variance = found.residual
    if problem.noise_scale is not None:
        variance = np.maximum(variance, problem.noise_scale**2)
    confidence = vector_confidence(
        found.evidence, variance * inflation, None, fitted, basis.shape[1]
    )
    moved = np.take_along_axis(Y, found.permutations, axis=1) / scale
    in_place = np.broadcast_to(np.arange(Y.shape[1]), Y.shape)
    observed = np.maximum(np.sum(~np.isnan(Y), axis=1), 1)
    return RecoveryResult(
        found.coefficients,
        fitted,
        found.permutations,
        np.sqrt(np.nansum((moved - fitted / scale) ** 2, axis=1) / observed),
        confidence,
        entry_confidence(moved, fitted / scale, in_place, confidence, np.sqrt(found.residual)),
        found.certain,
        {**solution.info, "evidence": found.evidence},
    )


def _merge(parts):
    """One result of several, each with the rows it belongs to."""
    order = np.argsort(np.concatenate([rows for rows, _ in parts]))
    results = [result for _, result in parts]
    names = [f.name for f in fields(RecoveryResult) if f.name != "info"]
    arrays = {
        name: np.concatenate([getattr(result, name) for result in results])[order] for name in names
    }
    info = {
        key: np.concatenate([result.info[key] for result in results])[order]
        for key in results[0].info
    }
    return RecoveryResult(**arrays, info=info)


def finish_recovery(problem, solution):
    """Match the values, weigh the evidence, and put everything into one result.

    Parameters
    ----------
    problem : RecoveryProblem
        Vectors of one unit, each with a permutation of its own.
    solution : RecoverySolution
        What a recoverer found.

    Returns
    -------
    RecoveryResult
        Coefficients, fitted vectors, permutations, their cost and confidence.
    """
    Y = problem.Y
    fitted = solution.coefficients @ problem.basis.T + problem.offset
    permutations, cost = match_values(
        Y, fitted, noise_scale=problem.noise_scale, blocks=problem.blocks, n_jobs=problem.n_jobs
    )
    evidence, residual = certify(
        Y,
        problem.basis,
        problem.offset,
        problem.blocks,
        solution.coefficients,
        n_jobs=problem.n_jobs,
    )
    confidence = vector_confidence(
        evidence, residual, problem.noise_scale, fitted, problem.basis.shape[1]
    )
    return RecoveryResult(
        solution.coefficients,
        fitted,
        permutations,
        cost,
        confidence,
        entry_confidence(Y, fitted, permutations, confidence, np.sqrt(residual)),
        solution.converged,
        {**solution.info, "evidence": evidence},
    )


def _check_offset(offset, n_features):
    if offset is None:
        return np.zeros(n_features)
    offset = check_vectors([offset], name="offset")[0]
    if len(offset) != n_features:
        raise ValueError(
            f"offset has {len(offset)} entries, but the vectors have {n_features} features."
        )
    return offset


def _check_blocks(blocks, n_features):
    """Number the blocks from 0."""
    if blocks is None:
        return np.zeros(n_features, dtype=np.int64)
    blocks = np.asarray(blocks)
    if blocks.shape != (n_features,):
        raise ValueError(
            f"blocks has shape {blocks.shape}, but must name the block of each of the"
            f" {n_features} features."
        )
    return np.unique(blocks, return_inverse=True)[1].astype(np.int64)


def _check_scale(scale, n_features):
    if scale is None:
        return np.ones(n_features)
    scale = check_vectors([scale], name="scale")[0]
    if len(scale) != n_features:
        raise ValueError(
            f"scale has {len(scale)} entries, but the vectors have {n_features} features."
        )
    if scale.min() <= 0:
        raise ValueError(
            f"scale must be positive, but entry {scale.argmin()} is {scale.min()};"
            " it is the standard deviation of the noise of a place."
        )
    return scale


def _check_groups(groups, n_vectors):
    """Number the groups from 0; without groups, every vector is its own."""
    if groups is None:
        return np.arange(n_vectors)
    groups = np.asarray(groups)
    if groups.shape != (n_vectors,):
        raise ValueError(
            f"groups has shape {groups.shape}, but must name the group of each of the"
            f" {n_vectors} vectors."
        )
    missing = [i for i, name in enumerate(groups.tolist()) if name is None or name != name]
    if missing:
        raise ValueError(f"groups names no group for vector {missing[0]}: it is missing (NaN).")
    return np.unique(groups, return_inverse=True)[1]
