"""One door to all recoverers, and the result they share."""

from dataclasses import dataclass

import numpy as np

from unpermute._validation import (
    Integral,
    Interval,
    Real,
    check_basis,
    check_option,
    check_vectors,
    validate_params,
)
from unpermute.numerics.permutations import match_values
from unpermute.recover._lsrf import lsrf
from unpermute.recover._problem import RecoveryProblem

__all__ = ["METHODS", "RecoveryResult", "recover_vectors"]

# name -> function(RecoveryProblem) -> RecoverySolution
METHODS = {"lsrf": lsrf}


@dataclass(frozen=True)
class RecoveryResult:
    """Vectors put back in order.

    Attributes
    ----------
    coefficients : ndarray of shape (n_vectors, rank)
        Coordinates in the basis.
    fitted : ndarray of shape (n_vectors, n_features)
        ``coefficients @ basis.T + offset``.
    permutations : ndarray of shape (n_vectors, n_features)
        ``np.take_along_axis(Y, permutations, axis=1)`` is every vector put back in order.
    cost : ndarray of shape (n_vectors,)
        Root mean square difference between the moved values and the fitted ones.
    converged : ndarray of shape (n_vectors,)
        Whether the coefficients are determined.
    """

    coefficients: np.ndarray
    fitted: np.ndarray
    permutations: np.ndarray
    cost: np.ndarray
    converged: np.ndarray


@validate_params(
    {
        "noise_scale": [None, Interval(Real, 0, None, closed="left")],
        "n_jobs": [None, Integral],
    },
    prefer_skip_nested_validation=True,
)
def recover_vectors(Y, basis, *, method="lsrf", offset=None, noise_scale=None, n_jobs=None):
    r"""Find coefficients and permutation of every vector, given the basis of its subspace.

    Every vector is :math:`y = \Pi (U x + b) + \varepsilon` with an unknown permutation
    :math:`\Pi`; wanted are x and Π.

    Parameters
    ----------
    Y : array-like of shape (n_vectors, n_features)
        Vectors, permuted or not. Missing entries (NaN) are ignored and stay where they are.
    basis : array-like of shape (n_features, rank)
        Orthonormal basis of their common subspace.
    method : {"lsrf"}, default="lsrf"
        "lsrf": least squares, drop the worst entry, until rank + 1 entries remain (the paper's).
    offset : array-like of shape (n_features,), default=None
        Offset b of an affine subspace.
    noise_scale : float, default=None
        Standard deviation of the noise of an entry, used in matching values to the fitted vector.
        None: the misfit of the sorted values.
    n_jobs : int, default=None
        Threads; the result does not depend on it.

    Returns
    -------
    RecoveryResult
        Coefficients, fitted vectors, permutations and their cost.

    Examples
    --------
    >>> import numpy as np
    >>> from unpermute.recover import recover_vectors
    >>> basis = np.linalg.qr(np.vander(np.linspace(0, 1, 12), 2))[0]  # straight lines
    >>> line = np.arange(12.0)[None]
    >>> shuffled = line[:, [0, 1, 7, 3, 4, 5, 6, 2, 8, 9, 10, 11]]
    >>> result = recover_vectors(shuffled, basis)
    >>> np.take_along_axis(shuffled, result.permutations, axis=1)
    array([[ 0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11.]])
    """
    Y = check_vectors(Y, name="Y", allow_nan=True, min_features=2)
    basis = check_basis(basis, Y.shape[1])
    solve = check_option("method", method, METHODS)
    centred = Y
    if offset is not None:
        offset = check_vectors([offset], name="offset")[0]
        if len(offset) != Y.shape[1]:
            raise ValueError(
                f"offset has {len(offset)} entries, but the vectors have {Y.shape[1]} features."
            )
        centred = Y - offset
    blocks = np.zeros(Y.shape[1], dtype=np.int64)
    solution = solve(
        RecoveryProblem(centred, basis, blocks, noise_scale=noise_scale, n_jobs=n_jobs)
    )
    fitted = solution.coefficients @ basis.T
    if offset is not None:
        fitted += offset
    permutations, cost = match_values(Y, fitted, noise_scale=noise_scale, n_jobs=n_jobs)
    return RecoveryResult(solution.coefficients, fitted, permutations, cost, solution.converged)
