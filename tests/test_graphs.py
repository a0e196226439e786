"""Walks against dense matrices, affinities by hand, spectral clustering of known graphs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg, sparse
from sklearn.metrics import adjusted_rand_score

from unpermute.cluster import SparseSubspaceClustering
from unpermute.numerics import graphs
from unpermute.numerics.graphs import (
    affinity,
    average_walk,
    estimate_n_clusters,
    spectral_clusters,
    spectral_embedding,
)


def make_blocks(seed, sizes, *, within=0.5, between=0.0):
    """Symmetric random affinities of groups, in shuffled order, with labels."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    same = labels[:, None] == labels[None, :]
    edges = rng.uniform(size=same.shape) < np.where(same, within, between)
    W = np.triu(edges * rng.uniform(0.5, 1.0, size=same.shape), 1)
    return sparse.csr_array(W + W.T), labels


def dense_walk(P, n_steps):
    """Average of the rows of the powers, with empty rows filled by hand."""
    P = P.copy()
    full = P.sum(axis=1) > 0
    P[~full] = (full if full.any() else np.ones(len(P))) / max(full.sum(), 1)
    if not full.any():
        P[:] = 1.0 / len(P)
    start = np.full(len(P), 1.0 / len(P))
    steps = [start @ np.linalg.matrix_power(P, t) for t in range(1, n_steps + 1)]
    return np.mean(steps, axis=0)


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 8), n_steps=st.integers(1, 20))
def test_walk_equals_matrix_powers(seed, n, n_steps):
    rng = np.random.default_rng(seed)
    P = rng.uniform(size=(n, n)) * (rng.uniform(size=(n, n)) < 0.4)
    sums = P.sum(axis=1, keepdims=True)
    P = np.divide(P, sums, out=np.zeros_like(P), where=sums > 0)
    mass = average_walk(sparse.csr_array(P), n_steps)
    np.testing.assert_allclose(mass, dense_walk(P, n_steps), rtol=1e-10, atol=1e-15)
    assert mass.sum() == pytest.approx(1.0)


def test_periodic_walk_is_averaged():
    # A star: all mass moves between the centre and the leaves, and never settles.
    P = np.zeros((4, 4))
    P[0, 1:] = 1 / 3
    P[1:, 0] = 1.0
    mass = average_walk(sparse.csr_array(P), 1000)
    assert mass[0] == pytest.approx(0.5)
    np.testing.assert_allclose(mass[1:], 1 / 6)


def test_vector_without_representation_ends_with_nothing():
    P = np.array([[0, 1.0, 0], [1.0, 0, 0], [0, 0, 0]])
    np.testing.assert_allclose(average_walk(sparse.csr_array(P), 7), [0.5, 0.5, 0.0])


def test_affinity_by_hand():
    C = np.array([[0, -2.0, 1.0], [0, 0, 0], [0.3, 0.1, 0]])
    expected = np.array([[0, 1, 0.5], [0, 0, 0], [1, 1 / 3, 0]])
    for given_as in (C, sparse.csr_array(C), sparse.coo_array(C)):
        W = affinity(given_as)
        assert sparse.issparse(W)
        np.testing.assert_allclose(W.toarray(), expected + expected.T)
    np.testing.assert_array_equal(C[0], [0, -2.0, 1.0])


@pytest.mark.parametrize(
    ("keep", "kept"), [(0.4, 1), (0.5, 1), (0.51, 2), (0.75, 2), (0.9, 3), (1.0, 4)]
)
def test_affinity_keeps_the_largest(keep, kept):
    C = np.zeros((5, 5))
    C[0, 1:] = [-0.5, 0.0625, 0.25, -0.1875]
    W = affinity(C, keep=keep).toarray()
    order = [1, 3, 4, 2]
    assert np.flatnonzero(W[0]).tolist() == sorted(order[:kept])
    np.testing.assert_allclose(W[0, order[:kept]], np.array([1, 0.5, 0.375, 0.125])[:kept])


def test_embedding_equals_the_dense_laplacian(seed):
    W, _ = make_blocks(seed, [12, 10, 8], within=0.8, between=0.1)
    degrees = W.sum(axis=1)
    L = np.eye(30) - W.toarray() / np.sqrt(np.outer(degrees, degrees))
    values, vectors = spectral_embedding(W, 6)
    np.testing.assert_allclose(values, linalg.eigvalsh(L)[:6], atol=1e-12)
    np.testing.assert_allclose(L @ vectors, vectors * values, atol=1e-12)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(6), atol=1e-12)


