"""Lists of changes: written for people to read and edit, then replayed or undone, checked first.

A list is a table with one line per cell that receives another value: ``row`` (from 0), ``column``,
``old``, ``new`` and ``moved_from``, which is the column of the same row that the value comes from,
or the row of the same column. Values themselves always come from the table, never from the list.
Where the list has a column ``accept``, lines with "no" are proposals that are not applied.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from unpermute.files._line_edits import plan_edits
from unpermute.files._moves import INSERT, JOIN, Changes, Moves
from unpermute.files._source import SourceTable, TableError, check_columns

__all__ = [
    "CHANGE_COLUMNS",
    "listed_changes",
    "plan_moves",
    "written_changes",
]

CHANGE_COLUMNS = (
    "line", "row", "id", "column", "old", "new", "moved_from", "accept", "damaged", "confidence",
    "cause", "evidence",
)  # fmt: skip
_YES, _NO = ("yes", "y", "true", "1", "x"), ("no", "n", "false", "0", "")

_PROBABILITIES = ("damaged", "confidence")
_NEEDED = ("row", "column", "old", "new", "moved_from")
_BATCH_LINES = 100_000
_MOST_DIGITS = 18
# First characters of a formula in a spreadsheet, and the apostrophe that makes such a cell text.
_CALCULATED = ("=", "+", "-", "@", "\t", "\r", "'")
_SPECIAL = re.compile(r'[",\r\n]')
# Delimited text cannot hold a zero byte, as JSON and Parquet can: a list shows a sign for it.
_ZERO, _ZERO_SIGN = "\0", "\N{SYMBOL FOR NULL}"


def listed_changes(source: SourceTable, changes: Changes, ids: Sequence) -> Iterator[tuple]:
    """Yield changes in the order of `CHANGE_COLUMNS`, with cells as they stand in the file.

    Parameters
    ----------
    source : SourceTable
        The table before the changes.
    changes : Changes
        By rows and columns of the file.
    ids : sequence
        What the record of every change is called.

    Yields
    ------
    change : tuple
        One cell that receives another value.
    """
    for first in range(0, len(changes), _BATCH_LINES):
        part = changes.take(slice(first, first + _BATCH_LINES))
        yield from zip(
            source.lines(part.rows).tolist(),
            part.rows.tolist(),
            ids[first : first + _BATCH_LINES],
            [source.columns[column] for column in part.columns],
            source.texts(part.rows, part.columns),
            source.texts(part.from_rows, part.from_columns),
            part.origins(),
            np.where(part.accept, "yes", "no").tolist(),
            part.damaged.tolist(),
            part.confidence.tolist(),
            part.cause.tolist(),
            part.evidence.tolist(),
            strict=True,
        )


def written_changes(changes: Iterable[tuple], *, for_spreadsheets: bool = False) -> Iterator[bytes]:
    """Yield what `listed_changes` yields as lines of CSV in UTF-8.

    Parameters
    ----------
    changes : iterable of tuple
        The changes.
    for_spreadsheets : bool, default=False
        Whether cells that a spreadsheet would calculate get an apostrophe, which makes them text.

    Yields
    ------
    line : bytes
        A line of the list.
    """
    yield _line(CHANGE_COLUMNS)
    for change in changes:
        yield _line(tuple(map(_as_text, change)) if for_spreadsheets else change)


def plan_moves(source: SourceTable, changes: SourceTable, *, undo: bool = False) -> Moves:
    """Check a list of changes against a table, and return what it moves.

    Parameters
    ----------
    source : SourceTable
        The table: before the changes, or after them if `undo`.
    changes : SourceTable
        The list.
    undo : bool, default=False
        Whether to put everything back where it was.

    Returns
    -------
    moves : Moves
        Nothing is lost and nothing doubled: every value that is overwritten moves elsewhere.
    """
    everything = _read_changes(source, changes)
    # Where columns have these names no line was mended.
    mending = () if {JOIN, INSERT} & set(source.columns) else (JOIN, INSERT)
    listed = everything.only(lambda origin: origin not in mending)
    edits = _edits(source, everything.only(mending.__contains__), undo)
    keys, origins = _cells(source, listed)
    _check_closed(source, listed, keys, origins)
    if undo:
        # Sorted by the cell that a value comes from, the lines say where each cell's value went.
        there = np.argsort(origins)[np.argsort(np.argsort(keys))]
        origins = keys[there]
    before, after = (listed.new, listed.old) if undo else (listed.old, listed.new)
    n = len(source.columns)
    moves = Moves(*np.divmod(keys, n), *np.divmod(origins, n), edits=edits)
    _check_texts(source, listed, moves, before, after)
    return moves


@dataclass(frozen=True)
class Listed:
    """The lines of a list, as texts."""

    table: SourceTable
    lines: np.ndarray
    row: list[str]
    column: list[str]
    old: list[str]
    new: list[str]
    moved_from: list[str]

    def only(self, wanted):
        """Return the lines whose `moved_from` is wanted."""
        keep = [k for k, origin in enumerate(self.moved_from) if wanted(origin)]
        texts = ([getattr(self, name)[k] for k in keep] for name in _NEEDED)
        return Listed(self.table, self.lines[keep], *texts)

    def refuse(self, k, problem):
        raise TableError(
            f"{self.table.name}, line {self.table.line(int(self.lines[k]))}: {problem}"
        )


def _read_changes(source, changes):
    missing = [name for name in _NEEDED if name not in changes.columns]
    if missing:
        raise TableError(
            f"{changes.name} is not a list of changes: it has no column {missing[0]!r}."
        )
    odd = np.setdiff1d(np.arange(changes.n_rows), changes.frame_rows)
    if len(odd):
        line, n = changes.line(int(odd[0])), len(changes.columns)
        raise TableError(
            f"{changes.name}, line {line}: another number of fields than the {n} names."
        )
    lines = _accepted(changes)
    texts = {name: _column(changes, lines, name) for name in _NEEDED}
    names = {_shown(name): name for name in source.columns}
    # A name as it stands counts first: it may begin with an apostrophe itself.
    names |= {name: name for name in source.columns}
    for of_columns in ("column", "moved_from"):
        texts[of_columns] = [
            names.get(text) or names.get(plain := _without_apostrophe(text), plain)
            for text in texts[of_columns]
        ]
    return Listed(changes, lines, **texts)


def _column(changes, lines, name):
    return changes.texts(lines, np.full(len(lines), changes.columns.index(name)))


def _accepted(changes):
    """Lines that are to be applied: all but those whose `accept` says no."""
    lines = np.arange(changes.n_rows)
    if "accept" not in changes.columns:
        return lines
    answers = [text.strip().lower() for text in _column(changes, lines, "accept")]
    for k, answer in enumerate(answers):
        if answer not in _YES + _NO:
            line = changes.line(k)
            raise TableError(
                f"{changes.name}, line {line}: accept is {answer!r}, but must be yes or no."
            )
    return lines[[answer in _YES for answer in answers]]


def _cells(source, listed):
    """Return the cells that change and the cells their values come from, as single numbers."""
    n_columns = len(source.columns)
    places = {name: place for place, name in enumerate(source.columns)}
    columns = _column_numbers(source, listed)
    rows = _row_numbers(source, listed, listed.row)
    _refuse_ragged(source, listed, rows)
    keys = rows * n_columns + columns
    if all(name in places for name in listed.moved_from):
        origins = np.array([places[name] for name in listed.moved_from], dtype=np.int64)
        within_rows = rows * n_columns + origins
        # Columns may be called "0", "1", …: then only one of two readings closes the list.
        if _is_closed(keys, within_rows) or not all(map(str.isdecimal, listed.moved_from)):
            return keys, within_rows
    elif not all(map(_is_number, listed.moved_from)):
        _refuse_origin(source, listed, places)
    from_rows = _row_numbers(source, listed, listed.moved_from)
    _refuse_ragged(source, listed, from_rows)
    return keys, from_rows * n_columns + columns


def _edits(source, listed, undo):
    rows = _row_numbers(source, listed, listed.row).tolist()
    columns = _column_numbers(source, listed).tolist()
    return plan_edits(source, listed, rows, columns, undo=undo)


def _column_numbers(source, listed):
    """Return the columns that the lines of a list name."""
    places = {name: place for place, name in enumerate(source.columns)}
    for k, name in enumerate(listed.column):
        if name not in places:
            try:
                check_columns([name], source)
            except TableError as error:
                listed.refuse(k, str(error))
    return np.array([places[name] for name in listed.column], dtype=np.int64)


def _refuse_ragged(source, listed, rows):
    odd = np.flatnonzero(~np.isin(rows, source.frame_rows))
    if len(odd):
        row = int(rows[odd[0]])
        listed.refuse(
            int(odd[0]),
            f"row {row} of {source.name} (line {source.line(row)}) has another number of fields"
            " than the header: its cells cannot be moved.",
        )


def _line(values):
    # Rounded down: 0.9999999 must not be shown as 1.
    values = [
        np.floor(value * 1e6) / 1e6
        if name in _PROBABILITIES and isinstance(value, float)
        else value
        for name, value in zip(CHANGE_COLUMNS, values, strict=True)
    ]
    return (",".join(map(_field, values)) + "\n").encode()


def _as_text(value):
    """Return a text that no spreadsheet calculates; an apostrophe is doubled, to be read back."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_CALCULATED) else value


