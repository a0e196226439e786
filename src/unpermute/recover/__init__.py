"""Stage 4: undo the permutation of a vector, given the basis of its subspace."""

from unpermute.recover._confidence import entry_confidence
from unpermute.recover._recover import RecoveryResult, recover_vectors

__all__ = ["RecoveryResult", "entry_confidence", "recover_vectors"]
