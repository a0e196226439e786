"""The synthetic data obey their protocol; the loaders read the published tables or say why not."""

import hashlib
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.io import savemat

from unpermute.datasets import (
    _real,
    load_benign_tumours,
    load_hopkins155,
    load_student_scores,
    load_yale_faces,
    make_permuted_subspaces,
)

needs_data = pytest.mark.skipif(
    not os.environ.get("UNPERMUTE_DATA"), reason="UNPERMUTE_DATA does not name the data folder"
)
seeds = pytest.mark.parametrize("seed", [0, 1, 2])


def restore(data):
    return np.take_along_axis(data.X, data.permutations, axis=1)


def permuted_positions(data):
    """Return the within-group positions of the permuted vectors, one set per group."""
    groups = [data.outlier_mask[data.labels == k] for k in range(len(data.bases))]
    return [np.flatnonzero(group).tolist() for group in groups]


def test_defaults_are_the_published_setting():
    data = make_permuted_subspaces(random_state=0)
    assert data.X.shape == data.X_clean.shape == data.permutations.shape == (600, 50)
    assert [basis.shape for basis in data.bases] == [(50, 5)] * 5
    np.testing.assert_array_equal(data.labels, np.repeat(range(5), 120))
    np.testing.assert_array_equal(np.bincount(data.labels[data.outlier_mask]), [72] * 5)
    assert "permutation_groups" not in data


@seeds
def test_clean_vectors_have_length_one_and_lie_in_their_subspace(seed):
    data = make_permuted_subspaces(3, 10, 20, 4, random_state=seed)
    np.testing.assert_allclose(np.linalg.norm(data.X_clean, axis=1), 1)
    for k, (basis, offset) in enumerate(zip(data.bases, data.offsets, strict=True)):
        np.testing.assert_allclose(basis.T @ basis, np.eye(4), atol=1e-12)
        np.testing.assert_array_equal(offset, np.zeros(20))
        members = data.X_clean[data.labels == k]
        np.testing.assert_allclose(members @ basis @ basis.T, members, atol=1e-12)
        assert np.linalg.matrix_rank(members) == 4


@seeds
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("snr_db", [40.0, 6, 0.0, -10.0])
def test_noise_has_exactly_the_asked_length(seed, snr_db, affine):
    data = make_permuted_subspaces(2, 15, 12, 3, snr_db=snr_db, affine=affine, random_state=seed)
    noise = np.linalg.norm(restore(data) - data.X_clean, axis=1)
    np.testing.assert_allclose(noise, 10 ** (-snr_db / 20) * (np.sqrt(2) if affine else 1))


def test_noise_directions_differ():
    data = make_permuted_subspaces(1, 200, 20, 3, snr_db=0, random_state=0)
    noise = data.X - np.take_along_axis(data.X_clean, np.argsort(data.permutations, axis=1), axis=1)
    cosines = noise @ noise.T - np.eye(200)
    assert np.abs(cosines).max() < 0.95
    # A uniform direction has mean zero and second moment 1 / n_features in every coordinate.
    assert np.linalg.norm(noise.mean(axis=0)) < 3 / np.sqrt(200)
    np.testing.assert_allclose((noise**2).mean(axis=0), 1 / 20, atol=0.025)


@pytest.mark.parametrize("snr_db", [None, np.inf])
def test_without_noise_the_permutations_restore_the_truth_exactly(snr_db):
    data = make_permuted_subspaces(2, 30, 25, 3, snr_db=snr_db, random_state=0)
    assert not np.array_equal(data.X, data.X_clean)
    np.testing.assert_array_equal(restore(data), data.X_clean)


@settings(max_examples=40)
@given(
    n_subspaces=st.integers(1, 3),
    n_features=st.integers(2, 12),
    outlier_ratio=st.floats(0, 1),
    shuffled_ratio=st.floats(0, 1),
    seed=st.integers(0, 2**32 - 1),
)
def test_permutations_restore_the_truth_for_any_setting(
    n_subspaces, n_features, outlier_ratio, shuffled_ratio, seed
):
    data = make_permuted_subspaces(
        n_subspaces,
        7,
        n_features,
        1,
        outlier_ratio=outlier_ratio,
        shuffled_ratio=shuffled_ratio,
        snr_db=None,
        random_state=seed,
    )
    np.testing.assert_array_equal(restore(data), data.X_clean)
    np.testing.assert_array_equal(np.any(data.X_clean != data.X, axis=1), data.outlier_mask)
    moved = data.permutations != np.arange(n_features)
    assert moved.sum(axis=1).max() <= np.floor(shuffled_ratio * n_features + 1e-9)


