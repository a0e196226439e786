"""Vectors whose noise grows with their contrast: real data in small."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from unpermute import PMSDR
from unpermute.experiments.faces import draw_faces, our_faces_method
from unpermute.metrics import recovery_error
from unpermute.pmsdr._contrast import _has_cluster_of, contrasts, noise_is_uneven


def make_uneven(seed, n_subspaces=2, n_vectors=60, n_features=40, rank=3, share=0.3):
    """Vectors of very different lengths, with noise in proportion; part of them shuffled."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(n_subspaces), n_vectors)
    bases = np.linalg.qr(rng.normal(size=(n_subspaces, n_features, rank)))[0]
    X_clean = np.concatenate([rng.normal(size=(n_vectors, rank)) @ basis.T for basis in bases])
    X_clean += 0.005 * contrasts(X_clean)[:, None] * rng.normal(size=X_clean.shape)
    X_clean *= np.exp(2.0 * rng.normal(size=(len(labels), 1)))
    X, moved = X_clean.copy(), rng.random(len(labels)) < share
    for i in np.flatnonzero(moved):
        places = rng.choice(n_features, n_features * 2 // 5, replace=False)
        X[i, places] = X[i, rng.permutation(places)]
    return X, X_clean, labels, moved


@pytest.mark.parametrize("given", [True, False])
def test_short_vectors_are_judged_by_their_own_noise(seed, given):
    X, X_clean, labels, moved = make_uneven(seed)
    contamination = int(moved.sum()) if given else "auto"
    model = PMSDR(2, 3, contamination=contamination, random_state=0)
    fixed = model.fit_transform(X)
    assert model.by_contrast_
    assert np.mean(model.outlier_mask_ != moved) < 0.02
    same = np.array_equal(model.labels_, labels) or np.array_equal(model.labels_, 1 - labels)
    assert same
    assert recovery_error(X_clean, fixed) < 0.1 * recovery_error(X_clean, X)
    # Values are moved, never computed; clean vectors are not touched.
    np.testing.assert_array_equal(np.sort(fixed, axis=1), np.sort(X, axis=1))
    np.testing.assert_array_equal(fixed[~model.outlier_mask_], X[~model.outlier_mask_])


def test_scaling_a_vector_changes_nothing_but_its_scale(seed):
    X, _, _, moved = make_uneven(seed)
    model = PMSDR(2, 3, contamination=int(moved.sum()), output="subspace", random_state=0)
    fixed = model.fit_transform(X)
    mask = model.outlier_mask_.copy()
    new = 1e3 * X[mask]
    np.testing.assert_allclose(model.transform(new), 1e3 * fixed[mask], rtol=1e-6, atol=1e-9)


def test_affine_subspaces_become_their_linear_hulls(seed):
    rng = np.random.default_rng(seed)
    X, _, labels, moved = make_uneven(seed, n_features=50)
    X[labels == 1] *= 1.0 + rng.random((np.sum(labels == 1), 1))
    model = PMSDR(2, 2, affine=True, contamination=int(moved.sum()), random_state=0).fit(X)
    assert model.by_contrast_
    assert model.ranks_.tolist() == [3, 3]
    assert not np.any(model.offsets_)


@pytest.mark.parametrize("n_degrees", [20, 200, 2000])
def test_a_common_noise_is_not_uneven(n_degrees):
    rng = np.random.default_rng(n_degrees)
    distances = np.sqrt(rng.chisquare(n_degrees, size=(200, 100)) / n_degrees)
    assert not any(noise_is_uneven(row, n_degrees) for row in distances)
    assert noise_is_uneven(distances[0] * np.exp(rng.normal(size=100)), n_degrees)
    assert not noise_is_uneven(np.array([np.inf]), n_degrees)


def test_clean_vectors_stay_clean_however_uneven(seed):
    X = make_uneven(seed, share=0.0)[0]
    model = PMSDR(2, 3, random_state=0).fit(X)
    assert not model.outlier_mask_.any()
    np.testing.assert_array_equal(model.transform(X), X)


def test_a_constant_vector_has_no_order_to_lose():
    X = np.vstack([make_uneven(0)[0], np.full((1, 40), 7.0)])
    model = PMSDR(2, 3, random_state=0).fit(X)
    assert model.by_contrast_
    assert model.status_[-1] == "clean"


def test_unusual_vectors_that_make_a_cluster_are_noticed():
    labels = np.repeat([0, 1, 2, -1], [10, 10, 5, 3])
    unusual = np.zeros(28, dtype=bool)
    unusual[[0, 1, 2, 12, 13, 20, 21, 26]] = True
    assert not _has_cluster_of(unusual & (labels >= 0), labels)
    unusual[22] = True
    assert _has_cluster_of(unusual & (labels >= 0), labels)


def test_few_clean_vectors_classify_and_no_basis_overrules_them(seed):
    """Long vectors that no rank holds, as faces: their clean peers decide where they belong."""
    rng = np.random.default_rng(seed)
    groups = [(rng.normal(size=(3, 400)), rng.normal(size=(12, 400))) for _ in range(3)]
    X = np.vstack(
        [
            rng.normal(size=(30, 3)) @ main + 0.25 * rng.normal(size=(30, 12)) @ rest
            for main, rest in groups
        ]
    ) * np.exp(rng.normal(size=(90, 1)))
    labels, damaged = np.repeat(np.arange(3), 30), np.arange(90) % 5 == 0
    X[damaged, :160] = rng.permuted(X[damaged, :160], axis=1)
    model = PMSDR(3, 3, random_state=0).fit(X)
    assert model.by_contrast_
    assert len(model._contrasted.members) == 3
    found = model.outlier_mask_
    np.testing.assert_array_equal(model.labels_[found], model._contrasted.classify(X[found]))
    assert adjusted_rand_score(labels, model.labels_) > 0.95
    # A missing entry does not stop it.
    new = X[found].copy()
    new[:, 7] = np.nan
    assert np.mean(model.predict(new) == model.labels_[found]) > 0.9


def test_trials_tell_what_a_confidence_is_worth(seed):
    """Noise that neighbouring entries share: right answers are called so, others are not."""
    rng = np.random.default_rng(seed)
    labels, bases = np.repeat([0, 1], 70), np.linalg.qr(rng.normal(size=(2, 400, 3)))[0]
    mean = 10.0 * bases.sum(axis=2)[labels]
    signal = mean + 6.0 * np.einsum("ij,ikj->ik", rng.normal(size=(140, 3)), bases[labels])
    shared = np.array([np.convolve(v, np.ones(60), "valid") for v in rng.normal(size=(140, 459))])
    sizes = 0.08 / np.sqrt(60) * np.exp(0.7 * rng.normal(size=(140, 1)))
    X_clean = signal + sizes * contrasts(signal)[:, None] * shared
    X, moved = X_clean.copy(), rng.random(140) < 0.3
    for i in np.flatnonzero(moved):
        places = rng.integers(240) + np.arange(160)
        X[i, places] = X[i, rng.permutation(places)]
    model = PMSDR(2, 3, output="subspace", random_state=0)
    fitted = model.fit_transform(X)
    assert model._contrasted.accuracy is not None
    found, right = model.outlier_mask_ & moved, _is_right(model, fitted, X, X_clean)
    recovered = found & (model.status_ == "recovered")
    assert np.mean(right[recovered]) > 0.9
    assert recovered.sum() > 0.8 * np.sum(right & found) > 0


def _is_right(model, fitted, X, X_clean):
    """Whether fits are within 5% of the best ones, or within the noise."""
    own = [model.bases_[k] for k in model.labels_]
    best = np.array([basis @ (basis.T @ x) for basis, x in zip(own, X_clean, strict=True)])
    noise = model.noise_scale_ * contrasts(X) * np.sqrt(X.shape[1])
    allowed = np.maximum(0.05 * np.linalg.norm(best, axis=1), noise)
    return np.linalg.norm(fitted - best, axis=1) < allowed


def test_a_recovered_face_is_right(data_home):
    right = []
    for n_people, first, seed in ((2, 20, 13), (3, 10, 11)):
        draw = draw_faces(range(first, first + n_people), "run", seed, data_home)
        model = our_faces_method(n_people, seed)
        fitted = model.fit_transform(draw.X)
        recovered = draw.outlier_mask & (model.status_ == "recovered")
        right.extend(_is_right(model, fitted, draw.X, draw.X_clean)[recovered])
    assert len(right) > 30
    assert np.mean(right) > 0.9
