"""PMSDR: the four stages together, its attributes, other parts, layouts and messages."""

import functools
import logging
from itertools import product

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.ensemble import IsolationForest
from sklearn.exceptions import NotFittedError

from unpermute import PMSDR
from unpermute._progress import on_progress
from unpermute.classify import EliminationClassifier
from unpermute.cluster import ElasticNetSubspaceClustering
from unpermute.datasets import make_permuted_subspaces
from unpermute.metrics import (
    outlier_classification_error,
    recovery_error,
    subspace_clustering_error,
)
from unpermute.recover import recover_vectors

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def problem(seed, **options):
    options = dict(outlier_ratio=0.4, shuffled_ratio=0.3, random_state=seed) | options
    return make_permuted_subspaces(3, 60, 40, 3, **options)


@functools.cache
def fitted(seed):
    """A model of `problem(seed)`, and its repair: shared by tests that only look at it."""
    model = PMSDR(3, 3, output="values", random_state=0)
    return model, model.fit_transform(problem(seed).X)


PAPER = dict(classifier="elimination", recoverer="lsrf", refine=False, output="subspace")


@pytest.mark.parametrize(
    ("seed", "clusterer", "basis"),
    [
        *product([0], ["ssc", "elastic-net", "omp"], ["svd", "irls", "dpcp"]),
        *product([1, 2], ["ssc"], ["svd"]),
    ],
)
def test_the_papers_stages_recover_a_union_of_subspaces(seed, clusterer, basis):
    data = problem(seed)
    model = PMSDR(3, 3, contamination=72, clusterer=clusterer, basis=basis, random_state=0, **PAPER)
    X_fixed = model.fit_transform(data.X)
    found = data.outlier_mask & model.outlier_mask_
    assert found.sum() >= 70
    assert recovery_error(data.X_clean, X_fixed, mask=found) < 0.03
    assert subspace_clustering_error(data.labels, model.labels_, mask=~model.outlier_mask_) < 0.01
    assert (
        outlier_classification_error(
            data.labels,
            model.labels_,
            outlier_mask=data.outlier_mask,
            outlier_mask_pred=model.outlier_mask_,
        )
        == 0
    )


def test_everything_is_estimated_when_nothing_is_given(seed):
    data = problem(seed)
    model = PMSDR(random_state=0).fit(data.X)
    assert model.n_subspaces_ == 3
    np.testing.assert_array_equal(model.ranks_, [3, 3, 3])
    np.testing.assert_array_equal(model.outlier_mask_, data.outlier_mask)
    assert model.noise_scale_ == pytest.approx(0.01 / np.sqrt(40), rel=0.2)


def test_fitted_attributes(seed):
    data = problem(seed)
    model, X_fixed = fitted(seed)
    np.testing.assert_array_equal(X_fixed, np.take_along_axis(data.X, model.permutations_, axis=1))
    clean = ~model.outlier_mask_
    np.testing.assert_array_equal(X_fixed[clean], data.X[clean])
    np.testing.assert_array_equal(model.status_ == "recovered", model.outlier_mask_)
    for basis, offset in zip(model.bases_, model.offsets_, strict=True):
        np.testing.assert_allclose(basis.T @ basis, np.eye(3), atol=1e-10)
        assert not offset.any()


def test_new_vectors_are_judged_by_their_residual(seed):
    model, _ = fitted(seed)
    new = problem(seed)  # the same subspaces, drawn again with other noise
    rng = np.random.default_rng(seed + 100)
    coefficients = rng.normal(size=(50, 3))
    clean = coefficients @ new.bases[1].T / np.linalg.norm(coefficients, axis=1, keepdims=True)
    observed = clean + 0.01 / np.sqrt(40) * rng.normal(size=clean.shape)
    observed[:25, :10] = observed[:25, 9::-1]
    decision = model.decision_function(observed)
    assert np.all(decision[:25] < 0)
    assert np.mean(decision[25:] >= 0) > 0.9
    np.testing.assert_allclose(model.score_samples(observed) - model.offset_, decision)
    assert len(np.unique(model.predict(observed))) == 1
    assert recovery_error(clean, model.transform(observed)) < 0.03


def test_affine_subspaces(seed):
    data = problem(seed, affine=True)
    model = PMSDR(3, 3, contamination=72, affine=True, random_state=0)
    X_fixed = model.fit_transform(data.X)
    assert recovery_error(data.X_clean, X_fixed, mask=data.outlier_mask) < 0.05
    assert all(np.linalg.norm(offset) > 0.5 for offset in model.offsets_)


def test_stages_may_be_objects():
    data = problem(0)
    calls = []

    def recoverer(Y, basis, **options):
        calls.append(len(Y))
        return recover_vectors(Y, basis, **options)

    stages = dict(
        detector=IsolationForest(random_state=0, contamination=0.4),
        clusterer=ElasticNetSubspaceClustering(3, random_state=0),
        classifier=EliminationClassifier(3),
        recoverer=recoverer,
    )
    for stage, value in stages.items():
        options = {"refine": False, "classifier": "elimination", "recoverer": "lsrf"}
        options |= {stage: value}
        model = PMSDR(3, 3, contamination=72, random_state=0, **options).fit(data.X)
        assert model.n_subspaces_ == 3
        assert model.predict(data.X).shape == (180,)
    assert sum(calls) == 72 + 180 - np.sum(model.decision_function(data.X) >= 0)


