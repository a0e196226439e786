"""Fit several components, and let every clean vector choose its own by held-out likelihood."""

from hashlib import blake2b

import numpy as np

from unpermute.pmsdr._explain import Component
from unpermute.pmsdr._judge import Membership, Mixture, stand
from unpermute.pmsdr._model import fit_component
from unpermute.pmsdr._stages import match_ranks

__all__ = ["SMALLEST", "Fits", "fit_mixture"]

# Fewer vectors do not make a component.
SMALLEST = 8


class Fits:
    """Components by the vectors that they were fitted to: none is fitted twice."""

    def __init__(self):
        self._known: dict[tuple, Component] = {}

    def __call__(self, X, rank=None):
        """Return the component of these vectors, in this order."""
        # A digest: the vectors themselves would be kept as long as their component.
        key = blake2b(X.tobytes(), digest_size=16).digest(), X.shape, rank
        if key not in self._known:
            self._known[key] = fit_component(X, rank=rank)
        return self._known[key]


def fit_mixture(X, labels, *, rounds, rank=None, fits=None):
    """Fit components and reassign vectors by held-out likelihood, until nothing changes.

    Parameters
    ----------
    X : ndarray of shape (n_clean, n_features)
        Vectors without missing entries.
    labels : ndarray of int of shape (n_clean,)
        First guess; −1: none.
    rounds : int
        Rounds at most.
    rank : int or sequence of int, default=None
        Of the components: one for all, or a list that is matched to them; None: estimated.
    fits : Fits, default=None
        Components that are known already.

    Returns
    -------
    mixture : Mixture or None
        None if no group has enough vectors.
    labels : ndarray of int of shape (n_clean,)
    """
    fits = Fits() if fits is None else fits
    for step in range(rounds + 3):  # two more at most, to place vectors of groups that dissolved
        present = labels[labels >= 0]
        groups = [k for k in np.unique(present) if np.sum(present == k) >= min(SMALLEST, len(X))]
        if not groups:
            return None, labels
        own = np.full(len(X), -1)
        for j, k in enumerate(groups):
            own[labels == k] = j
        mixture = _fit(X, own, len(groups), rank, fits)
        if len(groups) == 1 and (own == 0).all():
            break
        if step >= rounds and (own >= 0).all():
            break
        labels = stand(X, mixture, Membership.of(mixture, own)).likelihood.argmax(axis=1)
        if np.array_equal(labels, own):
            break
    if (own < 0).any():
        own = np.where(own < 0, labels, own)
        mixture = _fit(X, own, len(groups), rank, fits)
    return mixture, own


def _fit(X, labels, count, rank, fits):
    """Fit every component."""
    ranks = match_ranks(X, labels, rank)
    ranks = ranks if np.ndim(ranks) else [ranks] * count
    components = [fits(X[labels == k], ranks[k]) for k in range(count)]
    shares = np.array([np.mean(labels == k) for k in range(count)])
    return Mixture(components, np.log(shares / shares.sum()))
