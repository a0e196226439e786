"""Stage 1: which vectors are permuted."""

from unpermute.detect._self_representation import SelfRepresentationDetector, split_log_scores

__all__ = ["SelfRepresentationDetector", "split_log_scores"]
