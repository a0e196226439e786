"""Subspace clusterers: exact on independent subspaces, equal to plain transcriptions."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import orthogonal_mp
from sklearn.metrics import adjusted_rand_score

from unpermute.cluster import (
    ElasticNetSubspaceClustering,
    OMPSubspaceClustering,
    ShapeInteractionClustering,
    SparseSubspaceClustering,
)
from unpermute.cluster._omp import orthogonal_matching_pursuit
from unpermute.cluster._ssc import sparse_self_representation

CLUSTERERS = [
    SparseSubspaceClustering,
    ElasticNetSubspaceClustering,
    OMPSubspaceClustering,
    ShapeInteractionClustering,
]
# More coefficients than dimensions would link subspaces through the noise.
MODELS = [
    SparseSubspaceClustering(3, random_state=0),
    ElasticNetSubspaceClustering(3, random_state=0),
    OMPSubspaceClustering(3, max_nonzeros=3, random_state=0),
    ShapeInteractionClustering(3, 3, random_state=0),
]


def make_union(seed, n_subspaces=3, n_vectors=20, n_features=15, rank=3, *, noise=0.0, affine=0.0):
    """Unit vectors in random subspaces, in shuffled order, with labels."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(n_subspaces), n_vectors))
    X = rng.normal(size=(len(labels), rank))
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    bases = [np.linalg.qr(rng.normal(size=(n_features, rank)))[0] for _ in range(n_subspaces)]
    X = np.array([bases[label] @ x for label, x in zip(labels, X, strict=True)])
    X += affine * rng.normal(size=(n_subspaces, n_features))[labels]
    return X + noise * rng.normal(size=X.shape) / np.sqrt(n_features), labels


def plain_admm(X, alpha, affine, n_iter):
    """Transcribe the authors' iteration with the inverse of order n_vectors + n_features."""
    Y = X.T
    D, N = Y.shape
    gamma = alpha / np.abs(Y).sum(axis=0).max()
    P = np.hstack([Y, np.eye(D) / gamma])
    T = np.abs(Y.T @ Y) - np.diag(np.diag(np.abs(Y.T @ Y)))
    mu1, mu2 = alpha / T.max(axis=0).min(), alpha
    delta = np.concatenate([np.ones(N), np.zeros(D)])[:, None] * affine
    inverse = np.linalg.inv(mu1 * P.T @ P + mu2 * np.eye(N + D) + mu2 * delta @ delta.T)
    C, L1, L2, L3 = np.zeros((N + D, N)), np.zeros((D, N)), np.zeros((N + D, N)), np.zeros((1, N))
    diagonal = np.arange(N), np.arange(N)
    for _ in range(n_iter):
        right = mu1 * P.T @ (Y + L1 / mu1) + mu2 * (C - L2 / mu2)
        Z = inverse @ (right + mu2 * delta @ (np.ones((1, N)) - L3 / mu2))
        Z[diagonal] = 0.0
        C = np.sign(Z + L2 / mu2) * np.maximum(np.abs(Z + L2 / mu2) - 1 / mu2, 0.0)
        C[diagonal] = 0.0
        L1 = L1 + mu1 * (Y - P @ Z)
        L2 = L2 + mu2 * (Z - C)
        L3 = L3 + mu2 * (delta.T @ Z - 1) * affine
    kept = Y - Z[N:] / gamma
    misfit = np.linalg.norm(kept - Y @ Z[:N], axis=0) / np.linalg.norm(kept, axis=0)
    sums = np.abs(delta.T @ Z - 1).max() if affine else 0.0
    return C[:N].T, max(np.abs(Z - C).max(), misfit.max(), sums)


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("n_iter", [1, 2, 45, 60])
@pytest.mark.parametrize("n_vectors", [4, 20])
def test_admm_equals_the_plain_inverse(n_vectors, n_iter, affine):
    X, _ = make_union(1, n_vectors=n_vectors, noise=0.05, affine=float(affine))
    with pytest.warns(ConvergenceWarning):
        result = sparse_self_representation(X, affine=affine, tol=1e-15, max_iter=n_iter)
    expected, error = plain_admm(X, 20.0, affine, n_iter)
    np.testing.assert_allclose(result.solution.toarray(), expected, atol=1e-8)
    assert result.optimality == pytest.approx(error, rel=1e-6)
    assert result.n_iter == n_iter


