"""How much structure a table has: damage records that look whole, and see how many cells return.

No labels are needed. A fifth of the cells, at least two, is moved around in a circle; a table
whose columns have little in common and share one unit gets next to nothing back, and says so.
"""

from dataclasses import dataclass, replace

import numpy as np

from unpermute.table._record_model import is_sure, search
from unpermute.table._record_prior import default_prior

__all__ = ["Structure", "measure_structure", "no_structure"]

_TRIALS = 100
_SHARE = 0.2
_WEAK = 0.5
# Share of damaged records that is assumed when nothing but the structure should matter.
_DAMAGED = 0.1


@dataclass(frozen=True)
class Structure:
    """How much structure a table has.

    Attributes
    ----------
    weak : bool
        Whether most moved cells could not be put back.
    recoverability : float
        Expected share of the moved cells of a randomly damaged record that is put back.
    sentence : str
        The same in plain words.
    """

    weak: bool
    recoverability: float
    sentence: str


def no_structure(reason):
    """Structure of a table from which nothing can be learned."""
    return Structure(True, 0.0, f"Nothing can be put back: {reason}.")


def measure_structure(
    model, values, classes, permutations, sure, looks_whole, *, fold, min_confidence, n_jobs
):  # fmt: skip
    """Damage some of the records that look whole, or do once repaired, and repair them.

    `permutations` hold what repairs the records that are `sure`.
    """
    rng = np.random.default_rng(0)
    rows = np.flatnonzero(looks_whole | sure)
    rows = np.sort(rng.permutation(rows)[:_TRIALS])
    p = values.shape[1]
    if not len(rows):
        return no_structure("no record looks whole")
    order = np.where(sure[rows, None], permutations[rows], np.arange(p))
    truth = np.take_along_axis(values[rows], order, axis=1)
    written = np.take_along_axis(classes[rows], order, axis=1)
    moves = np.tile(np.arange(p), (len(rows), 1))
    for move in moves:
        places = rng.choice(p, max(2, round(_SHARE * p)), replace=False)
        move[places] = np.roll(places, 1)
    damaged = np.take_along_axis(truth, moves, axis=1)
    found = search(
        replace(model, prior=default_prior(p, damaged=_DAMAGED)),
        damaged,
        np.take_along_axis(written, moves, axis=1),
        fold=None if fold is None else fold[rows],
        n_jobs=n_jobs,
    )
    sure = is_sure(found, min_confidence)
    order = np.where(sure[:, None], found.permutations, np.arange(p))
    repaired = np.take_along_axis(damaged, order, axis=1)
    before, after = _wrong(damaged, truth), _wrong(repaired, truth)
    share = float(max(1.0 - after / before, 0.0)) if before else 0.0
    return Structure(share < _WEAK, share, _sentence(share))


def _wrong(values, truth):
    return np.count_nonzero((values != truth) & ~(np.isnan(values) & np.isnan(truth)))


def _sentence(share):
    back = f"about {share:.0%} of the cells moved in a randomly damaged record can be put back"
    if share >= _WEAK:
        return f"The columns tell their values apart: {back}."
    return f"The columns have too little structure to tell where a value belongs: {back}."
