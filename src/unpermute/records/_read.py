"""Read the columns of a data frame into cells: numbers, dates, texts and missing values.

Money, per cent, thousands and decimal commas are numbers with a style of their own. Numbers with
leading zeros and without a decimal point, such as post codes, are texts.
"""

import datetime
import re
from dataclasses import dataclass

import narwhals.stable.v1 as nw
import numpy as np

from unpermute._progress import report
from unpermute.records._cells import (
    _DATE_CLASS,
    _MISSING_CLASS,
    _TEXT_CLASS,
    DATE,
    NUMBER,
    TEXT,
    Cells,
    count_decimals,
    kinds_of,
    number_cells,
    rounded,
)

__all__ = ["KINDS", "ColumnKind", "describe_columns", "read_cells"]

# Kinds that a user may give to a column; "ignore" leaves it out.
KINDS = ("number", "date", "category", "text", "identifier", "ignore")
# Kinds whose cells are texts even if they look like numbers or dates.
_TEXTS = ("category", "text", "identifier")

_PLAIN = r"^\s*[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*$"
_NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\d*\.\d+)(?:[eE][+-]?\d+)?$")
_INFINITE = {"inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"}
_AFFIX = r"(?:[$€£¥]|EUR|USD|GBP|CHF)"
_DRESSED = re.compile(rf"(?P<sign>[+-]?)(?P<before>{_AFFIX} ?)?(?P<digits>[\d.,' ]*\d)"
                      rf"(?P<after> ?(?:%|{_AFFIX}))?$")  # fmt: skip
_GROUPED = re.compile(r"[1-9]\d{0,2}([,' ]\d{3})+(\.\d+)?$")
_POINT_GROUPED = re.compile(r"[1-9]\d{0,2}((\.\d{3})+,\d+|(\.\d{3}){2,}(,\d+)?)$")
_COMMA = re.compile(r"(0|[1-9]\d*),\d+$")
_DATES = [
    (re.compile(r"\d{4}-\d{1,2}-\d{1,2}$"), ["%Y-%m-%d"]),
    (re.compile(r"\d{4}/\d{1,2}/\d{1,2}$"), ["%Y/%m/%d"]),
    (re.compile(r"\d{1,2}\.\d{1,2}\.\d{4}$"), ["%d.%m.%Y"]),
    (re.compile(r"\d{1,2}/\d{1,2}/\d{4}$"), ["%m/%d/%Y", "%d/%m/%Y"]),
    (re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}$"), ["%Y-%m-%d %H:%M"]),
    (re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d+)?Z?$"), ["%Y-%m-%d %H:%M:%S"]),
    (re.compile(r"\d{1,2}:\d{2}$"), ["%H:%M"]),
    (re.compile(r"\d{1,2}:\d{2}:\d{2}$"), ["%H:%M:%S"]),
]
# More formats, for columns that are said to hold dates.
_MORE_DATES = [
    "%Y%m%d", "%Y-%m", "%d.%m.%y", "%d-%m-%Y", "%d/%m/%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y",
    "%B %d, %Y",
]  # fmt: skip
# Distinct values up to which a column of texts is called one of categories.
_MOST_CATEGORIES = 50
# Numbers that are read in one call: a call for each of thousands of columns is slow.
_READ_AT_ONCE = 1 << 20
# Share of the cells of a column that makes it one of numbers, dates or texts.
_MAINLY = 0.9


@dataclass(frozen=True)
class ColumnKind:
    """What a column of the table was judged as, or why it was not.

    Attributes
    ----------
    name : str
        The column.
    kind : str
        "number", "date", "category", "text", "identifier", "mixed", or "" if not judged.
    reason : str
        Why the column was not judged; "" if it was.
    """

    name: str
    kind: str
    reason: str = ""


