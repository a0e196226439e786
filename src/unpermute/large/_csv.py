"""A table in CSV files larger than memory: pieces are runs of bytes that begin with a record.

A first pass over the bytes finds where pieces begin. A piece is read like a small file, with the
header before it, and written byte for byte but for the moved cells.
"""

import mmap
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from unpermute._progress import report
from unpermute._words import counted
from unpermute.files import (
    CsvStyle,
    CsvTable,
    Marks,
    Moves,
    TableError,
    find_records,
    listed_changes,
    mostly_odd,
)
from unpermute.large._files import Block, Piece, TableFiles, file_state

__all__ = ["CsvFiles"]

# Bytes of a piece, about; bytes that tell how a file is laid out; and of a record at most: an
# unclosed quote would make a record, and the memory for it, as long as the file.
_PIECE_BYTES, _HEAD_BYTES, _LONGEST = 1 << 24, 1 << 20, 1 << 26
_ENCODINGS = ("utf-8", "utf8", "ascii", "utf-8-sig")


class CsvFiles(TableFiles):
    """A table in CSV files.

    Parameters
    ----------
    paths, names : list of str
        The files, and what they are called in an output folder.
    style : CsvStyle
        How they are to be read.
    """

    format = "csv"

    def __init__(self, paths: list[str], names: list[str], style: CsvStyle):
        if style.encoding.lower() not in _ENCODINGS:
            raise TableError(
                f"encoding {style.encoding!r}: tables larger than memory are read in utf-8; convert"
                " the files first, for instance with iconv."
            )
        self.paths, self.names, self.notes, self.pieces = paths, names, [], []
        self._marks: Any = None
        self.columns: list[str] = []
        self._begins: dict[str, int] = {}
        self._n_odd = 0
        self._states = list(map(file_state, paths))
        for path, name in zip(paths, names, strict=True):
            with open(path, "rb") as file:
                raw = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if _size(file) else b""
                self._index(raw, path, name, style)
        if mostly_odd(self._n_odd, self.n_records):
            raise TableError(
                f"{self.first_odd}: {self._n_odd:,} of {counted(self.n_records, 'line')} have"
                f" another number of fields than the header, {len(self.columns)} (delimiter"
                f" {self._delimiter!r})."
            )
        self._style = replace(style, delimiter=self._delimiter, header=True, skip_lines=0)

    def take(self, piece, rows):
        """Return some records of a piece, as they stand in the file."""
        return b"".join(self._open(piece).records(rows))

    def joined(self, parts):
        """Return the records as one frame, and the decimal marks of their columns."""
        content = self._header + b"".join(map(_ended, parts))
        table = CsvTable(content, "the sample", self._style, regular=False)
        return table.frame, {"marks": asdict(table.marks), "notes": table.notes}

    def settled(self, state):
        """Return the files with their decimal marks settled."""
        other = copy(self)
        other._marks, other.notes = Marks(**state["marks"]), [*self.notes, *state["notes"]]
        return other

    def judged(
        self, piece: Piece, block_size: int, judge: Callable[..., Any], sink: Any
    ) -> Iterator[Block]:
        """Judge a piece; the repaired one differs from it in the moved cells only."""
        table = self._open(piece)
        rows, moved = table.frame_rows, []
        for start in range(0, len(rows), block_size):
            here = rows[start : start + block_size]
            # The bytes of the file are moved, not the cells of the frame.
            result = judge(table.frame[start : start + block_size], change=False)
            moves = result.moves
            moves = replace(moves, rows=moves.rows + start, from_rows=moves.from_rows + start)
            changes = moves.in_file(table)
            moved.append(changes.accepted())
            listed = self._listed(table, piece, changes, result.proposals["id"].to_list())
            yield Block(piece.row + here, result, listed)
        if sink is not None:
            _write_without(len(self._header), table.with_moves(_together(moved)), sink)

    def identity(self):
        """Return names, sizes and times of the files, and how they are read."""
        style = {key: str(value) for key, value in vars(self._style).items()}
        return {"files": self._named_states(), "style": style}

    def begin(self, path: str) -> int:
        """Return where the first record of a file begins: what stands before is not judged."""
        return self._begins[path]

    def _open(self, piece):
        with open(piece.file, "rb") as file:
            file.seek(piece.begin)
            content = file.read(piece.end - piece.begin)
        name = f"{piece.file}, bytes {piece.begin:,} to {piece.end:,}"
        # Whether too many lines are odd is a matter of the whole table.
        return CsvTable(self._header + content, name, self._style, self._marks, regular=False)

    def _listed(self, table, piece, changes, ids):
        """Proposed changes with rows and lines of the file."""
        lines = piece.line - 1 - _n_lines(self._header)
        return [
            (piece.row + row, lines + line, str(called), column, old, new, origin)
            for line, row, called, column, old, new, origin, *_ in listed_changes(
                table, changes, ids
            )
        ]

    def _index(self, raw, path, name, style):
        """Find header and pieces of a file."""
        head = self._checked_head(raw, path, style) if self.columns else _head(raw, path, style)
        if not self.columns:
            self.columns, self._delimiter = head.columns, head.delimiter
            names = bytes(raw[slice(*head.header)]) if style.header else _names_line(head)
            self._header = _ended(names)
            self.notes += head.notes
        begin = self._begins[path] = head.header[1]
        first = self.n_records
        row, line = 0, 1 + _n_lines(raw[:begin])
        while begin < len(raw):
            end, size, odd = _next_piece(
                raw, begin, ord(self._delimiter), len(self.columns), path, line
            )
            self._n_odd += len(odd)
            if len(odd) and self.first_odd is None:
                self.first_odd = f"{path}, line {line + _n_lines(raw[begin : begin + odd[0]])}"
            if size:
                k = len(self.pieces)
                part = f"_parts/{k:05d}.csv"
                self.pieces.append(
                    Piece(k, path, name, part, first + row, row, size, begin, end, line)
                )
            line += _n_lines(raw[begin:end])
            row, begin = row + size, end
            report("index", begin, len(raw))

    def _checked_head(self, raw, path, style):
        """Open the first lines of another file, or refuse it if it is not like the first."""
        head = _head(raw, path, replace(style, delimiter=self._delimiter))
        if head.columns == self.columns:
            return head
        alone = _head(raw, path, style)
        if alone.columns == self.columns:
            raise TableError(
                f"{path} has the delimiter {alone.delimiter!r}, but {self.paths[0]} has"
                f" {self._delimiter!r}; give all files the same one."
            )
        other = sorted(set(head.columns) ^ set(self.columns))
        what = f"{other[0]!r} is in one of them only" if other else "their order differs"
        raise TableError(f"{path} has other columns than {self.paths[0]}: {what}.")


