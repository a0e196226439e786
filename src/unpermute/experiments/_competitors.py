"""The methods that PMSDR is compared with, alone and per subspace, as the experiments run them."""

import numpy as np

from unpermute.baselines import MRUC, PerSubspace
from unpermute.experiments._methods import timed

__all__ = ["alone_and_apart", "best_with_truth", "mruc_alone_and_apart", "share_permutations"]


def alone_and_apart(name, method, X, labels):
    """Yield name, recovered matrix and seconds of a method, and of its "-S" variant.

    Parameters
    ----------
    name : str
        Name of the method.
    method : object
        With ``fit_transform``.
    X : ndarray of shape (n_vectors, n_features)
        The observed vectors.
    labels : ndarray of shape (n_vectors,)
        Subspace of every vector, for the "-S" variant.

    Yields
    ------
    tuple
        Name, recovered matrix, seconds.
    """
    yield name, *timed(method.fit_transform, X)
    yield f"{name}-S", *timed(PerSubspace(method).fit_transform, X, labels=labels)


def best_with_truth(models, X, error):
    """Fit every model; return the one with the least error, its answer, and all seconds.

    Parameters
    ----------
    models : iterable of object
        The same method with different parameters.
    X : ndarray of shape (n_vectors, n_features)
        The observed vectors.
    error : callable
        Error of a recovered matrix. It knows the truth: name the method accordingly.

    Returns
    -------
    model, recovered, seconds : tuple
        The best model, what it recovers, and the time that all took.
    """
    best, total = None, 0.0
    for model in models:
        recovered, seconds = timed(model.fit_transform, X)
        total += seconds
        value = error(recovered)
        if best is None or value < best[0]:
            best = value, model, recovered
    assert best is not None, "no model was given"
    return best[1], best[2], total


def share_permutations(X_clean, outlier_mask, n_groups, places_of, rng):
    """Shuffle the vectors of `outlier_mask` with one permutation per group, as MRUC assumes.

    Parameters
    ----------
    X_clean : ndarray of shape (n_vectors, n_features)
        Vectors in order.
    outlier_mask : ndarray of bool of shape (n_vectors,)
        Which to shuffle.
    n_groups : int
        Number of permutations; the vectors are split at random.
    places_of : callable
        ``places_of(rng)`` draws the places that a permutation moves.
    rng : Generator
        Randomness.

    Returns
    -------
    X : ndarray of shape (n_vectors, n_features)
        The observed vectors.
    groups : ndarray of int of shape (n_vectors,)
        Group of every vector, -1 where it is in order.
    """
    X, groups = X_clean.copy(), np.full(len(X_clean), -1)
    for g, rows in enumerate(
        np.array_split(rng.permutation(np.flatnonzero(outlier_mask)), n_groups)
    ):
        places = places_of(rng)
        X[np.ix_(rows, places)] = X[np.ix_(rows, rng.permutation(places))]
        groups[rows] = g
    return X, groups


def mruc_alone_and_apart(X, groups, labels, *, seed, **options):
    """Yield name, recovered matrix and seconds of MRUC and MRUC-S; vectors of group -1 anchor."""
    method = MRUC(anchor=-1, random_state=seed, **options)
    yield "MRUC", *timed(method.fit_transform, X, groups=groups)
    # A subspace whose shuffled vectors are all in one group still needs its anchor there.
    apart = PerSubspace(method)
    yield "MRUC-S", *timed(apart.fit_transform, X, labels=labels, groups=groups)
