"""The model of clean vectors: its likelihoods, trials, decisions, and that it does no harm."""

import functools
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, gammaln
from sklearn.datasets import load_digits, load_iris

from unpermute import PMSDR
from unpermute.datasets import make_permuted_subspaces
from unpermute.metrics import recovery_error
from unpermute.pmsdr._decide import Gains
from unpermute.pmsdr._exchange import exchange, log_arrangements
from unpermute.pmsdr._explain import in_place, leave_one_out, posterior, value_density
from unpermute.pmsdr._judge import FULL, Membership, Mixture, judge
from unpermute.pmsdr._mixture import fit_mixture
from unpermute.pmsdr._model import fit_component
from unpermute.pmsdr._natural import Naturalness, natural_shares
from unpermute.pmsdr._profile import Profiles
from unpermute.pmsdr._ranks import Ranks, Reference
from unpermute.pmsdr._select import Selector
from unpermute.pmsdr._smooth import Neighbours, Smoothness
from unpermute.pmsdr._stages import Given
from unpermute.pmsdr._success import Success, _folds_of_vectors
from unpermute.pmsdr._trials import (
    SHARES,
    Pattern,
    _pattern_of,
    run_trials,
    scattered,
    share_weights,
)
from unpermute.pmsdr._unseen import judge_unseen
from unpermute.stream._work import fingerprint


def low_rank(seed, n=120, n_features=30, rank=4, noise=0.05):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, n_features))
    return X + noise * rng.normal(size=X.shape)


def one_component(X):
    component = fit_component(X)
    mixture = Mixture([component], np.zeros(1))
    return mixture, Membership.of(mixture, np.zeros(len(X), dtype=np.int64))


def posterior_mean(Z, weights, V, precision, steps):
    scores, fitted = np.zeros((len(Z), len(V)), np.float32), np.zeros_like(Z)
    posterior(Z, weights, V, precision, scores, fitted, steps, weights @ (V * V).T)
    return scores, fitted


def test_posterior_is_that_of_a_dense_solve(rng):
    Z = rng.normal(size=(7, 12)).astype(np.float32)
    V = np.linalg.qr(rng.normal(size=(12, 3)))[0].T.astype(np.float32, order="C")
    weights = rng.uniform(0.1, 2.0, size=Z.shape).astype(np.float32)
    precision = np.array([0.5, 1.0, 2.0], np.float32)
    scores, fitted = posterior_mean(Z, weights, V, precision, steps=3)
    for j, z in enumerate(Z):
        system = np.diag(precision) + V @ np.diag(weights[j]) @ V.T
        exact = np.linalg.solve(system, V @ (weights[j] * z))
        np.testing.assert_allclose(scores[j], exact, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(fitted[j], exact @ V, rtol=1e-4, atol=1e-5)


def test_entry_is_predicted_from_the_others(rng):
    """With one direction the leverage formula is exact."""
    z, v = rng.normal(size=(2, 8)).astype(np.float32)
    v /= np.linalg.norm(v)
    weights, precision, noise = np.full((1, 8), 2.0, np.float32), np.float32([0.3]), 0.5
    _, fitted = posterior_mean(z[None], weights, v[None], precision, steps=1)
    ratio, spread = np.empty((2, 1, 8), np.float32)
    leave_one_out(
        z[None], fitted, weights, v[None] ** 2, precision, weights @ (v[None] ** 2).T,
        np.float32([noise]), np.ones(8, np.float32), ratio, spread,
    )  # fmt: skip
    for i in range(8):
        rest = np.arange(8) != i
        information = precision[0] + 2.0 * np.sum(v[rest] ** 2)
        score = 2.0 * np.sum(v[rest] * z[rest]) / information
        assert spread[0, i] == pytest.approx(noise + v[i] ** 2 / information, rel=1e-5)
        expected = (z[i] - score * v[i]) ** 2 / spread[0, i]
        assert ratio[0, i] == pytest.approx(expected, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.3])
def test_rank_and_noise_are_measured_on_held_out_vectors(seed, noise):
    component = fit_component(low_rank(seed, noise=noise))
    assert component.rank == 4
    # The scale of t with 4 degrees of freedom is 0.83 of the standard deviation of normal noise.
    assert np.sqrt(component.noise) == pytest.approx(0.83 * noise, rel=0.15, abs=0.01)


def test_held_out_noise_is_no_smaller_for_members(seed):
    """Vectors are judged by folds that they did not shape: members look like new ones."""
    X = low_rank(seed, n=240, rank=10, noise=0.2)
    mixture, membership = one_component(X[:60])
    component = mixture.components[0]
    members = judge(X[:60], mixture, membership, FULL).noise
    others = in_place(X[60:], component, np.full(180, -1)).noise
    assert np.median(members) == pytest.approx(np.median(others), rel=0.15)


def test_no_vectors_are_judged_as_well(seed):
    component = fit_component(low_rank(seed))
    assert in_place(low_rank(seed)[:0], component, np.full(0, -1)).noise.shape == (0,)


