"""Put exchanges in runs of rows into the repairs of single records."""

from dataclasses import replace

import numpy as np

from unpermute.records._causes import RUN
from unpermute.records._runs import Run

__all__ = ["told_runs", "with_runs"]


def told_runs(exchanges, n):
    """Return the runs that a person has named."""
    runs = []
    for a, b, first, last in exchanges:
        edges = np.zeros(n)
        edges[first : last + 1] = 1.0
        share = (last + 1 - first) / n
        runs.append(Run(a, b, first, last, share, np.inf, True, edges))
    return runs


def with_runs(result, runs, orders, sure, min_confidence):
    """Return repairs of records whose runs had been put back before they were judged.

    Parameters
    ----------
    result : RecordRepairs
        Of the table with its runs put back.
    runs : list of Run
        All runs; those that are no clear minority are questions, and nothing is changed there.
    orders : ndarray of shape (n, p)
        What had put the runs back.
    sure : ndarray of shape (n,)
        Probability that this is right.
    min_confidence : float
        Least confidence with which a record is changed.

    Returns
    -------
    RecordRepairs
    """
    questions = [run for run in runs if not run.minority]
    result = replace(_without_pairs(result, questions), questions=questions)
    identity = np.arange(orders.shape[1])
    concerned = np.any(orders != identity, axis=1)
    if not concerned.any():
        return result
    permutations, status = result.permutations.copy(), result.status.copy()
    damaged, confidence = result.damaged.copy(), result.confidence.copy()
    proposals, cause = result.proposals.copy(), result.cause.copy()
    quiet = concerned & (status == "clean")
    proposals[quiet], cause[quiet] = identity, RUN
    damaged[concerned] = np.maximum(damaged, sure)[concerned]
    confidence[concerned] = np.minimum(sure, np.where(quiet, 1.0, confidence))[concerned]
    applied = concerned & (confidence >= min_confidence)
    status[concerned] = np.where(applied, "recovered", "uncertain")[concerned]
    both = np.take_along_axis(orders, permutations.astype(np.int64), axis=1)
    permutations[concerned] = np.where(applied[:, None], both, identity)[concerned]
    proposed = np.take_along_axis(orders, proposals.astype(np.int64), axis=1)
    proposals[concerned] = proposed[concerned]
    # A record that would be exchanged back was whole: the run goes around it.
    around = concerned & np.all(proposals == identity, axis=1)
    status[around], cause[around], permutations[around] = "clean", "", identity
    damaged[around] = 1 - confidence[around]
    return replace(
        result, permutations=permutations, proposals=proposals, damaged=damaged,
        confidence=confidence, status=status, cause=cause,
    )  # fmt: skip


def _without_pairs(result, questions):
    """Leave records alone that would exchange columns which are a question."""
    status, permutations = result.status.copy(), result.permutations.copy()
    for run in questions:
        swaps = permutations[:, run.a] == run.b
        status[swaps] = "uncertain"
        permutations[swaps] = np.arange(permutations.shape[1])
    return replace(result, status=status, permutations=permutations)
