"""One subspace, the setting of unlabeled PCA.

Panel (a) of the figure "Performance of PMSDR on synthetic data" of Xie & Fan (AAAI 2025).
"""

from itertools import product

import numpy as np

from unpermute.baselines import UPCA
from unpermute.experiments._experiment import Experiment, Measurement
from unpermute.experiments._figures import heat_maps
from unpermute.experiments._methods import (
    DEFAULT,
    NOTHING_GIVEN,
    SUBSPACE,
    default_method,
    score_nothing_given,
    score_pipeline,
    timed,
)
from unpermute.experiments._records import collect
from unpermute.experiments._tables import PUBLISHED, beside
from unpermute.experiments.synthetic_grid import draw_synthetic, reference
from unpermute.metrics import recovery_error

__all__ = ["EXPERIMENT"]

_UPCA = "UPCA here"
_METHODS = (DEFAULT, SUBSPACE, NOTHING_GIVEN, _UPCA)
_MARGIN = 0.02


def settings(quick):
    """Return the cells of the published panel, and which methods run."""
    ranks = (3, 10, 15) if quick else range(1, 26)
    ratios = (0.2, 0.4, 0.6) if quick else (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
    return [
        {"rank": rank, "shuffled_ratio": ratio, "methods": methods}
        for methods, rank, ratio in product(("pmsdr", "nothing-given", "others"), ranks, ratios)
    ]


def run(setting, seed, data_home):
    """Run our default or UPCA on one cell."""
    rank = setting["rank"]
    draw = draw_synthetic(1, rank, setting["shuffled_ratio"], seed)
    mask = draw.outlier_mask
    if setting["methods"] == "nothing-given":
        return score_nothing_given(draw, seed, rank=rank)
    if setting["methods"] == "pmsdr":
        model = default_method(1, rank, int(mask.sum()), seed)
        return score_pipeline(DEFAULT, model, draw, rank=rank)
    upca, seconds = timed(UPCA(rank, random_state=seed).fit_transform, draw.X)
    plain = recovery_error(draw.X_clean, upca, mask=mask)
    refined = recovery_error(
        draw.X_clean, upca, mask=mask, refined=True, labels=draw.labels, rank=rank
    )
    return [
        Measurement(_UPCA, "RE_recon", plain, seconds),
        Measurement(_UPCA, "RE_refined", refined, seconds),
    ]


def _cell(setting):
    return setting["rank"], setting["shuffled_ratio"]


def _published(cells):
    figures = reference()
    return {(rank, ratio): figures["RE_gt", 1, rank, ratio] for rank, ratio in cells}


def tables(records):
    """Mean errors, and the cells in which ours is worse than the published panel."""
    rows = []
    for metric in ("RE_recon", "RE_refined"):
        found = {method: collect(records, method, metric, _cell) for method in _METHODS}
        published = _published({_cell(record.parsed) for record in records})
        means = {m: float(np.mean(list(cells.values()))) for m, cells in found.items() if cells}
        means[PUBLISHED] = float(np.mean(list(published.values())))
        rows.append(((metric, "mean over the cells"), means))
        worse = {
            m: sum(value > published[cell] + _MARGIN for cell, value in cells.items())
            for m, cells in found.items()
        }
        words = f"cells above the published by more than {_MARGIN}"
        rows.append(((metric, words), worse))
    caption = f"{len({_cell(record.parsed) for record in records})} of 150 cells"
    return [beside(("metric", "summary"), rows, (*_METHODS, PUBLISHED), caption=caption)]


def figure(records, arrays):
    """Draw the panel of every method."""
    cells = {_cell(record.parsed) for record in records}
    panels = {
        m: {k: collect(records, m, k, _cell) for k in ("RE_recon", "RE_refined")} for m in _METHODS
    }
    return heat_maps(
        {**panels, PUBLISHED: {"RE_refined": _published(cells)}}, x="rank", y="shuffled ratio"
    )


EXPERIMENT = Experiment(
    name="single-subspace",
    title="One subspace: the setting of unlabeled PCA",
    protocol=(
        "50 entries, 120 vectors, 60% of them shuffled, 40 dB; rank and number of shuffled vectors"
        " are given, or nothing is. The published panel is UPCA, one draw per cell, refined error."
    ),
    settings=settings,
    n_seeds=lambda quick: 1,
    run=run,
    tables=tables,
    figure=figure,
    quick="9 of 150 cells: r = 3, 10, 15; ratio 0.2, 0.4, 0.6.",
)