def test_copies_are_held_out_together(rng):
    X = rng.normal(size=(40, 8))
    X = np.vstack([X, X[:30], X[:10]])
    folds = fit_component(X).folds
    np.testing.assert_array_equal(folds[40:70], folds[:30])
    np.testing.assert_array_equal(folds[70:], folds[:10])
    assert len(np.unique(folds)) >= 5


def test_missing_entries_are_hidden_ones(seed):
    """What is missing counts for nothing, whatever it was."""
    X = low_rank(seed)
    component = fit_component(X)
    Y = X[:5].copy()
    Y[:, 3] = np.nan
    hidden = in_place(Y, component, np.full(len(Y), -1)).likelihood
    whole = in_place(X[:5], component, np.full(5, -1)).likelihood
    assert np.abs(whole - hidden).max() < 5.0  # one entry more
    Y[:, 3] = X[:5, 3] + 3.0
    assert np.all(in_place(Y, component, np.full(len(Y), -1)).likelihood < hidden)


def test_density_of_values_is_one_in_all(rng):
    y = rng.normal(size=(1, 4000))
    grid = np.linspace(-3.0, 3.0, 4000)[None]
    density = value_density(np.hstack([y, grid]))[0, :4000] * 0.375  # t at 0 has 3/8
    expected = np.exp(-0.5 * y[0] ** 2) / np.sqrt(2 * np.pi)
    middle = np.abs(y[0]) < 1.0
    # Half of the values are normal, half uniform on (−3, 3).
    np.testing.assert_allclose(density[middle], (expected[middle] + 1 / 6) / 2, rtol=0.15)


def test_a_prediction_that_is_far_off_gets_a_value_too():
    """Else the value that is left over stays where it is, and sorting shifts all others."""
    truth = np.array([[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]])
    Y = truth[:, [0, 1, 4, 2, 3, 5]]
    fitted = (truth + np.eye(6)[3] * 0.3).astype(np.float32)  # 30 deviations off
    variance = np.full(Y.shape, 1e-4, dtype=np.float32)
    mean, spread = np.empty((2, *Y.shape))
    exchange(Y, fitted, variance, np.array([0.5]), mean, spread)
    np.testing.assert_allclose(mean, truth, atol=0.05)


def test_ties_are_counted_once():
    """Of binary values half would do as well in any place."""
    Y = np.array([[0.0, 1.0, 0.0, 1.0, 0.0, 0.0]])
    fitted = np.array([[1.0, 0.0, 1.0, 0.0, 0.0, 0.0]], dtype=np.float32)
    variance = np.full(Y.shape, 1e-4, dtype=np.float32)
    order = np.array([[1, 0, 3, 2, 4, 5]])
    sets = gammaln(7) - gammaln(5) - gammaln(3)
    expected = sets + 4 * np.log(2.0)
    assert log_arrangements(Y, fitted, variance, order)[0] == pytest.approx(expected)
    assert log_arrangements(Y, fitted, variance, np.arange(6)[None])[0] == 0.0


@given(
    kind=st.sampled_from(["scattered", "window", "swap", "shift"]),
    share=st.floats(0.0, 1.0),
    first=st.integers(0, 10),
    length=st.integers(1, 10),
    by=st.integers(-5, 5),
    seed=st.integers(0, 100),
)
@settings(max_examples=60)
def test_any_pattern_is_a_permutation(kind, share, first, length, by, seed):
    pattern = Pattern(kind, share, first, first + length, by)
    order = pattern.order(21, np.random.default_rng(seed))
    assert sorted(order) == list(range(21))


@pytest.mark.parametrize(
    "pattern",
    [
        Pattern("swap", 0.1),
        Pattern("shift", 0.3, 5, 15, 1),
        Pattern("shift", 0.3, 5, 15, -2),
        Pattern("window", 0.4, 8, 24),
    ],
)
def test_patterns_are_recognised(rng, pattern):
    order = pattern.order(40, rng)
    found = _pattern_of(order, pattern.share)
    assert found.kind == pattern.kind


def test_scattered_moves_have_no_pattern(rng):
    assert _pattern_of(Pattern("scattered", 0.4).order(40, rng), 0.4) is None


@pytest.mark.parametrize("by", [1, -2])
def test_trials_repeat_the_damage_and_not_its_repair(rng, by):
    """What is known of a damaged vector is the order that repairs it."""
    damage = Pattern("shift", 0.5, 3, 15, by).order(20, rng)
    found = _pattern_of(np.argsort(damage), 0.5)
    np.testing.assert_array_equal(found.order(20, rng), damage)


def test_weakest_among_the_trials_are_not_damaged(rng):
    """Vectors that stand like trials are damaged; a crowd among the weakest is not."""
    tried, like_trials = rng.normal(size=(300, 5)), rng.normal(size=(60, 5))
    weak = np.tile(np.quantile(tried, 0.01, axis=0), (20, 1))
    assert np.mean(Ranks.of(tried.T, like_trials.T).log_odds(like_trials.T) < -3.0) > 0.9
    assert np.all(Ranks.of(tried.T, weak.T).log_odds(weak.T) > 0.0)


