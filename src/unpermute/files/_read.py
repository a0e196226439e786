"""Tables in files: by extension or by name, from a path or from standard input."""

import mmap
import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import replace

from unpermute.files._arrow import ArrowTable
from unpermute.files._compressed import (
    COMPRESSIONS,
    compressed,
    compression_of,
    decompressed,
)
from unpermute.files._csv import CsvTable
from unpermute.files._csv_layout import CsvStyle
from unpermute.files._json import JsonTable
from unpermute.files._jsonl import JsonLinesTable
from unpermute.files._moves import Moves
from unpermute.files._npy import NpyTable
from unpermute.files._source import SourceTable, TableError
from unpermute.files._xlsx import WorkbookTable

__all__ = [
    "FORMATS",
    "check_output_format",
    "file_format",
    "read_table",
    "repaired_as",
    "split_suffix",
    "tells_format",
]

FORMATS = ("csv", "tsv", "parquet", "arrow", "npy", "jsonl", "json", "xlsx")

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
    ".json": "json",
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
}
# Formats that a workbook may be repaired into, besides a workbook.
_CONVERTED = {"xlsx": ("csv", "tsv", "parquet")}


def read_table(
    path: str,
    *,
    format: str | None = None,
    style: CsvStyle | None = None,
    sheet: str | None = None,
) -> SourceTable:
    """Open a table for reading.

    Parameters
    ----------
    path : str
        A file, or "-" for standard input.
    format : str, optional
        One of `FORMATS`; by default the extension decides, and standard input is CSV. Whether a
        file is compressed its first bytes decide.
    style : CsvStyle, optional
        How delimited text is to be read.
    sheet : str, optional
        Name or number (from 1) of the sheet of a workbook; by default the first.

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
    suffix = compression_of(raw)
    if suffix is None:
        return _open(raw, name, format, style, sheet)
    raw = decompressed(raw, suffix, name)
    if not len(raw):
        raise TableError(f"{name} is empty.")
    table = _open(raw, name, format, style, sheet)
    table.compression = suffix
    return table


def _open(raw, name, format, style, sheet):
    if sheet is not None and format != "xlsx":
        raise TableError(f"sheet={sheet!r} is for workbooks, but {name} is read as {format}.")
    if format in ("csv", "tsv"):
        if format == "tsv" and style.delimiter is None:
            style = replace(style, delimiter="\t")
        return CsvTable(raw, name, style)
    if format == "json" and bytes(raw[:100]).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{":
        format = "jsonl"  # which often go by this extension
    if format == "arrow" or format == "parquet":
        return ArrowTable(raw, name, format)
    if format == "xlsx":
        return WorkbookTable(raw, name, style, sheet)
    return {"jsonl": JsonLinesTable, "json": JsonTable, "npy": NpyTable}[format](raw, name)


def file_format(path: str, format: str | None = None) -> str:
    """Return the format of a file, by its extension unless it is given."""
    if format is not None:
        if format not in FORMATS:
            raise TableError(f"format must be one of {', '.join(FORMATS)}, but is {format!r}.")
        return format
    if path == "-":
        return "csv"
    found = _EXTENSIONS.get(split_suffix(path)[1])
    if found is None:
        # A path that is no file is refused first.
        _check_path(path, path)
        raise TableError(
            f"{path}: the extension does not tell the format; give --format {'|'.join(FORMATS)}."
        )
    return found


def tells_format(path: str) -> bool:
    """Return whether the extension of a file tells its format."""
    return split_suffix(path)[1] in _EXTENSIONS


def split_suffix(path: str) -> tuple[str, str, str]:
    """Return a path without extensions, that of its format, and that of its compression or "".

    Examples
    --------
    >>> from unpermute.files import split_suffix
    >>> split_suffix("a/b.CSV.gz")
    ('a/b', '.csv', '.gz')
    """
    stem, suffix = os.path.splitext(path)
    if suffix.lower() not in COMPRESSIONS:
        return stem, suffix.lower(), ""
    stem, inner = os.path.splitext(stem)
    return stem, inner.lower(), suffix.lower()


def check_output_format(path: str, source: str, format: str) -> None:
    """Refuse an output whose extension promises another format than that of the input.

    Parameters
    ----------
    path : str
        The output.
    source : str
        The input.
    format : str
        Format of the input.
    """
    _, suffix, compression = split_suffix(path)
    promised = _EXTENSIONS.get(suffix, format)
    if promised in _CONVERTED.get(format, ()) and not compression:
        return
    text = ("csv", "tsv")
    if promised != format and not (promised in text and format in text):
        raise TableError(
            f"{path} would hold {format}, the format of the input, under an extension that means"
            f" {promised}: cells are moved as they stand, files are not converted."
        )
    given = split_suffix(source)[2]
    if source != "-" and path != "-" and suffix in _EXTENSIONS and compression != given:
        what = f"be compressed as {source} is" if given else f"not be compressed: {source} is not"
        raise TableError(f"{path} would {what}; let it end in {suffix}{given}.")


def repaired_as(path: str, source: SourceTable, moves: Moves) -> Iterator[bytes | memoryview]:
    """Yield a table with cells moved, in its own format, or in that which the path promises."""
    format = _EXTENSIONS.get(split_suffix(path)[1])
    if isinstance(source, WorkbookTable) and format in _CONVERTED["xlsx"]:
        return source.converted(moves, format)
    pieces = source.with_moves(moves)
    return pieces if source.compression is None else compressed(pieces, source.compression)


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
    """Refuse a path that is no file; return the size if it can be mapped, otherwise 0."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise TableError(f"{name} cannot be read: {error.strerror}.") from None
    if stat.S_ISDIR(status.st_mode):
        raise TableError(f"{name} is a directory, not a table.")
    return status.st_size if stat.S_ISREG(status.st_mode) else 0
