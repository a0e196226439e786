"""What was learned about the columns of a table, to be used for others."""

from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numba.core.errors import NumbaError

from unpermute.records import KnownRecords
from unpermute.table._model_file import read_model, write_model

__all__ = ["TableModel"]


@dataclass(frozen=True)
class TableModel:
    """What was learned about the columns of a table.

    Attributes
    ----------
    names : list of str
        The columns.
    known : KnownRecords
        What their values look like, alone and together.
    kinds : dict of str to str
        What columns were said to hold.
    """

    names: list[str]
    known: KnownRecords
    kinds: dict[str, str] = field(default_factory=dict)

    def scan(self, frame, **options) -> Any:
        """Scan another table with the same columns; see :func:`unpermute.table.scan`."""
        from unpermute.table._repair import scan

        with _one_sentence():
            return scan(frame, model=self, **options)

    def repair(self, frame, **options) -> Any:
        """Repair another table with the same columns; see :func:`unpermute.table.repair`."""
        from unpermute.table._repair import repair

        with _one_sentence():
            return repair(frame, model=self, **options)

    def save(self, path) -> None:
        """Write the model to a file, for :meth:`load` and for ``unpermute scan --model``."""
        content = write_model(self.names, self.known, self.kinds)
        if hasattr(path, "write"):
            path.write(content)
        else:
            Path(path).write_bytes(content)

    @classmethod
    def load(cls, path) -> "TableModel":
        """Read a model that :meth:`save` has written; loading runs nothing that the file holds."""
        return cls(*read_model(Path(path).read_bytes(), str(path)))


@contextmanager
def _one_sentence():
    """Turn what a forged model may raise, whose parts each look sound, into a sentence."""
    try:
        yield
    except (IndexError, KeyError, TypeError, ArithmeticError, NumbaError) as error:
        raise ValueError(
            "The model cannot judge this table: its parts do not fit together; learn a new one."
        ) from error
