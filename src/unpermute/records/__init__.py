"""Records with values under wrong columns: value models, joint model, search and decision."""

from unpermute.records._causes import ANOTHER_ORDER, PERMUTED, RUN, SHIFTED, SWAPPED, name_causes
from unpermute.records._cells import Cells, number_cells
from unpermute.records._explain import explain
from unpermute.records._read import ColumnKind, describe_columns, read_cells
from unpermute.records._repair import KnownRecords, RecordRepairs, learn_records, repair_records

__all__ = [
    "ANOTHER_ORDER",
    "PERMUTED",
    "RUN",
    "SHIFTED",
    "SWAPPED",
    "Cells",
    "ColumnKind",
    "KnownRecords",
    "RecordRepairs",
    "describe_columns",
    "explain",
    "learn_records",
    "name_causes",
    "number_cells",
    "read_cells",
    "repair_records",
]
