"""Stage 3: which subspace a permuted vector came from."""

from unpermute.classify._elimination import EliminationClassifier

__all__ = ["EliminationClassifier"]
