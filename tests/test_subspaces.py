"""Subspaces: exact on exact data, robust where the SVD is not, orthonormal on anything."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.exceptions import ConvergenceWarning

from unpermute.numerics.robust_subspace import (
    distance_profile,
    dpcp_basis,
    geometric_median,
    irls_basis,
    unit_rows,
)
from unpermute.numerics.subspaces import (
    BASIS_METHODS,
    estimate_rank,
    fit_subspace,
    fit_subspaces,
    residual_norms,
)

ROBUST = ["irls", "dpcp"]


def make_subspace(seed, n_vectors=80, n_features=20, rank=4, *, n_stray=0, noise=0.0):
    """Unit vectors of a subspace; the first `n_stray` are replaced by random ones."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(n_features, rank)))[0]
    X = unit_rows(rng.normal(size=(n_vectors, rank))) @ basis.T
    X += noise * rng.normal(size=X.shape) / np.sqrt(n_features)
    X[:n_stray] = unit_rows(rng.normal(size=(n_stray, n_features)))
    return X, basis


def sine(basis, truth):
    """Sine of the largest principal angle."""
    return np.linalg.norm(basis - truth @ (truth.T @ basis), 2)


def mean_distance(X, basis):
    return np.linalg.norm(X - X @ basis @ basis.T, axis=1).mean()


@pytest.mark.parametrize(
    ("values", "max_rank", "expected"),
    [
        ([5.0, 4.0, 3.0, 0.1, 0.05], 4, 3),
        ([5.0, 4.0, 3.0, 0.1, 0.05], 2, 2),
        ([3.0, 2.0, 0.0, 0.0], 3, 2),
        ([3.0, 2.0, 1e-14, 1e-40], 3, 2),
        ([1.0, 1.0, 1.0], 2, 1),
        ([0.0, 0.0], 1, 1),
        ([2.0], 1, 1),
        ([], 1, 1),
    ],
)
def test_rank_is_where_the_ratio_is_largest(values, max_rank, expected):
    assert estimate_rank(values, max_rank) == expected


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("method", sorted(BASIS_METHODS))
def test_exact_data_are_fitted_exactly(seed, method, affine):
    X, truth = make_subspace(seed)
    shift = affine * 3.0 * np.random.default_rng(seed + 9).normal(size=20)
    basis, offset = fit_subspace(X + shift, method=method, affine=affine)
    assert basis.shape == truth.shape
    assert sine(basis, truth) < 1e-6
    np.testing.assert_allclose(offset, shift - truth @ (truth.T @ shift), atol=1e-6)
    np.testing.assert_allclose(basis.T @ offset, 0.0, atol=1e-12)


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("method", ROBUST)
def test_robust_bases_ignore_stray_vectors(seed, method, affine):
    X, truth = make_subspace(seed, n_stray=24, noise=0.01)
    X[:24] *= 10.0
    X += affine * 2.0
    shift = affine * (np.full(20, 2.0) - truth @ (truth.T @ np.full(20, 2.0)))
    basis, offset = fit_subspace(X, 4, method=method, affine=affine)
    assert sine(basis, truth) < 0.01
    assert np.linalg.norm(offset - shift) < 0.03
    assert sine(fit_subspace(X, 4, affine=affine)[0], truth) > 0.2


@pytest.mark.parametrize("method", ROBUST)
def test_robust_rank_does_not_count_stray_vectors(seed, method):
    X, _ = make_subspace(seed, n_vectors=40, n_stray=4, noise=0.01)
    assert fit_subspace(X, method=method)[0].shape[1] == 4
    assert fit_subspace(X, method="svd")[0].shape[1] == 8


@pytest.mark.parametrize("affine", [False, True])
def test_robust_rank_of_few_vectors(seed, affine):
    # A subspace of rank 20 or more could pass through most of the 30 vectors exactly.
    X, _ = make_subspace(seed, 30, 60, 5, n_stray=6, noise=0.01)
    assert fit_subspace(X, method="robust", affine=affine)[0].shape[1] == 5


def test_profile_falls_and_drops_at_the_rank(seed):
    X, _ = make_subspace(seed, n_stray=20, noise=0.01)
    profile = distance_profile(X, 8)
    assert profile[0] == pytest.approx(1.0)
    assert np.argmax(profile[:-1] / profile[1:]) == 3


@pytest.mark.parametrize("solve", [irls_basis, dpcp_basis])
def test_robust_solvers_lower_the_sum_of_distances(seed, solve):
    X, _ = make_subspace(seed, n_stray=24, noise=0.05)
    result = solve(X, 4)
    costs = np.array(result.info["costs"])
    assert result.converged
    assert np.all(np.diff(costs) <= 1e-12)
    assert costs[0] == pytest.approx(mean_distance(unit_rows(X), fit_subspace(unit_rows(X), 4)[0]))
    assert costs[-1] == pytest.approx(mean_distance(unit_rows(X), result.solution), rel=1e-9)
    assert costs[-1] < 0.97 * costs[0]


def test_both_robust_solvers_reach_the_same_minimum(seed):
    X, _ = make_subspace(seed, n_stray=24, noise=0.05)
    assert sine(irls_basis(X, 4).solution, dpcp_basis(X, 4).solution) < 1e-3


@pytest.mark.parametrize("solve", [irls_basis, dpcp_basis])
def test_robust_solution_is_a_minimum(seed, solve):
    X, _ = make_subspace(seed, n_stray=24, noise=0.05)
    basis = solve(X, 4).solution
    rng = np.random.default_rng(seed)
    for size in (1e-1, 1e-2, 1e-3):
        near = np.linalg.qr(basis + size * rng.normal(size=basis.shape))[0]
        assert mean_distance(X, near) > mean_distance(X, basis)


