"""Proximal steps: soft thresholds of entries, of rows and of singular values.

For a penalty h, ``prox_t(A) = argmin_Z t h(Z) + ½ ‖Z − A‖²``:

- entries, ``h = ‖·‖₁``: move every entry towards zero by t;
- rows, ``h = ‖·‖₂,₁``: shorten every row by t;
- singular values, ``h = ‖·‖_*``: move every singular value towards zero by t.
"""

from dataclasses import dataclass

import numpy as np

__all__ = ["SingularValueThreshold", "Thresholded", "shrink_rows", "soft_threshold"]

# The Gram matrix squares singular values: below this share of the largest it no longer tells them
# from rounding, and the decomposition itself has to be computed.
_GRAM_LIMIT = 1e-6
# Matrices whose smaller side is at most this are decomposed completely: nothing is gained.
_SMALL = 200
# More directions than this share of the smaller side cost more than all of them.
_PARTIAL_SHARE = 0.2
# Directions sought beyond those expected, and products with the matrix for each new threshold.
_OVERSAMPLING, _POWERS = 10, 2


def soft_threshold(A, limit):
    """Move every entry towards zero by `limit`.

    Parameters
    ----------
    A : ndarray
        Any shape.
    limit : float or ndarray
        At least 0.

    Returns
    -------
    ndarray
        A new array.

    Examples
    --------
    >>> import numpy as np
    >>> from unpermute.numerics.proximal import soft_threshold
    >>> soft_threshold(np.array([3.0, -0.5, -2.0]), 1.0)
    array([ 2.,  0., -1.])
    """
    return A - np.clip(A, -limit, limit)


def shrink_rows(A, limit):
    """Shorten every row by `limit`; shorter ones become zero.

    Parameters
    ----------
    A : ndarray of shape (n_rows, n_columns)
        A matrix.
    limit : float
        At least 0.

    Returns
    -------
    ndarray of shape (n_rows, n_columns)
        A new array.
    """
    lengths = np.linalg.norm(A, axis=1, keepdims=True)
    with np.errstate(over="ignore"):  # a row that short becomes zero anyway
        return A * np.maximum(1.0 - limit / np.where(lengths > 0, lengths, 1.0), 0.0)


@dataclass(frozen=True)
class Thresholded:
    """A matrix after its singular values were thresholded, ``scores @ directions``.

    Attributes
    ----------
    scores : ndarray of shape (n_rows, rank)
        Left singular vectors times the remaining singular values.
    directions : ndarray of shape (rank, n_columns)
        Right singular vectors.
    values : ndarray of shape (rank,)
        The remaining singular values, in descending order.
    """

    scores: np.ndarray
    directions: np.ndarray
    values: np.ndarray

    @property
    def matrix(self):
        """The matrix itself."""
        return self.scores @ self.directions


class SingularValueThreshold:
    """Proximal step of the nuclear norm, for matrices that change little from call to call.

    Small matrices are decomposed completely. Of large ones only the singular vectors above the
    threshold are computed, by subspace iteration from those of the previous call and some random
    ones [1]_; as long as the smallest value found is above the threshold, more are sought.

    Parameters
    ----------
    rng : RandomState
        Draws the random directions.

    References
    ----------
    .. [1] Halko, N., Martinsson, P.-G. and Tropp, J. (2011). Finding structure with randomness.
       SIAM Review 53(2), 217-288. https://doi.org/10.1137/090771806
    """

    def __init__(self, rng):
        self.rng = rng
        self.directions = None

    def __call__(self, A, limit):
        """Threshold the singular values of `A` at `limit` and return a :class:`Thresholded`."""
        smaller = min(A.shape)
        found = None
        if smaller > _SMALL:
            known = 0 if self.directions is None else len(self.directions)
            size = known + _OVERSAMPLING
            while found is None and size <= _PARTIAL_SHARE * smaller:
                found = self._partial(A, limit, size)
                size *= 2
        if found is None:
            found = _complete(A, limit)
        self.directions = found.directions
        return found

    def _partial(self, A, limit, size):
        """Look for `size` directions; None if all of them are above the threshold."""
        n_columns = A.shape[1]
        known = np.zeros((0, n_columns)) if self.directions is None else self.directions
        fresh = self.rng.standard_normal((size - len(known), n_columns))
        left = A @ np.vstack([known, fresh]).T
        for _ in range(_POWERS):
            left = A @ (A.T @ np.linalg.qr(left)[0])
        left = np.linalg.qr(left)[0]
        rotation, values, directions = np.linalg.svd(left.T @ A, full_matrices=False)
        if values[-1] > limit:
            return None
        kept = values > limit
        values = values[kept] - limit
        return Thresholded((left @ rotation[:, kept]) * values, directions[kept], values)


def _complete(A, limit):
    if A.shape[0] < A.shape[1]:
        flipped = _complete(A.T, limit)
        values = flipped.values
        return Thresholded(flipped.directions.T * values, (flipped.scores / values).T, values)
    squares, vectors = np.linalg.eigh(A.T @ A)
    values = np.sqrt(np.maximum(squares, 0.0))[::-1]
    if limit < _GRAM_LIMIT * values[0]:
        left, values, directions = np.linalg.svd(A, full_matrices=False)
        kept = values > limit
        values = values[kept] - limit
        return Thresholded(left[:, kept] * values, directions[kept], values)
    kept = values > limit
    values, directions = values[kept], vectors[:, ::-1][:, kept]
    scores = (A @ directions) * (1.0 - limit / values)
    return Thresholded(scores, np.ascontiguousarray(directions.T), values - limit)
