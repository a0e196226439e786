"""What was learned about the columns of a table, to be used for others."""

from dataclasses import dataclass
from typing import Any

import joblib

from unpermute.records import KnownRecords

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
    """

    names: list[str]
    known: KnownRecords

    def scan(self, frame, **options) -> Any:
        """Scan another table with the same columns; see :func:`unpermute.table.scan`."""
        from unpermute.table._repair import scan

        return scan(frame, model=self, **options)

    def repair(self, frame, **options) -> Any:
        """Repair another table with the same columns; see :func:`unpermute.table.repair`."""
        from unpermute.table._repair import repair

        return repair(frame, model=self, **options)

    def save(self, path) -> None:
        """Write the model to a file that ``unpermute scan --model`` and joblib can read."""
        from unpermute import __version__

        kept = {"unpermute": __version__, "columns": self.names, "model": self}
        joblib.dump(kept, path, compress=3)
