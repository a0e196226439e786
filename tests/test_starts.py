"""Kernels of the search: sorting, and least squares of a batch in step."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from unpermute.numerics import matching
from unpermute.numerics.starts import _least_squares_all, _predict_all

few_values = st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 2.5, 1e300, np.inf])


@given(keys=arrays(float, st.integers(1, 300), elements=few_values | st.floats(allow_nan=False)))
def test_sorting_is_that_of_numpy(keys):
    for order in (np.arange(len(keys)), np.arange(len(keys))[::-1].copy()):
        matching.sort_into(order, keys)
        np.testing.assert_array_equal(order, np.argsort(keys, kind="stable"))


@pytest.mark.parametrize("rank", [1, 4, 15])
def test_systems_of_a_batch_are_solved_as_one_by_one(rng, rank):
    n, n_systems = 40, 13
    U, b, z = rng.normal(size=(n, rank)), rng.normal(size=n), rng.normal(size=n)
    z[3] = np.nan
    kept = (rng.random((n, n_systems)) < 0.7).astype(float)
    X, F = np.empty((rank, n_systems)), np.empty((n, n_systems))
    _least_squares_all(U, b, z, kept, X)
    _predict_all(U, b, X, F)
    for s in range(n_systems):
        rows = (kept[:, s] > 0) & ~np.isnan(z)
        expected = np.linalg.lstsq(U[rows], (z - b)[rows], rcond=None)[0]
        np.testing.assert_allclose(X[:, s], expected, atol=1e-9)
        np.testing.assert_allclose(F[:, s], U @ expected + b, atol=1e-8)


def test_a_system_with_too_few_rows_stays_finite(rng):
    U, kept, X = rng.normal(size=(10, 4)), np.zeros((10, 2)), np.full((4, 2), np.nan)
    kept[:2, 0] = 1.0  # two rows, and none at all
    _least_squares_all(U, np.zeros(10), rng.normal(size=10), kept, X)
    assert np.isfinite(X).all()
