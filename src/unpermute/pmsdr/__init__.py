"""PMSDR: one model of clean vectors, or the four stages of the paper in order."""

from unpermute.pmsdr._estimator import PMSDR

__all__ = ["PMSDR"]
