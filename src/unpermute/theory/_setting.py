"""The setting of the paper's Theorem 1, and what is allowed in it.

M entries of a vector in a subspace of dimension r; M₁ stay in place, M₂ = M − M₁ are shuffled by a
permutation φ without fixed points and without 2-cycles.
"""

from unpermute._validation import Integral, Interval

__all__ = ["N_FEATURES", "N_SHUFFLED", "RANK", "check_at_most", "check_shuffled"]

N_FEATURES = [Interval(Integral, 2, None, closed="left")]
RANK = [Interval(Integral, 1, None, closed="left")]
# Two entries can only change places with each other, which is a 2-cycle.
N_SHUFFLED = [Interval(Integral, 3, None, closed="left")]


def check_at_most(name, value, limit, of):
    """Refuse a number above what `of` allows."""
    if value > limit:
        raise ValueError(f"{name}={value} must be at most {limit}, {of}.")


def check_shuffled(n_features, n_shuffled, n_in_place=0):
    """Check that at least `n_in_place` entries are left in place."""
    if n_shuffled > n_features - n_in_place:
        left = f", less {n_in_place} in place" if n_in_place else ""
        raise ValueError(
            f"n_shuffled={n_shuffled} must be at most {n_features - n_in_place}: the number of"
            f" features, {n_features}{left}."
        )
