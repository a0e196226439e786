"""Delimited text in which cells are moved as they stand: quotes, zeros, spaces and line ends stay.

The bytes of the file are the table. Kernels find records and cells in them; a repaired file is the
old one with the bytes of the moved cells exchanged, and nothing is ever formatted again.
"""

import codecs
import mmap
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from unpermute._progress import report
from unpermute.files._csv_kernels import copy_with_moves, find_cells, find_records, write_plain
from unpermute.files._moves import Moves
from unpermute.files._source import SourceTable, TableError

__all__ = ["NA_TEXTS", "CsvStyle", "CsvTable"]

NA_TEXTS = ("NA", "N/A", "NaN", "nan", "null", "NULL", "None")

_DELIMITERS = (",", ";", "\t", "|")
_SAMPLE = 1 << 16
_BATCH = 1 << 25
_BOM = codecs.BOM_UTF8
_LF, _CR = 10, 13
# Two of these that a file does not hold stand between cells on the way to polars, so that nothing
# in a cell needs quotes there. Those that polars or we trim are not among them.
_CONTROL_BYTES = [bytes([byte]) for byte in (31, 30, 29, 28, *range(1, 9), *range(14, 28), 127)]


@dataclass(frozen=True)
class CsvStyle:
    """How a delimited file is to be read.

    Parameters
    ----------
    delimiter : str or None
        One character; None looks at the first lines.
    decimal : {".", ","}
        The decimal mark.
    thousands : str or None
        What stands between groups of three digits; None means "." if `decimal` is ",", otherwise
        nothing.
    encoding : str
        A codec that Python knows.
    na : sequence of str
        Texts that mean "no value", besides the empty one.
    header : bool
        Whether the first record holds the names of the columns.
    """

    delimiter: str | None = None
    decimal: str = "."
    thousands: str | None = None
    encoding: str = "utf-8"
    na: Sequence[str] = NA_TEXTS
    header: bool = True

    def __post_init__(self):
        if self.delimiter is not None and not _is_delimiter(self.delimiter):
            raise TableError(
                f"delimiter must be one ASCII character, no quote and no line end,"
                f" but is {self.delimiter!r}."
            )
        if self.decimal not in (".", ","):
            raise TableError(f"decimal must be '.' or ',', but is {self.decimal!r}.")
        if self.thousands and (len(self.thousands) > 1 or self.thousands not in ",. '_"):
            raise TableError(
                f"thousands must be one of , . ' _ or a space, but is {self.thousands!r}."
            )
        if self.thousands == self.decimal:
            raise TableError(f"decimal and thousands cannot both be {self.decimal!r}.")

    def marks(self) -> tuple[int, int]:
        """Return the bytes for the decimal mark and between thousands (0 for nothing)."""
        thousands = self.thousands
        if thousands is None:
            thousands = "." if self.decimal == "," else ""
        return ord(self.decimal), ord(thousands) if thousands else 0


