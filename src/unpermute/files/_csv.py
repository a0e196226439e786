"""Delimited text in which cells are moved as they stand: quotes, zeros, spaces and line ends stay.

The bytes of the file are the table. Kernels find records and cells in them; a repaired file is the
old one with the bytes of the moved cells exchanged, and nothing is ever formatted again.
"""

import codecs
import mmap
import re
from collections.abc import Iterator

import numpy as np
import polars as pl

from unpermute._progress import report
from unpermute.files._csv_kernels import copy_with_moves, find_cells, write_plain
from unpermute.files._csv_layout import CsvStyle, find_layout, lines_at
from unpermute.files._marks import Marks, find_marks
from unpermute.files._moves import JOIN, LineEdit, Moves
from unpermute.files._source import RaggedLine, SourceTable, TableError, refuse_doubles

__all__ = ["CsvTable"]

_BATCH = 1 << 25
_BOM = codecs.BOM_UTF8
# Candidates for separators when cells are handed to polars: two bytes that the file does not hold,
# so that no cell needs quotes. Bytes that are trimmed as blanks are not among them.
_CONTROL_BYTES = [bytes([byte]) for byte in (31, 30, 29, 28, *range(1, 9), *range(14, 28), 127)]


class CsvTable(SourceTable):
    """A table in delimited text: a `SourceTable` with one more parameter.

    Parameters
    ----------
    style : CsvStyle
        How it is to be read.
    marks : Marks, optional
        Decimal marks of its columns, found in another part of the same table; by default they are
        found here.
    regular : bool, default=True
        Whether a file of which most records are unlike the header is refused.

    Attributes
    ----------
    header : tuple of int
        Where the header starts and where the first record does, in a file in UTF-8.
    marks : Marks
        Decimal marks of its columns, once the frame has been read.
    """

    def __init__(
        self, raw: bytes | mmap.mmap, name: str, style: CsvStyle, marks: Marks | None = None, *,
        regular: bool = True,
    ):  # fmt: skip
        super().__init__(raw, name)
        self._style = style
        self._utf8, self._codec = _as_utf8(raw, style.encoding, name)
        self._data = np.frombuffer(self._utf8, dtype=np.uint8)
        begin = len(_BOM) if self._utf8[: len(_BOM)] == _BOM else 0
        layout = find_layout(self._data, begin, style, name, regular=regular)
        self._delimiter = ord(layout.delimiter)
        self.notes += layout.notes
        starts, n_fields, n_columns = layout.starts, layout.n_fields, layout.n_columns
        body = starts[int(style.header) :]
        self.header = (int(starts[0]), int(body[0]) if len(body) else len(self._data))
        if style.header:
            names = self._cell_texts(np.full(n_columns, starts[0]), np.arange(n_columns))
            self.columns = [text.strip() for text in names]
            refuse_doubles(self.columns, name)
            starts, n_fields = starts[1:], n_fields[1:]
        else:
            self.columns = [str(column) for column in range(n_columns)]
        self._starts, self._n_fields, self.n_rows = starts, n_fields, len(starts)
        self.frame_rows = np.flatnonzero(n_fields == n_columns)
        self.delimiter = layout.delimiter
        self._finds_marks = style.finds_marks and marks is None
        self.marks = marks or Marks(dict.fromkeys(self.columns), style.decimal or ".")

    def texts(self, rows: np.ndarray, columns: np.ndarray) -> list[str]:
        """Return cells, by position, as they stand in the file (without quotes)."""
        return self._cell_texts(self._starts[rows], columns)

    def lines(self, rows: np.ndarray) -> np.ndarray:
        """Return the lines of the file where records start, counted from 1."""
        return lines_at(self._data, self._starts[np.asarray(rows, dtype=np.int64)])

    def records(self, rows: np.ndarray) -> list[bytes]:
        """Return records as they stand in the file, each with its line end."""
        starts, stops = self._starts, np.append(self._starts[1:], len(self._data))
        return [bytes(self._utf8[starts[row] : stops[row]]) for row in rows]

    def ragged_lines(self) -> list[RaggedLine]:
        """Return the records that have another number of fields than there are columns."""
        rows = np.flatnonzero(self._n_fields != len(self.columns))
        found = []
        for row, line in zip(rows.tolist(), self.lines(rows).tolist(), strict=True):
            tokens = [self._utf8[a:b] for a, b in zip(*self._field_spans(row), strict=True)]
            quoted = [token[:1] == b'"' for token in tokens]
            found.append(RaggedLine(row, line, [_unquoted(token) for token in tokens], quoted))
        return found

    def fields_before(self, edit: LineEdit) -> list[str] | None:
        """Return the fields that a record had before an edit, None if it cannot have been made."""
        starts, stops = self._field_spans(edit.row)
        tokens = [self._utf8[a:b] for a, b in zip(starts, stops, strict=True)]
        token = tokens.pop(edit.column)
        if edit.kind != JOIN:
            return None if token else [_unquoted(other) for other in tokens]
        inner = token[1:-1].replace(b'""', b'"')
        parts = inner.split(bytes([self._delimiter]))
        if b'"' + inner.replace(b'"', b'""') + b'"' != token or len(parts) != 2:
            return None
        before = [*tokens[: edit.column], *parts, *tokens[edit.column :]]
        return [_unquoted(field) for field in before]

    def read_records(self, records: list[list[str]]) -> pl.DataFrame:
        """Return a frame of records that are given as texts, read as those of the file are."""
        columns = zip(*records, strict=True)
        frame = pl.DataFrame(dict(zip(self.columns, map(list, columns), strict=True)))
        frame = frame.with_columns(pl.all().str.strip_chars(" \t\r\n"))
        missing = ["", *(text.strip() for text in self._style.na)]
        frame = frame.with_columns(
            pl.when(pl.all().is_in(missing)).then(None).otherwise(pl.all()).name.keep()
        )
        return self.marks.plain(frame)[0]

    def with_moves(self, moves: Moves) -> Iterator[bytes | memoryview]:
        """Yield the file, piece by piece, with the bytes of cells moved."""
        pieces = self._pieces(moves)
        return pieces if self._codec is None else _recoded(pieces, self._codec)

    def _read_frame(self) -> pl.DataFrame:
        between, after = self._unused_bytes()
        schema = dict.fromkeys(self.columns, pl.String)
        parts = []
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
        frame = pl.concat(parts) if parts else pl.DataFrame(schema=schema)
        n_rows = len(self.frame_rows)
        if frame.height != n_rows:
            raise AssertionError(f"{self.name}: {frame.height} of {n_rows} records were read")
        if self._finds_marks:
            self.marks = find_marks(frame)
        if self._style.finds_marks:
            frame, notes = self.marks.plain(frame)
            self.notes += notes
        return frame

    def _plain_batches(self, between, after):
        texts = [text.strip().encode() for text in self._style.na]
        missing = (
            np.frombuffer(b"".join(texts), dtype=np.uint8),
            np.cumsum([len(text) for text in texts], dtype=np.int64),
        )
        marks = self._style.marks()
        for first, last in self._batches():
            rows = first + np.flatnonzero(self._n_fields[first:last] == len(self.columns))
            size = self._record_stop(last) - self._starts[first] + 1
            out = np.empty(size, dtype=np.uint8)
            filled = write_plain(
                self._data,
                self._starts[rows],
                self._delimiter,
                len(self.columns),
                between,
                after,
                # Without the rare case its kernel is not compiled.
                None if marks == (ord("."), 0) else marks,
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

    def _field_spans(self, row):
        n_fields = int(self._n_fields[row])
        starts, stops = self._spans(np.full(n_fields, self._starts[row]), np.arange(n_fields))
        return starts.tolist(), stops.tolist()

    def _edited(self, edit: LineEdit):
        """Return where in the file which bytes stand instead."""
        starts, stops = self._field_spans(edit.row)
        j, between = edit.column, bytes([self._delimiter])
        if edit.kind == JOIN and edit.undo:
            token = self._utf8[starts[j] : stops[j]]
            return starts[j], stops[j], token[1:-1].replace(b'""', b'"')
        if edit.kind == JOIN:
            token = self._utf8[starts[j] : stops[j + 1]]
            return starts[j], stops[j + 1], b'"' + token.replace(b'"', b'""') + b'"'
        if not edit.undo:
            place = starts[j] if j < len(starts) else stops[-1]
            return place, place, between
        last = j == len(starts) - 1
        return starts[j] - last, stops[j] + (not last), b""

    def _pieces(self, moves):
        cells = self._moved_spans(moves)
        begin = 0
        for start, stop, content in sorted(map(self._edited, moves.edits)):
            yield from self._copied(cells, begin, start)
            yield content
            begin = stop
        yield from self._copied(cells, begin, len(self._data))

    def _moved_spans(self, moves):
        """Return where cells and the bytes that they receive start and stop, in order."""
        starts, stops = self._spans(self._starts[moves.rows], moves.columns)
        from_starts, from_stops = self._spans(self._starts[moves.from_rows], moves.from_columns)
        order = np.argsort(starts)
        return np.stack([starts, stops, from_starts, from_stops])[:, order]

    def _copied(self, cells, begin, until):
        while begin < until:
            end = min(begin + _BATCH, until)
            # An empty cell may stand at the very end.
            first, last = np.searchsorted(cells[0], [begin, end + (end == until)])
            inside = np.ascontiguousarray(cells[:, first:last])
            # A cell at the border of two pieces belongs to the first as a whole.
            end = max(end, inside[1, -1]) if last > first else end
            longer = (inside[3] - inside[2]).sum() - (inside[1] - inside[0]).sum()
            out = np.empty(end - begin + longer, dtype=np.uint8)
            starts, stops, from_starts, from_stops = inside
            copy_with_moves(self._data, begin, end, starts, stops, from_starts, from_stops, out)
            yield out.data
            begin = end


def _let_go(raw):
    """Release the memory of pages of a mapped file; they are read again when needed."""
    if isinstance(raw, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        raw.madvise(mmap.MADV_DONTNEED)


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


def _unquoted(token):
    match = re.fullmatch(rb'"((?:[^"]|"")*)"(.*)', token, re.DOTALL)
    if match:
        token = match[1].replace(b'""', b'"') + match[2]
    return token.decode()


def _recoded(pieces, codec):
    decoder = codecs.getincrementaldecoder("utf-8")()
    for piece in pieces:
        yield decoder.decode(piece).encode(codec)