@pytest.mark.parametrize("solve", [irls_basis, dpcp_basis])
def test_unfinished_solver_says_so_with_numbers(solve):
    X, _ = make_subspace(0, n_stray=24, noise=0.05)
    with pytest.warns(ConvergenceWarning, match=r"stopped at .*e-0\d, above .*max_iter \(now 2\)"):
        result = solve(X, 4, max_iter=2)
    assert not result.converged
    assert result.n_iter == 2


def test_geometric_median_minimises_the_sum_of_distances(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 5))
    X[:10] += 100.0
    median = geometric_median(X, tol=1e-8).solution
    cost = np.linalg.norm(X - median, axis=1).sum()
    for _ in range(20):
        near = median + 1e-2 * rng.normal(size=5)
        assert np.linalg.norm(X - near, axis=1).sum() > cost
    assert np.linalg.norm(median) < 2 < np.linalg.norm(X.mean(axis=0))


def test_residuals_do_not_cancel():
    X, basis = make_subspace(0)
    normal = np.linalg.qr(basis, mode="complete")[0][:, -1]
    offset = 0.5 * normal
    points = X + offset + 1e-11 * normal
    distances = residual_norms(points, [basis, basis], [offset, np.zeros(20)])
    np.testing.assert_allclose(distances[:, 0], 1e-11, rtol=1e-3)
    np.testing.assert_allclose(distances[:, 1], 0.5, rtol=1e-9)


def test_residuals_equal_the_projection_matrix(rng):
    X = rng.normal(size=(9, 7))
    bases = [np.linalg.qr(rng.normal(size=(7, r)))[0] for r in (1, 3)]
    offsets = [rng.normal(size=7), np.zeros(7)]
    expected = [
        np.linalg.norm((X - o) @ (np.eye(7) - U @ U.T), axis=1)
        for U, o in zip(bases, offsets, strict=True)
    ]
    np.testing.assert_allclose(residual_norms(X, bases, offsets), np.transpose(expected))


def test_one_subspace_per_label(rng):
    parts = [make_subspace(k, n_vectors=15, rank=k + 1) for k in range(3)]
    X = np.vstack([part for part, _ in parts] + [rng.normal(size=(4, 20))])
    labels = np.repeat([0, 1, 2, -1], [15, 15, 15, 4])
    order = rng.permutation(len(X))
    for rank in ([1, 2, 3], None):
        bases, offsets = fit_subspaces(X[order], labels[order], rank, 3)
        for basis, offset, (_, truth) in zip(bases, offsets, parts, strict=True):
            assert basis.shape == truth.shape
            assert sine(basis, truth) < 1e-9
            assert not offset.any()


@pytest.mark.parametrize(
    ("rank", "affine", "message"),
    [
        (3, False, r"cluster 1 has 2 vectors, but a linear subspace of rank 3 needs at least 3"),
        (2, True, r"cluster 1 has 2 vectors, but an affine subspace of rank 2 needs at least 3"),
        ([1, 3], False, r"cluster 1 has 2 vectors.* rank 3 .*lower rank, ask for fewer subspaces"),
    ],
)
def test_too_small_cluster_is_named(rank, affine, message):
    X, _ = make_subspace(0, n_vectors=8)
    with pytest.raises(ValueError, match=message):
        fit_subspaces(X, np.array([0] * 6 + [1] * 2), rank, 2, affine=affine)


def test_empty_cluster_is_named():
    X, _ = make_subspace(0, n_vectors=8)
    with pytest.raises(ValueError, match="cluster 1 has 0 vectors"):
        fit_subspaces(X, np.zeros(8, int), None, 2)


def test_unknown_method_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"method='pca' is not known.*'dpcp', 'irls', 'robust'"):
        fit_subspace(np.eye(3), 1, method="pca")


matrices = arrays(
    float,
    st.tuples(st.integers(1, 6), st.integers(2, 6)),
    elements=st.one_of(
        st.sampled_from([0.0, 1.0, -1.0]), st.floats(-1e6, 1e6, allow_subnormal=False)
    ),
)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("method", ["svd", *ROBUST])
@settings(max_examples=40)
@given(X=matrices, data=st.data())
@example(X=np.zeros((3, 4)), data=None)
@example(X=np.ones((5, 4)), data=None)
@example(X=np.array([[1e-100, 0.0], [0.0, 1e100]]), data=None)
def test_basis_is_orthonormal_whatever_the_data(method, affine, X, data):
    n_features = X.shape[1]
    rank = None if data is None else data.draw(st.integers(1, n_features - 1) | st.none())
    basis, offset = fit_subspace(X, rank, method=method, affine=affine)
    if rank is not None:
        assert basis.shape == (n_features, rank)
    np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-12)
    largest = np.abs(X).max()
    np.testing.assert_allclose(basis.T @ offset, 0.0, atol=1e-12 * max(largest, 1.0))
    assert affine or not offset.any()


@settings(max_examples=25)
@given(seed=st.integers(0, 1000), scale=st.sampled_from([1e-8, 0.3, 1e8]))
def test_robust_basis_depends_on_directions_only(seed, scale):
    X, _ = make_subspace(seed, n_vectors=30, n_features=8, rank=2, n_stray=6, noise=0.02)
    rng = np.random.default_rng(seed)
    changed = rng.permutation(X * scale * rng.uniform(0.5, 2.0, size=(30, 1)))
    changed = np.vstack([changed, np.zeros((3, 8))])
    assert sine(irls_basis(changed, 2).solution, irls_basis(X, 2).solution) < 1e-4
