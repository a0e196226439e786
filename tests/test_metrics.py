"""Every metric equals its definition on cases small enough to count by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unpermute import metrics
from unpermute.datasets import make_permuted_subspaces
from unpermute.metrics import (
    match_labels,
    outlier_classification_error,
    permutation_error_ratio,
    recovery_error,
    subspace_clustering_error,
    undetected_outlier_ratio,
)

quick = settings(max_examples=60)
label_cases = st.integers(1, 25).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 3), min_size=n, max_size=n),
        st.lists(st.integers(0, 4), min_size=n, max_size=n),
        st.lists(st.booleans(), min_size=n, max_size=n),
        st.lists(st.booleans(), min_size=n, max_size=n),
        st.permutations(range(5)),
        st.permutations(range(5)),
    )
)


def test_undetected_outliers_over_outliers():
    outliers = np.array([True, True, True, True, False, False])
    detected = np.array([True, False, False, False, True, False])
    assert undetected_outlier_ratio(outliers, detected) == 0.75
    assert undetected_outlier_ratio(outliers, outliers) == 0
    assert undetected_outlier_ratio(~outliers & False, detected) == 0


def test_clustering_error_under_the_best_matching():
    labels = [0, 0, 0, 1, 1, 1, 2, 2]
    assert subspace_clustering_error(labels, [2, 2, 2, 0, 0, 0, 1, 1]) == 0
    assert subspace_clustering_error(labels, [2, 2, 0, 0, 0, 0, 1, 2]) == 2 / 8


def test_the_matching_is_best_overall_and_not_greedy():
    # Greedy would give cluster 0 its largest overlap (label 0: 3) and leave cluster 1 with none.
    labels = np.array([0, 0, 0, 1, 1, 0, 0])
    labels_pred = np.array([0, 0, 0, 0, 0, 1, 1])
    assert match_labels(labels, labels_pred) == {0: 1, 1: 0}
    assert subspace_clustering_error(labels, labels_pred) == 3 / 7


def test_clustering_error_looks_at_the_mask_only():
    labels, labels_pred = [0, 0, 1, 1], [0, 1, 1, 0]
    assert subspace_clustering_error(labels, labels_pred) == 0.5
    mask = [True, False, True, False]
    assert subspace_clustering_error(labels, labels_pred, mask=mask) == 0
    assert subspace_clustering_error(labels, labels_pred, mask=[False] * 4) == 0


@pytest.mark.parametrize(
    ("labels_pred", "mapping", "error"),
    [
        ([4, 4, 4, 4], {4: 0}, 0.5),
        ([4, 4, 9, 6], {4: 0, 9: 1}, 0.25),
        (["b", "b", "a", "a"], {"b": 0, "a": 1}, 0.0),
    ],
)
def test_numbers_of_labels_may_differ(labels_pred, mapping, error):
    labels = [0, 0, 1, 1]
    assert match_labels(labels, labels_pred) == mapping
    assert subspace_clustering_error(labels, labels_pred) == error


def test_classification_with_true_bases_compares_labels_as_they_are():
    labels, labels_pred = [0, 1, 0, 1, 1], [1, 0, 0, 0, 1]
    outliers = [False, False, True, True, True]
    assert outlier_classification_error(labels, labels_pred, outlier_mask=outliers) == 1 / 3
    renamed = [1 - label for label in labels_pred]
    assert outlier_classification_error(labels, renamed, outlier_mask=outliers) == 2 / 3


def test_classification_counts_detected_outliers_only():
    labels = np.array([0, 1, 0, 1, 0, 1, 0])
    labels_pred = np.array([5, 6, 5, 5, 6, 6, 6])
    outliers = np.array([False, False, True, True, True, False, False])
    # Row 4 is undetected; row 6 is a false alarm: neither enters.
    detected = np.array([False, False, True, True, False, False, True])
    error = outlier_classification_error(
        labels, labels_pred, outlier_mask=outliers, outlier_mask_pred=detected
    )
    assert error == 0.5


def test_labels_are_not_matched_on_the_outliers_themselves():
    labels = np.array([0, 0, 1, 1, 0, 0, 1, 1])
    labels_pred = np.array([7, 7, 8, 8, 8, 8, 7, 7])
    outliers = np.arange(8) >= 4
    assert subspace_clustering_error(labels, labels_pred, mask=outliers) == 0
    error = outlier_classification_error(
        labels, labels_pred, outlier_mask=outliers, outlier_mask_pred=outliers
    )
    assert error == 1


def test_a_label_never_seen_on_a_clean_vector_is_wrong():
    outliers = [False, True, True]
    error = outlier_classification_error(
        [0, 0, 1], [3, 3, 4], outlier_mask=outliers, outlier_mask_pred=outliers
    )
    assert error == 0.5
    everything = [True] * 3
    error = outlier_classification_error(
        [0, 0, 1], [0, 0, 1], outlier_mask=everything, outlier_mask_pred=everything
    )
    assert error == 1


def test_classification_without_detected_outliers_is_zero():
    options = {"outlier_mask": [False, True], "outlier_mask_pred": [True, False]}
    assert outlier_classification_error([0, 1], [1, 0], **options) == 0
    assert outlier_classification_error([0, 1], [1, 0], outlier_mask=[False, False]) == 0


@quick
@given(label_cases)
def test_label_metrics_ignore_names_and_stay_between_zero_and_one(case):
    labels, labels_pred, outliers, detected, names, names_pred = (np.array(part) for part in case)
    masks = {"outlier_mask": outliers, "outlier_mask_pred": detected}
    before = (
        subspace_clustering_error(labels, labels_pred, mask=~detected),
        outlier_classification_error(labels, labels_pred, **masks),
    )
    labels, labels_pred = names[labels], names_pred[labels_pred]
    after = (
        subspace_clustering_error(labels, labels_pred, mask=~detected),
        outlier_classification_error(labels, labels_pred, **masks),
    )
    assert before == after
    assert all(0 <= error <= 1 for error in before)


@quick
@given(label_cases)
def test_clustering_error_is_zero_only_for_the_same_partition(case):
    labels, labels_pred = np.array(case[0]), np.array(case[1])
    same = np.array_equal(np.equal.outer(labels, labels), np.equal.outer(labels_pred, labels_pred))
    assert (subspace_clustering_error(labels, labels_pred) == 0) == same


@quick
@given(label_cases)
def test_undetected_and_detected_shares_add_up(case):
    outliers, detected = np.array(case[2]), np.array(case[3])
    missed = undetected_outlier_ratio(outliers, detected)
    assert 0 <= missed <= 1
    if outliers.any():
        assert missed + undetected_outlier_ratio(outliers, ~detected) == pytest.approx(1)


def test_recovery_error_is_relative_over_the_mask():
    X_true = np.array([[3.0, 0.0], [0.0, 4.0], [9.0, 9.0]])
    X = np.array([[3.0, 1.0], [2.0, 4.0], [0.0, 0.0]])
    mask = [True, True, False]
    assert recovery_error(X_true, X, mask=mask) == pytest.approx(np.sqrt(5) / 5)
    assert recovery_error(X_true, X_true) == 0
    assert recovery_error(X_true, np.zeros_like(X)) == pytest.approx(1)
    assert recovery_error(X_true, X, mask=[False] * 3) == 0
    assert recovery_error(np.zeros((1, 2)), np.zeros((1, 2))) == 0
    assert recovery_error(np.zeros((1, 2)), np.ones((1, 2))) == np.inf


@pytest.mark.parametrize("size", [1e-308, 1e-200, 1e200, 1e308])
@pytest.mark.filterwarnings("error")
def test_recovery_error_of_huge_and_tiny_values(size):
    X_true, X = np.array([[0.3, 0.4], [0.0, 0.5]]), np.array([[0.4, 0.3], [0.0, -0.5]])
    options = {"refined": True, "labels": [0, 1], "rank": 1}
    error, refined = recovery_error(X_true, X), recovery_error(X_true, X, **options)
    assert recovery_error(size * X_true, size * X) == pytest.approx(error, rel=1e-6)
    assert recovery_error(X_true, size * X, **options) == pytest.approx(refined)


@pytest.mark.filterwarnings("error")
def test_recovery_error_of_values_of_different_size():
    assert recovery_error([[1.0, 2.0]], [[1e200, 2.0]]) == pytest.approx(1e200 / np.sqrt(5))
    assert recovery_error([[1e200, 2.0]], [[1.0, 2.0]]) == pytest.approx(1.0)
    assert recovery_error([[1e-200, 0.0]], [[1e-200, 1.0]]) == pytest.approx(1e200)
    assert recovery_error([[1e-200, 0.0]], [[1e200, 1.0]]) == np.inf


def test_metrics_of_nothing_are_zero():
    assert undetected_outlier_ratio([], []) == 0
    assert subspace_clustering_error([], [], mask=[]) == 0
    assert outlier_classification_error([], [], outlier_mask=[], outlier_mask_pred=[]) == 0


def test_labels_may_be_objects():
    labels = np.array(["a", "a", "b"], dtype=object)
    assert subspace_clustering_error(labels, [1, 1, 0]) == 0


def test_refined_error_projects_and_scales_within_the_true_group():
    X_true = np.array([[1.0, 0.0, 0.0]] * 3 + [[0.0, 1.0, 0.0]] * 2)
    # Group 0: the first right singular vector is e1, and only lengths differ along it.
    X = np.array([[2.0, 0.0, 0.0], [5.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 3.0, 0], [0.0, 0.5, 0]])
    labels = ["a", "a", "a", "b", "b"]
    assert recovery_error(X_true, X, refined=True, labels=labels, rank=1) == pytest.approx(
        np.sqrt(1 / 5)  # the zero vector stays zero; everything else becomes exact
    )
    mask = [True, True, False, True, True]
    assert recovery_error(X_true, X, mask=mask, refined=True, labels=labels, rank=1) < 1e-12


def test_refined_error_fits_the_space_to_the_whole_group():
    """The long second vector decides the line, although only the first is looked at."""
    X_true = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    X = np.array([[1.0, 0.0, 0.0], [0.0, 9.0, 0.0]])
    options = {"refined": True, "labels": [0, 0], "rank": 1}
    assert recovery_error(X_true, X, mask=[True, False], **options) == pytest.approx(1.0)
    assert recovery_error(X_true, X, mask=[False, True], **options) < 1e-12


def test_refined_error_takes_one_rank_per_group_and_absent_groups():
    data = make_permuted_subspaces(3, 12, 10, [1, 2, 4], snr_db=None, random_state=0)
    options = {"refined": True, "labels": data.labels}
    scaled = data.X_clean * np.linspace(0.5, 3, 36)[:, np.newaxis]
    assert recovery_error(data.X_clean, scaled, rank=[1, 2, 4], **options) < 1e-12
    assert recovery_error(data.X_clean, scaled, rank=[4, 2, 1], **options) > 0.1
    only_first = data.labels == 0
    assert recovery_error(data.X_clean, scaled, mask=only_first, rank=1, **options) < 1e-12


def test_refined_error_removes_noise_outside_the_subspace():
    data = make_permuted_subspaces(2, 60, 40, 2, outlier_ratio=0.0, snr_db=20, random_state=0)
    plain = recovery_error(data.X_clean, data.X)
    refined = recovery_error(data.X_clean, data.X, refined=True, labels=data.labels, rank=2)
    assert plain == pytest.approx(0.1)
    assert refined < 0.04


@pytest.mark.parametrize(
    ("predicted", "error"),
    [([0, 1, 2, 3], 0.0), ([1, 0, 2, 3], 0.0), ([0, 2, 1, 3], 0.5), ([2, 3, 0, 1], 1.0)],
)
def test_permutation_error_compares_values(predicted, error):
    X = [[5.0, 5.0, 7.0, 8.0]]
    assert permutation_error_ratio(X, [[0, 1, 2, 3]], [predicted]) == error


def test_permutation_error_is_a_mean_over_the_mask():
    X = np.array([[1.0, 2.0, 3.0, 4.0]] * 3)
    truth = np.array([[0, 1, 2, 3]] * 3)
    found = np.array([[0, 1, 2, 3], [1, 0, 2, 3], [3, 2, 1, 0]])
    assert permutation_error_ratio(X, truth, found) == pytest.approx(0.5)
    assert permutation_error_ratio(X, truth, found, mask=[True, True, False]) == 0.25
    assert permutation_error_ratio(X, truth, found, mask=[False] * 3) == 0


def test_permutation_error_forgives_differences_up_to_the_tolerance():
    X = np.array([[1.0, 1.5, 4.0], [1.0, 1.5, 4.0]])
    truth, found = [[0, 1, 2]] * 2, [[1, 0, 2]] * 2
    assert permutation_error_ratio(X, truth, found, tol=0.5) == 0
    assert permutation_error_ratio(X, truth, found, tol=0.49) == pytest.approx(2 / 3)
    assert permutation_error_ratio(X, truth, found, tol=[0.5, 0.1]) == pytest.approx(1 / 3)


def test_missing_values_equal_each_other_and_nothing_else():
    X = [[np.nan, np.nan, 1.0, 2.0]]
    assert permutation_error_ratio(X, [[0, 1, 2, 3]], [[1, 0, 2, 3]]) == 0
    assert permutation_error_ratio(X, [[0, 1, 2, 3]], [[2, 1, 0, 3]], tol=99.0) == 0.5


@st.composite
def permutation_cases(draw):
    n, m = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    rows = st.lists(st.sampled_from([0.0, 1.0, 2.0, np.nan]), min_size=m, max_size=m)
    X = draw(st.lists(rows, min_size=n, max_size=n))
    orders = st.lists(st.permutations(range(m)), min_size=n, max_size=n)
    return np.array(X), np.array(draw(orders)), np.array(draw(orders))


@quick
@given(permutation_cases(), st.integers(0, 2**32 - 1))
def test_permutation_error_does_not_see_ties(case, seed):
    X, truth, found = case
    before = permutation_error_ratio(X, truth, found)
    assert 0 <= before <= 1
    assert before == permutation_error_ratio(X, found, truth)
    assert permutation_error_ratio(X, truth, truth) == 0

    # Exchange the places of equal values within each row of the prediction.
    rng = np.random.default_rng(seed)
    other = found.copy()
    for x, row in zip(X, other, strict=True):
        for value in np.unique(x):
            tied = np.isin(row, np.flatnonzero((x == value) | (np.isnan(x) & np.isnan(value))))
            row[tied] = rng.permutation(row[tied])
    assert permutation_error_ratio(X, truth, other) == before


def test_the_true_permutations_of_synthetic_data_have_no_error():
    data = make_permuted_subspaces(2, 10, 20, 3, missing_ratio=0.1, random_state=0)
    identity = np.tile(np.arange(20), (20, 1))
    assert permutation_error_ratio(data.X, data.permutations, data.permutations) == 0
    errors = [
        permutation_error_ratio(data.X, data.permutations, identity, mask=mask)
        for mask in (data.outlier_mask, ~data.outlier_mask)
    ]
    assert 0.2 < errors[0] <= 0.4
    assert errors[1] == 0


def test_public_names():
    assert sorted(metrics.__all__) == metrics.__all__
    assert "match_labels" not in metrics.__all__


TWO = [0, 1]
MASK = [True, False]
MATRIX = [[1.0, 2.0], [3.0, 4.0]]
ORDER = [[0, 1], [0, 1]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: undetected_outlier_ratio(MASK, [True]),
            "outlier_mask_pred has 1 entries, but outlier_mask has 2",
        ),
        (
            lambda: undetected_outlier_ratio([MASK], MASK),
            r"outlier_mask must be one-dimensional, but has shape \(1, 2\)",
        ),
        (
            lambda: undetected_outlier_ratio(MASK, [1, -1]),
            "outlier_mask_pred must be boolean, but has dtype int64",
        ),
        (
            lambda: subspace_clustering_error(TWO, [0]),
            "labels_pred has 1 entries, but labels has 2",
        ),
        (
            lambda: subspace_clustering_error(TWO, TWO, mask=[True] * 3),
            "mask has 3 entries, but labels has 2",
        ),
        (
            lambda: outlier_classification_error(TWO, TWO, outlier_mask=TWO),
            "outlier_mask must be boolean",
        ),
        (
            lambda: outlier_classification_error(
                TWO, TWO, outlier_mask=MASK, outlier_mask_pred=[True]
            ),
            "outlier_mask_pred has 1 entries, but labels has 2",
        ),
        (
            lambda: subspace_clustering_error([0, None], TWO),
            "labels must name a subspace for each vector, but entry 1 is None",
        ),
        (
            lambda: subspace_clustering_error(TWO, [0.0, np.nan]),
            "labels_pred must name a subspace for each vector, but entry 1 is nan",
        ),
        (
            lambda: subspace_clustering_error(np.array([0, "a"], dtype=object), TWO),
            "labels must be of one type, numbers or text, but holds int and str",
        ),
        (
            lambda: subspace_clustering_error(None, TWO),
            "labels=None must be one-dimensional",
        ),
        (
            lambda: undetected_outlier_ratio(MASK, None),
            "outlier_mask_pred=None must be one-dimensional",
        ),
        (
            lambda: recovery_error(MATRIX, MATRIX, refined=True, labels=[0, None], rank=1),
            "labels must name a subspace for each vector, but entry 1 is None",
        ),
        (
            lambda: recovery_error(MATRIX, MATRIX, refined="yes"),
            "refined='yes' must be True or False",
        ),
        (
            lambda: recovery_error([[1.0, "b"]], MATRIX),
            "X_true must hold numbers, but column 1 of X_true holds text",
        ),
        (
            lambda: recovery_error(MATRIX, [[1.0, 2.0]]),
            r"X_recovered has shape \(1, 2\), but X_true has shape \(2, 2\)",
        ),
        (lambda: recovery_error(MATRIX, [[np.nan, 1.0]] * 2), "X_recovered contains NaN"),
        (
            lambda: recovery_error(MATRIX, MATRIX, refined=True, rank=1),
            "refined=True needs labels and rank, but labels is None",
        ),
        (
            lambda: recovery_error(MATRIX, MATRIX, refined=True, labels=TWO),
            "refined=True needs labels and rank, but rank is None",
        ),
        (
            lambda: recovery_error(MATRIX, MATRIX, refined=True, labels=[0], rank=1),
            "labels has 1 entries, but X_true has 2",
        ),
        (
            lambda: recovery_error(MATRIX, MATRIX, refined=True, labels=TWO, rank=2),
            "rank=2 must be at least 1 and below the number of features, 2",
        ),
        (
            lambda: permutation_error_ratio(MATRIX, ORDER, [[0, 1]]),
            r"permutations_pred has shape \(1, 2\), but X has shape \(2, 2\)",
        ),
        (
            lambda: permutation_error_ratio(MATRIX, [[0, 1], [1, 1]], ORDER),
            r"permutations must hold .* from 0 to 1, each once; row 1 is \[1 1\]",
        ),
        (
            lambda: permutation_error_ratio(MATRIX, ORDER, [[0.0, 1.0]] * 2),
            "permutations_pred must hold integers, but has dtype float64",
        ),
        (
            lambda: permutation_error_ratio(MATRIX, ORDER, ORDER, tol=-1.0),
            "tol=-1.0 must be a number of at least 0",
        ),
        (
            lambda: permutation_error_ratio(MATRIX, ORDER, ORDER, tol=[1.0] * 3),
            "tol has 3 entries, but X has 2",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
