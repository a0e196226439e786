"""Numbers near the ends of what float64 holds give the answer of the same numbers near 1."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from unpermute import PMSDR
from unpermute.baselines import MRUC, UPCA, LowRankRepresentation, RobustKernelPCA, RobustPCA
from unpermute.datasets import make_permuted_subspaces
from unpermute.detect import SelfRepresentationDetector
from unpermute.numerics.units import in_unit, restored, unit_of
from unpermute.pmsdr._distances import distances_as_they_stand
from unpermute.recover import RECOVERERS, recover_vectors

# Powers of two, by which multiplying rounds nothing; and numbers that are none.
EXTREMES = [2.0**-996, 2.0**996]
OTHERS = [1e-300, 1e300]

PAPER = dict(
    contamination=16, clusterer="ssc", basis="svd", classifier="elimination", recoverer="lsrf",
    refine=False, output="subspace",
)  # fmt: skip
FITS = {
    "PMSDR()": {},
    "PMSDR(2, 2)": dict(n_subspaces=2, rank=2),
    "affine": dict(n_subspaces=2, rank=2, affine=True, refine=False),
    "the paper's": dict(n_subspaces=2, rank=2, **PAPER),
}


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


@pytest.fixture(scope="module")
def matrix():
    data = make_permuted_subspaces(2, 40, n_features=12, rank=2, outlier_ratio=0.2, random_state=0)
    return data.X / np.abs(data.X).max()


_FITTED: dict = {}


def _fitted(name, X):
    if name not in _FITTED:
        _FITTED[name] = PMSDR(random_state=0, **FITS[name]).fit(X)
    return _FITTED[name]


@pytest.mark.parametrize("scale", EXTREMES)
@pytest.mark.parametrize("name", FITS)
def test_pmsdr_gives_the_same_answer_in_any_unit(matrix, name, scale):
    usual = _fitted(name, matrix)
    model = PMSDR(random_state=0, **FITS[name])
    fixed = model.fit_transform(matrix * scale)
    np.testing.assert_array_equal(model.status_, usual.status_)
    np.testing.assert_array_equal(model.permutations_, usual.permutations_)
    np.testing.assert_array_equal(model.confidence_, usual.confidence_)
    assert np.isfinite(model.confidence_).all()
    new = matrix[::-1] * scale
    np.testing.assert_array_equal(model.transform(new), usual.transform(matrix[::-1]) * scale)
    np.testing.assert_array_equal(model.predict(new), usual.predict(matrix[::-1]))
    np.testing.assert_array_equal(model.decision_function(new) < 0,
                                  usual.decision_function(matrix[::-1]) < 0)  # fmt: skip
    clean = model.status_ == "clean"
    np.testing.assert_array_equal(fixed[clean], matrix[clean] * scale)


@pytest.mark.parametrize("scale", OTHERS)
def test_pmsdr_in_units_that_round(matrix, scale):
    usual = _fitted("PMSDR(2, 2)", matrix)
    model = PMSDR(2, 2, random_state=0).fit(matrix * scale)
    np.testing.assert_array_equal(model.status_, usual.status_)
    np.testing.assert_allclose(model.confidence_, usual.confidence_, atol=1e-6)


@pytest.mark.parametrize("scale", EXTREMES)
@pytest.mark.parametrize("groups", [None, [0, 0, 0, 1, 1, 1]])
@pytest.mark.parametrize("noise", [None, 0.01])
@pytest.mark.parametrize("method", RECOVERERS)
def test_vectors_are_recovered_in_any_unit(method, noise, groups, scale):
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(10, 2)))[0]
    Y = rng.normal(size=(6, 2)) @ basis.T
    Y[:, :2] = Y[:, 1::-1]
    affine = method not in ("aiem", "branch-and-bound")
    offset = np.full(10, 0.1)
    results = [
        recover_vectors(
            Y * unit, basis, method=method, groups=groups, offset=offset * unit if affine else None,
            noise_scale=None if noise is None else noise * unit, random_state=0,
        )
        for unit in (1.0, scale)
    ]  # fmt: skip
    usual, result = results
    np.testing.assert_array_equal(result.permutations, usual.permutations)
    np.testing.assert_array_equal(result.confidence, usual.confidence)
    assert np.isfinite(result.confidence).all()
    np.testing.assert_array_equal(result.fitted, usual.fitted * scale)
    np.testing.assert_array_equal(result.cost, usual.cost * scale)


BASELINES = {
    "RobustPCA": RobustPCA(max_iter=100),
    "LowRankRepresentation": LowRankRepresentation(max_iter=100),
    "LowRankRepresentation(lam)": LowRankRepresentation(lam=0.5, max_iter=100),
    "MRUC": MRUC(rank=2, max_iter=3, random_state=0),
    "UPCA": UPCA(rank=2, random_state=0),
    "RobustKernelPCA": RobustKernelPCA(max_iter=5),
}


@pytest.mark.parametrize("scale", EXTREMES)
@pytest.mark.parametrize("name", BASELINES)
def test_baselines_give_the_same_answer_in_any_unit(matrix, name, scale):
    model = BASELINES[name]
    X = matrix[::4]
    usual = model.fit_transform(X)
    if name == "LowRankRepresentation(lam)":  # which is in units of 1 / X
        model = LowRankRepresentation(lam=0.5 / scale, max_iter=100)
    found = model.fit_transform(X * scale)
    np.testing.assert_allclose(found, usual * scale, rtol=1e-12)
    for attribute in ("errors_", "sparse_"):
        if hasattr(model, attribute):
            assert np.isfinite(getattr(model, attribute)).all()
    if hasattr(model, "transform"):
        np.testing.assert_allclose(
            model.transform(X * scale), BASELINES[name].fit(X).transform(X) * scale, rtol=1e-9
        )


@pytest.mark.parametrize("estimator", [PMSDR, SelfRepresentationDetector])
@pytest.mark.parametrize("value", [True, np.False_])
def test_a_contamination_that_is_no_number_is_refused(matrix, estimator, value):
    with pytest.raises(ValueError, match="contamination"):
        estimator(contamination=value).fit(matrix)


def test_units_are_powers_of_two_where_they_are_needed():
    assert unit_of(np.array([[1e-50, -1e50]])) == 1.0
    assert unit_of(np.zeros(3)) == 1.0
    assert unit_of(np.array([np.nan, 5e-324])) == 2.0**-1022
    unit = unit_of(np.array([-1e300, 1.0]))
    assert np.frexp(unit)[0] == 0.5
    assert 0.5 <= 1e300 / unit < 2


def test_values_that_stay_are_not_rounded():
    X = np.array([[1e300, 5e-324, np.nan]])
    unit = unit_of(X)
    scaled = in_unit(X, unit)
    np.testing.assert_array_equal(restored(X, scaled, scaled.copy(), unit), X)


def test_a_subspace_of_everything_is_at_no_distance():
    """Its residuals have no degrees of freedom left: 0 / 0, or worse 1e-17 / 0."""
    X = np.array([[1.0, 2.0], [0.3, 0.3]])
    distances = distances_as_they_stand(X, [np.eye(2), np.eye(2)[:, :1]], [np.zeros(2)] * 2)
    np.testing.assert_allclose(distances, [[0, 2], [0, 0.3]], atol=1e-12)
