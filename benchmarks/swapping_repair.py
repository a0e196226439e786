"""The idea of swapping repair (Sun, Song, Wang & Wang, ICDE 2020), written from its description.

Among the exchanges of two fields of a record, take the one that makes the record likeliest by its
distances to its nearest neighbours in the table; distances per column are scaled to [0, 1], and
texts have a normalised edit distance. Neighbours form a Poisson process: with the summed distance d
to the k nearest ones, the log-likelihood falls as k log d. Only records whose distance is among the
largest are tried, as the method needs to know which records to look at.
"""

import numpy as np

# Nearest neighbours; share of the records, farthest first, that are tried; texts compared at most.
_NEIGHBOURS, _TRIED, _LONGEST = 5, 0.3, 20
# Factor by which the distance must fall: without it most clean records would be changed.
_FALL = 0.8


def swapping_repair(frame):
    """Return the frame with fields swapped."""
    values = frame.to_numpy(dtype=object).copy()
    n, p = values.shape
    columns = [_Column(values[:, j]) for j in range(p)]
    distance = np.stack([column.matrix() for column in columns])
    total = distance.sum(axis=0)
    np.fill_diagonal(total, np.inf)
    own = np.sort(total, axis=1)[:, :_NEIGHBOURS].sum(axis=1)
    for r in np.argsort(-own)[: round(_TRIED * n)]:
        best, pair = _FALL * own[r], None
        for a in range(p):
            for b in range(a + 1, p):
                if values[r, a] == values[r, b]:
                    continue
                row = total[r] - distance[a, r] - distance[b, r]
                row = row + columns[a].to(values[r, b]) + columns[b].to(values[r, a])
                row[r] = np.inf
                near = np.partition(row, _NEIGHBOURS)[:_NEIGHBOURS].sum()
                if near < best:
                    best, pair = near, (a, b)
        if pair is not None:
            values[r, list(pair)] = values[r, list(pair[::-1])]
    fixed = frame.astype(object).copy()
    fixed.iloc[:, :] = values
    return fixed


class _Column:
    """Distances of values to those of one column."""

    def __init__(self, cells):
        self.cells = cells
        self.numbers = np.array([_number(cell) for cell in cells])
        known = self.numbers[~np.isnan(self.numbers)]
        self.numeric = len(known) > 0.5 * len(cells)
        self.width = max(np.ptp(known), 1e-12) if self.numeric else 1.0
        self.texts, self.codes = np.unique([str(cell) for cell in cells], return_inverse=True)
        self.cache = {}

    def matrix(self):
        """Distances between all values of the column."""
        if self.numeric:
            apart = np.abs(self.numbers[:, None] - self.numbers) / self.width
            return np.where(np.isnan(apart), 1.0, np.minimum(apart, 1.0))
        return np.stack([self.to(text) for text in self.texts])[self.codes]

    def to(self, cell):
        """Distance of a value to every value of the column."""
        if self.numeric:
            apart = np.abs(_number(cell) - self.numbers) / self.width
            return np.where(np.isnan(apart), 1.0, np.minimum(apart, 1.0))
        text = str(cell)
        if text not in self.cache:
            self.cache[text] = np.array([_edit_distance(text, other) for other in self.texts])
        return self.cache[text][self.codes]


def _number(cell):
    try:
        return float(cell)
    except (TypeError, ValueError):
        return np.nan


def _edit_distance(a, b):
    """Levenshtein distance divided by the longer length."""
    a, b = a[:_LONGEST], b[:_LONGEST]
    if a == b:
        return 0.0
    last = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            row.append(min(last[j] + 1, row[-1] + 1, last[j - 1] + (x != y)))
        last = row
    return last[-1] / max(len(a), len(b))