def test_a_few_vectors_among_the_weaker_trials_may_all_be_whole():
    """Nobody has to be damaged: six that stand low are odd, six that stand anywhere are damaged."""
    tried = np.linspace(0.0, 30.0, 300)
    low, spread = 30.0 * np.geomspace(0.01, 0.1, 6), 30.0 * np.linspace(0.1, 0.9, 6)
    assert np.all(Ranks.of([tried], [low]).log_odds([low]) > 0.0)
    assert np.all(Ranks.of([tried], [spread]).log_odds([spread]) < -3.0)


def test_components_that_repairs_need_are_not_joined(monkeypatch):
    """Likelihoods may say that two components are one; what repairs say counts for more."""
    data = make_permuted_subspaces(2, 100, 20, 5, outlier_ratio=0.2, random_state=0)
    selector = Selector(data.X, Given())
    apart = selector.select()
    assert len(apart.mixture.components) == 2
    monkeypatch.setattr(
        Selector, "_joined", lambda self, X, filled, mixture, labels: np.minimum(labels, 0)
    )
    vectors = data.X, data.X.copy()
    assert selector._merge(*vectors, apart, confirmed=True) is apart
    assert len(selector._merge(*vectors, apart).mixture.components) == 1


def test_trials_may_be_a_little_stronger_than_damaged_vectors(rng):
    """All damaged vectors being somewhat weaker does not mean that some are not damaged."""

    def draw(n):
        return 0.9 * rng.normal(size=(n, 1)) + 0.45 * rng.normal(size=(n, 5))

    tried, damaged = draw(300).T, draw(100).T - 0.4
    assert np.mean(Ranks.of(tried, damaged).log_odds(damaged) < -3.0) > 0.9


def test_a_vector_is_no_witness_in_its_own_case(rng):
    tried, own = rng.normal(size=(200, 5)), rng.normal(size=(40, 5))
    own[0] = tried.min(axis=0) - 0.1  # a little weaker than every trial
    tried, weakest = tried.T, own[:1].T
    alone = Ranks.of(tried, own.T).log_odds(weakest)
    assert alone < 0.0
    three = np.vstack([own, own[:1], own[:1]]).T
    assert Ranks.of(tried, three).log_odds(weakest) > alone + 0.5
    # Of a vector that is unlike any trial they tell nothing.
    assert Ranks.of(tried, own.T).log_odds(weakest - 99.0) >= 0.0


def outlines(seed, n=160, n_features=100):
    """Smooth vectors, some odd by nature (0 to 3), some shuffled (0, 1 and 4 to 39)."""
    rng = np.random.default_rng(seed)
    t = np.arange(n_features)
    smooth = np.exp(-0.5 * ((t[:, None] - t) / 3.0) ** 2) + 1e-6 * np.eye(n_features)
    basis = np.cos(np.pi * np.arange(6)[:, None] * (t + 0.5) / n_features)
    deviations = 0.1 * rng.normal(size=(n, n_features)) @ np.linalg.cholesky(smooth).T
    deviations[:4] *= 6.0
    X = rng.normal(size=(n, 6)) * [4, 3, 2, 1.5, 1, 1] @ basis + deviations
    Y = X.copy()
    for j in (0, 1, *range(4, 40)):
        places = rng.choice(n_features, 40, replace=False)
        Y[j, places] = Y[j, rng.permutation(places)]
    return X, Y


def test_odd_vectors_are_told_from_shuffled_ones():
    """Most odd vectors that were shuffled are repaired, and none that was not is changed."""
    found = []
    for seed in range(12):
        status = PMSDR(random_state=0).fit(outlines(seed)[1]).status_
        assert np.all(status[2:4] == "clean")
        assert np.all(status[40:] == "clean")
        found += list(status[:2] == "recovered")
    assert np.mean(found) > 0.6


def test_deviations_of_clean_vectors_are_natural():
    X, Y = outlines(0)
    mixture, members = one_component(X[40:])
    component = np.zeros(120, dtype=np.int64)
    clean = natural_shares(X[40:], mixture, members, component)
    shuffled = natural_shares(Y[4:40], mixture, Membership.none(36), component[:36])
    assert np.median(clean) > 2.0 * np.median(shuffled)


@pytest.mark.parametrize("noise", [1e-5, 1e-3, 0.1])
def test_natural_shares_do_not_depend_on_the_size_of_the_noise(noise):
    """White noise lies along all directions alike, however little it is."""
    X = low_rank(0, n=400, n_features=60, noise=noise)
    mixture, _ = one_component(X[:300])
    shares = natural_shares(X[300:], mixture, Membership.none(100), np.zeros(100, dtype=np.int64))
    n_further = mixture.components[0].further.shape[1]
    expected = n_further / (60 - mixture.components[0].rank)
    assert 0.7 * expected < np.median(shares) < 1.5 * expected


