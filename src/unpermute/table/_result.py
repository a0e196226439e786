"""What `scan` and `repair` return: frames of the type that was given, and plain words."""

from dataclasses import dataclass
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from unpermute.table._moves import Moves, cell_texts

__all__ = ["Changes", "TableModel", "TableResult", "changes_frame"]


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
class Changes(Moves):
    """Moves, how sure each of them is, and what happened to its record or column.

    Attributes
    ----------
    confidence : ndarray of float
    cause : ndarray of str
    """

    confidence: np.ndarray
    cause: np.ndarray


def changes_frame(frame, names, changes, ids, *, by_row):
    """List the moved cells, row by row."""
    order = np.lexsort((changes.columns, changes.rows))
    old = cell_texts(frame, names, changes.rows[order], changes.columns[order])
    new = cell_texts(frame, names, changes.from_rows[order], changes.from_columns[order])
    origin = (
        [names[column] for column in changes.from_columns[order]]
        if by_row
        else changes.from_rows[order].tolist()
    )
    namespace = nw.get_native_namespace(frame)
    listed = nw.from_dict(
        {
            "row": changes.rows[order].tolist(),
            "column": [names[column] for column in changes.columns[order]],
            "old": old,
            "new": new,
            "moved_from": origin,
            "confidence": changes.confidence[order].tolist(),
            "cause": changes.cause[order].tolist(),
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
    identity = ids[changes.rows[order].tolist()].alias("id")
    listed = listed.with_columns(
        nw.new_series("id", identity.to_list(), identity.dtype, backend=namespace)
    )
    return listed.select(
        "row", "id", "column", "old", "new", "moved_from", "confidence", "cause"
    ).to_native()
