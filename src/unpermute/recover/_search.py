"""Search for coefficients and permutation together: see :mod:`unpermute.numerics.search`.

Choose it always, unless something is known that another method needs.
"""

from unpermute.numerics.search import search_vectors
from unpermute.recover._problem import RecoverySolution

__all__ = ["search"]


def search(problem):
    """Solve a :class:`RecoveryProblem`; converged where the evidence certifies the answer."""
    coefficients, certain, evidence, n_starts = search_vectors(
        problem.Y,
        problem.basis,
        problem.offset,
        problem.blocks,
        shuffled_ratio=problem.shuffled_ratio,
        noise_scale=problem.noise_scale,
        max_starts=problem.max_starts,
        seed=problem.seed,
        n_jobs=problem.n_jobs,
    )
    return RecoverySolution(coefficients, certain, {"evidence": evidence, "n_starts": n_starts})
