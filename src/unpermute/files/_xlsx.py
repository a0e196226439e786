"""Workbooks (.xlsx): one sheet is the table; a repaired workbook differs in its moved cells only.

A cell of a sheet is an element ``<c r="B5" s="3" t="s"><v>7</v></c>``. Moving a value moves the
element with its style, which says whether a number is a date, and only its address ``r`` changes.
"""

import io
import mmap
import zipfile
from collections.abc import Iterator

import numpy as np
import polars as pl

from unpermute.files._csv_layout import CsvStyle
from unpermute.files._marks import find_marks
from unpermute.files._moves import Moves
from unpermute.files._sheet import Workbook, cell_name, read_part
from unpermute.files._source import SourceTable, TableError, few, refuse_doubles

__all__ = ["WorkbookTable"]

# Rows among which the header is looked for, and the share of the widest row that it must fill.
_FIRST_ROWS, _FILLED = 50, 0.8


class WorkbookTable(SourceTable):
    """A table in a sheet of a workbook: a `SourceTable` with two more parameters.

    Parameters
    ----------
    style : CsvStyle
        Which texts mean "no value", whether there is a header, and lines to skip before it.
    sheet : str or None
        Name of the sheet, or its number from 1; None: the first.
    """

    def __init__(self, raw: bytes | mmap.mmap, name: str, style: CsvStyle, sheet: str | None):
        super().__init__(raw, name)
        self._style = style
        book = Workbook(raw, name)
        self._part, title = book.part_of(sheet)
        if len(book.sheets) > 1:
            others = few([repr(other) for other, _ in book.sheets if other != title])
            self.notes.append(f"The table is the sheet {title!r}; --sheet chooses: {others}.")
        self._sheet = book.read(self._part)
        header = self._header_row(style)
        names = self._names(header)
        self._first_column = min(names, default=0)
        self.columns = [names[column] for column in sorted(names)]
        refuse_doubles(self.columns, name)
        self._rows, self._places = self._sheet.table(
            header + style.header, self._first_column, len(self.columns)
        )
        self.n_rows = len(self._rows)

    def texts(self, rows: np.ndarray, columns: np.ndarray) -> list[str]:
        """Return cells as text; dates as year, month and day, numbers with all their digits."""
        places = self._places[rows, columns].tolist()
        return ["" if place < 0 else self._sheet.texts[place] for place in places]

    def lines(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows of the sheet, counted from 1."""
        return self._rows[np.asarray(rows, dtype=np.int64)]

    def with_moves(self, moves: Moves) -> Iterator[bytes | memoryview]:
        """Yield the workbook with cells of its sheet moved; all other parts are the same."""
        if not len(moves):
            yield memoryview(self._raw)
            return
        sink = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(self._raw)) as old, zipfile.ZipFile(sink, "w") as new:
            for info in old.infolist():
                part = read_part(old, info.filename, self.name)
                if info.filename == self._part:
                    part = self._sheet.replaced(self._replacements(moves))
                new.writestr(info, part)
        yield sink.getbuffer()

    def converted(self, moves: Moves, format: str) -> Iterator[bytes | memoryview]:
        """Yield the table with cells moved as CSV, TSV or Parquet."""
        places = self._places.copy()
        places[moves.rows, moves.columns] = self._places[moves.from_rows, moves.from_columns]
        moved = self._text_frame(places)
        sink = io.BytesIO()
        if format == "parquet":
            columns = zip(moved, places.T, strict=True)
            moved.with_columns(self._typed(*each) for each in columns).write_parquet(sink)
        else:
            moved.write_csv(sink, separator="\t" if format == "tsv" else ",")
        yield sink.getbuffer()

    def _typed(self, series, places):
        """Return a column as numbers if all its cells are; texts of digits stay texts."""
        cells = [k for k in places[places >= 0].tolist() if self._sheet.texts[k]]
        numbers = cells and all(self._sheet.numeric[k] for k in cells)
        for dtype in (pl.Int64, pl.Float64) if numbers else ():
            typed = series.cast(dtype, strict=False)
            if typed.null_count() == series.null_count():
                return typed
        return series

    def _read_frame(self) -> pl.DataFrame:
        frame, missing = self._text_frame(self._places), [*self._style.na, ""]
        frame = frame.with_columns(pl.all().str.strip_chars())
        frame = frame.with_columns(
            pl.when(pl.all().is_in(missing) | pl.all().str.contains("^#[A-Z0-9/!?]+$"))
            .then(None)
            .otherwise(pl.all())
            .name.keep()
        )
        if self._style.finds_marks:
            frame, notes = find_marks(frame).plain(frame)
            self.notes += notes
        return frame

    def _text_frame(self, places):
        texts = np.array([*self._sheet.texts, ""], dtype=object)
        columns = {
            name: [text or None for text in texts[places[:, column]]]
            for column, name in enumerate(self.columns)
        }
        return pl.DataFrame(columns, schema=dict.fromkeys(self.columns, pl.String))

    def _header_row(self, style):
        """Return the row of the sheet, from 1, at which the table begins."""
        rows, counts = self._sheet.filled_rows()
        after = rows > (style.skip_lines or 0)
        rows, counts = rows[after], counts[after]
        if not len(rows):
            raise TableError(f"{self.name} is empty: the sheet has no cells with values.")
        if style.skip_lines is not None or not style.header:
            return int(rows[0])
        wide = np.flatnonzero(counts >= _FILLED * counts[:_FIRST_ROWS].max())
        first = int(rows[wide[0]]) if self._sheet.is_text(rows[wide[0]]) else int(rows[0])
        if first != rows[0]:
            self.notes.append(f"The header is taken to be row {first}; --skip-lines 0 reads all.")
        return first

    def _names(self, header):
        """Return the names of the columns, by column of the sheet."""
        cells = self._sheet.row(header)
        if not self._style.header:
            last = self._sheet.last_column()
            return {column: str(column - min(cells)) for column in range(min(cells), last + 1)}
        return {
            column: (cells.get(column) or cell_name(column)).strip()
            for column in range(min(cells), max(cells) + 1)
        }

    def _replacements(self, moves):
        """Return where in the sheet which bytes stand instead."""
        found = []
        for row, column, from_row, from_column in zip(*moves.places(), strict=True):
            place, origin = self._places[row, column], self._places[from_row, from_column]
            address = cell_name(column + self._first_column) + str(self._rows[row])
            for each in (place, origin):
                if each >= 0 and self._sheet.has_formula(each):
                    raise TableError(
                        f"{self.name}: cell {self._sheet.address(each)} holds a formula, which"
                        " cannot be moved; leave out its column with --exclude."
                    )
            content = b"" if origin < 0 else self._sheet.element(origin, address)
            if place >= 0:
                start, stop = self._sheet.span(place)
            else:
                start = stop = self._sheet.gap(int(self._rows[row]), column + self._first_column)
            found.append((start, stop, column, content))
        return [(start, stop, content) for start, stop, _, content in sorted(found)]
