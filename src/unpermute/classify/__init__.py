"""Stage 3: which subspace a permuted vector came from."""

from unpermute.classify._elimination import EliminationClassifier
from unpermute.classify._recovery import RecoveryClassifier

__all__ = ["EliminationClassifier", "RecoveryClassifier"]
