"""Exchanges of two columns in many rows: one question each, with both sides to look at."""

from dataclasses import dataclass

import numpy as np

from unpermute._words import counted
from unpermute.files import TableError
from unpermute.records import RUN, SCATTERED
from unpermute.table import exchanged_rows
from unpermute.web._orders import STAYS
from unpermute.web._review import Review
from unpermute.web._standing import ACCEPTED

__all__ = ["Question", "Side", "answer", "answers_in_force", "questions_of"]

_EXAMPLES = 5


@dataclass(frozen=True)
class Side:
    """One reading of a question.

    Attributes
    ----------
    title : str
        What would be done.
    rows : ndarray of int
        The records in which the two columns would be exchanged.
    rejected : ndarray of int
        Others, for which the exchange is proposed although they would be right.
    examples : list of dict
        Some records of this side.
    caption : str
        What the examples are.
    """

    title: str
    rows: np.ndarray
    rejected: np.ndarray
    examples: list[dict]
    caption: str = "Some of them, before and after"


@dataclass(frozen=True)
class Question:
    """Two columns that seem to be exchanged in many rows; the first side is proposed if sure."""

    key: list
    columns: tuple[str, str]
    sentence: str
    sides: list[Side]
    is_sure: bool


def questions_of(review: Review) -> list[Question]:
    """Return the questions of a scan: open ones, then exchanges that are sure enough to propose."""
    asked = [_open_question(review, each) for each in review.result.summary["questions"]]
    pairs = {question.columns for question in asked}
    found = (_proposed_exchange(review, order) for order in _systematic_orders(review))
    return asked + [each for each in found if each.columns not in pairs]


def answer(review: Review, question: Question, reading: int) -> None:
    """Decide about all rows of a question."""
    if not 0 <= reading < len(question.sides):
        raise TableError("A question has two answers; choose one of them.")
    a, b = question.columns
    side = question.sides[reading]
    swap = review.orders.named({a: b, b: a})
    groups = [*_exchanged(review, side.rows, swap), ("reject", STAYS, side.rejected)]
    why = f"question about {a} and {b}: {side.title}"
    review.decide_groups(groups, why=why, question=question.key, reading=reading)


def _exchanged(review, rows, swap):
    """Yield groups in which two columns are exchanged besides what moves already.

    What was accepted stays so, and moves more cells. What is only proposed stays open, and the
    exchange becomes a part of the proposal. Where one of the two columns takes part already, the
    record is left to be decided alone.
    """
    standing = review.standing
    accepted = standing.answer[rows] == ACCEPTED
    listed = review.records.lists(rows)
    moved = np.where(accepted, standing.order[rows], STAYS)
    moved[listed] = review.shown_orders(rows[listed])
    columns = {column for column, _ in review.orders.known[swap]}
    for order in np.unique(moved).tolist():
        pairs = review.orders.known[order]
        if order in (STAYS, swap):
            yield "accept", swap, rows[moved == order]
        elif not columns & {column for column, _ in pairs}:
            both = review.orders.number([*pairs, *review.orders.known[swap]])
            for answer, which in (("accept", accepted), ("open", ~accepted)):
                yield answer, both, rows[which & (moved == order)]


def answers_in_force(review: Review) -> dict[str, tuple[int, int]]:
    """Return the entry and the reading of every question that is answered, by its key."""
    found = {}
    for entry in review.journal.entries:
        if "question" in entry and entry["entry"] not in review.standing.undone:
            found[str(entry["question"])] = (entry["entry"], entry["reading"])
    return found


def _open_question(review, asked):
    a, b = asked["columns"]
    source, first = review.source, asked["first_row"]
    swap = review.orders.named({a: b, b: a})
    proposed = review.records.rows[review.records.order == swap]
    sides = []
    for k, reading in enumerate(asked["readings"]):
        kinds = review.options["kinds"] or None
        rows = exchanged_rows(review.source.frame, reading["exchange"], kinds=kinds)
        rows = source.frame_rows[rows]
        rejected = rows[:0]
        if first is None:
            title = f"exchange the {counted(len(rows), 'record')} like these"
            # Every record is on one of the two sides.
            rejected = np.setdiff1d(proposed, rows)
        else:
            title = f"exchange {'these' if k == 0 else 'the other'} {counted(len(rows), 'record')}"
        sides.append(Side(title, rows, rejected, _examples(review, rows, (a, b))))
    if first is None:
        where = f"in about {asked['share']:.0%} of the records, scattered over the file,"
    else:
        low, high = source.lines(source.frame_rows[[first, asked["last_row"]]])
        where = f"between line {low:,} and line {high:,} ({asked['share']:.0%} of the table)"
    sentence = (
        f"{a} and {b} seem to be exchanged {where} compared with the other records. The table alone"
        " cannot tell which side is right: you can."
    )
    return Question([a, b, first, asked["last_row"]], (a, b), sentence, sides, False)


def _systematic_orders(review):
    """Exchanges of two columns that a scan found in many rows, and would make."""
    records = review.records
    causes = [k for k, cause in enumerate(records.causes) if cause in (RUN, SCATTERED)]
    orders = np.unique(records.order[np.isin(records.cause, causes)])
    return [order for order in orders.tolist() if len(review.orders.known[order]) == 2]


def _proposed_exchange(review, order):
    records = review.records
    causes = [k for k, cause in enumerate(records.causes) if cause in (RUN, SCATTERED)]
    rows = records.rows[(records.order == order) & np.isin(records.cause, causes)]
    (a, b), _ = review.orders.known[order]
    names = review.source.columns[a], review.source.columns[b]
    others = np.setdiff1d(review.source.frame_rows, rows, assume_unique=True)
    low, high = review.lines(rows[[0, -1]])
    sentence = (
        f"{names[0]} and {names[1]} seem to be exchanged in {counted(len(rows), 'record')} between"
        f" line {low:,} and line {high:,}. The other records agree with each other, so it is these"
        " that look wrong."
    )
    examples = (
        _examples(review, rows, names),
        _examples(review, others, names, moved=False),
    )
    sides = [
        Side(f"exchange {counted(len(rows), 'record')}", rows, rows[:0], examples[0]),
        Side("leave them as they are", rows[:0], rows, examples[1], "Other records, to compare"),
    ]
    return Question([*names, int(rows[0]), int(rows[-1])], names, sentence, sides, True)


def _examples(review, rows, names, *, moved=True):
    """Some rows, spread over the side, before and after."""
    if not len(rows):
        return []
    spread = np.unique(np.linspace(0, len(rows) - 1, _EXAMPLES).astype(int))
    rows = rows[spread]
    columns = [review.source.columns.index(name) for name in names]
    texts = review.source.texts(np.repeat(rows, 2), np.tile(columns, len(rows)))
    lines = review.lines(rows).tolist()
    found = []
    for k, line in enumerate(lines):
        now = texts[2 * k : 2 * k + 2]
        found.append({"line": line, "now": now, "then": now[::-1] if moved else now})
    return found
