"""Stage 4: undo the permutation of a vector, given the basis of its subspace."""

from unpermute.recover._recover import RecoveryResult, recover_vectors

__all__ = ["RecoveryResult", "recover_vectors"]
