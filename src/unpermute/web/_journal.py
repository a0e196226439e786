"""The journal of a review: one JSON object per line beside the table, on the disk before it counts.

docs/workbench.md describes the format for other programs.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np

from unpermute.files import SourceTable, TableError
from unpermute.web._lines import Lines
from unpermute.web._orders import EDITS

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

__all__ = ["ANSWERS", "Journal", "journal_path", "rows_as_ranges", "rows_from_ranges"]

ANSWERS = ("open", "accept", "reject", "owner")
_KIND, _VERSION = "unpermute-review", 1
_BLOCK = 1 << 20


def journal_path(table: str) -> Path:
    """Return where the journal of a table lies."""
    return Path(f"{table}.{_KIND}")


class Journal:
    """Entries of one review, in the order in which they were made.

    Parameters
    ----------
    table : str
        Path of the table.
    source : SourceTable
        The table, opened.

    Attributes
    ----------
    entries : list of dict
        What the file holds, checked.
    sha256 : str
        Digest of the table.
    """

    def __init__(self, table: str, source: SourceTable):
        self.path = journal_path(table)
        self._table, self._stamp = table, _stamp(table)
        self.sha256 = _sha256(table)
        self._source, self._lines = source, Lines(source)
        self.entries: list[dict[str, Any]] = []
        try:
            self._file = self._open()
        except OSError as error:
            raise TableError(f"{self.path} cannot be written: {error.strerror}.") from None
        try:
            self._read()
        except BaseException:
            self._file.close()
            raise

    def append(self, do: str, **content: Any) -> dict[str, Any]:
        """Write an entry, and return it once it is on the disk."""
        self.refuse_changed_table()
        entry = {"entry": len(self.entries) + 1, "at": _now(), "do": do, **content}
        self._check(entry, self.path.name)
        self._write(entry)
        self.entries.append(entry)
        return entry

    def refuse_changed_table(self) -> None:
        """Refuse to go on if the table is not the one that the review began with."""
        if _stamp(self._table) == self._stamp:
            return
        if _sha256(self._table) != self.sha256:
            raise TableError(
                f"{self._table} has changed since it was opened: nothing more is decided about it."
                " Restore the file, or review it anew."
            )
        self._stamp = _stamp(self._table)

    def close(self) -> None:
        """Let others write to the journal."""
        self._file.close()

    def _open(self) -> BinaryIO:
        is_new = not self.path.exists()
        file = open(self.path, "a+b")  # noqa: SIM115
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise TableError(
                f"{self._table} is being reviewed in another window: end that workbench first."
            ) from None
        if is_new:
            _sync_folder(self.path.parent)
        return file

    def _read(self):
        self._file.seek(0)
        raw = self._file.read()
        end = raw.rfind(b"\n") + 1
        if end < len(raw):  # never confirmed: the writer was stopped in the middle of the line
            self._file.truncate(end)
        lines = raw[:end].splitlines()
        if not lines:
            self._write(self._header())
            return
        self._check_header(self._parsed(lines[0], 1))
        for number, line in enumerate(lines[1:], start=2):
            entry = self._parsed(line, number)
            self._check(entry, f"{self.path.name}, line {number}")
            self.entries.append(entry)

    def _header(self):
        return {
            "journal": _KIND,
            "version": _VERSION,
            "table": os.path.basename(self._table),
            "sha256": self.sha256,
            "rows": self._source.n_rows,
            "columns": list(self._source.columns),
        }

    def _check_header(self, header):
        if header.get("journal") != _KIND or header.get("version") != _VERSION:
            raise TableError(f"{self.path} is no journal of a review that this version can read.")
        if header.get("sha256") != self.sha256:
            raise TableError(
                f"{self._table} is not the table that the decisions in {self.path.name} are about:"
                " it has changed since. Restore it, or move the journal away to begin anew."
            )
        for name in ("rows", "columns"):
            if header.get(name) != self._header()[name]:
                raise TableError(
                    f"{self._table} was read with other options when the decisions in"
                    f" {self.path.name} were made: its {name} were others. Use the same options."
                )

    def _parsed(self, line, number):
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        if not isinstance(entry, dict):
            raise TableError(f"{self.path.name}, line {number}: no JSON object.")
        return entry

    def _write(self, entry):
        line = json.dumps(entry, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
        start = self._file.seek(0, os.SEEK_END)
        try:
            self._file.write(line)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            # Half a line must not be continued by the next entry.
            with contextlib.suppress(OSError):
                self._file.truncate(start)
            raise TableError(f"{self.path} cannot be written: {error.strerror}.") from None

    def _check(self, entry, where):
        """Refuse an entry that cannot have been written here."""
        problem = self._problem(entry)
        if problem:
            raise TableError(f"{where}: {problem}")

    def _problem(self, entry):
        if entry.get("entry") != len(self.entries) + 1:
            return f"entry {entry.get('entry')!r} is out of order."
        do = entry.get("do")
        if do in ("undo", "redo"):
            of = entry.get("of")
            known = isinstance(of, int) and 0 < of <= len(self.entries)
            if not known or self.entries[of - 1]["do"] not in ("decide", "note"):
                return f"{do} of {of!r}, which is no decision."
        elif do == "note":
            if not _are_rows([entry.get("row")], self._source.n_rows):
                return f"row {entry.get('row')!r} is not in the table."
            if not isinstance(entry.get("text"), str):
                return "a note must be a text."
        elif do == "decide":
            groups = entry.get("groups")
            if not isinstance(groups, list):
                return "a decision must have groups."
            return next(filter(None, map(self._problem_of_group, groups)), "")
        elif do != "scan" or not isinstance(entry.get("options"), dict):
            return f"{do!r} is nothing that a journal knows."
        return ""

    def _problem_of_group(self, group):
        if not isinstance(group, dict) or group.get("answer") not in ANSWERS:
            return f"an answer must be one of {', '.join(ANSWERS)}."
        moved, rows = group.get("from"), group.get("rows")
        if not isinstance(moved, dict) or not _loses_nothing(moved):
            return "values would be lost or doubled: every value needs one place."
        unknown = set(moved) - set(self._source.columns)
        if unknown:
            return f"{min(unknown)!r} is no column of the table."
        if not isinstance(rows, list) or not _are_rows(rows, self._source.n_rows):
            return "rows must be numbers of records of the table, or pairs of them."
        return self._lines.problem(moved, rows_from_ranges(rows))


def _loses_nothing(moved):
    """Whether every value has one place, or an edit makes a line regular."""
    origins = list(map(str, moved.values()))
    return sorted(moved) == sorted(origins) or (len(origins) == 1 and origins[0] in EDITS)


def rows_as_ranges(rows: Iterable[int]) -> list[int | list[int]]:
    """Return ascending numbers with neighbours written as pairs.

    Examples
    --------
    >>> from unpermute.web._journal import rows_as_ranges
    >>> rows_as_ranges([1, 2, 3, 7])
    [[1, 3], 7]
    """
    rows = np.asarray(rows, dtype=np.int64)
    if not len(rows):
        return []
    breaks = np.flatnonzero(np.diff(rows) != 1)
    first, last = rows[np.append(0, breaks + 1)], rows[np.append(breaks, len(rows) - 1)]
    pairs = zip(first.tolist(), last.tolist(), strict=True)
    return [a if a == b else [a, b] for a, b in pairs]


def rows_from_ranges(ranges: list) -> np.ndarray:
    """Return what `rows_as_ranges` was given."""
    if all(isinstance(each, int) for each in ranges):
        return np.array(ranges, dtype=np.int64)
    pairs = (each if isinstance(each, list) else (each, each) for each in ranges)
    parts = [np.arange(first, last + 1) for first, last in pairs]
    return np.concatenate(parts).astype(np.int64)


def _are_rows(rows, n_rows):
    for each in rows:
        ends = each if isinstance(each, list) and len(each) == 2 else [each]
        if not all(type(row) is int for row in ends) or not 0 <= ends[0] <= ends[-1] < n_rows:
            return False
    return True


def _now():
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _stamp(path):
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _sha256(path):
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    except OSError as error:
        return f"unreadable: {error.strerror}"
    return digest.hexdigest()


def _sync_folder(folder):
    """Make sure that a crash does not lose the name of a new file."""
    with contextlib.suppress(OSError):
        place = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(place)
        finally:
            os.close(place)