@pytest.mark.parametrize(("n_features", "ratio", "count"), [(50, 0.4, 20), (100, 0.29, 29)])
def test_shuffled_entries_are_a_random_subset_of_the_stated_size(n_features, ratio, count):
    data = make_permuted_subspaces(
        1, 400, n_features, 3, outlier_ratio=1.0, shuffled_ratio=ratio, random_state=0
    )
    moved = data.permutations != np.arange(n_features)
    # A uniform permutation keeps one entry in place on average, with variance one.
    assert moved.sum(axis=1).max() == count
    assert count - 1.3 < moved.sum(axis=1).mean() < count - 0.7
    # Each vector has its own subset, and no place is preferred.
    share = moved.mean(axis=0)
    np.testing.assert_allclose(share, (count - 1) / n_features, atol=0.13)


def test_a_vector_whose_permutation_is_the_identity_is_clean():
    data = make_permuted_subspaces(
        1, 600, 10, 2, outlier_ratio=1.0, shuffled_ratio=0.3, snr_db=None, random_state=0
    )
    np.testing.assert_array_equal(data.outlier_mask, np.any(data.X_clean != data.X, axis=1))
    assert 0.10 < 1 - data.outlier_mask.mean() < 0.24  # one in six for three entries
    nothing = make_permuted_subspaces(1, 9, 10, 2, shuffled_ratio=0.1, random_state=0)
    assert not nothing.outlier_mask.any()


@seeds
def test_the_same_positions_are_permuted_in_every_group(seed):
    data = make_permuted_subspaces(4, 20, 30, 2, outlier_ratio=0.35, random_state=seed)
    first, *others = permuted_positions(data)
    assert len(first) == 7
    assert all(positions == first for positions in others)
    assert first != list(range(7))


@seeds
def test_groups_of_unequal_size_take_the_positions_they_have(seed):
    data = make_permuted_subspaces(3, [30, 10, 30], 20, 2, outlier_ratio=0.5, random_state=seed)
    large, small, large_too = permuted_positions(data)
    assert (len(large), len(small)) == (15, 5)
    assert large == large_too
    assert set(large) & set(range(10)) <= set(small) or set(small) <= set(large)


def test_sequences_give_each_subspace_its_own_rank_and_size():
    data = make_permuted_subspaces(3, (4, 8, 6), 20, [1, 5, 2], snr_db=None, random_state=0)
    np.testing.assert_array_equal(data.labels, [0] * 4 + [1] * 8 + [2] * 6)
    assert [basis.shape[1] for basis in data.bases] == [1, 5, 2]
    ranks = [np.linalg.matrix_rank(data.X_clean[data.labels == k]) for k in range(3)]
    assert ranks == [1, 5, 2]


@seeds
@pytest.mark.parametrize("rank", [1, 6, 9])
def test_affine_subspaces(seed, rank):
    data = make_permuted_subspaces(2, 12, 10, rank, affine=True, random_state=seed)
    for k, (basis, offset) in enumerate(zip(data.bases, data.offsets, strict=True)):
        np.testing.assert_allclose(np.linalg.norm(offset), 1)
        np.testing.assert_allclose(basis.T @ offset, 0, atol=1e-12)
        inside = data.X_clean[data.labels == k] - offset
        np.testing.assert_allclose(inside @ basis @ basis.T, inside, atol=1e-12)
        np.testing.assert_allclose(np.linalg.norm(inside, axis=1), 1)
    assert abs(data.offsets[0] @ data.offsets[1]) < 0.999


def test_missing_entries_are_counted_exactly_and_change_nothing_else():
    options = {"n_subspaces": 2, "n_vectors_per_subspace": 25, "n_features": 20, "rank": 3}
    full = make_permuted_subspaces(**options, random_state=0)
    holes = make_permuted_subspaces(**options, missing_ratio=0.13, random_state=0)
    missing = np.isnan(holes.X)
    assert missing.sum() == 130
    assert missing.any(axis=1).sum() > 35
    np.testing.assert_array_equal(holes.X[~missing], full.X[~missing])
    np.testing.assert_array_equal(holes.X_clean, full.X_clean)
    assert not np.isnan(full.X).any()


@seeds
def test_permutation_groups_share_one_permutation_each(seed):
    data = make_permuted_subspaces(3, 20, 20, 2, n_permutation_groups=4, random_state=seed)
    groups = data.permutation_groups
    np.testing.assert_array_equal(groups == -1, ~data.outlier_mask)
    np.testing.assert_array_equal(np.bincount(groups[data.outlier_mask]), [9] * 4)
    found = [np.unique(data.permutations[groups == g], axis=0) for g in range(4)]
    assert [len(permutations) for permutations in found] == [1] * 4
    assert len(np.unique(np.vstack(found), axis=0)) == 4
    # The groups cut across the subspaces, and are not dealt in turn.
    assert all(len(np.unique(data.labels[groups == g])) > 1 for g in range(4))
    assert not np.array_equal(groups[data.outlier_mask], np.arange(36) % 4)


