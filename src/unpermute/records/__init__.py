"""Records with values under wrong columns: value models, joint model, search and decision."""

from unpermute.records._alone import judge_records, leave_tails
from unpermute.records._bins import Bins
from unpermute.records._calibrate import Calibration
from unpermute.records._causes import (
    ANOTHER_ORDER,
    PERMUTED,
    RUN,
    SCATTERED,
    SHIFTED,
    SWAPPED,
    name_causes,
)
from unpermute.records._cells import Cells, number_cells
from unpermute.records._dependence import Dependence
from unpermute.records._divided import Division
from unpermute.records._exchanges import find_exchanges
from unpermute.records._explain import explain
from unpermute.records._joint import JointModel, Score
from unpermute.records._model import RecordModel
from unpermute.records._prior import MovePrior
from unpermute.records._read import KINDS, ColumnKind, describe_columns, read_cells
from unpermute.records._repair import learn_records, repair_records
from unpermute.records._result import KnownRecords, RecordRepairs
from unpermute.records._rule import Rule
from unpermute.records._score import score_records
from unpermute.records._screen import Screen
from unpermute.records._smooth import Smooth, fit_smooth
from unpermute.records._tails import shift_whole_tails
from unpermute.records._tempering import Tempering
from unpermute.records._text import TextModel
from unpermute.records._values import ValueModel

__all__ = [
    "ANOTHER_ORDER",
    "KINDS",
    "MODEL_PARTS",
    "PERMUTED",
    "RUN",
    "SCATTERED",
    "SHIFTED",
    "SWAPPED",
    "Cells",
    "ColumnKind",
    "Division",
    "KnownRecords",
    "RecordRepairs",
    "Score",
    "describe_columns",
    "explain",
    "find_exchanges",
    "fit_smooth",
    "judge_records",
    "learn_records",
    "leave_tails",
    "name_causes",
    "number_cells",
    "read_cells",
    "repair_records",
    "score_records",
    "shift_whole_tails",
]

# The classes that a model in a file may hold.
MODEL_PARTS = (
    KnownRecords, RecordModel, ValueModel, Smooth, TextModel, JointModel, Score, MovePrior, Cells,
    Dependence, Bins, Tempering, Rule, Calibration, Screen,
)  # fmt: skip
