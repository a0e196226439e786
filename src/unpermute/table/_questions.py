"""Exchanges of two columns that a person has to decide about, and the person's answers."""

from numbers import Integral

import numpy as np

from unpermute.files import cell_texts
from unpermute.records import Division

__all__ = ["describe_questions", "places_of_answers"]


def describe_questions(exchanges, frame, names):
    """Return every question as a dict.

    It has ``columns``, ``share`` (of the rows on the smaller side), ``first_row`` and ``last_row``
    (None if the rows are scattered), ``examples`` (a row of either side, and its two values),
    ``sentence`` and ``readings``: each says what may be so (``if``), and has the ``exchange`` to
    give to `repair` then.
    """
    return [_described(each, frame, names) for each in exchanges]


def _described(exchange, frame, names):
    columns = [names[exchange.a], names[exchange.b]]
    question = {"columns": columns, "share": float(exchange.share)}
    if isinstance(exchange, Division):
        rows = exchange.examples
        texts = cell_texts(frame, columns, np.repeat(rows, 2), np.array([0, 1, 0, 1]))
        values = [list(texts[:2]), list(texts[2:])]
        question |= {
            "first_row": None,
            "last_row": None,
            "examples": [{"row": r, "values": v} for r, v in zip(rows, values, strict=True)],
            "readings": [
                {"if": f"{' and '.join(columns)} are right in row {r}", "exchange": [(*columns, r)]}
                for r in rows
            ],
        }
    else:
        first, last = exchange.first, exchange.last
        parts = {"these rows": [(first, last)], "the other rows": _outside(first, last, len(frame))}
        question |= {
            "first_row": first,
            "last_row": last,
            "examples": [],
            "readings": [
                {
                    "if": f"{' and '.join(columns)} are exchanged in {which}",
                    "exchange": [(*columns, *rows) for rows in part],
                }
                for which, part in parts.items()
            ],
        }
    return question | {"sentence": _sentence(question)}


def _outside(first, last, n_rows):
    return [part for part in ((0, first - 1), (last + 1, n_rows - 1)) if part[0] <= part[1]]


def _sentence(question):
    a, b = question["columns"]
    first, last, share = question["first_row"], question["last_row"], question["share"]
    where = (
        f"in {share:.0%} of the rows, scattered over the table,"
        if first is None
        else f"between row {first:,} and row {last:,} ({share:.0%} of the table)"
    )
    return (
        f"{a} and {b} seem to be exchanged {where} compared with the other rows. The table"
        " does not tell which of the two is right, so nothing was changed there."
    )


def places_of_answers(exchange, names, n_rows):
    """Return the exchanges that a person has named, with columns by place.

    Parameters
    ----------
    exchange : list of tuple or None
        Two columns, and the first and last row of a run or one row in which they are right.
    names : list of str
        Columns that are judged.
    n_rows : int
        Rows of the table.

    Returns
    -------
    list of tuple of int
    """
    places = []
    for each in exchange or ():
        if not isinstance(each, tuple | list) or len(each) not in (3, 4):
            raise ValueError(f"exchange: {each!r} must be two columns and one or two rows.")
        a, b, *rows = each
        for name in (a, b):
            if name not in names:
                raise ValueError(f"exchange names {name!r}, which is not a column that is judged.")
        if a == b:
            raise ValueError(f"exchange names {a!r} twice; name two columns.")
        whole = all(isinstance(row, Integral) for row in rows)
        if not whole or not 0 <= rows[0] <= rows[-1] < n_rows:
            said = " to ".join(str(row) for row in rows)
            raise ValueError(f"exchange: rows {said} are not rows of the table.")
        places.append((names.index(a), names.index(b), *map(int, rows)))
    return places
