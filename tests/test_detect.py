"""Stage 1: the walk's scores, every way to set a threshold, and messages."""

import numpy as np
import pytest

from unpermute.datasets import make_permuted_subspaces
from unpermute.detect import SelfRepresentationDetector
from unpermute.detect._self_representation import split_log_scores


def problem(seed, **options):
    options = dict(outlier_ratio=0.3, shuffled_ratio=0.4, random_state=seed) | options
    return make_permuted_subspaces(3, 60, 40, 3, **options)


def test_scores_are_the_averaged_walk(seed):
    """Against dense matrix powers."""
    data = problem(seed)
    detector = SelfRepresentationDetector(n_steps=50).fit(data.X)
    P = np.abs(detector.coefficients_.toarray())
    P /= P.sum(axis=1, keepdims=True)
    distribution, total = np.full(len(P), 1 / len(P)), np.zeros(len(P))
    for _ in range(50):
        distribution = distribution @ P
        total += distribution
    np.testing.assert_allclose(detector.scores_, total / 50, atol=1e-12)
    assert detector.kkt_residual_.max() < 1e-8


def test_auto_finds_the_permuted_vectors(seed):
    data = problem(seed)
    flagged = SelfRepresentationDetector().fit_predict(data.X) == -1
    assert np.mean(flagged == data.outlier_mask) > 0.98


def test_auto_flags_nothing_where_nothing_is_permuted(seed):
    data = problem(seed, outlier_ratio=0.0)
    assert np.all(SelfRepresentationDetector().fit_predict(data.X) == 1)


@pytest.mark.parametrize(
    ("n_vectors", "n_features", "rank"), [(15, 20, 2), (50, 50, 2), (90, 20, 1)]
)
@pytest.mark.parametrize("n_subspaces", [1, 3])
def test_auto_seldom_flags_clean_vectors(n_vectors, n_features, rank, n_subspaces):
    false_alarms = 0
    for seed in range(20):
        data = make_permuted_subspaces(
            n_subspaces,
            n_vectors // n_subspaces,
            n_features,
            rank,
            outlier_ratio=0.0,
            random_state=seed,
        )
        false_alarms += np.any(SelfRepresentationDetector().fit_predict(data.X) == -1)
    assert false_alarms <= 1


def test_auto_flags_nothing_among_a_handful_of_vectors(rng):
    X = rng.normal(size=(9, 2)) @ rng.normal(size=(2, 20))
    X[0] = rng.permutation(X[0])
    assert np.all(SelfRepresentationDetector().fit_predict(X) == 1)


def test_auto_finds_zero_vectors(seed):
    """They have no representation at all, which counts as the largest error."""
    X = problem(seed, outlier_ratio=0.0).X
    X[:20] = 0.0
    flagged = SelfRepresentationDetector().fit_predict(X) == -1
    np.testing.assert_array_equal(np.flatnonzero(flagged), np.arange(20))


@pytest.mark.parametrize("outlier_ratio", [0.1, 0.6])
@pytest.mark.parametrize("rank", [3, 10, 15])
def test_auto_finds_permuted_vectors_of_high_rank(rank, outlier_ratio):
    options = dict(outlier_ratio=outlier_ratio, shuffled_ratio=0.6, random_state=0)
    data = make_permuted_subspaces(5, 120, 50, rank, **options)
    flagged = SelfRepresentationDetector().fit_predict(data.X) == -1
    assert np.mean(flagged == data.outlier_mask) > 0.97


def test_count_share_and_threshold_agree(seed):
    data = problem(seed)
    count = SelfRepresentationDetector(54).fit(data.X)
    assert np.sum(count.labels_ == -1) == 54
    share = SelfRepresentationDetector(0.3).fit(data.X)
    threshold = SelfRepresentationDetector(threshold=count.offset_).fit(data.X)
    np.testing.assert_array_equal(count.labels_, share.labels_)
    np.testing.assert_array_equal(count.labels_, threshold.labels_)


def test_zero_and_orthogonal_vectors_are_maximally_suspicious(seed):
    data = problem(seed, outlier_ratio=0.0)
    X = np.zeros((len(data.X) + 2, 41))
    X[2:, :40] = data.X
    X[1, 40] = 1.0
    detector = SelfRepresentationDetector(2).fit(X)
    np.testing.assert_array_equal(np.flatnonzero(detector.labels_ == -1), [0, 1])
    np.testing.assert_array_equal(detector.scores_[:2], 0.0)


def test_vectors_that_all_lack_a_representation():
    detector = SelfRepresentationDetector().fit(np.eye(5))
    np.testing.assert_allclose(detector.scores_, 0.2)
    assert np.all(detector.labels_ == 1)


def test_scale_and_order_do_not_matter(rng, seed):
    data = problem(seed)
    expected = SelfRepresentationDetector().fit(data.X).scores_
    lengths = rng.uniform(0.1, 10, size=(len(data.X), 1))
    order = rng.permutation(len(data.X))
    scores = SelfRepresentationDetector().fit((lengths * data.X)[order]).scores_
    np.testing.assert_allclose(scores, expected[order], rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_extreme_scales_do_not_matter(seed, scale):
    data = problem(seed)
    expected = SelfRepresentationDetector().fit(data.X)
    detector = SelfRepresentationDetector().fit(data.X * scale)
    np.testing.assert_allclose(detector.scores_, expected.scores_, rtol=1e-6, atol=1e-12)
    np.testing.assert_array_equal(detector.labels_, expected.labels_)


def test_split_of_two_well_separated_groups():
    separation, split = split_log_scores(np.array([0.01, 0.012, 0.9, 1.0, 1.1, 1.3]))
    assert separation > 10
    assert 0.012 < split < 0.9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(contamination=1.0), "'contamination'.*Got 1.0"),
        (dict(contamination=-0.1), "'contamination'.*Got -0.1"),
        (dict(contamination=180), "contamination=180 counts permuted vectors and must be below"),
        (dict(contamination="many"), "'contamination'.*Got 'many'"),
        (dict(alpha=0.0), "'alpha'.*Got 0.0"),
        (dict(alpha=1.0), "'alpha'.*Got 1.0"),
        (dict(l1_ratio=1.5), "'l1_ratio'.*Got 1.5"),
        (dict(n_steps=0), "'n_steps'.*Got 0"),
        (dict(threshold=-1.0), "'threshold'.*Got -1.0"),
    ],
)
def test_bad_options_get_one_clear_sentence(options, message):
    with pytest.raises(ValueError, match=message):
        SelfRepresentationDetector(**options).fit(problem(0).X)
