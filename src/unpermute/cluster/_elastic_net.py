"""Elastic net subspace clustering: the self-representation of stage 1, clustered."""

from typing import ClassVar

from unpermute._validation import Integral, Interval, Real
from unpermute.cluster._base import SelfRepresentationClustering
from unpermute.numerics.robust_subspace import unit_rows
from unpermute.numerics.self_representation import self_representation

__all__ = ["ElasticNetSubspaceClustering"]


class ElasticNetSubspaceClustering(SelfRepresentationClustering):
    r"""Cluster vectors by the subspace they lie in: elastic-net self-representation.

    Scales the vectors to unit length and represents every one by the others,

    .. math:: \min_c \; \lambda \|c\|_1 + \tfrac{1 - \lambda}{2} \|c\|_2^2
        + \tfrac{\gamma_j}{2} \|x_j - \textstyle\sum_i c_i x_i\|_2^2 \quad \text{s.t. } c_j = 0,

    with :math:`\gamma_j = \alpha \lambda / \max_{i \ne j} |x_i^T x_j|`, and clusters the graph
    ``|C| + |C|ᵀ`` spectrally [1]_.

    Choose it first: solved exactly, no n x n matrix, fast up to tens of thousands of vectors. The
    ridge connects the vectors of one subspace better than the pure l1 norm does.
    :class:`SparseSubspaceClustering` adds an error term for grossly wrong entries.

    Parameters
    ----------
    n_clusters : int, optional
        Number of subspaces. None takes the largest gap between the eigenvalues of the graph.
    l1_ratio : float in (0, 1], default=0.95
        The weight :math:`\lambda` between the l1 (1) and the squared l2 norm (0).
    alpha : float, default=50.0
        Weight of fit against sparsity; above 1, where the first coefficients appear.
    keep : float in (0, 1], default=1.0
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
    coefficients_ : csr_array of shape (n_vectors, n_vectors)
        Row j represents vector j.
    affinity_matrix_ : csr_array of shape (n_vectors, n_vectors)
        The graph.
    eigenvalues_ : ndarray
        Smallest eigenvalues of its normalised Laplacian.

    References
    ----------
    .. [1] You, C., Li, C.-G., Robinson, D. and Vidal, R. (2016). Oracle based active set algorithm
       for scalable elastic net subspace clustering. CVPR. https://doi.org/10.1109/CVPR.2016.426

    Examples
    --------
    >>> import numpy as np
    >>> from unpermute.cluster import ElasticNetSubspaceClustering
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(15, 2)) @ rng.normal(size=(2, 8)) for _ in range(2)])
    >>> labels = ElasticNetSubspaceClustering(2, random_state=0).fit_predict(X)
    >>> labels.tolist() == [0] * 15 + [1] * 15
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **SelfRepresentationClustering._parameter_constraints,
        "l1_ratio": [Interval(Real, 0, 1, closed="right")],
        "alpha": [Interval(Real, 1, None, closed="neither")],
        "n_jobs": [None, Integral],
    }

    def __init__(
        self,
        n_clusters=None,
        *,
        l1_ratio=0.95,
        alpha=50.0,
        keep=1.0,
        min_size=1,
        n_jobs=None,
        random_state=None,
    ):
        self.n_clusters = n_clusters
        self.l1_ratio = l1_ratio
        self.alpha = alpha
        self.keep = keep
        self.min_size = min_size
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _self_representation(self, X):
        result = self_representation(
            unit_rows(X),
            l1_ratio=self.l1_ratio,
            alpha=self.alpha,
            n_jobs=self.n_jobs,
            stage="cluster",
        )
        return result.solution
