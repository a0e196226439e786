"""Every statement of the paper's Theorem 1 and its appendix, beside simulation, with a verdict.

Run ``OPENBLAS_NUM_THREADS=1 python benchmarks/theory.py``; it takes about a minute, with
``--quick`` ten seconds. ``--part`` chooses among: moments variances approximations bounds maxima
probability. docs/errata.md explains the verdicts.

What the package claims to be exact is "equal" if it is within 2% and three standard errors of
simulation, and "NOT EQUAL", with exit code 1, if it is further than three standard errors. Between
the two there are too few draws to tell. What the paper claims is within 2% or OFF, and its bounds
hold or are VIOLATED.
"""

import argparse
import functools
import itertools
import time

import numpy as np
from scipy.stats import norm

from unpermute.theory import (
    CONCENTRATION_DELTA,
    concentration_constant,
    elimination_probability,
    entry_moments,
    eta_variance_approximation,
    eta_variance_lower_bound,
    expected_eta_variance,
    expected_xi_variance,
    log_determinant_moment,
    maximum_location,
    maximum_scale,
    power_mean,
    projection_moment,
    simulate_elimination,
    trace_moments,
    xi_variance_concentration,
    xi_variance_upper_bound,
)

# (M, r, M₂): the five settings that the errata quote, then more for the exact variances.
SETTINGS = [(50, 5, 20), (50, 10, 20), (100, 10, 40), (100, 10, 70), (100, 25, 40)]
MORE = [
    *[(6, 1, 3), (6, 3, 3), (8, 5, 4), (10, 3, 9), (10, 9, 5), (12, 2, 6), (20, 5, 3)],
    *[(20, 10, 10), (20, 15, 15), (30, 4, 12), (40, 20, 8), (60, 12, 50), (80, 3, 30)],
    *[(150, 15, 30), (200, 20, 120)],
]
N_DRAWS = 40_000
MOMENT_SETTINGS = [(10, 3), (20, 5), (50, 5)]
# Sizes of the scan of the bounds against the exact means.
SCAN = [10, 20, 30, 50, 100, 200, 500, 1000]


class Ledger:
    """Prints comparisons, and counts the verdicts on exact claims."""

    def __init__(self):
        self.exact_claims = dict.fromkeys(["equal", "too few draws", "NOT EQUAL"], 0)

    def exact(self, what, value, sample):
        """Compare what the package claims to be exact with the mean of a sample."""
        mean, error = np.mean(sample), np.std(sample) / np.sqrt(len(sample))
        off, z = value / mean - 1, (value - mean) / error
        close = "equal" if abs(off) <= 0.02 else "too few draws"
        verdict = close if abs(z) <= 3 else "NOT EQUAL"
        self.exact_claims[verdict] += 1
        print(f"{_columns(what, value, mean)} {off:+7.2%} {z:+5.1f} se  {verdict}")

    def approximate(self, what, value, simulated):
        """Say how far a claim of the paper is away."""
        off = value / simulated - 1
        verdict = "within 2%" if abs(off) <= 0.02 else "OFF"
        print(f"{_columns(what, value, simulated)} {off:+7.1%}  {verdict}")

    def bound(self, what, value, simulated, *, upper):
        """Say whether a bound of the paper holds."""
        holds = simulated <= value if upper else simulated >= value
        side = "<=" if upper else ">="
        verdict = "holds" if holds else "VIOLATED"
        print(f"  {what:44s} {simulated:11.4e} {side} {value:11.4e}  {verdict}")


def _columns(what, value, simulated):
    return f"  {what:44s} {value:11.4e}  simulated {simulated:11.4e}"


@functools.cache
def simulate(setting, n_draws):
    """One simulation per setting, for all parts."""
    return simulate_elimination(*setting, n_draws=n_draws, random_state=0)


def split(setting, n_draws):
    """Variances of the residuals in place and shuffled, one row per draw."""
    M, _, m = setting
    variances = simulate(setting, n_draws).variances
    return variances[:, : M - m], variances[:, M - m :]


