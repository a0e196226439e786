"""Judge all records of a table that is too large to be learned from as a whole, block by block."""

from dataclasses import replace

import numpy as np

from unpermute.numerics.parallel import map_blocks
from unpermute.records._evidence import Evidence
from unpermute.records._model import place_cells

__all__ = ["unsearched", "weigh_all"]

# Cells of the lookup tables of one block of records: bounds the memory.
_BLOCK_CELLS = 1_000_000
# Blocks of a search that are screened at once, records of these that decoys are drawn from, and
# log-odds of records that are not searched.
_SCREENED, _DECOY_RECORDS, _NOT_SEARCHED = 8, 200, -10.0


def weigh_all(judge, cells, rows, evidence, screen):
    """Return the evidence of all records, of which those of `rows` have been weighed.

    Records that do not pass the screen, if there is one, are not searched.
    """
    n, p = cells.shape
    parts = unsearched(n, p)
    alone = replace(judge, n_jobs=1)

    def weigh(start, stop):
        part, others = np.arange(start, stop), np.zeros(0, dtype=np.int64)
        if screen is not None:
            passing = screen.passes(judge.model, cells.take(slice(start, stop)))
            part, others = part[passing], part[~passing][:_DECOY_RECORDS]
        # Blocks of the search are smaller: it looks up every value in every column.
        for chosen in np.array_split(part, -(-len(part) // size)) if len(part) else []:
            placed = place_cells(judge.model, cells.take(np.append(chosen, others)))
            pool = placed.codes[len(chosen) :] if len(others) else placed.codes
            weighed = alone.weigh(placed.take(slice(len(chosen))), pool=pool)
            for target, source in zip(parts.arrays(), weighed.arrays(), strict=True):
                target[chosen] = source

    size = max(_BLOCK_CELLS // p**2, 16)
    map_blocks(weigh, n, block=size * _SCREENED, stage="judge records", n_jobs=judge.n_jobs)
    # Records that were learned from are judged with their own cells left out.
    for target, source in zip(parts.arrays(), evidence.arrays(), strict=True):
        target[rows] = source
    return parts


def unsearched(n, p):
    """Return the evidence of n records of p columns that were not searched."""
    return Evidence(
        np.tile(np.arange(p, dtype=np.int16), (n, 1)), np.full(n, _NOT_SEARCHED),
        np.full(n, -np.inf), np.zeros(n), np.zeros(n, dtype=bool),
    )  # fmt: skip
