"""recover_vectors: exact recovery, offsets, missing entries, messages."""

import numpy as np
import pytest

from unpermute.datasets import make_permuted_subspaces
from unpermute.recover import recover_vectors


def one_subspace(seed, **options):
    data = make_permuted_subspaces(
        1, 60, 40, 3, shuffled_ratio=0.4, outlier_ratio=1.0, random_state=seed, **options
    )
    return data, data.bases[0], data.offsets[0]


def test_lsrf_is_exact_without_noise(seed):
    data, basis, _ = one_subspace(seed, snr_db=None)
    result = recover_vectors(data.X, basis, method="lsrf")
    np.testing.assert_allclose(result.fitted, data.X_clean, atol=1e-8)
    np.testing.assert_allclose(
        np.take_along_axis(data.X, result.permutations, axis=1), data.X_clean, atol=1e-8
    )
    np.testing.assert_allclose(result.coefficients @ basis.T, result.fitted)
    assert result.converged.all()
    assert result.cost.max() < 1e-8


def test_values_are_moved_not_invented(seed):
    data, basis, _ = one_subspace(seed)
    result = recover_vectors(data.X, basis)
    moved = np.take_along_axis(data.X, result.permutations, axis=1)
    np.testing.assert_array_equal(np.sort(moved, axis=1), np.sort(data.X, axis=1))
    noise = 0.01 / np.sqrt(40)
    assert np.mean(np.abs(moved - data.X_clean) < 4 * noise) > 0.98


def test_offset_of_an_affine_subspace(seed):
    data, basis, offset = one_subspace(seed, affine=True)
    result = recover_vectors(data.X, basis, offset=offset)
    assert np.linalg.norm(result.fitted - data.X_clean) < 0.02 * np.linalg.norm(data.X_clean)


def test_missing_entries(seed):
    data, basis, _ = one_subspace(seed, missing_ratio=0.1)
    result = recover_vectors(data.X, basis)
    error = np.linalg.norm(result.fitted - data.X_clean, axis=1)
    assert np.median(error) < 0.02
    moved = np.take_along_axis(data.X, result.permutations, axis=1)
    np.testing.assert_array_equal(np.isnan(moved).sum(axis=1), np.isnan(data.X).sum(axis=1))


def test_too_few_entries_are_reported_as_undetermined():
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(10, 3)))[0]
    Y = np.full((2, 10), np.nan)
    Y[0, :2] = 1.0
    Y[1] = basis[:, 0]
    result = recover_vectors(Y, basis)
    np.testing.assert_array_equal(result.converged, [False, True])
    assert np.isfinite(result.fitted).all()


def test_input_is_left_alone_whatever_its_layout(seed):
    data, basis, _ = one_subspace(seed)
    expected = recover_vectors(data.X, basis)
    wide = np.zeros((60, 80))
    wide[:, ::2] = data.X
    frozen = data.X.copy()
    frozen.flags.writeable = False
    for Y in (np.asfortranarray(data.X), wide[:, ::2], frozen, data.X.tolist()):
        result = recover_vectors(Y, basis)
        np.testing.assert_array_equal(result.permutations, expected.permutations)
    np.testing.assert_array_equal(wide[:, ::2], data.X)


BASIS = np.eye(6)[:, :2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(Y=np.ones(6), basis=BASIS), "Y must be a matrix"),
        (dict(Y=np.ones((0, 6)), basis=BASIS), "0 sample"),
        (dict(Y=[["a"] * 6], basis=BASIS), "Y must hold numbers"),
        (dict(Y=np.full((1, 6), np.inf), basis=BASIS), "Y contains infinity"),
        (dict(Y=np.ones((1, 5)), basis=BASIS), "basis has 6 rows, but the vectors have 5"),
        (dict(Y=np.ones((1, 6)), basis=np.eye(6)), "rank=6 must be at least 1 and below"),
        (dict(Y=np.ones((1, 6)), basis=2 * BASIS), "orthonormal columns"),
        (dict(Y=np.ones((1, 6)), basis=BASIS, method="magic"), "method='magic'.*'lsrf'"),
        (dict(Y=np.ones((1, 6)), basis=BASIS, offset=np.ones(5)), "offset has 5 entries"),
        (dict(Y=np.ones((1, 6)), basis=BASIS, noise_scale=-1.0), "'noise_scale'.*Got -1.0"),
    ],
)
def test_bad_input_gets_one_clear_sentence(arguments, message):
    with pytest.raises(ValueError, match=message):
        recover_vectors(**arguments)
