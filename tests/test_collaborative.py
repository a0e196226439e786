"""Representation of damaged vectors by all clean ones together."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from unpermute.numerics.collaborative import represent_together
from unpermute.pmsdr._contrast import _classify_by_members


def problem(rng, n_vectors=5, n_clean=6, n_features=30):
    clean = rng.normal(size=(n_clean, n_features))
    Y = rng.normal(size=(n_vectors, n_clean)) @ clean
    Y[:, :8] = rng.permuted(Y[:, :8], axis=1)
    return Y, clean


def cost(Y, clean, ridge, X):
    return np.abs(Y - X @ clean).sum(axis=1) + 0.5 * ridge * np.sum(X**2, axis=1)


def test_cost_is_the_least_up_to_the_gap(rng):
    Y, clean = problem(rng)
    result = represent_together(Y, clean, ridge=2.0, tol=1e-6, max_iter=5000)
    assert result.converged.all()
    assert (result.optimality <= 1e-6).all()
    reached = cost(Y, clean, 2.0, result.solution)
    for j, y in enumerate(Y):
        # A smooth absolute value, whose cost is above the least by at most 1e-6 per entry.
        smooth = minimize(
            lambda x, y=y: np.sqrt((y - x @ clean) ** 2 + 1e-12).sum() + x @ x,
            result.solution[j] + 0.1 * rng.normal(size=len(clean)),
            method="BFGS",
            options={"maxiter": 2000},
        )
        assert abs(reached[j] - cost(y[None], clean, 2.0, smooth.x[None])[0]) < 1e-3 * reached[j]
        assert reached[j] <= smooth.fun * (1 + 1e-5)


def test_vectors_do_not_depend_on_their_company(rng):
    Y, clean = problem(rng, n_vectors=9)
    together = represent_together(Y, clean, ridge=1.0).solution
    alone = np.vstack([represent_together(y[None], clean, ridge=1.0).solution for y in Y])
    np.testing.assert_allclose(together, alone, atol=1e-10)


def test_zero_stays_zero(rng):
    result = represent_together(np.zeros((2, 20)), rng.normal(size=(4, 20)), ridge=1.0)
    assert result.converged.all()
    np.testing.assert_array_equal(result.solution, 0.0)


def test_too_few_iterations_are_reported_with_numbers(rng):
    Y, clean = problem(rng)
    with pytest.warns(ConvergenceWarning, match=r"stopped at .* above its tolerance 1e-12"):
        result = represent_together(Y, clean, ridge=1.0, tol=1e-12, max_iter=10)
    assert not result.converged.all()


@pytest.mark.parametrize("seed", range(3))
def test_what_groups_share_does_not_confuse_them(seed):
    """Six directions common to all groups, three of their own, a third of the entries moved."""
    rng = np.random.default_rng(seed)
    light = rng.normal(size=(6, 300))
    shapes = [rng.normal(size=(3, 300)) for _ in range(4)]

    def draw(k, n):
        X = rng.normal(size=(n, 6)) @ light + rng.normal(size=(n, 3)) @ shapes[k]
        return X / X.std(axis=1, keepdims=True)

    members = [draw(k, 20) for k in range(4)]
    labels = np.repeat(np.arange(4), 10)
    Y = np.vstack([draw(k, 10) for k in range(4)])
    Y[:, :100] = rng.permuted(Y[:, :100], axis=1)
    found = _classify_by_members(Y, members)
    assert np.mean(found == labels) > 0.9
