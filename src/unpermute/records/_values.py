r"""Value models: the probability of any cell in any column.

Repeated values have a mass of their own, all others a density (Kneser and Ney's discounting, see
:func:`unpermute.records._text.kneser_ney`):

.. math:: p_c(v) = \frac{\max(k_v - \delta, 0) + (\delta D + ½)\, b_c(v)}{n + ½}\; P_c(style).

b_c, learned from the distinct values of the column, is the probability of the class (decimal
places, date, text, missing) times a density of numbers or dates at the precision of the cell, or
the probability of the text. A record is judged by a model that it did not shape: its own cell is
subtracted from all counts, and texts are judged by the texts of the other folds.
"""

from dataclasses import dataclass

import numpy as np

from unpermute.records._cells import (
    _MISSING_CLASS,
    _TEXT_CLASS,
    DATE,
    N_CLASSES,
    NUMBER,
    TEXT,
    kinds_of,
)
from unpermute.records._smooth import Smooth, fit_smooth
from unpermute.records._text import TextModel, fit_texts, kneser_ney, prepare_texts

__all__ = ["LookedUp", "ValueModel", "fit_values"]

N_FOLDS = 4
# Weight of the prior expectation, in occurrences, for classes and styles.
_CLASS_WEIGHT = 0.2
# A density above this at one value would beat a mass: b is a probability.
_HIGHEST = -0.1


@dataclass(frozen=True)
class ValueModel:
    """What one column holds.

    Attributes
    ----------
    total, n_distinct, n_once, n_twice : float
        Cells learned from, distinct ones, and those seen once and twice.
    numbers, dates : tuple of two ndarrays
        Distinct values in order, and how often they occur.
    texts : dict of str to float
        How often every text occurs.
    n_missing : float
        Missing cells.
    classes : ndarray of shape (N_CLASSES,)
        Distinct values of every class.
    styles : dict of str to float
        Cells of every style.
    smooth : dict of int to Smooth
        Density of NUMBER and of DATE cells, where the column has some.
    text_models : list of TextModel
        Without the texts of fold 0, 1, …, and of all folds; empty if the column has no text.
    """

    total: float
    n_distinct: float
    n_once: float
    n_twice: float
    numbers: tuple[np.ndarray, np.ndarray]
    dates: tuple[np.ndarray, np.ndarray]
    texts: dict[str, float]
    n_missing: float
    classes: np.ndarray
    styles: dict[str, float]
    smooth: dict[int, Smooth]
    text_models: list[TextModel]

    def look_up(self, words, prepared, style_names):
        """Return a vocabulary, its texts and the names of its styles looked up in the column."""
        return LookedUp(self, words, prepared, style_names)

    def combined(self, counts, used, base, words, style_names, single=0.0):
        """Kneser-Ney probability times that of the style, in logarithms."""
        probability = kneser_ney(
            counts, self.total - used, self.n_distinct - single, self.n_once - single,
            self.n_twice, np.exp(base),
        )  # fmt: skip
        return np.log(probability + 1e-300) + self._log_style(words, style_names, used)

    def occurrences(self, words):
        """How often every word occurs in the column."""
        kinds = words.kinds
        counts = np.where(words.classes == _MISSING_CLASS, self.n_missing, 0.0)
        for kind, (values, times) in ((NUMBER, self.numbers), (DATE, self.dates)):
            mine = np.flatnonzero(kinds == kind)
            if len(values) and len(mine):
                wanted = words.values[mine]
                places = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
                counts[mine] = np.where(values[places] == wanted, times[places], 0.0)
        if self.texts:
            for k in np.flatnonzero(kinds == TEXT):
                counts[k] = self.texts.get(words.text_list[words.texts[k]], 0.0)
        return counts

    def log_base(self, words, prepared):
        """Log-probability of every word as a new value of its class."""
        kinds, base = words.kinds, np.zeros(len(words))
        for kind in (NUMBER, DATE):
            mine = np.flatnonzero(kinds == kind)
            if not len(mine):
                continue
            values = words.values[mine]
            if kind in self.smooth:
                steps = words.log_steps[mine]
                density = self.smooth[kind].log_density(values, steps) + steps
            else:
                # Nothing is known but that small numbers are more common than large ones.
                density = -np.log(1e4) - 2 * np.log1p(np.abs(values))
            base[mine] = np.minimum(density, _HIGHEST)
        if prepared is not None:
            mine = np.flatnonzero(kinds == TEXT)
            model = self.text_models[-1] if self.text_models else _NO_TEXTS
            base[mine] = model.log_probability(prepared)[words.texts[mine]]
        return base

    def log_class(self, classes, without):
        counts = np.maximum(self.classes - without, 0.0) + _CLASS_WEIGHT
        total = self.n_distinct - without + _CLASS_WEIGHT * N_CLASSES
        return np.log(counts / max(total, _CLASS_WEIGHT * N_CLASSES))[classes]

    def _log_style(self, words, style_names, used):
        """Log-probability of the style of numbers and dates; other cells have no style."""
        if len(style_names) < 2:
            return 0.0
        counts = np.array([self.styles.get(name, 0.0) for name in style_names])[words.styles]
        dressed = words.classes < _TEXT_CLASS
        total = sum(self.styles.values()) + _CLASS_WEIGHT * len(style_names)
        share = (np.maximum(counts - used, 0.0) + _CLASS_WEIGHT) / np.maximum(total - used, 1e-9)
        return np.where(dressed, np.log(share), 0.0)


