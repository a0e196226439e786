r"""What one column of a table looks like: the shape of its values, and how they are written.

A value v in column j is worth

.. math:: \ell_j(v) = \log\varphi_j'(v) - \log s_j + \log P_j(\text{class of } v),
          \qquad z_j(v) = (\varphi_j(v) - m_j) / s_j ,

where φ_j is the identity, the square root or the logarithm, whichever makes the bulk of the
column most likely, and the class is how the value is written: its number of decimal places, or
that it is missing, or text. The density of z is left to the joint model. The Jacobian φ' makes
columns with different transforms comparable when a value moves from one to another.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

__all__ = [
    "FORBIDDEN",
    "N_CLASSES",
    "Columns",
    "cell_classes",
    "fit_columns",
    "place_values",
    "standardise",
]

# log-probability of what may never happen; finite, so that differences stay numbers.
FORBIDDEN = -1e6
# Classes of cells: 0 … 7 decimal places, 8 for more, then the others. Longer fractions are the
# rounding errors of the magnitude, which the density already knows.
_MANY = 8
_UNKNOWN, _UNKNOWN_FRACTION, _MISSING, _FOREIGN = 9, 10, 11, 12
N_CLASSES = 13
_RAW, _ROOT, _LOG = 0, 1, 2
# Standardised values are clipped: beyond, every value is equally impossible.
_LARGEST, _UNDEFINED = 1e5, 100.0
# Values beyond would overflow in differences.
_HUGE = 1e300
# Distance from the median, in scales, up to which a value counts as near.
_NEAR = 5.0
# Share of zeros above which a column is no transformed continuous one.
_MAX_ZEROS = 0.1
# A transform has to be better than none by this log-likelihood of the whole column.
_BETTER = 1.0


@dataclass(frozen=True)
class Columns:
    """Shape of every column; arrays of shape (p,) except `evidence`.

    Attributes
    ----------
    kind : ndarray of int
        0: values as they are, 1: square root, 2: logarithm.
    offset : ndarray
        Added before the transform, so that 0 is allowed.
    location, scale : ndarray
        Of the transformed values.
    outside : ndarray
        log-probability of a value for which the transform is undefined.
    floor : ndarray
        Rounding noise in units of `scale`.
    evidence : ndarray of shape (N_CLASSES, p)
        log-probability of every class of cells.
    """

    kind: np.ndarray
    offset: np.ndarray
    location: np.ndarray
    scale: np.ndarray
    outside: np.ndarray
    floor: np.ndarray
    evidence: np.ndarray


def cell_classes(values, decimals=None, foreign=None):
    """Class of every cell, as int8."""
    if decimals is None:
        classes = _count_decimals(values)
    else:
        classes = np.minimum(decimals, _MANY).astype(np.int8)
        unknown = classes < 0
        classes[unknown] = _UNKNOWN
        fraction = unknown & (values != np.floor(values))
        classes[fraction] = _UNKNOWN_FRACTION
    classes[np.isnan(values)] = _MISSING
    if foreign is not None:
        classes[foreign] = _FOREIGN
    return classes


def fit_columns(values, classes, weights, integer, no_null):
    """Learn every column from records with given weights (0: damaged)."""
    p = values.shape[1]
    columns = Columns(
        np.zeros(p, dtype=np.int64), np.zeros(p), np.zeros(p), np.ones(p), np.zeros(p), np.zeros(p),
        _evidence(classes, weights, integer, no_null),
    )  # fmt: skip
    kept = weights > 0.5
    for j in range(p):
        v = values[kept, j]
        seen = ~np.isnan(v)
        if np.count_nonzero(seen) > 2:
            finite = np.clip(v[seen], -_HUGE, _HUGE)
            _fit_column(columns, j, finite, classes[kept, j][seen])
    return columns


def standardise(columns, values):
    """Every value in its own column: z (NaN if missing), and the sum of ℓ without the classes."""
    z = np.empty_like(values)
    worth = np.zeros(len(values))
    _standardise(
        values, columns.kind, columns.offset, columns.location, columns.scale, columns.outside,
        z, worth,
    )  # fmt: skip
    return z, worth


def _fit_column(columns, j, v, classes):
    """Choose the transform of column j by the trimmed likelihood; writes into `columns`."""
    places, spread = np.quantile(classes, 0.95), _robust_scale(v)
    unit = 10.0**-places if places < _MANY else 1e-9 * spread
    unit = max(unit, 1e-12 * float(np.max(np.abs(v))), 1e-300)
    low, middle, high = np.quantile(v, (0.05, 0.5, 0.95))
    bulk = v[(v >= low) & (v <= high) & (np.abs(v - middle) <= _NEAR * spread)]
    best = -np.inf
    for kind in (_RAW, _ROOT, _LOG):
        undefined = np.zeros(0) if kind == _RAW else v[v < 0] if kind == _ROOT else v[v <= 0]
        # Values far below come from elsewhere; one near the others shows that they belong.
        near = np.any(undefined > middle - _NEAR * spread)
        if kind != _RAW and (low < 0 or near or np.mean(v == 0) > _MAX_ZEROS):
            continue
        offset = _offset(kind, v, unit)
        transformed = _transform(kind, v, offset)
        location, scale = float(np.median(transformed)), _robust_scale(transformed)
        slope = float(_slope(kind, np.array([middle]), offset)[0])
        scale = max(scale, unit * slope, 1e-9 * abs(location))
        z = (_transform(kind, bulk, offset) - location) / scale
        # Student's t with 4 degrees of freedom: the tails of the bulk should not decide.
        logs = -2.5 * np.log1p(z**2 / 4) + np.log(_slope(kind, bulk, offset)) - np.log(scale)
        value = float(np.mean(logs)) - (kind != _RAW) * _BETTER / len(v)
        if value > best:
            best = value
            columns.kind[j], columns.offset[j] = kind, offset
            columns.location[j], columns.scale[j] = location, scale
            columns.outside[j] = np.log((len(undefined) + 0.5) / (len(v) + 1))
            columns.floor[j] = _rounding(unit * slope / scale)


def _offset(kind, v, unit):
    """Half a unit of the last place; more for roots of 0, whose slope must not be a spike."""
    positive = v[v > 0]
    if kind != _ROOT or len(positive) == len(v) or not len(positive):
        return unit / 2
    return max(unit / 2, 0.1 * float(np.quantile(positive, 0.05)))


def _rounding(unit):
    """Noise of values rounded to a unit: uniform, if the column is much wider than that.

    Where it is not, the few values it takes are no sums of many small effects: a step to the next
    one is nothing unusual.
    """
    return unit * np.sqrt(1 / 12 + unit**2 / (1 + unit**2))


def _robust_scale(v):
    """Median absolute deviation, or half the distance between the nearest quantiles that differ."""
    scale = 1.4826 * float(np.median(np.abs(v - np.median(v))))
    for tail, width in ((0.1, 2.563), (0.02, 4.107), (0.0, 6.0)):
        if scale > 0:
            break
        low, high = np.quantile(v, (tail, 1 - tail))
        scale = float(high / width - low / width)
    return scale


def _transform(kind, v, offset):
    shifted = np.maximum(v + offset, offset / 2)
    return v if kind == _RAW else np.sqrt(shifted) if kind == _ROOT else np.log(shifted)


def _slope(kind, v, offset):
    shifted = np.maximum(v + offset, offset / 2)
    return (
        np.ones_like(v)
        if kind == _RAW
        else 0.5 / np.sqrt(shifted)
        if kind == _ROOT
        else 1 / shifted
    )


def _evidence(classes, weights, integer, no_null):
    """log P(class | column), smoothed by one cell of the average column."""
    p = classes.shape[1]
    counts = np.zeros((N_CLASSES, p))
    for j in range(p):
        counts[:, j] = np.bincount(classes[:, j], weights=weights, minlength=N_CLASSES)
    total = counts.sum(axis=0)
    # How values are written is judged among those seen; whether they are seen, among all.
    evidence = np.zeros((N_CLASSES, p))
    seen = counts[: _MANY + 1]
    pooled = (seen.sum(axis=1) + 0.1) / (seen.sum() + 0.1 * (_MANY + 1))
    evidence[: _MANY + 1] = np.log((seen + pooled[:, None]) / (seen.sum(axis=0) + 1.0))
    absent = (counts[_MISSING:] + 0.5) / (total + 1.5)
    evidence[:_MISSING] += np.log1p(-np.minimum(absent.sum(axis=0), 1 - 1e-9))
    evidence[_MISSING:] = np.log(absent)
    fractions = [*range(1, _MANY + 1), _UNKNOWN_FRACTION]
    evidence[np.ix_(fractions, np.flatnonzero(integer))] = FORBIDDEN
    evidence[_MISSING:, no_null] = FORBIDDEN
    return evidence


@njit(cache=True, nogil=True)
def _place(v, kind, offset, location, scale, outside):
    """z and the worth of value v in a column."""
    shifted, worth = v + offset, 0.0
    if kind == _RAW:
        z = (v - location) / scale
    elif shifted < 0.5 * offset:
        # Undefined here: far below all others, with the slope of an average value.
        z = -_UNDEFINED
        worth = outside - (np.log(2.0 * location) if kind == _ROOT else location)
    elif kind == _ROOT:
        root = np.sqrt(shifted)
        z = (root - location) / scale
        worth = -np.log(2.0 * root)
    else:
        logarithm = np.log(shifted)
        z = (logarithm - location) / scale
        worth = -logarithm
    return min(max(z, -_LARGEST), _LARGEST), worth - np.log(scale)


@njit(cache=True, nogil=True)
def place_values(x, classes, kind, offset, location, scale, outside, evidence, z, worth):
    """z and worth of every value (row) in every column; writes both, a missing value has z = 0."""
    p = len(x)
    for i in range(p):
        for j in range(p):
            worth[i, j] = evidence[classes[i], j]
            z[i, j] = 0.0
            if x[i] == x[i]:
                z[i, j], own = _place(x[i], kind[j], offset[j], location[j], scale[j], outside[j])
                worth[i, j] += own


@njit(cache=True, nogil=True)
def _standardise(values, kind, offset, location, scale, outside, z, worth):
    n, p = values.shape
    for i in range(n):
        for j in range(p):
            v = values[i, j]
            z[i, j] = np.nan
            if v == v:
                z[i, j], own = _place(v, kind[j], offset[j], location[j], scale[j], outside[j])
                worth[i] += own


@njit(cache=True, nogil=True)
def _count_decimals(values):
    """Decimal places of the shortest decimal fraction equal to the value."""
    n, p = values.shape
    classes = np.empty((n, p), dtype=np.int8)
    for i in range(n):
        for j in range(p):
            v, places = abs(values[i, j]), 0
            factor = 1.0
            while places < _MANY:
                scaled = v * factor
                if not abs(scaled - np.rint(scaled)) > 4e-16 * scaled:
                    break
                places += 1
                factor *= 10.0
            classes[i, j] = places
    return classes
