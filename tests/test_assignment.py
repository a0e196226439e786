"""Vectors that share one permutation, and places with units of their own."""

import itertools

import numpy as np
import pytest

from unpermute.recover import recover_vectors
from unpermute.recover._group_evidence import group_evidence

NOISE = 0.01


def model(rng, n_vectors, n_features, rank, *, affine=False, noise=NOISE, unit=1.0):
    """Return vectors in order, orthonormal basis, offset, and the scale of every place.

    Entries have mean square 1 in units that are 1 at even places and `unit` at odd ones.
    """
    units = np.where(np.arange(n_features) % 2, unit, 1.0)
    basis = np.linalg.qr(rng.normal(size=(n_features, rank)))[0] * np.sqrt(n_features / rank)
    offset = 2 * rng.normal(size=n_features) if affine else np.zeros(n_features)
    coefficients = rng.normal(size=(n_vectors, rank))
    coefficients *= np.sqrt(rank) / np.linalg.norm(coefficients, axis=1, keepdims=True)
    X = coefficients @ basis.T + offset + noise * rng.normal(size=(n_vectors, n_features))
    return X * units, np.linalg.qr(basis * units[:, None])[0], offset * units, noise * units


def shuffle(rng, X, groups, *, ratio=1.0, blocks=None):
    """Permute a share of the entries, one permutation per group, inside the blocks."""
    blocks = np.zeros(X.shape[1]) if blocks is None else blocks
    Y = X.copy()
    for group, block in itertools.product(np.unique(groups), np.unique(blocks)):
        places = rng.permutation(np.flatnonzero(blocks == block))
        places = places[: round(ratio * len(places))]
        rows = np.flatnonzero(groups == group)
        Y[np.ix_(rows, rng.permutation(places))] = X[np.ix_(rows, places)]
    return Y


def put_back(Y, result):
    return np.take_along_axis(Y, result.permutations, axis=1)


def assert_permutations(permutations):
    expected = np.broadcast_to(np.arange(permutations.shape[1]), permutations.shape)
    np.testing.assert_array_equal(np.sort(permutations, axis=1), expected)


# --- groups


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize(("size", "rank"), [(5, 4), (10, 4), (12, 8)])
def test_fully_shuffled_groups_are_exact(size, rank, affine, seed):
    rng = np.random.default_rng(seed)
    groups = np.repeat(["a", "b"], size)[rng.permutation(2 * size)]
    X, basis, offset, _ = model(rng, 2 * size, 30, rank, affine=affine)
    Y = shuffle(rng, X, groups)
    result = recover_vectors(Y, basis, offset=offset, groups=groups, random_state=0)
    np.testing.assert_array_equal(put_back(Y, result), X)
    assert_permutations(result.permutations)
    assert result.converged.all()
    assert result.confidence.min() > 0.99
    for group in "ab":
        assert len(np.unique(result.permutations[groups == group], axis=0)) == 1
        assert len(np.unique(result.info["evidence"][groups == group])) == 1


def test_the_same_vectors_alone_are_hopeless(seed):
    rng = np.random.default_rng(seed)
    X, basis, _, _ = model(rng, 12, 30, 8)
    Y = shuffle(rng, X, np.zeros(12))
    result = recover_vectors(Y, basis, max_starts=600, random_state=0)
    assert np.mean(np.abs(put_back(Y, result) - X) < 4 * NOISE) < 0.5
    assert result.confidence.max() < 0.5


def test_groups_need_fewer_entries_in_place(seed):
    rng = np.random.default_rng(seed)
    X, basis, _, _ = model(rng, 6, 50, 10)
    Y = shuffle(rng, X, np.zeros(6), ratio=0.6)
    result = recover_vectors(Y, basis, groups=np.zeros(6), random_state=0)
    np.testing.assert_array_equal(put_back(Y, result), X)


def test_groups_stay_inside_their_blocks(seed):
    rng = np.random.default_rng(seed)
    blocks = np.arange(30) % 3
    X, basis, _, _ = model(rng, 6, 30, 4)
    Y = shuffle(rng, X, np.zeros(6), blocks=blocks)
    result = recover_vectors(Y, basis, blocks=blocks, groups=np.zeros(6), random_state=0)
    np.testing.assert_array_equal(blocks[result.permutations], np.tile(blocks, (6, 1)))
    np.testing.assert_array_equal(put_back(Y, result), X)