@pytest.mark.parametrize("between", [0.0, 0.01])
def test_iterative_eigenvectors_equal_dense_ones(monkeypatch, seed, between):
    W, labels = make_blocks(seed, [40, 30, 30], between=between)
    dense_values, dense_vectors = spectral_embedding(W, 4, random_state=seed)
    dense_labels, _ = spectral_clusters(W, 3, random_state=seed)
    monkeypatch.setattr(graphs, "_DENSE_SIZE", 10)
    values, vectors = spectral_embedding(W, 4, random_state=seed)
    np.testing.assert_allclose(values, dense_values, atol=1e-10)
    # The eigenvectors span the same spaces: of the repeated eigenvalue, and of the others.
    np.testing.assert_allclose(
        vectors[:, :3] @ vectors[:, :3].T, dense_vectors[:, :3] @ dense_vectors[:, :3].T, atol=1e-8
    )
    assert adjusted_rand_score(labels, dense_labels) == 1.0
    np.testing.assert_array_equal(spectral_clusters(W, 3, random_state=seed)[0], dense_labels)


@pytest.mark.parametrize("sizes", [[30], [25, 15], [20, 20, 12, 9], [8] * 10])
@pytest.mark.parametrize("between", [0.0, 0.01])
def test_gap_finds_the_number_of_groups(seed, sizes, between):
    W, labels = make_blocks(seed, sizes, within=0.8, between=between)
    found, _ = spectral_clusters(W, random_state=0)
    assert adjusted_rand_score(labels, found) == 1.0
    assert len(np.unique(found)) == len(sizes)


@pytest.mark.parametrize(
    ("eigenvalues", "expected"),
    [
        ([0.0], 1),
        ([0.0, 0.9], 1),
        ([0.0, 0.0, 0.0, 0.4, 0.5], 3),
        ([0.0, 0.5, 0.5, 0.5], 1),
        ([0.0, 0.5, 0.51, 0.52, 0.69, 0.70], 4),
        ([0.0, 0.27, 0.3, 0.31, 0.34, 0.35], 1),
    ],
)
def test_number_of_groups_from_eigenvalues(eigenvalues, expected):
    assert estimate_n_clusters(eigenvalues) == expected


def test_labels_are_numbered_by_appearance(seed):
    W, labels = make_blocks(seed, [10, 10, 10, 10])
    found, _ = spectral_clusters(W, 4, random_state=seed)
    _, first = np.unique(found, return_index=True)
    assert found[0] == 0
    assert np.all(np.diff(first) > 0)
    assert adjusted_rand_score(labels, found) == 1.0


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_vertices_without_edges_do_no_harm():
    W, labels = make_blocks(0, [12, 12])
    stored_zeros = sparse.csr_array((np.zeros(2), ([0, 1], [1, 0])), shape=(3, 3))
    padded = sparse.csr_array(sparse.block_array([[W, None], [None, stored_zeros]]))
    assert padded.nnz == W.nnz + 2
    found, eigenvalues = spectral_clusters(padded, 2, random_state=0)
    assert adjusted_rand_score(labels, found[:24]) == 1.0
    assert np.isfinite(eigenvalues).all()
    assert len(np.unique(spectral_clusters(padded, random_state=0)[0])) == 2


def test_graph_without_edges_is_one_group():
    found, eigenvalues = spectral_clusters(sparse.csr_array((6, 6)), random_state=0)
    assert not found.any()
    np.testing.assert_array_equal(eigenvalues, 1.0)


def test_larger_parts_come_first():
    # Five parts, three groups: the pairs must not displace the large parts.
    W, labels = make_blocks(0, [2, 15, 2, 15, 15], within=1.0)
    found, _ = spectral_clusters(W, 3, random_state=0)
    large = np.isin(labels, [1, 3, 4])
    assert adjusted_rand_score(labels[large], found[large]) == 1.0


@pytest.mark.parametrize("n_clusters", [2, 3])
def test_identical_vertices_stay_together(n_clusters):
    # A complete graph: all eigenvectors but the first are arbitrary.
    W = sparse.csr_array(np.ones((20, 20)) - np.eye(20))
    with pytest.warns(UserWarning, match=f"n_clusters={n_clusters}, but only 1 can be told apart"):
        found, _ = spectral_clusters(W, n_clusters, random_state=0)
    assert not found.any()


def test_rounding_is_not_split():
    # Two complete graphs, asked for four groups: two are there.
    block = np.ones((9, 9)) - np.eye(9)
    W = sparse.csr_array(linalg.block_diag(block, block))
    with pytest.warns(UserWarning, match="n_clusters=4, but only 2 can be told apart"):
        found, _ = spectral_clusters(W, 4, random_state=0)
    np.testing.assert_array_equal(found, np.repeat([0, 1], 9))


def test_identical_vectors_get_one_label():
    with pytest.warns(UserWarning, match="n_clusters=2, but only 1 can be told apart"):
        labels = SparseSubspaceClustering(2, random_state=0).fit_predict(np.ones((20, 6)))
    assert not labels.any()
