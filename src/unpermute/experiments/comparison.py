"""RPCA, RKPCA and SSC, alone and per subspace, on five synthetic subspaces.

Figure on the comparison of methods of Xie & Fan (AAAI 2025).
"""

from itertools import product

import numpy as np

from unpermute.baselines import RobustKernelPCA, RobustPCA, SSCReconstruction
from unpermute.experiments._competitors import alone_and_apart
from unpermute.experiments._experiment import Experiment, Measurement
from unpermute.experiments._figures import heat_maps
from unpermute.experiments._methods import (
    DEFAULT,
    NOTHING_GIVEN,
    PAPER,
    default_method,
    paper_method,
    score_nothing_given,
    score_pipeline,
    timed,
)
from unpermute.experiments._records import collect
from unpermute.experiments._tables import PUBLISHED, beside, ours_first
from unpermute.experiments.synthetic_grid import draw_synthetic, reference
from unpermute.metrics import recovery_error

__all__ = ["EXPERIMENT"]

_N_SUBSPACES = 5
# The authors' weights are not published: these are the packages' defaults, chosen without truth.
_METHODS = {"RPCA": RobustPCA(), "RKPCA": RobustKernelPCA(0.5), "SSC": SSCReconstruction(20.0)}


def settings(quick):
    """Return the cells of the grid, and which methods run."""
    ranks = (3, 10) if quick else range(1, 26)
    ratios = (0.3,) if quick else (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
    return [
        {"rank": rank, "shuffled_ratio": ratio, "methods": methods}
        for methods, rank, ratio in product(("others", "pmsdr", "nothing-given"), ranks, ratios)
    ]


def run(setting, seed, data_home):
    """Run some methods on one cell; the labels of the "-S" variants are those of the paper's."""
    rank = setting["rank"]
    draw = draw_synthetic(_N_SUBSPACES, rank, setting["shuffled_ratio"], seed)
    given = _N_SUBSPACES, rank, int(draw.outlier_mask.sum()), seed
    if setting["methods"] == "nothing-given":
        found = score_nothing_given(draw, seed)
        return [m for m in found if (m.method, m.metric) == (NOTHING_GIVEN, "RE_recon")]
    if setting["methods"] == "pmsdr":
        found = [
            *score_pipeline(PAPER, paper_method(*given), draw, rank=rank),
            *score_pipeline(DEFAULT, default_method(*given), draw, rank=rank),
        ]
        return [m for m in found if m.metric == "RE_recon"]
    labels = timed(paper_method(*given).fit, draw.X)[0].labels_
    return [
        Measurement(
            variant, "RE_recon", recovery_error(draw.X_clean, X, mask=draw.outlier_mask), seconds
        )
        for name, method in _METHODS.items()
        for variant, X, seconds in alone_and_apart(name, method, draw.X, labels)
    ]


def _cell(setting):
    return setting["rank"], setting["shuffled_ratio"]


def tables(records):
    """Mean error of every method over the cells, and in each of the cells."""
    found = {m: collect(records, m, "RE_recon", _cell) for m in ours_first(records)}
    rows: list = [(("mean", ""), {m: float(np.mean(list(v.values()))) for m, v in found.items()})]
    cells = dict.fromkeys(cell for line in found.values() for cell in line)
    if len(cells) <= 36:
        rows += [(cell, {m: v.get(cell) for m, v in found.items()}) for cell in cells]
    return [beside(("rank", "shuffled ratio"), rows, list(found))]


def figure(records, arrays):
    """Draw the map of every method."""
    maps = {m: collect(records, m, "RE_recon", _cell) for m in ours_first(records)}
    figures = reference()
    cells = {_cell(record.parsed) for record in records}
    maps[f"{PUBLISHED} PMSDR (refined)"] = {
        cell: figures["RE_recon", _N_SUBSPACES, *cell] for cell in cells
    }
    titles = {name: name.replace(", ", ",\n") for name in maps}
    return heat_maps(
        {"RE": {titles[name]: grid for name, grid in maps.items()}}, x="rank", y="shuffled ratio"
    )


EXPERIMENT = Experiment(
    name="comparison",
    title="Other methods, alone and per subspace",
    protocol=(
        "Five subspaces, otherwise as the synthetic grid; RE over all shuffled vectors. Weights are"
        " chosen without the truth: RPCA λ = 1/√max(n, m), RKPCA λ = 0.5, SSC α = 20; the authors'"
        " are not published, nor are the figures of this picture as numbers. The labels of the -S"
        " variants come from stages 1 to 3 of the paper's method."
    ),
    settings=settings,
    n_seeds=lambda quick: 1,
    run=run,
    tables=tables,
    figure=figure,
    quick="2 of 150 cells (PMSDR, given nothing and the others apart): r = 3, 10; ratio 0.3.",
)
