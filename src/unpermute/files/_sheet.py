"""The parts of a workbook: sheets, shared strings, styles, and where in a sheet its cells are."""

import datetime
import io
import math
import posixpath
import re
import zipfile
import zlib
from typing import Any
from xml.parsers import expat

import numpy as np

from unpermute.files._source import TableError, few

__all__ = ["Sheet", "Workbook", "cell_name", "read_part"]

_OLE = b"\xd0\xcf\x11\xe0"
# Parts of one workbook together; a few bytes of zip may claim to be any number.
_MOST_BYTES = 2**31
# Numbers below this have all their digits before the point.
_EXACT = 1e15
_TAG = re.compile(rb"<[^>\"']*(?:\"[^\"]*\"[^>\"']*|'[^']*'[^>\"']*)*>")
_ADDRESS = re.compile(rb"(\sr\s*=\s*)(?:\"[^\"]*\"|'[^']*')")
# Formats of dates and times that a workbook need not describe.
_DATE_FORMATS = {*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)}


class Workbook:
    """A workbook.

    Parameters
    ----------
    raw : bytes or mmap
        The file.
    name : str
        What messages call it.
    """

    def __init__(self, raw, name):
        self._name = name
        if raw[:4] == _OLE:
            raise TableError(
                f"{name} is an old or an encrypted workbook; save it as .xlsx without a password."
            )
        try:
            self._file = zipfile.ZipFile(io.BytesIO(raw))
            size = sum(info.file_size for info in self._file.infolist())
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
            raise TableError(f"{name} is not a workbook (.xlsx), or is cut off.") from None
        if size > _MOST_BYTES:
            raise TableError(f"{name} claims to hold {size:,} bytes, which is too much.")
        self._main = self._main_part()
        self._since_1904 = False
        self.sheets: list[tuple[str, str]] = []
        targets = self._targets(self._main)
        self._each_element(self._main, lambda tag, values: self._enter_sheet(tag, values, targets))
        if not self.sheets:
            raise TableError(f"{name} is not a workbook: it has no sheets.")

    def part_of(self, sheet):
        """Return the part that holds a sheet, and its title; None: the first."""
        titles = [title for title, _ in self.sheets]
        place = 0 if sheet is None else titles.index(sheet) if sheet in titles else None
        if place is None and re.fullmatch("[0-9]{1,9}", sheet) and 0 < int(sheet) <= len(titles):
            place = int(sheet) - 1
        if place is None:
            known = few([repr(title) for title in titles])
            raise TableError(f"{self._name} has no sheet {sheet!r}; its sheets are {known}.")
        return self.sheets[place][1], titles[place]

    def read(self, part):
        """Return the cells of a sheet."""
        strings = self._shared_strings()
        dates = self._date_styles()
        sheet = Sheet(self._bytes(part), strings, dates, self._since_1904)
        self._parse(part, sheet.bind)
        sheet.finish()
        return sheet

    def _main_part(self):
        found = [
            target for kind, target in self._targets("").values() if kind.endswith("officeDocument")
        ]
        return found[0] if found else "xl/workbook.xml"

    def _targets(self, part):
        """Return kind and name of the parts that a part refers to, by id."""
        folder, base = posixpath.split(part)
        targets: dict[str, tuple[str, str]] = {}

        def enter(tag, values):
            if tag == "Relationship" and values.get("TargetMode") != "External":
                target = posixpath.join("/", folder, values.get("Target", ""))
                kind = values.get("Type", "")
                targets[values.get("Id", "")] = kind, posixpath.normpath(target).lstrip("/")

        rels = posixpath.join(folder, "_rels", f"{base}.rels")
        if rels in self._file.namelist():
            self._each_element(rels, enter)
        return targets

    def _parts_of(self, kind):
        return [part for each, part in self._targets(self._main).values() if each.endswith(kind)]

    def _enter_sheet(self, tag, values, targets):
        if tag == "workbookPr":
            self._since_1904 = values.get("date1904") in ("1", "true")
        if tag == "sheet":
            ids = [value for name, value in values.items() if name.split(":")[-1] == "id"]
            kind, part = targets.get(ids[0] if ids else "", ("", ""))
            if kind.endswith("/worksheet"):
                self.sheets.append((values.get("name", ""), part))

    def _shared_strings(self):
        strings: list[str] = []
        state = {"in_text": False, "phonetic": 0}

        def start(tag, values):
            if tag == "si":
                strings.append("")
            state["phonetic"] += tag == "rPh"
            state["in_text"] = tag == "t" and not state["phonetic"]

        def end(tag):
            state["phonetic"] -= tag == "rPh"
            state["in_text"] = False

        def text(part):
            if state["in_text"] and strings:
                strings[-1] += part

        for part in self._parts_of("/sharedStrings"):
            self._parse(part, lambda parser: _handle(parser, start, end, text))
        return strings

    def _date_styles(self):
        """Return which styles show numbers as dates."""
        formats: dict[str, bool] = {}
        styles: list[bool] = []
        state = {"in_cells": False}

        def start(tag, values):
            if tag == "numFmt":
                formats[values.get("numFmtId", "")] = _is_date_format(values.get("formatCode", ""))
            state["in_cells"] |= tag == "cellXfs"
            if tag == "xf" and state["in_cells"]:
                number = values.get("numFmtId", "0")
                known = number.isdecimal() and int(number[:9]) in _DATE_FORMATS
                styles.append(formats.get(number, known))

        def end(tag):
            state["in_cells"] &= tag != "cellXfs"

        for part in self._parts_of("/styles"):
            self._parse(part, lambda parser: _handle(parser, start, end))
        return styles

    def _each_element(self, part, enter):
        self._parse(part, lambda parser: _handle(parser, enter))

    def _bytes(self, part):
        return read_part(self._file, part, self._name)

    def _parse(self, part, bind):
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = _refuse_doctype
        bind(parser)
        try:
            parser.Parse(self._bytes(part), True)
        except (expat.ExpatError, IndexError, ValueError, LookupError) as error:
            if isinstance(error, TableError):
                raise
            raise TableError(f"{self._name} is damaged: its part {part!r} is unreadable.") from None


