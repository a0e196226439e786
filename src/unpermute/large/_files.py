"""Which files make a table, and the pieces that are worked on by themselves.

A piece is a run of records of one file. Where pieces begin depends on the files alone, so that a
run can be resumed with any number of workers and any block size.
"""

import glob
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unpermute.files import TableError, file_format, split_suffix

__all__ = ["FILE_ENDS", "Block", "Piece", "TableFiles", "file_state", "find_files"]

# How the names of files end that make a table in a folder.
FILE_ENDS = (".parquet", ".pq", ".csv", ".tsv", ".tab")


@dataclass(frozen=True)
class Piece:
    """A run of records of one file.

    Attributes
    ----------
    number : int
        Place among all pieces.
    file, name : str
        Path of the file, and its path below the folder that the files have in common.
    part : str
        What the repaired piece is called in an output folder.
    first, row : int
        Number of the first record, among all records and in its file.
    size : int
        Number of records.
    begin, end : int
        Where the piece begins and ends in its file: row groups or bytes.
    line : int
        Line of the first record, from 1; 0 where files have no lines.
    """

    number: int
    file: str
    name: str
    part: str
    first: int
    row: int
    size: int
    begin: int
    end: int
    line: int = 0


@dataclass(frozen=True)
class Block:
    """Some records of a piece, and what was found in them.

    Attributes
    ----------
    rows : ndarray of int
        Numbers of the records in their file.
    result : TableResult
        What was found; rows count from the start of the block.
    listed : list of tuple
        Proposed changes: row, line, id, column, old, new, moved_from.
    """

    rows: np.ndarray
    result: Any
    listed: list[tuple]


class TableFiles(ABC):
    """The records of some files with the same columns.

    Attributes
    ----------
    format : str
        "parquet", "csv", or "frame" for what is held in memory.
    paths, names : list of str
        The files, and what they are called in an output folder.
    columns : list of str
        Names of the columns.
    pieces : list of Piece
        All pieces, in the order of the records.
    notes : list of str
        What was assumed about the files.
    single : bool
        Whether the table is one CSV file that was named itself, which is repaired into a file; what
        a folder or a pattern names is repaired into a folder, however many files it is.
    first_odd : str or None
        File and line of the first record with another number of fields than the header.
    """

    single: bool = False
    first_odd: str | None = None
    format: str
    paths: list[str]
    names: list[str]
    columns: list[str]
    pieces: list[Piece]
    notes: list[str]
    # Taken before a file is read: whatever changes it from then on is noticed.
    _states: list[list[int]]

    @property
    def n_records(self) -> int:
        """Number of records in all files."""
        return sum(piece.size for piece in self.pieces)

    @abstractmethod
    def take(self, piece: Piece, rows: np.ndarray) -> Any:
        """Return some records of a piece, by number within it, to be joined with others."""

    @abstractmethod
    def joined(self, parts: list) -> tuple[Any, dict[str, Any]]:
        """Return what :meth:`take` gave as one frame, and what it settles, for :meth:`settled`."""

    @abstractmethod
    def settled(self, state: dict[str, Any]) -> "TableFiles":
        """Return the files as they are read once a sample is known.

        What depends on many records, such as the decimal mark of a column, is the same for all
        pieces from now on.
        """

    @abstractmethod
    def judged(
        self, piece: Piece, block_size: int, judge: Callable[..., Any], sink: Any
    ) -> Iterator[Block]:
        """Judge a piece block by block and write the repaired piece to `sink`, if there is one."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Return what tells these files from others, or from their own state before or later."""

    def changed(self) -> str | None:
        """Return the first file that is no longer what it was when it was opened."""
        for path, state in zip(self.paths, self._states, strict=True):
            try:
                if file_state(path) != state:
                    return path
            except OSError:
                return path
        return None

    def _named_states(self):
        return [[name, *state] for name, state in zip(self.names, self._states, strict=True)]


def find_files(source, format: str | None = None) -> tuple[list[str], list[str], str]:
    """Return the paths of the files of a table, their names in an output folder, and their format.

    Parameters
    ----------
    source : str, path, or list of these
        A folder, a pattern such as ``data/*.parquet``, or files.
    format : str, optional
        Format of the files; by default their extensions tell.

    Returns
    -------
    paths, names : list of str
        In the order of the paths.
    format : str
        "parquet", "csv" or "tsv".
    """
    if not isinstance(source, str | os.PathLike):
        paths = [os.fspath(path) for path in source]
        base = os.path.commonpath([os.path.dirname(os.path.abspath(p)) for p in paths] or ["."])
    else:
        text = os.fspath(source)
        if os.path.isdir(text):
            paths, base = _in_folder(text), text
        elif os.path.exists(text) or not glob.has_magic(text):
            paths, base = [text], os.path.dirname(text)
        else:
            paths = [path for path in glob.glob(text, recursive=True) if os.path.isfile(path)]
            base = os.path.commonpath([os.path.dirname(path) for path in paths] or ["."])
        if not paths:
            what = "holds no Parquet or CSV files" if os.path.isdir(text) else "matches no file"
            raise TableError(f"{text} {what}.")
    paths = sorted(paths)
    return paths, [os.path.relpath(path, base or ".") for path in paths], _format(paths, format)


def _in_folder(folder):
    found = [path for path in Path(folder).rglob("*") if path.suffix.lower() in FILE_ENDS]
    return [str(path) for path in found if path.is_file() and _is_visible(path, folder)]


def _is_visible(path, folder):
    # Hidden files are unfinished ones of writers, those with "_" their notes.
    return not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)


def _format(paths, format):
    formats: dict[str, str] = {}
    for path in paths:
        if not os.path.isfile(path):
            what = "is a folder" if os.path.isdir(path) else "cannot be read: there is no such file"
            raise TableError(f"{path} {what}.")
        if split_suffix(path)[2]:
            raise TableError(f"{path} is compressed and cannot be read in parts; decompress it.")
        formats.setdefault(file_format(path, format), path)
    if len(formats) > 1:
        listed = " and ".join(f"{kind} ({path})" for kind, path in list(formats.items())[:2])
        raise TableError(f"The files are of several formats, {listed}; name those of one.")
    [found] = formats
    if found not in ("parquet", "csv", "tsv"):
        raise TableError(
            f"{paths[0]} is {found}; tables larger than memory are read from Parquet and CSV."
        )
    return found


def file_state(path: str) -> list[int]:
    """Return size and time of the last change of a file."""
    state = os.stat(path)
    return [state.st_size, state.st_mtime_ns]
