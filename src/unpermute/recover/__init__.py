"""Stage 4: undo the permutation of a vector, given the basis of its subspace, or of several."""

from unpermute.recover._confidence import (
    RIGHT,
    entry_confidence,
    expected_error,
    found_probability,
)
from unpermute.recover._l1 import l1_coefficients
from unpermute.recover._pl import pl
from unpermute.recover._problem import RecoveryProblem, RecoverySolution
from unpermute.recover._recover import RECOVERERS, RecoveryResult, finish_recovery, recover_vectors
from unpermute.recover._search import FoundVectors, recover_everywhere, starts_for

__all__ = [
    "RECOVERERS",
    "RIGHT",
    "FoundVectors",
    "RecoveryProblem",
    "RecoveryResult",
    "RecoverySolution",
    "entry_confidence",
    "expected_error",
    "finish_recovery",
    "found_probability",
    "l1_coefficients",
    "pl",
    "recover_everywhere",
    "recover_vectors",
    "starts_for",
]
