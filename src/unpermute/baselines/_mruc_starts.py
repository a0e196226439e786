"""Where the descent of MRUC starts: first guesses of the permutations of all groups.

Everything is in terms of second moments over the places: G = Yᵀ Y of a group with vectors Y, and
A of the anchor, with leading directions V. A guess is a doubly stochastic matrix per group.
"""

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from unpermute.numerics.sinkhorn import sinkhorn
from unpermute.numerics.subspaces import estimate_rank

__all__ = ["anchor_rank", "draw_starts"]

# Softness of random guesses, relative to the mean preference.
_SOFTNESS = 0.1
_IRLS_ROUNDS = 30


def anchor_rank(moments, n_vectors):
    """Rank of the anchor: the largest gap of its singular values, below the trivial end."""
    values = np.sqrt(np.maximum(np.linalg.eigvalsh(moments)[::-1], 0.0))
    # The gap after the last vector, or in the second half of the places, says nothing.
    return estimate_rank(values, max(1, min(len(values) // 2, n_vectors - 1)))


def draw_starts(anchor, moments, rank, n_starts, informed, rng):
    """Draw first guesses.

    Parameters
    ----------
    anchor : ndarray of shape (n_features, n_features)
        Moments A of the anchor.
    moments : ndarray of shape (n_groups, n_features, n_features)
        Moments G of the other groups.
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
    known = [[make(V, G) for G in moments] for make in makers]
    drawn = [[_random(V, G, rng) for G in moments] for _ in range(n_starts - len(makers))]
    shape = len(moments), *anchor.shape
    return np.array(known).reshape(len(known), *shape), np.array(drawn).reshape(len(drawn), *shape)


def _leading(moments, rank):
    return np.linalg.eigh(moments)[1][:, ::-1][:, :rank]


def _in_place(V, G):
    """Fit the group by the anchor's directions, weighing down places that do not fit.

    ``min_C Σ_i ‖y_i − C v_i‖₂`` over the places i, by reweighting: places that moved are few
    enough, the fit is that of the others, and every place can then be matched to it.
    """
    size = len(V)
    weights = np.ones(size)
    floor = 1e-6 * np.sqrt(np.trace(G) / size) + np.finfo(float).tiny
    for _ in range(_IRLS_ROUNDS):
        weighted = V.T * weights
        fit = V @ np.linalg.lstsq(weighted @ V, weighted, rcond=None)[0]
        rest = np.eye(size) - fit
        squares = np.einsum("ij,jk,ik->i", rest, G, rest)
        weights = 1.0 / np.maximum(np.sqrt(np.maximum(squares, 0.0)), floor)
        weights /= weights.max()
    # Columns of the fitted group against its columns as they stand.
    return _assign(fit @ G)


def _signatures(V, G):
    """Match places whose similarities to all other places look alike.

    Row i of the projector V Vᵀ, sorted, does not depend on the order of the places: where a group
    spans what the anchor spans, the right places have equal signatures.
    """
    W = _leading(G, V.shape[1])
    return _assign(-cdist(np.sort(V @ V.T, axis=1), np.sort(W @ W.T, axis=1), "sqeuclidean"))


def _random(V, G, rng):
    """Rotate the directions of the group at random onto those of the anchor, match softly."""
    rank = V.shape[1]
    rotation = np.linalg.qr(rng.standard_normal((rank, rank)))[0]
    costs = -(V @ rotation @ _leading(G, rank).T)
    softness = _SOFTNESS * np.abs(costs).mean()
    return sinkhorn(costs[None], softness, np.zeros((1, len(V))))[0][0]


def _assign(preference):
    return np.eye(len(preference))[linear_sum_assignment(preference, maximize=True)[1]]
