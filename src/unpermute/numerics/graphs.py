"""Graphs of vectors: random walks, affinities from coefficients, spectral clustering.

Row j of a coefficient matrix represents vector j by the others; all matrices are sparse.
"""

import itertools
import warnings

import numpy as np
from numba import njit
from scipy import linalg, sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import eigsh
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state

__all__ = [
    "affinity",
    "average_walk",
    "estimate_n_clusters",
    "normalised",
    "normalised_cut",
    "spectral_clusters",
    "spectral_embedding",
]

# Connected parts up to this size are decomposed densely.
_DENSE_SIZE = 1500
# Eigenvalues closer than this are equal: rounding must not choose between components.
_EQUAL = 1e-10
_KMEANS_STARTS = 20
# Groups too small to count that may be split off beside the others.
_SMALL_GROUPS = 5
# Decimals to which rows of the embedding, of length 1, are compared: k-means would otherwise split
# rounding errors when there is nothing else to split.
_DECIMALS = 8
# A later gap counts if it is this many times as large as any other later one; on single subspaces
# the factor was at most five.
_STANDS_OUT = 6.0


def average_walk(transition, n_steps):
    """Average distribution of a random walk, ``(1/T) Σ_{t=1..T} π_t`` with ``π_t = π_{t−1} P``.

    The walk starts uniformly. The average converges where the distribution itself does not: the
    chain may be periodic. A vector without transitions (nothing represents it) passes its mass
    evenly to those that have some, so that no mass is lost and such a vector receives none unless
    others point to it.

    Parameters
    ----------
    transition : sparse array of shape (n, n)
        Row j holds the probabilities to step from j; rows sum to 1, or to 0.
    n_steps : int
        Number of steps T.

    Returns
    -------
    ndarray of shape (n,)
        The average distribution; sums to 1.
    """
    transition = sparse.csr_array(transition)
    n = transition.shape[0]
    backwards = transition.T.tocsr()
    stuck = transition.sum(axis=1) == 0
    targets = np.ones(n) if stuck.all() else (~stuck).astype(float)
    targets /= targets.sum()
    # Unsigned: numba then need not look for negative indices, a quarter of the time.
    indices = backwards.indices.astype(np.uint32)
    return _walk(backwards.indptr, indices, backwards.data, stuck, targets, n_steps)


def affinity(coefficients, *, keep=1.0):
    """Symmetric affinities ``W = |C| + |C|ᵀ`` of coefficients, each row divided by its maximum.

    Parameters
    ----------
    coefficients : sparse or dense array of shape (n, n)
        Row j represents vector j by the others.
    keep : float in (0, 1], default=1.0
        Of every row keep the largest entries that together reach this share of its l1 norm.

    Returns
    -------
    csr_array of shape (n, n)
        The affinities.
    """
    C = sparse.csr_array(abs(sparse.csr_array(coefficients)), copy=True)
    C.eliminate_zeros()
    if keep < 1.0:
        C = _keep_largest(C, keep)
    largest = C.max(axis=1).toarray()
    C.data /= np.repeat(largest, np.diff(C.indptr))
    return sparse.csr_array(C + C.T)


def normalised(W):
    """Dense affinities divided by the roots of the degrees, ``D^{-1/2} W D^{-1/2}``."""
    degrees = W.sum(axis=1)
    roots = np.sqrt(np.where(degrees > 0, degrees, 1.0))
    return W / np.outer(roots, roots)


def normalised_cut(W, labels):
    """Share of the affinities of every group that lead out of it, summed over the groups."""
    degrees = W.sum(axis=1)
    groups = sparse.csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))))
    inside = (groups * (groups @ W)).sum(axis=1)
    volume = groups @ degrees
    return float(np.sum(1.0 - inside / np.where(volume > 0, volume, 1.0)))


