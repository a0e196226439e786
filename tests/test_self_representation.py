"""The elastic-net solver against celer, scikit-learn and its own optimality conditions."""

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from celer import ElasticNet as CelerElasticNet
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNet
from sklearn.preprocessing import normalize

from unpermute.numerics.self_representation import self_representation


def objective(c, X, j, l1_ratio, gamma):
    residual = X[j] - c @ X
    return l1_ratio * np.abs(c).sum() + (1 - l1_ratio) / 2 * c @ c + gamma / 2 * residual @ residual


def reference(solver, X, j, l1_ratio, gamma, **options):
    """The same problem in scikit-learn's scaling, 1/(2 M)‖y − Xw‖² + a·(…)."""
    others = np.arange(len(X)) != j
    model = solver(
        alpha=1 / (gamma * X.shape[1]), l1_ratio=l1_ratio, fit_intercept=False, **options
    )
    model.fit(np.asfortranarray(X[others].T), X[j])
    c = np.zeros(len(X))
    c[others] = model.coef_
    return objective(c, X, j, l1_ratio, gamma)


def dictionaries():
    rng = np.random.default_rng(7)
    plain = rng.normal(size=(80, 20))
    duplicates = np.repeat(plain[:20], 4, axis=0)
    return {
        "plain": plain,
        "duplicates": duplicates,
        "near-duplicates": duplicates + 1e-7 * rng.normal(size=duplicates.shape),
        "collinear": rng.normal(size=(80, 3)) @ rng.normal(size=(3, 20)),
        "non-negative": np.abs(plain),
    }


@pytest.mark.parametrize("name", dictionaries())
@pytest.mark.parametrize("l1_ratio", [0.5, 0.95, 1.0])
@pytest.mark.parametrize("alpha", [2.0, 5.0, 50.0])
def test_objective_equals_celer_and_scikit_learn(name, l1_ratio, alpha):
    X = normalize(dictionaries()[name])
    result = self_representation(X, l1_ratio=l1_ratio, alpha=alpha)
    assert result.converged.all()
    for j in (0, 13, 79):
        gamma = result.info["gamma"][j]
        ours = objective(result.solution[[j]].toarray()[0], X, j, l1_ratio, gamma)
        skl = reference(ElasticNet, X, j, l1_ratio, gamma, tol=1e-12, max_iter=1_000_000)
        celer = reference(CelerElasticNet, X, j, l1_ratio, gamma, tol=1e-12, max_iter=500)
        assert ours <= skl * (1 + 1e-6)
        assert ours <= celer * (1 + 1e-6)
        assert ours >= min(skl, celer) * (1 - 1e-6)


@pytest.mark.parametrize("alpha", [5.0, 50.0])
def test_optimality_conditions_hold_for_every_vector(union_of_subspaces, seed, alpha):
    X, _ = union_of_subspaces(seed, n_subspaces=6, n_vectors=100, noise=0.05)
    l1_ratio = 0.9
    result = self_representation(X, l1_ratio=l1_ratio, alpha=alpha)
    C = result.solution.toarray()
    correlation = (X - C @ X) @ X.T * result.info["gamma"][:, None]
    np.fill_diagonal(correlation, 0.0)
    active = C != 0
    gradient = correlation - (1 - l1_ratio) * C - l1_ratio * np.sign(C)
    assert np.abs(gradient[active]).max() < 1e-9
    assert np.abs(correlation[~active]).max() <= l1_ratio * (1 + 1e-8)
    assert np.all(np.diag(C) == 0)
    assert result.optimality.max() < 1e-8


def test_weight_follows_the_largest_correlation(union_of_subspaces, seed):
    X, _ = union_of_subspaces(seed)
    gram = np.abs(X @ X.T)
    np.fill_diagonal(gram, 0)
    gamma = self_representation(X, l1_ratio=0.95, alpha=7.0).info["gamma"]
    np.testing.assert_allclose(gamma, 7 * 0.95 / gram.max(axis=1), rtol=1e-12)


def test_more_active_coefficients_than_the_initial_room(seed):
    X = normalize(np.abs(np.random.default_rng(seed).normal(size=(150, 100))))
    result = self_representation(X, alpha=500.0)
    assert np.diff(result.solution.indptr).max() > 32
    assert result.converged.all()


def test_same_result_for_any_number_of_threads(union_of_subspaces):
    X, _ = union_of_subspaces(3, n_subspaces=10, n_vectors=120, noise=0.02)
    one, four = (self_representation(X, alpha=20.0, n_jobs=n_jobs) for n_jobs in (1, 4))
    assert (one.solution != four.solution).nnz == 0
    np.testing.assert_array_equal(one.optimality, four.optimality)


