"""Elimination against a plain NumPy transcription, and its schedule."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from unpermute.numerics.elimination import eliminate, elimination_schedule
from unpermute.recover import recover_vectors


def plain_elimination(y, basis, schedule):
    kept = np.arange(len(y))
    for count in schedule:
        x = np.linalg.lstsq(basis[kept], y[kept], rcond=None)[0]
        residual = np.abs(y[kept] - basis[kept] @ x)
        kept = np.delete(kept, np.argsort(-residual)[:count])
    x = np.linalg.lstsq(basis[kept], y[kept], rcond=None)[0]
    projection = basis[kept] @ x
    cosine = projection @ y[kept] / np.linalg.norm(projection) / np.linalg.norm(y[kept])
    return x, 1 - cosine


@pytest.mark.parametrize("schedule", [np.ones(24, int), np.array([5, 3, 2, 1]), np.zeros(0, int)])
def test_equals_plain_least_squares(rng, schedule):
    basis = np.linalg.qr(rng.normal(size=(30, 5)))[0]
    Y = rng.normal(size=(20, 30))
    coefficients, distance, determined = eliminate(Y, basis, schedule, stage="test")
    assert determined.all()
    for y, x, d in zip(Y, coefficients, distance, strict=True):
        expected_x, expected_d = plain_elimination(y, basis, schedule)
        np.testing.assert_allclose(x, expected_x, rtol=1e-7, atol=1e-9)
        assert d == pytest.approx(expected_d, abs=1e-12)


def test_missing_entries_are_left_out(rng):
    basis = np.linalg.qr(rng.normal(size=(30, 3)))[0]
    Y = rng.normal(size=(5, 3)) @ basis.T
    truth = Y @ basis
    Y[:, :10] = np.nan
    coefficients, distance, determined = eliminate(Y, basis, np.ones(26, int), stage="test")
    np.testing.assert_allclose(coefficients, truth, atol=1e-9)
    assert distance.max() < 1e-12
    assert determined.all()


def test_zero_rows_of_the_basis_do_not_displace_the_others():
    basis = np.zeros((10, 1))
    basis[[1, 4, 8]] = 1 / np.sqrt(3)
    result = recover_vectors([[0, 0, 0, 1, 1, 2, 2, 0, 1, 2.0]], basis, method="lsrf")
    np.testing.assert_allclose(result.coefficients, [[np.sqrt(3)]])
    assert result.converged.all()


def test_the_only_row_that_determines_a_coefficient_is_kept():
    result = recover_vectors([[1, 2, 0, 0, 0, 5.0]], np.eye(6)[:, :2], method="lsrf")
    np.testing.assert_allclose(result.coefficients, [[1, 2]])
    # All five go in one step: the residuals do not show that rows 0 and 1 will be needed.
    basis = np.linalg.qr(np.array([[1, 0], [1, 1], [1, 0], [1, 0], [1, 0], [1, 0.0]]))[0]
    coefficients, _, determined = eliminate(
        np.array([[9.0, 3, 1, -7, 1, 1]]), basis, np.array([3]), stage="test"
    )
    assert determined.all()
    np.testing.assert_allclose(coefficients @ basis[1], [3.0])


@pytest.mark.parametrize("missing", [[0], [0, 1], range(6)])
def test_coefficients_without_information_are_zero_and_not_converged(missing):
    y = np.array([[1.0, 2, 0, 0, 0, 5]])
    y[:, missing] = np.nan
    coefficients, _, determined = eliminate(y, np.eye(6)[:, :2], np.ones(3, int), stage="test")
    expected = [0.0 if 0 in missing else 1.0, 0.0 if 1 in missing else 2.0]
    np.testing.assert_allclose(coefficients, [expected])
    assert not determined.any()


@given(
    n_features=st.integers(2, 12),
    schedule=st.lists(st.integers(1, 4), max_size=12),
    data=st.data(),
)
def test_sparse_integers_always_give_finite_numbers(n_features, schedule, data):
    """Ties, zero rows and rows that alone determine a coefficient."""
    rank = data.draw(st.integers(1, n_features - 1))
    small = st.sampled_from([0, 0, 0, 1, -1, 2])
    basis = np.linalg.qr(data.draw(arrays(np.float64, (n_features, rank), elements=small)))[0]
    Y = data.draw(arrays(np.float64, (3, n_features), elements=small))
    Y[data.draw(arrays(bool, Y.shape, elements=st.sampled_from([False] * 5 + [True])))] = np.nan
    coefficients, distance, determined = eliminate(
        Y, basis, np.array(schedule, dtype=np.int64), stage="test"
    )
    assert np.isfinite(coefficients).all()
    assert np.isfinite(distance).all()
    observed = [np.linalg.matrix_rank(basis[~np.isnan(y)]) == rank for y in Y]
    np.testing.assert_array_equal(determined, observed)


def test_same_result_for_any_number_of_threads(rng):
    basis = np.linalg.qr(rng.normal(size=(40, 4)))[0]
    Y = rng.normal(size=(300, 40))
    one, three = (
        eliminate(Y, basis, np.ones(35, int), stage="test", n_jobs=n_jobs) for n_jobs in (1, 3)
    )
    np.testing.assert_array_equal(one[0], three[0])


@given(
    n_features=st.integers(2, 3000),
    retain_ratio=st.floats(0.01, 1.0),
    max_steps=st.integers(1, 60),
    data=st.data(),
)
def test_schedule_is_descending_and_adds_up(n_features, retain_ratio, max_steps, data):
    rank = data.draw(st.integers(1, n_features - 1))
    schedule = elimination_schedule(
        n_features, rank, retain_ratio=retain_ratio, max_steps=max_steps
    )
    assert schedule.sum() == int((n_features - rank) * (1 - retain_ratio))
    assert len(schedule) <= max_steps
    assert np.all(schedule > 0)
    assert np.all(np.diff(schedule) <= 0)


def test_the_worst_entry_goes_before_entries_that_tie():
    basis = np.ones((12, 1)) / np.sqrt(12)
    y = np.ones(12)
    y[0] = 100.0
    for schedule in ([2], [5, 3]):
        coefficients, distance, _ = eliminate(y[None], basis, np.array(schedule), stage="test")
        np.testing.assert_allclose(coefficients @ basis.T, np.ones((1, 12)))
        assert distance[0] < 1e-12


def test_fewer_wrong_entries_than_a_step_drops():
    rng = np.random.default_rng(0)
    basis = np.zeros((100, 2))
    basis[:8] = np.linalg.qr(rng.normal(size=(8, 2)))[0]
    y = basis @ [1.0, 2.0]
    y[[1, 5]] = [30.0, -20.0]
    found = eliminate(y[None], basis, np.array([9, 6, 4]), stage="test")
    np.testing.assert_allclose(found[0], [[1.0, 2.0]])
