"""Results of a review: table, list of changes and report, as the command writes them; rows to ask.

Rows for their owner carry a key: a digest of their cells and of what is proposed. It tells, when
they come back, whether they are still about the same.
"""

import csv
import hashlib
import io
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from unpermute.files import (
    Changes,
    TableError,
    listed_changes,
    listed_edits,
    read_table,
    repaired_as,
    split_suffix,
    written_changes,
)
from unpermute.report import render_report
from unpermute.table import reviewed
from unpermute.web._review import Review
from unpermute.web._standing import OWNER

__all__ = ["RESULTS", "Answers", "Result", "read_answers", "take_answers"]

_KEY, _LINE, _ROW = "review key", "review line", "review row"
_PROPOSAL, _NOTE = "review proposal", "review note"
_ANSWER, _REMARK = "review answer", "review remark"
_OWN = (_KEY, _LINE, _ROW, _PROPOSAL, _NOTE, _ANSWER, _REMARK)
_YES, _NO = ("yes", "y", "true", "1", "x"), ("no", "n", "false", "0")
# What a spreadsheet may take for a formula.
_CALCULATED = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class Result:
    """A file to download."""

    name: str
    kind: str
    pieces: Iterator[bytes | memoryview]


def repaired_table(review: Review) -> Result:
    """Return the table with the accepted moves made, and every other byte as it was."""
    stem, *suffixes = split_suffix(os.path.basename(review.path))
    name = f"{stem}.repaired{''.join(suffixes)}"
    pieces = repaired_as(name, review.source, review.changes().accepted())
    return Result(name, "application/octet-stream", pieces)


def change_list(review: Review) -> Result:
    """Return the list of changes that ``unpermute apply`` reads."""
    changes = review.changes()
    listed = chain(
        listed_changes(review.source, changes, review.ids(changes.rows)),
        listed_edits(review.source, review.mends()),
    )
    return Result(_named(review, "changes.csv"), "text/csv", written_changes(listed))


def report(review: Review) -> Result:
    """Return the report of the command, about what was decided."""
    source, table = review.source, os.path.basename(review.path)
    changes = _in_frame(review, review.changes())
    result = reviewed(review.result, changes, sentence=_sentence(review))
    command = shlex.join(["unpermute", "review", table])
    page = render_report(
        result,
        source_name=table,
        settings={"command": command, **result.summary["settings"]},
        lines=lambda rows: source.lines(source.frame_rows[np.asarray(rows, dtype=np.int64)]),
    )
    return Result(_named(review, "report.html"), "text/html", iter([page.encode()]))


def owner_csv(review: Review) -> Result:
    """Return the rows for their owner as CSV, safe to open in a spreadsheet."""
    sink = io.StringIO()
    # All in quotes: the csv module would leave a lone carriage return without.
    writer = csv.writer(sink, quoting=csv.QUOTE_ALL, lineterminator="\n")
    for cells in _owner_rows(review):
        writer.writerow([f"'{cell}" if cell.startswith(_CALCULATED) else cell for cell in cells])
    return Result(_named(review, "for-owner.csv"), "text/csv", iter([sink.getvalue().encode()]))


def owner_workbook(review: Review) -> Result:
    """Return the rows for their owner as a workbook; every cell is a text."""
    import xlsxwriter

    sink = io.BytesIO()
    book = xlsxwriter.Workbook(sink, {"in_memory": True, "strings_to_formulas": False,
                                      "strings_to_urls": False})  # fmt: skip
    sheet, text = book.add_worksheet("for their owner"), book.add_format({"num_format": "@"})
    bold = book.add_format({"bold": True, "num_format": "@"})
    for k, cells in enumerate(_owner_rows(review)):
        for column, cell in enumerate(cells):
            # Signs that XML cannot hold would make the workbook unreadable.
            clean = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", "�", cell)
            sheet.write_string(k, column, clean[:32_767], bold if k == 0 else text)
    sheet.freeze_panes(1, 0)
    book.close()
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    return Result(_named(review, "for-owner.xlsx"), kind, iter([sink.getvalue()]))


RESULTS = {
    "table": repaired_table,
    "changes": change_list,
    "report": report,
    "owner-csv": owner_csv,
    "owner-xlsx": owner_workbook,
}


@dataclass(frozen=True)
class Answers:
    """What an owner wrote: rows to accept and to reject, remarks by row, and how many are empty."""

    accept: list[int]
    reject: list[int]
    remarks: dict[int, str]
    n_empty: int


