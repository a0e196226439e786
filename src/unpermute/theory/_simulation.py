"""Monte-Carlo of every quantity of Theorem 1, under the assumptions of the paper's appendix.

No noise; a uniformly distributed subspace; a uniformly distributed permutation of the last M₂
entries among those without fixed points and without 2-cycles; coefficients β ~ N(0, I / r).
"""

from typing import NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from unpermute._validation import Integral, Interval, check_rank, validate_params
from unpermute.theory._elimination_variances import coefficients_to_residuals
from unpermute.theory._setting import N_FEATURES, N_SHUFFLED, RANK, check_shuffled

__all__ = ["Simulation", "simulate_elimination"]

# Draws are made in stacks of about this many numbers: large enough for NumPy, small for the cache.
_STACK = 200_000


class Simulation(NamedTuple):
    """What :func:`simulate_elimination` draws: one row per draw."""

    variances: np.ndarray
    """Variances of the residuals, shape (n_draws, n_features); the shuffled entries come last."""
    eigenvalues: np.ndarray
    """Eigenvalues of the Gram matrix of the shuffled rows of the basis, shape (n_draws, rank)."""
    eliminated_shuffled: np.ndarray
    """Whether the largest residual is at a shuffled entry, shape (n_draws,)."""


@validate_params(
    {
        "n_features": N_FEATURES,
        "rank": RANK,
        "n_shuffled": N_SHUFFLED,
        "n_draws": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=True,
)
def simulate_elimination(n_features, rank, n_shuffled, *, n_draws=1000, random_state=None):
    r"""Draw subspaces, permutations and vectors, and look at their residuals.

    Parameters
    ----------
    n_features : int
        Number M of entries.
    rank : int
        Dimension r of the subspace, below M.
    n_shuffled : int
        Number M₂ of shuffled entries, from 3 to M.
    n_draws : int, default=1000
        Number of independent draws.
    random_state : int, RandomState instance or None, default=None
        Seed of the draws.

    Returns
    -------
    simulation : Simulation
        The variances given subspace and permutation, which are :math:`\sigma_\xi^2` in the first
        M₁ columns and :math:`\sigma_\eta^2` in the others; the eigenvalues of
        :math:`U^{(2)\top}U^{(2)}`; and whether the entry with the largest residual is shuffled.

    Examples
    --------
    >>> from unpermute.theory import simulate_elimination
    >>> simulation = simulate_elimination(50, 5, 20, n_draws=500, random_state=0)
    >>> simulation.variances[:, 30:].mean().round(3)
    np.float64(0.023)
    """
    check_rank(rank, n_features)
    check_shuffled(n_features, n_shuffled)
    rng = check_random_state(random_state)
    size = max(1, _STACK // (n_features * rank))
    stacks = [
        _draw_stack(n_features, rank, n_shuffled, min(size, n_draws - start), rng)
        for start in range(0, n_draws, size)
    ]
    return Simulation(*(np.concatenate(parts) for parts in zip(*stacks, strict=True)))


def _draw_stack(M, r, m, n_draws, rng):
    basis = np.linalg.qr(rng.standard_normal((n_draws, M, r)))[0]
    permutations = np.tile(np.arange(M), (n_draws, 1))
    permutations[:, M - m :] = M - m + draw_permutations(n_draws, m, rng)
    maps = coefficients_to_residuals(basis, permutations)
    variances = np.einsum("njk,njk->nj", maps, maps) / r
    shuffled_rows = basis[:, M - m :]
    eigenvalues = np.linalg.eigvalsh(np.swapaxes(shuffled_rows, 1, 2) @ shuffled_rows)
    coefficients = rng.standard_normal((n_draws, r, 1)) / np.sqrt(r)
    largest = np.abs(maps @ coefficients)[..., 0].argmax(axis=1)
    return variances, eigenvalues, largest >= M - m


def draw_permutations(n_draws, size, rng):
    """Rows of permutations without fixed points and 2-cycles, all equally likely; size ≥ 3."""
    identity = np.arange(size)
    permutations = np.tile(identity, (n_draws, 1))
    wrong = np.ones(n_draws, dtype=bool)
    # About one in exp(1.5) is accepted, whatever the size.
    while wrong.any():
        redrawn = np.argsort(rng.random_sample((int(wrong.sum()), size)), axis=1)
        permutations[wrong] = redrawn
        twice = np.take_along_axis(permutations, permutations, axis=1)
        wrong = ((permutations == identity) | (twice == identity)).any(axis=1)
    return permutations
