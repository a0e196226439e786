"""Tables as files: read in any format, written back byte for byte with cells moved.

`read_table` opens a file, `OutputFiles` writes files all or none, `Moves` says which cell receives
which value, and a list of changes is `written_changes` for people and `plan_moves` for programs.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unpermute.files._changes import (
        CHANGE_COLUMNS,
        listed_changes,
        plan_moves,
        written_changes,
    )
    from unpermute.files._csv_layout import NA_TEXTS, CsvStyle
    from unpermute.files._line_edits import listed_edits
    from unpermute.files._moves import (
        INSERT,
        JOIN,
        Changes,
        LineEdit,
        Moves,
        cell_texts,
        holds_null,
        move_cells,
        unfit_moves,
    )
    from unpermute.files._read import (
        FORMATS,
        check_output_format,
        file_format,
        read_table,
        repaired_as,
        split_suffix,
        tells_format,
    )
    from unpermute.files._source import RaggedLine, SourceTable, TableError, check_columns
    from unpermute.files._write import STDOUT, OutputFiles

__all__ = [
    "CHANGE_COLUMNS",
    "FORMATS",
    "INSERT",
    "JOIN",
    "NA_TEXTS",
    "STDOUT",
    "Changes",
    "CsvStyle",
    "LineEdit",
    "Moves",
    "OutputFiles",
    "RaggedLine",
    "SourceTable",
    "TableError",
    "cell_texts",
    "check_columns",
    "check_output_format",
    "file_format",
    "holds_null",
    "listed_changes",
    "listed_edits",
    "move_cells",
    "plan_moves",
    "read_table",
    "repaired_as",
    "split_suffix",
    "tells_format",
    "unfit_moves",
    "written_changes",
]

_MODULES = {
    "_changes": ("CHANGE_COLUMNS", "listed_changes", "plan_moves", "written_changes"),
    "_csv_layout": ("NA_TEXTS", "CsvStyle"),
    "_line_edits": ("listed_edits",),
    "_moves": (
        "INSERT",
        "JOIN",
        "Changes",
        "LineEdit",
        "Moves",
        "cell_texts",
        "holds_null",
        "move_cells",
        "unfit_moves",
    ),
    "_read": (
        "FORMATS",
        "check_output_format",
        "file_format",
        "read_table",
        "repaired_as",
        "split_suffix",
        "tells_format",
    ),
    "_source": ("RaggedLine", "SourceTable", "TableError", "check_columns"),
    "_write": ("STDOUT", "OutputFiles"),
}


def __getattr__(name):
    # Lazy, because data frames are repaired without polars, which only files need.
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"unpermute.files.{module}"), name)
    raise AttributeError(f"module 'unpermute.files' has no attribute {name!r}")