def part_moments(ledger, draws):
    """Entries of a random projection, and the matrix-variate beta."""
    for M, r in MOMENT_SETTINGS:
        print(f"\nentries of H, (M, r) = ({M}, {r})")
        compare_entries(ledger, M, r, draws(1_000_000 // M))
    for setting in SETTINGS:
        print(f"\nthe corner of size p = M2, (M, r, M2) = {setting}")
        compare_corner(ledger, *setting, simulate(setting, draws(N_DRAWS)).eigenvalues)


def compare_entries(ledger, M, r, n_draws):
    products = simulate_products(M, r, n_draws, seed=1)
    printed = entry_moments(M, r)
    ledger.exact("E H_ii^2", _second(printed), products["ii ii"])
    centred = printed.third_central_moment_diagonal
    ledger.exact("E (H_ii - r/M)^3", centred, products["centred"])
    ledger.exact("E H_ii^3", printed.third_moment_diagonal, products["ii ii ii"])
    ledger.exact("Var H_ij", printed.variance_off_diagonal, products["ij ij"])
    second = printed.covariance_diagonal + printed.mean_diagonal**2
    ledger.exact("Cov(H_ii, H_jj) + (r/M)^2", second, products["ii jj"])
    for name, entries in {
        "ii ij ij": [(0, 0), (0, 1), (0, 1)],
        "kk ij ij": [(2, 2), (0, 1), (0, 1)],
        "ij jk ki": [(0, 1), (1, 2), (2, 0)],
    }.items():
        moment = projection_moment(entries, M, r)
        ledger.exact(f"third moment E {name}", moment, products[name])
    braces = r * r * (M + 1 - 2) / (M * (M - 1) * (M + 2))
    ledger.approximate("printed r{(M+1)-2}: E H_ii H_jj", braces, products["ii jj"].mean())


def _second(printed):
    return printed.variance_diagonal + printed.mean_diagonal**2


def simulate_products(M, r, n_draws, seed):
    """Products of entries of random projections, each averaged over M places (i, j, k)."""
    rng = np.random.default_rng(seed)
    u = np.linalg.qr(rng.normal(size=(n_draws, M, r)))[0]
    v, w = np.roll(u, 1, axis=1), np.roll(u, 2, axis=1)
    ii, jj, kk = (np.einsum("nir,nir->ni", a, a) for a in (u, v, w))
    ij, jk, ki = (np.einsum("nir,nir->ni", a, b) for a, b in ((u, v), (v, w), (w, u)))
    products = {
        "ii ii": ii**2, "ij ij": ij**2, "ii jj": ii * jj, "ii ii ii": ii**3,
        "centred": (ii - r / M) ** 3, "ii ij ij": ii * ij**2, "kk ij ij": kk * ij**2,
        "ij jk ki": ij * jk * ki,
    }  # fmt: skip
    return {name: product.mean(axis=1) for name, product in products.items()}


def compare_corner(ledger, M, r, m, eigenvalues):
    mean, variance = trace_moments(M, r, m)
    trace = eigenvalues.sum(axis=1)
    ledger.exact("mean of the trace", mean, trace)
    ledger.exact("variance of the trace", variance, (trace - mean) ** 2)
    for t in (1, 2, 3):
        ledger.exact(f"c_{t}", power_mean(t, M, r, m), (eigenvalues**t).sum(axis=1) / m)
    cube = (eigenvalues**3).sum(axis=1).mean() / m
    ledger.approximate("c_3 of the paper", power_mean(3, M, r, m, version="paper"), cube)
    determinant = np.exp(3 / r * np.log(eigenvalues).sum(axis=1))
    moment = np.exp(log_determinant_moment(3 / r, M, m, r))
    ledger.exact("E det^(3/r), B_r(M2/2, (M-M2)/2)", moment, determinant)
    printed = np.exp(log_determinant_moment(3 / r, M, r, r))
    ledger.approximate("E det^(3/r), printed B_r(r/2, (M-r)/2)", printed, determinant.mean())


def part_variances(ledger, draws):
    """Exact means of the variances, twenty settings."""
    print("\nexact E sigma_xi^2 and E sigma_eta^2")
    for setting in SETTINGS + MORE:
        # Small settings vary more, and cost less.
        n_draws = draws(N_DRAWS if setting in SETTINGS else 1_500_000 // setting[0])
        in_place, shuffled = split(setting, n_draws)
        ledger.exact(f"xi  {setting}", expected_xi_variance(*setting), in_place.mean(axis=1))
        ledger.exact(f"eta {setting}", expected_eta_variance(*setting), shuffled.mean(axis=1))


def part_approximations(ledger, draws):
    """The approximations of E sigma_eta^2, and the means of the terms of their derivation."""
    for M, r, m in SETTINGS:
        print(f"\napproximations, (M, r, M2) = ({M}, {r}, {m})")
        eta = split((M, r, m), draws(N_DRAWS))[1].mean()
        for version in ("theorem", "appendix", "independent"):
            value = eta_variance_approximation(M, r, m, version=version)
            ledger.approximate(f"E sigma_eta^2, {version}", value, eta)
        mean_of_term2 = simulate_term2(M, r, m, draws(10_000)).mean()
        printed = (m * M + M - 4) * r * (M - r) / (M**2 * (M - 1) * (M + 2))
        ledger.approximate("E term2 of the appendix", printed, mean_of_term2)
        ledger.approximate("E term2 + 2 r^2/M^2", printed + 2 * r**2 / M**2, mean_of_term2)


def simulate_term2(M, r, m, n_draws):
    """τ_jᵀ τ⁽²⁾ᵀ U⁽²⁾ u_j, averaged over the shuffled j: one cycle through all of them."""
    rng = np.random.default_rng(4)
    basis = np.linalg.qr(rng.normal(size=(n_draws, M, r)))[0][:, M - m :]
    tau = basis - np.roll(basis, -1, axis=1)
    alpha = basis @ np.swapaxes(basis, 1, 2)
    return np.einsum("njr,nir,nij->n", tau, tau, alpha, optimize=True) / m


def part_bounds(ledger, draws):
    """Claimed bounds: against simulation, then against the exact means in many settings."""
    for M, r, m in SETTINGS:
        print(f"\nbounds, (M, r, M2) = ({M}, {r}, {m})")
        xi, eta = split((M, r, m), draws(N_DRAWS))
        claimed = concentration_constant(M, r, m, version="bound")
        ledger.bound("C and its bound", claimed, concentration_constant(M, r, m), upper=True)
        for version in ("exact", "bound"):
            limit = xi_variance_concentration(M, r, m, version=version)
            share = np.mean(xi < limit)
            what = f"Pr(sigma_xi^2 < {limit:.2e}), C {version}"
            ledger.bound(what, 1 - CONCENTRATION_DELTA, share, upper=False)
        ledger.bound("E sigma_xi^2", xi_variance_upper_bound(M, r, m), xi.mean(), upper=True)
        for version in ("theorem", "summary", "corrected"):
            limit = eta_variance_lower_bound(M, r, m, version=version)
            ledger.bound(f"E sigma_eta^2, {version}", limit, eta.mean(), upper=False)
    scan_bounds()


def scan_bounds():
    """Count the settings in which a bound contradicts the exact mean."""
    shares = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    products = itertools.product(SCAN, shares, shares)
    grid = sorted({(M, max(1, round(a * M)), max(3, round(b * M))) for M, a, b in products})
    weak = functools.partial(xi_variance_concentration, version="bound")
    # Claim: what must be at most what.
    claims = {
        "C <= its bound": (
            concentration_constant, functools.partial(concentration_constant, version="bound"),
        ),
        "E sigma_xi^2 <= line 1, C bound": (expected_xi_variance, weak),
        "E sigma_xi^2 <= line 2": (expected_xi_variance, xi_variance_upper_bound),
    }  # fmt: skip
    for version in ("theorem", "summary", "corrected"):
        bound = functools.partial(eta_variance_lower_bound, version=version)
        claims[f"E sigma_eta^2 >= line 3, {version}"] = (bound, expected_eta_variance)
    print(f"\nbounds against exact means, {len(grid)} settings, M = {SCAN[0]} to {SCAN[-1]}")
    for claim, (smaller, larger) in claims.items():
        ratios = {s: smaller(*s) / larger(*s) for s in grid}
        worst = max(ratios, key=ratios.__getitem__)
        n_wrong = sum(ratio > 1 for ratio in ratios.values())
        verdict = f"VIOLATED in {n_wrong}" if n_wrong else "holds"
        print(f"  {claim:36s} {verdict}; largest ratio {ratios[worst]:.2f} at {worst}")


def part_maxima(ledger, draws):
    """The location and scale of the maximum of normal variables."""
    print("\nmaximum of m standard normal variables")
    rng = np.random.default_rng(6)
    for count in (20, 60, 100, 1000, 10**6):
        # The maximum exceeds x with probability 1 − Φ(x)^m.
        maxima = norm.isf(-np.expm1(np.log(rng.random(draws(400_000))) / count))
        rho, psi = maximum_location(count), maximum_scale(count)
        ledger.approximate(f"mean, rho({count})", rho, maxima.mean())
        gumbel = rho + np.euler_gamma * psi
        ledger.approximate(f"mean, rho + 0.5772 psi ({count})", gumbel, maxima.mean())
        ledger.approximate(f"deviation, psi({count})", psi, maxima.std())
        gumbel = np.pi / np.sqrt(6) * psi
        ledger.approximate(f"deviation, 1.2825 psi ({count})", gumbel, maxima.std())


def part_probability(ledger, draws):
    """Is the first entry to be eliminated a shuffled one?"""
    for M, r, m in SETTINGS:
        hits = simulate((M, r, m), draws(N_DRAWS)).eliminated_shuffled
        error = np.sqrt(hits.mean() * (1 - hits.mean()) / len(hits))
        print(f"\nPr(eliminated entry is shuffled), (M, r, M2) = ({M}, {r}, {m}):"
              f" simulated {hits.mean():.4f} ± {error:.4f}")  # fmt: skip
        estimates = {
            "exact variances": (expected_xi_variance(M, r, m), expected_eta_variance(M, r, m)),
            "lines 1 and 4 of the theorem": (
                xi_variance_concentration(M, r, m, version="bound"),
                eta_variance_approximation(M, r, m),
            ),
            "lines 2 and 4 of the theorem": (
                xi_variance_upper_bound(M, r, m),
                eta_variance_approximation(M, r, m),
            ),
        }
        for name, pair in estimates.items():
            for version in ("theorem", "appendix", "assumptions"):
                value = elimination_probability(M, m, *pair, version=version)
                ledger.approximate(f"{name}, {version}", value, hits.mean())


PARTS = {
    "moments": part_moments,
    "variances": part_variances,
    "approximations": part_approximations,
    "bounds": part_bounds,
    "maxima": part_maxima,
    "probability": part_probability,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--quick", action="store_true", help="a tenth of the draws")
    options = parser.parse_args()
    started = time.perf_counter()
    ledger = Ledger()
    for name in options.part:
        PARTS[name](ledger, lambda n: n // 10 if options.quick else n)
    verdicts = ", ".join(f"{count} {name}" for name, count in ledger.exact_claims.items())
    print(f"\nclaims of exactness: {verdicts}; {time.perf_counter() - started:.0f} s")
    raise SystemExit(ledger.exact_claims["NOT EQUAL"] > 0)


if __name__ == "__main__":
    main()
