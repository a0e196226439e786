r"""Two columns that hold each other's values in many rows, scattered over the table.

Nothing about a single row is odd then: both columns hold both kinds of values. What is odd is that
every row has one of each. Two signs of that are known:

**Values of two sorts** (first and last names). The rows of two independent columns have the
probability h_a(x) h_b(y); if a share w of the rows is exchanged, it is

.. math:: (1 - w)\,f(x)\,g(y) + w\,g(x)\,f(y) .

f, g and w are fitted by EM, which starts from the marginal distributions and from two sorts of
values that meet each other (the lowest eigenvector of the matrix of pairs). Both models have as
many parameters. Where f and g have no value in common, the second gains the entropy of w per row,
in rows that the fit has not seen; most of that is asked for.

**Differences without a middle** (net and gross, joined and last seen). Numbers and dates are
compared by their difference, or their ratio. Its size must be distributed alike on both sides of
zero, and either no difference is small, or small ones lie on one side as often as large ones: the
differences of columns that change places by nature pass through zero.

Which of the two sides is the right one cannot be told, so this is a question for a person.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import entr, expit

from unpermute.records._causes import SCATTERED
from unpermute.records._cells import DATE, MISSING, NUMBER, kinds_of
from unpermute.records._pairs import bin_cells, log_shares
from unpermute.records._text import prepare_texts

__all__ = ["Division", "divide_pair", "find_divisions", "some_rows"]

# Rows that are looked at, fewest rows and most columns of a table, and least share of the rows on
# the smaller side.
_ROWS, _FEWEST, _MOST_COLUMNS, _LEAST = 4000, 60, 200, 0.08
# Share of the entropy of w that the mixture must gain per row, log-likelihood in all, and share of
# both that rows of the fit must gain: there independent columns look better than they are.
_SEPARATED, _NEEDED, _PROMISING = 0.6, 12.0, 0.1
# Share of the rows whose side must be known relative to that of the others.
_ONE_PART = 0.95
# Occurrences from which on a value is told apart from others of its pattern.
_SEEN = 3
# Largest share of one value on either side, and least effective number of values: columns of which
# one is filled and the other 0, or flags that exclude each other, change places by nature.
_ATOM, _MANY_NUMBERS, _MANY_WORDS = 0.5, 6.0, 3.0
_STEPS, _SETTLED, _FOLDS = 200, 1e-7, 5
# Values of the pooled distribution that smooth each; of independent columns the best counts.
_WEIGHTS = (1.0, 10.0, 100.0, 1e3, 1e5)
# Share of the rows in which both columns hold numbers, or dates, for these to be compared, and
# log-odds that the sign of a difference gives.
_COMPARED, _SURE = 0.9, 10.0
# A difference is small below this share of the median one. No middle: at most this share is small.
_SMALL, _HOLE = 0.25, 0.02
# A step at zero: share of the differences that counts as small, largest share of the smaller side
# among them, largest share of equal values, and least number of different small ones.
_LOW, _ONE_SIDED, _EQUAL, _DISTINCT = 0.2, 0.45, 0.02, 5
# Distance between the distributions of differences on either side that sampling explains (the
# critical value of Kolmogorov and Smirnov at 1%), and what may be added to it.
_CRITICAL, _SLACK = 1.63, 0.03
# Standard errors within which two shares are equal.
_ERRORS = 3.0


@dataclass(frozen=True)
class Division:
    """Two columns whose values change places between two sorts of rows.

    Attributes
    ----------
    a, b : int
        The columns.
    probability : ndarray of shape (n,)
        Of every row, to be one of the smaller side.
    """

    cause = SCATTERED

    a: int
    b: int
    probability: np.ndarray

    @property
    def rows(self):
        """Rows of the smaller side."""
        return np.flatnonzero(self.probability > 0.5)

    @property
    def share(self):
        """Share of the smaller side among all rows."""
        return len(self.rows) / len(self.probability)

    @property
    def examples(self):
        """The first clear row of the larger side, and that of the smaller."""
        return int(np.argmin(self.probability)), int(np.argmax(self.probability))

    def unlike(self, row):
        """Return the same, told of the side to which a row does not belong."""
        turn = self.probability[row] > 0.5
        return Division(self.a, self.b, 1 - self.probability if turn else self.probability)


def find_divisions(cells):
    """Return the divided pairs of columns; a column is in one of them at most."""
    n, p = cells.shape
    if n < _FEWEST or not 2 <= p <= _MOST_COLUMNS:
        return []
    some = cells.take(some_rows(n))
    found: list[Division] = []
    for a, b in _candidates(some):
        taken = {column for each in found for column in (each.a, each.b)}
        if not taken & {a, b} and divide_pair(some, a, b) is not None:
            found.append(divide_pair(cells, a, b, told=True))
    return found


def divide_pair(cells, a, b, *, told=False):
    """Divide the rows by which of two columns holds which values.

    Parameters
    ----------
    cells : Cells
        The table.
    a, b : int
        The columns.
    told : bool
        Whether it is known that they are divided; else None is returned unless it is clear.

    Returns
    -------
    Division or None
    """
    first, second = kinds_of(cells.classes[:, a]), kinds_of(cells.classes[:, b])
    used = (first != MISSING) & (second != MISSING)
    compared = max(
        ((first == kind) & (second == kind) for kind in (NUMBER, DATE)), key=np.count_nonzero
    )
    if np.count_nonzero(compared) >= max(_COMPARED * np.count_nonzero(used), 1):
        odds = _by_difference(cells.values[:, a], cells.values[:, b], compared, told=told)
    else:
        odds = _by_values(cells.columns([a, b]), used, told=told)
    if odds is None:
        return None
    return Division(a, b, expit(odds if np.mean(odds > 0) <= 0.5 else -odds))


def some_rows(n):
    """Return the rows of a large table that are looked at."""
    return np.sort(np.random.default_rng(0).permutation(n)[:_ROWS])


def _candidates(cells):
    """Pairs of columns that have enough values in common, most first."""
    table = bin_cells(cells)
    shares = np.exp(log_shares(table, slice(None)))
    shares = shares * (1 - np.mean(table.kinds == MISSING, axis=0))
    common = np.stack(
        [np.minimum(shares[:, [a]], shares).sum(axis=0) for a in range(len(shares.T))]
    )
    a, b = np.triu_indices(len(common), 1)
    order = np.argsort(-common[a, b], kind="stable")
    return [(int(a[k]), int(b[k])) for k in order if common[a[k], b[k]] >= _LEAST]


def _by_difference(x, y, rows, *, told):
    """Log-odds of every row, by which of two numbers is larger; None if that divides nothing."""
    if not told:
        if not _differ_two_ways(x[rows], y[rows]):
            return None
        sides = np.minimum(x, y)[rows], np.maximum(x, y)[rows]
        counts = [np.unique(side, return_counts=True)[1] for side in sides]
        if not all(_diverse(each, _MANY_NUMBERS) for each in counts):
            return None
    # The sign is sure, but for rows that are odd anyway.
    return np.where(rows, _SURE * np.sign(x - y), 0.0)


def _by_values(pair, used, *, told):
    """Log-odds of every row, by two sorts of values; None if there are none."""
    words, codes = pair.vocabulary()
    bins = _bins(words, codes)
    x, y = bins[codes].T
    rows = np.flatnonzero(used)
    if len(rows) < _FEWEST:
        return None
    fitted = rows[some_rows(len(rows))]
    mixture = _fit(x[fitted], y[fitted], len(bins))
    # Equal values are as they are either way.
    odds = np.where(used & (x != y), mixture.odds(x, y), 0.0)
    if told or _two_sorts(mixture, x[fitted], y[fitted], codes[fitted], len(bins)):
        return odds
    return None


def _two_sorts(mixture, x, y, codes, size):
    """Whether it is clear that rows have one value of either sort, in either order."""
    turned = expit(mixture.odds(x, y))
    share = turned.mean()
    needed = max(_SEPARATED * _entropy(share), _NEEDED / len(x))
    if min(share, 1 - share) < _LEAST or mixture.gain(x, y) < _PROMISING * needed:
        return False
    for one, other in (codes.T, codes.T[::-1]):
        counts = np.bincount(one, 1 - turned, size) + np.bincount(other, turned, size)
        if not _diverse(counts, _MANY_WORDS):
            return False
    if not _one_answer(x, y, turned, size):
        return False
    # Once more, judged by rows that the fit has not seen.
    gains, fold = np.zeros(len(x)), np.arange(len(x)) % _FOLDS
    for k in range(_FOLDS):
        learned = _fit(x[fold != k], y[fold != k], size)
        gains[fold == k] = learned.gain(x[fold == k], y[fold == k])
    return np.mean(gains) >= needed


def _one_answer(x, y, turned, size):
    """Whether the sides of values that never meet are known relative to each other.

    Towns of different countries never meet, for instance. Each such part must have its smaller side
    where the whole has, or nearly all rows must be in one part.
    """
    from scipy.sparse.csgraph import connected_components

    pairs = _meetings(x, y, size)
    parts = connected_components(pairs, directed=False)[1][x]
    rows = np.bincount(parts)
    if rows.max() >= _ONE_PART * len(x):
        return True
    share = np.bincount(parts, turned) / np.maximum(rows, 1)
    share = share if turned.mean() <= 0.5 else 1 - share
    clear = share + _ERRORS * np.sqrt(0.25 / np.maximum(rows, 1)) <= 0.5
    return np.sum(rows[clear]) >= _ONE_PART * len(x)


def _bins(words, codes):
    """Bin of every word: its own if it is seen several times, else that of its pattern."""
    counts = np.bincount(codes.ravel(), minlength=len(words))
    patterns = words.kinds.astype(np.int64)
    mine = np.flatnonzero(words.texts >= 0)
    if len(mine):
        distinct = np.unique(prepare_texts(words.text_list).pattern, return_inverse=True)[1]
        patterns[mine] = len(words.kinds) + distinct[words.texts[mine]]
    own = np.where(counts >= _SEEN, -1 - np.arange(len(words)), patterns)
    return np.unique(own, return_inverse=True)[1]


@dataclass(frozen=True)
class _Mixture:
    """Logarithms of f and g, of the marginal distributions, one row per smoothing, and w."""

    f: np.ndarray
    g: np.ndarray
    first: np.ndarray
    second: np.ndarray
    share: float

    def odds(self, x, y):
        prior = np.log(self.share) - np.log1p(-self.share)
        return prior + self.g[x] + self.f[y] - self.f[x] - self.g[y]

    def gain(self, x, y):
        """Log-likelihood per row beyond that of independent columns."""
        as_is = np.log1p(-self.share) + self.f[x] + self.g[y]
        turned = np.log(self.share) + self.g[x] + self.f[y]
        independent = np.mean(self.first[:, x] + self.second[:, y], axis=1)
        return np.mean(np.logaddexp(as_is, turned)) - independent.max()


def _fit(x, y, size):
    """The mixture with the best likelihood, of two starts."""
    first, second = np.bincount(x, minlength=size), np.bincount(y, minlength=size)
    pooled = (first + second + 0.5) / (len(x) * 2 + 0.5 * size)
    marginals = [
        np.stack([_log_shares(counts, pooled, weight) for weight in _WEIGHTS])
        for counts in (first, second)
    ]
    contrast = marginals[1][0] - marginals[0][0]
    starts = [expit(contrast[x] - contrast[y]), _meeting(x, y, size)]
    fits = [_expectation_maximisation(x, y, start, pooled, marginals) for start in starts]
    return max(fits, key=lambda each: each.gain(x, y))


def _expectation_maximisation(x, y, turned, pooled, marginals):
    last, size = -np.inf, len(pooled)
    for _ in range(_STEPS):
        f = np.bincount(x, 1 - turned, size) + np.bincount(y, turned, size)
        g = np.bincount(y, 1 - turned, size) + np.bincount(x, turned, size)
        share = float(np.clip(turned.mean(), 1e-6, 1 - 1e-6))
        first, second = marginals
        mixture = _Mixture(_log_shares(f, pooled), _log_shares(g, pooled), first, second, share)
        gain = mixture.gain(x, y)
        if gain - last < _SETTLED:
            break
        last, turned = gain, expit(mixture.odds(x, y))
    return mixture


def _log_shares(counts, pooled, weight=_WEIGHTS[0]):
    """Logarithm of shares, smoothed by a number of values of the pooled distribution."""
    return np.log((counts + weight * pooled) / (counts.sum() + weight))


def _meeting(x, y, size):
    """Start with two sorts of values that meet each other in rows."""
    from scipy.sparse.linalg import ArpackError, eigsh

    pairs = _meetings(x, y, size)
    pairs = pairs + pairs.T
    scale = 1 / np.sqrt(np.maximum(pairs.sum(axis=1), 1))
    pairs = pairs.multiply(scale[:, None]).multiply(scale[None, :]).tocsr()
    try:
        start = np.random.default_rng(0).standard_normal(size)
        v = eigsh(pairs, k=1, which="SA", v0=start, maxiter=200, tol=1e-3)[1][:, 0] * scale
    except (ArpackError, ValueError, TypeError):  # a tiny or a stubborn matrix
        return np.full(len(x), 0.5)
    return np.where(v[y] > v[x], 0.95, 0.05)


def _meetings(x, y, size):
    """How often every two values meet in a row, as a sparse matrix."""
    # Imported where it is needed, as its companions above: tables of numbers do without.
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(x)), (x, y)), shape=(size, size))


def _entropy(share):
    return float(entr(share) + entr(1 - share))


def _diverse(counts, many):
    """Whether there are many values, of which none is too frequent."""
    shares = counts / max(counts.sum(), 1)
    return shares.max() <= _ATOM and np.sum(shares**2) <= 1 / many


def _differ_two_ways(x, y):
    """Whether numbers differ as they do where two columns are exchanged in a part of the rows."""
    below = np.count_nonzero(x < y) / max(int(np.count_nonzero(x != y)), 1)
    if len(x) < _FEWEST or min(below, 1 - below) < _LEAST:
        return False
    views = [x - y] + ([np.log(x / y)] if np.all(x > 0) and np.all(y > 0) else [])
    if not any(_has_hole_or_step(view) for view in views):
        return False
    # An exchange leaves the two values what they are: whichever is larger.
    low, high = np.minimum(x, y), np.maximum(x, y)
    return all(_alike(part[x < y], part[x > y]) for part in (low, high, *np.abs(views)))


def _alike(one, other):
    """Whether two samples may come from one distribution."""
    both, one, other = np.append(one, other), np.sort(one), np.sort(other)
    shares = [np.searchsorted(part, both, side="right") / len(part) for part in (one, other)]
    allowed = _CRITICAL * np.sqrt(1 / len(one) + 1 / len(other)) + _SLACK
    return bool(np.max(np.abs(shares[0] - shares[1])) <= allowed)


def _has_hole_or_step(differences):
    sizes = np.sort(np.abs(differences))
    return _has_hole(sizes) or _has_step(differences, sizes)


def _has_hole(sizes):
    """Whether hardly any difference is small; sizes are in order."""
    return np.searchsorted(sizes, _SMALL * _quantile(sizes, 0.5)) <= _HOLE * len(sizes)


def _has_step(differences, sizes):
    """Whether small differences lie on one side of zero as often as large ones do."""
    if np.searchsorted(sizes, 0.0, side="right") > _EQUAL * len(sizes):
        return False
    below = np.count_nonzero(differences < 0) / len(differences)
    small = differences[np.abs(differences) <= _quantile(sizes, _LOW)]
    error = _ERRORS * np.sqrt(max(below * (1 - below), 0.01) / len(small))
    here = np.count_nonzero(small < 0) / len(small)
    one_sided = max(min(share, 1 - share) for share in (here, below)) + error <= _ONE_SIDED
    return abs(here - below) <= error and one_sided and len(np.unique(small)) >= _DISTINCT


def _quantile(ordered, share):
    """Like `numpy.quantile`, which takes much longer, of values in order."""
    place = share * (len(ordered) - 1)
    first = int(place)
    high = ordered[min(first + 1, len(ordered) - 1)]
    return high - (high - ordered[first]) * (first + 1 - place)
