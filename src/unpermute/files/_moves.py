"""Cells that receive the value of other cells, and data frames with cells moved."""

from dataclasses import dataclass, field, fields, replace
from decimal import Context, Decimal
from functools import partial
from numbers import Integral

import narwhals.stable.v1 as nw
import numpy as np

from unpermute._words import counted

__all__ = [
    "INSERT",
    "JOIN",
    "Changes",
    "LineEdit",
    "Moves",
    "cell_texts",
    "holds_null",
    "move_cells",
    "unfit_moves",
]


JOIN, INSERT = "(join)", "(insert)"


@dataclass(frozen=True)
class LineEdit:
    """A line of delimited text with one field too many or too few that becomes regular.

    Attributes
    ----------
    row : int
        Number of the record.
    column : int
        Column of the value or of the gap.
    kind : str
        JOIN: quotes make one value of a field and the next. INSERT: a delimiter makes an empty
        field.
    undo : bool
        Whether to take the quotes or the delimiter away again.
    """

    row: int
    column: int
    kind: str
    undo: bool = False


@dataclass(frozen=True)
class Moves:
    """Cells that receive the value of other cells, by position; all arrays have one length.

    Attributes
    ----------
    rows, columns : ndarray of int
        The cells.
    from_rows, from_columns : ndarray of int
        Where their new values come from.
    edits : tuple of LineEdit
        Lines that become regular, or are no longer; none of the cells is in one of them.
    """

    rows: np.ndarray
    columns: np.ndarray
    from_rows: np.ndarray
    from_columns: np.ndarray
    edits: tuple[LineEdit, ...] = field(default=(), kw_only=True)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self):
        edited = f", {counted(len(self.edits), 'edited line')}" if self.edits else ""
        return f"{type(self).__name__}: {counted(len(self), 'cell')}{edited}"

    def places(self):
        """Return rows, columns, and the rows and columns that values come from."""
        return self.rows, self.columns, self.from_rows, self.from_columns


@dataclass(frozen=True, repr=False)
class Changes(Moves):
    """Proposed moves: how sure each of them is, why, and whether it is made.

    Attributes
    ----------
    confidence : ndarray of float
        Probability that all of the proposal is right.
    damaged : ndarray of float
        Probability that the record or column is damaged.
    accept : ndarray of bool
        Whether the change is made; otherwise it is only proposed.
    cause : ndarray of str
        What happened to the record or column.
    evidence : ndarray of str
        What speaks for it, in words.
    names : list of str
        The columns that `columns` and `from_columns` number.
    within_rows : bool
        Whether values move within records; otherwise they move within columns.
    """

    confidence: np.ndarray
    damaged: np.ndarray
    accept: np.ndarray
    cause: np.ndarray
    evidence: np.ndarray
    names: list[str] = field(kw_only=True)
    within_rows: bool = field(default=True, kw_only=True)

    def __repr__(self):
        return f"{super().__repr__()}, {np.sum(self.accept):,} of them accepted"

    def take(self, chosen):
        """Return some of the changes, or all of them in another order."""
        arrays = [each.name for each in fields(self) if not each.kw_only]
        return replace(self, **{name: getattr(self, name)[chosen] for name in arrays})

    def by_row(self):
        """Return the changes row by row."""
        return self.take(np.lexsort((self.columns, self.rows)))

    def accepted(self):
        """Return the changes that are made."""
        return self.take(self.accept)

    def origins(self):
        """Return where each value comes from: a column of its record, or a row of its column."""
        if self.within_rows:
            return [self.names[column] for column in self.from_columns]
        return self.from_rows.tolist()

    def in_file(self, source):
        """Return the changes by rows and columns of the file that the table was read from."""
        places = {name: place for place, name in enumerate(source.columns)}
        columns = np.array([places[name] for name in self.names], dtype=np.int64)
        rows = source.frame_rows
        return replace(
            self,
            rows=rows[self.rows],
            columns=columns[self.columns],
            from_rows=rows[self.from_rows],
            from_columns=columns[self.from_columns],
            names=list(source.columns),
        )


def move_cells(frame, names, moves):
    """Return the frame with the cells moved; types, index and order of the columns stay.

    A value that its new column cannot hold (see `unfit_moves`) is refused.
    """
    series = _Series(frame, names)
    received: dict[int, list[tuple[np.ndarray, nw.Series]]] = {}
    for column, origin, part in _pairs(moves):
        cells = series[origin][moves.from_rows[part].tolist()]
        if series.types[column] != series.types[origin]:
            cells = _converted(series[column], cells, moves.from_rows[part])
        received.setdefault(column, []).append((moves.rows[part], cells))
    changed = []
    for column, parts in received.items():
        rows = np.concatenate([rows for rows, _ in parts])
        # Scattered at once: that copies the column. Polars 1.30 asks for rows in order.
        order = np.argsort(rows)
        cells = nw.concat([cells.alias("cells").to_frame() for _, cells in parts])["cells"]
        changed.append(_scattered(series[column], rows[order].tolist(), cells[order.tolist()]))
    return frame.with_columns(*changed) if changed else frame


