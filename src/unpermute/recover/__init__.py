"""Stage 4: undo the permutation of a vector, given the basis of its subspace, or of several."""

from unpermute.recover._confidence import entry_confidence
from unpermute.recover._recover import RecoveryResult, recover_vectors
from unpermute.recover._search import FoundVectors, recover_everywhere, starts_for

__all__ = [
    "FoundVectors",
    "RecoveryResult",
    "entry_confidence",
    "recover_everywhere",
    "recover_vectors",
    "starts_for",
]
