"""PMSDR: the four stages in order, then refinement."""

from unpermute.pmsdr._estimator import PMSDR

__all__ = ["PMSDR"]