class CsvTable(SourceTable):
    """A table in delimited text.

    Parameters
    ----------
    raw : bytes or mmap
        The file.
    name : str
        What messages call it.
    style : CsvStyle
        How it is to be read.
    """

    def __init__(self, raw: bytes | mmap.mmap, name: str, style: CsvStyle):
        self.name, self._style = name, style
        self._utf8, self._codec = _as_utf8(raw, style.encoding, name)
        self._data = np.frombuffer(self._utf8, dtype=np.uint8)
        begin = len(_BOM) if self._utf8[: len(_BOM)] == _BOM else 0
        delimiter = style.delimiter
        if delimiter is None:
            delimiter = _guess_delimiter(self._data[begin : begin + _SAMPLE], style.decimal)
        self._delimiter = ord(delimiter)
        starts, n_columns, bad_line, n_fields = find_records(self._data, begin, self._delimiter)
        if bad_line:
            _refuse_record(name, bad_line, n_fields, n_columns, delimiter)
        if not len(starts):
            raise TableError(f"{name} is empty.")
        if style.header:
            names = self._cell_texts(np.full(n_columns, starts[0]), np.arange(n_columns))
            self.columns = [text.strip() for text in names]
            _refuse_doubles(self.columns, name)
            starts = starts[1:]
        else:
            self.columns = [str(column) for column in range(n_columns)]
        self._starts, self.n_rows = starts, len(starts)

    def texts(self, rows: np.ndarray, columns: np.ndarray) -> list[str]:
        """Return cells, by position, as they stand in the file (without quotes)."""
        return self._cell_texts(self._starts[rows], columns)

    def lines(self, rows: np.ndarray) -> np.ndarray:
        """Return the lines of the file where records start, counted from 1."""
        starts = self._starts[np.asarray(rows, dtype=np.int64)]
        last = int(starts.max(initial=0))
        data = self._data[: last + 1]
        # A carriage return before a line feed belongs to it.
        ends = (data == _LF) | (data == _CR)
        ends[:-1] &= ~((data[:-1] == _CR) & (data[1:] == _LF))
        return 1 + np.searchsorted(np.flatnonzero(ends), starts)

    def with_moves(self, moves: Moves) -> Iterator[bytes | memoryview]:
        """Yield the file, piece by piece, with the bytes of cells moved."""
        pieces = self._pieces(moves)
        return pieces if self._codec is None else _recoded(pieces, self._codec)

    def _read_frame(self) -> pl.DataFrame:
        between, after = self._unused_bytes()
        schema = dict.fromkeys(self.columns, pl.String)
        parts = [pl.DataFrame(schema=schema)]
        for plain in self._plain_batches(between[0], after[0]):
            part = pl.read_csv(
                plain,
                has_header=False,
                schema=schema,
                separator=between.decode(),
                eol_char=after.decode(),
                quote_char=None,
            )
            parts.append(part)
        _let_go(self._utf8)
        frame = pl.concat(parts)
        if frame.height != self.n_rows:
            raise AssertionError(f"{self.name}: {frame.height} of {self.n_rows} records were read")
        return frame

    def _plain_batches(self, between, after):
        texts = [text.strip().encode() for text in self._style.na]
        missing = (
            np.frombuffer(b"".join(texts), dtype=np.uint8),
            np.cumsum([len(text) for text in texts], dtype=np.int64),
        )
        for first, last in self._batches():
            size = self._record_stop(last) - self._starts[first] + 1
            out = np.empty(size, dtype=np.uint8)
            filled = write_plain(
                self._data,
                self._starts[first:last],
                self._delimiter,
                len(self.columns),
                between,
                after,
                self._style.marks(),
                missing,
                out,
            )
            report("read", last, self.n_rows)
            yield out[:filled].tobytes()

    def _batches(self):
        """Yield first and last (exclusive) records of pieces of the file."""
        first = 0
        while first < self.n_rows:
            last = int(np.searchsorted(self._starts, self._starts[first] + _BATCH))
            yield first, last
            first = last

    def _record_stop(self, last):
        return self._starts[last] if last < self.n_rows else len(self._data)

    def _unused_bytes(self):
        unused = [byte for byte in _CONTROL_BYTES if self._utf8.find(byte) < 0][:2]
        if len(unused) < 2 or self._delimiter in (unused[0][0], unused[1][0]):
            raise TableError(f"{self.name} is not a table: it is full of control characters.")
        return unused

    def _cell_texts(self, record_starts, columns):
        starts, stops = self._spans(record_starts, columns)
        return [
            _unquoted(self._utf8[start:stop])
            for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
        ]

    def _spans(self, record_starts, columns):
        """Return where cells start and stop, in any order."""
        order = np.lexsort((columns, record_starts))
        spans = np.empty((2, len(order)), dtype=np.int64)
        columns = np.asarray(columns, dtype=np.int64)[order]
        find_cells(self._data, record_starts[order], self._delimiter, columns, *spans)
        starts, stops = np.empty_like(spans)
        starts[order], stops[order] = spans
        return starts, stops

    def _pieces(self, moves):
        starts, stops = self._spans(self._starts[moves.rows], moves.columns)
        from_starts, from_stops = self._spans(self._starts[moves.from_rows], moves.from_columns)
        order = np.argsort(starts)
        cells = np.stack([starts, stops, from_starts, from_stops])[:, order]
        begin = 0
        while begin < len(self._data):
            end = begin + _BATCH
            first, last = np.searchsorted(cells[0], [begin, end])
            inside = np.ascontiguousarray(cells[:, first:last])
            # A cell at the border of two pieces belongs to the first as a whole.
            end = max(end, inside[1, -1]) if last > first else end
            end = min(end, len(self._data))
            longer = (inside[3] - inside[2]).sum() - (inside[1] - inside[0]).sum()
            out = np.empty(end - begin + longer, dtype=np.uint8)
            starts, stops, from_starts, from_stops = inside
            copy_with_moves(self._data, begin, end, starts, stops, from_starts, from_stops, out)
            yield out.data
            begin = end


