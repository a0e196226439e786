"""The trace of a corner of a random projection, and means of the corner's powers.

Figure on the trace of the appendix of Xie & Fan (AAAI 2025).
"""

import numpy as np
from scipy.stats import beta, norm

from unpermute.experiments._experiment import Experiment, Measurement, Outcome
from unpermute.experiments._figures import COLORS, empty, new_figure
from unpermute.experiments._methods import DEFAULT, PAPER
from unpermute.experiments._theory import EXACT, PAPER_FORMULA, compare, n_draws, simulated, sizes
from unpermute.theory import power_mean, simulate_elimination, trace_moments

__all__ = ["EXPERIMENT"]

_MEAN, _VARIANCE = "mean of the trace", "variance of the trace"
_POWERS = {1: "c̃₁", 2: "c̃₂", 3: "c̃₃"}


def run(setting, seed, data_home):
    """Draw corners and compare trace and powers with the formulas."""
    M, r, p = setting["n_features"], setting["rank"], setting["n_shuffled"]
    eigenvalues = simulate_elimination(
        M, r, p, n_draws=n_draws(setting), random_state=seed
    ).eigenvalues
    trace = eigenvalues.sum(axis=1)
    mean, variance = trace_moments(M, r, p)
    found = [
        *simulated(_MEAN, trace),
        Measurement(EXACT, _MEAN, mean),
        *simulated(_VARIANCE, (trace - trace.mean()) ** 2),
        Measurement(EXACT, _VARIANCE, variance),
    ]
    for order, name in _POWERS.items():
        found += simulated(name, (eigenvalues**order).sum(axis=1) / p)
        found.append(Measurement(EXACT, name, power_mean(order, M, r, p)))
    found.append(Measurement(PAPER_FORMULA, "c̃₃", power_mean(3, M, r, p, version="paper")))
    return Outcome(found, {f"{M},{r},{p}": trace.astype(np.float32)})


def tables(records):
    """Verdicts on every moment."""
    names = (_MEAN, _VARIANCE, *_POWERS.values())
    claims = [(name, EXACT, "equals") for name in names]
    claims.append(("c̃₃", PAPER_FORMULA, "equals"))
    return [compare(records, claims, "c̃₃ is what the paper approximates and calls open")]


def figure(records, arrays):
    """Draw the histogram of the trace with a beta and a normal curve of its moments."""
    names = [name for name in arrays if _ratio(name) == 0.4]
    if not names:
        return empty()
    picture = new_figure(3.2 * len(names), 3.0)
    axes = picture.subplots(1, len(names), squeeze=False)[0]
    for axis, name in zip(axes, names, strict=True):
        M, r, p = map(int, name.split(","))
        mean, variance = trace_moments(M, r, p)
        axis.hist(arrays[name], bins=50, density=True, color="#c3d9ee")
        x = np.linspace(arrays[name].min(), arrays[name].max(), 200)
        axis.plot(
            x, _beta_density(x, mean, variance, min(r, p)), color=COLORS[DEFAULT], label="beta"
        )
        axis.plot(
            x, norm.pdf(x, mean, np.sqrt(variance)), "--", color=COLORS[PAPER], label="normal"
        )
        axis.set_title(f"M = {M}, r = {r}, M₂ = {p}", fontsize=10)
        axis.set_yticks([])
    axes[0].legend(fontsize=8)
    return picture


def _ratio(name):
    M, _, p = map(int, name.split(","))
    return p / M


def _beta_density(x, mean, variance, largest):
    """Density of a beta variable on [0, largest] with the given moments."""
    m, v = mean / largest, variance / largest**2
    total = m * (1 - m) / v - 1
    return beta.pdf(x / largest, m * total, (1 - m) * total) / largest


EXPERIMENT = Experiment(
    name="theory-trace",
    title="Theory: trace and powers of a corner",
    protocol=(
        "H is the corner of M₂ rows and columns of a random projection of rank r in M dimensions:"
        " a matrix-variate beta variable with E Hᵗ = c̃ₜ I. Its moments against simulation."
    ),
    settings=sizes,
    n_seeds=lambda quick: 1,
    run=run,
    tables=tables,
    figure=figure,
    quick="5 of 20 settings.",
)
