"""The recoverers: optimality against independent solvers, exact recovery, properties, messages."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning

from unpermute.datasets import make_permuted_subspaces
from unpermute.recover import _l1, _pl
from unpermute.recover._aiem import aiem, alternate, order_by_block
from unpermute.recover._branch_and_bound import _contract, branch_and_bound
from unpermute.recover._l1 import l1, l1_coefficients
from unpermute.recover._pl import pl
from unpermute.recover._problem import RecoveryProblem

PARTIAL, FULL = [l1, pl], [aiem, branch_and_bound]


def make(seed, n_vectors=20, n_features=30, rank=3, *, ratio=0.3, blocks=None, **options):
    """Return a problem of shuffled vectors, and the vectors in order."""
    data = make_permuted_subspaces(
        1, n_vectors, n_features, rank, shuffled_ratio=ratio, outlier_ratio=1.0,
        random_state=seed, **options,
    )  # fmt: skip
    if blocks is None:
        blocks = np.zeros(n_features, dtype=np.int64)
    return RecoveryProblem(data.X, data.bases[0], np.zeros(len(blocks)), blocks), data.X_clean


def shuffle_in_blocks(problem, X_clean, rng):
    Y = X_clean.copy()
    for y, block in itertools.product(Y, np.unique(problem.blocks)):
        members = np.flatnonzero(problem.blocks == block)
        y[members] = y[rng.permutation(members)]
    return replace(problem, Y=Y)


def errors(problem, solution, X_clean):
    error = np.linalg.norm(solution.coefficients @ problem.basis.T - X_clean, axis=1)
    return error / np.linalg.norm(X_clean, axis=1)


# --- least absolute deviations


def least_absolute_cost(y, basis):
    """Optimal cost by linear programming: y = U x + p − q, minimise Σ(p + q)."""
    n_features, rank = basis.shape
    return linprog(
        np.r_[np.zeros(rank), np.ones(2 * n_features)],
        A_eq=np.hstack([basis, np.eye(n_features), -np.eye(n_features)]),
        b_eq=y,
        bounds=[(None, None)] * rank + [(0, None)] * (2 * n_features),
        method="highs",
    ).fun


@pytest.mark.parametrize(("n_features", "rank"), [(30, 1), (50, 5), (50, 25), (400, 10)])
def test_l1_is_optimal(n_features, rank):
    problem, _ = make(0, 4, n_features, rank, ratio=0.5)
    solution = l1(problem)
    expected = [least_absolute_cost(y, problem.basis) for y in problem.Y]
    residual = problem.Y - solution.coefficients @ problem.basis.T
    np.testing.assert_allclose(np.abs(residual).sum(axis=1), expected, rtol=1e-9)
    np.testing.assert_allclose(solution.info["cost"], expected, rtol=1e-9)
    assert solution.info["gap"].max() <= 1e-6
    assert solution.converged.all()


@pytest.mark.parametrize("kind", ["integers", "equal rows", "zero column", "fits exactly", "large"])
def test_l1_stands_degenerate_data(kind, rng):
    for _ in range(10):
        basis, y = rng.normal(size=(18, 3)), rng.normal(size=18)
        if kind == "integers":
            basis, y = np.round(basis), np.round(2 * y)
        elif kind == "equal rows":
            basis = basis[rng.integers(0, 2, size=18)]
        elif kind == "zero column":
            basis[:, 1] = 0.0
        elif kind == "fits exactly":
            y = basis @ np.ones(3)
        else:
            y[:3] *= 1e9
        x, gap, cost = l1_coefficients(y[None], basis)
        expected = least_absolute_cost(y, basis)
        assert gap[0] <= 1e-6
        np.testing.assert_allclose(cost[0], expected, rtol=1e-6, atol=1e-10)
        np.testing.assert_allclose(np.abs(y - basis @ x[0]).sum(), expected, rtol=1e-6, atol=1e-10)


def test_l1_is_exact_without_noise(seed):
    problem, X_clean = make(seed, 30, 60, 3, snr_db=None)
    assert errors(problem, l1(problem), X_clean).max() < 1e-10


def test_l1_says_which_vectors_it_could_not_solve(monkeypatch):
    problem, _ = make(0, 3)
    unsolved = np.zeros((3, 3)), np.array([0.0, 0.5, 1e-3]), np.ones(3)
    monkeypatch.setattr(_l1, "l1_coefficients", lambda *_, **__: unsolved)
    with pytest.warns(ConvergenceWarning, match="2 of 3 vectors stopped at 5.00e-01, above"):
        solution = l1(problem)
    np.testing.assert_array_equal(solution.converged, [True, False, False])


# --- pseudo-likelihood


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("seed", "known"),
    [(0, {}), (1, {"noise_scale": 0.002}), (2, {"shuffled_ratio": 0.5})],
    ids=["free", "noise", "ratio"],
)
def test_pl_never_lowers_the_likelihood(seed, known, monkeypatch):
    problem, _ = make(seed, 10, 40, 4, ratio=0.5)
    problem = replace(problem, **known)
    history = []
    for max_iter in range(1, 25):
        monkeypatch.setattr(_pl, "_MAX_ITER", max_iter)
        history.append(pl(problem).info["log_likelihood"])
    assert np.diff(history, axis=0).min() > -1e-9 * np.abs(history).max()
    assert np.ptp(history, axis=0).max() > 0


def test_pl_likelihood_is_that_of_the_mixture(seed):
    problem, _ = make(seed)
    solution = pl(problem)
    info, Y = solution.info, problem.Y
    sigma, rho = info["noise_scale"][:, None], info["shuffled_ratio"][:, None]
    inside = (1 - rho) * norm.pdf(Y, solution.coefficients @ problem.basis.T, sigma)
    outside = rho * norm.pdf(Y, Y.mean(axis=1, keepdims=True), Y.std(axis=1, keepdims=True))
    np.testing.assert_allclose(np.log(inside + outside).sum(axis=1), info["log_likelihood"])
    np.testing.assert_allclose(info["weights"], inside / (inside + outside), atol=1e-9)


def test_pl_finds_noise_share_and_places(seed):
    problem, X_clean = make(seed, 40, 60, 3, ratio=0.4)
    solution = pl(problem)
    assert np.mean(errors(problem, solution, X_clean) < 0.05) > 0.95
    noise = 0.01 / np.sqrt(60)
    assert abs(np.median(solution.info["noise_scale"]) / noise - 1) < 0.15
    assert abs(np.median(solution.info["shuffled_ratio"]) - 0.4) < 0.05
    in_place = np.abs(problem.Y - X_clean) < 4 * noise
    assert np.mean((solution.info["weights"] > 0.5) == in_place) > 0.97


def test_pl_is_more_accurate_than_its_start(seed):
    problem, X_clean = make(seed, 40, 50, 5, ratio=0.4)
    start, end = (np.median(errors(problem, f(problem), X_clean)) for f in (l1, pl))
    assert end < 0.7 * start


def test_pl_gains_from_a_known_noise(seed):
    problem, X_clean = make(seed, 60, 50, 5, ratio=0.6)
    known = replace(problem, noise_scale=0.01 / np.sqrt(50))
    success = [np.mean(errors(p, pl(p), X_clean) < 0.05) for p in (problem, known)]
    assert success[1] >= success[0] - 0.1
    np.testing.assert_allclose(pl(known).info["noise_scale"], known.noise_scale)


def test_pl_stays_finite_without_noise(seed):
    problem, X_clean = make(seed, snr_db=None)
    solution = pl(problem)
    assert np.isfinite(solution.info["log_likelihood"]).all()
    assert solution.info["noise_scale"].min() > 0
    assert np.median(errors(problem, solution, X_clean)) < 1e-6


def test_pl_trusts_entries_that_cannot_move(seed):
    problem, _ = make(seed, blocks=np.r_[np.zeros(25, dtype=np.int64), np.arange(1, 6)])
    weights = pl(problem).info["weights"]
    np.testing.assert_array_equal(weights[:, 25:], 1.0)
    assert weights[:, :25].min() < 0.5


def test_pl_says_when_it_stopped_early(monkeypatch):
    monkeypatch.setattr(_pl, "_MAX_ITER", 1)
    with pytest.warns(ConvergenceWarning, match=r"of 20 vectors stopped at .* give noise_scale"):
        assert not pl(make(0)[0]).converged.all()


# --- fully shuffled vectors


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_aiem_is_exact_without_noise(rank, seed):
    problem, X_clean = make(seed, 20, 30, rank, ratio=1.0, snr_db=None)
    solution = aiem(problem)
    exact = errors(problem, solution, X_clean) < 1e-8
    assert exact.mean() >= 0.95
    assert solution.converged.all()
    assert solution.info["cost"][exact].max() < 1e-8


def test_aiem_beats_as_many_random_starts(seed, rng):
    problem, X_clean = make(seed, 40, 50, 3, ratio=1.0)
    solution = aiem(problem)
    rows, starts, values = order_by_block(problem.basis, problem.blocks, problem.Y)
    found = []
    for y, x_clean, n_starts in zip(values, X_clean, solution.info["n_roots"], strict=True):
        tries = rng.normal(size=(n_starts, 3))
        tries /= np.linalg.norm(tries, axis=1, keepdims=True)
        costs = [alternate(rows, starts, y, x)[0] for x in tries]
        best = problem.basis @ tries[np.argmin(costs)]
        found.append(np.linalg.norm(best - x_clean) < 0.05)
    assert np.mean(errors(problem, solution, X_clean) < 0.05) > 0.95
    assert np.mean(found) < 0.8


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_aiem_does_without_the_sum(rank, rng):
    basis = rng.normal(size=(30, rank))
    basis = np.linalg.qr(basis - basis.mean(axis=0))[0]
    X_clean = rng.normal(size=(15, rank)) @ basis.T
    problem = RecoveryProblem(X_clean, basis, np.zeros(30), np.zeros(30, dtype=np.int64))
    problem = shuffle_in_blocks(problem, X_clean, rng)
    assert np.mean(errors(problem, aiem(problem), X_clean) < 1e-8) > 0.9


def test_aiem_uses_nearly_real_roots_first(seed):
    problem, X_clean = make(seed, 20, 30, 3, ratio=1.0, snr_db=None)
    solution = aiem(replace(problem, max_starts=4))
    assert solution.info["n_roots"].max() == 4
    assert np.mean(errors(problem, solution, X_clean) < 1e-8) > 0.6


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_branch_and_bound_closes_the_gap(rank, seed):
    problem, X_clean = make(seed, 6, 20 if rank == 4 else 50, rank, ratio=1.0)
    solution = branch_and_bound(problem)
    assert solution.converged.all()
    assert solution.info["gap"].max() <= 1e-3
    matching = np.sort(problem.Y) - np.sort(solution.coefficients @ problem.basis.T)
    np.testing.assert_allclose(np.sqrt(np.mean(matching**2, axis=1)), solution.info["cost"])
    assert errors(problem, solution, X_clean).max() < 0.05
    assert np.all(solution.info["cost"] <= aiem(problem).info["cost"] * (1 + 1e-3))


@pytest.mark.parametrize("blocks", [[0] * 7, [0, 1, 0, 1, 2, 0, 1]], ids=["free", "blocks"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_branch_and_bound_finds_the_best_of_all_permutations(rank, blocks, rng):
    basis, Y = np.linalg.qr(rng.normal(size=(7, rank)))[0], rng.normal(size=(5, 7))
    blocks = np.array(blocks)
    solution = branch_and_bound(RecoveryProblem(Y, basis, np.zeros(len(blocks)), blocks))
    every = np.array(list(itertools.permutations(range(7))))
    every = every[(blocks[every] == blocks).all(axis=1)]
    for y, cost, gap in zip(Y, solution.info["cost"], solution.info["gap"], strict=True):
        moved = y[every]
        residual = moved - moved @ basis @ basis.T
        best = np.sum(residual**2, axis=1).min()
        assert best * (1 - 1e-9) <= 7 * cost**2 <= best * (1 + 2e-3)
        # The bound that the gap stands for must not exceed the best cost.
        assert 7 * cost**2 * (1 - gap) <= best * (1 + 1e-9)


def test_branch_and_bound_discards_no_better_answer(seed, rng):
    basis = np.linalg.qr(rng.normal(size=(8, 3)))[0]
    values = np.sort(rng.normal(size=8))
    values /= np.linalg.norm(values)
    normal = basis.sum(axis=0)
    slack = np.sqrt(8 - normal @ normal)
    conditions = normal[None], np.array([values.sum()]), np.array([slack])
    n_left = 0
    for _ in range(2000):
        x = basis.T @ rng.permutation(values)
        cost = (1 - x @ x) * (1 + 1e-6)
        half = rng.uniform(0, 1, size=3)
        centre = x + half * rng.uniform(-1, 1, size=3)
        volume = np.prod(half)
        assert _contract(centre, half, 1.0, cost, conditions)
        assert np.all(np.abs(x - centre) <= half + 1e-9)
        n_left += np.prod(half) < 0.5 * volume
    assert n_left > 200


def test_branch_and_bound_stops_at_exact_fits(seed):
    problem, X_clean = make(seed, 10, 40, 3, ratio=1.0, snr_db=None)
    solution = branch_and_bound(problem)
    assert errors(problem, solution, X_clean).max() < 1e-9
    np.testing.assert_array_equal(solution.info["gap"], 0.0)


def test_branch_and_bound_stops_at_the_noise(seed):
    problem, X_clean = make(seed, 10, 50, 4, ratio=1.0)
    solution = branch_and_bound(replace(problem, noise_scale=0.011 / np.sqrt(50)))
    assert errors(problem, solution, X_clean).max() < 0.05
    assert solution.converged.all()
    assert solution.info["gap"].max() > 1e-3
    assert np.all(solution.info["n_boxes"] <= branch_and_bound(problem).info["n_boxes"])


def test_branch_and_bound_reports_its_gap_when_the_budget_ends():
    problem, _ = make(0, 4, 50, 4, ratio=1.0)
    with pytest.warns(ConvergenceWarning, match=r"4 of 4 vectors stopped at .* raise max_starts"):
        solution = branch_and_bound(replace(problem, max_starts=50))
    assert not solution.converged.any()
    assert solution.info["n_boxes"].max() <= 50
    assert np.all((solution.info["gap"] > 1e-3) & (solution.info["gap"] <= 1))


@pytest.mark.parametrize("solve", FULL)
def test_moves_stay_inside_their_blocks(solve, rng):
    problem, X_clean = make(0, 10, 24, 3, blocks=np.arange(24) % 3, snr_db=None)
    problem = shuffle_in_blocks(problem, X_clean, rng)
    assert np.mean(errors(problem, solve(problem), X_clean) < 1e-8) > 0.85


# --- properties of all of them


def case(solve, seed=0):
    return make(seed, 9, 25, 3, ratio=0.3 if solve in PARTIAL else 1.0)[0]


@pytest.mark.parametrize("solve", PARTIAL + FULL)
def test_a_vector_is_solved_alone(solve, seed, rng):
    problem = case(solve, seed)
    expected = solve(problem)
    order = rng.permutation(len(problem.Y))[:6]
    solution = solve(replace(problem, Y=problem.Y[order]))
    np.testing.assert_array_equal(solution.coefficients, expected.coefficients[order])
    np.testing.assert_array_equal(solution.converged, expected.converged[order])
    for name, value in solution.info.items():
        np.testing.assert_array_equal(value, expected.info[name][order])


@pytest.mark.parametrize("solve", PARTIAL + FULL)
@pytest.mark.parametrize("factor", [1e-6, 3.7])
def test_scaling_the_vectors_scales_the_solution(solve, factor, seed):
    problem = case(solve, seed)
    scaled = solve(replace(problem, Y=factor * problem.Y)).coefficients
    expected = factor * solve(problem).coefficients
    np.testing.assert_allclose(scaled, expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("solve", PARTIAL + FULL)
def test_threads_do_not_change_anything(solve):
    problem = make(0, 130, 15, 2, ratio=0.3 if solve in PARTIAL else 1.0)[0]
    one, two = (solve(replace(problem, n_jobs=n_jobs)) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.coefficients, two.coefficients)
    for name, value in one.info.items():
        np.testing.assert_array_equal(value, two.info[name])


@pytest.mark.parametrize("solve", PARTIAL + FULL)
def test_input_is_left_alone_and_zeros_are_solved(solve):
    problem = case(solve)
    problem.Y[0] = 0.0
    before = problem.Y.copy()
    solution = solve(problem)
    np.testing.assert_array_equal(problem.Y, before)
    np.testing.assert_allclose(solution.coefficients[0], 0.0, atol=1e-12)
    assert solution.converged.all()


@pytest.mark.parametrize("solve", PARTIAL)
def test_missing_entries_are_left_out(solve, seed):
    problem, X_clean = make(seed, 30, 60, 3, ratio=0.2, missing_ratio=0.2)
    solution = solve(problem)
    assert np.median(errors(problem, solution, X_clean)) < 0.02
    # Leaving an entry out is the same as never having had it.
    keep = ~np.isnan(problem.Y[0])
    alone = RecoveryProblem(
        problem.Y[:1, keep], problem.basis[keep], problem.offset[keep], problem.blocks[keep]
    )
    np.testing.assert_allclose(solve(alone).coefficients[0], solution.coefficients[0], atol=1e-9)


@pytest.mark.parametrize("solve", PARTIAL)
def test_too_few_entries_are_reported_as_undetermined(solve):
    problem = case(solve)
    problem.Y[0] = np.nan
    problem.Y[1, 2:] = np.nan
    solution = solve(problem)
    np.testing.assert_array_equal(solution.converged, [False, False] + [True] * 7)
    assert np.isfinite(solution.coefficients).all()


@pytest.mark.parametrize(
    ("solve", "rank", "message"),
    [
        (aiem, 5, "method='aiem' solves polynomial equations in at most 4 unknowns.*rank 5"),
        (branch_and_bound, 7, "method='branch-and-bound' searches boxes of at most 6.*rank 7"),
    ],
)
def test_large_ranks_are_refused(solve, rank, message):
    with pytest.raises(ValueError, match=message):
        solve(make(0, 2, 20, rank)[0])


@pytest.mark.parametrize("solve", FULL)
def test_missing_entries_are_refused_where_sorting_needs_them(solve):
    problem = case(solve)
    problem.Y[4, 2] = np.nan
    message = r"needs complete vectors, but 1 of 9 .*the first is vector 4.*method='search'"
    with pytest.raises(ValueError, match=message):
        solve(problem)
