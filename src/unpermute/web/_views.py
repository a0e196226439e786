"""What pages show of a review: plain values, ready for the templates."""

import re
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from unpermute.files import TableError
from unpermute.report import shorten, sure_text
from unpermute.web._journal import ANSWERS
from unpermute.web._orders import EDITS
from unpermute.web._profiles import Profiles
from unpermute.web._records import Filter
from unpermute.web._review import Review

__all__ = ["PAGE", "Detail", "Line", "Page", "detail", "history", "list_page", "some_lines"]

PAGE = 50
_MOST_CELLS, _LONGEST_CELL = 3, 28
_NEIGHBOURS = 2
# Columns that are shown of those that an edit of a line moves.
_TOLD = 3
# Columns of a record that are shown at first.
_MOST_COLUMNS = 40


@dataclass(frozen=True)
class Line:
    """A record in the list."""

    row: int
    line: int
    name: str
    cause: str
    cells: list[tuple[str, str, str]]
    n_more: int
    sure: str
    damaged: str
    answer: str
    edited: bool
    entry: int
    note: str


@dataclass(frozen=True)
class Page:
    """A page of the list."""

    lines: list[Line]
    n: int
    n_pages: int
    n_decided: int


@dataclass(frozen=True)
class Field:
    """A cell of a record: what stands in it, and the column that its value would come from."""

    place: int
    column: str
    kind: str
    value: str
    origin: int
    evidence: dict | None


@dataclass(frozen=True)
class Irregular:
    """A line with another number of fields than the header, and how it may become regular.

    Attributes
    ----------
    fields : list of str
        As they stand in the file.
    between : str
        What stands between them.
    origin : int
        What an edit of this line is written as; 0 if no single edit makes it regular.
    choices : list of int
        The columns that an edit may be about.
    """

    fields: list[str]
    between: str
    origin: int
    choices: list[int]


@dataclass(frozen=True)
class Detail:
    """A record, whole."""

    line: Line
    evidence: str
    fields: list[Field]
    irregular: Irregular | None
    n_columns: int
    order: dict[int, int]
    proposed: dict[int, int]
    neighbours: list[dict]
    shown: list[str]
    previous: int | None
    following: int | None
    at: int
    n: int


