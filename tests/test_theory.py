"""Recoverability agrees with what is measured, and Theorem 1 with simulation, where it is right."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from unpermute.datasets import make_permuted_subspaces
from unpermute.recover import recover_vectors
from unpermute.theory import (
    concentration_constant,
    elimination_probability,
    entry_moments,
    eta_variance_approximation,
    eta_variance_lower_bound,
    expected_eta_variance,
    expected_xi_variance,
    log_determinant_moment,
    log_multivariate_gamma,
    maximum_location,
    maximum_scale,
    power_mean,
    projection_moment,
    recoverability,
    residual_variances,
    simulate_elimination,
    trace_moments,
    xi_variance_concentration,
    xi_variance_upper_bound,
)
from unpermute.theory._haar_moments import _coefficients, _kind, _pairings
from unpermute.theory._simulation import draw_permutations

quick = settings(max_examples=60)
problems = st.integers(4, 300).flatmap(
    lambda n_features: st.tuples(
        st.just(n_features),
        st.integers(1, n_features - 2),
        st.floats(0, 1),
        st.floats(-10, 80),
    )
)


@quick
@given(problems)
def test_it_is_a_probability(problem):
    probability = recoverability(*problem)
    assert type(probability) is float
    assert 0 <= probability <= 1


@quick
@given(problems, st.integers(1, 50), st.floats(0, 1), st.floats(0, 30))
def test_it_falls_with_rank_ratio_and_noise(problem, more, share, decibels):
    n_features, rank, ratio, snr_db = problem
    here = recoverability(*problem) - 1e-12
    harder = min(rank + more, n_features - 1)
    assert recoverability(n_features, harder, ratio, snr_db) - 2e-12 <= here
    assert recoverability(n_features, rank, ratio + share * (1 - ratio), snr_db) - 2e-12 <= here
    assert recoverability(n_features, rank, ratio, snr_db + decibels) >= here


@quick
@given(st.integers(4, 300), st.integers(1, 100), st.floats(0.05, 1), st.floats(0, 0.5))
def test_more_entries_help_where_the_noise_is_low(n_features, more, share, ratio):
    rank = max(1, int(share * (n_features - 1)))
    here = recoverability(n_features, rank, ratio, 40.0)
    assert recoverability(n_features + more, rank, ratio, 40.0) >= here - 1e-3


def test_without_noise_or_shuffling_all_is_recovered():
    assert recoverability(50, 5, 0.0) == pytest.approx(1, abs=1e-3)
    assert recoverability(50, 5, 0.2, np.inf) == pytest.approx(1, abs=5e-3)
    assert recoverability(50, 40, 0.9) < 1e-3
    assert recoverability(50, 5, 0.2, 0.0) < 1e-3


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ((1, 1, 0.5), "n_features"),
        ((50, 50, 0.5), "rank"),
        ((50, 0, 0.5), "rank"),
        ((50, 2.5, 0.5), "rank"),
        ((50, 5, 1.1), "shuffled_ratio"),
        ((50, 5, np.nan), "shuffled_ratio"),
        ((50, 5, 0.5, "loud"), "snr_db"),
    ],
)
def test_messages_name_the_parameter(problem, message):
    with pytest.raises(ValueError, match=message):
        recoverability(*problem)


@pytest.mark.parametrize(
    "cell",
    [
        (50, 5, 0.4, 40.0),
        (50, 4, 1.0, 40.0),
        (50, 15, 0.4, 40.0),
        (30, 6, 0.3, 40.0),
        (100, 10, 0.5, 30.0),
        (50, 15, 0.2, 20.0),
        (50, 30, 0.9, 40.0),
    ],
)
def test_it_agrees_with_measured_success(cell):
    n_features, rank, ratio, snr_db = cell
    data = make_permuted_subspaces(
        1, 12, n_features, rank, outlier_ratio=1.0, shuffled_ratio=ratio, snr_db=snr_db,
        random_state=7,
    )  # fmt: skip
    result = recover_vectors(data.X, data.bases[0], max_starts=2000, random_state=7)
    errors = np.linalg.norm(result.fitted - data.X_clean, axis=1)
    assert np.mean(errors < 0.05) == pytest.approx(recoverability(*cell), abs=0.25)


SETTINGS = [(50, 5, 20), (50, 10, 20), (100, 10, 40), (100, 10, 70), (100, 25, 40)]
PROJECTIONS = [(3, 1), (3, 2), (6, 2), (7, 6), (9, 9)]
subspaces = st.integers(3, 300).flatmap(
    lambda M: st.tuples(st.just(M), st.integers(1, M - 1), st.integers(3, M))
)


@pytest.fixture(scope="module", params=[*SETTINGS, (6, 1, 3), (10, 9, 5)], ids=str)
def simulated(request):
    M, _, _ = request.param
    return request.param, simulate_elimination(*request.param, n_draws=100_000 // M, random_state=0)


def assert_mean(sample, value):
    """The mean of a sample is within four standard errors, none of which is large."""
    error = np.std(sample) / np.sqrt(len(sample))
    assert error < 0.02 * np.mean(sample)
    assert value == pytest.approx(np.mean(sample), abs=4 * error)


def test_exact_variances_are_those_of_simulation(simulated):
    (M, r, m), simulation = simulated
    in_place, shuffled = np.split(simulation.variances, [M - m], axis=1)
    assert_mean(in_place.mean(axis=1), expected_xi_variance(M, r, m))
    assert_mean(shuffled.mean(axis=1), expected_eta_variance(M, r, m))


def test_moments_of_the_matrix_beta_are_those_of_simulation(simulated):
    (M, r, m), simulation = simulated
    eigenvalues = simulation.eigenvalues
    mean, variance = trace_moments(M, r, m)
    trace = eigenvalues.sum(axis=1)
    assert mean == pytest.approx(trace.mean(), rel=0.02)
    assert variance == pytest.approx(trace.var(), rel=0.15)
    for order in (1, 2, 3):
        assert_mean((eigenvalues**order).sum(axis=1) / m, power_mean(order, M, r, m))
    if r <= m:
        moment = np.exp(log_determinant_moment(3 / r, M, m, r))
        assert_mean(eigenvalues.prod(axis=1) ** (3 / r), moment)


@pytest.mark.parametrize(("M", "r"), PROJECTIONS)
def test_moments_of_a_projection_obey_its_identities(M, r):
    def sum_over(free, entries):
        places = product(range(M), repeat=free)
        return sum(projection_moment(entries(*place), M, r) for place in places)

    mean = r / M
    # H = H², with the first factor anything: rows have the length of the diagonal.
    assert sum_over(1, lambda j: [(0, j), (j, 0)]) == pytest.approx(mean)
    assert sum_over(1, lambda j: [(0, 1), (1, j), (j, 0)]) == pytest.approx(
        projection_moment([(0, 1), (0, 1)], M, r)
    )
    assert sum_over(2, lambda j, k: [(0, j), (j, k), (k, 0)]) == pytest.approx(mean)
    # The trace is r, whatever it is multiplied by.
    for others in ([(0, 0)], [(0, 1), (0, 1)], [(0, 0), (1, 1)]):
        total = sum_over(1, lambda j, others=others: [(j, j), *others])
        assert total == pytest.approx(r * projection_moment(others, M, r))


@pytest.mark.parametrize(("M", "r"), [case for case in PROJECTIONS if case[1] < case[0]])
def test_the_complement_of_a_projection_is_one(M, r):
    # E (δ − H)³ is E H³ with rank M − r, expanded by hand for a triangle and a diagonal entry.
    triangle = [(0, 1), (1, 2), (2, 0)]
    assert projection_moment(triangle, M, M - r) == pytest.approx(
        -projection_moment(triangle, M, r), abs=1e-15
    )
    first, second, third = (projection_moment([(0, 0)] * k, M, r) for k in (1, 2, 3))
    expected = 1 - 3 * first + 3 * second - third
    assert projection_moment([(0, 0)] * 3, M, M - r) == pytest.approx(expected)


@pytest.mark.parametrize(("M", "r"), PROJECTIONS)
def test_coefficients_solve_the_system_of_all_15_pairings(M, r):
    pairings = [np.array(pairing) for pairing in _pairings(tuple(range(6)))]
    assert len(pairings) == 15

    def n_loops(first, second):
        edges = np.vstack([first, second]).T
        links = coo_array((np.ones(6), edges), shape=(6, 6))
        return connected_components(links, directed=False)[0]

    gram = np.array([[float(M) ** n_loops(p, q) for q in pairings] for p in pairings])
    kinds = [_kind(pairing) for pairing in pairings]
    # A pairing contracts H ⊗ H ⊗ H to a product of traces, one per group of linked factors.
    traces = np.array([float(r) ** len(kind) for kind in kinds])
    coefficients = _coefficients(3, M, r)
    found = gram @ np.array([coefficients[kind] for kind in kinds])
    assert found == pytest.approx(traces)


@pytest.mark.parametrize(("M", "r"), PROJECTIONS)
def test_printed_moments_are_those_of_the_projection(M, r):
    printed = entry_moments(M, r)
    first, second, third = (projection_moment([(0, 0)] * k, M, r) for k in (1, 2, 3))
    assert printed.mean_diagonal == pytest.approx(first)
    assert printed.variance_diagonal == pytest.approx(second - first**2, abs=1e-15)
    beside = projection_moment([(0, 1), (1, 0)], M, r)
    assert printed.variance_off_diagonal == pytest.approx(beside, abs=1e-15)
    together = projection_moment([(0, 0), (1, 1)], M, r)
    assert printed.covariance_diagonal == pytest.approx(together - first**2, abs=1e-15)
    assert printed.third_moment_diagonal == pytest.approx(third)
    centred = third - 3 * first * second + 2 * first**3
    assert printed.third_central_moment_diagonal == pytest.approx(centred, abs=1e-15)


def test_a_full_corner_and_a_full_rank_are_known():
    for order in (1, 2, 3):
        assert power_mean(order, 12, 5, 12) == pytest.approx(5 / 12)
        assert power_mean(order, 12, 12, 7) == pytest.approx(1)
    assert power_mean(3, 12, 5, 1) == pytest.approx(entry_moments(12, 5).third_moment_diagonal)
    assert power_mean(3, 12, 5, 12, version="paper") == pytest.approx(5 / 12)
    assert power_mean(3, 12, 12, 6, version="paper") == pytest.approx(0.25)


@quick
@given(subspaces)
def test_exact_variances_add_up_to_the_residual(setting):
    M, r, m = setting
    # r Σ σ² = tr (I − H) π̃ H π̃ᵀ = r − Σ H_jk H_φ(k)φ(j).
    in_place = M - m
    apart = projection_moment([(0, 0), (1, 1)], M, r)
    together = projection_moment([(0, 1), (0, 1)], M, r)
    total = 1 - (M * apart + in_place * (in_place + 1) * together) / r
    shuffled = m * expected_eta_variance(M, r, m)
    others = in_place * expected_xi_variance(M, r, m) if in_place else 0.0
    assert shuffled + others == pytest.approx(total, rel=1e-9)


def test_a_subspace_that_fills_the_space_leaves_no_residual():
    assert expected_xi_variance(20, 20, 8) == pytest.approx(0, abs=1e-15)
    assert expected_eta_variance(20, 20, 8) == pytest.approx(0, abs=1e-15)


@quick
@given(subspaces.filter(lambda setting: setting[2] < setting[0]))
def test_the_bounds_that_hold(setting):
    assert concentration_constant(*setting) <= concentration_constant(*setting, version="bound")
    bound = eta_variance_lower_bound(*setting, version="corrected")
    assert bound <= expected_eta_variance(*setting) * (1 + 1e-9)


def test_the_bounds_that_do_not():
    assert xi_variance_concentration(50, 5, 20, version="bound") < expected_xi_variance(50, 5, 20)
    assert xi_variance_upper_bound(50, 5, 20) > expected_xi_variance(50, 5, 20)
    assert xi_variance_upper_bound(1000, 100, 100) < expected_xi_variance(1000, 100, 100)
    for version in ("theorem", "summary"):
        bound = eta_variance_lower_bound(50, 5, 20, version=version)
        assert bound > 1.05 * expected_eta_variance(50, 5, 20)


def test_versions_of_the_paper_differ_as_printed():
    approximation = {
        version: eta_variance_approximation(50, 5, 20, version=version)
        for version in ("theorem", "appendix", "independent")
    }
    assert approximation["theorem"] / approximation["independent"] == pytest.approx(80 / 100)
    assert approximation["appendix"] / approximation["independent"] == pytest.approx(30 / 100)
    theorem, summary = (
        eta_variance_lower_bound(50, 5, 20, version=version) for version in ("theorem", "summary")
    )
    assert summary - theorem == pytest.approx(46 * 45 / (50**2 * 49 * 52))
    single = elimination_probability(50, 20, 0.004, 0.02, version="appendix")
    assert elimination_probability(50, 20, 0.004, 0.02) == pytest.approx(2 * single - 1)


def test_probability_under_the_assumptions_is_that_of_normal_variables():
    rng = np.random.default_rng(0)
    in_place = np.abs(rng.normal(scale=0.6, size=(20_000, 12))).max(axis=1)
    shuffled = np.abs(rng.normal(size=(20_000, 8))).max(axis=1)
    probability = elimination_probability(20, 8, 0.36, 1.0, version="assumptions")
    assert probability == pytest.approx(np.mean(in_place < shuffled), abs=0.012)
    assert elimination_probability(20, 10, 1.0, 1.0, version="assumptions") == pytest.approx(0.5)


def test_location_and_scale_of_a_maximum():
    assert maximum_location(2) == pytest.approx(0, abs=1e-15)
    assert maximum_scale(2) == pytest.approx(np.sqrt(np.pi / 2))


def test_residual_variances_are_those_of_residuals():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(12, 3)))[0]
    permutation = np.r_[np.arange(6), np.roll(np.arange(6, 12), 2)]
    vectors = rng.normal(size=(40_000, 3)) @ basis.T / np.sqrt(3)
    observed = vectors[:, permutation]
    residuals = observed - observed @ basis @ basis.T
    variances = residual_variances(basis, permutation)
    assert variances == pytest.approx(residuals.var(axis=0), rel=0.04)
    np.testing.assert_allclose(residual_variances(basis, np.arange(12)), 0, atol=1e-30)


def test_simulation_is_reproducible():
    first = simulate_elimination(10, 2, 5, n_draws=50, random_state=3)
    second = simulate_elimination(10, 2, 5, n_draws=50, random_state=3)
    np.testing.assert_array_equal(first.variances, second.variances)
    assert first.variances.shape == (50, 10)
    assert first.eigenvalues.shape == (50, 2)
    assert first.eliminated_shuffled.dtype == bool


def test_permutations_have_no_fixed_points_and_no_2_cycles():
    rng = np.random.RandomState(0)
    permutations = draw_permutations(600, 5, rng)
    identity = np.arange(5)
    np.testing.assert_array_equal(np.sort(permutations, axis=1), np.tile(identity, (600, 1)))
    assert not (permutations == identity).any()
    assert not (np.take_along_axis(permutations, permutations, axis=1) == identity).any()
    # All 24 cycles through five places, about equally often.
    counts = np.unique(permutations, axis=0, return_counts=True)[1]
    assert len(counts) == 24
    assert counts.min() > 8


def test_nothing_overflows_with_2000_entries():
    setting = (2000, 400, 800)
    assert np.isfinite(log_multivariate_gamma(1000.0, 1999))
    assert 0 < np.exp(log_determinant_moment(3 / 400, 2000, 800, 400)) < 1
    values = [
        expected_xi_variance(*setting),
        expected_eta_variance(*setting),
        xi_variance_upper_bound(*setting),
        xi_variance_concentration(*setting),
        eta_variance_lower_bound(*setting),
        eta_variance_lower_bound(*setting, version="corrected"),
        eta_variance_approximation(*setting),
        power_mean(3, *setting),
    ]
    assert np.all(np.isfinite(values))
    x, y = 0.2, 0.4
    limit = (1 - x) * (2 * (1 - x) - y * (2 - y) * (1 - 2 * x)) / 2000
    assert values[1] == pytest.approx(limit, rel=0.01)
    assert values[0] == pytest.approx(y * (1 - x) * (2 * x + y * (1 - 2 * x)) / 2000, rel=0.01)
    for version in ("theorem", "appendix", "assumptions"):
        assert 0.9 < elimination_probability(2000, 800, *values[:2], version=version) <= 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: expected_xi_variance(50, 5, 2), "n_shuffled"),
        (lambda: expected_xi_variance(50, 5, 50), "n_shuffled=50 must be at most 49.*1 in place"),
        (lambda: expected_eta_variance(50, 51, 20), "rank=51 must be at most 50"),
        (lambda: expected_eta_variance(50.5, 5, 20), "n_features"),
        (lambda: xi_variance_upper_bound(50, 50, 20), "rank=50 must be"),
        (lambda: eta_variance_lower_bound(50, 5, 20, version="right"), "version"),
        (lambda: eta_variance_approximation(50, 5, 51), "n_shuffled=51"),
        (lambda: elimination_probability(50, 49, 0.1, 0.2), "n_shuffled=49 must be at most 48"),
        (lambda: elimination_probability(50, 20, 0.0, 0.2), "xi_variance"),
        (lambda: maximum_location(1), "count"),
        (lambda: projection_moment([(0, 1)] * 4, 9, 3), "one, two or three pairs"),
        (lambda: projection_moment([(0.5, 1)], 9, 3), "whole numbers"),
        (lambda: projection_moment([(0, 9)], 9, 3), "between 0 and 8"),
        (lambda: projection_moment([(0, 1)] * 3, 2, 1), "n_features=2 must be at least 3"),
        (lambda: power_mean(4, 9, 3, 3), "order"),
        (lambda: power_mean(3, 2, 1, 1), "at least 3"),
        (lambda: power_mean(2, 9, 3, 10), "dimension=10 must be at most 9"),
        (lambda: log_multivariate_gamma(1.0, 3), "x=1.0 must be above 1.0"),
        (lambda: log_determinant_moment(1, 9, 3, 4), "dimension=4 must be at most 3"),
        (lambda: residual_variances(np.eye(3, 1), [0, 0, 1]), "permutation"),
        (lambda: residual_variances(np.ones((3, 1)), [1, 2, 0]), "orthonormal"),
        (lambda: simulate_elimination(9, 9, 3), "rank=9"),
        (lambda: simulate_elimination(9, 2, 3, n_draws=0), "n_draws"),
    ],
)
def test_messages_of_the_theorem_name_the_parameter(call, message):
    with pytest.raises(ValueError, match=message):
        call()
