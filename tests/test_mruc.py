"""MRUC and entropic matching: exact on shared permutations, alone, per subspace, before PMSDR."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from sklearn.exceptions import ConvergenceWarning

from unpermute import PMSDR
from unpermute.baselines import MRUC, PerSubspace, SSCReconstruction, _mruc
from unpermute.baselines._mruc_problem import Problem, best_order
from unpermute.datasets import make_permuted_subspaces
from unpermute.metrics import permutation_error_ratio, recovery_error
from unpermute.numerics.sinkhorn import sinkhorn


def shared(seed, n_subspaces=1, n_groups=2, ratio=0.5, n_vectors=60, **options):
    data = make_permuted_subspaces(
        n_subspaces,
        n_vectors,
        20,
        2,
        shuffled_ratio=ratio,
        n_permutation_groups=n_groups,
        random_state=seed,
        **options,
    )
    return data, data.permutation_groups


def error_of(model, data):
    return permutation_error_ratio(
        data.X, data.permutations, model.permutations_, mask=data.outlier_mask
    )


@given(seed=st.integers(0, 10**6), size=st.integers(1, 8), epsilon=st.sampled_from([1e-3, 0.1, 3]))
@settings(max_examples=30)
def test_plans_are_doubly_stochastic(seed, size, epsilon):
    costs = np.random.default_rng(seed).normal(size=(2, size, size))
    plans, errors = sinkhorn(costs, epsilon, np.zeros((2, size)), tol=1e-4, max_iter=200_000)
    np.testing.assert_allclose(plans.sum(axis=2), 1.0)
    np.testing.assert_allclose(plans.sum(axis=1), 1.0, atol=2e-4)
    np.testing.assert_allclose(errors, np.abs(plans.sum(axis=1) - 1.0).max(axis=1), atol=1e-12)
    assert np.all(plans >= 0)


def test_entropic_matching_equals_the_plain_iteration(rng):
    costs, epsilon = rng.normal(size=(5, 5)), 0.5
    u, kernel = np.ones(5), np.exp(-costs / epsilon)
    for _ in range(2000):
        v = 1.0 / (kernel.T @ u)
        u = 1.0 / (kernel @ v)
    plan = sinkhorn(costs[None], epsilon, np.zeros((1, 5)), tol=1e-12, max_iter=2000)[0][0]
    np.testing.assert_allclose(plan, u[:, None] * kernel * v, atol=1e-9)


def test_little_entropy_gives_the_assignment(rng):
    costs = rng.normal(size=(7, 7))
    plan = sinkhorn(costs[None], 1e-3, np.zeros((1, 7)), max_iter=100_000)[0][0]
    assert plan.argmax(axis=1).tolist() == linear_sum_assignment(costs)[1].tolist()


@pytest.mark.parametrize("ratio", [0.5, 1.0])
def test_exact_with_two_groups(seed, ratio):
    data, groups = shared(seed, ratio=ratio)
    model = MRUC(random_state=0).fit(data.X, groups=groups)
    assert error_of(model, data) == 0
    assert model.converged_
    assert len(model.start_objectives_) == 11
    assert model.objective_[-1] == model.start_objectives_.min()
    moved = np.take_along_axis(data.X, model.permutations_, axis=1)
    np.testing.assert_array_equal(model.recovered_, moved)


def test_rank_may_replace_the_nuclear_norm(seed):
    data, groups = shared(seed)
    model = MRUC(rank=2, random_state=0, output="subspace").fit(data.X, groups=groups)
    assert error_of(model, data) == 0
    assert recovery_error(data.X_clean, model.recovered_) < 0.01
    assert np.linalg.matrix_rank(model.recovered_) == 2


def test_best_of_all_permutations_is_found(rng):
    Y = rng.normal(size=(8, 2)) @ rng.normal(size=(2, 5))
    Y[4:] = Y[4:, rng.permutation(5)] + 0.05 * rng.normal(size=(4, 5))
    model = MRUC(n_starts=20, random_state=0).fit(Y, groups=np.repeat([0, 1], 4))
    problem = Problem([Y[:4], Y[4:]], None, None)
    orders = itertools.permutations(range(5))
    costs = [problem.evaluate(problem.combine([list(order)]))[0] for order in orders]
    np.testing.assert_allclose(model.objective_[-1], min(costs))


@pytest.mark.parametrize("n_places", [4, 9])
def test_cost_is_that_of_the_matrix(rng, n_places):
    Y = rng.normal(size=(6, n_places))
    problem = Problem([Y[:3], Y[3:]], 0.7, None)
    order = rng.permutation(n_places)
    T = np.vstack([Y[:3], Y[3:, order]])
    left, values, right = np.linalg.svd(T, full_matrices=False)
    B = (left * np.maximum(values - 0.7, 0)) @ right
    cost, found = problem.evaluate(problem.combine([order]))
    np.testing.assert_allclose(
        cost, 0.7 * np.linalg.norm(B, "nuc") + 0.5 * np.linalg.norm(T - B) ** 2
    )
    np.testing.assert_allclose(found, B)


@pytest.mark.parametrize("n_vectors", [1, 3])
def test_best_order_is_the_nearest_of_all(rng, n_vectors):
    B, F = rng.normal(size=(2, n_vectors, 5))
    F[:, 1] = F[:, 0]
    distances = [np.sum((B - F[:, order]) ** 2) for order in itertools.permutations(range(5))]
    order = best_order(B, F)
    assert sorted(order) == list(range(5))
    np.testing.assert_allclose(np.sum((B - F[:, order]) ** 2), min(distances))


def test_many_vectors_count_by_their_moments(rng):
    Y = rng.normal(size=(8, 6))
    order, plan = rng.permutation(6), np.full((1, 1, 6, 6), 1 / 6)
    few = Problem([Y[:4], Y[4:8]], 0.7, None)
    # The same moments as the first, from more vectors than places.
    turn = np.linalg.qr(rng.normal(size=(30, 4)))[0]
    many = Problem([turn @ Y[:4], turn @ Y[4:8]], 0.7, None)
    assert len(many.anchor) == len(many.factors[0]) == 6
    assert few.n_directions == many.n_directions
    for a, b in ((few.combine([order]), many.combine([order])), (few.mix(plan), many.mix(plan))):
        np.testing.assert_allclose(few.evaluate(a)[0], many.evaluate(b)[0])


@given(seed=st.integers(0, 10**6))
@settings(max_examples=10)
def test_permutations_stay_permutations_and_groups_share_them(seed):
    rng = np.random.default_rng(seed)
    X, groups = rng.normal(size=(9, 4)), rng.integers(0, 3, size=9)
    model = MRUC(n_starts=2, random_state=0).fit(X, groups=groups)
    np.testing.assert_array_equal(np.sort(model.permutations_, axis=1), np.tile(range(4), (9, 1)))
    for name in np.unique(groups):
        assert len(np.unique(model.permutations_[groups == name], axis=0)) == 1
    first = model.permutations_[groups == groups.min()][0]
    np.testing.assert_array_equal(first, np.arange(4))


def test_any_group_can_be_the_anchor():
    data, groups = shared(0)
    names = np.array(["in order", "left", "right"])[groups + 1]
    model = MRUC(anchor="in order", random_state=0).fit(data.X, groups=names)
    assert error_of(model, data) == 0
    assert model.groups_.tolist() == ["in order", "left", "right"]
    model = MRUC(anchor="right", random_state=0).fit(data.X, groups=names)
    np.testing.assert_array_equal(model.recovered_[names == "right"], data.X[names == "right"])
    # All are in the order of that group: undoing its permutation puts all in order.
    order = data.permutations[names == "right"][0]
    assert recovery_error(data.X_clean, model.recovered_[:, order]) < 0.02


def test_per_subspace_uses_the_groups():
    data, groups = shared(0, n_subspaces=3, n_groups=3, n_vectors=30)
    model = PerSubspace(MRUC(random_state=0), PMSDR(3, 2, random_state=0)).fit(
        data.X, groups=groups
    )
    assert error_of(model, data) == 0


def test_pmsdr_finishes_what_mruc_leaves_partly_in_order():
    data, groups = shared(1, n_subspaces=5, n_groups=5, ratio=1.0, n_vectors=24)
    first = MRUC(random_state=0).fit_transform(data.X, groups=groups)
    before = recovery_error(data.X_clean, data.X, mask=data.outlier_mask)
    between = recovery_error(data.X_clean, first, mask=data.outlier_mask)
    after = PMSDR(5, 2, random_state=0).fit_transform(first)
    assert between < before
    assert recovery_error(data.X_clean, after, mask=data.outlier_mask) < between


def test_early_stop_names_the_value_reached(monkeypatch):
    # After annealing there is hardly anything left to improve: leave it out.
    monkeypatch.setattr(_mruc, "_anneal", lambda _, plans, first: (plans, [[] for _ in plans]))
    data, groups = shared(0, n_subspaces=5, n_groups=5, n_vectors=20)
    model = MRUC(rank=2, n_starts=1, informed=False, max_iter=1, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"MRUC .* stopped at .* raise max_iter \(now 1\)"):
        model.fit(data.X, groups=groups)
    assert not model.converged_
    assert model.optimality_ > 0


def test_one_group_is_left_alone(rng):
    X = rng.normal(size=(5, 4))
    np.testing.assert_array_equal(MRUC(random_state=0).fit_transform(X, groups=[7] * 5), X)


@pytest.mark.parametrize(
    ("options", "groups", "message"),
    [
        ({}, [0, 1], r"groups has shape \(2,\), but must name the group of each of the 4 vectors"),
        ({}, [0, 1, None, 1], "groups names no group for vector 2"),
        ({"anchor": 5}, [0, 0, 1, 1], "anchor=5 is not the name of a group"),
        ({"rank": 3}, [0, 0, 1, 1], "rank=3 must be at least 1 and below"),
        ({}, [1, 1, 0, 0], "zero in all vectors of the anchor"),
    ],
    ids=["short", "missing", "anchor", "rank", "zero anchor"],
)
def test_bad_groups_are_refused(options, groups, message):
    X = np.vstack([np.arange(1.0, 7.0).reshape(2, 3), np.zeros((2, 3))])
    with pytest.raises(ValueError, match=message):
        MRUC(**options).fit(X, groups=groups)


def test_per_subspace_bears_vectors_without_order_and_methods_without_groups():
    data, groups = shared(0, n_subspaces=2, n_vectors=30)
    X = np.vstack([data.X, np.full((2, 20), 0.1)])
    groups = np.concatenate([groups, [-1, 0]])
    stages = PMSDR(2, 2, random_state=0)
    model = PerSubspace(MRUC(random_state=0), stages).fit(X, groups=groups)
    assert model.recovered_.shape == X.shape
    model = PerSubspace(SSCReconstruction(), stages).fit(X, groups=groups)
    assert model.recovered_.shape == X.shape
