"""Stage 3: classification by elimination."""

import numpy as np
import pytest

from unpermute.classify import EliminationClassifier, RecoveryClassifier, _recovery
from unpermute.classify._elimination import elimination_distances
from unpermute.classify._recovery import recover_everywhere
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


def test_hopeless_vectors_end_the_budget_and_hopeful_ones_get_it(monkeypatch):
    budgets = []
    search = _recovery.search_vectors
    monkeypatch.setattr(
        _recovery,
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
    search = _recovery.search_vectors

    def watch(*args, shuffled_ratio, **options):
        if options["max_starts"] > 0:
            asked.append((options["max_starts"], shuffled_ratio))
        return search(*args, shuffled_ratio=shuffled_ratio, **options)

    monkeypatch.setattr(_recovery, "search_vectors", watch)
    return asked


def test_what_moved_in_vectors_found_before_is_expected_of_the_next(searches):
    """Hard vectors, half of whose entries moved: once some are found, nobody guesses the share."""
    data = make_permuted_subspaces(2, 120, 50, 12, shuffled_ratio=0.5, random_state=0)
    found = _recovery.recover_everywhere(
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
    found = _recovery.recover_everywhere(
        Y, draws[0].bases, draws[0].offsets, noise_scale=None, max_starts=2000, seed=0
    )
    assert found.certain.all()
    np.testing.assert_array_equal(found.labels, labels)
    # The last and largest budget does not believe in one share for all.
    assert all(ratio is None for budget, ratio in searches if budget > 2000)