def unfit_moves(frame, names, moves):
    """Return which moves would change a value, because its new column is of another type.

    A number fits if it reads the same there: 14.2 fits in 32 bits, 3.14159265358979 does not. A
    text fits if the number is written exactly so, a missing value if the type has one.
    """
    unfit, series = np.zeros(len(moves), dtype=bool), _Series(frame, names)
    for column, origin, part in _pairs(moves):
        if series.types[column] != series.types[origin]:
            cells = _values(series[origin][moves.from_rows[part].tolist()])
            values = _attempts(series[column], cells)
            unfit[part] = [value is _UNFIT for value in values]
    return unfit


def cell_texts(frame, names, rows, columns):
    """Return cells as they read, None where they are missing."""
    texts = np.full(len(rows), None, dtype=object)
    for column in np.unique(columns):
        mine = np.flatnonzero(columns == column)
        values = _values(frame[names[column]][rows[mine].tolist()])
        texts[mine] = [None if v is None or v != v else str(v) for v in values]
    return texts.tolist()


def holds_null(series):
    """Whether the type of a column has a value for missing ones: numpy's integers have none."""
    native = series.to_native()
    dtype = getattr(native, "dtype", None)
    return not (isinstance(dtype, np.dtype) and dtype.kind in "iub")


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


class _Series(dict):
    """The columns of a frame, and their types, each looked up once."""

    def __init__(self, frame, names):
        super().__init__()
        self._frame, self._names, self.types = frame, names, _Types(self)

    def __missing__(self, column):
        self[column] = self._frame[self._names[column]]
        return self[column]


class _Types(dict):
    """Types of columns."""

    def __init__(self, series):
        super().__init__()
        self._series = series

    def __missing__(self, column):
        self[column] = _type(self._series[column])
        return self[column]


def _scattered(series, rows, cells):
    """The series with these cells in these rows."""
    if not series.implementation.is_pandas_like():
        return series.scatter(rows, cells)
    # By arrays: between series, integers with missing values would pass through floats.
    native = series.to_native().copy()
    native.iloc[rows] = cells.to_native().array
    return nw.from_native(native, series_only=True)


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
    kind = _float_type(series.dtype) if series.dtype.is_float() else _as_it_is
    return [None if gone else kind(cell) for gone, cell in zip(missing, cells, strict=True)]


def _as_it_is(cell):
    return cell


_UNFIT = object()


def _attempts(target, cells):
    """The values in their new type, `_UNFIT` where that is not the same value."""
    convert = _converter(target)
    missing = None if holds_null(target) else _UNFIT
    with np.errstate(over="ignore"):  # infinity is not what was given, and so does not fit
        return [missing if cell is None else _attempt(convert, cell) for cell in cells]


def _attempt(convert, cell):
    try:
        value = convert(cell)
        return value if _reads_the_same(cell, value) else _UNFIT
    except (TypeError, ValueError, ArithmeticError):
        return _UNFIT


def _reads_the_same(cell, value):
    if value is cell or isinstance(value, str):
        return True
    if isinstance(cell, str):
        return str(value) == cell
    if isinstance(cell, Integral) or isinstance(value, Integral):
        return _plain(value) == _plain(cell)  # exactly, as Python compares
    if cell != cell:
        return value != value
    return Decimal(str(value)) == Decimal(str(cell))


def _plain(value):
    return value.item() if isinstance(value, np.generic) else value


def _converter(target):
    """How a value becomes one of the type of `target`."""
    dtype = target.dtype
    if dtype.is_integer():
        return partial(_whole, str(dtype))
    if dtype.is_float():
        # As it reads: 14.2 of 32 bits is 14.2 of 64 bits, not 14.199999809265137.
        return lambda cell: _float_type(dtype)(str(cell))
    if dtype.is_decimal():
        kind = getattr(_type(target), "pyarrow_dtype", _type(target))
        return partial(_decimal, kind.precision, kind.scale)
    if isinstance(dtype, nw.String):
        return _text
    return _as_it_is if isinstance(dtype, nw.Object) else _nothing


def _float_type(dtype):
    return np.dtype(str(dtype).lower()).type


def _whole(kind, cell):
    """A whole number within the limits of a type such as "Int8" or "UInt64"."""
    bits = int(kind.lstrip("UInt"))
    signed = kind.startswith("I")
    number = Decimal(_plain(cell))
    if number.adjusted() > bits:  # would take forever to write down
        raise OverflowError
    value = int(number)
    if not 0 <= value + (signed << (bits - 1)) < 1 << bits:
        raise OverflowError
    return value


def _decimal(precision, scale, cell):
    return Decimal(str(cell)).quantize(Decimal(1).scaleb(-scale), context=Context(prec=precision))


def _text(cell):
    if cell != cell:
        raise ValueError("a value that is not a number has no text")
    return str(cell)


def _nothing(cell):
    raise ValueError("only numbers and texts move between types")
