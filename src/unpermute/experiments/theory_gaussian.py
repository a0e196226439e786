"""Entries of a random projection: are they normal, and with which variance?

Figure on the normal approximation of the appendix of Xie & Fan (AAAI 2025).
"""

import numpy as np
from scipy.stats import kstest, norm

from unpermute.experiments._experiment import Experiment, Measurement, Outcome
from unpermute.experiments._figures import COLORS, empty, new_figure
from unpermute.experiments._methods import DEFAULT, PAPER
from unpermute.experiments._theory import EXACT, PAPER_FORMULA, compare, simulated, sizes
from unpermute.theory import entry_moments

__all__ = ["EXPERIMENT"]

_VARIANCE, _FOURTH = "variance of H_ij", "fourth moment of H_ij"
_N_PROJECTIONS, _KEPT = 200, 20_000


def settings(quick):
    """Return the sizes; the number of shuffled entries does not matter here."""
    return sizes(quick, ratios=(0.4, 0.4))[:: 1 if quick else 2]


def run(setting, seed, data_home):
    """Draw projections and look at the entries above the diagonal."""
    M, r = setting["n_features"], setting["rank"]
    rng = np.random.default_rng(seed)
    above = np.triu_indices(M, 1)
    entries = []
    for _ in range(_N_PROJECTIONS):
        U = np.linalg.qr(rng.standard_normal((M, r)))[0]
        entries.append((U @ U.T)[above])
    squares = [np.mean(values**2) for values in entries]
    fourths = [np.mean(values**4) for values in entries]
    variance = entry_moments(M, r).variance_off_diagonal
    pool = np.concatenate(entries)
    distance = kstest(pool[:_KEPT] / np.sqrt(variance), norm.cdf).statistic
    measurements = [
        *simulated(_VARIANCE, squares),
        Measurement(EXACT, _VARIANCE, variance),
        Measurement(PAPER_FORMULA, _VARIANCE, r / M**2),
        *simulated(_FOURTH, fourths),
        Measurement(PAPER_FORMULA, _FOURTH, 3 * variance**2),
        *simulated("distance from normal", [distance]),
    ]
    return Outcome(measurements, {f"{M},{r}": pool[:_KEPT].astype(np.float32)})


def tables(records):
    """Verdicts on the variances and on the fourth moment of a normal variable."""
    claims = [
        (_VARIANCE, EXACT, "equals"),
        (_VARIANCE, PAPER_FORMULA, "equals"),
        (_FOURTH, PAPER_FORMULA, "equals"),
    ]
    caption = "The paper gives two variances, r / M² and the exact one; the fourth moment is 3σ⁴"
    return [compare(records, claims, caption)]


def figure(records, arrays):
    """Draw the histogram and both normal curves."""
    if not arrays:
        return empty()
    picture = new_figure(3.2 * len(arrays), 3.0)
    axes = picture.subplots(1, len(arrays), squeeze=False)[0]
    for axis, (name, values) in zip(axes, arrays.items(), strict=True):
        M, r = map(int, name.split(","))
        axis.hist(values, bins=60, density=True, color="#c3d9ee")
        x = np.linspace(values.min(), values.max(), 200)
        exact = np.sqrt(entry_moments(M, r).variance_off_diagonal)
        axis.plot(x, norm.pdf(x, scale=exact), color=COLORS[DEFAULT], label="exact variance")
        axis.plot(x, norm.pdf(x, scale=np.sqrt(r) / M), color=COLORS[PAPER], label="r / M²")
        axis.set_title(f"M = {M}, r = {r}", fontsize=10)
        axis.set_yticks([])
    axes[0].legend(fontsize=8)
    return picture


EXPERIMENT = Experiment(
    name="theory-gaussian",
    title="Theory: entries of a projection",
    protocol=(
        f"Off-diagonal entries of {_N_PROJECTIONS} random projections of rank r in M dimensions,"
        " against the normal distributions that the appendix uses."
    ),
    settings=settings,
    n_seeds=lambda quick: 1,
    run=run,
    tables=tables,
    figure=figure,
    quick="nothing is left out.",
)