def test_what_a_shuffle_leaves_alone_tells_vectors_of_another_kind(rng):
    X = low_rank(0, n=200)
    profiles = Profiles.of(X[:150], np.arange(150) % 5)
    new = np.full(50, -1)
    likeness = profiles.likeness(X[150:], new)
    np.testing.assert_allclose(profiles.likeness(rng.permuted(X[150:], axis=1), new), likeness)
    assert np.all(profiles.likeness(X[150:] ** 3, new) < np.median(likeness))
    # A vector is not compared with itself, nor with its copies.
    own = profiles.likeness(X[:150], np.arange(150) % 5)
    assert abs(np.median(own) - np.median(likeness)) < 0.2
    assert np.median(profiles.likeness(X[:150], np.full(150, -1))) > np.median(own)


def test_naturalness_tells_as_much_as_it_differs(rng):
    clean, tried = expit(rng.normal(2.0, 0.5, 200)), expit(rng.normal(-1.0, 0.5, 200))
    told = Naturalness.of(clean, tried, clean)
    natural, shuffled, never = np.array([0.9]), np.array([0.25]), np.array([0.1])
    assert told.log_odds(natural, natural) > 2.0
    assert told.log_odds(shuffled, natural) < -2.0
    # What does not become natural by its repair is odd, not shuffled.
    assert told.log_odds(shuffled, never) == 0.0
    alike = Naturalness.of(clean, rng.permutation(clean), clean)
    assert np.all(np.abs(alike.log_odds(clean, clean)) < 0.5)
    # Nothing counts as shuffled where clean vectors are hardly different.
    near = Naturalness.of(
        expit(rng.normal(0.0, 1.0, 200)), expit(rng.normal(-1.0, 0.3, 200)), clean
    )
    assert near.log_odds(shuffled, natural) == 0.0
    assert Naturalness.of(clean[:5], tried, clean) is None


@pytest.mark.parametrize("failures", [0, 3, 150])
def test_success_of_trials_is_their_rate(failures, rng):
    known = rng.normal(size=(300, 5))
    chance = expit(1.5 * known[:, 0] + np.log((300 - failures + 0.5) / (failures + 0.5)))
    outcome = np.ones(300, dtype=int)
    outcome[rng.choice(300, failures, replace=False, p=(1 - chance) / np.sum(1 - chance))] = 0
    probabilities = Success.of(known, outcome, np.arange(300))(known)
    assert probabilities.max() < 1.0
    assert probabilities.mean() == pytest.approx(outcome.mean(), abs=0.02)
    if failures == 150:  # enough to tell good from bad
        assert np.corrcoef(probabilities, chance)[0, 1] > 0.9


@pytest.mark.parametrize("n_failing", [1, 4, 5])
def test_trials_that_fail_for_a_few_vectors_only(n_failing, rng):
    """Every fold needs failures and successes, which one vector in many trials does not give."""
    vectors = np.arange(300) % 30
    outcome = (vectors >= n_failing).astype(int)
    known = rng.normal(size=(300, 5))
    found = Success.of(known, outcome, vectors)
    if n_failing < 5:
        np.testing.assert_allclose(found(known), (300 - 10 * n_failing + 0.5) / 301)
    else:
        assert found(known).mean() == pytest.approx(outcome.mean(), abs=0.05)
        folds = _folds_of_vectors(outcome, vectors)
        assert all(len(np.unique(folds[vectors == k])) == 1 for k in range(30))
        assert all(np.any(outcome[folds == fold] == 0) for fold in range(5))


def smooth_vectors(rng, n, n_features=60):
    """Moving averages of noise, each with a bump of its own somewhere."""
    noise, t = rng.normal(size=(n, n_features + 8)), np.arange(n_features)
    X = np.array([np.convolve(row, np.ones(9), mode="valid") / 3.0 for row in noise])
    return X + 4.0 * np.exp(-0.5 * ((t - rng.uniform(0, n_features, (n, 1))) / 4.0) ** 2)


def test_shuffled_vectors_are_as_rough_as_their_repairs_shuffled_anew(rng):
    X = smooth_vectors(rng, 200)
    neighbours = Neighbours.of(X[:120], np.arange(120) % 5)
    moved, Y, new = np.zeros((80, 60), dtype=bool), X[120:].copy(), np.full(80, -1)
    for i in range(80):
        places = rng.choice(60, 24, replace=False)
        moved[i, places], Y[i, places] = True, Y[i, rng.permutation(places)]
    shuffled = neighbours.margins(Y, X[120:], moved, new)
    in_order = neighbours.margins(X[120:], Y, moved, new)[:, 0]
    assert abs(np.median(shuffled[:, 0])) < 0.1
    assert np.quantile(in_order, 0.05) > np.quantile(shuffled[:, 0], 0.95)
    told = Smoothness.of(in_order, shuffled[:, 0], 80)
    odds = told.log_odds(np.array([[0.0, 2.0], [2.0, 2.0], [0.0, 0.0]]), np.zeros(3))
    assert odds[0] < -2.0
    assert odds[1] > 2.0
    assert odds[2] == 0.0  # a repair that is rough, too, says nothing


