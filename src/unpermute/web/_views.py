"""What pages show of a review: plain values, ready for the templates."""

import re
from dataclasses import dataclass, replace

import numpy as np

from unpermute.files import TableError
from unpermute.report import shorten, sure_text
from unpermute.web._journal import ANSWERS
from unpermute.web._profiles import Profiles
from unpermute.web._records import Filter
from unpermute.web._review import Review

__all__ = ["PAGE", "Detail", "Line", "Page", "detail", "history", "list_page", "some_lines"]

PAGE = 50
_MOST_CELLS, _LONGEST_CELL = 3, 28
_NEIGHBOURS = 2
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
class Detail:
    """A record, whole."""

    line: Line
    evidence: str
    fields: list[Field]
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
    records, standing, source = review.records, review.standing, review.source
    places = np.searchsorted(records.rows, rows)
    orders = review.shown_orders(rows).tolist()
    cells = [(row, a, b) for row, order in zip(rows, orders, strict=True)
             for a, b in review.orders.known[order][:_MOST_CELLS]]  # fmt: skip
    at, targets, origins = np.array(cells, dtype=np.int64).reshape(-1, 3).T
    old, new = source.texts(at, targets), source.texts(at, origins)
    listed: dict[int, list] = {}
    for row, a, before, after in zip(at.tolist(), targets.tolist(), old, new, strict=True):
        text = (source.columns[a], shorten(before, _LONGEST_CELL), shorten(after, _LONGEST_CELL))
        listed.setdefault(row, []).append(text)
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


def detail(review: Review, row: int, wanted: Filter, profiles: Profiles, *, whole: bool) -> Detail:
    """Return a record, whole."""
    place = review.records.place(row)
    if place is None:
        raise TableError("This record is not on the list of suspicious ones.")
    [line] = some_lines(review, np.array([row]))
    order = dict(review.orders.known[review.shown_orders(np.array([row]))[0]])
    proposed = dict(review.orders.known[review.records.order[place]])
    columns = _columns_shown(review, {*order, *proposed}, whole=whole)
    texts = dict(
        zip(
            columns, review.source.texts(np.full(len(columns), row), np.array(columns)), strict=True
        )
    )
    kinds = review.judged()
    fields = [
        Field(
            place=column,
            column=review.source.columns[column],
            kind=kinds[review.source.columns[column]] or "not judged",
            value=texts[column],
            origin=order.get(column, column),
            evidence=_evidence(profiles, review, texts, column, order.get(column)),
        )
        for column in columns
    ]
    previous, following, at, n = _around(review, row, wanted)
    return Detail(
        line, _quoted(review.records.evidence[place]), fields, len(review.source.columns), order,
        proposed, _neighbours(review, row, columns), [review.source.columns[c] for c in columns],
        previous, following, at, n,
    )  # fmt: skip


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


def _evidence(profiles, review, texts, column, origin):
    """How usual the present and the proposed value are in a column that changes."""
    if origin is None:
        return None
    name = review.source.columns[column]
    profile, now, then = profiles.of(name), texts[column], texts[origin]
    return {
        "now": profile.words(now),
        "then": profile.words(then),
        "holds": profile.holds(),
        "figure": profile.draw(now, then),
    }


def _neighbours(review, row, columns):
    """The record among those above and below in the file."""
    regular = review.source.frame_rows
    at = int(np.searchsorted(regular, row))
    rows = regular[max(0, at - _NEIGHBOURS) : at + _NEIGHBOURS + 1]
    texts = review.source.texts(np.repeat(rows, len(columns)), np.tile(columns, len(rows)))
    lines, n = review.lines(rows).tolist(), len(columns)
    shown = [shorten(text, _LONGEST_CELL) for text in texts]
    return [
        {"line": lines[k], "is_it": place == row, "cells": shown[k * n : (k + 1) * n]}
        for k, place in enumerate(rows.tolist())
    ]


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
