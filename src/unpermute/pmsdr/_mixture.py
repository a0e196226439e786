"""Fit several components, and let every clean vector choose its own by held-out likelihood."""

import numpy as np

from unpermute.pmsdr._explain import Component
from unpermute.pmsdr._judge import Membership, Mixture, stand
from unpermute.pmsdr._model import fit_component
from unpermute.pmsdr._stages import match_ranks

__all__ = ["SMALLEST", "fit_mixture"]

# Fewer vectors do not make a component.
SMALLEST = 8


def fit_mixture(X, labels, *, rounds, rank=None):
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

    Returns
    -------
    mixture : Mixture or None
        None if no group has enough vectors.
    labels : ndarray of int of shape (n_clean,)
    """
    fitted: dict[bytes, Component] = {}
    for step in range(rounds + 3):  # two more at most, to place vectors of groups that dissolved
        present = labels[labels >= 0]
        groups = [k for k in np.unique(present) if np.sum(present == k) >= min(SMALLEST, len(X))]
        if not groups:
            return None, labels
        own = np.full(len(X), -1)
        for j, k in enumerate(groups):
            own[labels == k] = j
        mixture = _fit(X, own, len(groups), rank, fitted)
        if len(groups) == 1 and (own == 0).all():
            break
        if step >= rounds and (own >= 0).all():
            break
        labels = stand(X, mixture, Membership.of(mixture, own)).likelihood.argmax(axis=1)
        if np.array_equal(labels, own):
            break
    if (own < 0).any():
        own = np.where(own < 0, labels, own)
        mixture = _fit(X, own, len(groups), rank, fitted)
    return mixture, own


def _fit(X, labels, count, rank, fitted):
    """Fit every component, unless it is already `fitted` to the same members."""
    ranks = match_ranks(X, labels, rank)
    ranks = ranks if np.ndim(ranks) else [ranks] * count
    components = []
    for k in range(count):
        own = labels == k
        key = own.tobytes() + bytes(str(ranks[k]), "ascii")
        if key not in fitted:
            fitted[key] = fit_component(X[own], rank=ranks[k])
        components.append(fitted[key])
    shares = np.array([np.mean(labels == k) for k in range(count)])
    return Mixture(components, np.log(shares / shares.sum()))
