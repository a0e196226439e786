r"""How sure the answer about a record is: the alternatives seen, weighed by their posterior.

The alternatives are the exchanges next to the answer, and the exchanges and rotated tails of the
record as it is. One that puts other values into a cell than the answer does speaks against that
cell; one that puts the same values everywhere speaks for the answer.
"""

import numpy as np

__all__ = ["weigh"]

# Alternatives with less weight, relative to the answer, are not looked at.
_NEGLIGIBLE = 1e-12


def weigh(words, order, log_posteriors, around, own, turned, rotated):
    """Weigh what was seen of some records.

    Parameters
    ----------
    words, order : ndarray of int of shape (n, p)
        Words of the records, in which equal values are equal, and the best order of their cells.
    log_posteriors : tuple of two ndarrays of shape (n,)
        Of that order, and of the record as it is, which is the answer unless the first is larger.
    around, own : ndarray of shape (n, p, p)
        Log-posterior after every exchange of two places a < b next to the order, and next to the
        record as it is; -inf where there is none.
    turned : ndarray of shape (n, 2, p)
        Log-posterior of every rotation of the record as it is.
    rotated : ndarray of int of shape (2, p, p)
        The orders of these rotations.

    Returns
    -------
    odds : ndarray of shape (n,)
        Log-odds of a change.
    right : ndarray of shape (n,)
        Probability that the answer is right.
    entries : ndarray of shape (n, p)
        The same for every cell.
    """
    best, stays = log_posteriors
    moves, top = best > stays, np.maximum(best, stays)
    place = np.arange(order.shape[1])
    answer = np.where(moves[:, None], order, place)
    held = np.take_along_axis(words, answer, axis=1)
    differs = words != held
    left = np.exp(stays - top)
    next_to_it = _next_to_answer(order, np.exp(around - top[:, None, None]), moves)
    swaps = np.exp(own - top[:, None, None])
    swaps[(swaps < _NEGLIGIBLE) | (moves[:, None, None] & _is_next(order))] = 0.0
    turns = np.exp(turned - top[:, None, None])
    is_order = np.all(rotated == order[:, None, None, :], axis=3)
    # One that is the answer counts as an exchange and as a shifted tail.
    turns[(turns < _NEGLIGIBLE) | (moves[:, None, None] & is_order)] = 0.0

    changed = moves + sum(part.sum(axis=(1, 2)) for part in (next_to_it, swaps, turns))
    wrong = next_to_it.sum(axis=1) + next_to_it.sum(axis=2)
    wrong += (moves * left)[:, None] * differs
    same = np.ones(len(words))
    for missed, equal in (
        _missed_by_swaps(words, held, differs, swaps),
        _missed_by_turns(words, held, rotated, turns),
    ):
        wrong += missed
        same += equal
    total = changed + left
    entries = np.clip(1.0 - wrong / total[:, None], 0.0, 1.0)
    return np.log(np.maximum(changed, 1e-300)) + top - stays, same / total, entries


def _next_to_answer(order, weights, moves):
    """Weights of the exchanges next to an answer that moves cells, but for that which undoes it."""
    moved = order != np.arange(order.shape[1])
    single = moves & (moved.sum(axis=1) == 2)
    first, second = np.nonzero(moved[single])[1].reshape(-1, 2).T
    weights[np.flatnonzero(single), first, second] = 0.0
    weights[~moves] = 0.0
    return weights


def _is_next(order):
    """Whether the exchange of places a and b is the order, or one exchange away from it."""
    place = np.arange(order.shape[1])
    moved, lands = order != place, order[:, :, None] != place
    n_moved = moved.sum(axis=1)[:, None, None]
    apart = n_moved - moved[:, :, None] - moved[:, None, :] + lands + lands.transpose(0, 2, 1)
    return apart <= 2


def _missed_by_swaps(words, held, differs, weights):
    """Weight of the exchanges by cell that would hold another value, and of those without any."""
    both = weights + weights.transpose(0, 2, 1)
    lands = held[:, :, None] != words[:, None, :]
    touched = both.sum(axis=2)
    missed = differs * (weights.sum(axis=(1, 2))[:, None] - touched) + (both * lands).sum(axis=2)
    n_missed = differs.sum(axis=1)[:, None, None] - differs[:, :, None] - differs[:, None, :]
    n_missed = n_missed + lands + lands.transpose(0, 2, 1)
    return missed, (weights * (n_missed == 0)).sum(axis=(1, 2))


def _missed_by_turns(words, held, rotated, weights):
    """The same for rotated tails."""
    missed, equal = np.zeros(words.shape), np.zeros(len(words))
    for row, turn, start in np.argwhere(weights > 0):
        wrong = words[row, rotated[turn, start]] != held[row]
        missed[row] += weights[row, turn, start] * wrong
        equal[row] += weights[row, turn, start] * (not wrong.any())
    return missed, equal
