"""Matching of values to a fitted vector."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linear_sum_assignment

from unpermute.numerics.permutations import match_values

values = st.floats(-100, 100, allow_nan=False)
shapes = st.shared(st.tuples(st.integers(1, 4), st.integers(2, 12)), key="shape")


@given(Y=arrays(float, shapes, elements=values), fitted=arrays(float, shapes, elements=values))
def test_permutations_are_permutations_and_never_cost_more(Y, fitted):
    permutations, cost = match_values(Y, fitted)
    assert np.all(np.sort(permutations, axis=1) == np.arange(Y.shape[1]))
    in_place = np.sqrt(np.mean((Y - fitted) ** 2, axis=1))
    assert np.all(cost <= in_place * (1 + 1e-12) + 1e-12)


@given(Y=arrays(float, (2, 9), elements=values))
def test_vectors_within_the_noise_stay(Y):
    permutations, _ = match_values(Y, Y + 0.01, noise_scale=0.01)
    assert np.all(permutations == np.arange(9))


def test_reaches_the_optimum_of_the_assignment_problem(rng):
    """Well-separated values: the exact solution of the cost with its prior is found."""
    n_features, sigma = 30, 0.01
    for _ in range(20):
        fitted = rng.permutation(np.linspace(-1, 1, n_features))
        y = fitted + sigma * rng.normal(size=n_features)
        places = rng.choice(n_features, 12, replace=False)
        y[places] = y[rng.permutation(places)]
        misfit = (y[None, :] - fitted[:, None]) ** 2 / (2 * sigma**2)
        prior = np.log(n_features) * (1 - np.eye(n_features))
        _, expected = linear_sum_assignment(misfit + prior)
        found, _ = match_values(y[None], fitted[None], noise_scale=sigma)
        rows = np.arange(n_features)
        ours = (misfit + prior)[rows, found[0]].sum()
        assert ours <= 1.02 * (misfit + prior)[rows, expected].sum() + 1e-9


def test_equal_values_do_not_change_places(rng):
    fitted = np.repeat(rng.normal(size=5), 8)[None]
    permutations, _ = match_values(fitted + 1e-9 * rng.normal(size=(1, 40)), fitted)
    np.testing.assert_array_equal(permutations[0], np.arange(40))


def test_missing_values_stay_where_they_are():
    fitted = np.arange(8.0)[None]
    y = fitted[:, [0, 5, 2, 3, 4, 1, 6, 7]].copy()
    y[0, 3] = np.nan
    permutations, cost = match_values(y, fitted, noise_scale=0.01)
    np.testing.assert_array_equal(permutations[0], [0, 5, 2, 3, 4, 1, 6, 7])
    assert cost[0] == 0
    all_missing, cost = match_values(np.full((1, 8), np.nan), fitted)
    np.testing.assert_array_equal(all_missing[0], np.arange(8))
    assert cost[0] == 0