@pytest.mark.parametrize("affine", [False, True])
def test_admm_solves_its_problem(affine):
    X, _ = make_union(0, n_vectors=12, affine=float(affine))
    result = sparse_self_representation(X, affine=affine, tol=1e-5, max_iter=20_000)
    C = result.solution.toarray()
    assert result.converged
    assert not C.diagonal().any()
    np.testing.assert_allclose(C @ X, X, atol=1e-3)
    if affine:
        np.testing.assert_allclose(C.sum(axis=1), 1.0, atol=1e-3)


def test_admm_puts_gross_errors_into_the_error_term():
    X, _ = make_union(0, n_subspaces=1, n_vectors=30)
    spoiled = X.copy()
    spoiled[0, 4] += 2.0
    C = sparse_self_representation(spoiled).solution
    np.testing.assert_allclose((C @ spoiled)[0], X[0], atol=0.05)


def test_default_iterations_suffice_for_noisy_subspaces(seed):
    X, _ = make_union(seed, n_subspaces=5, n_vectors=30, n_features=50, rank=5, noise=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = SparseSubspaceClustering(5, random_state=seed).fit(X)
    assert model.n_iter_ < 1000


@pytest.mark.parametrize("clusterer", CLUSTERERS)
@pytest.mark.parametrize("n_clusters", [3, None])
def test_independent_subspaces_are_found_exactly(seed, clusterer, n_clusters):
    X, labels = make_union(seed, rank=4, n_vectors=30)
    model = clusterer(n_clusters, random_state=0).fit(X)
    assert adjusted_rand_score(labels, model.labels_) == 1.0
    assert model.n_clusters_ == 3
    C = model.coefficients_.tocoo()
    assert np.abs(C.data[labels[C.coords[0]] != labels[C.coords[1]]]).sum() < 1e-3 * C.nnz


@pytest.mark.parametrize("clusterer", CLUSTERERS)
def test_noisy_subspaces_are_found(seed, clusterer):
    X, labels = make_union(seed, 5, 40, 50, 5, noise=0.01)
    assert adjusted_rand_score(labels, clusterer(5, random_state=0).fit_predict(X)) == 1.0
    assert clusterer(random_state=0).fit(X).n_clusters_ == 5


def test_affine_subspaces_need_the_constraint():
    # Parallel lines: as linear subspaces both are the whole plane.
    labels = np.repeat([0, 1], 25)
    line = np.random.default_rng(0).uniform(-1, 1, size=50)
    X = np.column_stack([line, np.where(labels, 1.0, -1.0)])
    affine = SparseSubspaceClustering(2, affine=True, random_state=0)
    assert adjusted_rand_score(labels, affine.fit_predict(X)) == 1.0
    linear = SparseSubspaceClustering(2, random_state=0)
    assert adjusted_rand_score(labels, linear.fit_predict(X)) < 0.5


@pytest.mark.parametrize("max_nonzeros", [1, 5])
def test_matching_pursuit_equals_scikit_learn(seed, max_nonzeros):
    X, _ = make_union(seed, noise=0.2)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    result = orthogonal_matching_pursuit(X, max_nonzeros=max_nonzeros)
    C = result.solution.toarray()
    for j in range(len(X)):
        others = np.delete(np.arange(len(X)), j)
        expected = orthogonal_mp(X[others].T, X[j], n_nonzero_coefs=max_nonzeros)
        np.testing.assert_allclose(C[j, others], expected, atol=1e-10)
    np.testing.assert_allclose(np.linalg.norm(X - C @ X, axis=1), result.optimality, atol=1e-12)
    assert not C.diagonal().any()


def test_matching_pursuit_stops_when_represented(seed):
    X, _ = make_union(seed, rank=3)
    result = orthogonal_matching_pursuit(X, max_nonzeros=10)
    assert result.converged.all()
    assert np.all(result.n_iter <= 3)


def test_matching_pursuit_refuses_dependent_vectors(rng):
    # After the first of two equal vectors only rounding recommends the second.
    rotation = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    X = np.array([[0.6, 0.8, 0, 0, 0, 0], *[[1.0, 0, 0, 0, 0, 0]] * 2]) @ rotation
    result = orthogonal_matching_pursuit(X)
    assert result.n_iter[0] == 1
    assert np.abs(result.solution.data).max() < 1.01


def test_matching_pursuit_does_not_depend_on_threads_or_blocks(monkeypatch):
    X, _ = make_union(0, n_vectors=30, noise=0.1)
    once = orthogonal_matching_pursuit(X)
    monkeypatch.setattr("unpermute.cluster._omp._BLOCK", 7)
    again = orthogonal_matching_pursuit(X, n_jobs=2)
    assert abs(once.solution - again.solution).max() < 1e-12


@pytest.mark.parametrize("clusterer", CLUSTERERS)
def test_fitted_attributes(clusterer):
    X, _ = make_union(0)
    model = clusterer(3, random_state=0)
    labels = model.fit_predict(X)
    np.testing.assert_array_equal(labels, model.labels_)
    assert sparse.issparse(model.coefficients_)
    assert model.coefficients_.format == "csr"
    W = model.affinity_matrix_
    assert abs(W - W.T).max() == 0
    assert W.min() >= 0
    assert np.all(np.diff(model.eigenvalues_) >= -1e-9)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("clusterer", CLUSTERERS)
@pytest.mark.parametrize("kind", ["zeros", "all zero", "orthogonal", "duplicates", "equal", "two"])
@pytest.mark.parametrize("affine", [False, True])
def test_degenerate_data(clusterer, kind, affine):
    X, _ = make_union(0, n_vectors=8)
    X = {
        "zeros": np.vstack([np.zeros((2, 15)), X]),
        "all zero": np.zeros((5, 15)),
        "orthogonal": np.eye(5, 15),
        "duplicates": np.vstack([X, X[:5], X[:5]]),
        "equal": np.tile(X[:1], (6, 1)),
        "two": X[:2],
    }[kind]
    options = {"affine": affine} if clusterer is SparseSubspaceClustering else {}
    model = clusterer(2, random_state=0, **options).fit(X)
    assert model.labels_.shape == (len(X),)
    assert set(model.labels_) <= {0, 1}
    assert np.isfinite(model.coefficients_.data).all()
    assert np.isfinite(model.eigenvalues_).all()
    assert not model.coefficients_.diagonal().any()


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=8)
@given(seed=st.integers(0, 1000), scale=st.sampled_from([1e-6, 0.1, 7.0, 1e6]))
def test_scale_and_order_do_not_matter(model, seed, scale):
    X, _ = make_union(seed, noise=0.01)
    order = np.random.default_rng(seed).permutation(len(X))
    labels = model.fit_predict(X)
    changed = model.fit_predict(scale * X[order])
    assert adjusted_rand_score(labels[order], changed) == 1.0


