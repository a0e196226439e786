"""Trials: damage records that look whole, and see what the search makes of them.

Records are damaged as the table's own seem to be (swaps, shifted tails, cycles in the shares that
the prior has learned), and judged with their own values left out of the model.
"""

from dataclasses import dataclass

import numpy as np

from unpermute.records._evidence import Evidence

__all__ = ["Trials", "damage_orders", "run_trials"]


@dataclass(frozen=True)
class Trials:
    """Outcomes of trials.

    Attributes
    ----------
    evidence : Evidence
        Of every damaged record.
    right : ndarray of bool
        Whether the proposal was right in all cells.
    n_wrong : ndarray of int
        Cells that the damage had made wrong.
    n_left : ndarray of int
        Cells that would be wrong with the proposal.
    rows, orders : ndarray of int
        Which of the records given were damaged, and how: cell j received cell orders[:, j].
    """

    evidence: Evidence
    right: np.ndarray
    n_wrong: np.ndarray
    n_left: np.ndarray
    rows: np.ndarray
    orders: np.ndarray


def run_trials(judge, placed, *, seed):
    """Damage all of the given records and judge them; records that look the same are left out."""
    rng = np.random.default_rng(seed)
    orders = damage_orders(placed.codes, judge.model.prior, rng)
    damaged = placed.permuted(orders)
    changed = np.any(damaged.codes != placed.codes, axis=1)
    truth, damaged = placed.codes[changed], damaged.take(changed)
    evidence = judge.weigh(damaged, pool=placed.codes)
    back = np.take_along_axis(damaged.codes, evidence.permutations, axis=1)
    n_left = np.sum(back != truth, axis=1)
    right = evidence.followed & (n_left == 0)
    n_wrong = np.sum(damaged.codes != truth, axis=1)
    return Trials(evidence, right, n_wrong, n_left, np.flatnonzero(changed), orders[changed])


def damage_orders(codes, prior, rng):
    """Random permutations of the kinds that the prior expects; equal values are avoided."""
    n, p = codes.shape
    orders = np.tile(np.arange(p), (n, 1))
    shares = np.append(prior.moved, prior.shift)
    kinds = rng.choice(p + 2, size=n, p=shares / shares.sum())
    first, second = np.triu_indices(p, 1)
    weights = np.exp(prior.pairs[first, second])
    pairs = rng.choice(len(first), size=(n, 10), p=weights / weights.sum())
    for r in range(n):
        if kinds[r] == p + 1:
            start = rng.integers(0, p - 2)
            orders[r, start:] = np.roll(orders[r, start:], rng.choice([-1, 1]))
            continue
        for pair in pairs[r]:
            places = np.array([first[pair], second[pair]])
            if kinds[r] > 2:
                places = rng.choice(p, kinds[r], replace=False)
            if codes[r, places[0]] != codes[r, places[-1]]:
                break
        orders[r, places] = np.roll(places, 1)
    return orders
