"""What `scan` and `repair` return: frames of the type that was given, and plain words."""

from dataclasses import dataclass, field
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from unpermute.files import cell_texts

__all__ = ["TableResult", "changes_frame", "vectors_frame"]


@dataclass(frozen=True)
class TableResult:
    """What was found in a table.

    Attributes
    ----------
    frame : data frame
        The table with the changes made (`repair`), or as it was (`scan`).
    changes : data frame
        One line per cell that receives another value: ``row`` (from 0), ``id``, ``column``,
        ``old``, ``new``, ``moved_from`` (the column of the same row, or the row of the same column,
        that the value comes from), ``confidence``, ``cause``, ``damaged``, ``accept`` ("yes") and
        ``evidence``. Values are given as text.
    vectors : data frame
        One line per suspicious record or column, worst first: ``vector`` (its id or name), ``row``,
        ``score``, ``status`` ("recovered" or "uncertain"), ``subspace``, ``damaged``,
        ``confidence``, ``moved`` (number of cells), ``cause``, ``columns`` (between which values
        would move) and ``evidence`` (in words).
    summary : dict
        The same in short: ``sentence``, counts, ``judged_columns``, ``structure`` (how much can be
        told at all), ``trials``, ``notes`` and ``settings``.
    model : TableModel or None
        What was learned about the columns, to be used again.
    proposals : data frame
        `changes`, and the same for uncertain records, which are left alone (``accept`` is "no").
    damaged, confidence : ndarray of shape (n,)
        Of every record (or column): the probability that it is damaged; and that all of the
        proposed repair is right, or, where nothing is suspicious, that nothing is damaged.
    moves : Changes
        `proposals` by position, for programs.
    tallies : list of Tally
        Those of the notes that count something, for programs that add up several results.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from unpermute.table import repair
    >>> wine = load_wine(as_frame=True).data
    >>> wine.loc[5, ["alcohol", "magnesium"]] = [112.0, 14.2]
    >>> result = repair(wine)
    >>> result.summary["n_repaired"], result.summary["n_moved_cells"]
    (1, 2)
    >>> result.vectors["status"].tolist(), result.frame.loc[5, "alcohol"]
    (['recovered'], np.float64(14.2))
    """

    frame: Any
    changes: Any
    vectors: Any
    summary: dict[str, Any]
    model: Any = None
    proposals: Any = None
    damaged: np.ndarray = field(default_factory=lambda: np.zeros(0))
    confidence: np.ndarray = field(default_factory=lambda: np.zeros(0))
    moves: Any = None
    tallies: list[Any] = field(default_factory=list)

    def __repr__(self):
        return f"TableResult: {self.summary['sentence']}"

    def _repr_html_(self):
        """Return the result as a card for a notebook; None without jinja2, for its text."""
        try:
            from unpermute.report import render_card
        except ImportError:
            return None
        return render_card(self)

    def report(self, path, *, source_name="table"):
        """Write the report of the result: one HTML page that needs nothing else.

        Parameters
        ----------
        path : str or path-like
            File to write; one that exists is replaced once the new page is complete.
        source_name : str, default="table"
            What the page calls the table.

        Returns
        -------
        path : pathlib.Path
            The file.
        """
        from unpermute.report import write_report

        return write_report(self, path, source_name=source_name)

    def plot(self, ax=None, **kwargs):
        """Draw which cells move; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. None: a new figure.
        **kwargs : dict
            Passed to matplotlib's ``imshow``.

        Returns
        -------
        display : RepairDisplay
            What was drawn.
        """
        from unpermute.plot import RepairDisplay

        return RepairDisplay.from_result(self, ax=ax, **kwargs)


def changes_frame(frame, changes, ids):
    """List moved cells."""
    rows, columns, names = changes.rows, changes.columns, changes.names
    namespace = nw.get_native_namespace(frame)
    listed = {
        "row": (rows.tolist(), nw.Int64),
        "column": ([names[column] for column in columns], nw.String),
        "old": (cell_texts(frame, names, rows, columns), nw.String),
        "new": (cell_texts(frame, names, changes.from_rows, changes.from_columns), nw.String),
        "moved_from": (changes.origins(), nw.String if changes.within_rows else nw.Int64),
        "confidence": (changes.confidence.tolist(), nw.Float64),
        "cause": (changes.cause.tolist(), nw.String),
        "damaged": (changes.damaged.tolist(), nw.Float64),
        "accept": (np.where(changes.accept, "yes", "no").tolist(), nw.String),
        "evidence": (changes.evidence.tolist(), nw.String),
    }
    made = _made(listed, namespace)
    identity = ids[rows.tolist()].alias("id")
    made = made.with_columns(
        nw.new_series("id", identity.to_list(), identity.dtype, backend=namespace)
    )
    return made.select("row", "id", *(name for name in listed if name != "row")).to_native()


def vectors_frame(frame, found, ids, *, by_row):
    """List the suspicious vectors, worst first."""
    places = np.flatnonzero(found.status != "clean")
    places = places[np.argsort(-found.score[places], kind="stable")]
    changes = found.proposals.accepted()
    moved = np.bincount(changes.rows if by_row else changes.columns, minlength=len(found.status))
    names = ids[places.tolist()].to_list() if by_row else [found.names[j] for j in places]
    listed = {"vector": (names, ids.dtype if by_row else nw.String)}
    if by_row:
        listed["row"] = (places.tolist(), nw.Int64)
    listed |= {
        "score": (found.score[places].tolist(), nw.Float64),
        "status": (found.status[places].tolist(), nw.String),
        "subspace": (found.subspace[places].tolist(), nw.Int64),
        "damaged": (found.damaged[places].tolist(), nw.Float64),
        "confidence": (found.confidence[places].tolist(), nw.Float64),
        "moved": (moved[places].tolist(), nw.Int64),
        "cause": (found.cause[places].tolist(), nw.String),
    }
    if by_row:
        listed["columns"] = (_concerned(found, places), nw.String)
        listed["evidence"] = (found.evidence[places].tolist(), nw.String)
    return _made(listed, nw.get_native_namespace(frame)).to_native()


def _concerned(found, places):
    """Columns between which the values of these records would move."""
    columns: dict[int, list[str]] = {}
    for row, column in zip(found.proposals.rows, found.proposals.columns, strict=True):
        columns.setdefault(int(row), []).append(found.proposals.names[column])
    return [", ".join(columns.get(int(place), [])) for place in places]


def _made(listed, namespace):
    values = {name: part for name, (part, _) in listed.items()}
    return nw.from_dict(values, {k: kind for k, (_, kind) in listed.items()}, backend=namespace)