def test_smoothness_says_nothing_where_entries_do_not_go_together(rng):
    X = rng.normal(size=(200, 60))
    neighbours = Neighbours.of(X[:120], np.arange(120) % 5)
    moved = rng.random((80, 60)) < 0.4
    margins = neighbours.margins(X[120:], rng.permuted(X[120:], axis=1), moved, np.full(80, -1))
    assert Smoothness.of(margins[:40, 0], margins[40:, 1], 80) is None
    assert Smoothness.of(np.full(200, 2.0), np.zeros(200), 5) is None
    assert Neighbours.of(X[:12], np.arange(12) % 5) is None


def test_margins_do_not_depend_on_unit_or_company(rng):
    X = smooth_vectors(rng, 150)
    moved, new = rng.random((30, 60)) < 0.4, np.full(30, -1)
    found = [
        Neighbours.of(unit * X[:120], np.arange(120) % 5).margins(
            unit * X[120:], unit * X[120:] ** 2, moved, new
        )
        for unit in (1.0, 1e-6)
    ]
    np.testing.assert_allclose(*found, rtol=1e-6)
    alone = Neighbours.of(X[:120], np.arange(120) % 5).margins(
        X[120:121], X[120:121] ** 2, moved[:1], new[:1]
    )
    np.testing.assert_allclose(alone, found[0][:1])


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_shares_of_moved_entries_are_found(share, seed):
    X = low_rank(seed, n=300, noise=0.3)
    mixture, members = one_component(X)

    def propose(Y, membership):
        return judge(Y, mixture, membership, FULL)

    rng = np.random.default_rng(seed)
    wide = run_trials(X, propose, members, scattered(SHARES), count=240, rng=rng)
    damaged = run_trials(X, propose, members, scattered([share]), count=100, rng=rng)
    weights = share_weights(damaged.judged, damaged.observed, wide)
    assert weights @ SHARES == pytest.approx(share, abs=0.06)


def test_gains_far_beyond_the_tail_of_clean_ones_are_damage(rng):
    clean, tried = (np.expm1(g) for g in (rng.exponential(size=400), rng.normal(8, 0.5, size=200)))
    gains = Gains.of(clean, np.expm1(rng.normal(8.0, 0.5, size=40)), tried)
    near, far = gains.log_odds(np.expm1(np.array([4.0, 8.0])))
    assert near > 3.0
    assert far < -3.0


@pytest.mark.parametrize("shape", ["exponential", "normal"])
def test_the_largest_of_clean_gains_are_not_surely_damaged(shape, rng):
    """Trials that are shuffled as the oddest clean vectors seem to be gain as much as these do."""
    logs = 4.0 + {"exponential": rng.exponential, "normal": rng.normal}[shape](scale=0.6, size=200)
    odd = logs > np.quantile(logs, 0.93)
    tried = np.expm1(rng.choice(logs[odd], 300) + rng.normal(scale=0.2, size=300))
    gains = Gains.of(np.expm1(logs[~odd]), np.expm1(logs[odd]), tried)
    damaged = expit(-gains.log_odds(np.expm1(logs)))
    assert np.sum(damaged > 0.95) <= 1
    assert damaged[odd].mean() < 0.9


def test_clean_gains_beyond_all_trials_leave_nothing_sure(rng):
    """As may be where the user says how many vectors are damaged."""
    clean, tried = (np.expm1(rng.normal(m, 0.2, size=100)) for m in (6.0, 3.0))
    gains = Gains.of(clean, clean[:5], tried)
    assert np.all(gains.log_odds(clean) >= 0.0)


@pytest.mark.parametrize("off", [-0.3, 0.3])
def test_trials_that_gain_a_little_too_much_still_tell_damage(off, rng):
    clean, tried = np.expm1(rng.exponential(0.3, size=300)), np.expm1(rng.normal(4, 0.2, size=300))
    damaged = np.expm1(rng.normal(4.0 + off, 0.2, size=100))
    assert np.mean(Gains.of(clean, damaged, tried).log_odds(damaged) < -3.0) > 0.95


@pytest.mark.parametrize("kind", ["digits", "low rank", "noise", "binary"])
def test_clean_matrices_are_left_alone(kind, seed):
    rng = np.random.default_rng(seed)
    X = {
        "digits": lambda: load_digits().data[200 * seed : 200 * seed + 200],
        "low rank": lambda: low_rank(seed),
        "noise": lambda: rng.normal(size=(100, 20)),
        "binary": lambda: (low_rank(seed, noise=0.5) > 0).astype(float),
    }[kind]()
    is_left_alone(X)


def test_clean_flowers_are_left_alone():
    is_left_alone(load_iris().data)


