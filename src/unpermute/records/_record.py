"""Kernels: one record as the search sees it, read from the tables of a block of records.

Everything that is asked about a value in a place is looked up once per record: its worth and its z
in every column, and its bins in the columns that depend on each other.
"""

from collections import namedtuple

import numpy as np
from numba import njit

from unpermute.records._cells import DATE, MISSING

__all__ = ["Joint", "Laws", "Links", "Record", "Space", "Tables", "new_space", "read_record"]

# Words of the records, of the records as the model learned them, and of decoys; worth, z and bin of
# every word in every column; kind and amount of every word; the worth of the cells learned from and
# the terms of their links, each left out, and which links these are; version of the joint
# distribution.
Tables = namedtuple(
    "Tables", "codes home decoys worth z bins kinds amounts own own_links own_keys version"
)
# Joint distribution, one version per fold, and the links between columns.
Laws = namedtuple("Laws", "location precision variances used degrees links")
# Links e between columns `first` and `second`: a table of terms by bins, or, if it is an order of
# columns of a kind, three terms by sign.
Links = namedtuple("Links", "first second kind table signs")
# One record: its words x (equal values are equal words), which have no z and how many, how many
# stand in columns that take part, z and worth of every value (row) in every column; bins likewise;
# kind and amount of every value in its own place and elsewhere; terms and keys of its own links.
Record = namedtuple("Record", "x missing n_missing m Z worth bins kinds amounts own_links own_keys")
# The joint distribution that judges it: precision, variances, which columns take part, degrees;
# and the links.
Joint = namedtuple("Joint", "P variances used degrees links")
# Room for one record, and for its precision once cells are left out.
Space = namedtuple("Space", "missing Z worth bins kinds amounts Q")


@njit(cache=True, nogil=True)
def new_space(p):
    """Room for records of p cells."""
    return Space(
        np.empty(p, dtype=np.bool_),
        np.empty((p, p)),
        np.empty((p, p)),
        np.empty((p, p), dtype=np.int16),
        np.empty((p, 2), dtype=np.int8),
        np.empty((p, 2)),
        np.empty((p, p)),
    )


@njit(cache=True, nogil=True)
def read_record(tables, laws, r, space):
    """Record r and the joint distribution that judges it.

    A value that leaves its place is replaced by that of the decoy record, if there is one. The
    worth of a word in the column that the model learned it from leaves that cell out.
    """
    p, version, linked = tables.codes.shape[1], tables.version[r], len(laws.links.first) > 0
    for i in range(p):
        word = tables.codes[r, i]
        other = tables.decoys[r, i]
        space.missing[i] = tables.kinds[word] > DATE
        # A decoy must not fill a gap, nor open one.
        if (tables.kinds[word] == MISSING) != (tables.kinds[other] == MISSING):
            other = word
        for j in range(p):
            w = word if i == j else other
            own = w == tables.home[r, j]
            space.worth[i, j] = tables.own[r, j] if own else tables.worth[w, j]
            space.Z[i, j] = 0.0
            if tables.kinds[w] <= DATE and not space.missing[i] and laws.used[j]:
                space.Z[i, j] = tables.z[w, j] - laws.location[version, j]
            if linked:
                space.bins[i, j] = tables.bins[w, j]
        for k in range(2):
            w = other if k else word
            space.kinds[i, k], space.amounts[i, k] = tables.kinds[w], tables.amounts[w]
    n_missing, m = 0, 0
    for i in range(p):
        n_missing += space.missing[i]
        m += laws.used[i] and not space.missing[i]
    record = Record(
        tables.codes[r], space.missing, n_missing, m, space.Z, space.worth, space.bins, space.kinds,
        space.amounts, tables.own_links[r], tables.own_keys[r],
    )  # fmt: skip
    joint = Joint(
        laws.precision[version], laws.variances[version], laws.used, laws.degrees, laws.links
    )
    return record, joint
