"""Lines with another number of fields than the header: judge them, and say what was found."""

import math
from dataclasses import dataclass

import numpy as np

from unpermute._words import counted
from unpermute.cli._options import Learning
from unpermute.files import INSERT, JOIN, LineEdit, RaggedLine, SourceTable

__all__ = ["Ragged", "mend"]

# Regular records that trials are made of, at most a third of them all, and how many others are
# enough to learn what judges the trials.
_TRIALS, _ENOUGH = 120, 5000


@dataclass(frozen=True)
class Ragged:
    """A line, what would make it regular (None: nobody knows), and whether that is sure enough."""

    line: RaggedLine
    edit: LineEdit | None
    confidence: float
    accepted: bool

    def proposal(self) -> tuple:
        """Return the line as `listed_edits` takes it."""
        return self.line, self.edit, self.confidence, self.accepted

    def words(self, columns: list[str]) -> str:
        """Return for people what would make the line regular."""
        n = len(self.line.fields)
        fields = counted(n, "field")
        if self.edit is None:
            return f"{fields}; left as it is"
        name, k = columns[self.edit.column], self.edit.column
        what = (
            f"{self.line.fields[k]!r} and {self.line.fields[k + 1]!r} are one value of {name}"
            if self.edit.kind == JOIN
            else f"{name} is missing"
        )
        doubt = "" if self.accepted else "; not sure enough, left as it is"
        # Rounded down: 1.000 would promise more than 0.9999 does.
        return f"{fields}; {what} ({math.floor(self.confidence * 1000) / 1000:.3f}{doubt})"

    def as_dict(self, source: SourceTable) -> dict:
        """Return the line for JSON."""
        found = {"line": self.line.line, "row": self.line.row, "n_fields": len(self.line.fields)}
        if self.edit is None:
            return found | {"accept": "no"}
        kind = {JOIN: "join", INSERT: "insert"}[self.edit.kind]
        return found | {
            "kind": kind,
            "column": source.columns[self.edit.column],
            "confidence": self.confidence,
            "accept": "yes" if self.accepted else "no",
        }


def mend(source: SourceTable, result, learning: Learning) -> list[Ragged]:
    """Judge the lines of a table that are not regular by what was learned from the others."""
    lines = source.ragged_lines()
    # A column of such a name could not be told from an edit in a list of changes.
    if not lines or result.model is None or {JOIN, INSERT} & set(source.columns):
        return [Ragged(line, None, 0.0, False) for line in lines]
    from unpermute.table import mend_lines

    order = np.random.default_rng(learning.seed).permutation(len(source.frame_rows))
    n_trials = min(_TRIALS, len(order) // 3)
    mended = mend_lines(
        result.model,
        source.columns,
        [line.fields for line in lines],
        _records(source, order[:n_trials]),
        trial_model=_model_without(source, result, learning, order[n_trials:][:_ENOUGH]),
        delimiter=source.delimiter,  # type: ignore[attr-defined]
        read=source.read_records,  # type: ignore[attr-defined]
        random_state=learning.seed,
    )
    found = []
    for line, how in zip(lines, mended, strict=True):
        quoted = how is not None and how.kind == JOIN and any(line.quoted[how.column :][:2])
        if how is None or quoted:
            found.append(Ragged(line, None, 0.0, False))
            continue
        edit = LineEdit(line.row, how.column, how.kind)
        accepted = how.confidence >= learning.min_confidence
        found.append(Ragged(line, edit, how.confidence, accepted))
    return found


def _model_without(source, result, learning, others):
    """Return a model that has not seen the records of the trials, None if there is none."""
    from unpermute.table import learn

    settings = result.summary["settings"]
    if settings["model"] or settings["reference"]:
        return result.model  # learned from another table
    options = {name: settings[name] for name in ("kinds", "rank", "random_state")}
    try:
        frame = source.frame[others]
        return learn(frame, columns=result.model.names, n_jobs=learning.jobs, **options)
    except ValueError:
        return None


def _records(source, places):
    """Return some regular records as they stand in the file."""
    rows, n = source.frame_rows[places], len(source.columns)
    texts = source.texts(np.repeat(rows, n), np.tile(np.arange(n), len(rows)))
    return [texts[k * n : (k + 1) * n] for k in range(len(rows))]
