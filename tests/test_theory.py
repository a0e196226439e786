"""The recoverability of a vector behaves as it must, and agrees with what is measured."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unpermute.datasets import make_permuted_subspaces
from unpermute.recover import recover_vectors
from unpermute.theory import recoverability

quick = settings(max_examples=60, deadline=None)
problems = st.integers(4, 300).flatmap(
    lambda n_features: st.tuples(
        st.just(n_features),
        st.integers(1, n_features - 2),
        st.floats(0, 1),
        st.floats(-10, 80),
    )
)


@quick
@given(problems)
def test_it_is_a_probability(problem):
    probability = recoverability(*problem)
    assert type(probability) is float
    assert 0 <= probability <= 1


@quick
@given(problems, st.integers(1, 50), st.floats(0, 1), st.floats(0, 30))
def test_it_falls_with_rank_ratio_and_noise(problem, more, share, decibels):
    n_features, rank, ratio, snr_db = problem
    here = recoverability(*problem) - 1e-12
    harder = min(rank + more, n_features - 1)
    assert recoverability(n_features, harder, ratio, snr_db) - 2e-12 <= here
    assert recoverability(n_features, rank, ratio + share * (1 - ratio), snr_db) - 2e-12 <= here
    assert recoverability(n_features, rank, ratio, snr_db + decibels) >= here


@quick
@given(st.integers(4, 300), st.integers(1, 100), st.floats(0.05, 1), st.floats(0, 0.5))
def test_more_entries_help_where_the_noise_is_low(n_features, more, share, ratio):
    rank = max(1, int(share * (n_features - 1)))
    here = recoverability(n_features, rank, ratio, 40.0)
    assert recoverability(n_features + more, rank, ratio, 40.0) >= here - 1e-3


def test_without_noise_or_shuffling_all_is_recovered():
    assert recoverability(50, 5, 0.0) == pytest.approx(1, abs=1e-3)
    assert recoverability(50, 5, 0.2, np.inf) == pytest.approx(1, abs=5e-3)
    assert recoverability(50, 40, 0.9) < 1e-3
    assert recoverability(50, 5, 0.2, 0.0) < 1e-3


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ((1, 1, 0.5), "n_features"),
        ((50, 50, 0.5), "rank"),
        ((50, 0, 0.5), "rank"),
        ((50, 2.5, 0.5), "rank"),
        ((50, 5, 1.1), "shuffled_ratio"),
        ((50, 5, np.nan), "shuffled_ratio"),
        ((50, 5, 0.5, "loud"), "snr_db"),
    ],
)
def test_messages_name_the_parameter(problem, message):
    with pytest.raises(ValueError, match=message):
        recoverability(*problem)


@pytest.mark.parametrize(
    "cell",
    [
        (50, 5, 0.4, 40.0),
        (50, 4, 1.0, 40.0),
        (50, 15, 0.4, 40.0),
        (30, 6, 0.3, 40.0),
        (100, 10, 0.5, 30.0),
        (50, 15, 0.2, 20.0),
        (50, 30, 0.9, 40.0),
    ],
)
def test_it_agrees_with_measured_success(cell):
    n_features, rank, ratio, snr_db = cell
    data = make_permuted_subspaces(
        1, 12, n_features, rank, outlier_ratio=1.0, shuffled_ratio=ratio, snr_db=snr_db,
        random_state=7,
    )  # fmt: skip
    result = recover_vectors(data.X, data.bases[0], max_starts=2000, random_state=7)
    errors = np.linalg.norm(result.fitted - data.X_clean, axis=1)
    assert np.mean(errors < 0.05) == pytest.approx(recoverability(*cell), abs=0.25)