def test_clusterer_may_leave_vectors_out():
    class HalfHearted(KMeans):
        def fit_predict(self, X, y=None, sample_weight=None):
            labels = ElasticNetSubspaceClustering(3, random_state=0).fit_predict(X)
            labels[::10] = -1
            return labels

    data = problem(0)
    model = PMSDR(3, 3, contamination=72, clusterer=HalfHearted()).fit(data.X)
    assert subspace_clustering_error(data.labels, model.labels_, mask=~model.outlier_mask_) == 0


def test_same_seed_same_answer_for_any_number_of_threads():
    data = problem(0)
    usual, expected = fitted(0)
    for n_jobs in (1, 2, 3):
        model = PMSDR(3, 3, random_state=0, n_jobs=n_jobs)
        np.testing.assert_array_equal(model.fit_transform(data.X), expected)
        np.testing.assert_array_equal(model.permutations_, usual.permutations_)


def test_layouts_and_types_give_the_same_answer_and_are_not_changed():
    data = problem(0)
    _, expected = fitted(0)
    wide = np.zeros((180, 80))
    wide[:, ::2] = data.X
    frozen = np.asfortranarray(data.X)
    frozen.flags.writeable = False
    for X in (wide[:, ::2], frozen, data.X.tolist()):
        np.testing.assert_array_equal(PMSDR(3, 3, random_state=0).fit_transform(X), expected)
    np.testing.assert_array_equal(wide[:, ::2], data.X)
    single = data.X.astype(np.float32)
    np.testing.assert_allclose(
        PMSDR(3, 3, random_state=0).fit_transform(single), expected, atol=1e-3
    )
    integers = np.round(1000 * data.X).astype(np.int64)
    before = integers.copy()
    PMSDR(3, 3, random_state=0).fit(integers)
    np.testing.assert_array_equal(integers, before)


def test_vectors_without_an_order_are_never_permuted_and_use_up_no_count():
    data = problem(0)
    X = np.vstack([np.zeros((20, 40)), data.X, np.full((5, 40), 0.3)])
    model = PMSDR(3, 3, contamination=72, random_state=0)
    X_fixed = model.fit_transform(X)
    assert not model.outlier_mask_[:20].any()
    assert not model.outlier_mask_[-5:].any()
    np.testing.assert_array_equal(model.outlier_mask_[20:-5], data.outlier_mask)
    np.testing.assert_array_equal(X_fixed[:20], 0.0)


@pytest.mark.parametrize("ranks", [[2, 4, 6], [6, 4, 2], [4, 6, 2]])
def test_ranks_find_their_clusters_in_any_order(ranks):
    data = make_permuted_subspaces(3, 80, 40, [2, 4, 6], outlier_ratio=0.3, random_state=0)
    model = PMSDR(3, ranks, random_state=0).fit(data.X)
    assert sorted(model.ranks_) == [2, 4, 6]
    assert np.mean(model.outlier_mask_ == data.outlier_mask) > 0.99


def test_what_was_given_reaches_stages_of_ones_own():
    X = problem(0).X
    model = PMSDR(3, 3, clusterer=KMeans(5, random_state=0), refine=False, random_state=0).fit(X)
    assert model.n_subspaces_ == 3
    forest = IsolationForest(random_state=0)
    model = PMSDR(3, 3, detector=forest, contamination=0.1, refine=False, random_state=0).fit(X)
    assert model.outlier_mask_.sum() == 18


class Stage:
    """A stage with nothing but what is asked for."""

    def __init__(self, labels):
        self.labels = labels

    def fit_predict(self, X):
        return self.labels


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        (
            dict(detector=Stage(np.ones(3))),
            r"detector.fit_predict returned .* shape \(3,\) for 180",
        ),
        (dict(detector=Stage(-np.ones(180))), "the detector flagged all 180 vectors"),
        (
            dict(detector=Stage(np.ones(180)), clusterer=Stage(-np.ones(180))),
            "the clusterer left out every vector",
        ),
    ],
)
def test_broken_stages_are_named(stages, message):
    with pytest.raises(ValueError, match=message):
        PMSDR(3, 3, **stages).fit(problem(0).X)


def test_a_failed_fit_leaves_nothing_behind():
    data = problem(0)
    model = PMSDR(3, 3, random_state=0).fit(data.X)
    with pytest.raises(ValueError, match="vectors"):
        model.fit(data.X[:4])
    with pytest.raises(NotFittedError):
        model.transform(data.X)


@pytest.mark.parametrize("contamination", [0, 1, 0.2])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_of_constant_vectors_none_is_permuted(contamination):
    X = np.repeat(np.arange(1.0, 11.0)[:, None], 6, axis=1)
    model = PMSDR(contamination=contamination, random_state=0).fit(X)
    assert np.all(model.status_ == "clean")
    assert np.isfinite(model.offset_)


