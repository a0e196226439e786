"""Stage 1: which vectors are permuted."""

from unpermute.detect._self_representation import SelfRepresentationDetector

__all__ = ["SelfRepresentationDetector"]