def spectral_embedding(W, n_components, *, random_state=None):
    """Smallest eigenvalues of the normalised Laplacian ``I − D^{-1/2} W D^{-1/2}``, with vectors.

    Connected parts of the graph are decomposed one by one: eigenvalue 0 is then simple in every
    part, which iterative solvers need, and equal eigenvalues are taken from the larger parts first.
    A vertex without edges is its own part with eigenvalue 1 (it belongs to no group).

    Parameters
    ----------
    W : sparse array of shape (n, n)
        Symmetric affinities, none negative.
    n_components : int
        How many.
    random_state : int, RandomState instance or None, default=None
        Draws the start of the iterative solver, used for parts of more than 1500 vertices.

    Returns
    -------
    eigenvalues : ndarray of shape (n_components,)
        In ascending order, from 0 to 2.
    vectors : ndarray of shape (n, n_components)
        The eigenvectors, orthonormal.
    """
    W = sparse.csr_array(W)
    random_state = check_random_state(random_state)
    degrees = W.sum(axis=1)
    roots = np.sqrt(np.where(degrees > 0, degrees, 1.0))
    rows = np.repeat(np.arange(len(roots)), np.diff(W.indptr))
    normalised = W.data / (roots[rows] * roots[W.indices])
    S = sparse.csr_array((normalised, W.indices, W.indptr), shape=W.shape)
    pairs = _eigenpairs_by_part(S, n_components, random_state)
    # Ascending eigenvalues, larger parts first among equals, then the order of the vertices.
    pairs.sort(key=lambda pair: (round(pair[0] / _EQUAL), -len(pair[1]), pair[1][0]))
    vectors = np.zeros((W.shape[0], n_components))
    for column, (_, members, vector) in enumerate(pairs[:n_components]):
        vectors[members, column] = vector
    return np.array([pair[0] for pair in pairs[:n_components]]), vectors


def estimate_n_clusters(eigenvalues):
    """Number of groups at the largest gap, ``argmax_k λ_{k+1} − λ_k``, of ascending eigenvalues.

    One connected graph without a bottleneck has its largest gap after the first eigenvalue; so has
    a graph whose groups are blurred by noise, but there one later gap stands out: it wins when it
    is six times as large as any other later one.

    Vectors that fill one subspace densely mimic groups: their graph resembles a sphere, whose
    first overtone has ``r (r + 1) / 2 − 1`` eigenvalues. Give the number where it is known, or
    merge clusters with the same basis.

    Parameters
    ----------
    eigenvalues : array-like
        Of the normalised Laplacian, in ascending order.

    Returns
    -------
    int
        At least 1, below the number of eigenvalues (1 if there is only one).

    Examples
    --------
    >>> from unpermute.numerics.graphs import estimate_n_clusters
    >>> estimate_n_clusters([0.0, 0.02, 0.7, 0.8])
    2
    >>> estimate_n_clusters([0.0, 0.30, 0.31, 0.33, 0.60, 0.62])
    4
    >>> estimate_n_clusters([0.0, 0.30, 0.34, 0.37, 0.41, 0.42])
    1
    """
    if len(eigenvalues) < 2:
        return 1
    gaps = np.diff(eigenvalues)
    best = int(np.argmax(gaps))
    if best > 0 or len(gaps) < 3:
        return best + 1
    second, first = 1 + np.argsort(gaps[1:], kind="stable")[-2:]
    return int(first) + 1 if gaps[first] >= _STANDS_OUT * gaps[second] > 0 else 1