def test_groups_with_missing_entries(seed):
    rng = np.random.default_rng(seed)
    X, basis, _, _ = model(rng, 8, 30, 4)
    Y = shuffle(rng, X, np.zeros(8), ratio=0.5)
    Y[rng.random(Y.shape) < 0.1] = np.nan
    Y[0] = np.nan
    result = recover_vectors(Y, basis, groups=np.zeros(8), random_state=0)
    moved = put_back(Y, result)
    observed = ~np.isnan(moved)
    np.testing.assert_array_equal(moved[observed], X[observed])
    assert np.isfinite(result.fitted).all()
    assert np.isfinite(result.entry_confidence).all()


@pytest.mark.parametrize("method", ["search", "lsrf", "l1"])
def test_single_vector_groups_equal_no_groups(method, seed):
    rng = np.random.default_rng(seed)
    X, basis, _, _ = model(rng, 9, 30, 3)
    Y = shuffle(rng, X, np.arange(9), ratio=0.4)
    expected = recover_vectors(Y, basis, method=method, random_state=0)
    groups = np.arange(9) * 10
    groups[-2:] = 5
    for names, n_alone in ((np.arange(9), 9), (groups, 7)):
        result = recover_vectors(Y, basis, method=method, groups=names, random_state=0)
        for name in ("coefficients", "fitted", "permutations", "cost", "confidence", "converged"):
            np.testing.assert_array_equal(
                getattr(result, name)[:n_alone], getattr(expected, name)[:n_alone]
            )


def test_groups_do_not_depend_on_order_or_threads(seed):
    rng = np.random.default_rng(seed)
    groups = np.array([0, 1, 0, 1, 2, 0, 1])
    X, basis, _, _ = model(rng, 7, 25, 3)
    Y = shuffle(rng, X, groups)
    expected = recover_vectors(Y, basis, groups=groups, random_state=0)
    order = rng.permutation(7)
    moved = recover_vectors(Y[order], basis, groups=groups[order], random_state=0, n_jobs=2)
    np.testing.assert_array_equal(moved.permutations, expected.permutations[order])
    np.testing.assert_allclose(moved.confidence, expected.confidence[order], rtol=1e-6)


def test_a_group_of_noise_is_not_trusted(seed):
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(20, 3)))[0]
    for offset in (None, 2 * rng.normal(size=20)):
        result = recover_vectors(
            rng.normal(size=(4, 20)), basis, offset=offset, groups=np.zeros(4), random_state=0
        )
        assert result.confidence.max() < 0.5


def test_a_clean_group_is_left_alone(seed):
    rng = np.random.default_rng(seed)
    X, basis, _, _ = model(rng, 6, 30, 3)
    result = recover_vectors(X, basis, groups=np.zeros(6), random_state=0)
    np.testing.assert_array_equal(result.permutations, np.tile(np.arange(30), (6, 1)))


def test_degenerate_groups_stay_finite(recwarn):
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(8, 2)))[0]
    Y = np.array([np.zeros(8), np.ones(8), np.full(8, np.nan), np.repeat([1.0, 2.0], 4)])
    units = np.arange(1, 9)
    together = np.zeros(4)
    for options in (
        dict(groups=together),
        dict(groups=[0, 1, 1, 0]),
        dict(scale=units),
        dict(scale=units, groups=together, offset=units),
        dict(groups=together, blocks=units),
        dict(scale=units, blocks=units),
    ):
        result = recover_vectors(Y, basis, random_state=0, **options)
        assert np.isfinite(result.fitted).all()
        assert np.isfinite(result.cost).all()
        assert ((result.confidence >= 0) & (result.confidence <= 1)).all()
        assert ((result.entry_confidence >= 0) & (result.entry_confidence <= 1)).all()
        assert_permutations(result.permutations)
    assert not recwarn.list


def test_evidence_pools_the_fit_and_counts_the_moves_once():
    ones = np.ones(3)
    alone = group_evidence(0.2 * ones[:1], ones[:1], 20 * ones[:1], 10.0)
    pooled = group_evidence(0.2 * ones, ones, 20 * ones, 10.0)
    assert pooled > 3 * alone + 2 * 10.0 - 10.0
    # Copies of one vector add nothing.
    copies = group_evidence(0.2 * ones, ones, 20 * ones, 10.0, n_independent=1.0)
    np.testing.assert_allclose(copies, alone)
    assert group_evidence(ones, ones, 0 * ones, 10.0) == 0.0


