"""Variances of the residuals in place and shuffled: Theorem 1 against simulation.

Figure on the variances of the appendix of Xie & Fan (AAAI 2025).
"""

import numpy as np

from unpermute.experiments._experiment import Experiment, Measurement
from unpermute.experiments._figures import line_panels
from unpermute.experiments._records import collect
from unpermute.experiments._theory import EXACT, SIMULATED, compare, n_draws, simulated, sizes
from unpermute.theory import (
    CONCENTRATION_DELTA,
    eta_variance_approximation,
    eta_variance_lower_bound,
    expected_eta_variance,
    expected_xi_variance,
    simulate_elimination,
    xi_variance_concentration,
    xi_variance_upper_bound,
)

__all__ = ["EXPERIMENT"]

_XI, _ETA, _TAIL = "E σ_ξ²", "E σ_η²", "Pr(σ_ξ² above its bound)"
_CLAIMS = {
    (_XI, EXACT, "equals"): expected_xi_variance,
    (_XI, "upper bound of Theorem 1", "at most"): xi_variance_upper_bound,
    (_ETA, EXACT, "equals"): expected_eta_variance,
    (_ETA, "approximation of Theorem 1", "equals"): eta_variance_approximation,
    (_ETA, "approximation of the appendix", "equals"): (
        lambda *size: eta_variance_approximation(*size, version="appendix")
    ),
    (_ETA, "lower bound of Theorem 1", "at least"): eta_variance_lower_bound,
    (_ETA, "lower bound of the appendix's summary", "at least"): (
        lambda *size: eta_variance_lower_bound(*size, version="summary")
    ),
    (_ETA, "lower bound, corrected", "at least"): (
        lambda *size: eta_variance_lower_bound(*size, version="corrected")
    ),
}
_TAIL_CLAIM = (_TAIL, "δ of Theorem 1", "at most")


def run(setting, seed, data_home):
    """Simulate both variances and evaluate every formula."""
    size = setting["n_features"], setting["rank"], setting["n_shuffled"]
    drawn = simulate_elimination(*size, n_draws=n_draws(setting), random_state=seed).variances
    n_in_place = size[0] - size[2]
    in_place, moved = drawn[:, :n_in_place], drawn[:, n_in_place:]
    # Means over the entries of a draw: entries of one draw depend on each other, draws do not.
    found = [*simulated(_XI, in_place.mean(axis=1)), *simulated(_ETA, moved.mean(axis=1))]
    found += [Measurement(name, metric, f(*size)) for (metric, name, _), f in _CLAIMS.items()]
    above = in_place[:, 0] > xi_variance_concentration(*size)
    found += simulated(_TAIL, above.astype(float))
    return [*found, Measurement(_TAIL_CLAIM[1], _TAIL, CONCENTRATION_DELTA)]


def tables(records):
    """Verdicts on every equality and bound."""
    return [compare(records, [*_CLAIMS, _TAIL_CLAIM])]


def figure(records, arrays):
    """Draw both variances against the shuffled share, one panel per size."""
    panels = {}
    for M, r in dict.fromkeys((s["n_features"], s["rank"]) for s in (x.parsed for x in records)):
        mine = [x for x in records if (x.parsed["n_features"], x.parsed["rank"]) == (M, r)]
        panels[f"M = {M}, r = {r}"] = {
            f"{metric}, {name}": {k: M * v for k, v in collect(mine, name, metric, _share).items()}
            for metric in (_XI, _ETA)
            for name in (SIMULATED, EXACT, "upper bound of Theorem 1", "approximation of Theorem 1")
            if collect(mine, name, metric, _share)
        }
    return line_panels(panels, x="shuffled share M₂ / M", y="M times the variance")


def _share(setting):
    return float(np.round(setting["n_shuffled"] / setting["n_features"], 3))


EXPERIMENT = Experiment(
    name="theory-variance",
    title="Theory: variances of residuals",
    protocol=(
        "Theorem 1 and the appendix: variances of the least-squares residuals of a vector without"
        " noise, of entries in place (σ_ξ²) and shuffled (σ_η²); random subspaces and permutations"
        " without fixed points and 2-cycles. The exact means come from third moments of a random"
        " projection. A claim holds if it is within 4 standard errors of the simulation, an"
        " equality also if it is within 2%."
    ),
    settings=sizes,
    n_seeds=lambda quick: 1,
    run=run,
    tables=tables,
    figure=figure,
    quick="5 of 20 settings.",
)