def _without_apostrophe(text):
    """Return what a text was before `_as_text`."""
    return text[1:] if text.startswith("'") and text[1:].startswith(_CALCULATED) else text


def _field(value):
    # Not by the csv module, which leaves a lone carriage return without quotes.
    text = "" if value is None else _shown(str(value))
    return '"' + text.replace('"', '""') + '"' if _SPECIAL.search(text) else text


def _shown(text):
    """Return a text as a list can hold it."""
    return text.replace(_ZERO, _ZERO_SIGN)


def _is_number(text):
    return text.isascii() and text.isdecimal()


def _refuse_origin(source, listed, places):
    """Refuse the first origin that is neither a column nor a row number."""
    by_name = sum(name in places for name in listed.moved_from)
    by_number = sum(map(_is_number, listed.moved_from))
    for k, text in enumerate(listed.moved_from):
        if by_name >= by_number and text not in places:
            listed.refuse(k, f"moved_from is {text!r}, which is no column of {source.name}.")
        if by_name < by_number and not _is_number(text):
            listed.refuse(k, f"moved_from is {text!r}, which is no row number.")


def _row_numbers(source, listed, texts):
    """Return the rows that the lines of a list name."""
    for k, text in enumerate(texts):
        if not _is_number(text):
            listed.refuse(k, f"{text!r} is no row number.")
        # Python refuses to read numbers of thousands of digits.
        if len(text) > _MOST_DIGITS or int(text) >= source.n_rows:
            shown = text if len(text) <= _MOST_DIGITS else f"{text[:_MOST_DIGITS]}…"
            last = source.n_rows - 1
            listed.refuse(k, f"{source.name} has no row {shown}; its rows are 0 to {last}.")
    return np.array([int(text) for text in texts], dtype=np.int64)