def test_a_group_whose_permutation_is_the_identity_is_clean():
    data = make_permuted_subspaces(
        1, 60, 10, 2, shuffled_ratio=0.2, n_permutation_groups=30, random_state=0
    )
    np.testing.assert_array_equal(data.permutation_groups == -1, ~data.outlier_mask)
    # A permutation of two entries is the identity half of the time.
    assert 4 < len(np.unique(data.permutation_groups[data.outlier_mask])) < 26


def test_without_groups_every_vector_has_its_own_permutation():
    data = make_permuted_subspaces(1, 50, 30, 2, random_state=0)
    assert len(np.unique(data.permutations[data.outlier_mask], axis=0)) == 30


def test_the_seed_decides_everything():
    options = {"affine": True, "missing_ratio": 0.1, "n_permutation_groups": 3}
    first, again, other = (make_permuted_subspaces(**options, random_state=s) for s in (7, 7, 8))
    assert first.keys() == again.keys()
    for key in first:
        np.testing.assert_array_equal(first[key], again[key])
    assert not np.array_equal(first.X_clean, other.X_clean)


def test_the_noise_level_changes_only_the_noise():
    quiet = make_permuted_subspaces(2, 10, 15, 2, snr_db=None, random_state=3)
    loud = make_permuted_subspaces(2, 10, 15, 2, snr_db=10, random_state=3)
    np.testing.assert_array_equal(quiet.permutations, loud.permutations)
    np.testing.assert_array_equal(quiet.X_clean, loud.X_clean)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 50}, r"rank=50 must be at least 1 and below the number of features, 50"),
        ({"rank": [2, 3]}, r"rank=\[2, 3\] names 2 subspaces, but there are 5"),
        ({"rank": [0, 1, 1, 1, 1]}, r"rank=\[0, 1, 1, 1, 1\] must be at least 1"),
        ({"rank": 2.5}, r"The 'rank' parameter of make_permuted_subspaces must be .* Got 2.5"),
        (
            {"n_vectors_per_subspace": [3, 4]},
            r"n_vectors_per_subspace=\[3, 4\] names 2 subspaces, but n_subspaces is 5",
        ),
        (
            {"n_vectors_per_subspace": [3, 4, 0, 1, 1]},
            r"n_vectors_per_subspace=\[3, 4, 0, 1, 1\] must be a positive integer",
        ),
        (
            {"n_vectors_per_subspace": []},
            r"n_vectors_per_subspace=\[\] must be a positive integer, or one per subspace",
        ),
        ({"outlier_ratio": 1.1}, r"'outlier_ratio' parameter .* range \[0.*Got 1.1"),
        ({"shuffled_ratio": -0.1}, r"'shuffled_ratio' parameter .* range \[0.*Got -0.1"),
        ({"missing_ratio": 1.0}, r"'missing_ratio' parameter .* Got 1.0"),
        ({"snr_db": np.nan}, r"'snr_db' parameter .* Got nan"),
        ({"snr_db": -1e6}, r"'snr_db' parameter .* range \[-300.0, inf\].* Got -1000000.0"),
        ({"n_subspaces": 0}, r"'n_subspaces' parameter .* Got 0"),
        (
            {"n_permutation_groups": 361},
            r"n_permutation_groups=361 must not exceed the number of shuffled vectors, 360",
        ),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        make_permuted_subspaces(**options)


@needs_data
def test_student_scores_are_the_published_table():
    scores = load_student_scores()
    assert scores.data.shape == (707, 14)
    assert scores.data.dtype == np.float64
    assert scores.data.flags.c_contiguous
    np.testing.assert_array_equal(scores.data[:, :6].sum(axis=1), scores.data[:, 6])
    np.testing.assert_array_equal(scores.data[:, 7:13].sum(axis=1), scores.data[:, 13])
    assert np.all(np.diff(scores.data[:, 6]) <= 0)
    assert len(set(scores.feature_names)) == 14
    assert (scores.feature_names[6], scores.feature_names[13]) == ("exam1_total", "exam2_total")
    assert "MIT" in scores.DESCR


@needs_data
def test_data_home_goes_before_the_environment(monkeypatch, tmp_path):
    home = os.environ["UNPERMUTE_DATA"]
    monkeypatch.setenv("UNPERMUTE_DATA", str(tmp_path))
    assert load_student_scores(data_home=home).data.shape == (707, 14)


@pytest.mark.parametrize("value", [None, ""])
def test_student_scores_without_a_folder(monkeypatch, value):
    monkeypatch.delenv("UNPERMUTE_DATA", raising=False)
    if value is not None:
        monkeypatch.setenv("UNPERMUTE_DATA", value)
    with pytest.raises(FileNotFoundError) as error:
        load_student_scores()
    for words in ("data_home=None", "UNPERMUTE_DATA is not set", "NeurIPS 2021", "MIT licence"):
        assert words in str(error.value)


