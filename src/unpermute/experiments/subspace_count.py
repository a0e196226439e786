"""How the error grows with the rank at 2, 5 and 10 subspaces.

Table on the number of subspaces of Xie & Fan (AAAI 2025).
"""

from unpermute.experiments._experiment import Experiment
from unpermute.experiments._synthetic_lines import RATIO, draw_lines, lay_out, run_ranks

__all__ = ["EXPERIMENT"]

_RANKS = (3, 5, 8, 10, 13, 15)
_PRINTED = {
    2: (0.092, 0.145, 0.295, 0.401, 0.608, 0.705),
    5: (0.085, 0.177, 0.302, 0.410, 0.631, 0.769),
    10: (0.102, 0.145, 0.302, 0.443, 0.672, 0.844),
}
_PUBLISHED = {
    (n, rank): value
    for n, values in _PRINTED.items()
    for rank, value in zip(_RANKS, values, strict=True)
}


def settings(quick):
    """Return the numbers of subspaces, ranks, and which methods run."""
    cells = [(2, 3), (2, 8), (2, 13), (5, 5)] if quick else list(_PUBLISHED)
    return [
        {"n_subspaces": n, "rank": rank, "methods": methods}
        for methods in ("pmsdr", "nothing-given")
        for n, rank in cells
    ]


def run(setting, seed, data_home):
    """Run some methods; those that are given a rank get the true one."""
    return run_ranks(setting, setting["rank"], seed)


EXPERIMENT = Experiment(
    name="subspace-count",
    title="Number of subspaces and rank",
    protocol=(
        "2, 5 and 10 subspaces of rank 3 to 15, otherwise as the synthetic grid. The paper does not"
        f" state the shuffled ratio; {RATIO} is used. Mean over 10 draws. Which error the paper"
        " prints is not said: compare with both."
    ),
    settings=settings,
    n_seeds=lambda quick: 1 if quick else 10,
    run=run,
    tables=lambda records: lay_out(records, _PUBLISHED, "rank"),
    figure=lambda records, arrays: draw_lines(records, _PUBLISHED, "rank"),
    quick="4 of 18 cells, one draw of ten.",
)
