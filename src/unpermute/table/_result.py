"""What `scan` and `repair` return: frames of the type that was given, and plain words."""

from dataclasses import dataclass
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

__all__ = ["Moves", "TableModel", "TableResult", "changes_frame", "move_cells"]


@dataclass(frozen=True)
class TableResult:
    """What was found in a table.

    Attributes
    ----------
    frame : data frame
        The table with the changes made (`repair`), or as it was (`scan`).
    changes : data frame
        One line per cell that receives another value: ``row`` (from 0), ``id``, ``column``,
        ``old``, ``new``, ``moved_from`` (the column of the same row, or the row of the same column,
        that the value comes from), ``confidence`` and ``cause``. Values are given as text.
    vectors : data frame
        One line per suspicious record or column, worst first: ``vector`` (its id or name), ``row``,
        ``score``, ``status`` ("recovered" or "uncertain"), ``subspace``, ``confidence``, ``moved``
        (number of cells) and ``cause``.
    summary : dict
        The same in short: ``sentence``, counts, ``structure`` (how much can be told at all),
        ``notes`` and ``settings``.
    model : TableModel or None
        What was learned about the columns, to be used again.
    """

    frame: Any
    changes: Any
    vectors: Any
    summary: dict[str, Any]
    model: Any = None

    def __repr__(self):
        return f"TableResult: {self.summary['sentence']}"


@dataclass(frozen=True)
class TableModel:
    """What was learned about the columns of a table.

    Attributes
    ----------
    names : list of str
        The columns.
    records : RecordModel
        Their joint distribution.
    """

    names: list[str]
    records: Any


@dataclass(frozen=True)
class Moves:
    """Cells that receive another value, by position; all arrays have one entry per cell.

    Attributes
    ----------
    row, column : ndarray of int
        The cell.
    from_row, from_column : ndarray of int
        Where its new value comes from.
    confidence : ndarray of float
    cause : ndarray of str
    """

    row: np.ndarray
    column: np.ndarray
    from_row: np.ndarray
    from_column: np.ndarray
    confidence: np.ndarray
    cause: np.ndarray


def move_cells(frame, names, moves):
    """Return the frame with the cells moved; types, index and order of the columns stay."""
    changed = []
    for column in np.unique(moves.column):
        mine = np.flatnonzero(moves.column == column)
        target = frame[names[column]]
        convert = _converter(target.dtype)
        rows, values = [], []
        for origin in np.unique(moves.from_column[mine]):
            part = mine[moves.from_column[mine] == origin]
            cells = frame[names[origin]][moves.from_row[part].tolist()].to_list()
            rows += moves.row[part].tolist()
            values += [convert(cell) for cell in cells]
        series = nw.new_series(
            target.name, values, target.dtype, backend=nw.get_native_namespace(frame)
        )
        changed.append(target.scatter(rows, series))
    return frame.with_columns(*changed) if changed else frame


def changes_frame(frame, names, moves, ids, *, by_row):
    """List the moved cells, row by row."""
    order = np.lexsort((moves.column, moves.row))
    texts = {}
    for column in np.unique(np.concatenate([moves.column, moves.from_column])):
        texts[column] = frame[names[column]]
    old = _texts(texts, moves.row[order], moves.column[order])
    new = _texts(texts, moves.from_row[order], moves.from_column[order])
    origin = (
        [names[column] for column in moves.from_column[order]]
        if by_row
        else moves.from_row[order].tolist()
    )
    namespace = nw.get_native_namespace(frame)
    listed = nw.from_dict(
        {
            "row": moves.row[order].tolist(),
            "column": [names[column] for column in moves.column[order]],
            "old": old,
            "new": new,
            "moved_from": origin,
            "confidence": moves.confidence[order].tolist(),
            "cause": moves.cause[order].tolist(),
        },
        {
            "row": nw.Int64,
            "column": nw.String,
            "old": nw.String,
            "new": nw.String,
            "moved_from": nw.String if by_row else nw.Int64,
            "confidence": nw.Float64,
            "cause": nw.String,
        },
        backend=namespace,
    )
    identity = ids[moves.row[order].tolist()].alias("id")
    listed = listed.with_columns(
        nw.new_series("id", identity.to_list(), identity.dtype, backend=namespace)
    )
    return listed.select(
        "row", "id", "column", "old", "new", "moved_from", "confidence", "cause"
    ).to_native()


def _texts(series, rows, columns):
    """Text of cells, None where missing."""
    texts = np.full(len(rows), None, dtype=object)
    for column in np.unique(columns):
        mine = np.flatnonzero(columns == column)
        cells = series[column][rows[mine].tolist()].to_list()
        texts[mine] = [None if cell is None or cell != cell else str(cell) for cell in cells]
    return texts.tolist()


def _converter(dtype):
    """How a value of another column becomes one of this type."""
    if dtype.is_integer():
        return lambda cell: _through(cell, _whole)
    if dtype.is_float():
        return lambda cell: _through(cell, float)
    if isinstance(dtype, nw.String):
        return lambda cell: _through(cell, str)
    return lambda cell: cell


def _whole(cell):
    """A whole number, however it is written; long ones would lose digits as floats."""
    try:
        return int(cell)
    except ValueError:
        return int(float(cell))


def _through(cell, convert):
    return None if cell is None or cell != cell else convert(cell)