def test_student_scores_missing_from_the_folder(monkeypatch, tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        load_student_scores(data_home=tmp_path)
    for words in (f"data_home={str(tmp_path)!r}", "student_scores/scores.mat", "Yao, Peng"):
        assert words in str(error.value)
    monkeypatch.setenv("UNPERMUTE_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="in the folder that UNPERMUTE_DATA names"):
        load_student_scores()


def write_scores(folder, table):
    file = folder / "student_scores" / "scores.mat"
    file.parent.mkdir()
    savemat(file, {"scoreM": table})
    return file


def test_student_scores_damaged(tmp_path):
    write_scores(tmp_path, np.zeros((707, 14)))
    with pytest.raises(ValueError, match=r"SHA-256 checksum is [0-9a-f]{64} instead of d2405e6f"):
        load_student_scores(data_home=str(tmp_path))


def test_student_scores_of_another_shape(monkeypatch, tmp_path):
    content = write_scores(tmp_path, np.zeros((3, 2))).read_bytes()
    monkeypatch.setattr(_real, "_SCORES_SHA256", hashlib.sha256(content).hexdigest())
    with pytest.raises(ValueError, match=r"shape \(3, 2\) instead of \(707, 14\)"):
        load_student_scores(data_home=tmp_path)


def test_data_home_must_be_a_path():
    with pytest.raises(ValueError, match=r"'data_home' parameter of load_student_scores .* Got 3"):
        load_student_scores(data_home=3)


def test_benign_tumours_are_the_benign_rows():
    tumours = load_benign_tumours()
    assert tumours.data.shape == (357, 30)
    assert tumours.data.dtype == np.float64
    assert len(tumours.feature_names) == 30
    assert tumours.feature_names[0] == "mean radius"
    # Benign tumours are the small ones: 12.1 on average, against 17.5 for the malignant.
    assert tumours.data[:, 0].mean() == pytest.approx(12.1465, abs=1e-4)
    assert "357 benign" in tumours.DESCR


@needs_data
def test_yale_faces_are_the_published_images():
    faces = load_yale_faces()
    assert faces.images.shape == (2432, 48, 42)
    assert faces.data.shape == (2432, 2016)
    assert (faces.data.min(), faces.data.max()) == (0.0, 255.0)
    assert np.bincount(faces.target).tolist() == [64] * 38
    assert int(faces.bad.sum()) == 18
    # Neighbouring pixels are alike: an image read in the wrong order is not.
    smooth = [np.abs(np.diff(faces.images[0], axis=axis)).mean() for axis in (0, 1)]
    assert max(smooth) < 0.5 * faces.images[0].std()


@needs_data
def test_hopkins155_has_all_sequences():
    sequences = load_hopkins155().sequences
    counts = [sequence.n_motions for sequence in sequences.values()]
    assert [counts.count(n) for n in (2, 3, 5)] == [120, 35, 1]
    assert list(sequences) == sorted(sequences)
    head = sequences["head"]
    assert head.data.shape == (99, 120)
    # A rigid motion has rank 4, up to the noise of tracking.
    values = np.linalg.svd(head.data[head.target == 0], compute_uv=False)
    assert values[4] < 0.02 * values[0]


@pytest.mark.parametrize(
    ("load", "place", "source"),
    [
        (load_yale_faces, "yaleb/yaleb_48x42.npz", "Extended Yale Face Database B"),
        (load_hopkins155, "Hopkins155", "Tron & Vidal, 2007"),
    ],
)
def test_missing_data_say_where_they_come_from(monkeypatch, tmp_path, load, place, source):
    monkeypatch.delenv("UNPERMUTE_DATA", raising=False)
    with pytest.raises(FileNotFoundError) as error:
        load()
    for words in (place, source, "UNPERMUTE_DATA is not set"):
        assert words in str(error.value)
    with pytest.raises(FileNotFoundError, match=f"There is no {place} in the folder"):
        load(data_home=tmp_path)
    with pytest.raises(ValueError, match=r"'data_home' parameter .* Got 3"):
        load(data_home=3)


def test_damaged_faces_are_refused(tmp_path):
    file = tmp_path / "yaleb" / "yaleb_48x42.npz"
    file.parent.mkdir()
    file.write_bytes(b"no images")
    with pytest.raises(ValueError, match=r"SHA-256 checksum is [0-9a-f]{64} instead of d8562600"):
        load_yale_faces(data_home=tmp_path)


def test_incomplete_sequences_are_refused(tmp_path):
    file = tmp_path / "Hopkins155" / "arm" / "arm_truth.mat"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"no points")
    with pytest.raises(ValueError, match="holds 1 sequences instead of 156"):
        load_hopkins155(data_home=tmp_path)
