"""Which value belongs where: expected values against a dense computation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unpermute.pmsdr._exchange import exchange


def expected_values(y, fitted, variance, share):
    """Sinkhorn's scaling of all values in all places, until rows and columns sum to 1."""
    n = len(y)
    density = (1 + (y - fitted[:, None]) ** 2 / (4 * variance[:, None])) ** -2.5
    density /= np.sqrt(variance)[:, None]
    near = np.abs(y - fitted[:, None]) <= 8 * np.sqrt(variance)[:, None]
    P = share / n * density * near + (1 - share) * np.diag(np.diag(density))
    for _ in range(2000):
        P /= P.sum(axis=0)
        P /= P.sum(axis=1, keepdims=True)
    mean = P @ y
    return mean, P @ y**2 - mean**2


def draw(n_features, noise, seed):
    """A smooth vector, its prediction, and the vector with 40% of its entries shuffled."""
    rng = np.random.default_rng(seed)
    fitted = rng.normal(size=n_features).cumsum()
    truth = fitted + noise * rng.normal(size=n_features)
    places = rng.choice(n_features, int(0.4 * n_features), replace=False)
    y = truth.copy()
    y[places] = truth[rng.permutation(places)]
    return y, fitted, truth, np.full(n_features, noise**2)


def run(y, fitted, variance, share):
    mean, spread = np.full((2, 1, len(y)), np.nan)
    exchange(y[None], fitted[None], variance[None], np.array([share]), mean, spread)
    return mean[0], spread[0]


@pytest.mark.parametrize("noise", [0.1, 0.5])
def test_exchange_is_sinkhorns_scaling(noise):
    y, fitted, _, variance = draw(60, noise, seed=0)
    mean, spread = run(y, fitted, variance, 0.4)
    reference, variance_of_reference = expected_values(y, fitted, variance, 0.4)
    # The kernel stops where every value is used once up to a tenth.
    assert np.abs(mean - reference).mean() < 0.1 * noise
    assert spread.sum() == pytest.approx(variance_of_reference.sum(), rel=0.3)


@pytest.mark.parametrize("n_features", [60, 500, 6000])
def test_exchange_is_closer_than_what_it_starts_from(n_features):
    y, fitted, truth, variance = draw(n_features, 0.3, seed=1)
    mean, spread = run(y, fitted, variance, 0.4)
    error = np.linalg.norm(mean - truth)
    assert error < 0.97 * min(np.linalg.norm(y - truth), np.linalg.norm(fitted - truth))
    assert 0.5 < error**2 / spread.sum() < 2.0


def test_exchange_leaves_what_fits():
    _, fitted, truth, variance = draw(50, 0.01, seed=2)
    mean, spread = run(truth, fitted, variance, 0.4)
    np.testing.assert_allclose(mean, truth, atol=0.005)
    assert np.sqrt(spread).max() < 0.02


def test_exchange_passes_over_missing_entries():
    y, fitted, _, variance = draw(50, 0.1, seed=3)
    y[::7] = np.nan
    mean, _ = run(y, fitted, variance, 0.4)
    np.testing.assert_array_equal(np.isnan(mean), np.isnan(y))
    seen = ~np.isnan(y)
    alone = run(y[seen], fitted[seen], variance[seen], 0.4)
    np.testing.assert_allclose(mean[seen], alone[0])


@settings(max_examples=50)
@given(
    y=st.lists(st.floats(-100, 100, width=32), min_size=2, max_size=20),
    share=st.floats(0, 1),
    noise=st.floats(1e-3, 10),
)
def test_exchange_stays_among_the_values(y, share, noise):
    y = np.array(y, dtype=float)
    fitted = np.sort(y)[::-1].copy()
    mean, spread = run(y, fitted, np.full(len(y), noise**2), share)
    size = 1e-5 * (1.0 + np.abs(y).max())
    assert np.all((mean >= y.min() - size) & (mean <= y.max() + size))
    assert np.all(spread >= 0)
    assert np.all(np.isfinite(spread))
