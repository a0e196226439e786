"""The methods PMSDR is compared with: exact where theory promises it, equal to other packages."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyrpca import rpca_pcp_ialm
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from tensorly.decomposition import robust_pca

from unpermute import PMSDR
from unpermute._progress import on_progress
from unpermute.baselines import (
    MRUC,
    UPCA,
    LowRankRepresentation,
    PerSubspace,
    RobustKernelPCA,
    RobustPCA,
    SSCReconstruction,
)
from unpermute.baselines._rkpca import _cost_slope_and_scale, _root_and_derivative
from unpermute.cluster._ssc import sparse_self_representation
from unpermute.datasets import make_permuted_subspaces
from unpermute.metrics import recovery_error, subspace_clustering_error
from unpermute.numerics import proximal
from unpermute.numerics.graphs import affinity, spectral_clusters
from unpermute.numerics.orthant_descent import orthant_descent

ALL = [
    RobustPCA(),
    RobustKernelPCA(),
    LowRankRepresentation(),
    SSCReconstruction(),
    UPCA(),
    MRUC(random_state=0),
    PerSubspace(),
]
ITERATIVE = [model for model in ALL if not isinstance(model, PerSubspace)]


def name_of(model):
    return type(model).__name__


def low_rank_and_sparse(seed, n=100, m=80, rank=3, share=0.1):
    rng = np.random.default_rng(seed)
    low_rank = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, m))
    wrong = rng.random((n, m)) < share
    return low_rank, low_rank + np.where(wrong, rng.uniform(-10, 10, size=(n, m)), 0.0)


def relative(A, B):
    return np.linalg.norm(A - B) / np.linalg.norm(B)


def pursuit_cost(X, low_rank, lam):
    return np.linalg.norm(low_rank, "nuc") + lam * np.abs(X - low_rank).sum()


# Robust PCA


@pytest.mark.parametrize("solver", ["ialm", "apg"])
def test_robust_pca_is_exact_on_low_rank_and_sparse(seed, solver):
    low_rank, X = low_rank_and_sparse(seed)
    model = RobustPCA(solver=solver).fit(X)
    assert relative(model.recovered_, low_rank) < 1e-5
    assert model.rank_ == 3
    assert model.converged_
    assert model.duality_gap_ < 1e-3
    np.testing.assert_allclose(model.recovered_ + model.sparse_, X, atol=1e-4)


def test_robust_pca_equals_pyrpca_and_tensorly(seed):
    _, X = low_rank_and_sparse(seed)
    model = RobustPCA().fit(X)
    theirs, _ = rpca_pcp_ialm(X, model.lam_, verbose=False)
    assert relative(model.recovered_, theirs) < 1e-4
    # Tensorly's penalty counts both unfoldings of a matrix, which are one.
    theirs, _ = robust_pca(X, reg_E=model.lam_, reg_J=0.5, n_iter_max=400, verbose=0)
    assert relative(model.recovered_, theirs) < 1e-4


def test_robust_pca_is_optimal_where_recovery_is_not_exact(seed):
    _, X = low_rank_and_sparse(seed, n=30, m=25, rank=10, share=0.3)
    model = RobustPCA().fit(X)
    cost = pursuit_cost(X, model.recovered_, model.lam_)
    assert model.duality_gap_ < 1e-4
    theirs, _ = rpca_pcp_ialm(X, model.lam_, verbose=False)
    assert cost <= pursuit_cost(X, theirs, model.lam_) * (1 + 1e-6)


def test_partial_decompositions_give_the_same_answer(monkeypatch):
    low_rank, X = low_rank_and_sparse(0, n=120, m=90, rank=2)
    complete = RobustPCA().fit(X)
    monkeypatch.setattr(proximal, "_SMALL", 20)
    calls = []
    partial = proximal.SingularValueThreshold._partial
    monkeypatch.setattr(
        proximal.SingularValueThreshold,
        "_partial",
        lambda *args: calls.append(1) or partial(*args),
    )
    model = RobustPCA().fit(X)
    assert len(calls) > 10
    assert relative(model.recovered_, complete.recovered_) < 1e-6
    assert relative(model.recovered_, low_rank) < 1e-5


@pytest.mark.parametrize("solver", ["ialm", "apg"])
def test_robust_pca_fills_missing_entries(seed, solver):
    low_rank, X = low_rank_and_sparse(seed, rank=2, share=0.05)
    X[np.random.default_rng(seed + 10).random(X.shape) < 0.2] = np.nan
    assert relative(RobustPCA(solver=solver).fit_transform(X), low_rank) < 1e-4


def test_robust_pca_transforms_new_vectors_despite_wrong_entries(seed):
    low_rank, X = low_rank_and_sparse(seed, n=120)
    model = RobustPCA().fit(X[:100])
    new = low_rank[100:].copy()
    new[:, 5] += 100.0
    new[:, 7] = np.nan
    np.testing.assert_allclose(model.transform(new), low_rank[100:], atol=1e-3)


def test_all_error_leaves_nothing_to_transform_with():
    X = np.eye(6)
    model = RobustPCA(1e-3).fit(X)
    assert model.rank_ == 0
    np.testing.assert_array_equal(model.transform(X), np.zeros((6, 6)))


# Robust kernel PCA


def test_slope_of_the_kernel_cost_is_its_derivative(rng):
    Y, direction = rng.normal(size=(2, 12, 4))
    _, slope, _ = _cost_slope_and_scale(Y, 1.5)
    step = 1e-6
    # The slope is with respect to the errors, and Y is X less the errors.
    change = _cost_slope_and_scale(Y - step * direction, 1.5)[0]
    change -= _cost_slope_and_scale(Y + step * direction, 1.5)[0]
    np.testing.assert_allclose(change / (2 * step), np.vdot(slope, direction), rtol=1e-5)


def test_roots_that_are_near_the_ridge_need_no_vectors(rng):
    Q = np.linalg.qr(rng.normal(size=(30, 30)))[0]
    values = 1e-5 + np.concatenate([np.zeros(8), np.logspace(-10, 1, 22)])
    root, derivative = _root_and_derivative((Q * values) @ Q.T)
    np.testing.assert_allclose(root, np.sqrt(values).sum(), rtol=1e-6)
    np.testing.assert_allclose(derivative, (Q * (0.5 / np.sqrt(values))) @ Q.T, atol=2e-3)


def test_orthant_descent_solves_the_lasso(rng):
    A, b, lam = rng.normal(size=(40, 15)) * np.geomspace(1, 8, 15), rng.normal(size=40), 15.0

    def smooth(x):
        rest = A @ x - b
        return 0.5 * rest @ rest, A.T @ rest, (A**2).sum(axis=0)

    found = orthant_descent(
        smooth,
        np.zeros(15),
        lam,
        first_step=lambda slope: 1e-3,
        tol=1e-6,
        max_iter=500,
        task="lasso",
    )
    x = found.solution
    slope = smooth(x)[1]
    assert found.converged
    assert 0 < np.sum(x == 0) < 15
    np.testing.assert_allclose(slope[x != 0], -lam * np.sign(x[x != 0]), atol=1e-4)
    assert np.all(np.abs(slope[x == 0]) <= lam + 1e-4)
    assert np.all(np.diff(found.info["objective"]) <= 0)


def test_orthant_descent_does_not_take_a_long_step_for_the_end():
    def smooth(x):
        return 0.5e-6 * x @ x, 1e-6 * x, np.ones(1)

    options = dict(first_step=lambda slope: 1e-3, tol=1e-3, max_iter=100, task="flat")
    found = orthant_descent(smooth, np.ones(1), 1.0, **options)
    assert found.converged
    assert found.solution[0] == 0


def test_orthant_descent_that_cannot_go_on_says_how_far_it_is():
    def smooth(x):
        return 0.0, np.full(3, 5.0), np.ones(1)  # a slope that the cost does not have

    options = dict(first_step=lambda slope: 1e-3, tol=1e-3, max_iter=100, task="wrong")
    found = orthant_descent(smooth, np.zeros(3), 1.0, **options)
    assert not found.converged
    assert found.n_iter == 1
    np.testing.assert_allclose(found.optimality, 4.0)


def test_robust_kernel_pca_removes_sparse_errors_that_robust_pca_cannot(seed):
    data = make_permuted_subspaces(5, 30, 20, 2, outlier_ratio=0.0, random_state=seed)
    rng = np.random.default_rng(seed)
    errors = np.where(rng.random(data.X.shape) < 0.1, rng.normal(size=data.X.shape), 0.0)
    X = data.X + 0.3 * errors
    model = RobustKernelPCA().fit(X)
    linear = min(
        recovery_error(data.X_clean, RobustPCA(lam).fit_transform(X)) for lam in (0.05, 0.1, 0.2)
    )
    assert recovery_error(data.X_clean, model.recovered_) < 0.5 * linear
    assert np.all(np.diff(model.objective_) <= 1e-9)
    assert model.converged_


def test_normalisation_is_division_and_multiplication(rng):
    X = rng.normal(size=(15, 6)) * rng.uniform(0.1, 10, size=(15, 1))
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    by_hand = RobustKernelPCA(0.8).fit_transform(X / lengths) * lengths
    model = RobustKernelPCA(0.8, normalize=True)
    np.testing.assert_allclose(model.fit_transform(X), by_hand, atol=1e-8)


def test_bandwidth_is_the_mean_distance(rng):
    X = rng.normal(size=(9, 3))
    mean = np.mean(np.linalg.norm(X[:, None] - X[None], axis=2))
    model = RobustKernelPCA(bandwidth_scale=2.0, max_iter=1, tol=1e9).fit(X)
    np.testing.assert_allclose(model.bandwidth_, 2.0 * mean)


# Self-representation


@pytest.mark.parametrize("norm", ["l21", "l1"])
def test_low_rank_representation_separates_independent_subspaces(seed, norm):
    data = make_permuted_subspaces(4, 25, 30, 3, outlier_ratio=0.0, snr_db=None, random_state=seed)
    model = LowRankRepresentation(norm=norm).fit(data.X)
    labels, _ = spectral_clusters(affinity(model.coefficients_), 4, random_state=0)
    assert subspace_clustering_error(data.labels, labels) == 0
    # Without errors the answer is known: the projector on the column space.
    left = np.linalg.svd(data.X, full_matrices=False)[0][:, :12]
    np.testing.assert_allclose(model.coefficients_, left @ left.T, atol=5e-3)


def test_low_rank_representation_is_optimal(rng):
    X = rng.normal(size=(5, 4))
    lam = 0.4
    model = LowRankRepresentation(lam, tol=1e-8, max_iter=5000).fit(X)

    def cost(Z):
        return np.linalg.norm(Z, "nuc") + lam * np.linalg.norm(X - Z @ X, axis=1).sum()

    ours = cost(model.coefficients_)
    np.testing.assert_allclose(ours, model.objective_[-1], rtol=1e-4)
    for start in (np.zeros(25), np.eye(5).ravel(), model.coefficients_.ravel()):
        theirs = minimize(lambda z: cost(z.reshape(5, 5)), start, method="Powell").fun
        assert ours <= theirs * (1 + 1e-4)


def test_ssc_separates_independent_subspaces_and_equals_the_clusterer(seed):
    data = make_permuted_subspaces(4, 25, 30, 3, outlier_ratio=0.0, snr_db=None, random_state=seed)
    model = SSCReconstruction().fit(data.X)
    labels, _ = spectral_clusters(affinity(model.coefficients_), 4, random_state=0)
    assert subspace_clustering_error(data.labels, labels) == 0
    theirs = sparse_self_representation(data.X)
    np.testing.assert_allclose(model.coefficients_, theirs.solution.toarray())
    assert model.n_iter_ == theirs.n_iter
    np.testing.assert_array_equal(model.recovered_, model.coefficients_ @ data.X)


# UPCA


@pytest.mark.parametrize("solver", ["irls", "subgradient"])
def test_upca_recovers_one_subspace(seed, solver):
    data = make_permuted_subspaces(
        1, 120, 50, 5, outlier_ratio=0.4, shuffled_ratio=0.4, random_state=seed
    )
    model = UPCA(5, solver=solver, tol=1e-6, random_state=0).fit(data.X)
    error = recovery_error(data.X_clean, model.recovered_, mask=data.outlier_mask)
    assert error < (0.01 if solver == "irls" else 0.012)
    np.testing.assert_array_equal(model.transform(data.X), model.recovered_)


def test_upca_takes_any_recoverer_and_estimates_the_rank():
    data = make_permuted_subspaces(1, 60, 30, 3, outlier_ratio=0.3, random_state=0)
    model = UPCA(recoverer="search", random_state=0).fit(data.X)
    assert model.rank_ == 3
    assert recovery_error(data.X_clean, model.recovered_) < 0.01
    moved = np.take_along_axis(data.X, model.permutations_, axis=1)
    assert recovery_error(data.X_clean, moved) < 0.02


# Per subspace


def test_per_subspace_beats_the_method_alone():
    data = make_permuted_subspaces(
        5, 40, 30, 3, outlier_ratio=0.3, shuffled_ratio=0.2, random_state=1
    )
    alone = recovery_error(data.X_clean, RobustPCA().fit_transform(data.X))
    model = PerSubspace(RobustPCA(), PMSDR(5, 3, random_state=0)).fit(data.X)
    assert recovery_error(data.X_clean, model.recovered_) < 0.5 * alone
    assert len(model.estimators_) == len(model.objective_) == 5
    given = PerSubspace(RobustPCA()).fit_transform(data.X, labels=data.labels)
    assert recovery_error(data.X_clean, given) < 0.5 * alone


def test_per_subspace_leaves_lonely_vectors_alone(rng):
    X = rng.normal(size=(7, 4))
    labels = ["a"] * 6 + ["b"]
    model = PerSubspace(RobustPCA()).fit(X, labels=labels)
    np.testing.assert_array_equal(model.recovered_[6], X[6])
    assert model.estimators_[1] is None
    np.testing.assert_array_equal(model.recovered_[:6], RobustPCA().fit_transform(X[:6]))


# Properties of all


@pytest.mark.parametrize(
    "model",
    [RobustPCA(), RobustKernelPCA(max_iter=3000), LowRankRepresentation(), SSCReconstruction()],
    ids=name_of,
)
@given(order=st.permutations(range(12)))
@settings(max_examples=5)
def test_order_of_the_vectors_does_not_matter(model, order):
    X = np.random.default_rng(0).normal(size=(12, 2)) @ np.random.default_rng(1).normal(size=(2, 6))
    X[3, 2] += 4.0
    expected = clone(model).fit_transform(X)[list(order)]
    np.testing.assert_allclose(clone(model).fit_transform(X[list(order)]), expected, atol=2e-2)


@pytest.mark.parametrize("model", ITERATIVE, ids=name_of)
def test_objective_is_kept_and_progress_reported(model):
    data = make_permuted_subspaces(1, 20, 12, 2, outlier_ratio=0.3, random_state=0)
    seen = []
    with on_progress(lambda *report: seen.append(report)):
        model = clone(model).fit(data.X)
    assert len(model.objective_) >= 1
    assert np.all(np.isfinite(model.objective_))
    assert model.n_iter_ >= 1
    assert np.isfinite(model.optimality_)
    assert isinstance(model.converged_, bool)
    assert seen[-1][1] <= seen[-1][2]


@pytest.mark.parametrize("model", ALL, ids=name_of)
def test_only_inductive_methods_transform(model):
    assert hasattr(model, "transform") == isinstance(model, (RobustPCA, UPCA))


# Messages


@pytest.mark.parametrize("model", ALL, ids=name_of)
@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((4, 3)), "zero in all 12 entries"),
        (np.ones((1, 3)), "1 sample"),
        (np.array([[1.0, np.inf], [1.0, 2.0]]), "infinity"),
    ],
    ids=["zero", "one vector", "infinite"],
)
def test_bad_matrices_are_refused(model, X, message):
    with pytest.raises(ValueError, match=message):
        clone(model).fit(X)


@pytest.mark.parametrize("model", ALL[1:], ids=name_of)
def test_missing_entries_are_refused_where_they_are_not_supported(model):
    X = np.array([[1.0, np.nan], [1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(ValueError, match=r"1 missing entries \(NaN\), but .* use RobustPCA"):
        clone(model).fit(X)


def test_nothing_but_missing_entries():
    with pytest.raises(ValueError, match="nothing but missing entries"):
        RobustPCA().fit(np.full((3, 2), np.nan))


@pytest.mark.parametrize(
    "model",
    [RobustPCA(0.0), RobustKernelPCA(-1.0), LowRankRepresentation(0), MRUC(-0.5)],
    ids=name_of,
)
def test_weights_must_be_positive(model):
    with pytest.raises(ValueError, match=r"'lam' parameter of .* \(0.0, inf\)|range \(0"):
        model.fit(np.eye(3))


@pytest.mark.parametrize(
    "model",
    [
        RobustPCA(max_iter=2),
        RobustKernelPCA(max_iter=1, tol=1e-9),
        LowRankRepresentation(max_iter=2),
        SSCReconstruction(max_iter=1),
        UPCA(3, max_iter=2, tol=1e-12),
    ],
    ids=name_of,
)
def test_early_stops_name_the_value_reached(model, rng):
    X = rng.normal(size=(20, 8))
    with pytest.warns(ConvergenceWarning, match=r"stopped at .*, above its tolerance .*max_iter"):
        model.fit(X)
    assert not model.converged_


@pytest.mark.parametrize(
    ("model", "X", "message"),
    [
        (UPCA(5), np.eye(5), "rank=5 must be at least 1 and below the number of features"),
        (UPCA(3), np.ones((2, 5)), "rank=3 needs at least as many vectors, but X has 2"),
        (UPCA(), np.ones((3, 1)), "at least 2 are needed"),
        (RobustKernelPCA(), np.ones((3, 4)), "all vectors of X are equal"),
        (SSCReconstruction(), np.eye(3), "orthogonal to each other"),
    ],
    ids=["rank", "few vectors", "one feature", "equal vectors", "orthogonal"],
)
def test_impossible_data_is_refused(model, X, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X)


def test_labels_must_cover_the_vectors(rng):
    X = rng.normal(size=(6, 3))
    with pytest.raises(ValueError, match=r"labels has shape \(5,\), but must name the label"):
        PerSubspace().fit(X, labels=[0] * 5)
    with pytest.raises(ValueError, match="labels names no label for vector 2"):
        PerSubspace().fit(X, labels=[0, 1, None, 0, 1, 1])
