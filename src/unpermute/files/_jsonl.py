"""JSON lines, one object per line, in which the texts of values are moved as they stand."""

import json
import mmap
import re
from collections.abc import Iterator
from itertools import groupby

import numpy as np
import polars as pl

from unpermute._progress import report
from unpermute.files._moves import Moves
from unpermute.files._source import SourceTable, TableError, check_columns

__all__ = ["JsonLinesTable"]

_BATCH_ROWS = 20_000
_DECODER = json.JSONDecoder(
    parse_int=str, parse_float=str, parse_constant=lambda text: None if text == "NaN" else text
)


class JsonLinesTable(SourceTable):
    """A table in JSON lines; keys are columns, and a missing key is a missing value."""

    def __init__(self, raw: bytes | mmap.mmap, name: str):
        super().__init__(raw, name)
        self._spans = self._find_records(raw, name)
        self.n_rows = len(self._spans)
        if not self.n_rows:
            raise TableError(f"{name} is empty.")

    def _find_records(self, raw: bytes | mmap.mmap, name: str) -> np.ndarray:
        """Return where the text of every record begins and ends."""
        matches = re.finditer(rb"[^\n]*[^\s][^\n]*", raw)
        return np.array([match.span() for match in matches], dtype=np.int64).reshape(-1, 2)

    @property
    def columns(self) -> list[str]:  # type: ignore[override]
        """Names of the columns, in the order in which they appear."""
        return self.frame.columns

    def lines(self, rows: np.ndarray) -> np.ndarray:
        """Return the lines of the file where records start, counted from 1."""
        data = np.frombuffer(self._raw, dtype=np.uint8)
        starts = self._spans[np.asarray(rows, dtype=np.int64), 0]
        ends = np.flatnonzero(data[: int(starts.max(initial=0)) + 1] == ord("\n"))
        return 1 + np.searchsorted(ends, starts)

    def texts(self, rows: np.ndarray, columns: np.ndarray) -> list[str]:
        """Return values as they stand in the file; strings without their quotes."""
        names = self.columns
        cells = zip(rows.tolist(), columns.tolist(), strict=True)
        return [self._record(row).get(names[column]) or "" for row, column in cells]

    def with_moves(self, moves: Moves) -> Iterator[bytes | memoryview]:
        """Yield the file, piece by piece, with the texts of values moved."""
        names, position = self.columns, 0
        order = np.argsort(moves.rows, kind="stable")
        for row, group in groupby(order.tolist(), key=lambda k: int(moves.rows[k])):
            replaced = []
            for k in group:
                start, stop = self._value_span(row, names[moves.columns[k]])
                origin = names[moves.from_columns[k]]
                from_start, from_stop = self._value_span(int(moves.from_rows[k]), origin)
                replaced.append((start, stop, self._raw[from_start:from_stop]))
            for start, stop, value in sorted(replaced):
                yield self._raw[position:start]
                yield value
                position = stop
        yield memoryview(self._raw)[position:]

    def _read_frame(self) -> pl.DataFrame:
        names: dict[str, None] = {}
        parts = []
        for first in range(0, self.n_rows, _BATCH_ROWS):
            last = min(first + _BATCH_ROWS, self.n_rows)
            records = [self._record(row) for row in range(first, last)]
            for record in records:
                names.update(dict.fromkeys(record))
            cells = {name: [record.get(name) for record in records] for name in names}
            parts.append(pl.DataFrame(cells, schema=dict.fromkeys(names, pl.String)))
            report("read", last, self.n_rows)
        frame = pl.concat(parts, how="diagonal")
        if not frame.columns:
            raise TableError(f"{self.name} is not a table: its objects have no keys.")
        return frame

    def _text(self, row):
        start, stop = self._spans[row].tolist()
        try:
            return self._raw[start:stop].decode()
        except UnicodeDecodeError:
            raise TableError(f"{self.name}, line {self.line(row)}: not text in utf-8.") from None

    def _record(self, row):
        try:
            record = _DECODER.decode(self._text(row).removeprefix("\ufeff"))
            return {_whole(name): _plain(value) for name, value in record.items()}
        except json.JSONDecodeError as error:
            raise TableError(f"{self.name}, line {self.line(row)}: {error}.") from None
        except RecursionError:
            raise TableError(f"{self.name}, line {self.line(row)}: nested too deeply.") from None
        except UnicodeEncodeError:
            raise TableError(
                f"{self.name}, line {self.line(row)}: half of a character (a lone surrogate), which"
                " no text may hold."
            ) from None
        except AttributeError:
            raise TableError(
                f"{self.name}, line {self.line(row)}: not an object with keys."
            ) from None

    def _value_span(self, row, name):
        """Return where in the file the value of a key stands."""
        text = self._text(row)
        found = None
        position = text.index("{") + 1
        while True:
            position = _after_space(text, position)
            if text[position] == "}":
                break
            key, position = _DECODER.raw_decode(text, position)
            start = _after_space(text, _after_space(text, position) + 1)
            _, stop = _DECODER.raw_decode(text, start)
            if key == name:
                found = start, stop  # of equal keys the last counts, as for every reader
            position = _after_space(text, stop)
            position += text[position] == ","
        if found is None:
            check_columns([name], self)
            raise TableError(
                f"{self.name}, line {self.line(row)} has no key {name!r}: a value can move only"
                " where one stands, if only null."
            )
        begin = int(self._spans[row, 0])
        return begin + len(text[: found[0]].encode()), begin + len(text[: found[1]].encode())


def _after_space(text, position):
    while position < len(text) and text[position] in " \t\n\r":
        position += 1
    return position


def _plain(value):
    """Return a value as text, None if there is none; numbers keep the digits they were given."""
    if value is None or isinstance(value, str):
        return _whole(value) if value else None
    return _whole(json.dumps(value, ensure_ascii=False))


def _whole(text):
    """Return a text, unless it holds half of a character, as JSON can write it."""
    text.encode()
    return text
