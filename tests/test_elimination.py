"""Elimination against a plain NumPy transcription, and its schedule."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpermute.numerics.elimination import eliminate, elimination_schedule


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
    coefficients, distance = eliminate(Y, basis, schedule, stage="test")
    for y, x, d in zip(Y, coefficients, distance, strict=True):
        expected_x, expected_d = plain_elimination(y, basis, schedule)
        np.testing.assert_allclose(x, expected_x, rtol=1e-7, atol=1e-9)
        assert d == pytest.approx(expected_d, abs=1e-12)


def test_missing_entries_are_left_out(rng):
    basis = np.linalg.qr(rng.normal(size=(30, 3)))[0]
    Y = rng.normal(size=(5, 3)) @ basis.T
    truth = Y @ basis
    Y[:, :10] = np.nan
    coefficients, distance = eliminate(Y, basis, np.ones(26, int), stage="test")
    np.testing.assert_allclose(coefficients, truth, atol=1e-9)
    assert distance.max() < 1e-12


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
