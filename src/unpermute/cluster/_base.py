"""What the subspace clusterers share: coefficients, graph, spectral clustering."""

from abc import abstractmethod
from typing import ClassVar

from sklearn.base import BaseEstimator, ClusterMixin

from unpermute._validation import (
    Integral,
    Interval,
    Real,
    check_n_subspaces,
    fit_context,
    validate_vectors,
)
from unpermute.numerics.graphs import affinity, spectral_clusters
from unpermute.numerics.parallel import one_blas_thread

__all__ = ["SelfRepresentationClustering"]


class SelfRepresentationClustering(ClusterMixin, BaseEstimator):
    """Base of clusterers that represent every vector by the others.

    A subclass says how in ``_self_representation(X)``, which returns a csr_array whose row j
    represents vector j, and has the parameters `n_clusters`, `keep`, `min_size` and
    `random_state`.

    Examples
    --------
    Represent vectors by those at a small angle:

    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> from unpermute.cluster import SelfRepresentationClustering
    >>> class AngleClustering(SelfRepresentationClustering):
    ...     def __init__(self, n_clusters=None, *, keep=1.0, min_size=2, random_state=None):
    ...         self.n_clusters, self.keep, self.min_size = n_clusters, keep, min_size
    ...         self.random_state = random_state
    ...
    ...     def _self_representation(self, X):
    ...         X = X / np.linalg.norm(X, axis=1, keepdims=True)
    ...         return csr_array((X @ X.T) ** 8 * (1 - np.eye(len(X))))
    >>> X = np.array([[1, 0], [2, 0.1], [3, 0.1], [0, 1], [0.1, 2], [0.1, 3]])
    >>> labels = AngleClustering(2, random_state=0).fit_predict(X)
    >>> bool(labels[0] == labels[1] == labels[2] != labels[3] == labels[4] == labels[5])
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "n_clusters": [None, Interval(Integral, 1, None, closed="left")],
        "keep": [Interval(Real, 0, 1, closed="right")],
        "min_size": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Cluster the vectors.

        Parameters
        ----------
        X : array-like of shape (n_vectors, n_features)
            Vectors in rows.
        y : None
            Ignored.

        Returns
        -------
        self
            The fitted clusterer.
        """
        X = validate_vectors(self, X, min_vectors=2)
        check_n_subspaces(self.n_clusters, len(X), name="n_clusters")
        with one_blas_thread():
            self._cluster(X)
        self.n_clusters_ = int(self.labels_.max()) + 1
        return self

    def _cluster(self, X):
        self.coefficients_ = self._self_representation(X)
        self.affinity_matrix_ = affinity(self.coefficients_, keep=self.keep)
        self.labels_, self.eigenvalues_ = spectral_clusters(
            self.affinity_matrix_,
            self.n_clusters,
            min_size=self.min_size,
            random_state=self.random_state,
        )

    @abstractmethod
    def _self_representation(self, X):
        """Return the coefficients, a csr_array of shape (n_vectors, n_vectors)."""
