"""How a delimited file is laid out: its delimiter, the lines before its header, and its records."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unpermute._words import counted
from unpermute.files._csv_kernels import find_records
from unpermute.files._source import TableError, few

__all__ = ["NA_TEXTS", "CsvStyle", "Layout", "find_layout", "lines_at", "mostly_odd"]

NA_TEXTS = ("NA", "N/A", "NaN", "nan", "null", "NULL", "None")

_DELIMITERS = (",", ";", "\t", "|")
_SAMPLE = 1 << 16
_LF, _CR = 10, 13
# Share of the lines that must have the same number of fields for a delimiter to be believed, and
# for lines before them to be no part of the table.
_REGULAR = 0.8
# Most lines before the header that are detected without --skip-lines.
_MOST_PREAMBLE = 50
# Share of the records that must be like the header for the others to be listed, not refused.
_MOSTLY = 0.5


@dataclass(frozen=True)
class CsvStyle:
    """How a delimited file is to be read.

    Parameters
    ----------
    delimiter : str or None
        One character; None looks at the first lines.
    decimal : {".", ","} or None
        The decimal mark; None looks at the numbers of every column.
    thousands : str or None
        What stands between groups of three digits; None means "." if `decimal` is ",", otherwise
        nothing.
    encoding : str
        A codec that Python knows.
    na : sequence of str
        Texts that mean "no value", besides the empty one.
    header : bool
        Whether the first record holds the names of the columns.
    skip_lines : int or None
        Lines before the header that are no part of the table; None finds them.
    """

    delimiter: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str = "utf-8"
    na: Sequence[str] = NA_TEXTS
    header: bool = True
    skip_lines: int | None = None

    def __post_init__(self):
        if self.delimiter is not None and not _is_delimiter(self.delimiter):
            raise TableError(
                f"delimiter must be one ASCII character, no quote and no line end,"
                f" but is {self.delimiter!r}."
            )
        if self.decimal not in (".", ",", None):
            raise TableError(f"decimal must be '.' or ',', but is {self.decimal!r}.")
        if self.thousands and (len(self.thousands) > 1 or self.thousands not in ",. '_"):
            raise TableError(
                f"thousands must be one of , . ' _ or a space, but is {self.thousands!r}."
            )
        if self.thousands == (self.decimal or ".") and self.thousands is not None:
            raise TableError(f"decimal and thousands cannot both be {self.thousands!r}.")

    @property
    def finds_marks(self) -> bool:
        """Whether decimal marks are to be found in every column."""
        return self.decimal is None and self.thousands is None

    def marks(self) -> tuple[int, int]:
        """Return the bytes for the decimal mark and between thousands (0 for nothing)."""
        decimal, thousands = self.decimal or ".", self.thousands
        if thousands is None:
            thousands = "." if decimal == "," else ""
        return ord(decimal), ord(thousands) if thousands else 0


@dataclass(frozen=True)
class Layout:
    """Where the records of a file are.

    Attributes
    ----------
    delimiter : str
        One character.
    starts, n_fields : ndarray of shape (n_records,)
        Where records start, the header among them, and how many fields they have.
    n_columns : int
        Fields of a regular record.
    notes : list of str
        What was assumed.
    """

    delimiter: str
    starts: np.ndarray
    n_fields: np.ndarray
    n_columns: int
    notes: list[str]


def find_layout(
    data: np.ndarray, begin: int, style: CsvStyle, name: str, *, regular: bool = True
) -> Layout:
    """Find the delimiter, the header and the records of a file.

    Parameters
    ----------
    data : ndarray of uint8
        The file.
    begin : int
        Where its first line starts.
    style : CsvStyle
        What is known about it.
    name : str
        What messages call it.
    regular : bool, default=True
        Whether a file of which most records are unlike the header is refused.

    Returns
    -------
    layout : Layout
        Records are regular, but for a few.
    """
    notes = []
    begin = _after_lines(data, begin, style.skip_lines or 0, name)
    delimiter = style.delimiter
    if delimiter is None:
        delimiter = _guess_delimiter(_first_lines(data[begin:]), style.decimal)
        if delimiter != ",":
            notes.append(f"Fields are separated by {_called(delimiter)}.")
    starts, n_fields = find_records(data, begin, ord(delimiter))
    if not n_fields.any():
        raise TableError(f"{name} is empty.")
    if n_fields[-1] < 0:
        line = lines_at(data, starts[-1:])[0]
        raise TableError(f"{name}, line {line}: a quote is opened and never closed.")
    first = 0
    if style.skip_lines is None and style.header:
        first = _preamble(data, starts, n_fields, delimiter)
        if first:
            line = lines_at(data, starts[first : first + 1])[0]
            notes.append(f"The header is taken to be line {line}; --skip-lines 0 reads all lines.")
    filled = np.flatnonzero(n_fields[first:] > 0)
    n_columns = int(n_fields[first + filled[0]])
    # In a table of one column, blank lines after the first record are missing values.
    keep = np.arange(first + filled[0], len(starts)) if n_columns == 1 else first + filled
    layout = Layout(delimiter, starts[keep], np.maximum(n_fields[keep], 1), n_columns, notes)
    if regular:
        _refuse_irregular(data, layout, name)
    return layout


def lines_at(data, positions):
    """Return the lines, from 1, on which positions of the file are."""
    last = int(np.max(positions, initial=0))
    data = data[: last + 1]
    # A carriage return before a line feed belongs to it.
    ends = (data == _LF) | (data == _CR)
    ends[:-1] &= ~((data[:-1] == _CR) & (data[1:] == _LF))
    return 1 + np.searchsorted(np.flatnonzero(ends), positions)


def _is_delimiter(text):
    return len(text) == 1 and text.isascii() and text not in '"\r\n\0'


def _called(delimiter):
    return {"\t": "tabs", ";": "semicolons", "|": "bars"}.get(delimiter, repr(delimiter))


def _after_lines(data, begin, n_lines, name):
    for k in range(n_lines):
        rest = bytes(data[begin : begin + _SAMPLE])
        match = re.search(rb"\r\n|\n|\r", rest)
        if match is None:
            raise TableError(f"{name} has no {n_lines} lines to skip, but {k + bool(rest)}.")
        begin += match.end()
    return begin


def _usual(n_fields):
    """Return the commonest number of fields, and its share among the lines from the first such."""
    filled = n_fields[n_fields > 0]
    if not len(filled):
        return 1, 0.0
    usual = int(np.argmax(np.bincount(filled)))
    rest = filled[int(np.argmax(filled == usual)) :]
    return usual, float(np.mean(rest == usual))


def _first_lines(data):
    """Return some whole lines, one at least."""
    size = _SAMPLE
    while size < len(data):
        stop = 1 + max(map(bytes(data[:size]).rfind, (b"\n", b"\r")))
        if stop:
            return data[:stop]
        size *= 2
    return data


def _guess_delimiter(sample, decimal):
    """Return the character that splits the first lines into most fields, equally many in each."""
    found = {}
    for delimiter in _DELIMITERS:
        n_fields = find_records(sample, 0, ord(delimiter))[1]
        usual, share = _usual(n_fields)
        if usual > 1 and share >= _REGULAR:
            found[delimiter] = (share == 1.0, usual)
    # Commas that all stand between digits are decimal marks, if anything else splits the lines.
    inside = re.search(rb"(?<![0-9]),|,(?![0-9])", bytes(sample)) is None
    if len(found) > 1 and (decimal == "," or (decimal is None and inside)):
        found.pop(",", None)
    best = max(found.values(), default=None)
    return next((d for d in found if found[d] == best), _DELIMITERS[0])


def _preamble(data, starts, n_fields, delimiter):
    """Return how many lines come before the header of a table that is regular from there on."""
    usual, share = _usual(n_fields)
    first = int(np.argmax(n_fields == usual))
    if not first or usual < 2 or share < _REGULAR or first > _MOST_PREAMBLE:
        return 0
    # A line that is short by one field may be the header itself.
    if n_fields[:first].max() >= usual - 1 and n_fields[:first].max() > 1:
        return 0
    stop = starts[first + 1] if first + 1 < len(starts) else len(data)
    names = bytes(data[starts[first] : stop]).strip().split(delimiter.encode())
    names = [name.strip(b' "\t') for name in names]
    is_header = all(names) and not any(re.fullmatch(rb"[-+0-9.,:/ ]+", name) for name in names)
    return first if is_header else 0


def _refuse_irregular(data, layout, name):
    """Refuse a file of which most lines are not like the first: that is another layout."""
    odd = np.flatnonzero(layout.n_fields != layout.n_columns)
    if not mostly_odd(len(odd), len(layout.starts) - 1):
        return
    lines = lines_at(data, layout.starts[odd])
    fields = counted(int(layout.n_fields[odd[0]]), "field")
    others = f", and so on ({few(lines.tolist())})" if len(odd) > 1 else ""
    raise TableError(
        f"{name}, line {lines[0]}: {fields}, but the first line has {layout.n_columns}"
        f" (delimiter {layout.delimiter!r}){others}."
    )


def mostly_odd(n_odd: int, n_records: int) -> bool:
    """Return whether so many records are unlike the header that the table is refused."""
    return n_odd > _MOSTLY * n_records
