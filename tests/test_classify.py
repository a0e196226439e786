"""Stage 3: classification by elimination and by recovery."""

import numpy as np
import pytest

from unpermute.classify import EliminationClassifier, RecoveryClassifier
from unpermute.classify._elimination import elimination_distances
from unpermute.datasets import make_permuted_subspaces


def problem(seed, **options):
    options = dict(shuffled_ratio=0.4, random_state=seed) | options
    return make_permuted_subspaces(3, 60, 50, 4, **options)


def test_permuted_vectors_find_their_subspace(seed):
    data = problem(seed)
    clean = ~data.outlier_mask
    names = np.array(["red", "green", "blue"])[data.labels]
    model = EliminationClassifier(rank=4).fit(data.X[clean], names[clean])
    assert model.score(data.X[~clean], names[~clean]) > 0.98
    scores = model.decision_function(data.X[~clean])
    assert scores.shape == (data.outlier_mask.sum(), 3)
    np.testing.assert_array_equal(
        model.classes_[scores.argmax(axis=1)], model.predict(data.X[~clean])
    )


def test_rank_is_found_by_the_gap_when_not_given(seed):
    data = problem(seed, outlier_ratio=0.0)
    model = EliminationClassifier().fit(data.X, data.labels)
    assert [basis.shape[1] for basis in model.bases_] == [4, 4, 4]


def test_affine_subspaces(seed):
    data = problem(seed, affine=True)
    clean = ~data.outlier_mask
    model = EliminationClassifier(rank=4, affine=True).fit(data.X[clean], data.labels[clean])
    assert model.score(data.X[~clean], data.labels[~clean]) > 0.98


def test_distance_is_zero_in_the_own_subspace_and_not_elsewhere(seed):
    data = problem(seed, snr_db=None)
    rows = np.flatnonzero(data.outlier_mask)
    distances = elimination_distances(data.X[rows], data.bases, data.offsets)
    own = distances[np.arange(len(rows)), data.labels[rows]]
    assert np.median(own) < 1e-12
    assert np.median(distances) > 1e-3


def test_zero_vector_is_classified_without_nan():
    data = problem(0, outlier_ratio=0.0)
    model = EliminationClassifier(rank=4).fit(data.X, data.labels)
    assert np.isfinite(model.decision_function(np.zeros((1, 50)))).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(rank=50), "rank=50 must be at least 1 and below the number of features, 50"),
        (dict(rank=[4, 4]), r"rank=\[4, 4\] names 2 subspaces, but there are 3"),
        (dict(rank=2.5), "'rank'.*Got 2.5"),
        (dict(retain_ratio=0.0), "'retain_ratio'.*Got 0.0"),
        (dict(max_steps=0), "'max_steps'.*Got 0"),
        (dict(basis="qr"), "'basis'.*Got 'qr'"),
    ],
)
def test_bad_options_get_one_clear_sentence(options, message):
    data = problem(0)
    with pytest.raises(ValueError, match=message):
        EliminationClassifier(**options).fit(data.X, data.labels)


def test_recovery_beats_elimination_where_most_entries_moved(seed):
    data = make_permuted_subspaces(
        3, 60, 50, 5, shuffled_ratio=0.7, outlier_ratio=0.5, random_state=seed
    )
    clean = ~data.outlier_mask
    train, new = (data.X[clean], data.labels[clean]), (data.X[~clean], data.labels[~clean])
    elimination = EliminationClassifier(rank=5).fit(*train).score(*new)
    recovery = RecoveryClassifier(rank=5, random_state=0).fit(*train).score(*new)
    assert recovery > 0.98
    assert recovery > elimination