def read_cells(frame, names, kinds=None, *, stage=None):
    """Read columns of a frame.

    Parameters
    ----------
    frame : narwhals DataFrame
        The table.
    names : list of str
        Columns to read.
    kinds : dict of str to str or None
        What some of the columns hold: one of `KINDS`. The cells of all others are read as what
        they look like.
    stage : str or None
        What this work is called in reports of progress; None: it is not reported.

    Returns
    -------
    cells : Cells
        The cells of these columns.
    n_infinite : int
        Infinite numbers, which count as missing.
    """
    n, p = len(frame), len(names)
    values = np.full((n, p), np.nan)
    classes = np.full((n, p), _MISSING_CLASS, dtype=np.int8)
    styles, texts = np.zeros((n, p), dtype=np.int16), np.full((n, p), -2, dtype=np.int32)
    reader, n_infinite, n_read, kinds = _Reader(), 0, 0, kinds or {}
    may_be_numbers = [name for name in names if kinds.get(name) in (None, "number")]
    plain = _number_columns(frame, may_be_numbers)
    for columns in _at_once([j for j, name in enumerate(names) if name in plain], n):
        numbers = _as_numbers(frame, [names[j] for j in columns])
        n_infinite += int(np.isinf(numbers).sum())
        read = number_cells(numbers)
        values[:, columns], classes[:, columns] = read.values, read.classes
        texts[:, columns] = read.texts
        n_read += len(columns)
        if stage:
            report(stage, n_read, p)
    for j, name in enumerate(names):
        if name in plain:
            continue
        distinct, codes = _coded(_strings(frame[name]))
        found = [reader.read(text, kinds.get(name)) for text in distinct]
        parts = np.array(found, dtype=float).reshape(-1, 4)
        values[:, j] = parts[codes, 0]
        for part, column in ((classes, 1), (styles, 2), (texts, 3)):
            part[:, j] = parts[codes, column]
        n_read += 1
        if stage:
            report(stage, n_read, p)
    cells = Cells(values, classes, styles, texts, list(reader.texts), list(reader.styles))
    return cells, n_infinite + reader.n_infinite


def describe_columns(cells, names, kinds=None):
    """Say what every column is judged as, by itself or as `kinds` says: a list of ColumnKind."""
    found = []
    of_cells = kinds_of(cells.classes)
    counts = np.array([(of_cells == kind).sum(axis=0) for kind in (NUMBER, DATE, TEXT)])
    n_seen, main, n_main = counts.sum(axis=0), counts.argmax(axis=0), counts.max(axis=0)
    equal = (n_seen == len(of_cells)) & _all_equal(cells)
    for j, name in enumerate(names):
        if not n_seen[j]:
            found.append(ColumnKind(name, "", "it is empty"))
            continue
        if equal[j]:
            found.append(ColumnKind(name, "", "all its values are equal"))
            continue
        kind = ("number", "date", "text")[main[j]] if n_main[j] >= _MAINLY * n_seen[j] else "mixed"
        if kind == "text":
            kind = _kind_of_texts(cells.texts[of_cells[:, j] == TEXT, j])
        found.append(ColumnKind(name, (kinds or {}).get(name, kind)))
    return found


def _all_equal(cells):
    """Whether all cells are equal, by column."""
    values = cells.values
    same = (values == values[:1]) | (np.isnan(values) & np.isnan(values[:1]))
    for part in (cells.texts, cells.styles):
        same &= part == part[:1]
    return same.all(axis=0)


def _kind_of_texts(texts):
    n_distinct = len(np.unique(texts))
    if n_distinct == len(texts) > 1:
        return "identifier"
    return "category" if n_distinct <= min(_MOST_CATEGORIES, len(texts) / 2) else "text"


def _number_columns(frame, names):
    """The columns that hold numbers and nothing else."""
    schema = frame.schema
    found = {name for name in names if schema[name].is_numeric()}
    strings = [name for name in names if isinstance(schema[name], nw.String)]
    if strings:
        texts, is_plain = frame[strings], nw.all().str.contains(_PLAIN)
        n_plain = texts.select(is_plain.fill_null(False).sum()).row(0)
        n_values = texts.select(nw.all().count()).row(0)
        counts = zip(strings, n_plain, n_values, strict=True)
        found.update(name for name, plain, values in counts if plain == values > 0)
    return found


