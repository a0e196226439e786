"""Data frames: find and repair shuffled records and columns, and audit shuffled releases."""

from typing import TYPE_CHECKING

from unpermute._lazy import lazily

if TYPE_CHECKING:
    from unpermute.table._audit import AuditResult, audit
    from unpermute.table._mend import RaggedProposal, judge_ragged
    from unpermute.table._model import TableModel
    from unpermute.table._repair import learn, learn_sample, repair, scan
    from unpermute.table._result import TableResult
    from unpermute.table._reviewed import exchanged_rows, reviewed
    from unpermute.table._tallies import Tally, added_up

__all__ = [
    "AuditResult",
    "RaggedProposal",
    "TableModel",
    "TableResult",
    "Tally",
    "added_up",
    "audit",
    "exchanged_rows",
    "judge_ragged",
    "learn",
    "learn_sample",
    "repair",
    "reviewed",
    "scan",
]

# An audit and ragged lines need more of scikit-learn than a scan of records.
__getattr__ = lazily(
    __name__,
    {
        "AuditResult": "_audit",
        "RaggedProposal": "_mend",
        "TableModel": "_model",
        "TableResult": "_result",
        "Tally": "_tallies",
        "added_up": "_tallies",
        "audit": "_audit",
        "exchanged_rows": "_reviewed",
        "judge_ragged": "_mend",
        "learn": "_repair",
        "learn_sample": "_repair",
        "repair": "_repair",
        "reviewed": "_reviewed",
        "scan": "_repair",
    },
)
