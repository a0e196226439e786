"""The numbers of a data frame: which columns hold them, and how they are written.

A column is used if its type is numeric, or if it holds text of which at least nine tenths are
numbers: then the other texts are evidence, not errors. How many decimal places a text has is kept,
since that says something about the column it belongs to.
"""

import difflib
from dataclasses import dataclass, field

import narwhals.stable.v1 as nw
import numpy as np

from unpermute.files import holds_null

__all__ = ["NumericTable", "check_names", "open_frame", "read_numbers"]

# Share of the cells of a column that must be numbers.
_NUMERIC = 0.9
# Share of the numbers of a column that must be whole for a column of whole numbers.
_WHOLE = 0.95
# Numbers as people and programs write them; and those that show their decimal places.
_DIGITS = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
_PLAIN = rf"^\s*[+-]?{_DIGITS}\s*$"
_NUMBER = rf"^\s*[+-]?(?:{_DIGITS}(?:[eE][+-]?[0-9]+)?|(?i:inf(?:inity)?))\s*$"

# Signs of money and per cent around a number.
_SIGNS = r"^\s*(?:[$€£¥]|EUR|USD|GBP|CHF)\s*|\s*(?:%|[$€£¥]|EUR|USD|GBP|CHF)\s*$"


@dataclass(frozen=True)
class NumericTable:
    """The numeric columns of a frame.

    Attributes
    ----------
    names : list of str
        Columns that are used.
    values : ndarray of shape (n_rows, n_columns)
        Missing, infinite and foreign cells are NaN.
    decimals : ndarray of int8 of shape (n_rows, n_columns) or None
        Decimal places as written, -1 if unknown; None if no column is text.
    foreign : ndarray of bool of shape (n_rows, n_columns)
        Cells that are text but no number.
    integer, no_null : ndarray of bool of shape (n_columns,)
        Columns that no fraction, and no missing value, may enter.
    notes : list of str
        What the user should know.
    """

    names: list[str]
    values: np.ndarray
    decimals: np.ndarray | None
    foreign: np.ndarray
    integer: np.ndarray
    no_null: np.ndarray
    notes: list[str] = field(default_factory=list)


def open_frame(frame, name="frame", *, least=2):
    """Wrap a pandas, polars or pyarrow frame of `least` rows or more, or say what it should be."""
    try:
        frame = nw.from_native(frame, eager_only=True)
    except TypeError:
        raise TypeError(
            f"{name} must be a pandas, polars or pyarrow data frame, not {type(frame).__name__}."
        ) from None
    except ValueError as error:  # narwhals names the doubled columns
        raise ValueError(f"{name} was refused: {error}") from None
    odd = [column for column in frame.columns if not isinstance(column, str)]
    if odd:
        raise ValueError(
            f"{name} has column names that are not text, such as {odd[0]!r}; rename them first, for"
            " instance with frame.rename(columns=str)."
        )
    for column in frame.columns if frame.implementation.is_pyarrow() else []:
        if str(frame[column].to_native().type) == "string_view":
            raise ValueError(
                f"{name} has the column {column!r} of Arrow's string_view type, which pyarrow"
                " cannot take rows of; cast it to string first."
            )
    if len(frame) < least:
        found = "no rows" if len(frame) == 0 else "one row"
        raise ValueError(f"{name} has {found}; a table needs several.")
    return frame


def check_names(names, frame, option):
    """Refuse columns that the frame does not have; suggest those that are nearly called so."""
    if isinstance(names, str):
        names = [names]
    for name in names or []:
        if name not in frame.columns:
            near = difflib.get_close_matches(str(name), frame.columns, n=3)
            hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else "."
            raise ValueError(f"{option}={name!r} is not a column of the table{hint}")


