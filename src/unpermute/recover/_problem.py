"""What every recoverer is given, and what it returns."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["RecoveryProblem", "RecoverySolution"]


@dataclass(frozen=True)
class RecoveryProblem:
    r"""Vectors :math:`y = \Pi (U x + b) + \varepsilon` of one subspace, already validated.

    Eq. (8) of the paper (Xie & Fan, AAAI 2025), with an offset and noise.

    Attributes
    ----------
    Y : ndarray of shape (n_vectors, n_features)
        Observed vectors; NaN where missing.
    basis : ndarray of shape (n_features, rank)
        Orthonormal.
    offset : ndarray of shape (n_features,)
        Offset b of the subspace; zeros when it is linear.
    blocks : ndarray of int of shape (n_features,)
        Entries only move between places of the same block; all zero when unrestricted.
    shuffled_ratio : float or None
        Share of the entries that may have moved, if known.
    noise_scale : float or None
        Standard deviation of the noise of an entry, if known.
    max_starts : int or None
        Budget of starts per vector; None: the method's own.
    seed : int
        Of all random choices; a vector's own do not depend on its position.
    n_jobs : int or None
        Threads; the result must not depend on it.
    """

    Y: np.ndarray
    basis: np.ndarray
    offset: np.ndarray
    blocks: np.ndarray
    shuffled_ratio: float | None = None
    noise_scale: float | None = None
    max_starts: int | None = None
    seed: int = 0
    n_jobs: int | None = None

    @property
    def centred(self):
        """Vectors less the offset: meaningful for entries in place only."""
        return self.Y - self.offset

    def require_linear(self, method):
        """Refuse an offset where only sorted values count."""
        if self.offset.any():
            raise ValueError(
                f"method={method!r} does not take an offset; use method='search' for affine"
                " subspaces."
            )


@dataclass(frozen=True)
class RecoverySolution:
    """Coefficients of every vector, and how the method ended.

    Attributes
    ----------
    coefficients : ndarray of shape (n_vectors, rank)
        Always finite.
    converged : ndarray of bool of shape (n_vectors,)
        Whether the method's own stopping rule was met.
    info : dict
        What else a method wants to show, for instance its optimality gap per vector.
    """

    coefficients: np.ndarray
    converged: np.ndarray
    info: dict[str, Any] = field(default_factory=dict)
