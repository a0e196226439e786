"""What every iterative solver returns."""

import warnings
from dataclasses import dataclass
from typing import Any

from sklearn.exceptions import ConvergenceWarning

__all__ = ["SolverResult", "warn_not_converged"]


@dataclass(frozen=True)
class SolverResult:
    """Solution of an iterative solver, with the evidence for it.

    Attributes
    ----------
    solution : array or sparse array
        The solution itself.
    optimality : float or ndarray
        The optimality measure reached (a number, or one per problem).
    n_iter : int or ndarray
        Iterations used.
    converged : bool or ndarray
        Whether `optimality` is within the tolerance.
    info : dict
        What else the solver wants to show, for instance the measure per iteration.
    """

    solution: Any
    optimality: Any
    n_iter: Any
    converged: Any
    info: dict[str, Any]


def warn_not_converged(what, reached, tolerance, remedy):
    """Warn, with numbers and a remedy, that a solver stopped early."""
    warnings.warn(
        f"{what} stopped at {reached:.2e}, above its tolerance {tolerance:.0e}; {remedy}.",
        ConvergenceWarning,
        stacklevel=3,
    )