def read_part(file, part, name):
    """Return a part of a workbook, or say that it is damaged."""
    try:
        return file.read(part)
    except (KeyError, zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError,
            RuntimeError, NotImplementedError):  # fmt: skip
        raise TableError(f"{name} is damaged: its part {part!r} is unreadable.") from None


class Sheet:
    """The cells of a sheet: their places, texts, and where in the XML they stand."""

    def __init__(self, xml, strings, dates, since_1904):
        self._xml, self._strings, self._dates, self._since_1904 = xml, strings, dates, since_1904
        self.texts: list[str] = []
        self.numeric: list[bool] = []
        self._spans: list[tuple[int, int]] = []
        self._addresses: list[tuple[int, int]] = []
        self._by_row: dict[int, dict[int, int]] = {}
        self._row = self._column = -1
        self._kind, self._style, self._parts, self._inside = "n", -1, [], False
        self._parser: Any = None

    def bind(self, parser):
        """Let a parser of the XML enter the cells."""
        self._parser = parser
        _handle(parser, self._start, self._end, self._text)

    def finish(self):
        """Forget what was needed for parsing."""
        self._parser = None
        self._strings = []

    def filled_rows(self):
        """Return the rows that have values, in order, and how many."""
        counts = {
            row: sum(bool(self.texts[k]) for k in cells.values())
            for row, cells in self._by_row.items()
        }
        rows = np.array(sorted(row for row, count in counts.items() if count), dtype=np.int64)
        return rows, np.array([counts[row] for row in rows.tolist()], dtype=np.int64)

    def row(self, row):
        """Return the texts of a row that has some, by column."""
        cells = self._by_row.get(row, {})
        return {column: self.texts[k] for column, k in cells.items() if self.texts[k]}

    def is_text(self, row):
        """Return whether all values of a row are texts."""
        cells = self._by_row[int(row)].values()
        return not any(self.numeric[k] for k in cells if self.texts[k])

    def last_column(self):
        """Return the last column with a value."""
        return max((c for k, (_, c) in enumerate(self._addresses) if self.texts[k]), default=0)

    def table(self, first_row, first_column, n_columns):
        """Return rows from one on that have values in some columns, and the cells by place."""
        wanted = range(first_column, first_column + n_columns)
        rows = [
            row for row, cells in sorted(self._by_row.items())
            if row >= first_row
            and any(column in wanted and self.texts[k] for column, k in cells.items())
        ]  # fmt: skip
        places = np.full((len(rows), n_columns), -1, dtype=np.int64)
        for i, row in enumerate(rows):
            for column, k in self._by_row[row].items():
                if column in wanted:
                    places[i, column - first_column] = k
        return np.array(rows, dtype=np.int64), places

    def span(self, k):
        """Return where in the XML a cell starts and stops."""
        return self._spans[k]

    def address(self, k):
        """Return the address of a cell, such as B5."""
        row, column = self._addresses[k]
        return f"{cell_name(column)}{row}"

    def has_formula(self, k):
        """Return whether a cell is calculated."""
        start, stop = self._spans[k]
        return re.search(rb"<(?:\w+:)?f[\s>/]", self._xml[start:stop]) is not None

    def element(self, k, address):
        """Return the element of a cell with another address."""
        start, stop = self._spans[k]
        content = self._xml[start:stop]
        tag = content[: _tag_end(content, 0)]
        return _ADDRESS.sub(rb'\g<1>"%s"' % address.encode(), tag, count=1) + content[len(tag) :]

    def gap(self, row, column):
        """Return where in the XML a cell that is not there would stand."""
        cells = sorted(self._by_row[row].items())
        later = [k for other, k in cells if other > column]
        return self._spans[later[0]][0] if later else self._spans[cells[-1][1]][1]

    def replaced(self, replacements):
        """Return the XML with other bytes in some places."""
        pieces, position = [], 0
        for start, stop, content in replacements:
            pieces += [self._xml[position:start], content]
            position = stop
        return b"".join([*pieces, self._xml[position:]])

    def _start(self, tag, values):
        if tag == "row":
            self._row = int(values["r"]) if "r" in values else max(self._row, 0) + 1
            self._column = -1
        elif tag == "c":
            match = re.match(r"([A-Z]{1,3})[0-9]+$", values.get("r", ""))
            self._column = _column_number(match[1]) if match else self._column + 1
            self._kind, self._style = values.get("t", "n"), int(values.get("s", -1))
            self._parts = []
            self._spans.append((self._parser.CurrentByteIndex, -1))
        self._inside = tag in ("v", "t")

    def _text(self, part):
        if self._inside:
            self._parts.append(part)

    def _end(self, tag):
        self._inside = False
        if tag != "c":
            return
        # The end of an empty element is reported at its start: both are followed by one tag.
        index = self._parser.CurrentByteIndex
        stop = _tag_end(self._xml, index)
        k = len(self.texts)
        self._spans[k] = (self._spans[k][0], stop)
        text, numeric = self._value("".join(self._parts))
        self.texts.append(text)
        self.numeric.append(numeric)
        self._addresses.append((self._row, self._column))
        self._by_row.setdefault(self._row, {})[self._column] = k

    def _value(self, text):
        """Return a value as text, and whether it is a number."""
        if self._kind == "s":
            return self._strings[int(text)] if text else "", False
        if self._kind == "b":
            return {"1": "TRUE", "0": "FALSE"}.get(text, text), False
        if self._kind != "n" or not text:
            return text, False
        number = float(text)
        if 0 <= self._style < len(self._dates) and self._dates[self._style]:
            return _date(number, self._since_1904), False
        if not math.isfinite(number):
            raise ValueError("a workbook has no such numbers")
        whole = abs(number) < _EXACT and number == int(number)
        return str(int(number)) if whole else repr(number), True


