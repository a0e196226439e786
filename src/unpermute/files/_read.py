"""Tables in files: by extension or by name, from a path or from standard input."""

import mmap
import os
import stat
import sys
from dataclasses import replace
from pathlib import Path

from unpermute.files._arrow import ArrowTable
from unpermute.files._csv import CsvStyle, CsvTable
from unpermute.files._jsonl import JsonLinesTable
from unpermute.files._npy import NpyTable
from unpermute.files._source import SourceTable, TableError

__all__ = ["FORMATS", "check_output_format", "file_format", "read_table", "tells_format"]

FORMATS = ("csv", "tsv", "parquet", "arrow", "npy", "jsonl")

_EXTENSIONS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".npy": "npy",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}


def read_table(
    path: str, *, format: str | None = None, style: CsvStyle | None = None
) -> SourceTable:
    """Open a table for reading.

    Parameters
    ----------
    path : str
        A file, or "-" for standard input.
    format : str, optional
        One of `FORMATS`; by default the extension decides, and standard input is CSV.
    style : CsvStyle, optional
        How delimited text is to be read.

    Returns
    -------
    table : SourceTable
        Its cells are read when they are asked for.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from unpermute.files import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.csv")
    ...     _ = path.write_text("id,x\\n007,1.50\\n008,NA\\n")
    ...     table = read_table(str(path))
    ...     table.frame.rows()
    [('007', '1.50'), ('008', None)]
    """
    style = style or CsvStyle()
    format = file_format(path, format)
    name = "standard input" if path == "-" else path
    raw = _read_raw(path, name)
    if not len(raw):
        raise TableError(f"{name} is empty.")
    if format in ("csv", "tsv"):
        if format == "tsv" and style.delimiter is None:
            style = replace(style, delimiter="\t")
        return CsvTable(raw, name, style)
    if format == "jsonl":
        return JsonLinesTable(raw, name)
    return NpyTable(raw, name) if format == "npy" else ArrowTable(raw, name, format)


def file_format(path: str, format: str | None = None) -> str:
    """Return the format of a file, by its extension unless it is given."""
    if format is not None:
        if format not in FORMATS:
            raise TableError(f"format must be one of {', '.join(FORMATS)}, but is {format!r}.")
        return format
    if path == "-":
        return "csv"
    found = _EXTENSIONS.get(Path(path).suffix.lower())
    if found is None:
        # What is no file at all is said first.
        _check_path(path, path)
        raise TableError(
            f"{path}: the extension does not tell the format; give --format {'|'.join(FORMATS)}."
        )
    return found


def tells_format(path: str) -> bool:
    """Return whether the extension of a file tells its format."""
    return Path(path).suffix.lower() in _EXTENSIONS


def check_output_format(path: str, format: str) -> None:
    """Refuse an output whose extension promises another format than that of the input."""
    promised = _EXTENSIONS.get(Path(path).suffix.lower(), format)
    text = ("csv", "tsv")
    if promised != format and not (promised in text and format in text):
        raise TableError(
            f"{path} would hold {format}, the format of the input, under an extension that means"
            f" {promised}: cells are moved as they stand, files are not converted."
        )


def _read_raw(path, name):
    """Return the bytes of a file, mapped if it is one, read if it is a pipe."""
    if path == "-" and sys.stdin is None:
        raise TableError("standard input is closed; name a file, or send a table through a pipe.")
    try:
        if path == "-":
            return sys.stdin.buffer.read()
        size = _check_path(path, name)
        with open(path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else file.read()
    except OSError as error:
        raise TableError(f"{name} cannot be read: {error.strerror}.") from None


def _check_path(path, name):
    """Refuse what is no file; return the size of one that can be mapped, otherwise 0."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise TableError(f"{name} cannot be read: {error.strerror}.") from None
    if stat.S_ISDIR(status.st_mode):
        raise TableError(f"{name} is a directory, not a table.")
    return status.st_size if stat.S_ISREG(status.st_mode) else 0
