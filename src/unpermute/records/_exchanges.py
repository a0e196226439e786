"""Exchanges of two columns in many rows, put into the repairs of single records.

An exchange is a :class:`~unpermute.records._runs.Run` or a
:class:`~unpermute.records._divided.Division`. Runs that are clearly the minority, and what a person
has named, are carried out before single records are judged; all others are questions, and nothing
is changed between their two columns.
"""

from dataclasses import replace

import numpy as np

from unpermute.records._divided import divide_pair, find_divisions, some_rows
from unpermute.records._runs import Run, find_runs

__all__ = [
    "add_questions",
    "exchange_orders",
    "find_exchanges",
    "with_exchanges",
    "without_pairs",
]


def find_exchanges(cells, told):
    """Return the exchanges to carry out, and those to ask about.

    Parameters
    ----------
    cells : Cells
        The table.
    told : sequence of tuple of int
        What a person says: two columns and the first and last row of a run, or two columns and one
        row in which they are right.

    Returns
    -------
    certain, questions : list
    """
    if told:
        return [_told(cells, *each) for each in told], []
    runs = find_runs(cells)
    return [run for run in runs if run.minority], [run for run in runs if not run.minority]


def _told(cells, a, b, *rows):
    n = cells.shape[0]
    if len(rows) == 1:
        division = divide_pair(cells, a, b, told=True)
        if division is None:
            raise ValueError("exchange: too few rows have a value in both columns.")
        if division.probability[rows[0]] == 0.5:
            raise ValueError(f"exchange: row {rows[0]} has equal or missing values; name another.")
        return division.unlike(rows[0])
    first, last = rows
    inside = np.zeros(n)
    inside[first : last + 1] = 1.0
    return Run(a, b, first, last, (last + 1 - first) / n, np.inf, True, inside)


def exchange_orders(exchanges, n, p):
    """Return the order of the cells of every record, the probability of it, and its cause."""
    orders, sure = np.tile(np.arange(p, dtype=np.int16), (n, 1)), np.ones(n)
    cause = np.full(n, "", dtype=object)
    for each in exchanges:
        rows, certain = each.rows, np.maximum(each.probability, 1 - each.probability)
        orders[rows, each.a], orders[rows, each.b] = orders[rows, each.b], orders[rows, each.a]
        sure, cause[rows] = np.minimum(sure, certain), each.cause
    return orders, sure, cause


def with_exchanges(result, orders, sure, cause, min_confidence):
    """Return repairs of records whose exchanges had been carried out before they were judged.

    Parameters
    ----------
    result : RecordRepairs
        Of the table with its exchanges carried out.
    orders, sure, cause : ndarray
        What :func:`exchange_orders` returns.
    min_confidence : float
        Least confidence with which a record is changed.

    Returns
    -------
    RecordRepairs
    """
    identity = np.arange(orders.shape[1])
    concerned = np.any(orders != identity, axis=1)
    if not concerned.any():
        return result
    permutations, status = result.permutations.copy(), result.status.copy()
    damaged, confidence = result.damaged.copy(), result.confidence.copy()
    proposals, causes = result.proposals.copy(), result.cause.copy()
    quiet = concerned & (status == "clean")
    proposals[quiet], causes[quiet] = identity, cause[quiet]
    damaged[concerned] = np.maximum(damaged, sure)[concerned]
    confidence[concerned] = np.minimum(sure, np.where(quiet, 1.0, confidence))[concerned]
    applied = concerned & (confidence >= min_confidence)
    status[concerned] = np.where(applied, "recovered", "uncertain")[concerned]
    both = np.take_along_axis(orders, permutations.astype(np.int64), axis=1)
    permutations[concerned] = np.where(applied[:, None], both, identity)[concerned]
    proposed = np.take_along_axis(orders, proposals.astype(np.int64), axis=1)
    proposals[concerned] = proposed[concerned]
    # A record that would be exchanged back was in order: the exchange leaves it out.
    around = concerned & np.all(proposals == identity, axis=1)
    status[around], causes[around], permutations[around] = "clean", "", identity
    damaged[around] = 1 - confidence[around]
    return replace(
        result, permutations=permutations, proposals=proposals, damaged=damaged,
        confidence=confidence, status=status, cause=causes,
    )  # fmt: skip


def add_questions(result, cells, questions):
    """Return the repairs with questions: those given, and scattered exchanges that are left."""
    asked = {(each.a, each.b) for each in questions}
    rows = some_rows(cells.shape[0])
    repaired = cells.take(rows).permuted(result.permutations[rows].astype(np.int64))
    for each in find_divisions(repaired):
        # Questions describe the table as it was: some of the records may be repaired by now.
        division = divide_pair(cells, each.a, each.b, told=True)
        if division is not None and (each.a, each.b) not in asked:
            questions = [*questions, division]
    pairs = [(each.a, each.b) for each in questions]
    return replace(without_pairs(result, pairs), questions=questions)


def without_pairs(result, pairs):
    """Leave records alone that would exchange two columns of `pairs`."""
    if not len(pairs):
        return result
    status, permutations = result.status.copy(), result.permutations.copy()
    for a, b in pairs:
        swaps = permutations[:, a] == b
        status[swaps] = "uncertain"
        permutations[swaps] = np.arange(permutations.shape[1])
    return replace(result, status=status, permutations=permutations)
