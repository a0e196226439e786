"""Find what is shuffled in a frame: records or columns, as one object from finder to writer."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from unpermute.columns import Structure
from unpermute.files import Changes, cell_texts, unfit_moves
from unpermute.records import (
    SHIFTED,
    ColumnKind,
    RecordRepairs,
    describe_columns,
    explain,
    judge_records,
    leave_tails,
    read_cells,
    repair_records,
    shift_whole_tails,
)
from unpermute.table._numbers import check_names, open_frame, read_numbers
from unpermute.table._questions import describe_questions, places_of_answers
from unpermute.table._tallies import Tally

__all__ = ["Finding", "find_in_columns", "find_in_records"]

_HIGHEST = 999.0
# Records whose evidence is put into words; the others have numbers only.
_MOST_EXPLAINED = 20_000
# Share of moved cells put back in trials, below which a table is called weak.
_WEAK = 0.5


@dataclass(frozen=True)
class Finding:
    """What either mode finds: one entry per record or column, and the cells to move.

    Attributes
    ----------
    names : list of str
        Columns that were judged.
    kinds : list of ColumnKind
        Of all columns that were looked at, judged or not.
    score, damaged, confidence : ndarray
        Of every record or column.
    status, cause, evidence : ndarray of str
        Of every record or column.
    subspace : ndarray of int
        Label of every column; 0 for records.
    proposals : Changes
        Cells to move, and those of uncertain records, which do not move.
    structure : Structure
        How much can be put back.
    trials : dict
        How confidence was measured; empty for columns.
    notes : list of str
        What the user should know.
    model : object or None
        What was learned about records.
    questions : list of dict
        Exchanges of two columns in many rows for which the table does not tell which side is right.
    tallies : list of Tally
        The notes that count something.
    """

    names: list[str]
    kinds: list[ColumnKind]
    score: np.ndarray
    damaged: np.ndarray
    confidence: np.ndarray
    status: np.ndarray
    cause: np.ndarray
    evidence: np.ndarray
    subspace: np.ndarray
    proposals: Changes
    structure: Structure
    trials: dict = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    model: Any = None
    questions: list[dict] = field(default_factory=list)
    tallies: list[Tally] = field(default_factory=list)


def find_in_records(frame, options, columns, exclude):
    """Find values under wrong columns."""
    wanted = [name for name in (columns or frame.columns) if name not in exclude]
    cells, n_infinite = read_cells(frame, wanted, options["kinds"], stage="read columns")
    kinds = describe_columns(cells, wanted, options["kinds"])
    known = None if options["model"] is None else options["model"].known
    used = [j for j, kind in enumerate(kinds) if kind.kind or known is not None]
    names = [wanted[j] for j in used]
    cells = cells if len(used) == len(wanted) else cells.columns(used)
    groups = None
    if options["groups"] is not None:
        texts = [str(cell) for cell in frame[options["groups"]].to_list()]
        groups = np.unique(np.array(texts, dtype=object), return_inverse=True)[1]
    deciding = {name: options[name] for name in ("max_moves", "min_confidence", "n_jobs")}
    if options["adapt"]:
        repairs = repair_records(
            cells, reference=_reference_cells(options, names), groups=groups, rank=options["rank"],
            random_state=options["random_state"], known=known,
            exchanges=places_of_answers(options["exchange"], names, len(frame)),
            n_learned=options["n_learned"], **deciding,
        )  # fmt: skip
    else:
        repairs = judge_records(known, cells, **deciding)
    tallies = [Tally("infinite", n_infinite)] if n_infinite else []
    notes = [tally.sentence for tally in tallies]
    if repairs.undecided:
        notes.append(
            f"{repairs.undecided:.0%} of the records would move. The table does not tell whether"
            " these or the others are right, so none was changed. Give a table that is known to be"
            " clean (reference)."
        )
    # Whose evidence is left out is a matter of the whole table.
    evidence = _evidence(
        frame, names, cells, repairs, most=_MOST_EXPLAINED if options["adapt"] else None
    )
    repairs, moved = _over_all_columns(frame, names, repairs, options)
    repairs, left = _without_unfit(frame, moved, repairs)
    n_partial = int(np.sum(repairs.partial & (repairs.status == "recovered")))
    left += [Tally("partial", n_partial)] if n_partial else []
    return Finding(
        names, kinds + _left_out(frame, wanted, options), _clipped(repairs.score), repairs.damaged,
        repairs.confidence, repairs.status, repairs.cause, evidence,
        np.zeros(len(frame), dtype=np.int64),
        _moved_fields(repairs, moved, evidence), _structure(repairs, groups),
        repairs.trials, notes + [tally.sentence for tally in left], repairs.known,
        describe_questions(repairs.questions, frame, names), tallies + left,
    )  # fmt: skip


def _reference_cells(options, names):
    if options["reference"] is None:
        return None
    other = open_frame(options["reference"], "reference")
    check_names(names, other, "reference")
    return read_cells(other, names, options["kinds"])[0]


def _left_out(frame, wanted, options):
    """Columns that were not even read, and why."""
    found, read = [], set(wanted)
    for name in frame.columns:
        if name in read:
            continue
        reason = "it was left out"
        for option, why in (("id", "it names the records"), ("groups", "it names the source")):
            if name == options[option]:
                reason = why
        if (options["kinds"] or {}).get(name) == "ignore":
            reason = "it is to be ignored"
        found.append(ColumnKind(name, "", reason))
    return found


def _clipped(score):
    # Odds in words end at a million: values that never occur in a column exceed any number.
    return np.clip(score, -_HIGHEST, _HIGHEST)


def _moved_fields(repairs, names, evidence):
    """Cells that move in suspicious records, also in those that are left alone."""
    moved = repairs.proposals != np.arange(len(names))
    row, column = np.nonzero(moved & (repairs.status != "clean")[:, None])
    return Changes(
        row, column, row, repairs.proposals[row, column].astype(np.int64), repairs.confidence[row],
        repairs.damaged[row], repairs.status[row] == "recovered", repairs.cause[row], evidence[row],
        names=names,
    )  # fmt: skip


def _over_all_columns(frame, names, repairs, options):
    """Let shifted tails pass through columns that are not judged; returns the columns as well."""
    every = list(frame.columns)
    shifted = np.any((repairs.cause == SHIFTED) & (repairs.status != "clean"))
    if not shifted or len(names) == len(every):
        return repairs, names
    places = [every.index(name) for name in names]
    if not options["adapt"]:
        return leave_tails(repairs, places, len(every)), names
    if places != sorted(places):
        return repairs, names
    cells = read_cells(frame, every, options["kinds"])[0]
    return shift_whole_tails(repairs, cells, places, options["min_confidence"]), every


def _without_unfit(frame, names, repairs):
    """Leave records alone in which a value does not fit the type of its new column."""
    moves = _moved_fields(repairs, names, np.full(len(frame), "", dtype=object)).accepted()
    unfit = unfit_moves(frame, names, moves)
    if not unfit.any():
        return repairs, []
    rows = np.unique(moves.rows[unfit])
    permutations, status = repairs.permutations.copy(), repairs.status.copy()
    permutations[rows], status[rows] = np.arange(permutations.shape[1]), "uncertain"
    concerned = tuple(
        (j, f"{names[j]!r} ({frame[names[j]].dtype})")
        for j in np.unique(moves.columns[unfit]).tolist()
    )
    repairs = replace(repairs, permutations=permutations, status=status)
    return repairs, [Tally("unfit", len(rows), concerned)]


def _evidence(frame, names, cells, repairs: RecordRepairs, *, most: int | None):
    """Evidence in words of the suspicious records, most suspicious first if there are many."""
    phrases = np.full(len(frame), "", dtype=object)
    rows = np.flatnonzero(repairs.status != "clean")
    if most is not None and len(rows) > most:
        rows = np.sort(rows[np.argsort(-repairs.damaged[rows], kind="stable")[:most]])
    if not len(rows):
        return phrases
    # Only values that move are shown.
    proposals = repairs.proposals[rows]
    record, column = np.nonzero(proposals != np.arange(len(names)))
    texts = cell_texts(frame, names, rows[record], column)
    shown = dict(zip(zip(record.tolist(), column.tolist(), strict=True), texts, strict=True))
    phrases[rows] = explain(
        repairs.known, cells.take(rows), proposals, names, lambda r, column: shown[r, column]
    )
    partial = np.broadcast_to(repairs.partial, len(frame))[rows]
    phrases[rows[partial]] += "; other values look misplaced, too"
    return phrases


def _structure(repairs, groups):
    share = repairs.recoverability
    if repairs.reason:
        return Structure(True, 0.0, f"Nothing can be put back: {repairs.reason}.")
    if groups is not None:
        return Structure(False, share, "Records of one source were judged together.")
    back = f"about {share:.0%} of the cells moved in a randomly damaged record can be put back"
    if share >= _WEAK:
        return Structure(False, share, f"The columns tell their values apart: {back}.")
    return Structure(
        True, share, f"The columns tell few of their values apart: {back}."
    )  # fmt: skip


def find_in_columns(frame, options, columns, exclude):
    """Find columns whose rows were shuffled."""
    from unpermute.columns import repair_columns

    table = read_numbers(frame, columns=columns, exclude=exclude)
    blocks = None
    if options["blocks"] is not None:
        texts = [str(cell) for cell in frame[options["blocks"]].to_list()]
        blocks = np.unique(np.array(texts, dtype=object), return_inverse=True)[1]
    repairs = repair_columns(
        table.values, blocks=blocks, groups=_column_groups(options["groups"], table),
        n_subspaces=options["n_subspaces"], rank=options["rank"], max_moves=options["max_moves"],
        min_confidence=options["min_confidence"], random_state=options["random_state"],
        n_jobs=options["n_jobs"],
    )  # fmt: skip
    column, row = np.nonzero(repairs.permutations != np.arange(len(frame)))
    damaged = np.where(repairs.status == "clean", 1 - repairs.confidence, repairs.confidence)
    proposals = Changes(
        row, column, repairs.permutations[column, row], column,
        repairs.entry_confidence[column, row], damaged[column], np.ones(len(row), dtype=bool),
        repairs.cause[column], np.full(len(row), "", dtype=object), names=table.names,
        within_rows=False,
    ).by_row()  # fmt: skip
    kinds = [
        ColumnKind(name, "number") if name in table.names else ColumnKind(name, "", "no numbers")
        for name in frame.columns
    ]
    return Finding(
        table.names, kinds, _clipped(repairs.score), damaged, repairs.confidence, repairs.status,
        repairs.cause, np.full(len(damaged), "", dtype=object), repairs.labels, proposals,
        repairs.structure, {}, table.notes, None,
    )  # fmt: skip


def _column_groups(groups, table):
    """Groups of columns by place."""
    if groups is None or groups == "auto":
        return groups
    places = [[table.names.index(name) for name in _members(group, table)] for group in groups]
    named = [j for group in places for j in group]
    if not all(places) or len(set(named)) < len(named):
        raise ValueError(f"groups={groups!r} must be lists of columns, none empty, none twice.")
    return places


def _members(group, table):
    names = [group] if isinstance(group, str) else list(group)
    for name in names:
        if name not in table.names:
            raise ValueError(f"groups names {name!r}, which is not a numeric column in use.")
    return names