def is_left_alone(X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it may abstain
        np.testing.assert_array_equal(PMSDR(random_state=0).fit_transform(X), X)


def damaged_digits(seed):
    rng = np.random.default_rng(seed)
    X = load_digits().data[rng.permutation(1797)[:250]]
    Y, mask = X.copy(), rng.random(250) < 0.25
    for j in np.flatnonzero(mask):
        places = rng.permutation(64)[:26]
        Y[j, places] = Y[j, rng.permutation(places)]
    return X, Y, mask


@functools.cache
def repaired_digits(seed):
    """A fitted model, and what it makes of damaged digits: shared, as one fit takes seconds."""
    model = PMSDR(random_state=0)
    return model, model.fit_transform(damaged_digits(seed)[1])


def test_real_vectors_are_repaired_and_none_is_harmed(seed):
    X, Y, mask = damaged_digits(seed)
    model, X_fixed = repaired_digits(seed)
    before, after = (np.linalg.norm(Z - X, axis=1) for Z in (Y, X_fixed))
    changed = (X_fixed != Y).any(axis=1)
    assert changed.sum() > 0.4 * mask.sum()
    assert np.mean(after[changed] < before[changed]) > 0.9
    assert not np.any(changed & ~mask)
    np.testing.assert_array_equal(changed, model.status_ == "recovered")


def test_what_it_says_fits_together(seed):
    model, _ = repaired_digits(seed)
    clean = model.status_ == "clean"
    np.testing.assert_allclose(model.confidence_[clean], 1 - model.damage_probability_[clean])
    np.testing.assert_array_equal(model.outlier_mask_, ~clean)
    recovered = model.status_ == "recovered"
    assert np.all(model.confidence_[recovered] >= 0.95)
    assert np.all(model.confidence_[model.status_ == "uncertain"] < 0.95)
    assert np.all(model.expected_error_[~clean] > 0.0)
    assert "clean vectors shuffled" in str(model.trials_)
    assert sum(number for _, _, number in model.trials_.reliability) > 100
    assert {"rank", "noise", "n_vectors"} <= set(model.noise_model_[0])


def test_outputs_share_one_decision():
    """`blend` leaves uncertain vectors alone, `subspace` estimates every flagged one."""
    _, Y, _ = damaged_digits(0)
    model = PMSDR(output="blend", random_state=0)
    blend = model.fit_transform(Y)
    np.testing.assert_array_equal((blend != Y).any(axis=1), model.status_ == "recovered")
    model = PMSDR(output="subspace", random_state=0)
    fitted = model.fit_transform(Y)
    np.testing.assert_array_equal((fitted != Y).any(axis=1), model.outlier_mask_)


@functools.cache
def repaired_subspaces(seed):
    """Damaged vectors, the model fitted to them, and its repair."""
    data = make_permuted_subspaces(2, 100, 30, 3, outlier_ratio=0.3, random_state=seed)
    model = PMSDR(random_state=0)
    return data.X, model, model.fit_transform(data.X)


def test_a_vector_is_judged_alone(seed):
    new = make_permuted_subspaces(2, 20, 30, 3, outlier_ratio=0.5, random_state=seed).X
    _, model, _ = repaired_subspaces(seed)
    together = model.transform(new)
    np.testing.assert_array_equal(np.vstack([model.transform(x[None]) for x in new]), together)
    np.testing.assert_array_equal(model.transform(new[::-1])[::-1], together)


def test_fit_transform_and_transform_agree(seed):
    X, model, X_fixed = repaired_subspaces(seed)
    assert np.mean((X_fixed == model.transform(X)).all(axis=1)) >= 0.995
    flagged = model.decision_function(X) < 0.0
    assert np.mean(flagged == model.outlier_mask_) >= 0.995


def test_threads_and_units_change_nothing():
    seed = 0
    data = make_permuted_subspaces(2, 80, 30, 3, outlier_ratio=0.3, random_state=seed)
    expected = PMSDR(random_state=0).fit(data.X)
    threads = PMSDR(random_state=0, n_jobs=2).fit(data.X)
    np.testing.assert_array_equal(threads.confidence_, expected.confidence_)
    units = PMSDR(random_state=0).fit(1e6 * data.X)
    np.testing.assert_array_equal(units.permutations_, expected.permutations_)
    assert units.noise_scale_ == pytest.approx(1e6 * expected.noise_scale_, rel=1e-3)


def test_noise_of_20_db_is_no_obstacle(seed):
    data = make_permuted_subspaces(
        3, 100, 50, 4, outlier_ratio=0.4, shuffled_ratio=0.4, snr_db=20.0, random_state=seed
    )
    model = PMSDR(random_state=0)
    X_fixed = model.fit_transform(data.X)
    assert model.n_subspaces_ == 3
    assert np.mean(model.status_[data.outlier_mask] == "recovered") > 0.95
    assert recovery_error(data.X_clean, X_fixed, mask=data.outlier_mask) < 0.2


def test_missing_entries_move_with_the_order(seed):
    data = make_permuted_subspaces(
        2, 100, 30, 3, outlier_ratio=0.3, missing_ratio=0.05, random_state=seed
    )
    model = PMSDR(random_state=0)
    X_fixed = model.fit_transform(data.X)
    assert np.isnan(X_fixed).sum() == np.isnan(data.X).sum()
    missed = data.outlier_mask & ~model.outlier_mask_
    assert missed.sum() <= 3
    seen = ~np.isnan(X_fixed) & data.outlier_mask[:, None]
    before = ~np.isnan(data.X) & data.outlier_mask[:, None]
    left = np.sum((X_fixed - data.X_clean)[seen] ** 2)
    assert left < 0.1 * np.sum((data.X - data.X_clean)[before] ** 2)


def test_given_number_of_permuted_vectors_is_met(seed):
    data = make_permuted_subspaces(2, 80, 30, 3, outlier_ratio=0.3, random_state=seed)
    count = int(data.outlier_mask.sum())
    model = PMSDR(contamination=count, random_state=0).fit(data.X)
    np.testing.assert_array_equal(model.outlier_mask_, data.outlier_mask)


def test_too_small_a_number_of_permuted_vectors_is_met():
    X = make_permuted_subspaces(2, 80, 30, 3, outlier_ratio=0.3, random_state=0).X
    assert PMSDR(contamination=43, random_state=0).fit(X).outlier_mask_.sum() == 43


def test_a_given_number_is_met_where_nothing_can_be_repaired():
    """It says so instead of failing, whether or not anything looks shuffled."""
    for seed in range(3):
        X = np.random.default_rng(seed).normal(size=(100, 20))
        model = PMSDR(contamination=7, random_state=0)
        with pytest.warns(UserWarning, match="See trials_"):
            np.testing.assert_array_equal(model.fit_transform(X), X)
        assert model.outlier_mask_.sum() == 7


def test_trials_measure_every_output(rng):
    """The error of "subspace" is that of the fitted vectors, not of the blend."""
    X = low_rank(0)
    mixture, membership = one_component(X)

    def propose(Y, members):
        return judge(Y, mixture, members, FULL)

    patterns = [Pattern("scattered", 0.3)]
    trials = run_trials(X, propose, membership, patterns, count=150, rng=rng)
    errors, judged = trials.squared_errors(), trials.judged
    versions = trials.observed, judged.values, judged.blend, judged.fitted
    for error, version in zip(errors, versions, strict=True):
        np.testing.assert_allclose(error, np.linalg.norm(version - X[trials.rows], axis=1) ** 2)
    assert not np.allclose(errors[2], errors[3])


def plane(seed):
    """Vectors of a plane, some of them permuted; also returns them in order."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(90, 2)) @ rng.normal(size=(2, 20)) + 0.01 * rng.normal(size=(90, 20))
    damaged = X[:15].copy()
    damaged[:, :12] = rng.permuted(damaged[:, :12], axis=1)
    return damaged, X


@pytest.mark.parametrize(("unit", "offset"), [(1e-200, 0.0), (1e200, 0.0), (1.0, 1e8)])
def test_units_and_offsets_do_not_matter(unit, offset):
    damaged, X = plane(1)
    Y = unit * np.vstack([damaged, X[15:]]) + offset
    model = PMSDR(random_state=0)
    X_fixed = model.fit_transform(Y)
    assert np.sum(model.status_ == "recovered") >= 4
    # The very values, moved: nothing is rounded.
    orders = model.permutations_.astype(int)
    np.testing.assert_array_equal(X_fixed, np.take_along_axis(Y, orders, axis=1))


def test_one_enormous_vector_does_not_spoil_the_rest():
    damaged, X = plane(0)
    Y = np.vstack([damaged, X[15:]])
    expected = PMSDR(random_state=0).fit(Y).status_
    Y[40] *= 1e30
    model = PMSDR(random_state=0).fit(Y)
    assert np.mean(model.status_ == expected) > 0.9
    assert np.all(np.isfinite(model.score_samples(1e25 * X)))


def test_what_is_missing_is_not_taken_for_noise():
    _, X = plane(1)
    X[np.random.default_rng(0).random(X.shape) < 0.03] = np.nan
    assert PMSDR(random_state=0).fit(X).noise_scale_ == pytest.approx(0.01, rel=0.3)


def test_a_model_of_clean_vectors_repairs_new_ones():
    data = make_permuted_subspaces(2, 80, 30, 3, outlier_ratio=0.0, random_state=0)
    rng = np.random.default_rng(0)
    Y = rng.permuted(data.X[:40, :], axis=1)
    Y[:, :15] = data.X[:40, :15]
    Y[:, 15:] = rng.permuted(data.X[:40, 15:], axis=1)
    model = PMSDR(random_state=0).fit(data.X)
    assert not model.outlier_mask_.any()
    assert np.mean(model.decision_function(Y) < 0.0) > 0.9
    before, after = (np.linalg.norm(Z - data.X[:40]) for Z in (Y, model.transform(Y)))
    assert after < 0.5 * before


@pytest.mark.parametrize("kind", ["low rank", "digits", "outlines"])
def test_a_clean_reference_repairs_new_vectors_and_harms_hardly_any(kind, seed):
    """How many vectors of the reference were damaged says nothing about new ones."""
    rng = np.random.default_rng(seed)
    if kind == "digits":
        X = load_digits().data[rng.permutation(1797)[:240]]
    else:
        X = low_rank(seed, n=240) if kind == "low rank" else outlines(seed, n=244)[0][4:]
    n = len(X) - 80
    Y = X[n:].copy()
    for y in Y[:40]:
        places = rng.choice(len(y), 2 * len(y) // 5, replace=False)
        y[places] = y[rng.permutation(places)]
    model = PMSDR(random_state=0).fit(X[:n])
    assert np.mean(model.status_ == "clean") > 0.98
    Z = model.transform(Y)
    # By chance, one of n + 1 clean vectors looks more damaged than n others.
    assert np.sum(np.any(Z[40:] != Y[40:], axis=1)) <= (kind == "digits")
    before, after = (np.linalg.norm(V[:40] - X[n : n + 40], axis=1) for V in (Y, Z))
    changed = np.any(Z[:40] != Y[:40], axis=1)
    assert np.sum(after[changed] >= before[changed]) <= 1
    if kind != "digits":  # odd digits look like shuffled ones
        assert changed.mean() >= 0.8


def test_unseen_kinds_are_judged_by_the_others(rng):
    """A kind that lies in another subspace looks odd to the others, one of their own does not."""
    parts = [low_rank(seed, n=60, rank=3, noise=0.01) for seed in range(3)]
    X, labels = np.vstack(parts), np.repeat(np.arange(3), 60)
    mixture, labels = fit_mixture(X, labels, rounds=0)
    judged, rows = judge_unseen(X, labels, mixture, seed=0)
    np.testing.assert_array_equal(np.sort(np.concatenate(rows)), np.arange(180))
    known = judge(X, mixture, Membership.of(mixture, labels), FULL)
    for each, own in zip(judged, rows, strict=True):
        assert np.median(each.noise) > 100.0 * np.median(known.noise[own])
    # The clusters of a single component are well explained by each other.
    mixture, members = one_component(parts[0])
    judged, rows = judge_unseen(parts[0], members.labels, mixture, seed=0)
    assert np.median(judged[0].noise) < 10.0 * np.median(known.noise[:60])
    assert judge_unseen(X[:10], members.labels[:10], mixture, seed=0) == ([], [])


def test_digits_of_unseen_classes_stay(seed):
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    seen, unseen = (rng.permutation(X[own])[:200] for own in (y < 5, y >= 5))
    model = PMSDR(contamination=0, random_state=0).fit(seen)
    assert np.sum(np.any(model.transform(unseen) != unseen, axis=1)) <= 10


def test_new_vectors_are_compared_with_undamaged_training_vectors(rng):
    tried = np.tile(rng.normal(10.0, 1.0, 200), (5, 1))
    nothing = np.empty((5, 0))
    strong, weak, typical = (np.full((5, 1), level) for level in (11.0, 7.0, 10.0))
    clean = Reference.of(tried, nothing, 150)
    assert clean.log_odds(typical) == pytest.approx(-np.log(151.0), abs=0.1)
    assert np.isinf(clean.log_odds(weak))  # weaker than all trials
    # The stronger, the surer, or as sure.
    assert clean.log_odds(strong) == clean.log_odds(typical) == clean.log_odds(strong + 9.0)
    # Few undamaged vectors leave more doubt, and one that is as strong says it all.
    assert Reference.of(tried, nothing, 15).log_odds(typical) > clean.log_odds(typical) + 2.0
    assert np.isinf(Reference.of(tried, strong, 150).log_odds(typical))
    # Damage that few trials look like is rarer, too.
    assert Reference.of(tried, typical, 150).log_odds(strong) == pytest.approx(
        -np.log(151.0 * 0.5), abs=0.3
    )


def test_a_saved_model_is_recognised():
    data = make_permuted_subspaces(2, 40, 20, 2, outlier_ratio=0.2, random_state=0)
    model = PMSDR(random_state=0).fit(data.X)
    assert fingerprint(pickle.loads(pickle.dumps(model))) == fingerprint(model)


def test_it_says_when_it_abstains():
    """Of vectors with no common structure nothing can be said."""
    X = np.random.default_rng(0).normal(size=(80, 6)) ** 3
    model = PMSDR(random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        np.testing.assert_array_equal(model.fit_transform(X), X)
    assert model.trials_.abstained == any("See trials_" in str(w.message) for w in caught)
    assert model.trials_.abstained == bool(model.trials_.reason)
    np.testing.assert_array_equal(model.transform(X), X)