def _at_once(columns, n_rows):
    """Columns in groups, each to be read in one call."""
    size = max(1, _READ_AT_ONCE // max(n_rows, 1))
    return [columns[first : first + size] for first in range(0, len(columns), size)]


def _as_numbers(frame, names):
    """Columns of numbers, or of texts that are numbers, as a matrix."""
    numbers, schema = np.empty((len(frame), len(names))), frame.schema
    is_text = np.array([isinstance(schema[name], nw.String) for name in names])
    for mine, cells in ((is_text, nw.all().str.strip_chars()), (~is_text, nw.all())):
        if mine.any():
            part = frame[[name for name, of_it in zip(names, mine, strict=True) if of_it]]
            floats = part.select(cells.cast(nw.Float64))
            read = floats.to_numpy()
            if read.dtype == object:  # pandas keeps its own nulls in a matrix, but not in a column
                read = np.column_stack([floats[name].to_numpy() for name in floats.columns])
            numbers[:, mine] = read
    return numbers


def _strings(series):
    """Cells as texts, "" where they are missing."""
    cells = series.to_list()
    return ["" if cell is None or cell != cell else str(cell).strip() for cell in cells]


def _coded(texts):
    """Return the distinct ones of some texts, in order, and the number of each text among them.

    An array of texts as NumPy sorts it has room for the longest in every place: one long remark
    in many rows would need all memory.
    """
    distinct = sorted(set(texts))
    numbers = {text: number for number, text in enumerate(distinct)}
    return distinct, np.array([numbers[text] for text in texts], dtype=np.int64)


class _Reader:
    """Reads texts, and keeps the distinct texts and styles seen so far."""

    def __init__(self):
        self.texts: dict[str, int] = {}
        self.styles: dict[str, int] = {"": 0}
        self.n_infinite = 0

    def read(self, text, kind=None):
        """Value, class, style and text of one cell, of a column of some kind."""
        if not text or text in ("NaT", "<NA>"):
            return np.nan, _MISSING_CLASS, 0, -2
        if kind in _TEXTS:
            return self._text(_shortest(text))
        if text.lower() in _INFINITE:
            self.n_infinite += 1
            return np.nan, _MISSING_CLASS, 0, -2
        if kind == "date" and (date := _date(text) or _other_date(text)) is not None:
            return date[0], _DATE_CLASS, self._style(date[1]), -1
        # A number with leading zeros is a text, unless the column is said to hold numbers.
        bare = re.sub(r"^0+(?=\d)", "", text) if kind == "number" else text
        if (number := _number(bare)) is not None:
            return self._number(*number)
        if (date := _date(text)) is not None:
            return date[0], _DATE_CLASS, self._style(date[1]), -1
        return self._text(text)

    def _text(self, text):
        return np.nan, _TEXT_CLASS, 0, self.texts.setdefault(text, len(self.texts))

    def _number(self, value, style):
        if not np.isfinite(value):
            return np.nan, _MISSING_CLASS, 0, -2
        value = rounded(np.array([value]))
        return float(value[0]), int(count_decimals(value)[0]), self._style(style), -1

    def _style(self, style):
        return self.styles.setdefault(style, len(self.styles))


def _shortest(text):
    """A whole number without the decimals that some formats give it: 3.0 is 3."""
    return re.sub(r"^([+-]?\d+)\.0+$", r"\1", text)


def _number(text):
    """Value and style of a number, or None."""
    if _NUMBER.match(text):
        return float(text), ""
    match = _DRESSED.match(text)
    if match is None:
        return None
    digits, form = match["digits"], ""
    if _GROUPED.match(digits):
        form, digits = "grouped", re.sub("[,' ]", "", digits)
    elif _POINT_GROUPED.match(digits):
        form, digits = "grouped, comma", digits.replace(".", "").replace(",", ".")
    elif _COMMA.match(digits):
        form, digits = "comma", digits.replace(",", ".")
    if not _NUMBER.match(digits):
        return None
    style = f"{match['before'] or ''}{form}{match['after'] or ''}"
    return float(match["sign"] + digits), style


def _date(text):
    """Days and format of a date or time, or None."""
    if text.endswith(" 00:00:00"):  # how pandas writes a date without a time
        text = text[:-9]
    for pattern, formats in _DATES:
        if not pattern.match(text):
            continue
        plain = text.replace("T", " ").rstrip("Z").split(".")[0] if ":" in text else text
        for form in formats:
            try:
                moment = datetime.datetime.strptime(plain, form)
            except ValueError:
                continue
            seconds = moment.hour * 3600 + moment.minute * 60 + moment.second
            return moment.toordinal() + seconds / 86400, form
    return None


def _other_date(text):
    """Days and format of a date in a less usual format, or None."""
    for form in _MORE_DATES:
        try:
            return float(datetime.datetime.strptime(text, form).toordinal()), form
        except ValueError:
            continue
    return None
