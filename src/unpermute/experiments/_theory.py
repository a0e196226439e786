"""What the experiments on the theory share: sizes, columns, verdicts."""

import numpy as np

from unpermute.experiments._experiment import Measurement, Table
from unpermute.experiments._records import collect

__all__ = [
    "EXACT",
    "PAPER_FORMULA",
    "SIMULATED",
    "STANDARD_ERROR",
    "compare",
    "n_draws",
    "simulated",
    "sizes",
]

SIMULATED, STANDARD_ERROR = "simulated", "standard error"
EXACT, PAPER_FORMULA = "exact here", "the paper's formula"
_SIZES = ((50, 5), (50, 10), (50, 20), (100, 10), (100, 25))
_RATIOS = (0.2, 0.4, 0.6, 0.8)
_EQUAL = 0.02
_DEVIATIONS = 4.0


def sizes(quick, ratios=_RATIOS):
    """Return the settings (M, r, M₂)."""
    ratios = ratios[1:2] if quick else ratios
    return [
        {"n_features": M, "rank": r, "n_shuffled": round(ratio * M)}
        for M, r in _SIZES
        for ratio in ratios
    ]


def n_draws(setting):
    """Return the draws of a simulation: fewer where each is larger."""
    return 400_000 // setting["n_features"]


def simulated(metric, sample):
    """Return the mean of a sample and its standard error."""
    sample = np.asarray(sample, dtype=float)
    error = float(sample.std(ddof=1) / np.sqrt(len(sample))) if len(sample) > 1 else float("nan")
    return [
        Measurement(SIMULATED, metric, float(sample.mean())),
        Measurement(STANDARD_ERROR, metric, error),
    ]


def compare(records, claims, caption=""):
    """Lay simulated and claimed figures out with a verdict on each.

    Parameters
    ----------
    records : list of Record
        What was measured.
    claims : list of (metric, method, kind)
        What a method claims of a metric; kind is "equals", "at most" or "at least".
    caption : str, default=""
        Words above the table.

    Returns
    -------
    Table
        One row per claim and setting.
    """
    rows = []
    for metric, method, kind in claims:
        truth = collect(records, SIMULATED, metric, _key)
        errors = collect(records, STANDARD_ERROR, metric, _key)
        claimed = collect(records, method, metric, _key)
        for key, value in truth.items():
            if key in claimed:
                verdict = _judge(value, errors[key], claimed[key], kind)
                figures = f"{value:.4g}", f"{claimed[key]:.4g}", verdict
                rows.append([metric, f"{method} ({kind})", ", ".join(map(str, key)), *figures])
    headings = ["quantity", "claim", "M, r, M₂", SIMULATED, "claimed", "verdict"]
    return Table(headings, rows, 3, caption)


def _key(setting):
    return setting["n_features"], setting["rank"], setting["n_shuffled"]


def _judge(value, error, claimed, kind):
    margin = _DEVIATIONS * error
    if kind == "equals":
        off = claimed / value - 1
        right = abs(claimed - value) <= margin or abs(off) <= _EQUAL
        return f"holds ({off:+.1%})" if right else f"off by {off:+.1%}"
    broken = value - claimed if kind == "at most" else claimed - value
    return "holds" if broken <= margin else f"broken by {broken / abs(value):.1%}"
