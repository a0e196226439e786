"""A result opened for reading: positions of the moved cells as arrays, everything else as frames.

Texts of cells are fetched for the few that are shown: a table may have millions of changes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

__all__ = ["Findings", "before_and_after", "open_result", "share_text", "shorten", "sure_text"]

_LONGEST_TEXT = 60


@dataclass(frozen=True)
class Findings:
    """What is reported.

    Attributes
    ----------
    summary : dict
        ``TableResult.summary``.
    by_row : bool
        Whether records are judged; otherwise columns.
    names : list of str
        Columns in use.
    frame, changes, vectors, proposals : narwhals DataFrame
        Those of the result.
    row, column, confidence : ndarray
        One entry per moved cell: its row, the number of its column in `names`, how sure.
    lines : callable or None
        Lines of the file where rows start.
    """

    summary: dict[str, Any]
    by_row: bool
    names: list[str]
    frame: nw.DataFrame
    changes: nw.DataFrame
    vectors: nw.DataFrame
    proposals: nw.DataFrame
    row: np.ndarray
    column: np.ndarray
    confidence: np.ndarray
    lines: Callable | None = None

    def place(self, row) -> str:
        """Return where a record stands: its line in the file if that is known, else its row."""
        if self.lines is None:
            return f"row {row:,}"
        return f"line {int(self.lines([int(row)])[0]):,}"

    @property
    def n_rows(self) -> int:
        return len(self.frame)

    @property
    def what(self) -> str:
        """What is judged, in one word."""
        return "record" if self.by_row else "column"

    def floats(self, name) -> np.ndarray:
        """Return a column of `vectors` as numbers."""
        return self.vectors[name].to_numpy().astype(float)

    def texts(self, name) -> np.ndarray:
        """Return a column of `vectors` as objects."""
        texts = np.empty(len(self.vectors), dtype=object)
        texts[:] = self.vectors[name].to_list()
        return texts

    def positions(self) -> np.ndarray:
        """Return the row, or the number of the column, of every suspicious vector."""
        if self.by_row:
            return self.vectors["row"].to_numpy().astype(np.int64)
        return _codes(self.vectors["vector"], self.names)


def open_result(result, lines=None) -> Findings:
    """Read a `TableResult`."""
    changes = nw.from_native(result.changes, eager_only=True)
    names = list(result.summary["columns"])
    return Findings(
        summary=result.summary,
        by_row=result.summary["vectors"] == "rows",
        names=names,
        frame=nw.from_native(result.frame, eager_only=True),
        changes=changes,
        vectors=nw.from_native(result.vectors, eager_only=True),
        proposals=changes
        if result.proposals is None
        else nw.from_native(result.proposals, eager_only=True),
        row=changes["row"].to_numpy().astype(np.int64),
        column=_codes(changes["column"], names),
        confidence=changes["confidence"].to_numpy().astype(float),
        lines=lines,
    )


def before_and_after(found, rows, columns) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers in some cells, before and after the changes.

    Parameters
    ----------
    found : Findings
        The result.
    rows, columns : ndarray of int, ascending
        The cells: every one of these rows in every one of these columns.

    Returns
    -------
    before, after : ndarray of shape (n_rows, n_columns)
        NaN where there is no finite number.
    """
    part = found.frame[rows.tolist()]
    values = np.empty((len(rows), len(columns)))
    for place, column in enumerate(columns):
        values[:, place] = _numbers(part[found.names[column]])
    # Both come from the list, so that it does not matter whether the frame has been repaired.
    before, after = values, values.copy()
    moved = np.flatnonzero(np.isin(found.row, rows) & np.isin(found.column, columns))
    cells = np.searchsorted(rows, found.row[moved]), np.searchsorted(columns, found.column[moved])
    for target, name in ((before, "old"), (after, "new")):
        target[cells] = _parsed(found.changes[name][moved.tolist()].to_list())
    return before, after


def shorten(value, width: int = _LONGEST_TEXT) -> str:
    """Return the text of a value that a table holds, whatever its length, fit for a page."""
    text = "" if value is None else str(value)
    # Half of a surrogate pair cannot be written as UTF-8.
    text = text[: width + 1].encode("utf-8", "replace").decode()
    return text if len(text) <= width else text[: width - 1] + "…"


def share_text(share: float) -> str:
    """Return a share in per cent, precise where it is small."""
    percent = 100 * share
    if 0 < percent < 0.1:
        return "under 0.1%"
    return f"{percent:.1f}%" if percent < 10 and percent != round(percent) else f"{percent:.0f}%"


def sure_text(probability: float) -> str:
    """Return a probability in per cent, rounded down: 100% would promise too much."""
    if not np.isfinite(probability):
        return "unknown"
    if probability >= 0.999:
        return "over 99.9%"
    if probability < 0.001:
        return "under 0.1%"
    return f"{np.floor(probability * 1000) / 10:.1f}%"


def _codes(series, names):
    places = {name: place for place, name in enumerate(names)}
    return np.array([places[name] for name in series.to_list()], dtype=np.int64)


def _numbers(series):
    if series.dtype.is_numeric():
        values = series.cast(nw.Float64).to_numpy().astype(float)
        return np.where(np.isfinite(values), values, np.nan)
    return _parsed(series.to_list())


def _parsed(cells):
    return np.array([_number(cell) for cell in cells], dtype=float)


def _number(cell):
    try:
        value = float(cell)
    except (TypeError, ValueError):
        return np.nan
    return value if np.isfinite(value) else np.nan
