"""Cells that receive the value of other cells, and data frames with cells moved."""

from dataclasses import dataclass

import narwhals.stable.v1 as nw
import numpy as np

__all__ = ["Moves", "move_cells"]


@dataclass(frozen=True)
class Moves:
    """Cells that receive the value of other cells, by position; all arrays have one length.

    Attributes
    ----------
    rows, columns : ndarray of int
        The cells.
    from_rows, from_columns : ndarray of int
        Where their new values come from.
    """

    rows: np.ndarray
    columns: np.ndarray
    from_rows: np.ndarray
    from_columns: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)


def move_cells(frame, names, moves):
    """Return the frame with the cells moved; types, index and order of the columns stay."""
    changed = []
    for column in np.unique(moves.columns):
        mine = np.flatnonzero(moves.columns == column)
        target = frame[names[column]]
        convert = _converter(target.dtype)
        rows, values = [], []
        for origin in np.unique(moves.from_columns[mine]):
            part = mine[moves.from_columns[mine] == origin]
            cells = frame[names[origin]][moves.from_rows[part].tolist()].to_list()
            rows += moves.rows[part].tolist()
            values += [convert(cell) for cell in cells]
        series = nw.new_series(
            target.name, values, target.dtype, backend=nw.get_native_namespace(frame)
        )
        if target.implementation.is_pyarrow():
            # What is one type to narwhals, as text is, may be several to Arrow.
            cells = series.to_native().cast(target.to_native().type)
            series = nw.from_native(cells, series_only=True)
        changed.append(target.scatter(rows, series))
    return frame.with_columns(*changed) if changed else frame


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
