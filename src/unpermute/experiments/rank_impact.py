"""What a misjudged rank costs: true rank 5, assumed 3 to 7.

Table on the impact of the rank of Xie & Fan (AAAI 2025).
"""

from unpermute.experiments._experiment import Experiment
from unpermute.experiments._synthetic_lines import RATIO, draw_lines, lay_out, run_ranks

__all__ = ["EXPERIMENT"]

_TRUE_RANK, _RANKS = 5, (3, 4, 5, 6, 7)
_PRINTED = {3: (0.883, 0.658, 0.133, 0.141, 0.219), 10: (0.916, 0.673, 0.137, 0.195, 0.223)}
_PUBLISHED = {
    (n, rank): value
    for n, values in _PRINTED.items()
    for rank, value in zip(_RANKS, values, strict=True)
}


def settings(quick):
    """Return the numbers of subspaces, assumed ranks, and which methods run."""
    cells = [(3, 5), (3, 6), (3, 7)] if quick else list(_PUBLISHED)
    parts = [(*cell, "pmsdr") for cell in cells]
    # Given nothing, no rank is assumed: it is shown at the true one.
    parts += [(*cell, "nothing-given") for cell in cells if cell[1] == _TRUE_RANK]
    return [{"n_subspaces": n, "rank": rank, "methods": methods} for n, rank, methods in parts]


def run(setting, seed, data_home):
    """Run some methods with an assumed rank."""
    return run_ranks(setting, _TRUE_RANK, seed)


EXPERIMENT = Experiment(
    name="rank-impact",
    title="A misjudged rank",
    protocol=(
        f"True rank {_TRUE_RANK}, assumed 3 to 7; 3 or 10 subspaces; otherwise as the synthetic"
        f" grid. The paper does not state the shuffled ratio; {RATIO} is used. Mean over 10 draws."
        " Which error the paper prints is not said: compare with both. Given nothing, no rank is"
        f" assumed; its figures stand at rank {_TRUE_RANK}."
    ),
    settings=settings,
    n_seeds=lambda quick: 1 if quick else 10,
    run=run,
    tables=lambda records: lay_out(records, _PUBLISHED, "assumed rank"),
    figure=lambda records, arrays: draw_lines(records, _PUBLISHED, "assumed rank"),
    quick="3 subspaces, assumed rank 5, 6, 7, one draw of ten.",
)
