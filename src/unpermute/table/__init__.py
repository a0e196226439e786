"""Data frames: find and repair shuffled records and columns, and audit shuffled releases."""

from unpermute.table._audit import AuditResult, audit
from unpermute.table._model import TableModel
from unpermute.table._ragged import MendedLine, mend_lines
from unpermute.table._repair import learn, repair, scan
from unpermute.table._result import TableResult
from unpermute.table._reviewed import exchanged_rows, reviewed

__all__ = [
    "AuditResult",
    "MendedLine",
    "TableModel",
    "TableResult",
    "audit",
    "exchanged_rows",
    "learn",
    "mend_lines",
    "repair",
    "reviewed",
    "scan",
]