def _size(file):
    return file.seek(0, 2)


def _head(raw, path, style):
    """Open the first lines of a file."""
    size = _HEAD_BYTES
    while True:
        part = raw[:size]
        if size >= len(raw):
            if not part.strip():
                raise TableError(f"{path} is empty.")
            return CsvTable(bytes(part), path, style, regular=False)
        stop = 1 + max(part.rfind(b"\n"), part.rfind(b"\r", 0, -1))
        try:
            if part[:stop].strip():
                return CsvTable(part[:stop], path, style, regular=False)
        except TableError:
            # Perhaps the last line ends within quotes.
            if size >= _LONGEST:
                raise
        if size >= _LONGEST:
            raise TableError(f"{path} is not a table: it has no line in its first {_megabytes()}.")
        size *= 4


def _names_line(head):
    """Return a header for a file that has none."""
    return head.delimiter.join(head.columns).encode()


def _next_piece(raw, begin, delimiter, n_columns, path, line):
    """Return where a piece ends, how many records it has, and where odd ones begin in it.

    The piece begins with a record, on this line of the file.
    """
    size = _PIECE_BYTES
    while True:
        data = np.frombuffer(raw[begin : begin + size], dtype=np.uint8)
        starts, n_fields = find_records(data, 0, delimiter)
        last = begin + len(data) >= len(raw)
        if last and n_fields[-1] < 0:
            line += _n_lines(raw[begin : begin + int(starts[-1])])
            raise TableError(f"{path}, line {line}: a quote is opened and never closed.")
        # The last record of a window may go on behind it.
        if last or len(starts) > 1:
            whole = n_fields if last else n_fields[:-1]
            end = len(raw) if last else begin + int(starts[-1])
            n_records = len(whole) if n_columns == 1 else int(np.count_nonzero(whole))
            return end, n_records, starts[: len(whole)][(whole > 0) & (whole != n_columns)]
        if size >= _LONGEST:
            raise TableError(
                f"{path}, line {line}: the record is longer than {_megabytes()}; perhaps a quote is"
                " opened and never closed."
            )
        size *= 4


def _megabytes():
    return f"{_LONGEST / (1 << 20):.0f} MB"


def _n_lines(content):
    """Number of line ends; a carriage return before a line feed belongs to it."""
    content = bytes(content)
    return content.count(b"\n") + content.count(b"\r") - content.count(b"\r\n")


def _ended(content):
    return content if not content or content.endswith((b"\n", b"\r")) else content + b"\n"


def _together(moves):
    """Put the moves of several blocks into one."""
    arrays = ("rows", "columns", "from_rows", "from_columns")
    none = np.zeros(0, dtype=np.int64)
    return Moves(*(np.concatenate([none, *(getattr(m, name) for m in moves)]) for name in arrays))


def _write_without(size, pieces, sink):
    """Write all but the first bytes."""
    for piece in pieces:
        view = memoryview(piece)
        skipped = min(size, len(view))
        sink.write(view[skipped:])
        size -= skipped
