r"""How likely a permutation is before looking at the values.

A record is damaged with probability ε. Then either its tail was shifted by one, all tails of at
least three cells being equally likely, or k ≥ 2 cells moved, all permutations that move k cells
being equally likely: there are :math:`\binom{p}{k} D_k` of them, D_k derangements. The share of
shifts and the distribution of k are learned from the table. Among swaps, half of the probability is
equal for all pairs of columns, the other half follows how often each pair was swapped.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

__all__ = ["MovePrior", "default_prior", "log_prior", "moves_of", "swap_shares", "update_prior"]

# Weight of the prior expectation, in records, when shares are learned from the table.
_PSEUDO_RECORDS = 3.0
_SHIFT_SHARE = 0.15
# A table in which most records look damaged does not look like its model.
_MOST_DAMAGED = 0.5


@dataclass(frozen=True)
class MovePrior:
    """Prior of permutations.

    Attributes
    ----------
    damaged : float
        Probability that a record is damaged.
    shift : float
        Share of shifted tails among the damaged ones.
    moved : ndarray of shape (p + 1,)
        Share of those with k moved cells; together with `shift` they sum to 1.
    pairs : ndarray of shape (p, p)
        Log-prior of every swap relative to the average one.
    """

    damaged: float
    shift: float
    moved: np.ndarray
    pairs: np.ndarray


def default_prior(p, damaged=0.05):
    """Before anything is learned: few cells move."""
    k = np.arange(p + 1)
    moved = np.where(k >= 2, 1.0 / np.maximum(k, 1) ** 1.5, 0.0)
    shift = _SHIFT_SHARE if p >= 3 else 0.0
    return MovePrior(damaged, shift, moved * (1 - shift) / moved.sum(), np.zeros((p, p)))


def update_prior(probability, permutations, n_records, *, for_others=False):
    """Learn from records that are damaged with a probability and would move like this.

    The numbers of moved cells are not smoothed: that would give 3-cycles a third of the swaps. The
    prior is for these records, none of which may vouch for its own swap, or `for_others`.
    """
    p = permutations.shape[1]
    base = default_prior(p)
    n_moved, shifted = moves_of(permutations)
    counts = np.bincount(n_moved, weights=probability * ~shifted, minlength=p + 1)
    total = float(probability.sum())
    shift = _PSEUDO_RECORDS * base.shift + float(probability[shifted].sum())
    moved = _PSEUDO_RECORDS * base.moved + counts
    norm = shift + moved.sum()
    damaged = (total + 0.01) / (n_records + 1.0)
    pairs = _pair_prior(probability, permutations, n_moved, 0.0 if for_others else 1.0)
    return MovePrior(min(damaged, _MOST_DAMAGED), shift / norm, moved / norm, pairs)


def _pair_prior(probability, permutations, n_moved, left_out):
    """Log-prior of every swap relative to the average one; so many swaps of a pair do not count."""
    p = permutations.shape[1]
    counts = np.zeros((p, p))
    swaps = np.flatnonzero((n_moved == 2) & (probability > 0.5))
    moved = permutations[swaps] != np.arange(p)
    first, second = np.argmax(moved, axis=1), p - 1 - np.argmax(moved[:, ::-1], axis=1)
    np.add.at(counts, (first, second), probability[swaps])
    total = counts.sum()
    counts = np.maximum(counts + counts.T - left_out, 0.0)
    return np.log(0.5 + 0.5 * (p * (p - 1) / 2) * counts / (total + 1.0))


def log_prior(prior):
    """Logarithms for the search: of one permutation moving k cells, and of one shifted tail."""
    p = len(prior.moved) - 1
    moves = np.full(p + 1, -np.inf)
    moves[0] = np.log1p(-prior.damaged)
    k = np.arange(2, p + 1)
    with np.errstate(divide="ignore"):
        ways = gammaln(p + 1) - gammaln(p - k + 1) + np.log(_derangement_shares(p)[2:])
        moves[2:] = np.log(prior.damaged) + np.log(prior.moved[2:]) - ways
        one = np.log(prior.damaged) + np.log(prior.shift) - np.log(max(2 * (p - 2), 1))
    shifts = np.where(np.arange(p) <= p - 3, one, -np.inf)
    return moves, shifts


def moves_of(permutations):
    """Number of moved cells of every record, and whether they are a shifted tail."""
    p = permutations.shape[1]
    places = np.arange(p)
    moved = permutations != places
    n_moved = moved.sum(axis=1)
    start = p - n_moved
    tail = np.all(moved == (places >= start[:, None]), axis=1) & (n_moved >= 3)
    left = np.where(places == p - 1, start[:, None], places + 1)
    right = np.where(places == start[:, None], p - 1, places - 1)
    left_turn = np.all(~moved | (permutations == left), axis=1)
    right_turn = np.all(~moved | (permutations == right), axis=1)
    return n_moved, tail & (left_turn | right_turn)


def swap_shares(p):
    """Share of swaps alone among the orders of k = 0 … p cells that leave none as it is."""
    k = np.arange(0, p + 1, 2)
    shares = np.zeros(p + 1)
    # k! / (2^(k/2) (k/2)!) of D_k.
    shares[::2] = np.exp(-gammaln(k / 2 + 1) - k / 2 * np.log(2)) / _derangement_shares(p)[::2]
    return shares


def _derangement_shares(p):
    """D_k / k! for k = 0 … p."""
    shares = np.ones(p + 1)
    term = 1.0
    for k in range(1, p + 1):
        term *= -1.0 / k
        shares[k] = shares[k - 1] + term
    return np.maximum(shares, 0.0)
