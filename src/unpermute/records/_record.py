"""Kernels: a block of records as the search sees them, read from the tables of a model.

Everything that is asked about a value in a place is looked up once per record: its worth and its z
in every column, and its bins in the columns that depend on each other.

What numba needs to compile a kernel grows with the number of arrays that it hands on. So arrays of
one shape are planes, rows or cells of one array, and have names. Tables without links, or without
cells that have no z, do not compile what these need: they hand on None instead.
"""

from collections import namedtuple

import numpy as np
from numba import njit
from numba.extending import register_jitable

from unpermute.records._cells import DATE, MISSING

__all__ = [
    "Laws",
    "Links",
    "Record",
    "Tables",
    "Work",
    "new_room",
    "new_work",
    "read_records",
    "record_of",
    "take_records",
]

# Words of the records, of the records as the model learned them, and of decoys; worth, z and bin of
# every word in every column; kind and amount of every word; the worth of the cells learned from and
# the terms of their links, each left out, and which links these are; version of the joint
# distribution.
Tables = namedtuple(
    "Tables", "codes home decoys worth z bins kinds amounts own own_links own_keys version"
)
# Joint distribution, one version per fold, and the links between columns, or None.
Laws = namedtuple("Laws", "location precision variances used degrees links")
# Links e between two columns: the two and the kind; if that is negative, a table of terms by bins,
# else the first row of the table: three terms by the sign of an order of columns of the kind.
Links = namedtuple("Links", "ends terms")
# A block of records; the first axis of every array is records.
Work = namedtuple("Work", "planes rows cells numbers bins own version")
# One of them.
Record = namedtuple("Record", "planes rows cells numbers bins own")

# Planes: z and worth of every value (row) in every column, log-posterior after every exchange of
# two places a < b. In the room: the precision once cells are left out, and another.
Z, WORTH, AROUND = range(3)
LEFT, SPARE = range(2)
# Rows: z as placed, g = Q z, log-posterior of rotated tails in both directions, variances, amount
# of every value in its own place and elsewhere, room.
PLACED, SLOPE, TURNED, TURNED_BACK, VARIANCE, AMOUNT, OTHER_AMOUNT, SPARE_ROW = range(8)
# Cells: words (equal values are equal words), which have no z, which columns take part in the joint
# distribution, kind of every value in its own place and elsewhere, the order that is tried.
WORD, HOLE, USED, KIND, OTHER_KIND, ORDER = range(6)
# Numbers: cells that take part, degrees of freedom, −½ log|P_HH|; log-posterior and squared
# distance of the order that is tried, log-posterior after its best exchange, and of which two
# places; log-posterior of the record as it is, direction and start of its best rotated tail.
N_CELLS, DEGREES, CONSTANT, VALUE, DISTANCE = range(5)
NEXT, FIRST, SECOND, STAYS, TURN, START = range(5, 11)
# Own links: their terms, and their keys.
TERM, KEY = range(2)


def new_work(n, p, laws):
    """Room for n records of p cells."""
    n_links = 0 if laws.links is None else len(laws.links.ends)
    return Work(
        np.empty((n, 3, p, p)),
        np.empty((n, 8, p)),
        np.empty((n, 6, p), dtype=np.int64),
        np.empty((n, 11)),
        np.empty((n, p if n_links else 0, p), dtype=np.int16),
        np.empty((n, 2, n_links)),
        np.empty(n, dtype=np.int64),
    )


def new_room(tables):
    """Room for the precision once cells without z are left out; None if there are none."""
    p = tables.codes.shape[1]
    return np.empty((2, p, p)) if np.any(tables.kinds > DATE) else None


def take_records(tables, rows):
    """Some of the records."""
    of_records = ("codes", "home", "decoys", "own", "own_links", "own_keys", "version")
    return tables._replace(**{name: getattr(tables, name)[rows] for name in of_records})


@register_jitable
def record_of(work, r):
    """Record r of a block."""
    return Record(
        work.planes[r], work.rows[r], work.cells[r], work.numbers[r], work.bins[r], work.own[r]
    )


@njit(cache=True, nogil=True)
def read_records(tables, laws, start, n, work):
    """Read n records from `start` on into the block; the order that is tried is as they are.

    A value that leaves its place is replaced by that of the decoy record, if there is one. The
    worth of a word in the column that the model learned it from leaves that cell out.
    """
    p, n_links = work.cells.shape[2], work.own.shape[2]
    planes, rows, cells, numbers = work.planes, work.rows, work.cells, work.numbers
    codes, kinds, amounts, used = tables.codes, tables.kinds, tables.amounts, laws.used
    for k in range(n):
        r = start + k
        version = tables.version[r]
        work.version[k] = version
        n_cells = 0
        for i in range(p):
            word, other = codes[r, i], tables.decoys[r, i]
            # A decoy must not fill a gap, nor open one.
            if (kinds[word] == MISSING) != (kinds[other] == MISSING):
                other = word
            hole = kinds[word] > DATE
            n_cells += used[i] and not hole
            # Other columns, then its own: loops without branches are fast.
            for w, first, last in ((other, 0, p), (word, i, i + 1)):
                present = kinds[w] <= DATE and not hole
                for j in range(first, last):
                    planes[k, WORTH, i, j] = tables.worth[w, j]
                    placed = tables.z[w, j] - laws.location[version, j]
                    planes[k, Z, i, j] = placed if present and used[j] else 0.0
                for j in range(first, last):
                    if tables.home[r, j] == w:
                        planes[k, WORTH, i, j] = tables.own[r, j]
                if n_links:
                    for j in range(first, last):
                        work.bins[k, i, j] = tables.bins[w, j]
            rows[k, VARIANCE, i] = laws.variances[version, i]
            rows[k, AMOUNT, i], rows[k, OTHER_AMOUNT, i] = amounts[word], amounts[other]
            cells[k, KIND, i], cells[k, OTHER_KIND, i] = kinds[word], kinds[other]
            cells[k, WORD, i], cells[k, HOLE, i] = word, hole
            cells[k, USED, i], cells[k, ORDER, i] = used[i], i
        for e in range(n_links):
            work.own[k, TERM, e] = tables.own_links[r, e]
            work.own[k, KEY, e] = tables.own_keys[r, e]
        numbers[k, N_CELLS], numbers[k, DEGREES] = n_cells, laws.degrees