# --- units


def test_no_start_stops_at_a_near_miss(seed):
    rng = np.random.default_rng(seed)
    X, basis, _, scale = model(rng, 30, 30, 5, unit=1000.0)
    Y = shuffle(rng, X, np.arange(30), ratio=0.5)
    result = recover_vectors(Y, basis, scale=scale, max_starts=120, random_state=0)
    right = np.all(np.abs(put_back(Y, result) - X) < 4.5 * scale, axis=1)
    assert right.mean() > 0.95
    assert result.confidence[~right].max(initial=0.0) < 0.5


def test_units_that_differ_are_told_apart(seed):
    rng = np.random.default_rng(seed)
    X, basis, offset, scale = model(rng, 12, 30, 3, affine=True, unit=1000.0)
    Y = shuffle(rng, X, np.arange(12), ratio=0.5)

    def share_right(**options):
        result = recover_vectors(Y, basis, offset=offset, random_state=0, **options)
        return np.mean(np.abs(put_back(Y, result) - X) < 4 * scale), result

    right, result = share_right(scale=scale)
    assert right == 1.0
    assert result.confidence.min() > 0.9
    assert np.median(result.cost) == pytest.approx(1.0, abs=0.3)
    assert_permutations(result.permutations)
    # A sort cannot see the small units.
    assert share_right(max_starts=600)[0] < 0.9


def test_units_with_groups_and_known_noise(seed):
    rng = np.random.default_rng(seed)
    X, basis, offset, scale = model(rng, 6, 20, 3, affine=True, unit=1000.0)
    Y = shuffle(rng, X, np.zeros(6), ratio=0.8)
    result = recover_vectors(
        Y, basis, offset=offset, scale=scale, groups=np.zeros(6), noise_scale=1.0, random_state=0
    )
    np.testing.assert_array_equal(put_back(Y, result), X)


def test_one_unit_equals_no_unit(seed):
    rng = np.random.default_rng(seed)
    X, basis, _, _ = model(rng, 5, 30, 3)
    Y = shuffle(rng, X, np.arange(5), ratio=0.4)
    expected = recover_vectors(Y, basis, noise_scale=0.02, random_state=0)
    result = recover_vectors(Y, basis, scale=np.full(30, 0.02), noise_scale=1.0, random_state=0)
    np.testing.assert_array_equal(result.permutations, expected.permutations)
    np.testing.assert_array_equal(result.fitted, expected.fitted)
    np.testing.assert_allclose(0.02 * result.cost, expected.cost)


def test_the_factor_common_to_all_units_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    X, basis, _, scale = model(rng, 5, 20, 3, unit=10.0)
    Y = shuffle(rng, X, np.arange(5), ratio=0.4)
    expected = recover_vectors(Y, basis, scale=scale, random_state=0)
    result = recover_vectors(Y, basis, scale=1024 * scale, random_state=0)
    np.testing.assert_array_equal(result.permutations, expected.permutations)
    np.testing.assert_allclose(1024 * result.cost, expected.cost)
    np.testing.assert_allclose(result.confidence, expected.confidence, atol=1e-9)


# --- messages

BASIS = np.eye(4)[:, :2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(groups=[0]), r"groups has shape \(1,\).*each of the 2 vectors"),
        (dict(groups=[[0, 1]]), r"groups has shape \(1, 2\)"),
        (dict(groups=[0.0, np.nan]), "groups names no group for vector 1"),
        (dict(groups=np.array([None, "a"])), "groups names no group for vector 0"),
        (dict(scale=[1, 2, 3]), "scale has 3 entries, but the vectors have 4 features"),
        (dict(scale=[1, 2, 0, 3]), "scale must be positive, but entry 2 is 0.0"),
        (dict(scale=[1, -2, 1, 3]), "scale must be positive, but entry 1 is -2.0"),
        (dict(scale=[1, np.nan, 1, 3]), "scale contains NaN"),
        (dict(scale=[1, np.inf, 1, 3]), "scale contains infinity"),
        (dict(scale=["a"] * 4), "scale must hold numbers"),
    ],
)
def test_bad_groups_and_scales_get_one_clear_sentence(options, message):
    with pytest.raises(ValueError, match=message):
        recover_vectors(np.ones((2, 4)), BASIS, **options)