def _is_closed(keys, origins):
    unique = np.unique(keys)
    return len(unique) == len(keys) and np.array_equal(unique, np.sort(origins))


def _check_closed(source, listed, keys, origins):
    if _is_closed(keys, origins):
        return
    for cells, problem in [(keys, "receives a value"), (origins, "gives its value away")]:
        _, first, counts = np.unique(cells, return_index=True, return_counts=True)
        if (counts > 1).any():
            cell = cells[first[counts > 1].min()]
            k = np.flatnonzero(cells == cell)[1]
            where = _place(source, cell)
            listed.refuse(k, f"{where} {problem} a second time; a value has one place.")
    lost = np.flatnonzero(~np.isin(keys, origins))[0]
    listed.refuse(
        lost,
        f"the value {listed.old[lost]!r} of {_place(source, keys[lost])} would be lost, because"
        " no line moves it elsewhere; keep or delete all lines of an exchange.",
    )


def _check_texts(source, listed, moves, before, after):
    present = source.texts(moves.rows, moves.columns)
    coming = source.texts(moves.from_rows, moves.from_columns)
    for k, (now, then) in enumerate(zip(present, coming, strict=True)):
        if not _same(now, before[k]):
            cell = f"row {moves.rows[k]}, column {source.columns[moves.columns[k]]!r}"
            listed.refuse(
                k, f"{cell} of {source.name} should hold {before[k]!r}, but holds {now!r}."
            )
        if not _same(then, after[k]):
            cell = f"row {moves.from_rows[k]}, column {source.columns[moves.from_columns[k]]!r}"
            listed.refuse(
                k, f"{cell} of {source.name} should hold {after[k]!r}, but holds {then!r}."
            )


def _place(source, key):
    row, column = divmod(int(key), len(source.columns))
    return f"row {row}, column {source.columns[column]!r}"


def _same(present, listed):
    present = _shown(present)
    if listed in (present, _as_text(present)):
        return True
    # A spreadsheet in which the list was edited may have written 1.50 as 1.5: the table still has
    # its own text, which is what moves.
    try:
        return float(present) == float(listed)
    except ValueError:
        return False
