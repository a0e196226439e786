"""Standardised columns in several views: what is linear in one may be curved in another.

Sums are linear in the values as they are, products in their logarithms, and most other relations
where every column is made regular by a square root or logarithm of its own.
"""

import numpy as np

from unpermute.records import fit_smooth

__all__ = ["regular_view", "standard_views"]

# Regular values are clipped: one wild cell must not decide.
_LARGEST = 10.0
# Added to values before their logarithm, as a share of the median: zeros happen.
_OFFSET = 0.01


def standard_views(values):
    """Return regular columns, logarithms, and the values as they are, all standardised.

    Parameters
    ----------
    values : ndarray of shape (n, p)
        Columns of numbers; NaN is missing, and 0 after standardising.

    Returns
    -------
    list of ndarray of shape (n, p)
        With mean 0 and mean square 1 in every column that is not constant.
    """
    regular, logarithms = regular_view(values), values.copy()
    with np.errstate(invalid="ignore"):
        lowest = np.nanmin(values, axis=0, initial=np.inf)
        positive = np.flatnonzero((lowest >= 0.0) & (lowest < np.inf))  # not empty columns
        middle = np.nanmedian(values[:, positive], axis=0)
    logarithms[:, positive] = np.log(values[:, positive] + _OFFSET * middle + 1e-300)
    other = np.setdiff1d(np.arange(values.shape[1]), positive)
    logarithms[:, other] = regular[:, other]
    logarithms = np.clip(_standardised(logarithms), -_LARGEST, _LARGEST)
    return [regular, _standardised(logarithms), _standardised(values)]


def regular_view(values):
    """Return every column standardised after the transform that makes it most regular."""
    Z = np.full(values.shape, np.nan)
    for j, column in enumerate(values.T):
        seen = ~np.isnan(column)
        if seen.any():
            distinct, counts = np.unique(column[seen], return_counts=True)
            Z[seen, j] = fit_smooth(distinct, counts).standardised(column[seen])
    return _standardised(np.clip(Z, -_LARGEST, _LARGEST))


def _standardised(Z):
    seen = ~np.isnan(Z)
    n_seen = np.maximum(seen.sum(axis=0), 1)
    # By the largest first: squares of huge numbers overflow.
    size = np.max(np.abs(np.where(seen, Z, 0.0)), axis=0, initial=0.0)
    Z = np.where(seen, Z, 0.0) / np.where(size > 0, size, 1.0)
    Z = np.where(seen, Z - Z.sum(axis=0) / n_seen, 0.0)
    scale = np.sqrt(np.mean(Z**2, axis=0))
    return Z / np.where(scale > 1e-12, scale, 1.0)
