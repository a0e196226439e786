"""Say in words what speaks for a proposal."""

import numpy as np

from unpermute.records._model import place_cells

__all__ = ["explain"]

# A value so much likelier, as a log-ratio, under its new column is what a proposal rests on.
_TELLING = 2.0


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
    placed = place_cells(known.model, cells)
    words, _ = cells.vocabulary()
    p = len(names)
    places = np.arange(p)
    phrases = []
    for r, proposal in enumerate(proposals):
        moved = np.flatnonzero(proposal != places)
        if not len(moved):
            phrases.append("")
            continue
        origin = proposal[moved]
        codes = placed.codes[r, origin]
        gains = placed.log_p[codes, moved] - placed.log_p[codes, origin]
        k = int(np.argmax(gains))
        here, there = origin[k], moved[k]
        value = texts(r, here)
        shown = "an empty cell" if value is None else f"`{value}`"
        if gains[k] < _TELLING:
            phrases.append(
                f"the values fit better together with {names[there]} and {names[here]} exchanged"
                if len(moved) == 2
                else "the values fit better together in the proposed order"
            )
            continue
        count = known.model.values[here].occurrences(words)[placed.codes[r, here]]
        how = "never occurs in" if count <= 1 else "is rare in"
        phrases.append(f"{shown} {how} {names[here]}, fits {names[there]}")
    return phrases