def read_numbers(frame, *, columns=None, exclude=()):
    """Read the numeric columns of a frame.

    Parameters
    ----------
    frame : narwhals DataFrame
        The table.
    columns : sequence of str, default=None
        Columns to use; they must be numeric. None: all that are.
    exclude : sequence of str
        Columns not to use.

    Returns
    -------
    NumericTable
    """
    wanted = [name for name in (columns or frame.columns) if name not in exclude]
    values = np.empty((len(frame), len(wanted)))
    decimals = np.full(values.shape, -1, dtype=np.int8)
    foreign = np.zeros(values.shape, dtype=bool)
    used: list[str] = []
    texts = False
    for name in wanted:
        j, series = len(used), frame[name]
        if series.dtype.is_numeric():
            values[:, j] = series.cast(nw.Float64).to_numpy()
        elif _read_texts(series, values[:, j], decimals[:, j], foreign[:, j]):
            texts = True
        elif columns is not None:
            raise ValueError(f"columns={name!r} does not hold numbers; leave it out.")
        else:
            continue
        used.append(name)
    if not used:
        raise ValueError("The table has no numeric column.")
    kept = slice(0, len(used))
    # Numbers show their decimal places as text only; beside text they would be incomparable.
    written = texts and not any(frame[name].dtype.is_numeric() for name in used)
    return _numeric_table(
        frame, used, values[:, kept], decimals[:, kept] if written else None, foreign[:, kept]
    )


def _numeric_table(frame, names, values, decimals, foreign):
    notes = []
    infinite = np.isinf(values)
    if infinite.any():
        notes.append(f"Infinite values counted as missing: {infinite.sum()}.")
        values[infinite] = np.nan
    if foreign.any():
        notes.append(f"Cells of numeric columns that are not numbers: {foreign.sum()}.")
    return NumericTable(
        names,
        values,
        decimals,
        foreign,
        np.array([frame[name].dtype.is_integer() for name in names]) | _is_whole(values, decimals),
        np.array([not holds_null(frame[name]) for name in names]),
        notes,
    )


def _read_texts(series, values, decimals, foreign):
    """Read a column of text; fill the last three, or return False if it does not hold numbers."""
    if isinstance(series.dtype, nw.Object):
        cells = [_text(cell) for cell in series.to_list()]
        namespace = nw.get_native_namespace(series)
        series = nw.new_series(series.name, cells, nw.String, backend=namespace)
    if not isinstance(series.dtype, nw.String):
        return False
    missing = series.is_null().to_numpy().astype(bool)
    if not series.str.contains(_NUMBER).fill_null(True).all():
        bare = series.str.replace_all(_SIGNS, "")
        series = bare if bare.str.contains(_NUMBER).mean() >= _NUMERIC else series
    number = series.str.contains(_NUMBER).fill_null(False).to_numpy().astype(bool)
    foreign[:] = ~number & ~missing
    n_texts = np.sum(~missing)
    if n_texts == 0 or foreign.sum() > (1 - _NUMERIC) * n_texts:
        foreign[:] = False
        return False
    values[:] = np.nan
    rows = np.flatnonzero(number)
    numbers = series if number.all() else series[rows.tolist()]
    stripped = numbers.str.strip_chars()
    values[rows] = stripped.cast(nw.Float64).to_numpy()
    # The decimals: a number without everything up to its point.
    fraction = stripped.str.replace_all(r"^[^.]*\.?", "").str.len_chars().to_numpy()
    plain = stripped.str.contains(_PLAIN).to_numpy().astype(bool)
    # Unsigned numbers, as polars counts in, have no -1.
    decimals[rows] = np.where(plain, np.minimum(fraction.astype(np.int64), 100), -1)
    return True


def _text(cell):
    """Text of a cell of a column of objects; None where it is missing."""
    return None if cell is None or cell != cell else str(cell)


def _is_whole(values, decimals):
    """Columns of whole numbers that are written so: 126.0 is a text with a decimal place."""
    observed = np.sum(~np.isnan(values), axis=0)
    with np.errstate(invalid="ignore"):
        whole = values == np.round(values)
    if decimals is not None:
        whole &= decimals <= 0
    return (observed > 0) & (np.sum(whole, axis=0) >= _WHOLE * observed)