class LookedUp:
    """A vocabulary looked up in a column, once for both of its probabilities.

    Parameters
    ----------
    model : ValueModel
        The column.
    words, prepared, style_names
        The vocabulary, its texts, and the names of its styles.
    """

    def __init__(self, model, words, prepared, style_names):
        self.model, self.words, self.prepared = model, words, prepared
        self.style_names = style_names
        self.counts, self.base = model.occurrences(words), model.log_base(words, prepared)
        self.by_fold: dict[int, np.ndarray] = {}

    def log_probability(self):
        """Return the log-probability of every word if it came from elsewhere.

        One occurrence is left out, as it is of the column's own cells: a value that occurs once may
        belong to a damaged record, and two records with the same values would convict each other.
        """
        model, words, base = self.model, self.words, self.base.copy()
        once = np.flatnonzero((self.counts == 1) & (words.classes == _TEXT_CLASS))
        if len(once):
            # One of the models was learned without it.
            base[once] = np.min([self._without(k, once) for k in range(N_FOLDS)], axis=0)
        base += model.log_class(words.classes, 0)
        counts = np.maximum(self.counts - 1, 0.0)
        return model.combined(counts, np.zeros(1), base, words, self.style_names)

    def log_own(self, codes, used, fold):
        """Return the log-probability of the column's own cells, each left out where `used`.

        Parameters
        ----------
        codes : ndarray of shape (n,)
            Words of the column.
        used : ndarray of bool of shape (n,)
            Records that the model was learned from.
        fold : ndarray of int of shape (n,)
            Fold of every record; N_FOLDS: none.
        """
        model, classes = self.model, self.words.classes[codes]
        counts = self.counts[codes] - used
        single = (counts <= 0) & used
        base, is_text = self.base[codes], classes == _TEXT_CLASS
        for k in range(N_FOLDS if model.text_models else 0):
            rows = np.flatnonzero(is_text & used & (fold == k))
            if len(rows):
                base[rows] = self._without(k, codes[rows])
        base += np.where(single, model.log_class(classes, 1), model.log_class(classes, 0))
        mine = _Picked(self.words.styles[codes], classes)
        return model.combined(counts, used.astype(float), base, mine, self.style_names, single)

    def _without(self, fold, words):
        """Log-probability of words that are texts, by the texts of the other folds."""
        if fold not in self.by_fold:
            self.by_fold[fold] = self.model.text_models[fold].log_probability(self.prepared)
        return self.by_fold[fold][self.words.texts[words]]


@dataclass(frozen=True)
class _Picked:
    """Styles and classes of cells, as a vocabulary has them of its words."""

    styles: np.ndarray
    classes: np.ndarray


_NO_TEXTS = fit_texts(prepare_texts([]), np.zeros(0, dtype=np.int64))


def fit_values(words, prepared, style_names, codes, used, fold):
    """Learn the value model of one column.

    Parameters
    ----------
    words, prepared, style_names
        The vocabulary, its texts, and the names of its styles.
    codes : ndarray of shape (n,)
        Words of the column.
    used : ndarray of bool of shape (n,)
        Records to learn from.
    fold : ndarray of int of shape (n,)
        Fold of every record.

    Returns
    -------
    ValueModel
    """
    counts = np.bincount(codes[used], minlength=len(words)).astype(float)
    types = np.flatnonzero(counts > 0)
    kinds = kinds_of(words.classes[types])
    tables, smooth = {}, {}
    for kind in (NUMBER, DATE):
        mine = types[kinds == kind]
        tables[kind] = _summed(words.values[mine], counts[mine])
        if len(mine):
            smooth[kind] = fit_smooth(tables[kind][0])
    mine = types[kinds == TEXT]
    models = []
    for k in range(N_FOLDS if len(mine) else 0):
        kept = np.unique(codes[used & (fold != k)])
        models.append(_fit_some(words, prepared, kept))
    if len(mine):
        models.append(_fit_some(words, prepared, types))
    dressed = types[kinds <= DATE]
    styles: dict[str, float] = {}
    for k in dressed if len(style_names) > 1 else []:
        name = style_names[words.styles[k]]
        styles[name] = styles.get(name, 0.0) + counts[k]
    return ValueModel(
        counts.sum(), float(len(types)), float(np.sum(counts == 1)), float(np.sum(counts == 2)),
        tables[NUMBER], tables[DATE],
        {words.text_list[words.texts[k]]: counts[k] for k in mine},
        float(counts[words.classes == _MISSING_CLASS].sum()),
        np.bincount(words.classes[types], minlength=N_CLASSES).astype(float),
        styles, smooth, models,
    )  # fmt: skip


def _summed(values, counts):
    """Distinct values in order, and how often they occur in all their styles."""
    distinct, places = np.unique(values, return_inverse=True)
    return distinct, np.bincount(places, weights=counts, minlength=len(distinct))


def _fit_some(words, prepared, types):
    texts = words.texts[types]
    return fit_texts(prepared, texts[texts >= 0])
