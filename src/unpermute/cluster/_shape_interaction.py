"""Clustering by the shape interaction matrix: what vectors have in common after whitening."""

from typing import ClassVar

import numpy as np
from scipy import sparse

from unpermute._validation import Integral, Interval, Real
from unpermute.cluster._base import SelfRepresentationClustering
from unpermute.numerics.graphs import affinity, normalised, normalised_cut, spectral_clusters
from unpermute.numerics.robust_subspace import unit_rows
from unpermute.numerics.self_representation import self_representation

__all__ = ["ShapeInteractionClustering"]

# Numbers of dimensions that are tried at most.
_CANDIDATES = 9
# The representation: nearly exact, with enough ridge to connect the vectors of a subspace.
_L1_RATIO, _ALPHA = 0.9, 750.0
# Weight of the last coordinate of an affine subspace, in lengths of the vectors: the coefficients
# of a representation then sum to one.
_AFFINE_WEIGHT = 20.0
# Singular values below this share of the largest are rounding.
_NEGLIGIBLE = 1e-10
# Share of the interaction alone beside its product with the representation: the graph stays
# connected where a vector is represented by too few.
_INTERACTION = 0.3


class ShapeInteractionClustering(SelfRepresentationClustering):
    r"""Cluster vectors by the subspace they lie in: shape interaction and self-representation.

    With the singular value decomposition :math:`X \approx U S V^\top` of q dimensions and the rows
    :math:`u_j` of U scaled to unit length, :math:`|u_i^\top u_j|` is zero for vectors of different
    independent subspaces, whatever the lengths and angles of the subspaces [1]_. Its power is
    multiplied, entry by entry, with the graph of an elastic-net self-representation; the number of
    dimensions q is the one whose graph has the smallest normalised cut [2]_.

    Choose it for real data, whose noise differs from vector to vector, when the dimensions of the
    subspaces add up to less than the numbers of vectors and of features. It works on a dense n x n
    matrix: a few thousand vectors at most. :class:`ElasticNetSubspaceClustering` needs neither.

    Parameters
    ----------
    n_clusters : int, optional
        Number of subspaces. None takes the largest gap between the eigenvalues of the graph
        of the representation.
    rank : int, optional
        Largest dimension of a subspace (affine ones: without the offset). None tries numbers of
        dimensions up to all that the vectors span.
    power : float, default=6.0
        Power of the interactions: larger ones separate more, and connect less.
    affine : bool, default=False
        Whether the subspaces are affine.
    keep : float in (0, 1], default=0.7
        Of every vector keep the largest coefficients that reach this share of their l1 norm.
    min_size : int, default=1
        Vectors of a smaller cluster join the nearest one; this happens to a few clusters at most.
    n_jobs : int, optional
        Threads, as in joblib. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Randomness of the spectral clustering.

    Attributes
    ----------
    labels_ : ndarray of shape (n_vectors,)
        Cluster of every vector.
    n_clusters_ : int
        Number of clusters.
    n_dimensions_ : int
        The number of dimensions q.
    coefficients_ : csr_array of shape (n_vectors, n_vectors)
        Row j represents vector j.
    affinity_matrix_ : csr_array of shape (n_vectors, n_vectors)
        The graph.
    eigenvalues_ : ndarray
        Smallest eigenvalues of its normalised Laplacian.

    References
    ----------
    .. [1] Costeira, J. and Kanade, T. (1998). A multibody factorization method for independently
       moving objects. International Journal of Computer Vision 29(3), 159-179.
       https://doi.org/10.1023/A:1008000628999
    .. [2] Ji, P., Salzmann, M. and Li, H. (2015). Shape interaction matrix revisited and
       robustified: efficient subspace clustering with corrupted and incomplete data. ICCV.
       https://doi.org/10.1109/ICCV.2015.528

    Examples
    --------
    >>> import numpy as np
    >>> from unpermute.cluster import ShapeInteractionClustering
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(15, 2)) @ rng.normal(size=(2, 8)) for _ in range(2)])
    >>> labels = ShapeInteractionClustering(2, 2, random_state=0).fit_predict(X)
    >>> labels.tolist() == [0] * 15 + [1] * 15
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **SelfRepresentationClustering._parameter_constraints,
        "rank": [None, Interval(Integral, 1, None, closed="left")],
        "power": [Interval(Real, 1, None, closed="left")],
        "affine": ["boolean"],
        "n_jobs": [None, Integral],
    }

    def __init__(
        self,
        n_clusters=None,
        rank=None,
        *,
        power=6.0,
        affine=False,
        keep=0.7,
        min_size=1,
        n_jobs=None,
        random_state=None,
    ):
        self.n_clusters = n_clusters
        self.rank = rank
        self.power = power
        self.affine = affine
        self.keep = keep
        self.min_size = min_size
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _self_representation(self, X):
        vectors, weight = unit_rows(X), 1.0
        if self.affine:
            # The last coordinate makes up most of the length of a vector: the rest must count.
            vectors, weight = unit_rows(_lift(X, _AFFINE_WEIGHT)), 1.0 + _AFFINE_WEIGHT**2
        return self_representation(
            vectors, l1_ratio=_L1_RATIO, alpha=_ALPHA * weight, n_jobs=self.n_jobs, stage="cluster"
        ).solution

    def _cluster(self, X):
        """Cluster the graph of the number of dimensions with the smallest normalised cut."""
        self.coefficients_ = self._self_representation(X)
        represented = affinity(self.coefficients_, keep=self.keep)
        n_clusters = self.n_clusters
        if n_clusters is None:
            # Cuts into different numbers of parts cannot be compared.
            labels, _ = spectral_clusters(represented, random_state=self.random_state)
            n_clusters = int(labels.max()) + 1
        represented = normalised(represented.toarray())
        lifted = _lift(X, 1.0) if self.affine else X
        directions, values, _ = np.linalg.svd(lifted, full_matrices=False)
        n_spanned = min(int(np.sum(values > _NEGLIGIBLE * values[0])), len(X) - 1)
        smallest_cut = np.inf
        for n_dimensions in self._candidates(n_spanned, n_clusters):
            graph = self._graph(directions[:, :n_dimensions], represented)
            labels, eigenvalues = spectral_clusters(
                graph,
                n_clusters,
                min_size=self.min_size,
                random_state=self.random_state,
            )
            cut = normalised_cut(graph, labels)
            if not cut >= smallest_cut:
                smallest_cut, self.n_dimensions_ = cut, n_dimensions
                self.affinity_matrix_ = graph
                self.labels_, self.eigenvalues_ = labels, eigenvalues

    def _candidates(self, n_spanned, n_clusters):
        """Numbers of dimensions: one for every subspace and one more, up to the limit."""
        largest = max(n_spanned, 1)
        if self.rank is not None:
            largest = min(largest, n_clusters * (self.rank + self.affine))
        smallest = min(n_clusters + 1, largest)
        return np.unique(np.linspace(smallest, largest, _CANDIDATES).round().astype(int))

    def _graph(self, directions, represented):
        rows = unit_rows(directions)
        interaction = np.abs(rows @ rows.T) ** self.power
        np.fill_diagonal(interaction, 0.0)
        interaction = normalised(interaction)
        return sparse.csr_array(np.sqrt(interaction * represented) + _INTERACTION * interaction)


def _lift(X, weight):
    """One more coordinate, the same for all: affine subspaces become linear ones."""
    length = np.sqrt(np.mean(np.sum(X**2, axis=1)))
    return np.hstack([X, np.full((len(X), 1), weight * (length or 1.0))])
