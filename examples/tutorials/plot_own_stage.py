"""
A clusterer or recoverer of your own
====================================

Every stage of :class:`~unpermute.PMSDR` can be replaced by an object of yours, without touching the
package:

========== =========================================================================
stage      what yours must have
========== =========================================================================
detector   ``fit_predict(X)`` that returns -1 for shuffled vectors and 1 for clean ones
clusterer  ``fit_predict(X)`` that returns a label for every vector
classifier ``fit(X, y)`` and ``predict(Y)``
recoverer  a function with the signature of :func:`~unpermute.recover.recover_vectors`
========== =========================================================================
"""

# %%
# A clusterer
# -----------
# Any clusterer of scikit-learn will do, and so will a class of your own. This one groups
# vectors by the angle between them.
import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import SpectralClustering

from unpermute import PMSDR
from unpermute.datasets import make_permuted_subspaces
from unpermute.metrics import recovery_error, subspace_clustering_error
from unpermute.recover import recover_vectors


class AngleClustering(ClusterMixin, BaseEstimator):
    """Spectral clustering of the powers of cosines."""

    def __init__(self, n_clusters=2, power=6):
        self.n_clusters = n_clusters
        self.power = power

    def fit(self, X, y=None):
        unit = X / np.linalg.norm(X, axis=1, keepdims=True)
        affinity = np.abs(unit @ unit.T) ** self.power
        spectral = SpectralClustering(self.n_clusters, affinity="precomputed", random_state=0)
        self.labels_ = spectral.fit_predict(affinity)
        return self


data = make_permuted_subspaces(3, 60, 40, 3, outlier_ratio=0.2, random_state=0)
model = PMSDR(3, 3, clusterer=AngleClustering(3), random_state=0)
repaired = model.fit_transform(data.X)
print(f"clustering error: {subspace_clustering_error(data.labels, model.labels_):.3f}")
print(f"recovery error:   {recovery_error(data.X_clean, repaired):.3f}")

# %%
# With ``refine=False`` the four stages follow each other as in the paper, and your clusterer
# decides alone.
paper = PMSDR(3, 3, contamination=36, clusterer=AngleClustering(3), refine=False, random_state=0)
print(
    f"recovery error, four stages: {recovery_error(data.X_clean, paper.fit_transform(data.X)):.3f}"
)

# %%
# A recoverer
# -----------
# A recoverer gets shuffled vectors and the basis of their subspace, and returns a
# :class:`~unpermute.recover.RecoveryResult`. This one tries two methods and takes, for every
# vector, the one with the smaller cost.
from dataclasses import fields, replace


def best_of_two(Y, basis, **options):
    """Recover with "l1" and with "pl", and keep the better answer of each vector."""
    options.pop("method", None)
    first, second = (recover_vectors(Y, basis, method=name, **options) for name in ("l1", "pl"))
    better = second.cost < first.cost
    chosen = {
        each.name: np.where(
            better.reshape(-1, *[1] * (getattr(first, each.name).ndim - 1)),
            getattr(second, each.name),
            getattr(first, each.name),
        )
        for each in fields(first)
        if each.name != "info"
    }
    return replace(first, **chosen, info={})


model = PMSDR(3, 3, recoverer=best_of_two, random_state=0)
print(f"recovery error: {recovery_error(data.X_clean, model.fit_transform(data.X)):.3f}")

# %%
# What the trials say about it tells whether it can be trusted on these data:
print(model.trials_)

# %%
# To add a method to the package itself, see :doc:`/contributing/index`.