def list_page(review: Review, wanted: Filter) -> Page:
    """Return one page of the records that a filter finds."""
    places = review.records.chosen(wanted, review.standing)
    n_pages = max(1, -(-len(places) // PAGE))
    first = (min(wanted.page, n_pages) - 1) * PAGE
    rows = review.records.rows[places]
    n_decided = int(np.sum(review.standing.answer[rows] > 0))
    return Page(some_lines(review, rows[first : first + PAGE]), len(places), n_pages, n_decided)


def some_lines(review: Review, rows: np.ndarray) -> list[Line]:
    """Return records as lines of the list."""
    records, standing = review.records, review.standing
    places = np.searchsorted(records.rows, rows)
    orders = review.shown_orders(rows).tolist()
    listed = _cells_shown(review, rows.tolist(), orders)
    names = review.ids(rows) if review.options["id"] else [""] * len(rows)
    lines = review.lines(rows).tolist()
    return [
        Line(
            row=row,
            line=lines[k],
            name=shorten(names[k], 40),
            cause=records.causes[records.cause[place]],
            cells=listed.get(row, []),
            n_more=max(0, len(review.orders.known[orders[k]]) - _MOST_CELLS),
            sure=sure_text(records.confidence[place]),
            damaged=sure_text(records.damaged[place]),
            answer=ANSWERS[standing.answer[row]],
            edited=orders[k] != int(records.order[place]),
            entry=int(standing.entry[row]),
            note=standing.notes.get(row, ""),
        )
        for k, (row, place) in enumerate(zip(rows.tolist(), places.tolist(), strict=True))
    ]


def _cells_shown(review, rows, orders):
    """The first changed cells of records: column, value before and after."""
    source, listed = review.source, {}  # type: ignore[var-annotated]
    cells = [(row, a, b) for row, order in zip(rows, orders, strict=True)
             for a, b in review.orders.known[order][:_MOST_CELLS] if b >= 0]  # fmt: skip
    at, targets, origins = np.array(cells, dtype=np.int64).reshape(-1, 3).T
    texts = zip(at.tolist(), targets.tolist(), source.texts(at, targets),
                source.texts(at, origins), strict=True)  # fmt: skip
    edits = ((row, review.orders.edit(order)) for row, order in zip(rows, orders, strict=True))
    mends = ((row, edit[0], *review.irregular.shown(row, edit)) for row, edit in edits if edit)
    for row, column, *values in chain(texts, mends):
        old, new = (shorten(text, _LONGEST_CELL) for text in values)
        listed.setdefault(row, []).append((source.columns[column], old, new))
    return listed


def detail(review: Review, row: int, wanted: Filter, profiles: Profiles, *, whole: bool) -> Detail:
    """Return a record, whole."""
    place = review.records.place(row)
    if place is None:
        raise TableError("This record is not on the list of suspicious ones.")
    [line] = some_lines(review, np.array([row]))
    order = dict(review.orders.known[review.shown_orders(np.array([row]))[0]])
    proposed = dict(review.orders.known[review.records.order[place]])
    irregular = _irregular(review, row)
    columns = _columns_shown(review, {*order, *proposed}, whole=whole or irregular is not None)
    make = _fields_of_record if irregular is None else _fields_of_line
    previous, following, at, n = _around(review, row, wanted)
    return Detail(
        line, _quoted(review.records.evidence[place]), make(review, row, columns, order, profiles),
        irregular, len(review.source.columns), order, proposed, _neighbours(review, row, columns),
        [review.source.columns[c] for c in columns], previous, following, at, n,
    )  # fmt: skip


def _fields_of_record(review, row, columns, order, profiles):
    texts = review.source.texts(np.full(len(columns), row), np.array(columns))
    value = dict(zip(columns, texts, strict=True))
    changes = {column: (value[column], value[origin]) for column, origin in order.items()}
    return [
        _field(review, profiles, column, value[column], order.get(column, column), changes)
        for column in columns
    ]


def _fields_of_line(review, row, columns, order, profiles):
    """Cells of a line that is not regular: after the edit, or as they stand if there is none."""
    edit = review.orders.edit(review.orders.number(order.items()))
    now = [*review.irregular[row].fields, *[""] * len(columns)]
    then, changes = now, {}
    if edit is not None:
        then = review.irregular.mended(row, edit)
        # An edit moves all that follows: a few columns tell whether it is right.
        changes = {column: (now[column], then[column]) for column in columns[edit[0] :][:_TOLD]}
    return [_field(review, profiles, column, then[column], column, changes) for column in columns]


def _field(review, profiles, column, value, origin, changes):
    name = review.source.columns[column]
    kind = review.judged()[name] or "not judged"
    evidence = _evidence(profiles.of(name), *changes[column]) if column in changes else None
    return Field(column, name, kind, value, origin, evidence)


def _irregular(review, row):
    if row not in review.irregular:
        return None
    choices = review.irregular.choices(row)
    return Irregular(
        review.irregular[row].fields,
        review.source.delimiter,
        EDITS[choices[0][1]] if choices else 0,
        [column for column, _ in choices],
    )


def _quoted(evidence):
    """Evidence with the marks that people put around a value; the scan writes for terminals."""
    return re.sub(r"^`(.*)`( never| is rare)", r"“\1”\2", evidence, flags=re.DOTALL)


def history(review: Review, page: int) -> tuple[list[dict], int]:
    """Return a page of the decisions, newest first, and the number of pages."""
    entries = [entry for entry in review.journal.entries if entry["do"] in ("decide", "note")]
    n_pages = max(1, -(-len(entries) // PAGE))
    last = len(entries) - (min(page, n_pages) - 1) * PAGE
    shown = entries[max(0, last - PAGE) : last][::-1]
    return [_told(review, entry) for entry in shown], n_pages


def _told(review, entry):
    """An entry of the journal in words."""
    told = {"entry": entry["entry"], "at": entry["at"].replace("T", " ").rstrip("Z"),
            "undone": entry["entry"] in review.standing.undone, "row": None}  # fmt: skip
    if entry["do"] == "note":
        line = review.line(entry["row"])
        return told | {"what": "note", "answer": "note", "row": entry["row"],
                       "why": f"line {line:,}: {shorten(entry['text'], 80)}"}  # fmt: skip
    answers = [group["answer"] for group in entry["groups"]]
    rows = entry["groups"][0]["rows"] if entry["groups"] else []
    single = len(entry["groups"]) == 1 and len(rows) == 1 and isinstance(rows[0], int)
    return told | {
        "answer": answers[0] if answers else "open",
        "why": entry.get("why", ""),
        "row": rows[0] if single else None,
    }


def _columns_shown(review, moved, *, whole):
    n = len(review.source.columns)
    if whole or n <= _MOST_COLUMNS:
        return list(range(n))
    others = [column for column in range(n) if column not in moved]
    return sorted([*moved, *others[: max(0, _MOST_COLUMNS - len(moved))]])


def _evidence(profile, now, then):
    """How usual the present and the proposed value are in a column that changes."""
    return {
        "before": now,
        "after": then,
        "now": profile.words(now),
        "then": profile.words(then),
        "holds": profile.holds(),
        "figure": profile.draw(now, then),
    }


def _neighbours(review, row, columns):
    """The record among those above and below in the file."""
    rows = np.arange(max(0, row - _NEIGHBOURS), min(review.source.n_rows, row + _NEIGHBOURS + 1))
    regular = rows[~np.isin(rows, review.irregular.rows)]
    texts = review.source.texts(np.repeat(regular, len(columns)), np.tile(columns, len(regular)))
    shown, n = [shorten(text, _LONGEST_CELL) for text in texts], len(columns)
    cells = {each: shown[k * n : (k + 1) * n] for k, each in enumerate(regular.tolist())}
    return [
        {"line": line, "is_it": each == row, "cells": cells.get(each, []),
         "text": "" if each in cells else " | ".join(review.irregular[each].fields)}
        for each, line in zip(rows.tolist(), review.lines(rows).tolist(), strict=True)
    ]  # fmt: skip


def _around(review, row, wanted):
    """The records before and after this one that the filter finds, and where it stands."""
    records = review.records
    everything = records.chosen(replace(wanted, state=""), review.standing)
    here = np.flatnonzero(everything == records.place(row))
    if not len(here):
        return None, None, 0, 0
    found = np.zeros(len(records), dtype=bool)
    found[records.chosen(wanted, review.standing)] = True
    before, after = (side[found[side]] for side in np.split(everything, here))
    after = after[after != records.place(row)]
    previous = int(records.rows[before[-1]]) if len(before) else None
    following = int(records.rows[after[0]]) if len(after) else None
    return previous, following, len(before) + 1, len(before) + len(after) + 1
