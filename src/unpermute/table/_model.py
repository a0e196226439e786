"""What was learned about the columns of a table, to be used for others."""

from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from numba.core.errors import NumbaError

from unpermute._words import counted
from unpermute.records import KnownRecords
from unpermute.table._model_file import read_model, write_model

__all__ = ["TableModel"]

# Columns named in one line, and in the card of a notebook.
_NAMED, _LISTED = 5, 50


@dataclass(frozen=True, repr=False)
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

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from unpermute.table import learn
    >>> learn(load_wine(as_frame=True).data)
    TableModel: 13 columns (alcohol, malic_acid, ash, alcalinity_of_ash, magnesium, ...)
    """

    names: list[str]
    known: KnownRecords
    kinds: dict[str, str] = field(default_factory=dict)

    def __repr__(self):
        named = ", ".join(self.names[:_NAMED]) + (", ..." if len(self.names) > _NAMED else "")
        return f"TableModel: {counted(len(self.names), 'column')} ({named})"

    def _repr_html_(self):
        names = "".join(f"<li>{escape(name)}</li>" for name in self.names[:_LISTED])
        more = len(self.names) - _LISTED
        rest = f"<li>and {more:,} more</li>" if more > 0 else ""
        return (
            f"<details><summary>TableModel of {counted(len(self.names), 'column')}</summary>"
            f"<ul>{names}{rest}</ul></details>"
        )

    def scan(self, frame, *, adapt=True, **options) -> Any:
        """Say which records of another table with the same columns look shuffled.

        Parameters
        ----------
        frame : pandas, polars or pyarrow data frame
            The other table.
        adapt : bool, default=True
            Whether to learn from this table how often and how records are damaged. False: every
            record is judged alone, by what was seen in the table that the model was learned from;
            the same record gets the same answer whatever others stand beside it.
        **options : dict
            Options of :func:`unpermute.table.scan`.

        Returns
        -------
        TableResult
            What was found.
        """
        from unpermute.table._repair import judge_alone, scan

        with _one_sentence():
            if not adapt:
                return judge_alone(frame, self, change=False, **options)
            return scan(frame, model=self, **options)

    def repair(self, frame, *, adapt=True, **options) -> Any:
        """Repair another table with the same columns.

        Parameters
        ----------
        frame : pandas, polars or pyarrow data frame
            The other table.
        adapt : bool, default=True
            Whether to learn from this table how often and how records are damaged. False: every
            record is judged alone, by what was seen in the table that the model was learned from;
            the same record gets the same answer whatever others stand beside it.
        **options : dict
            Options of :func:`unpermute.table.repair`.

        Returns
        -------
        TableResult
            What was found, and the repaired table.
        """
        from unpermute.table._repair import judge_alone, repair

        with _one_sentence():
            if not adapt:
                return judge_alone(frame, self, change=True, **options)
            return repair(frame, model=self, **options)

    def save(self, path) -> None:
        """Write the model to a file, for :meth:`load` and for ``unpermute scan --model``.

        Parameters
        ----------
        path : str, path-like or binary file
            Where to write it.
        """
        content = write_model(self.names, self.known, self.kinds)
        if hasattr(path, "write"):
            path.write(content)
        else:
            Path(path).write_bytes(content)

    @classmethod
    def load(cls, path) -> "TableModel":
        """Read a model that :meth:`save` has written; loading runs nothing that the file holds.

        Parameters
        ----------
        path : str or path-like
            The file.

        Returns
        -------
        TableModel
            The model.
        """
        return cls(*read_model(Path(path).read_bytes(), str(path)))


@contextmanager
def _one_sentence():
    """Turn errors of a forged model, whose parts look sound one by one, into one sentence."""
    try:
        yield
    except (IndexError, KeyError, TypeError, ArithmeticError, NumbaError) as error:
        raise ValueError(
            "The model cannot judge this table: its parts do not fit together; learn a new one."
        ) from error