def test_zero_constant_and_duplicate_vectors_are_legal():
    data = problem(0)
    X = np.vstack([data.X, np.zeros((3, 40)), np.ones((3, 40)), data.X[:5], data.X[:5]])
    model = PMSDR(3, 3, random_state=0)
    assert np.isfinite(model.fit_transform(X)).all()
    assert np.isfinite(model.transform(np.zeros((2, 40)))).all()
    assert np.isfinite(PMSDR(1, 1).fit_transform(np.ones((6, 4)))).all()
    assert np.isfinite(PMSDR(1, 1).fit_transform(np.zeros((6, 4)))).all()


def test_nothing_permuted_means_nothing_changed(seed):
    data = problem(seed, outlier_ratio=0.0)
    model = PMSDR(3, 3, random_state=0)
    np.testing.assert_array_equal(model.fit_transform(data.X), data.X)
    assert set(model.status_) == {"clean"}


def test_progress_and_log(caplog):
    data, stages = problem(0), []
    with (
        on_progress(lambda stage, done, total: stages.append((stage, done / total))),
        caplog.at_level(logging.INFO, logger="unpermute"),
    ):
        PMSDR(3, 3, contamination=72, random_state=0, verbose=1).fit(data.X)
    assert {stage for stage, _ in stages} >= {"detect", "cluster", "classify", "recover"}
    assert all(0 < share <= 1 for _, share in stages)
    assert "72 of 180 vectors are permuted" in caplog.text


X = problem(0).X


@pytest.mark.parametrize(
    ("options", "data", "message"),
    [
        ({}, np.ones(6), "X must be a matrix"),
        ({}, np.ones((0, 6)), "0 sample"),
        ({}, np.ones((6, 0)), "0 feature"),
        ({}, np.full((6, 6), np.nan), "X holds no value: all of its entries are missing"),
        ({}, [["a", "b"]] * 6, "X must hold numbers"),
        ({}, np.where(np.eye(6) > 0, np.inf, 1), "X contains infinity"),
        (dict(rank=40), X, "rank=40 must be at least 1 and below the number of features, 40"),
        (dict(rank=0), X, "'rank'.*Got 0"),
        (dict(rank=5), X[:4], "rank=5 needs at least as many vectors, but X has 4"),
        (dict(n_subspaces=2, rank=[3, 3, 3]), X, "names 3 subspaces, but there are 2"),
        (dict(n_subspaces=181), X, "n_subspaces=181 must not exceed the number of vectors, 180"),
        (dict(n_subspaces=0), X, "'n_subspaces'.*Got 0"),
        (dict(contamination=1.5), X, "'contamination'.*Got 1.5"),
        (dict(contamination=180), X, "contamination=180 counts permuted vectors"),
        (dict(n_subspaces=3, rank=30, contamination=120), X, "cluster 0 has .* vectors, but"),
        (dict(n_subspaces=90, contamination=100), X, "n_subspaces=90 must not exceed .* clean, 80"),
        (
            dict(n_subspaces=3, contamination=0.99),
            X,
            "taken for clean, 2; lower n_subspaces or cont",
        ),
        (dict(detector="magic"), X, "'detector'.*Got 'magic'"),
        (dict(clusterer="magic"), X, "'clusterer'.*Got 'magic'"),
        (dict(basis="magic"), X, "'basis'.*Got 'magic'"),
        (dict(classifier="magic"), X, "'classifier'.*Got 'magic'"),
        (dict(recoverer="magic"), X, "'recoverer'.*Got 'magic'"),
        (dict(output="magic"), X, "'output'.*Got 'magic'"),
        (dict(refine="magic"), X, "'refine'.*Got 'magic'"),
        (dict(min_confidence=2.0), X, "'min_confidence'.*Got 2.0"),
    ],
)
def test_bad_input_gets_one_clear_sentence(options, data, message):
    with pytest.raises(ValueError, match=message):
        PMSDR(**options).fit(data)


@pytest.mark.parametrize(("seed", "snr_db"), [(0, 25.0), (1, 25.0), (2, 40.0)])
def test_blend_is_nearer_than_the_values_it_blends(seed, snr_db):
    data = make_permuted_subspaces(3, 60, 40, 4, snr_db=snr_db, random_state=seed)
    errors = {
        output: recovery_error(
            data.X_clean,
            PMSDR(3, 4, output=output, random_state=0).fit_transform(data.X),
            mask=data.outlier_mask,
        )
        for output in ("values", "blend")
    }
    assert errors["blend"] < errors["values"]


def test_stages_of_ones_own_are_seeded():
    data = make_permuted_subspaces(2, 40, 30, 3, random_state=0)
    masks = [
        PMSDR(2, 3, detector=IsolationForest(n_estimators=2), refine=False, random_state=0)
        .fit(data.X)
        .outlier_mask_
        for _ in range(5)
    ]
    assert all(np.array_equal(mask, masks[0]) for mask in masks)