def _tag_end(xml, position):
    match = _TAG.match(xml, position)
    if match is None:
        raise ValueError("no tag here")
    return match.end()


def cell_name(column):
    """Return the letters of a column, counted from 0.

    Examples
    --------
    >>> from unpermute.files._sheet import cell_name
    >>> cell_name(0), cell_name(27)
    ('A', 'AB')
    """
    letters = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def _column_number(letters):
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1


def _handle(parser, start=None, end=None, text=None):
    """Let functions hear of elements by their names without a prefix."""
    if start is not None:
        parser.StartElementHandler = lambda tag, values: start(tag.split(":")[-1], values)
    if end is not None:
        parser.EndElementHandler = lambda tag: end(tag.split(":")[-1])
    if text is not None:
        parser.CharacterDataHandler = text


def _refuse_doctype(*_):
    raise ValueError("workbooks have no document types, which may expand without end")


def _is_date_format(code):
    plain = re.sub(r'"[^"]*"|\\.|\[[^\]]*\]', "", code.lower())
    return re.search(r"[dmyhs]", plain) is not None and "general" not in plain


def _date(number, since_1904):
    """Return a date as a workbook counts days, with the time if there is one."""
    # Excel believes that 1900 was a leap year; before March of that year dates are one day off.
    base = datetime.datetime(1904, 1, 1) if since_1904 else datetime.datetime(1899, 12, 30)
    try:
        moment = base + datetime.timedelta(seconds=round(number * 86400))
    except (OverflowError, ValueError):
        return repr(number)
    if 0 <= number < 1:
        return moment.strftime("%H:%M:%S")
    return moment.strftime("%Y-%m-%d" if moment.time() == datetime.time() else "%Y-%m-%d %H:%M:%S")
