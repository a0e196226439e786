"""Records whose attributes were permuted: found, put back, named, or left alone."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unpermute.records import (
    ANOTHER_ORDER,
    PERMUTED,
    SHIFTED,
    SWAPPED,
    name_causes,
    repair_records,
)
from unpermute.records._placement import _assign
from unpermute.records._prior import default_prior, log_prior, moves_of

UNITS = np.array([1.0, 100.0, 0.01, 5.0, 1000.0, 0.3, 20.0, 1.0])


def low_rank(rng, n=200, p=8, rank=2, noise=0.05):
    """Records near a plane, every column with a unit and an offset of its own."""
    X = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, p)) + noise * rng.normal(size=(n, p))
    return (X + 3 * rng.normal(size=p)) * np.resize(UNITS, p)


def damage(rng, X, rows, n_moved=3):
    """Move cells of the given records around in a circle."""
    Y = X.copy()
    for r in rows:
        places = rng.choice(X.shape[1], n_moved, replace=False)
        Y[r, places] = X[r, np.roll(places, 1)]
    return Y


def put_back(Y, result):
    return np.take_along_axis(Y, result.permutations, axis=1)


def assert_permutations(permutations):
    expected = np.broadcast_to(np.arange(permutations.shape[1]), permutations.shape)
    np.testing.assert_array_equal(np.sort(permutations, axis=1), expected)


def test_table_with_units_is_restored_exactly(rng, seed):
    X = low_rank(rng)
    Y = damage(rng, X, range(0, 60, 2))
    result = repair_records(Y, random_state=seed)
    moved = np.any(X != Y, axis=1)
    np.testing.assert_array_equal(result.status == "recovered", moved)
    assert np.mean(put_back(Y, result)[moved] == X[moved]) > 0.98
    np.testing.assert_array_equal(put_back(Y, result)[~moved], X[~moved])
    assert result.recoverability > 0.8


def test_undamaged_table_is_left_alone(rng, seed):
    X = low_rank(rng)
    result = repair_records(X, random_state=seed)
    np.testing.assert_array_equal(put_back(X, result), X)
    assert np.all(result.cause == "")
    assert np.all(result.damaged < 0.15)


def test_second_repair_leaves_repaired_records_alone(rng, seed):
    Y = damage(rng, low_rank(rng, noise=0.2), range(40))
    first = repair_records(Y, random_state=seed)
    once = put_back(Y, first)
    again = np.any(put_back(once, repair_records(once, random_state=seed)) != once, axis=1)
    assert not np.any(again & (first.status == "recovered"))
    assert np.mean(again) <= 0.02


@settings(max_examples=30)
@given(
    n=st.integers(1, 40),
    p=st.integers(1, 7),
    seed=st.integers(0, 10_000),
    rounded=st.booleans(),
    missing=st.sampled_from([0.0, 0.2]),
)
def test_permutations_stay_permutations(n, p, seed, rounded, missing):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * 10.0 ** rng.integers(-2, 3, size=p)
    X = np.round(X) if rounded else X
    X[rng.random(X.shape) < missing] = np.nan
    result = repair_records(X, random_state=seed)
    assert_permutations(result.permutations)
    assert_permutations(result.proposals)
    for probability in (result.damaged, result.confidence):
        assert np.all((probability >= 0) & (probability <= 1))
    touched = np.any(result.permutations != np.arange(p), axis=1)
    assert np.all(result.status[touched] == "recovered")


@settings(max_examples=8)
@given(n=st.integers(20, 200), p=st.integers(3, 20), seed=st.integers(0, 10_000))
def test_clean_low_rank_tables_stay_and_repairs_are_final(n, p, seed):
    rng = np.random.default_rng(seed)
    X = low_rank(rng, n, p, rank=max(p // 3, 1), noise=0.1)
    clean = repair_records(X, random_state=0)
    assert np.count_nonzero(clean.status == "recovered") == 0
    Y = damage(rng, X, range(n // 4), n_moved=2)
    first = repair_records(Y, random_state=0)
    once = put_back(Y, first)
    again = np.any(put_back(once, repair_records(once, random_state=0)) != once, axis=1)
    assert not np.any(again & (first.status == "recovered"))


def test_missing_values_move_with_the_others(rng, seed):
    X = low_rank(rng, n=300)
    X[rng.random(X.shape) < 0.05] = np.nan
    Y = X.copy()
    Y[:60, 2:] = np.roll(X[:60, 2:], 1, axis=1)
    result = repair_records(Y, random_state=seed)
    repaired = put_back(Y, result)
    same = (repaired == X) | (np.isnan(repaired) & np.isnan(X))
    assert np.mean(same[:60]) > 0.8
    assert np.all(same[60:])


def test_answer_does_not_depend_on_threads(rng):
    Y = damage(rng, low_rank(rng, n=300), range(60))
    Y[::7, 1] = np.nan
    one, two = (repair_records(Y, random_state=3, n_jobs=n_jobs) for n_jobs in (1, 2))
    for name in ("permutations", "proposals", "score", "damaged", "confidence"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def test_max_moves_is_respected(rng):
    X = low_rank(rng)
    Y = X.copy()
    Y[:30] = np.roll(X[:30], 1, axis=1)
    Y[30:40, :2] = X[30:40, 1::-1]
    result = repair_records(Y, max_moves=2, random_state=0)
    assert np.sum(result.permutations != np.arange(8), axis=1).max() <= 2


def test_causes_are_named():
    permutations = np.array(
        [[0, 1, 2, 3, 4], [0, 3, 2, 1, 4], [0, 1, 3, 4, 2], [0, 4, 1, 2, 3], [2, 0, 1, 3, 4]]
    )
    assert list(name_causes(permutations)) == ["", SWAPPED, SHIFTED, SHIFTED, PERMUTED]


def test_swaps_and_shifts_are_recognised(rng, seed):
    X = low_rank(rng, p=10)
    Y = X.copy()
    Y[:20] = damage(rng, X, range(20), n_moved=2)[:20]
    for r in range(20, 40):
        start = rng.integers(0, 8)
        Y[r, start:] = np.roll(X[r, start:], rng.choice([-1, 1]))
    cause = repair_records(Y, random_state=seed).cause
    assert np.mean(cause[:20] == SWAPPED) > 0.8
    assert np.mean(cause[20:40] == SHIFTED) > 0.8


def test_sources_share_one_permutation(rng, seed):
    X = low_rank(rng, n=120, p=12, rank=4, noise=0.3)
    groups = np.repeat([7, 3, 9, 4], 30)
    Y = X.copy()
    order = rng.permutation(12)
    Y[groups == 3] = X[groups == 3][:, order]
    result = repair_records(Y, groups=groups, random_state=seed)
    np.testing.assert_array_equal(put_back(Y, result), X)
    assert np.all(result.cause == np.where(groups == 3, ANOTHER_ORDER, ""))


def test_sources_in_order_stay(rng, seed):
    X = low_rank(rng, n=60, noise=0.3)
    X[::5, 2] = np.nan
    result = repair_records(X, groups=np.arange(60) // 20, random_state=seed)
    np.testing.assert_array_equal(result.permutations, np.tile(np.arange(8), (60, 1)))


def test_independent_columns_of_one_unit_are_left_alone(rng, seed):
    Y = damage(rng, rng.normal(size=(200, 8)), range(60))
    result = repair_records(Y, random_state=seed)
    assert result.recoverability < 0.2
    np.testing.assert_array_equal(put_back(Y, result), Y)


def test_reference_and_model_are_learned_from(rng):
    X = low_rank(rng, n=400)
    # All records of the table are damaged in the same way: only the clean table can tell.
    Y = X[:100][:, [0, 2, 1, 3, 4, 5, 6, 7]]
    result = repair_records(Y, reference=X[100:], random_state=0)
    assert np.mean(put_back(Y, result) == X[:100]) > 0.98
    known = pickle.loads(pickle.dumps(result.known))
    again = repair_records(Y, known=known, random_state=0)
    np.testing.assert_array_equal(again.permutations, result.permutations)


def test_number_of_factors_may_be_given(rng):
    X = low_rank(rng)
    Y = damage(rng, X, range(30))
    result = repair_records(Y, rank=2, random_state=0)
    assert np.mean(put_back(Y, result) == X) > 0.98


@pytest.mark.parametrize(
    "change",
    [
        lambda X: np.column_stack([X, np.full(len(X), 3.0), np.zeros(len(X))]),
        lambda X: np.column_stack([X, np.full(len(X), np.nan)]),
        lambda X: np.column_stack([X, X[:, :2]]),
        lambda X: X[:6],
        lambda X: X[:3],
        lambda X: X[:1],
        lambda X: X[:, :2],
        lambda X: X[:, :1],
        lambda X: X * 1e299,
        lambda X: X * 1e-300,
        lambda X: np.where(np.arange(len(X))[:, None] == 4, np.nan, X),
        lambda X: np.full_like(X, np.nan),
        lambda X: np.where(np.arange(len(X))[:, None] == 4, 1e300, X),
    ],
    ids=[
        "constant", "null-column", "duplicates", "few", "three", "one", "two-columns",
        "one-column", "huge", "tiny", "null-record", "all-null", "one-huge",
    ],
)  # fmt: skip
def test_odd_tables_are_handled(change, rng, recwarn):
    Y = change(low_rank(rng, n=60))
    result = repair_records(Y, random_state=0)
    assert_permutations(result.permutations)
    assert not np.any(np.isnan(result.confidence))
    np.testing.assert_array_equal(put_back(Y, result), Y)
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]


def test_priors_count_permutations():
    moves, shifts = log_prior(default_prior(4, damaged=0.2))
    # Ways to move 2, 3 and 4 of 4 cells: 6, 8 and 9; tails of 3 and 4 cells in two directions.
    total = np.exp(moves[0]) + np.exp(moves[2:]) @ [6, 8, 9] + 2 * np.exp(shifts[:2]).sum()
    assert total == pytest.approx(1.0)
    assert np.isneginf(moves[1])


def test_moves_of_tells_shifted_tails():
    n_moved, shifted = moves_of(np.array([[0, 2, 3, 1], [1, 0, 2, 3], [3, 0, 1, 2], [1, 2, 0, 3]]))
    np.testing.assert_array_equal(n_moved, [3, 2, 4, 3])
    np.testing.assert_array_equal(shifted, [True, False, True, False])


def test_assignment_equals_scipy(rng):
    from scipy.optimize import linear_sum_assignment

    for n in (1, 2, 5, 17):
        cost = rng.normal(size=(n, n))
        np.testing.assert_array_equal(_assign(cost), linear_sum_assignment(cost)[1])


def test_long_shifts_are_as_sure_as_short_ones(rng, seed):
    X = low_rank(rng, 300, 12, rank=3, noise=0.3)
    Y = X.copy()
    for r in range(50):
        Y[r, r % 3 :] = np.roll(X[r, r % 3 :], rng.choice([-1, 1]))
    result = repair_records(Y, random_state=seed)
    assert np.mean(np.all(put_back(Y, result)[:50] == X[:50], axis=1)) > 0.9
