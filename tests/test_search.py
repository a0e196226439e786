"""method="search", one engine for one subspace or several: what it recovers and what it knows."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unpermute.datasets import make_permuted_subspaces
from unpermute.numerics.search import _arms
from unpermute.recover import _search, recover_everywhere, recover_vectors

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

PROPERTY = settings(max_examples=15)
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


# --- the engine: several subspaces, and how the budget is spent


def test_hopeless_vectors_end_the_budget_and_hopeful_ones_get_it(monkeypatch):
    budgets = []
    search = _search.search_vectors
    monkeypatch.setattr(
        _search,
        "search_vectors",
        lambda Y, *args, **options: (
            budgets.extend([options["max_starts"]] * len(Y)) or search(Y, *args, **options)
        ),
    )

    def searched(rank, ratio, count):
        data = make_permuted_subspaces(
            1, count, 40, rank, outlier_ratio=0.999, shuffled_ratio=ratio, random_state=0
        )
        Y, zero = data.X[data.outlier_mask], np.zeros(40)
        del budgets[:]
        found = recover_everywhere(Y, data.bases, [zero], noise_scale=None, max_starts=200, seed=0)
        return budgets.count(200), len(Y), found.certain

    n_searched, n, certain = searched(rank=22, ratio=0.7, count=60)
    assert not certain.any()
    assert n_searched < n
    n_searched, _, certain = searched(rank=12, ratio=0.55, count=60)
    assert n_searched > 3 * 16
    assert certain.sum() > 16


def test_waves_do_not_depend_on_the_order_of_the_vectors():
    data = make_permuted_subspaces(2, 60, 40, 15, shuffled_ratio=0.5, random_state=0)
    Y = data.X[data.outlier_mask]
    options = {"noise_scale": None, "max_starts": 200, "seed": 0}
    here = recover_everywhere(Y, data.bases, [np.zeros(40)] * 2, **options)
    there = recover_everywhere(Y[::-1], data.bases, [np.zeros(40)] * 2, **options)
    np.testing.assert_array_equal(here.certain, there.certain[::-1])
    np.testing.assert_array_equal(here.labels, there.labels[::-1])


@pytest.fixture
def searches(monkeypatch):
    """Budget and expected ratio of every search by random starts, in order."""
    asked = []
    search = _search.search_vectors

    def watch(*args, **options):
        if options["max_starts"] > 0:
            asked.append((options["max_starts"], options.get("shuffled_ratio")))
        return search(*args, **options)

    monkeypatch.setattr(_search, "search_vectors", watch)
    return asked


def test_what_moved_in_vectors_found_before_is_expected_of_the_next(searches):
    """Hard vectors, half of whose entries moved: once some are found, nobody guesses the share."""
    data = make_permuted_subspaces(2, 120, 50, 12, shuffled_ratio=0.5, random_state=0)
    found = recover_everywhere(
        data.X[data.outlier_mask], data.bases, data.offsets, noise_scale=None, max_starts=500,
        seed=0,
    )  # fmt: skip
    assert searches[0][1] is None
    told = [ratio for _, ratio in searches if ratio is not None]
    assert len(told) > len(searches) / 2
    assert 0.4 < min(told) <= max(told) < 0.6
    assert found.certain.mean() > 0.9


def test_vectors_of_which_more_moved_than_usual_are_found_too(searches):
    draws = [
        make_permuted_subspaces(2, 60, 50, 4, shuffled_ratio=ratio, random_state=1)
        for ratio in (0.5, 1.0)
    ]
    Y = np.vstack([draw.X[draw.outlier_mask] for draw in draws])
    labels = np.concatenate([draw.labels[draw.outlier_mask] for draw in draws])
    found = recover_everywhere(
        Y, draws[0].bases, draws[0].offsets, noise_scale=None, max_starts=2000, seed=0
    )
    assert found.certain.all()
    np.testing.assert_array_equal(found.labels, labels)
    # The last and largest budget does not believe in one share for all.
    assert all(ratio is None for budget, ratio in searches if budget > 2000)


@pytest.mark.parametrize("blocks", [None, np.arange(40) // 20])
def test_one_basis_is_the_engine_with_one_subspace(blocks):
    Y, _, basis, offset = make(0, 20, 40, 6, 0.6, affine=True)
    random = np.random.RandomState(3)
    result = recover_vectors(Y, basis, offset=offset, blocks=blocks, max_starts=600, random_state=3)
    found = recover_everywhere(
        Y, [basis], [offset], blocks=blocks, max_starts=600, last_starts=0,
        seed=random.randint(2**31 - 1),
    )  # fmt: skip
    np.testing.assert_array_equal(result.coefficients, found.coefficients)
    np.testing.assert_array_equal(result.converged, found.certain)
    np.testing.assert_array_equal(result.info["n_starts"], found.n_starts)
    assert found.n_starts.max() > 0


def test_a_wrong_guess_about_the_share_does_not_end_the_search():
    """Many vectors found tell a share that does not suit those that are left."""
    draws = [
        make_permuted_subspaces(
            3, 20, 50, 5, shuffled_ratio=ratio, outlier_ratio=1.0, random_state=5
        )
        for ratio in (0.6, 1.0)
    ]
    Y = np.vstack([draw.X for draw in draws])
    found = recover_everywhere(Y, draws[0].bases, draws[0].offsets, max_starts=2000, seed=0)
    assert found.certain.all()
    np.testing.assert_array_equal(found.labels, np.concatenate([draw.labels for draw in draws]))


def test_vectors_of_another_share_are_found_among_many_of_one_share():
    """The share that is usual among vectors found before must not hide the others."""
    rng = np.random.default_rng(0)
    few, X_few, basis, _ = make(0, 6, 40, 4, 1.0)
    many = rng.normal(size=(60, 4)) @ basis.T
    for y in many:
        places = rng.permutation(40)[:24]
        y[places] = np.roll(y[places], 1)
    result = recover_vectors(np.vstack([many, few]), basis, random_state=0)
    assert np.linalg.norm(result.fitted[60:] - X_few, axis=1).max() < 0.05
    assert result.converged.all()


@pytest.mark.parametrize("max_starts", [60, 2500])
def test_budget_of_starts_is_kept(max_starts):
    """Also where vectors that were found tell a share that does not suit the others."""
    Y, _, basis, _ = make(0, 40, 40, 5, 0.6)
    noise = np.random.default_rng(0).normal(size=(20, 40))
    result = recover_vectors(np.vstack([Y, noise]), basis, max_starts=max_starts, random_state=0)
    spent = result.info["n_starts"]
    # Each of two passes ends when all arms had their turn, the expected share between any two.
    turn = 60 * len(_arms(40, 5, expected=0.6))
    assert spent.max() < max_starts + 2 * turn
    assert np.sort(spent)[-16] >= max_starts


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
