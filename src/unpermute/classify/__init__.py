"""Stage 3: which subspace a permuted vector came from."""

from unpermute.classify._elimination import EliminationClassifier, elimination_distances
from unpermute.classify._recovery import RecoveryClassifier

__all__ = ["EliminationClassifier", "RecoveryClassifier", "elimination_distances"]
