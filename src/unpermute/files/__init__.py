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
    from unpermute.files._csv import CsvTable
    from unpermute.files._csv_kernels import find_records
    from unpermute.files._csv_layout import NA_TEXTS, CsvStyle, mostly_odd
    from unpermute.files._line_edits import EDIT_CAUSES, listed_edits
    from unpermute.files._marks import Marks
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
    "EDIT_CAUSES",
    "FORMATS",
    "INSERT",
    "JOIN",
    "NA_TEXTS",
    "STDOUT",
    "Changes",
    "CsvStyle",
    "CsvTable",
    "LineEdit",
    "Marks",
    "Moves",
    "OutputFiles",
    "RaggedLine",
    "SourceTable",
    "TableError",
    "cell_texts",
    "check_columns",
    "check_output_format",
    "file_format",
    "find_records",
    "holds_null",
    "listed_changes",
    "listed_edits",
    "mostly_odd",
    "move_cells",
    "plan_moves",
    "read_table",
    "repaired_as",
    "split_suffix",
    "tells_format",
    "unfit_moves",
    "written_changes",
]

# In this order, because data frames are repaired without polars, which all but the first need.
_MODULES = (
    *("_moves", "_source", "_csv_layout", "_line_edits", "_changes", "_write", "_read"),
    *("_csv", "_csv_kernels", "_marks"),
)


def __getattr__(name):
    for module in _MODULES if name in __all__ else ():
        found = import_module(f"unpermute.files.{module}")
        if name in found.__all__:
            return getattr(found, name)
    raise AttributeError(f"module 'unpermute.files' has no attribute {name!r}")
