"""What the defaults add: refinement, one rule for all vectors, confidence, outputs, missing."""

import numpy as np
import pytest

from unpermute import PMSDR
from unpermute.datasets import make_permuted_subspaces
from unpermute.metrics import recovery_error


def problem(seed, shape=(3, 60, 40, 4), **options):
    options = dict(outlier_ratio=0.5, shuffled_ratio=0.3, random_state=seed) | options
    return make_permuted_subspaces(*shape, **options)


def test_lightly_shuffled_vectors_do_not_tilt_the_bases(seed):
    """The detector alone misses many of them; the refinement finds all that matter."""
    data = problem(seed, shuffled_ratio=0.15)
    model = PMSDR(3, 4, random_state=0)
    X_fixed = model.fit_transform(data.X)
    missed = data.outlier_mask & ~model.outlier_mask_
    damage = np.linalg.norm(data.X - data.X_clean, axis=1)
    assert np.all(damage[missed] < 0.05)
    assert not np.any(model.outlier_mask_ & ~data.outlier_mask)
    assert recovery_error(data.X_clean, X_fixed) < 0.012


def test_a_vector_is_judged_alone(seed, rng):
    data = problem(seed)
    model = PMSDR(3, 4, random_state=0)
    X_fixed = model.fit_transform(data.X)
    as_new = model.transform(data.X)
    assert np.mean(as_new == X_fixed) > 0.999  # folds tell nearly equal values apart differently
    order = rng.permutation(len(data.X))[:25]
    np.testing.assert_array_equal(model.transform(data.X[order]), as_new[order])
    np.testing.assert_array_equal(model.predict(data.X[order]), model.labels_[order])


def test_values_are_moved_and_nothing_is_invented(seed):
    data = problem(seed)
    model = PMSDR(3, 4, random_state=0)
    X_fixed = model.fit_transform(data.X)
    np.testing.assert_array_equal(np.sort(X_fixed, axis=1), np.sort(data.X, axis=1))
    noise = 0.01 / np.sqrt(40)
    cells = np.abs(X_fixed - data.X_clean)[data.outlier_mask] < 3 * noise
    assert cells.mean() > 0.98
    unmoved = (data.permutations == np.arange(40)) & data.outlier_mask[:, None]
    assert np.mean(model.permutations_[unmoved] != np.nonzero(unmoved)[1]) < 0.005


@pytest.mark.parametrize("output", ["subspace", "blend"])
def test_other_outputs_are_at_least_as_near(seed, output):
    data = problem(seed)
    X_fixed = PMSDR(3, 4, output=output, random_state=0).fit_transform(data.X)
    assert recovery_error(data.X_clean, X_fixed, mask=data.outlier_mask) < 0.011


def test_hopeless_vectors_stay_as_they_are(seed):
    """One basis from the clean vectors; the others are pure noise, which nothing can order."""
    data = problem(seed, outlier_ratio=0.0)
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(5, 40)) / np.sqrt(40)
    X = np.vstack([data.X, noise])
    model = PMSDR(3, 4, random_state=0)
    X_fixed = model.fit_transform(X)
    np.testing.assert_array_equal(X_fixed, X)
    assert "recovered" not in model.status_
    assert set(model.status_[:-5]) == {"clean"}
    np.testing.assert_array_equal(model.permutations_[-5:], np.tile(np.arange(40), (5, 1)))
    fallback = PMSDR(3, 4, output="subspace", random_state=0).fit_transform(X)
    assert np.all(np.linalg.norm(fallback[-5:], axis=1) <= np.linalg.norm(noise, axis=1))


def test_missing_entries_through_all_stages(seed):
    data = problem(seed, missing_ratio=0.1, shuffled_ratio=0.4)
    model = PMSDR(3, 4, output="subspace", random_state=0)
    X_fixed = model.fit_transform(data.X)
    found = model.outlier_mask_ & data.outlier_mask
    assert recovery_error(data.X_clean[found], X_fixed[found]) < 0.02
    assert np.mean(model.outlier_mask_ == data.outlier_mask) > 0.98
    values = PMSDR(3, 4, random_state=0).fit_transform(data.X)
    np.testing.assert_array_equal(np.isnan(values).sum(axis=1), np.isnan(data.X).sum(axis=1))


def test_ranks_may_differ_and_all_is_estimated(seed):
    data = problem(seed, shape=(3, 80, 40, [2, 4, 6]), outlier_ratio=0.3)
    model = PMSDR(random_state=0).fit(data.X)
    assert model.n_subspaces_ == 3
    # A component of 56 vectors does not tell its rank to one.
    assert np.all(np.abs(np.sort(model.ranks_) - [2, 4, 6]) <= 1)
    np.testing.assert_array_equal(model.outlier_mask_, data.outlier_mask)


def test_scale_of_the_data_does_not_matter(seed):
    data = problem(seed)
    expected = PMSDR(3, 4, random_state=0).fit(data.X)
    scaled = PMSDR(3, 4, random_state=0).fit(1000.0 * data.X)
    np.testing.assert_array_equal(scaled.permutations_, expected.permutations_)
    assert scaled.noise_scale_ == pytest.approx(1000 * expected.noise_scale_, rel=1e-6)


def test_number_of_affine_subspaces_is_found(seed):
    data = problem(seed, shape=(3, 120, 40, 3), affine=True, shuffled_ratio=0.3)
    model = PMSDR(affine=True, random_state=0)
    X_fixed = model.fit_transform(data.X)
    assert model.ranks_.tolist() == [3, 3, 3]
    assert recovery_error(data.X_clean, X_fixed, mask=data.outlier_mask) < 0.05


def test_an_affine_subspace_may_pass_through_the_origin(seed):
    data = problem(seed, shape=(3, 120, 40, 3), affine=True, shuffled_ratio=0.3)
    X = data.X.copy()
    first = data.labels == 0
    linear = problem(seed + 10, shape=(1, 120, 40, 3), shuffled_ratio=0.3)
    X[first] = linear.X
    for rank in (None, 3):
        model = PMSDR(rank=rank, affine=True, random_state=0).fit(X)
        assert model.ranks_.tolist() == [3, 3, 3]


def test_lightly_shuffled_vectors_of_a_large_subspace(seed):
    """Known rank and number of clean vectors tell them where half of the entries are directions."""
    data = make_permuted_subspaces(1, rank=25, shuffled_ratio=0.1, random_state=seed)
    given = {"contamination": int(data.outlier_mask.sum()), "random_state": 0}
    X_fixed = PMSDR(1, 25, **given).fit_transform(data.X)
    assert recovery_error(data.X_clean, X_fixed, mask=data.outlier_mask) < 0.2


def test_as_many_vectors_are_repaired_as_are_known_to_be_damaged():
    """Lightly shuffled ones gain less than the cut would have it."""
    data = make_permuted_subspaces(1, rank=2, shuffled_ratio=0.1, random_state=0)
    given = {"contamination": int(data.outlier_mask.sum()), "random_state": 0}
    X_fixed = PMSDR(1, 2, **given).fit_transform(data.X)
    assert recovery_error(data.X_clean, X_fixed, mask=data.outlier_mask) < 0.02