def spectral_clusters(
    W, n_clusters=None, *, min_size=1, max_clusters=50, random_state=None
):  # fmt: skip
    """Normalised spectral clustering of Ng, Jordan and Weiss [1]_.

    Relaxes the normalised cut: the eigenvectors of the `n_clusters` smallest eigenvalues of the
    normalised Laplacian, rows scaled to unit length, are clustered by k-means (20 starts).
    Eigenvectors with eigenvalue 1 and above show no groups and are left out.

    Parameters
    ----------
    W : sparse array of shape (n, n)
        Symmetric affinities, none negative.
    n_clusters : int, optional
        Number of groups; None asks :func:`estimate_n_clusters`. If fewer can be told apart, there
        are fewer, with a warning.
    min_size : int, default=1
        Groups with fewer vertices are split off if others remain, a few at most; their vertices
        join the group they have the largest affinity to.
    max_clusters : int, default=50
        Most groups to consider then; never more than one per two vertices.
    random_state : int, RandomState instance or None, default=None
        Randomness of k-means.

    Returns
    -------
    labels : ndarray of shape (n,)
        Group of every vertex, numbered in order of first appearance.
    eigenvalues : ndarray
        Of the normalised Laplacian, ascending, one more than the groups considered.

    References
    ----------
    .. [1] Ng, A., Jordan, M. and Weiss, Y. (2001). On spectral clustering: analysis and an
       algorithm. NIPS 14.
    """
    n = W.shape[0]
    random_state = check_random_state(random_state)
    considered = max(1, min(max_clusters, n // 2)) if n_clusters is None else n_clusters
    spare = _SMALL_GROUPS if min_size > 1 else 0
    eigenvalues, vectors = spectral_embedding(
        W, min(considered + spare + 1, n), random_state=random_state
    )
    vectors = vectors * (eigenvalues < 1.0 - _EQUAL)
    if n_clusters is None:
        n_clusters = estimate_n_clusters(eigenvalues[: considered + 1])
    if n_clusters == 1:
        return np.zeros(n, dtype=np.int64), eigenvalues
    labels = _cluster_rows(_unit_rows(vectors[:, :n_clusters]), n_clusters, random_state)
    for count in range(n_clusters, n_clusters + spare + 1):
        more = labels
        if count > n_clusters:
            more = _cluster_rows(_unit_rows(vectors[:, :count]), count, random_state)
        sizes = np.bincount(more)
        largest = np.argsort(-sizes, kind="stable")[:n_clusters]
        if sizes[largest[-1]] >= min_size:
            labels = _join(W, more, largest)
            break
    return _by_appearance(labels), eigenvalues


def _unit_rows(vectors):
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    # Adding zero turns -0.0 into 0.0: they are equal, but their bits are not.
    return np.round(vectors / np.where(lengths > 0, lengths, 1.0), _DECIMALS) + 0.0


def _cluster_rows(rows, n_clusters, random_state):
    distinct, labels = np.unique(rows, axis=0, return_inverse=True)
    if len(distinct) < n_clusters:
        warnings.warn(
            f"n_clusters={n_clusters}, but only {len(distinct)} can be told apart in the graph,"
            " where the other vectors coincide with these; ask for no more.",
            UserWarning,
            stacklevel=3,
        )
    if len(distinct) <= n_clusters:
        return labels
    return KMeans(n_clusters, n_init=_KMEANS_STARTS, random_state=random_state).fit_predict(rows)


def _join(W, labels, kept):
    """Give vertices outside the kept groups to the group with the largest affinity."""
    affinities = np.stack([W @ (labels == k).astype(float) for k in kept], axis=1)
    own = labels[:, None] == np.asarray(kept)
    return np.where(own.any(axis=1), own.argmax(axis=1), affinities.argmax(axis=1))


def _keep_largest(C, keep):
    rows = np.repeat(np.arange(C.shape[0]), np.diff(C.indptr))
    order = np.lexsort((C.indices, -C.data, rows))
    rows, columns, values = rows[order], C.indices[order], C.data[order]
    before = np.concatenate([[0.0], np.cumsum(values)])
    covered = before[:-1] - before[C.indptr[rows]]  # l1 mass of the larger entries of the row
    kept = covered < keep * (before[C.indptr[rows + 1]] - before[C.indptr[rows]])
    return sparse.csr_array((values[kept], (rows[kept], columns[kept])), shape=C.shape)


def _eigenpairs_by_part(S, n_components, random_state):
    n_parts, part = connected_components(S, directed=False)
    order = np.argsort(part, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(np.bincount(part, minlength=n_parts))])
    pairs = []
    for start, stop in itertools.pairwise(bounds):
        members = order[start:stop]
        block = S[members][:, members]
        values, vectors = _largest_eigenpairs(block, min(n_components, len(members)), random_state)
        pairs += [(1.0 - v, members, vectors[:, k]) for k, v in enumerate(values)]
    return pairs


def _largest_eigenpairs(S, count, random_state):
    n = S.shape[0]
    if n <= _DENSE_SIZE or count >= n // 2:
        return linalg.eigh(S.toarray(), subset_by_index=[n - count, n - 1])
    return eigsh(S, k=count, which="LA", v0=random_state.uniform(0.1, 1.0, size=n))


def _by_appearance(labels):
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse].astype(np.int64)


@njit(cache=True, nogil=True, error_model="numpy")
def _walk(indptr, indices, data, stuck, targets, n_steps):
    """Average of n_steps products with a CSR matrix, started uniformly."""
    n = len(stuck)
    mass, following, total = np.full(n, 1.0 / n), np.empty(n), np.zeros(n)
    for _ in range(n_steps):
        lost = 0.0
        for i in range(n):
            if stuck[i]:
                lost += mass[i]
        for i in range(n):
            received = lost * targets[i]
            for k in range(indptr[i], indptr[i + 1]):
                received += data[k] * mass[indices[k]]
            following[i] = received
            total[i] += received
        mass, following = following, mass
    return total / n_steps