@pytest.mark.parametrize("model", MODELS[1:])
def test_lengths_do_not_matter(model, rng):
    X, labels = make_union(0, noise=0.01)
    coefficients = model.fit(X).coefficients_
    assert adjusted_rand_score(labels, model.labels_) == 1.0
    model.fit(X * rng.uniform(0.01, 100.0, size=(len(X), 1)))
    assert abs(model.coefficients_ - coefficients).max() < 1e-6


@pytest.mark.parametrize("clusterer", CLUSTERERS)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_clusters": 61}, "n_clusters=61 must not exceed the number of vectors, 60"),
        ({"n_clusters": 0}, "'n_clusters' parameter of .* must be None or an int in the range"),
        ({"keep": 0.0}, "'keep' parameter of .* must be a float in the range"),
    ],
)
def test_bad_parameters_are_named(clusterer, options, message):
    X, _ = make_union(0)
    with pytest.raises(ValueError, match=message):
        clusterer(**options).fit(X)


def test_unfinished_admm_says_so():
    X, _ = make_union(0, noise=0.01)
    message = r"stopped at .*, above its tolerance 2e-03; raise max_iter \(now 5\) or lower alpha"
    with pytest.warns(ConvergenceWarning, match=message):
        SparseSubspaceClustering(3, max_iter=5).fit(X)


def test_interactions_separate_affine_subspaces_and_find_their_dimensions(seed):
    X, labels = make_union(seed, n_vectors=30, n_features=20, rank=2, noise=0.01, affine=1.0)
    model = ShapeInteractionClustering(3, 2, affine=True, random_state=0).fit(X)
    assert adjusted_rand_score(labels, model.labels_) == 1.0
    assert model.n_dimensions_ <= 9
    # The linear hull of an affine subspace has one dimension more.
    linear = ShapeInteractionClustering(3, 3, random_state=0).fit(X)
    assert adjusted_rand_score(labels, linear.labels_) == 1.0


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_small_clusters_join_the_others(model):
    X, labels = make_union(3, n_vectors=20)
    # Two vectors far from everything: by themselves they would be a cluster.
    far = np.linalg.qr(np.random.default_rng(0).normal(size=(15, 15)))[0][:1]
    X = np.vstack([X, far, far])
    found = model.set_params(min_size=4).fit_predict(X)
    assert np.bincount(found).min() >= 4
    assert adjusted_rand_score(labels, found[:-2]) == 1.0