def test_vectors_without_a_representation_have_empty_rows():
    X = np.vstack([np.eye(4), np.zeros((1, 4)), [[0.6, 0.8, 0, 0]]])
    result = self_representation(X)
    empty = np.diff(result.solution.indptr) == 0
    np.testing.assert_array_equal(empty, [False, False, True, True, True, False])
    assert np.isfinite(result.solution.data).all()
    np.testing.assert_array_equal(result.info["gamma"][2:5], 0)
    assert self_representation(X, alpha=1.0).solution.nnz == 0


def test_giving_up_is_reported_with_numbers(union_of_subspaces):
    X, _ = union_of_subspaces(0, noise=0.1)
    with pytest.warns(ConvergenceWarning, match=r"of 120 vectors stopped at .*e.*max_rounds"):
        result = self_representation(X, alpha=50.0, max_rounds=1)
    assert not result.converged.all()


def test_memory_stays_far_below_a_square_matrix(union_of_subspaces):
    X, _ = union_of_subspaces(0, n_subspaces=10, n_vectors=400)
    self_representation(X[:100])
    tracemalloc.start()
    self_representation(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.25 * 8 * len(X) ** 2


def exact_coefficients(X, j, active, sign, threshold, ridge):
    """The conditions on the active set, (A Aᵀ + ridge) c = A x_j - threshold sign, in fractions."""
    A = np.vectorize(Fraction, otypes=[object])(X[active])
    x = np.vectorize(Fraction, otypes=[object])(X[j])
    matrix = A @ A.T + np.eye(len(A), dtype=int) * Fraction(ridge)
    right = A @ x - Fraction(threshold) * sign.astype(int)
    for pivot in range(len(A)):
        for row in range(len(A)):
            if row != pivot:
                factor = matrix[row, pivot] / matrix[pivot, pivot]
                matrix[row] -= factor * matrix[pivot]
                right[row] -= factor * right[pivot]
    return right / np.diag(matrix)


@pytest.mark.parametrize(
    ("large", "small"),
    [(624, 0.25), (100, 0.01), (624, 0.01), (1e3, 0.25), (1e3, 1e-2), (1e4, 0.25), (1e5, 1.0)],
)
def test_large_coefficients_that_cancel_reach_the_tolerance(large, small):
    """Row 2 is the small difference of rows 0 and 1, times thousands.

    Rounding such coefficients to float64 moves the gradient by more than the tolerance, so that
    the gradient of what is returned proves nothing; the solution in fractions does.
    """
    X = normalize(np.array([[0, large, small], [0, 1, 0], [0, 0, 1]]))
    result = self_representation(X, l1_ratio=1.0, alpha=30.0)
    assert result.converged.all()
    assert result.n_iter.max() < 10
    c = result.solution.toarray()[2]
    np.testing.assert_array_equal(np.sign(c), [1, -1, 0])
    threshold = 1 / result.info["gamma"][2]
    exact = exact_coefficients(X, 2, [0, 1], np.sign(c[:2]), threshold, ridge=1e-10)
    np.testing.assert_allclose(c[:2], exact.astype(float), rtol=1e-12)


@pytest.mark.parametrize("angle", [1e-5, 1e-9, 1e-13])
@pytest.mark.parametrize("l1_ratio", [0.5, 1.0])
def test_nearly_orthogonal_vectors_reach_the_tolerance(seed, angle, l1_ratio):
    """Inner products, and with them thresholds, below the rounding of float32 or of float64."""
    X = normalize(np.eye(60) + angle * np.random.default_rng(seed).normal(size=(60, 60)))
    result = self_representation(X, l1_ratio=l1_ratio, alpha=30.0)
    assert result.converged.all()
    assert np.all(result.solution.diagonal() == 0)
    assert np.diff(result.solution.indptr).min() > 10


finite = st.floats(-1e3, 1e3, allow_nan=False).map(lambda x: 0.0 if abs(x) < 1e-3 else x)


@settings(max_examples=60)
@given(X=arrays(float, st.tuples(st.integers(2, 12), st.integers(1, 6)), elements=finite))
@example(X=np.array([[0, 624, 0.25], [0, 1, 0], [0, 0, 1]]))
@example(X=np.array([[0, 1e3, 1e-3], [0, 1, 0], [0, 0, 1], [0, 1, 1e-3]]))
def test_any_matrix_is_solved(X):
    """Zeros, duplicates, opposite and collinear vectors included."""
    result = self_representation(normalize(X), l1_ratio=1.0, alpha=30.0)
    assert result.converged.all()
    assert np.isfinite(result.solution.data).all()
