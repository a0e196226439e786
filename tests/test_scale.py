"""Very many vectors: exemplars stand for all, rare subspaces are found, blocks change nothing."""

import numpy as np
import pytest

from unpermute import PMSDR
from unpermute._progress import on_progress
from unpermute.datasets import make_permuted_subspaces
from unpermute.metrics import recovery_error, subspace_clustering_error
from unpermute.pmsdr import _estimator, _put_back
from unpermute.pmsdr._sample import sample_size


def problem(seed, sizes=(400, 400, 400), **options):
    options = dict(outlier_ratio=0.3, shuffled_ratio=0.4, random_state=seed) | options
    return make_permuted_subspaces(len(sizes), list(sizes), 30, 3, **options)


def assert_right(model, X_fixed, data, error):
    assert model.n_subspaces_ == len(data.bases)
    assert np.mean(model.outlier_mask_ != data.outlier_mask) < 0.005
    assert subspace_clustering_error(data.labels, model.labels_) < 0.005
    assert recovery_error(data.X_clean, X_fixed, mask=data.outlier_mask) < error


@pytest.mark.parametrize("given", [{}, {"n_subspaces": 3, "rank": 3}])
def test_exemplars_and_all_vectors_give_the_same_answer(seed, given):
    data = problem(seed)
    full = PMSDR(**given, max_exemplars=None, random_state=0).fit(data.X)
    model = PMSDR(**given, max_exemplars=300, random_state=0)
    X_fixed = model.fit_transform(data.X)
    assert (full.n_exemplars_, model.n_exemplars_) == (1200, 300)
    assert np.mean(model.outlier_mask_ != full.outlier_mask_) < 0.002
    assert subspace_clustering_error(full.labels_, model.labels_) < 0.002
    assert model.noise_scale_ == pytest.approx(full.noise_scale_, rel=0.05)
    assert_right(model, X_fixed, data, 0.02)


@pytest.mark.parametrize("given", [{}, {"n_subspaces": 3, "rank": 3}])
def test_a_rare_subspace_is_not_lost(seed, given):
    data = problem(seed, sizes=(1980, 1980, 40))
    model = PMSDR(**given, max_exemplars=300, random_state=0)
    assert_right(model, model.fit_transform(data.X), data, 0.015)


@pytest.mark.parametrize("snr_db", [20, 60])
def test_limits_follow_from_the_noise(seed, snr_db):
    """At 20 dB few vectors can be put back with confidence, but they are all told apart."""
    data = problem(seed, sizes=(1000, 1000, 160), snr_db=snr_db)
    model = PMSDR(max_exemplars=300, random_state=0)
    X_fixed = model.fit_transform(data.X)
    assert model.n_subspaces_ == 3
    assert np.mean(model.outlier_mask_ != data.outlier_mask) < 0.02
    clean = ~data.outlier_mask
    assert subspace_clustering_error(data.labels, model.labels_, mask=clean) < 0.005
    before = recovery_error(data.X_clean, data.X, mask=data.outlier_mask)
    after = recovery_error(data.X_clean, X_fixed, mask=data.outlier_mask)
    assert after <= {20: before, 60: 0.002}[snr_db]


def test_threads_blocks_and_company_change_nothing(seed, rng, monkeypatch):
    data = problem(seed)
    expected = PMSDR(max_exemplars=300, random_state=0)
    X_fixed = expected.fit_transform(data.X)
    np.testing.assert_array_equal(expected.transform(data.X), X_fixed)
    some = rng.permutation(len(data.X))[:40]
    np.testing.assert_array_equal(expected.transform(data.X[some]), X_fixed[some])
    monkeypatch.setattr(_put_back, "_BLOCK", 50)
    monkeypatch.setattr(_estimator, "_BLOCK", 100)
    for n_jobs in (1, 2):
        model = PMSDR(max_exemplars=300, random_state=0, n_jobs=n_jobs)
        np.testing.assert_array_equal(model.fit_transform(data.X), X_fixed)
        np.testing.assert_array_equal(model.permutations_, expected.permutations_)


def test_a_given_share_is_met_by_all_vectors():
    data = problem(0)
    model = PMSDR(3, 3, contamination=0.25, max_exemplars=300, random_state=0).fit(data.X)
    assert model.outlier_mask_.sum() == 300


def test_affine_subspaces_and_missing_entries(seed):
    data = problem(seed, affine=True, missing_ratio=0.02)
    model = PMSDR(3, 3, affine=True, max_exemplars=300, output="subspace", random_state=0)
    X_fixed = model.fit_transform(data.X)
    found = model.outlier_mask_ & data.outlier_mask
    assert found.sum() > 0.98 * data.outlier_mask.sum()
    assert recovery_error(data.X_clean[found], X_fixed[found]) < 0.03


def test_long_vectors_are_recovered(seed):
    data = make_permuted_subspaces(
        1, 30, 3000, 4, outlier_ratio=0.5, shuffled_ratio=0.5, random_state=seed
    )
    model = PMSDR(random_state=0)
    X_fixed = model.fit_transform(data.X)
    np.testing.assert_array_equal(model.ranks_, [4])
    assert np.all(model.outlier_mask_[data.outlier_mask])
    assert recovery_error(data.X_clean, X_fixed) < 0.015


def test_every_long_step_reports():
    data, stages = problem(0), set()
    with on_progress(lambda stage, done, total: stages.add(stage)):
        PMSDR(max_exemplars=300, random_state=0).fit(data.X)
    assert stages >= {"detect", "cluster", "judge", "recover"}


def test_the_size_is_automatic_and_can_be_set():
    assert sample_size("auto", 5000) == 5000
    assert sample_size("auto", 5001) == 3000
    assert sample_size(None, 10**6) == 10**6
    assert sample_size(200, 201) == 200
    with pytest.raises(ValueError, match=r"'max_exemplars'.*Got 0"):
        PMSDR(max_exemplars=0).fit(np.eye(5))
