"""How often the entry with the largest residual is a shuffled one: Theorem 1 against simulation.

Figure on the modelled probability of the appendix of Xie & Fan (AAAI 2025).
"""

import numpy as np

from unpermute.experiments._experiment import Experiment, Measurement
from unpermute.experiments._figures import line_panels
from unpermute.experiments._records import collect
from unpermute.experiments._theory import SIMULATED, compare, n_draws, simulated, sizes
from unpermute.theory import (
    elimination_probability,
    eta_variance_approximation,
    expected_eta_variance,
    expected_xi_variance,
    simulate_elimination,
    xi_variance_upper_bound,
)

__all__ = ["EXPERIMENT"]

_METRIC = "Pr(the first entry dropped is a shuffled one)"
_VERSIONS = {
    "2Φ(z) − 1, as in the theorem": "theorem",
    "Φ(z), as in the appendix": "appendix",
    "what the assumptions imply": "assumptions",
}
_OWN = "2Φ(z) − 1 with the theorem's own variances"


def run(setting, seed, data_home):
    """Simulate the elimination of one entry and evaluate every version of the formula."""
    size = setting["n_features"], setting["rank"], setting["n_shuffled"]
    drawn = simulate_elimination(*size, n_draws=n_draws(setting), random_state=seed)
    variances = expected_xi_variance(*size), expected_eta_variance(*size)
    own = xi_variance_upper_bound(*size), eta_variance_approximation(*size)
    M, _, n_shuffled = size
    found = [
        Measurement(name, _METRIC, elimination_probability(M, n_shuffled, *variances, version=v))
        for name, v in _VERSIONS.items()
    ]
    found.append(Measurement(_OWN, _METRIC, elimination_probability(M, n_shuffled, *own)))
    return [*simulated(_METRIC, drawn.eliminated_shuffled), *found]


def tables(records):
    """Verdicts on every version."""
    claims = [(_METRIC, name, "equals") for name in (*_VERSIONS, _OWN)]
    caption = "With the exact variances, unless said otherwise"
    return [compare(records, claims, caption)]


def figure(records, arrays):
    """Draw all versions against the shuffled share, one panel per size."""
    panels = {}
    for M, r in dict.fromkeys((s["n_features"], s["rank"]) for s in (x.parsed for x in records)):
        mine = [x for x in records if (x.parsed["n_features"], x.parsed["rank"]) == (M, r)]
        panels[f"M = {M}, r = {r}"] = {
            name: collect(mine, name, _METRIC, _share) for name in (SIMULATED, *_VERSIONS, _OWN)
        }
    return line_panels(panels, x="shuffled share M₂ / M", y="probability")


def _share(setting):
    return float(np.round(setting["n_shuffled"] / setting["n_features"], 3))


EXPERIMENT = Experiment(
    name="theory-probability",
    title="Theory: is the first entry dropped a shuffled one?",
    protocol=(
        "The probability of Theorem 1 that the largest residual is at a shuffled entry, as stated,"
        " as derived in the appendix, and as its assumptions imply, against simulation."
    ),
    settings=sizes,
    n_seeds=lambda quick: 1,
    run=run,
    tables=tables,
    figure=figure,
    quick="5 of 20 settings.",
)
