"""Say in words what speaks for a proposal."""

import numpy as np

from unpermute.records._cells import Vocabulary
from unpermute.records._model import place_cells

__all__ = ["explain"]

# A value so much likelier, as a log-ratio, under its new column is what a proposal rests on.
_TELLING = 2.0
# Records that are looked up at once: bounds the memory.
_BLOCK = 1000


def explain(known, cells, proposals, names, texts):
    """Return one phrase per record: the value that gains most by its move.

    Parameters
    ----------
    known : KnownRecords
        What was learned.
    cells : Cells
        The records.
    proposals : ndarray of int of shape (n, p)
        Where the values of their cells come from.
    names : list of str
        Columns.
    texts : function of two ints
        The text of a cell, by row and column.

    Returns
    -------
    list of str
    """
    phrases: list[str] = []
    for start in range(0, len(proposals), _BLOCK):
        rows = np.arange(start, min(start + _BLOCK, len(proposals)))
        part = cells.take(rows)
        phrases += _explain_some(
            known.model, part, proposals[rows], names,
            lambda r, column, first=start: texts(first + r, column),
        )  # fmt: skip
    return phrases


def _explain_some(model, cells, proposals, names, texts):
    placed, words = place_cells(model, cells), cells.vocabulary()[0]
    return [
        _phrase(model, placed, words, r, proposal, names, texts)
        for r, proposal in enumerate(proposals)
    ]


def _phrase(model, placed, words, r, proposal, names, texts):
    moved = np.flatnonzero(proposal != np.arange(len(names)))
    if not len(moved):
        return ""
    origin = proposal[moved]
    codes = placed.codes[r, origin]
    gains = placed.log_p[codes, moved] - placed.log_p[codes, origin]
    k = int(np.argmax(gains))
    here, there = int(origin[k]), int(moved[k])
    if gains[k] < _TELLING and len(moved) == 2:
        return f"the values fit better together with {names[there]} and {names[here]} exchanged"
    if gains[k] < _TELLING:
        return "the values fit better together in the proposed order"
    value = texts(r, here)
    shown = "an empty cell" if value is None else f"`{value}`"
    word = placed.codes[r, here]
    one = Vocabulary(
        words.values[[word]], words.classes[[word]], words.styles[[word]], words.texts[[word]],
        words.text_list,
    )  # fmt: skip
    how = "never occurs in" if model.values[here].occurrences(one)[0] <= 1 else "is rare in"
    return f"{shown} {how} {names[here]}, fits {names[there]}"
