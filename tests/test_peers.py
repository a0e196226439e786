"""Few vectors with noise of their own: mixture regression, and columns of real tables."""

import warnings

import numpy as np
import pytest

from unpermute import PMSDR
from unpermute.datasets import load_benign_tumours
from unpermute.numerics.mixture_regression import directions_of, fit_mixtures
from unpermute.pmsdr._peers import learn_from_peers
from unpermute.pmsdr._stages import Given


@pytest.fixture
def columns():
    """Columns of a table with three factors; each has its own noise, the last three are moved."""
    rng = np.random.default_rng(0)
    scales = rng.uniform(0.05, 0.4, 12)
    X = rng.normal(size=(12, 3)) @ rng.normal(size=(3, 300)) + scales[:, None] * rng.normal(
        size=(12, 300)
    )
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    Y = X.copy()
    for j in (9, 10, 11):
        places = rng.choice(300, 90, replace=False)
        Y[j, places] = Y[j, rng.permutation(places)]
    return X, Y


def test_weights_tell_the_entries_that_moved(columns):
    X, Y = columns
    fit = fit_mixtures(Y[9:], *directions_of(Y[:9]))
    far = np.abs(X[9:] - Y[9:]) > 6 * fit.noise[:, None]
    assert far.sum() > 60
    assert np.mean(fit.weights[far] < 0.5) > 0.95
    assert np.mean(fit.weights[X[9:] == Y[9:]] > 0.5) > 0.95
    np.testing.assert_allclose(fit.share, 0.7, atol=0.08)
    assert np.all(fit.evidence > 20)
    assert np.all(fit.damage > 20)
    assert np.all(fit_mixtures(X[9:], *directions_of(X[:9])).damage < 5)


def test_nothing_is_found_where_nothing_is_in_place(columns):
    X, _ = columns
    rng = np.random.default_rng(1)
    fit = fit_mixtures(rng.permutation(X[9])[None], *directions_of(X[:9]))
    assert fit.evidence[0] < 5


def test_scale_offset_and_missing_entries_do_not_matter(columns):
    _, Y = columns
    directions = directions_of(Y[:9])
    fit = fit_mixtures(Y[9:], *directions)
    other = fit_mixtures(1e6 * Y[9:] + 3.0, *directions)
    np.testing.assert_allclose(other.weights, fit.weights, atol=1e-6)
    holes = Y[9:].copy()
    holes[:, ::10] = np.nan
    missing = fit_mixtures(holes, *directions)
    assert np.all(missing.weights[:, ::10] == 0.0)
    assert np.all(np.isfinite(missing.predicted))
    np.testing.assert_allclose(missing.share, fit.share, atol=0.08)


def test_long_vectors_are_fitted_like_short_ones():
    rng = np.random.default_rng(2)
    factors = rng.normal(size=(3, 9000))
    X = rng.normal(size=(8, 3)) @ factors + 0.1 * rng.normal(size=(8, 9000))
    y = X[7].copy()
    places = rng.choice(9000, 4500, replace=False)
    y[places] = y[rng.permutation(places)]
    fit = fit_mixtures(y[None], *directions_of(X[:7]))
    assert fit.share[0] == pytest.approx(0.5, abs=0.05)
    assert np.abs(fit.predicted[0] - X[7]).mean() < 0.2


@pytest.mark.parametrize("contamination", ["auto", 3])
def test_few_vectors_are_judged_by_their_peers(columns, contamination):
    X, Y = columns
    model = learn_from_peers(Y, Given(contamination=contamination), min_confidence=0.95)
    repaired, _ = model.enter(Y, model.judged, "blend", 0.95)
    np.testing.assert_array_equal(repaired.status != "clean", np.arange(12) >= 9)
    before, after = (np.linalg.norm(Z[9:] - X[9:], axis=1) for Z in (Y, repaired.X))
    assert np.all(after <= before)
    assert np.mean(after) < 0.7 * np.mean(before)
    assert model.report.n_trials == 100
    assert np.all(model.scores(X[9:]) > model.offset)


def test_a_given_number_below_the_true_one_is_met():
    """Most vectors that are left look damaged as well."""
    rng = np.random.default_rng(1)
    basis = rng.normal(size=(2, 400))
    Y = rng.normal(size=(6, 2)) @ basis + 0.01 * rng.normal(size=(6, 400))
    for j in range(4):
        places = rng.choice(400, 200, replace=False)
        Y[j, places] = Y[j, rng.permutation(places)]
    model = PMSDR(contamination=1, random_state=0).fit(Y)
    assert model.outlier_mask_.sum() == 1


@pytest.mark.parametrize("output", ["values", "blend"])
def test_a_real_table_gets_better_and_new_vectors_get_the_same_answer(output):
    table = load_benign_tumours().data
    X = (table - table.mean(axis=0)).T
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    X /= lengths
    rng = np.random.default_rng(4)
    Y = X.copy()
    for j in range(1, 30, 2):
        places = rng.choice(357, 36, replace=False)
        Y[j, places] = Y[j, rng.permutation(places)]
    model = PMSDR(1, 4, contamination=15, output=output, random_state=0)
    fixed = model.fit_transform(Y)
    before, after = (np.linalg.norm((Z - X) * lengths) for Z in (Y, fixed))
    assert after < {"values": 0.5, "blend": 0.3}[output] * before
    clean = model.status_ == "clean"
    assert np.mean((model.transform(Y) == Y).all(axis=1)[clean]) > 0.9
    moved = np.take_along_axis(Y, model.permutations_, axis=1)
    np.testing.assert_array_equal(
        moved[model.status_ == "uncertain"], Y[model.status_ == "uncertain"]
    )


def test_few_vectors_of_several_kinds_are_hardly_changed(seed):
    """A vector of another kind fits the majority badly in any order; it is odd, not shuffled."""
    rng = np.random.default_rng(seed)
    half, factors = np.arange(300) < 150, rng.normal(size=(3, 300))
    usual = rng.normal(size=(20, 3)) @ factors + 0.3 * rng.normal(size=(20, 300))
    noise = rng.standard_t(2, size=(12, 300)) * np.where(half, 0.3, 2.0)
    X = np.vstack([usual, rng.normal(size=(12, 3)) @ (factors * half) + noise])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X_fixed = PMSDR(random_state=0).fit_transform(X)
    assert np.sum(np.any(X_fixed != X, axis=1)) <= 2
