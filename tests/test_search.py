"""method="search": what it recovers, what it knows about itself, properties, messages."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unpermute.datasets import make_permuted_subspaces
from unpermute.numerics.search import _arms
from unpermute.recover import recover_vectors

NOISE = 0.01


def make(seed, n_vectors, n_features, rank, ratio, **options):
    """Return shuffled vectors of norm 1 at 40 dB, the same in order, their basis and offset."""
    data = make_permuted_subspaces(
        1, n_vectors, n_features, rank, shuffled_ratio=ratio, outlier_ratio=1.0,
        random_state=seed, **options,
    )  # fmt: skip
    return data.X, data.X_clean, data.bases[0], data.offsets[0]


def shuffle_in_blocks(rng, X, blocks):
    Y = X.copy()
    for y, block in itertools.product(Y, np.unique(blocks)):
        places = np.flatnonzero(blocks == block)
        y[places] = y[rng.permutation(places)]
    return Y


def errors(result, X_clean):
    return np.linalg.norm(result.fitted - X_clean, axis=1) / np.linalg.norm(X_clean, axis=1)


def put_back(Y, result):
    return np.take_along_axis(Y, result.permutations, axis=1)


def assert_sound(result):
    """Check what holds for every result: permutations, probabilities, finite numbers."""
    n_features = result.permutations.shape[1]
    expected = np.broadcast_to(np.arange(n_features), result.permutations.shape)
    np.testing.assert_array_equal(np.sort(result.permutations, axis=1), expected)
    for probability in (result.confidence, result.entry_confidence):
        assert ((probability >= 0) & (probability <= 1)).all()
    for array in (result.coefficients, result.fitted, result.cost):
        assert np.isfinite(array).all()


# --- what it recovers


@pytest.mark.parametrize(("rank", "ratio"), [(5, 0.6), (10, 0.5), (15, 0.4), (20, 0.3)])
def test_partly_shuffled_vectors(rank, ratio):
    Y, X_clean, basis, _ = make(rank, 20, 50, rank, ratio)
    result = recover_vectors(Y, basis, random_state=0, n_jobs=2)
    assert errors(result, X_clean).max() < 0.05
    assert result.converged.all()
    assert np.mean(result.confidence) > 0.95
    assert_sound(result)


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_fully_shuffled_vectors(rank):
    Y, X_clean, basis, _ = make(rank, 20, 50, rank, 1.0)
    result = recover_vectors(Y, basis, random_state=0)
    assert errors(result, X_clean).max() < 0.05


@pytest.mark.parametrize("ratio", [0.0, 0.1, 0.4])
def test_values_of_affine_subspaces(ratio, seed):
    Y, X_clean, basis, offset = make(seed, 20, 40, 4, ratio, affine=True)
    result = recover_vectors(Y, basis, offset=offset, random_state=0)
    noise = NOISE * np.linalg.norm(X_clean, axis=1, keepdims=True) / np.sqrt(40)
    right = np.abs(put_back(Y, result) - X_clean) < 5 * noise
    assert errors(result, X_clean).max() < 0.05
    assert right.mean() > 0.995


def test_vectors_in_order_stay_as_they_are(seed):
    Y, _, basis, _ = make(seed, 20, 40, 4, 0.0)
    result = recover_vectors(Y, basis, random_state=0)
    np.testing.assert_array_equal(put_back(Y, result), Y)
    assert result.info["n_starts"].max() == 0


def test_blocks_make_the_hopeless_certain(seed):
    rng = np.random.default_rng(seed)
    X, X_clean, basis, _ = make(seed, 6, 40, 12, 0.0)
    # 80% of the pairs are swapped: without blocks, four fifths of the entries may be anywhere.
    swapped = rng.permuted(np.arange(20) < 16, axis=0)
    places = np.arange(40) ^ np.repeat(swapped, 2)
    blocks = np.arange(40) // 2
    without = recover_vectors(X[:, places], basis, max_starts=600, random_state=0)
    result = recover_vectors(X[:, places], basis, blocks=blocks, random_state=0)
    assert errors(result, X_clean).max() < 0.05
    assert result.confidence.min() > 0.9
    assert errors(without, X_clean).min() > 0.3
    assert without.confidence.max() < 0.5
    np.testing.assert_array_equal(blocks[result.permutations], np.tile(blocks, (6, 1)))


def test_blocks_of_any_name(seed):
    rng = np.random.default_rng(seed)
    _, X, basis, _ = make(seed, 10, 30, 3, 0.0)
    blocks = rng.permutation(np.repeat(["north", "south", "west"], 10))
    Y = shuffle_in_blocks(rng, X, blocks)
    result = recover_vectors(Y, basis, blocks=blocks, random_state=0)
    np.testing.assert_array_equal(blocks[result.permutations], np.tile(blocks, (10, 1)))
    assert errors(result, X).max() < 0.05


def test_missing_entries(seed):
    Y, X_clean, basis, _ = make(seed, 20, 50, 5, 0.4, missing_ratio=0.1)
    result = recover_vectors(Y, basis, random_state=0)
    assert errors(result, X_clean).max() <= 0.02
    moved = put_back(Y, result)
    np.testing.assert_array_equal(np.isnan(moved).sum(axis=1), np.isnan(Y).sum(axis=1))
    assert_sound(result)


def test_long_vectors():
    Y, X_clean, basis, _ = make(0, 1, 20000, 10, 0.3)
    result = recover_vectors(Y, basis, random_state=0)
    assert errors(result, X_clean).max() < 0.01
    assert result.info["n_starts"].max() == 0
    assert np.mean(np.abs(put_back(Y, result) - X_clean) < 5 * NOISE / np.sqrt(20000)) > 0.99


# --- what it knows about itself


def test_noise_is_not_trusted(seed):
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(40, 5)))[0]
    result = recover_vectors(rng.normal(size=(5, 40)), basis, max_starts=1200, random_state=0)
    assert result.confidence.max() < 0.5
    assert not result.converged.any()
    assert_sound(result)


def test_confident_vectors_are_right():
    wrong, sure = 0, 0
    for rank, ratio in [(10, 0.7), (15, 0.6), (20, 0.5)]:
        Y, X_clean, basis, _ = make(rank, 15, 50, rank, ratio)
        result = recover_vectors(Y, basis, max_starts=1200, random_state=0)
        trusted = result.confidence > 0.95
        sure += trusted.sum()
        wrong += np.sum(errors(result, X_clean)[trusted] > 0.05)
    assert sure > 0
    assert wrong <= 1


def test_known_noise_and_ratio_are_used(seed):
    Y, X_clean, basis, _ = make(seed, 10, 50, 8, 0.5)
    result = recover_vectors(
        Y, basis, noise_scale=NOISE / np.sqrt(50), shuffled_ratio=0.5, random_state=0
    )
    assert errors(result, X_clean).max() < 0.05
    # Noise as large as the vectors: nothing is certain.
    assert recover_vectors(Y, basis, noise_scale=1.0, max_starts=60).confidence.max() < 0.5


@pytest.mark.parametrize(
    "y",
    [
        np.zeros(12),
        np.full(12, 3.0),
        np.full(12, np.nan),
        np.repeat([1.0, 2.0, 2.0], 4),
        np.r_[1.0, np.full(11, np.nan)],
        np.r_[1.0, np.zeros(11)],
        np.r_[1e-300, np.zeros(11)],
        np.full(12, 1e150) * np.arange(12),
    ],
    ids=["zeros", "constant", "all missing", "ties", "one entry", "one not zero", "tiny", "huge"],
)
@pytest.mark.parametrize("affine", [False, True])
def test_degenerate_vectors(y, affine, recwarn):
    basis = np.linalg.qr(np.vander(np.linspace(0, 1, 12), 3))[0]
    result = recover_vectors(
        [y], basis, offset=np.arange(12.0) if affine else None, max_starts=120, random_state=0
    )
    assert_sound(result)
    assert not recwarn.list


# --- properties

PROPERTY = settings(max_examples=15, deadline=None)
SEEDS = st.integers(0, 2**16)
CELLS = st.sampled_from([(2, 1.0), (3, 0.5), (4, 0.3), (4, 0.6)])


def small(seed, cell):
    rank, ratio = cell
    Y, _, basis, _ = make(seed, 5, 24, rank, ratio)
    return Y, basis


def assert_same(result, expected, rows=slice(None), factor=1.0):
    np.testing.assert_array_equal(result.permutations, expected.permutations[rows])
    np.testing.assert_allclose(
        result.fitted, factor * expected.fitted[rows], rtol=1e-9, atol=1e-9 * factor
    )
    np.testing.assert_allclose(result.confidence, expected.confidence[rows], atol=1e-6)


@PROPERTY
@given(SEEDS, CELLS)
def test_order_of_the_vectors_does_not_matter(seed, cell):
    Y, basis = small(seed, cell)
    order = np.random.default_rng(seed).permutation(len(Y))
    expected = recover_vectors(Y, basis, max_starts=600, random_state=seed)
    assert_same(
        recover_vectors(Y[order], basis, max_starts=600, random_state=seed), expected, order
    )
    alone = recover_vectors(Y[order[:1]], basis, max_starts=600, random_state=seed)
    assert_same(alone, expected, order[:1])


@PROPERTY
@given(SEEDS, CELLS, st.sampled_from([2.0**-40, 0.25, 1024.0, 2.0**40]))
def test_scaling_the_vectors_scales_the_answer(seed, cell, factor):
    Y, basis = small(seed, cell)
    expected = recover_vectors(Y, basis, max_starts=600, random_state=seed)
    result = recover_vectors(factor * Y, basis, max_starts=600, random_state=seed)
    assert_same(result, expected, factor=factor)


@PROPERTY
@given(SEEDS, CELLS)
def test_rotating_the_basis_does_not_matter(seed, cell):
    Y, basis = small(seed, cell)
    rotation = np.linalg.qr(np.random.default_rng(seed).normal(size=(cell[0],) * 2))[0]
    expected = recover_vectors(Y, basis, random_state=seed)
    result = recover_vectors(Y, basis @ rotation, random_state=seed)
    certain = (expected.confidence > 0.99) & (result.confidence > 0.99)
    scale = np.linalg.norm(Y, axis=1)[:, None]
    # Rounding may end another start first; that leaves the same matching up to near ties.
    np.testing.assert_array_less(
        np.abs(result.fitted - expected.fitted)[certain] / scale[certain], 0.01
    )
    same = certain & np.all(result.permutations == expected.permutations, axis=1)
    assert certain.sum() <= same.sum() + 1


@PROPERTY
@given(SEEDS, CELLS, st.integers(1, 4))
def test_permutations_stay_inside_their_blocks(seed, cell, n_blocks):
    Y, basis = small(seed, cell)
    rng = np.random.default_rng(seed)
    blocks = rng.integers(n_blocks, size=Y.shape[1])
    Y[rng.random(Y.shape) < 0.05] = np.nan
    result = recover_vectors(Y, basis, blocks=blocks, max_starts=300, random_state=seed)
    assert_sound(result)
    np.testing.assert_array_equal(blocks[result.permutations], np.tile(blocks, (len(Y), 1)))


@PROPERTY
@given(SEEDS, CELLS)
def test_seed_decides_and_threads_do_not(seed, cell):
    rank, ratio = cell
    Y, _, basis, _ = make(seed, 20, 24, rank, ratio)
    expected = recover_vectors(Y, basis, max_starts=300, random_state=seed)
    result = recover_vectors(Y, basis, max_starts=300, random_state=seed, n_jobs=2)
    for name in ("coefficients", "permutations", "cost", "confidence", "entry_confidence"):
        np.testing.assert_array_equal(getattr(result, name), getattr(expected, name))
    np.testing.assert_array_equal(result.info["n_starts"], expected.info["n_starts"])


# --- messages

BASIS = np.eye(6)[:, :2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(shuffled_ratio=1.5), "'shuffled_ratio'.*Got 1.5"),
        (dict(shuffled_ratio=-0.1), "'shuffled_ratio'.*Got -0.1"),
        (dict(shuffled_ratio="half"), "'shuffled_ratio'.*Got 'half'"),
        (dict(max_starts=0), "'max_starts'.*Got 0"),
        (dict(max_starts=2.5), "'max_starts'.*Got 2.5"),
        (dict(blocks=[0, 1]), r"blocks has shape \(2,\).*each of the 6 features"),
        (dict(blocks=np.zeros((6, 1))), r"blocks has shape \(6, 1\)"),
        (dict(random_state="seed"), "'random_state'.*Got 'seed'"),
        (dict(n_jobs=1.5), "'n_jobs'.*Got 1.5"),
    ],
)
def test_bad_options_get_one_clear_sentence(options, message):
    with pytest.raises(ValueError, match=message):
        recover_vectors(np.ones((2, 6)), BASIS, **options)


@pytest.mark.parametrize(
    ("rank", "ratio", "arms"),
    [(5, 0.4, [30]), (4, 0.95, [0]), (4, 1.0, [0]), (15, 0.7, [18]), (48, 0.5, [0])],
)
def test_a_known_ratio_leaves_one_way_to_start(rank, ratio, arms):
    assert _arms(50, rank, ratio) == arms