def _let_go(raw):
    """Give memory that holds pages of a mapped file back; they are read again when needed."""
    if isinstance(raw, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        raw.madvise(mmap.MADV_DONTNEED)


def _is_delimiter(text):
    return len(text) == 1 and text.isascii() and text not in '"\r\n\0'


def _as_utf8(raw, encoding, name):
    """Return the file in UTF-8, and the codec to write it with (None: it is UTF-8 itself)."""
    try:
        codec = codecs.lookup(encoding).name
        "".encode(codec)  # refused by codecs that are not for text, such as hex
    except (LookupError, ValueError):
        raise TableError(
            f"encoding {encoding!r} is not the name of an encoding of text, such as utf-8,"
            " latin-1 or cp1252."
        ) from None
    if codec in ("utf-8", "utf-8-sig", "ascii"):
        _check_utf8(raw, name)
        return raw, None
    if codec in ("utf-16", "utf-32"):
        # With the order of bytes in the name, the mark at the start is a character like others.
        big = raw[:2] == codecs.BOM_UTF16_BE or raw[:4] == codecs.BOM_UTF32_BE
        codec += "-be" if big else "-le"
    content = bytes(raw)
    try:
        text = content.decode(codec)
        utf8, again = text.encode(), text.encode(codec)
    except UnicodeError as error:
        raise TableError(f"{name} is not text in {encoding}: {error}.") from None
    if again != content:
        raise TableError(f"{name} cannot be written in {encoding} byte for byte as it was read.")
    _refuse_zero_bytes(utf8, name)
    return utf8, codec


def _check_utf8(raw, name):
    if raw[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise TableError(f"{name} is not text in utf-8 but perhaps in utf-16: try --encoding.")
    _refuse_zero_bytes(raw, name)
    decoder = codecs.getincrementaldecoder("utf-8")()
    for begin in range(0, len(raw), _BATCH):
        try:
            decoder.decode(raw[begin : begin + _BATCH], final=begin + _BATCH >= len(raw))
        except UnicodeDecodeError:
            raise TableError(
                f"{name} is not text in utf-8; name its encoding, for instance --encoding latin-1."
            ) from None


def _refuse_zero_bytes(raw, name):
    if raw.find(b"\0") >= 0:
        raise TableError(f"{name} is not a table in text: it holds zero bytes.")


def _guess_delimiter(sample, decimal):
    """Return the character that splits the first lines into most fields, equally many in each."""
    complete = len(sample) < _SAMPLE
    if not complete:
        sample = sample[: 1 + max(map(bytes(sample).rfind, (b"\n", b"\r")))]
    best, best_columns = _DELIMITERS[0], 1
    # The decimal mark comes last, and only if nothing else splits the lines.
    for delimiter in sorted(_DELIMITERS, key=decimal.__eq__):
        _, n_columns, bad_line, n_fields = find_records(sample, 0, ord(delimiter))
        # The end of the sample may stand inside quotes.
        sound = not bad_line or (n_fields < 0 and not complete)
        if sound and n_columns > best_columns and (delimiter != decimal or best_columns == 1):
            best, best_columns = delimiter, n_columns
    return best


def _refuse_doubles(columns, name):
    """Refuse a table in which two columns have one name."""
    seen: set[str] = set()
    for column in columns:
        if column in seen:
            raise TableError(
                f"{name} has two columns called {column!r}; every column needs a name of its own."
            )
        seen.add(column)


def _refuse_record(name, line, n_fields, n_columns, delimiter):
    if n_fields < 0:
        raise TableError(f"{name}, line {line}: a quote is opened and never closed.")
    fields = "1 field" if n_fields == 1 else f"{n_fields} fields"
    raise TableError(
        f"{name}, line {line}: {fields}, but the first line has {n_columns}"
        f" (delimiter {delimiter!r})."
    )


def _unquoted(token):
    match = re.fullmatch(rb'"((?:[^"]|"")*)"(.*)', token, re.DOTALL)
    if match:
        token = match[1].replace(b'""', b'"') + match[2]
    return token.decode()


def _recoded(pieces, codec):
    decoder = codecs.getincrementaldecoder("utf-8")()
    for piece in pieces:
        yield decoder.decode(piece).encode(codec)
