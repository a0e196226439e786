"""A result as a person decided about it: their list of changes takes the place of the proposals."""

from dataclasses import replace

import narwhals.stable.v1 as nw
import numpy as np

from unpermute.records import find_exchanges, read_cells
from unpermute.table._numbers import open_frame
from unpermute.table._questions import places_of_answers
from unpermute.table._result import TableResult, changes_frame, vectors_frame

__all__ = ["exchanged_rows", "reviewed"]


def exchanged_rows(frame, exchange, *, kinds=None):
    """Return the rows in which two columns are exchanged, if an answer to a question is right.

    Parameters
    ----------
    frame : data frame
        The table.
    exchange : list of tuple
        ``exchange`` of a reading in ``summary["questions"]``, all of the same two columns.
    kinds : dict of str to str, default=None
        What columns hold, as for :func:`unpermute.table.scan`.

    Returns
    -------
    ndarray of int
        Ascending, from 0.
    """
    frame = open_frame(frame)
    names = list(exchange[0][:2])
    cells = read_cells(frame, names, kinds)[0]
    told, _ = find_exchanges(cells, places_of_answers(exchange, names, len(frame)))
    return np.unique(np.concatenate([each.rows for each in told]))


def reviewed(result, changes, *, sentence):
    """Return a scan as if it had proposed and made what a person decided.

    Parameters
    ----------
    result : TableResult
        What :func:`unpermute.table.scan` returned for records.
    changes : Changes
        By rows and columns of the frame: what is made, and what is only proposed.
    sentence : str
        What was decided, for the summary.

    Returns
    -------
    TableResult
    """
    frame = open_frame(result.frame)
    found = _Reviewed(result, changes, len(frame))
    name = result.summary["settings"]["id"]
    ids = nw.new_series("id", np.arange(len(frame)), backend=nw.get_native_namespace(frame))
    ids = ids if name is None else frame[name]
    made = changes.accepted()
    summary = {
        **result.summary,
        "sentence": sentence,
        "columns": list(changes.names),
        "n_suspicious": int(np.sum(found.status != "clean")),
        "n_repaired": int(np.sum(found.status == "recovered")),
        "n_uncertain": int(np.sum(found.status == "uncertain")),
        "n_moved_cells": len(made),
        "expected_wrong_cells": float(np.nansum(1 - made.confidence)),
        "questions": [],
    }
    return replace(
        result,
        changes=changes_frame(frame, made, ids),
        vectors=vectors_frame(frame, found, ids, by_row=True),
        proposals=changes_frame(frame, changes, ids),
        summary=summary,
        moves=changes,
    )


class _Reviewed:
    """The arrays that `vectors_frame` lists, with one entry per record."""

    def __init__(self, result: TableResult, changes, n: int):
        vectors = nw.from_native(result.vectors, eager_only=True)
        rows, first = np.unique(changes.rows, return_index=True)
        self.proposals, self.names = changes, changes.names
        self.subspace = np.zeros(n, dtype=np.int64)
        self.score = np.zeros(n)
        self.score[vectors["row"].to_numpy()] = vectors["score"].to_numpy()
        self.status = np.full(n, "clean", dtype="<U9")
        self.status[rows] = np.where(changes.accept[first], "recovered", "uncertain")
        self.damaged, self.confidence = np.zeros(n), np.zeros(n)
        self.damaged[rows] = changes.damaged[first]
        self.confidence[rows] = changes.confidence[first]
        self.cause, self.evidence = (np.full(n, "", dtype=object) for _ in range(2))
        self.cause[rows], self.evidence[rows] = changes.cause[first], changes.evidence[first]
