"""Fit several components, and let every clean vector choose its own by held-out likelihood."""

import numpy as np

from unpermute.pmsdr._judge import Membership, Mixture, stand
from unpermute.pmsdr._model import fit_component

__all__ = ["SMALLEST", "fit_mixture"]

# Fewer vectors do not make a component.
SMALLEST = 8


def fit_mixture(X, labels, *, rounds):
    """Fit components and reassign vectors by held-out likelihood, until nothing changes.

    Parameters
    ----------
    X : ndarray of shape (n_clean, n_features)
        Vectors without missing entries.
    labels : ndarray of int of shape (n_clean,)
        First guess; −1: none.
    rounds : int
        Rounds at most.

    Returns
    -------
    mixture : Mixture or None
        None if no group has enough vectors.
    labels : ndarray of int of shape (n_clean,)
    """
    for step in range(rounds + 3):  # two more at most, to place vectors of groups that dissolved
        present = labels[labels >= 0]
        groups = [k for k in np.unique(present) if np.sum(present == k) >= min(SMALLEST, len(X))]
        if not groups:
            return None, labels
        own = np.full(len(X), -1)
        for j, k in enumerate(groups):
            own[labels == k] = j
        mixture = _fit(X, own, len(groups))
        if len(groups) == 1 and (own == 0).all():
            break
        if step >= rounds and (own >= 0).all():
            break
        labels = stand(X, mixture, Membership.of(mixture, own))[0].argmax(axis=1)
        if np.array_equal(labels, own):
            break
    if (own < 0).any():
        own = np.where(own < 0, labels, own)
        mixture = _fit(X, own, len(groups))
    return mixture, own


def _fit(X, labels, count):
    components = [fit_component(X[labels == k]) for k in range(count)]
    shares = np.array([np.mean(labels == k) for k in range(count)])
    return Mixture(components, np.log(shares / shares.sum()))
