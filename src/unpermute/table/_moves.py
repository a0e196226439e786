"""Cells that receive the value of other cells, and data frames with cells moved."""

from dataclasses import dataclass
from decimal import Context, Decimal
from functools import partial

import narwhals.stable.v1 as nw
import numpy as np

__all__ = ["Moves", "cell_texts", "move_cells", "unfit_moves"]


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
    """Return the frame with the cells moved; types, index and order of the columns stay.

    A value that its new column cannot hold (see `unfit_moves`) is refused.
    """
    changed: dict[int, nw.Series] = {}
    for column, origin, part in _pairs(moves):
        target = changed.get(column, frame[names[column]])
        cells = frame[names[origin]][moves.from_rows[part].tolist()]
        if not _same_type(target, cells):
            cells = _converted(target, cells, moves.from_rows[part])
        changed[column] = target.scatter(moves.rows[part].tolist(), cells)
    return frame.with_columns(*changed.values()) if changed else frame


def unfit_moves(frame, names, moves):
    """Return which moves would change a value, because its new column is of another type.

    A number fits if it reads the same there and would come back as it was: 14.2 fits in 32 bits,
    3.14159265358979 does not. A text fits if a number is written exactly so.
    """
    unfit = np.zeros(len(moves), dtype=bool)
    for column, origin, part in _pairs(moves):
        target, source = frame[names[column]], frame[names[origin]]
        if not _same_type(target, source):
            values = _attempts(target, _values(source[moves.from_rows[part].tolist()]))
            unfit[part] = [value is _UNFIT for value in values]
    return unfit


def cell_texts(frame, names, rows, columns):
    """Return cells as they read, None where they are missing."""
    texts = np.full(len(rows), None, dtype=object)
    for column in np.unique(columns):
        mine = np.flatnonzero(columns == column)
        values = _values(frame[names[column]][rows[mine].tolist()])
        texts[mine] = [None if value is None else str(value) for value in values]
    return texts.tolist()


def _pairs(moves):
    """Yield two columns and the moves from the second to the first."""
    for column in np.unique(moves.columns):
        mine = np.flatnonzero(moves.columns == column)
        for origin in np.unique(moves.from_columns[mine]):
            yield column, origin, mine[moves.from_columns[mine] == origin]


def _type(series):
    """The type of the library: what is one to narwhals, as text is, may be several to Arrow."""
    native = series.to_native()
    return native.type if series.implementation.is_pyarrow() else native.dtype


def _same_type(series, other):
    return _type(series) == _type(other)


def _converted(target, cells, rows):
    """Cells of another type as a series of the type of `target`."""
    values = _attempts(target, _values(cells))
    if _UNFIT in values:
        k = values.index(_UNFIT)
        raise ValueError(
            f"column {target.name!r} ({_type(target)}) cannot hold {cells[k]} of row {rows[k]},"
            f" column {cells.name!r}, exactly."
        )
    library = nw.get_native_namespace(target)
    if target.implementation.is_pyarrow():
        native = library.chunked_array([library.array(values, type=_type(target))])
    else:
        native = library.Series(values, dtype=_type(target))
    return nw.from_native(native, series_only=True).alias(target.name)


def _values(series):
    """Values as Python objects, None where missing; short floats stay short, to be read as such."""
    missing, cells = series.is_null().to_list(), series.to_list()
    if series.dtype.is_float():
        cells = map(_float_type(series.dtype), (np.nan if cell is None else cell for cell in cells))
    return [None if gone else cell for gone, cell in zip(missing, cells, strict=True)]


_UNFIT = object()


def _attempts(target, cells):
    convert = _converter(target)
    with np.errstate(over="ignore"):  # infinity is not what was given, and so does not fit
        return [_attempt(convert, cell) for cell in cells]


def _attempt(convert, cell):
    """The value in its new type, or `_UNFIT` if that is not the same value."""
    if cell is None or convert is None:
        return cell
    text = str(cell)
    try:
        value = convert(text)
        if isinstance(value, str) or (isinstance(cell, str) and str(value) == text):
            return value
        if not isinstance(cell, str) and Decimal(str(value)) == Decimal(text):
            return value
    except (ValueError, ArithmeticError):
        pass
    return _UNFIT


def _converter(target):
    """How a text becomes a value of the type of `target`; None if that holds whatever it is."""
    dtype = target.dtype
    if dtype.is_integer():
        return partial(_whole, str(dtype))
    if dtype.is_float():
        return _float_type(dtype)
    if dtype.is_decimal():
        kind = getattr(_type(target), "pyarrow_dtype", _type(target))
        return partial(_decimal, kind.precision, kind.scale)
    if isinstance(dtype, nw.String):
        return str
    return None if isinstance(dtype, nw.Object) else _nothing


def _float_type(dtype):
    return np.dtype(str(dtype).lower()).type


def _whole(kind, text):
    """A whole number within the limits of a type such as "Int8" or "UInt64"."""
    bits = int(kind.lstrip("UInt"))
    signed = kind.startswith("I")
    value = int(Decimal(text))
    if not 0 <= value + (signed << (bits - 1)) < 1 << bits:
        raise OverflowError
    return value


def _decimal(precision, scale, text):
    return Decimal(text).quantize(Decimal(1).scaleb(-scale), context=Context(prec=precision))


def _nothing(text):
    raise ValueError
