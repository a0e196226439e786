"""How damaged do vectors of an unseen kind look? Leave each kind out, and judge its vectors.

A new vector may be of a kind that the reference does not have. If such vectors look shuffled, a
confidence that was measured on known kinds does not hold for them. So each kind of clean vectors is
left out of the model in turn, and its vectors are judged as new ones. Kinds are the components, or
if there is only one, clusters.
"""

import numpy as np
from sklearn.cluster import KMeans

from unpermute.pmsdr._judge import FAST, Judged, Membership, Mixture, judge
from unpermute.pmsdr._mixture import SMALLEST, fit_mixture
from unpermute.pmsdr._profile import Profiles

__all__ = ["judge_unseen"]

# Clusters that a single component is divided into, and entries by which they are found.
_CLUSTERS, _ENTRIES = 4, 400
# Vectors that are judged at most, drawn at random: as many tell what the strongest looks like.
_MOST = 200


def judge_unseen(X, labels, mixture, *, seed, n_jobs=None):
    """Judge clean vectors by models of the other kinds.

    Parameters
    ----------
    X : ndarray of shape (n_clean, n_features)
        Clean vectors without missing entries.
    labels : ndarray of int of shape (n_clean,)
        Their components.
    mixture : Mixture
    seed : int
    n_jobs : int, default=None

    Returns
    -------
    judged : list of Judged
        Of the vectors of every kind that can be left out.
    rows : list of ndarray of int
        Which vectors these are.
    """
    several = len(mixture.components) > 1
    kinds = labels if several else _clusters(X, seed)
    drawn = np.sort(np.random.default_rng(seed).permutation(len(X))[:_MOST])
    judged: list[Judged] = []
    rows: list[np.ndarray] = []
    for kind in np.unique(kinds[drawn]):
        left, others = drawn[kinds[drawn] == kind], kinds != kind
        if others.sum() < 2 * SMALLEST:
            continue
        if several:
            known = np.flatnonzero(np.arange(len(mixture.components)) != kind)
            rest = Mixture([mixture.components[k] for k in known], mixture.log_shares[known])
        else:
            rank = mixture.components[0].rank
            rest, _ = fit_mixture(X[others], labels[others], rounds=0, rank=rank)
        nobody = Membership.none(len(left))
        found = judge(X[left], rest, nobody, FAST, n_jobs=n_jobs)
        profiles = Profiles.of(X[others], np.zeros(others.sum(), dtype=np.int64), seed=seed)
        found.likeness[:] = profiles.likeness(X[left], nobody.folds)
        judged.append(found)
        rows.append(left)
    return judged, rows


def _clusters(X, seed):
    columns = np.random.default_rng(seed).permutation(X.shape[1])[:_ENTRIES]
    count = min(_CLUSTERS, len(X) // (2 * SMALLEST))
    if count < 2:
        return np.zeros(len(X), dtype=np.int64)
    return KMeans(count, n_init=3, random_state=seed).fit_predict(X[:, np.sort(columns)])
