"""The cells of a table as arrays: a number, a date, a text, or nothing, and how it is written.

Every cell is read alone, whatever its column holds: a value that stands in the wrong column must
still be recognised for what it is. ``3``, ``3.0`` and the number 3 are the same cell.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

__all__ = ["DATE", "MISSING", "NUMBER", "N_CLASSES", "TEXT", "Cells", "Vocabulary", "number_cells"]

NUMBER, DATE, TEXT, MISSING = 0, 1, 2, 3
# Classes of cells: 0 … 8 decimal places (8 stands for more), a date, a text, no value.
_MOST_DECIMALS = 8
_DATE_CLASS, _TEXT_CLASS, _MISSING_CLASS = 9, 10, 11
N_CLASSES = 12
# Significant digits to which fractions are rounded: a number that passed through 32 bits has about
# seven, and equal values must stay equal.
_DIGITS = 7


@dataclass(frozen=True)
class Cells:
    """All cells of a table of n records and p columns.

    Attributes
    ----------
    values : ndarray of shape (n, p)
        Numbers, and dates as days; NaN for texts and missing cells.
    classes : ndarray of int8 of shape (n, p)
        Decimal places of a number, or the class of dates, texts and missing cells.
    styles : ndarray of int16 of shape (n, p)
        Currency, per cent, or format of a date: an index into `style_names`. 0: plain.
    texts : ndarray of int32 of shape (n, p)
        Index into `text_list`, -1 if the cell is no text.
    text_list : list of str
        Distinct texts.
    style_names : list of str
        Distinct styles; the first is "".
    """

    values: np.ndarray
    classes: np.ndarray
    styles: np.ndarray
    texts: np.ndarray
    text_list: list[str]
    style_names: list[str]

    @property
    def shape(self):
        """Number of records and of columns."""
        return self.values.shape

    def take(self, rows):
        """Return some of the records."""
        return self._each(lambda part: part[rows])

    def permuted(self, permutations):
        """Return the records with their cells moved: cell j receives cell permutations[:, j]."""
        return self._each(lambda part: np.take_along_axis(part, permutations, axis=1))

    def columns(self, places):
        """Return some of the columns."""
        return self._each(lambda part: part[:, places])

    def _each(self, change):
        """Return the cells with every array changed."""
        return replace(
            self, values=change(self.values), classes=change(self.classes),
            styles=change(self.styles), texts=change(self.texts),
        )  # fmt: skip

    def missing(self):
        """Return which cells hold no value."""
        return self.classes == _MISSING_CLASS

    def dates(self):
        """Return which cells hold a date."""
        return self.classes == _DATE_CLASS

    def vocabulary(self):
        """Return the distinct cells, and the place of every cell among them."""
        values = self.values.ravel()
        seen = ~np.isnan(values)
        # One whole number per cell: texts, missing cells, then numbers by rank, class and style.
        keys = self.texts.ravel().astype(np.int64)
        ranks = np.unique(values[seen], return_inverse=True)[1]
        first, n_styles = len(self.text_list), len(self.style_names)
        written = self.classes.ravel()[seen].astype(np.int64) * n_styles + self.styles.ravel()[seen]
        keys[seen] = first + ranks * (N_CLASSES * n_styles) + written
        keys, where, codes = np.unique(keys, return_index=True, return_inverse=True)
        parts = (self.values, self.classes, self.styles, self.texts)
        values, classes, styles, texts = (part.ravel()[where] for part in parts)
        mine = np.flatnonzero(texts >= 0)
        listed = [self.text_list[k] for k in texts[mine]]
        texts[mine] = np.arange(len(mine))
        words = Vocabulary(values, classes, styles, texts, listed)
        return words, codes.reshape(self.shape).astype(np.int64)


@dataclass(frozen=True)
class Vocabulary:
    """Distinct cells, as one column of :class:`Cells`, with a list of their own texts."""

    values: np.ndarray
    classes: np.ndarray
    styles: np.ndarray
    texts: np.ndarray
    text_list: list[str]

    def __len__(self):
        return len(self.values)

    @cached_property
    def kinds(self):
        """NUMBER, DATE, TEXT or MISSING of every cell."""
        return kinds_of(self.classes)

    @cached_property
    def log_steps(self):
        """Logarithm of the distance to the next value that can be written as precisely."""
        decimals = np.where(self.classes <= _MOST_DECIMALS, self.classes, 0)
        # A date is known to the day, or, with a time, to the second.
        timed = (self.classes == _DATE_CLASS) & (self.values != np.floor(self.values))
        return -decimals * np.log(10.0) - timed * np.log(86400.0)


def kinds_of(classes):
    """NUMBER, DATE, TEXT or MISSING of every cell."""
    kinds = np.full(np.shape(classes), NUMBER, dtype=np.int8)
    for kind, of_class in ((DATE, _DATE_CLASS), (TEXT, _TEXT_CLASS), (MISSING, _MISSING_CLASS)):
        kinds[classes == of_class] = kind
    return kinds


def number_cells(values):
    """Return the cells of a table of numbers; NaN is missing.

    Parameters
    ----------
    values : array of shape (n, p)
        The numbers.

    Returns
    -------
    Cells
    """
    values = rounded(np.array(values, dtype=float))
    values[np.isinf(values)] = np.nan
    classes = count_decimals(values)
    styles, texts = np.zeros(values.shape, np.int16), np.full(values.shape, -1, np.int32)
    texts[np.isnan(values)] = -2
    return Cells(values, classes, styles, texts, [], [""])


def rounded(values):
    """Fractions rounded to seven significant digits; whole numbers as they are."""
    with np.errstate(all="ignore"):
        exponents = np.floor(np.log10(np.abs(values)))
        exponents = np.nan_to_num(exponents, nan=0.0, posinf=0.0, neginf=0.0)
        factors = 10.0 ** np.clip(_DIGITS - 1 - exponents, 0, 300)
        short = np.round(values * factors) / factors
    keep = (values == np.floor(values)) | ~np.isfinite(short)
    return np.where(keep, values, short)


def count_decimals(values):
    """Return the class of numbers: the decimal places of the shortest equal fraction."""
    classes = np.full(values.shape, _MOST_DECIMALS, dtype=np.int8)
    with np.errstate(all="ignore"):
        for places in range(_MOST_DECIMALS - 1, -1, -1):
            apart = np.abs(np.round(values, places) - values)
            classes[apart <= 1e-12 * np.maximum(np.abs(values), 1e-3)] = places
    classes[np.isnan(values)] = _MISSING_CLASS
    return classes
