"""Where the descent of MRUC starts: first guesses of the permutations of all groups.

A group counts by its second moments over the places, FᵀF, where F holds its vectors or a factor
with fewer rows; V are the leading directions of the anchor. A guess is a doubly stochastic matrix
per group.
"""

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from unpermute.baselines._mruc_problem import best_order
from unpermute.numerics.sinkhorn import sinkhorn

__all__ = ["draw_starts"]

# Softness of random guesses, relative to the mean preference.
_SOFTNESS = 0.1
_IRLS_ROUNDS = 30


def draw_starts(anchor, factors, rank, n_starts, informed, rng):
    """Draw first guesses.

    Parameters
    ----------
    anchor : ndarray of shape (at most n_features, n_features)
        Vectors, or a factor, of the anchor.
    factors : list of ndarray of shape (at most n_features, n_features)
        Those of the other groups.
    rank : int
        Number of directions V.
    n_starts : int
        Number of guesses.
    informed : bool
        Whether the first guesses are places that fit as they stand, and places whose similarities
        look alike; if not, all are random.
    rng : RandomState
        Randomness of the others.

    Returns
    -------
    informed_starts : ndarray of shape (at most 2, n_groups, n_features, n_features)
        The informed guesses.
    random_starts : ndarray of shape (the others, n_groups, n_features, n_features)
        The random ones.
    """
    V = _leading(anchor, rank)
    makers = [_in_place, _signatures][:n_starts] if informed else []
    known = [[make(V, F) for F in factors] for make in makers]
    n_random = n_starts - len(makers)
    turned = [_leading(F, rank) for F in factors] if n_random else []
    drawn = [[_random(V, W, rng) for W in turned] for _ in range(n_random)]
    shape = len(factors), len(V), len(V)
    return np.array(known).reshape(len(known), *shape), np.array(drawn).reshape(len(drawn), *shape)


def _leading(F, rank):
    """Leading directions of F, as columns; any others where it has fewer rows."""
    return np.linalg.eigh(F.T @ F)[1][:, ::-1][:, :rank]


def _in_place(V, F):
    """Fit the group by the anchor's directions, weighing down places that do not fit.

    ``min_C Σ_i ‖y_i − C v_i‖₂`` over the places i, by reweighting: places that moved are few
    enough, the fit is that of the others, and every place can then be matched to it.
    """
    weights = np.ones(len(V))
    floor = 1e-6 * np.sqrt(np.sum(F**2) / len(V)) + np.finfo(float).tiny
    for _ in range(_IRLS_ROUNDS):
        weighted = V.T * weights
        fit = V @ np.linalg.lstsq(weighted @ V, weighted @ F.T, rcond=None)[0]
        weights = 1.0 / np.maximum(np.linalg.norm(F.T - fit, axis=1), floor)
        weights /= weights.max()
    # Columns of the fitted group against its columns as they stand.
    return np.eye(len(V))[best_order(fit.T, F)]


def _signatures(V, F):
    """Match places whose similarities to all other places look alike.

    Row i of the projector V Vᵀ, sorted, does not depend on the order of the places: where a group
    spans what the anchor spans, the right places have equal signatures.
    """
    W = _leading(F, V.shape[1])
    unlike = cdist(np.sort(V @ V.T, axis=1), np.sort(W @ W.T, axis=1), "sqeuclidean")
    return np.eye(len(V))[linear_sum_assignment(unlike)[1]]


def _random(V, W, rng):
    """Rotate the directions W of a group at random onto those of the anchor, match softly."""
    rank = V.shape[1]
    rotation = np.linalg.qr(rng.standard_normal((rank, rank)))[0]
    costs = -(V @ rotation @ W.T)
    softness = _SOFTNESS * np.abs(costs).mean()
    return sinkhorn(costs[None], softness, np.zeros((1, len(V))))[0][0]
