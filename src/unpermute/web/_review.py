"""One table under review: what the scan found, what was decided, and how a decision is made."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from unpermute._progress import report
from unpermute._words import counted
from unpermute.files import (
    Changes,
    LineEdit,
    Moves,
    RaggedLine,
    SourceTable,
    TableError,
    check_columns,
    unfit_moves,
)
from unpermute.records import KINDS, describe_columns, read_cells
from unpermute.table import TableResult
from unpermute.web._job import PARTS
from unpermute.web._journal import ANSWERS, Journal, rows_as_ranges, rows_from_ranges
from unpermute.web._lines import Lines
from unpermute.web._orders import STAYS, Orders
from unpermute.web._records import Filter, Records, records_of, records_of_lines
from unpermute.web._scan import DEFAULTS, Scan, keep_scan, kept_scan, scan_path, scan_table
from unpermute.web._standing import ACCEPTED, OPEN, Standing

__all__ = ["BY_QUESTION", "Review", "open_review"]

BY_QUESTION = "answered for many rows at once"
BY_HAND = "edited by hand"
# Records that tell what columns hold before the scan, which reads them all.
_LOOKED_AT = 20_000
# Characters of a note.
_LONGEST_NOTE = 2000


def open_review(
    path: str, open_table: Callable[[str], SourceTable], n_jobs: int | None = None
) -> "Review":
    """Open a table and its journal; a scan that was kept is there at once."""
    source = open_table(path)
    review = Review(path, source, Journal(path, source), n_jobs)
    review.restore()
    return review


@dataclass(frozen=True)
class Counts:
    """How many suspicious records there are, by what was decided."""

    total: int
    open: int
    accept: int
    reject: int
    owner: int


class Review:
    """A table, its journal, and what a scan found in it.

    Parameters
    ----------
    path : str
        The table.
    source : SourceTable
        The table, opened.
    journal : Journal
        Decisions made so far.
    n_jobs : int or None
        Threads of the scan.

    Attributes
    ----------
    kinds : list of ColumnKind
        What the columns were recognised as.
    chosen : dict
        Options of the next scan.
    standing : Standing
        What is in force.
    irregular : Lines
        Lines with another number of fields than the header.
    was_scanned : bool
        Whether the journal knows of a scan.
    why_again : str
        Why that scan has to be repeated, in a few words.
    """

    def __init__(self, path: str, source: SourceTable, journal: Journal, n_jobs: int | None = None):
        self.path, self.source, self.journal, self._n_jobs = path, source, journal, n_jobs
        self.frame = nw.from_native(source.frame, eager_only=True)
        self.kinds = _kinds_of_some(self.frame)
        self.orders = Orders(list(source.columns))
        self.irregular = Lines(source)
        self.standing = Standing(source.n_rows, self.orders, journal.entries)
        self.chosen: dict[str, Any] = self._scanned_options() or DEFAULTS
        self.was_scanned = self._scanned_options() is not None
        self.why_again = ""
        self._scan: Scan | None = None
        self._found: Records | None = None
        self._records: Records | None = None

    @property
    def is_scanned(self) -> bool:
        """Whether there is something to decide about."""
        return self._records is not None

    @property
    def options(self) -> dict[str, Any]:
        """Options of the scan that is shown; before the first one, of the next."""
        return self.chosen if self._scan is None else self._scan.options

    @property
    def result(self) -> TableResult:
        """What the scan found in the records."""
        if self._scan is None:
            raise TableError("The table has not been scanned yet.")
        return self._scan.result

    @property
    def shuffled_columns(self) -> dict[str, Any] | None:
        """What the scan found in the columns, None if it did not look at them."""
        return self._scan.columns if self._scan is not None else None

    @property
    def records(self) -> Records:
        """Suspicious records, and others that were decided about."""
        if self._records is None:
            raise TableError("The table has not been scanned yet.")
        return self._records

    # The scan.

    def choose(self, options: dict[str, Any]) -> None:
        """Set the options of the next scan; bad ones are refused in a sentence."""
        chosen = {**DEFAULTS, **options}
        named = [chosen[name] for name in ("id", "groups") if chosen[name]]
        check_columns([*named, *chosen["kinds"]], self.source)
        for name, kind in chosen["kinds"].items():
            if kind not in KINDS:
                raise TableError(f"{name!r}: {kind!r} must be one of {', '.join(KINDS)}.")
        if not 0 <= chosen["min_confidence"] <= 1:
            raise TableError("The confidence must be between 0 and 1.")
        self.chosen = chosen

    def scan(self) -> Scan:
        """Find suspicious records, and keep what was found; takes its time."""
        self.lines([])  # found now, so that the list does not wait for it
        found = scan_table(self.source, self.chosen, self._n_jobs)
        report(PARTS, 1, 1)  # a scan that was cancelled by now ends here, and is not kept
        keep_scan(scan_path(self.path), found, self.source, self.journal.sha256)
        return found

    def restore(self) -> None:
        """Show what the last scan found, if that was kept."""
        if self.was_scanned:
            path, sha256 = scan_path(self.path), self.journal.sha256
            found, self.why_again = kept_scan(path, self.source, sha256, self.chosen)
            if found is not None:
                self.lines([])
                self.take(found)

    def take(self, found: Scan) -> None:
        """Show what a scan found from now on."""
        if found.options != self._scanned_options():
            self._add("scan", options=found.options)
        self.was_scanned, self._scan = True, found
        cells = records_of(found.result.moves.in_file(self.source), self.orders)
        self._found = cells.merged(records_of_lines(found.lines, self.orders))
        self._list_decided()

    def _scanned_options(self):
        """Options of the last scan, None if there was none."""
        scans = [entry["options"] for entry in self.journal.entries if entry["do"] == "scan"]
        return {name: scans[-1].get(name, DEFAULTS[name]) for name in DEFAULTS} if scans else None

    # Decisions.

    def decide(self, rows, answer: str, *, order=None, why: str = "", seen: int | None = None):
        """Decide about records.

        Parameters
        ----------
        rows : sequence of int
            The records, by their rows in the file.
        answer : str
            One of `ANSWERS`.
        order : int, ndarray of int or None
            How accepted ones move; None: as proposed.
        why : str
            What was decided, for the history.
        seen : int or None
            The entry that was in force when the person looked; refused if it is another by now.
        """
        rows = np.asarray(rows, dtype=np.int64)
        if answer not in ANSWERS:
            raise TableError(f"answer={answer!r} must be one of {', '.join(ANSWERS)}.")
        if seen is not None and np.any(self.standing.entry[rows] != seen):
            raise TableError("This record was decided elsewhere meanwhile; look again.")
        moved = self._orders_for(rows, answer, order)
        groups = [
            (answer, number, np.sort(rows[moved == number])) for number in np.unique(moved).tolist()
        ]
        self.decide_groups(groups, why=why or self._about(rows))

    def decide_groups(self, groups: list[tuple[str, int, np.ndarray]], **more: Any) -> None:
        """Decide about groups of records at once: answer, number of the order, and rows of each."""
        for answer, order, rows in groups:
            if answer == "accept":
                self._refuse_unfit(rows, np.full(len(rows), order))
        written = [
            {"answer": answer, "from": self.orders.names(order), "rows": rows_as_ranges(rows)}
            for answer, order, rows in groups
            if len(rows)
        ]
        self._add("decide", groups=written, **more)
        if not all(self.records.lists(rows).all() for _, _, rows in groups):
            self._list_decided()

    def decide_all(self, wanted: Filter, answer: str, expected: int) -> int:
        """Decide about all records of a filter that are meant; returns how many."""
        rows, _ = self.meant(wanted)
        if len(rows) != expected:
            raise TableError(
                f"The filter finds {counted(len(rows), 'record')} by now, not {expected:,};"
                " look again."
            )
        if not len(rows):
            raise TableError("The filter finds no records to decide about.")
        if answer == "accept":
            rows = rows[self.shown_orders(rows) != STAYS]
            if not len(rows):
                raise TableError("Nothing is proposed for these records.")
        words = wanted.words()
        why = f"{counted(len(rows), 'record')}{': ' if words else ''}{words}"
        self.decide(rows, answer, why=why)
        return len(rows)

    def meant(self, wanted: Filter) -> tuple[np.ndarray, int]:
        """Return the rows that a decision about a filter is about, and how many others it shows.

        Records that are decided keep their decision, unless the filter asks for them.
        """
        rows = self.records.rows[self.records.chosen(wanted, self.standing)]
        if wanted.state:
            return rows, 0
        is_open = self.standing.answer[rows] == OPEN
        return rows[is_open], int(np.sum(~is_open))

    def note(self, row: int, text: str) -> None:
        """Keep a note about a record; an empty one removes it."""
        text = text.strip()[:_LONGEST_NOTE]
        if text != self.standing.notes.get(row, ""):
            self._add("note", row=int(row), text=text)

    def undo(self, entry: int) -> None:
        """Take a decision back, whatever was decided since."""
        if entry not in self.standing.undone:
            self._add("undo", of=entry)

    def redo(self, entry: int) -> None:
        """Put a decision that was taken back into force again."""
        if entry in self.standing.undone:
            self._add("redo", of=entry)

    def undo_for(self, row: int) -> None:
        """Take back what is in force about one record, and nothing else."""
        entry = int(self.standing.entry[row])
        if not entry:
            raise TableError("Nothing is decided about this record.")
        groups = self.journal.entries[entry - 1]["groups"]
        if sum(len(rows_from_ranges(group["rows"])) for group in groups) == 1:
            self.undo(entry)
        else:  # one of many that were decided together: the others stay decided
            self.decide([row], "open")

    # What is in force.

    def counts(self) -> Counts:
        """Return how many records are decided."""
        answer = self.standing.answer[self.records.rows]
        by = np.bincount(answer, minlength=len(ANSWERS)).tolist()
        return Counts(len(answer), *by)

    def changes(self) -> Changes:
        """Return everything that is proposed or decided, by rows and columns of the file."""
        records = self.records
        accepted = self.standing.answer[records.rows] == ACCEPTED
        order = self.shown_orders(records.rows)
        edited = order != records.order
        confidence = np.where(edited, np.nan, records.confidence)
        cause = np.array([*records.causes, BY_HAND], dtype=object)
        cause = cause[np.where(edited, len(records.causes), records.cause)]
        evidence = self._evidence(np.where(edited, "", records.evidence))
        places, targets, origins = self._cells(order)
        rows = records.rows[places]
        mends = tuple(edit for _, edit, _, accepted in self.mends() if accepted)
        return Changes(
            rows, targets, rows, origins, confidence[places], records.damaged[places],
            accepted[places], cause[places], evidence[places], names=list(self.source.columns),
            edits=mends,
        ).by_row()  # fmt: skip

    def mends(self) -> list[tuple[RaggedLine, LineEdit, float, bool]]:
        """Return the lines that an edit would make regular, as `listed_edits` takes them."""
        records, rows = self.records, self.irregular.rows
        rows = rows[records.lists(rows)]
        found = []
        for row, order in zip(rows.tolist(), self.shown_orders(rows).tolist(), strict=True):
            edit, place = self.orders.edit(order), np.searchsorted(records.rows, row)
            if edit is not None:
                edited = order != records.order[place]
                sure = np.nan if edited else float(records.confidence[place])
                accepted = bool(self.standing.answer[row] == ACCEPTED)
                found.append((self.irregular[row], LineEdit(row, *edit), sure, accepted))
        return found

    def shown_orders(self, rows: np.ndarray) -> np.ndarray:
        """Return how cells of records move: as a person decided, otherwise as proposed."""
        if not self.records.lists(rows).all():
            raise TableError("Nothing is proposed for this record.")
        told, places = self.standing.order[rows], np.searchsorted(self.records.rows, rows)
        return np.where(told != STAYS, told, self.records.order[places])

    @cached_property
    def _lines(self):
        # All at once: for some of them, files count the lines before as well.
        return self.source.lines(np.arange(self.source.n_rows))

    def lines(self, rows) -> np.ndarray:
        """Return the lines of the file where records start."""
        return self._lines[rows]

    def line(self, row: int) -> int:
        """Return the line of the file where a record starts."""
        return int(self._lines[row])

    def ids(self, rows: np.ndarray) -> list:
        """Return what records are called: as the column says that names them, or by number."""
        name = self.options["id"]
        if name is None:
            return np.asarray(rows).tolist()
        column, regular = self.source.columns.index(name), ~np.isin(rows, self.irregular.rows)
        found = np.full(len(rows), "", dtype=object)
        found[regular] = self.source.texts(rows[regular], np.full(regular.sum(), column))
        for k in np.flatnonzero(~regular).tolist():
            edit = self.orders.edit(int(self.shown_orders(rows[[k]])[0]))
            found[k] = self.irregular.mended(int(rows[k]), edit)[column] if edit else ""
        return found.tolist()

    def whole_records(self) -> nw.DataFrame:
        """Return the records that nobody suspects, to compare others with."""
        whole = ~np.isin(self.source.frame_rows, self.records.rows)
        if not whole.any():
            return self.frame
        return nw.from_native(self.source.frame.filter(whole), eager_only=True)

    def judged(self) -> dict[str, str]:
        """Return what every column was judged as; "" if it was not."""
        columns = self.result.summary["judged_columns"]
        return {each["column"]: each["kind"] or "" for each in columns}

    def _add(self, do, **content):
        self.standing.add(self.journal.append(do, **content))
        if do in ("undo", "redo"):
            self._list_decided()

    def _list_decided(self):
        """List records that were decided about although the scan does not suspect them."""
        if self._found is not None:
            rows = np.flatnonzero(self.standing.order != STAYS)
            self._records = self._found.including(rows, self.standing.order[rows], BY_QUESTION)

    def _orders_for(self, rows, answer, order):
        if answer != "accept":
            # A proposal that a person has made stays the proposal, unless it was accepted.
            kept = self.standing.answer[rows] != ACCEPTED
            return np.where(kept, self.standing.order[rows], STAYS)
        moved = np.broadcast_to(self.shown_orders(rows) if order is None else order, rows.shape)
        if np.any(moved == STAYS):
            raise TableError("Nothing would change: reject the proposal instead.")
        return moved

    def _refuse_unfit(self, rows, order):
        """Refuse moves after which a typed file could not hold a value."""
        places, targets, origins = self._cells(order)
        at = np.searchsorted(self.source.frame_rows, rows[places])
        unfit = unfit_moves(self.frame, self.source.columns, Moves(at, targets, at, origins))
        if unfit.any():
            k = int(np.flatnonzero(unfit)[0])
            name, line = self.source.columns[targets[k]], self.line(int(rows[places[k]]))
            raise TableError(
                f"Line {line:,}: the column {name!r} cannot hold the value, because of its type."
            )

    def _cells(self, order):
        """Return the moved cells of records: place of the record, column, and origin."""
        parts = []
        for number in np.unique(order).tolist():
            if self.orders.edit(number) is not None:
                continue
            pairs = np.array(self.orders.known[number], dtype=np.int64).reshape(-1, 2)
            places = np.flatnonzero(order == number)
            parts.append(
                (np.repeat(places, len(pairs)), np.tile(pairs[:, 0], len(places)),
                 np.tile(pairs[:, 1], len(places)))
            )  # fmt: skip
        empty = np.zeros(0, dtype=np.int64)
        found = zip(*parts, strict=True) if parts else [[empty]] * 3
        return tuple(np.concatenate(each).astype(np.int64) for each in found)

    def _evidence(self, evidence):
        """Evidence in words, followed by the person's notes."""
        evidence, records = evidence.astype(object), self.records
        for row, text in self.standing.notes.items():
            place = records.place(row)
            if place is not None:
                evidence[place] = f"{evidence[place]}; note: {text}" if evidence[place] else text
        return evidence

    def _about(self, rows):
        if len(rows) == 1:
            return f"line {self.line(int(rows[0])):,}"
        return counted(len(rows), "record")


def _kinds_of_some(frame):
    """What the columns look like in a part of the records, evenly spread."""
    names = list(frame.columns)
    some = frame[:: -(-len(frame) // _LOOKED_AT)]
    return describe_columns(read_cells(some, names)[0], names)
