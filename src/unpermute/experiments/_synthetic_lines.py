"""What the synthetic tables with one varying rank share: run, lay out, draw."""

from unpermute.experiments._figures import line_panels
from unpermute.experiments._methods import (
    DEFAULT,
    NOTHING_GIVEN,
    PAPER,
    SUBSPACE,
    default_method,
    paper_method,
    score_nothing_given,
    score_pipeline,
)
from unpermute.experiments._records import collect
from unpermute.experiments._tables import PUBLISHED, beside
from unpermute.experiments.synthetic_grid import draw_synthetic

__all__ = ["draw_lines", "lay_out", "run_ranks"]

# The paper does not state the shuffled ratio of these tables; its figures are consistent with it.
RATIO = 0.5
_METHODS = (DEFAULT, SUBSPACE, NOTHING_GIVEN, PAPER)


def run_ranks(setting, true_rank, seed):
    """Run some methods with a rank that may not be the true one."""
    n_subspaces, used_rank = setting["n_subspaces"], setting["rank"]
    draw = draw_synthetic(n_subspaces, true_rank, RATIO, seed)
    if setting["methods"] == "nothing-given":
        return score_nothing_given(draw, seed, rank=used_rank)
    given = n_subspaces, used_rank, int(draw.outlier_mask.sum()), seed
    return [
        *score_pipeline(DEFAULT, default_method(*given), draw, rank=used_rank),
        *score_pipeline(PAPER, paper_method(*given), draw, rank=used_rank),
    ]


def lay_out(records, published, rank_name):
    """Mean over the draws; `published` maps (n_subspaces, rank) to a figure."""
    rows = []
    for metric in ("RE_recon", "RE_refined", "CE_recon", "UOratio"):
        found = {m: collect(records, m, metric, _cell) for m in _METHODS}
        for cell in sorted({cell for cells in found.values() for cell in cells}):
            figures = {m: cells.get(cell) for m, cells in found.items()}
            figures[PUBLISHED] = published.get(cell) if metric.startswith("RE") else None
            rows.append(((metric, *cell), figures))
    return [beside(("metric", "subspaces", rank_name), rows, (*_METHODS, PUBLISHED))]


def draw_lines(records, published, rank_name):
    """Draw the error against the rank, one panel per number of subspaces."""
    panels = {}
    for n in sorted({record.parsed["n_subspaces"] for record in records}):
        mine = [record for record in records if record.parsed["n_subspaces"] == n]
        lines = {m: collect(mine, m, "RE_recon", lambda s: s["rank"]) for m in _METHODS}
        lines[PUBLISHED] = {rank: v for (count, rank), v in published.items() if count == n}
        panels[f"{n} subspaces"] = lines
    return line_panels(panels, x=rank_name, y="RE_recon, mean over the draws")


def _cell(setting):
    return setting["n_subspaces"], setting["rank"]