def read_answers(review: Review, name: str, content: bytes) -> Answers:
    """Read rows that their owner has answered; everything is checked before anything is decided."""
    suffix = ".xlsx" if name.lower().endswith(".xlsx") else ".csv"
    with tempfile.NamedTemporaryFile(suffix=suffix) as file:
        file.write(content)
        file.flush()
        table = read_table(file.name)
        table.name = os.path.basename(name)
        missing = [each for each in (_KEY, _ROW, _ANSWER, _REMARK) if each not in table.columns]
        if missing:
            raise TableError(f"{table.name} has no column {missing[0]!r}: are these rows to ask?")
        return _checked_answers(review, table)


def take_answers(review: Review, answers: Answers, name: str) -> None:
    """Decide as the owner said."""
    for rows, answer in ((answers.accept, "accept"), (answers.reject, "reject")):
        if rows:
            why = f"{len(rows):,} answered by their owner: {name}"
            review.decide(sorted(rows), answer, why=why)
    for row, remark in answers.remarks.items():
        review.note(row, remark)


def _checked_answers(review, table):
    columns = {name: _column(table, name) for name in (_KEY, _ROW, _ANSWER, _REMARK)}
    accept, reject, remarks, n_empty = [], [], {}, 0
    for k, (key, row, said, remark) in enumerate(zip(*columns.values(), strict=True)):
        where = f"{table.name}, line {table.line(k)}"
        if not row.isdecimal() or review.records.place(int(row)) is None:
            raise TableError(f"{where}: {row!r} is no record of this review.")
        row, said = int(row), said.strip().lower()
        if key != _key(review, row):
            raise TableError(f"{where}: the record or its proposal has changed since it was asked.")
        if said in _YES and not review.orders.known[_order(review, row)]:
            raise TableError(f"{where}: nothing is proposed, so that the answer cannot be yes.")
        if said in _YES:
            accept.append(row)
        elif said in _NO:
            reject.append(row)
        elif said:
            raise TableError(f"{where}: the answer is {said!r}, but must be yes, no or empty.")
        n_empty += not said
        if remark.strip():
            remarks[row] = remark
    if len({*accept, *reject}) < len(accept) + len(reject):
        raise TableError(f"{table.name} answers for one record twice.")
    return Answers(accept, reject, remarks, n_empty)


def _column(table, name):
    rows = table.frame_rows
    texts = table.texts(rows, np.full(len(rows), table.columns.index(name)))
    return [text.removeprefix("'") for text in texts]


def _owner_rows(review):
    """Yield the header and the rows that are for their owner, as texts."""
    doubles = set(_OWN) & set(review.source.columns)
    if doubles:
        raise TableError(f"The table has a column {min(doubles)!r} itself: rename it first.")
    yield [_LINE, *review.source.columns, _PROPOSAL, _NOTE, _ANSWER, _REMARK, _ROW, _KEY]
    rows, n = review.records.rows, len(review.source.columns)
    for row in rows[review.standing.answer[rows] == OWNER].tolist():
        # Fields of a line that has too many are in its proposal, all of them.
        cells = [*_cells(review, row), *[""] * n][:n]
        note = review.standing.notes.get(row, "")
        line, proposal = str(review.line(row)), _proposal(review, row)
        yield [line, *cells, proposal, note, "", "", str(row), _key(review, row)]


def _cells(review, row):
    if row in review.irregular:
        return review.irregular[row].fields
    n = len(review.source.columns)
    return review.source.texts(np.full(n, row), np.arange(n))


def _proposal(review, row):
    """What is proposed, in words."""
    cells, names = _cells(review, row), review.source.columns
    order = _order(review, row)
    if row not in review.irregular:
        moved = review.orders.known[order]
        return "; ".join(f"{names[a]}: {cells[a]} → {cells[b]}" for a, b in moved)
    told = f"the line has {len(cells)} fields instead of {len(names)}: {' | '.join(cells)}"
    edit = review.orders.edit(order)
    if edit is None:
        return told
    before, after = review.irregular.shown(row, edit)
    return f"{told}; {names[edit[0]]}: {before} → {after or 'empty'}"


def _order(review, row):
    return int(review.shown_orders(np.array([row]))[0])


def _key(review, row):
    order = review.orders.names(_order(review, row))
    told = repr((row, _cells(review, row), sorted(order.items())))
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _in_frame(review, changes: Changes) -> Changes:
    """Return changes by rows of the frame, which has no lines that are not regular."""
    rows = np.searchsorted(review.source.frame_rows, changes.rows)
    return replace(changes, rows=rows, from_rows=rows, edits=())


def _named(review, ending):
    return f"{split_suffix(os.path.basename(review.path))[0]}.{ending}"


def _sentence(review):
    counts = review.counts()
    return (
        f"{counts.total:,} of {review.source.n_rows:,} records were proposed for repair. A person"
        f" accepted {counts.accept:,} and rejected {counts.reject:,}; {counts.owner:,} wait for"
        f" their owner, and {counts.open:,} are not decided."
    )
