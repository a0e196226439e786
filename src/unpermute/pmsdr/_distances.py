"""How far vectors, as they stand, are from subspaces; entries may be missing."""

import numpy as np

from unpermute.numerics.elimination import eliminate
from unpermute.numerics.subspaces import residual_norms

__all__ = ["distances_as_they_stand", "fill_missing"]


def distances_as_they_stand(X, bases, offsets):
    """Root mean square residual per degree of freedom, over the entries that are there."""
    if not np.isnan(X).any():
        degrees = np.maximum(X.shape[1] - np.array([basis.shape[1] for basis in bases]), 1)
        return residual_norms(X, bases, offsets) / np.sqrt(degrees)
    distances = np.empty((len(X), len(bases)))
    observed = np.sum(~np.isnan(X), axis=1)
    for k, (basis, offset) in enumerate(zip(bases, offsets, strict=True)):
        residual = X - offset - _observed_scores(X, basis, offset) @ basis.T
        degrees = np.maximum(observed - basis.shape[1], 1)
        distances[:, k] = np.sqrt(np.nansum(residual**2, axis=1) / degrees)
    return distances


def fill_missing(X, bases, offsets):
    """Replace every missing entry by what the nearest subspace predicts from the others.

    A matrix without any is returned as it is.
    """
    if not np.isnan(X).any():
        return X
    if len(bases) == 0:
        return np.where(np.isnan(X), 0.0, X)
    nearest = distances_as_they_stand(X, bases, offsets).argmin(axis=1)
    filled = X.copy()
    for k, (basis, offset) in enumerate(zip(bases, offsets, strict=True)):
        rows = np.flatnonzero(nearest == k)
        predicted = _observed_scores(X[rows], basis, offset) @ basis.T + offset
        filled[rows] = np.where(np.isnan(X[rows]), predicted, X[rows])
    return filled


def _observed_scores(X, basis, offset):
    nothing_dropped = np.zeros(0, dtype=np.int64)
    return eliminate(X - offset, basis, nothing_dropped, stage="project")[0]
