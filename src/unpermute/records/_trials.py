"""Trials: damage records that look whole, and see what the search makes of them.

Records are judged with their own values left out of the model. Half of them are damaged as the
table's own seem to be (swaps, shifted tails, cycles in the shares that the prior has learned), half
as any table's might be. How often every kind of damage occurs follows from what is found: if the
trials with four moved cells are often taken for swaps, swaps that were found may be such. The
trials are weighted accordingly.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from unpermute.records._evidence import Evidence
from unpermute.records._prior import default_prior, moves_of, swap_shares

__all__ = [
    "N_KINDS",
    "Trials",
    "choose_records",
    "damage_kinds",
    "damage_orders",
    "run_trials",
    "weigh",
]

# Trials of a table with up to 16 columns; wider tables get fewer, but never fewer than the second.
_TRIALS, _FEWEST_TRIALS = 900, 150
# Probability of being whole below which a record is hardly tried, and the least one assumed.
_CERTAINLY_NOT, _LEAST_WHOLE = 0.01, 1e-9

# Moved cells at which the kinds of damage begin: a swap, three, four or five cells, more. A shifted
# tail is a kind of its own, and so are several swaps: a record that was damaged twice.
_KINDS_FROM = np.array([2, 3, 4, 5, 6])
_SHIFT, _SWAPS = len(_KINDS_FROM), len(_KINDS_FROM) + 1
N_KINDS = _SWAPS + 1
# Most steps of EM, and the change of a share at which it has settled.
_EM_STEPS, _SETTLED = 200, 1e-4
# Weight of the prior expectation, in damaged records and in trials, when the shares of kinds are
# learned; and quantiles of the trials that divide clear proposals from others.
_PSEUDO_RECORDS, _PSEUDO_TRIALS, _CLARITY = 1.0, 1.0, (1 / 3, 2 / 3)


@dataclass(frozen=True)
class Trials:
    """Outcomes of trials.

    Attributes
    ----------
    evidence : Evidence
        Of every damaged record.
    right : ndarray of bool
        Whether every cell that the proposal moves ends right.
    n_wrong : ndarray of int
        Cells that the damage had made wrong.
    n_left : ndarray of int
        Cells that would be wrong with the proposal.
    rows, orders : ndarray of int
        Which of the records given were damaged, and how: cell j received cell orders[:, j].
    truth : ndarray of int
        Words of the records before.
    """

    evidence: Evidence
    right: np.ndarray
    n_wrong: np.ndarray
    n_left: np.ndarray
    rows: np.ndarray
    orders: np.ndarray
    truth: np.ndarray

    def moves_right(self, rows, permutations):
        """Return whether every cell that permutations of some trials move ends right."""
        moved = permutations != np.arange(permutations.shape[1])
        there = np.take_along_axis(self.orders[rows], permutations.astype(np.int64), axis=1)
        truth = self.truth[rows]
        return ~np.any(moved & (np.take_along_axis(truth, there, axis=1) != truth), axis=1)


def choose_records(placed, odds, seed):
    """Rows of records for trials, drawn by the probability that the model learned them whole.

    Odd records are among them: if they are damaged, they are harder to repair than others. A small
    table has to give each several times.
    """
    repaired = np.any(placed.home != placed.codes, axis=1)
    whole = np.where(repaired, 1.0, np.maximum(expit(-odds), _LEAST_WHOLE))
    n_trials = int(np.clip(_TRIALS * (16 / placed.codes.shape[1]) ** 2, _FEWEST_TRIALS, _TRIALS))
    enough = np.count_nonzero(whole > _CERTAINLY_NOT) >= n_trials
    rng = np.random.default_rng(seed)
    return rng.choice(len(whole), n_trials, replace=not enough, p=whole / whole.sum())


def run_trials(judge, placed, *, seed):
    """Damage all of the given records and judge them; records that look the same are left out."""
    rng = np.random.default_rng(seed)
    half, p = len(placed.codes) // 2, placed.codes.shape[1]
    prior = judge.model.prior
    parts = (placed.codes[:half], prior), (placed.codes[half:], default_prior(p))
    orders = np.concatenate([damage_orders(codes, each, rng) for codes, each in parts])
    damaged = placed.permuted(orders)
    changed = np.any(damaged.codes != placed.codes, axis=1)
    truth, damaged = placed.codes[changed], damaged.take(changed)
    evidence = judge.weigh(damaged, pool=placed.codes)
    back = np.take_along_axis(damaged.codes, evidence.permutations, axis=1)
    n_left = np.sum(back != truth, axis=1)
    n_wrong = np.sum(damaged.codes != truth, axis=1)
    rows, orders = np.flatnonzero(changed), orders[changed]
    trials = Trials(evidence, evidence.followed, n_wrong, n_left, rows, orders, truth)
    right = trials.moves_right(np.arange(len(rows)), evidence.permutations)
    return replace(trials, right=evidence.followed & right)


def weigh(trials, evidence):
    """Weight of every trial, so that all together are damaged as the table seems to be.

    Maximum likelihood of the shares of kinds, given what was found in the table and what is found
    in trials of every kind. Found are kinds again, and how clear they are: four moved cells that
    are taken for a swap seldom make a clear one. The mean weight is 1.
    """
    tried = trials.evidence
    if not len(trials.orders):
        return np.zeros(0)
    true, limits = damage_kinds(trials.orders), np.quantile(tried.clear, _CLARITY)
    n_tried = np.bincount(true, minlength=N_KINDS)
    found = np.zeros((N_KINDS, N_KINDS * (len(limits) + 1)))
    np.add.at(found, (true[tried.followed], _classes(tried, tried.followed, limits)), 1.0)
    found += _PSEUDO_TRIALS * found.sum(axis=0) / max(found.sum(), 1.0) + 1e-6
    found /= np.maximum(n_tried, 1)[:, None]
    suspicious = evidence.followed & (evidence.odds > 0)
    counts = np.bincount(_classes(evidence, suspicious, limits), minlength=found.shape[1])
    shares = _usual_shares(trials.orders.shape[1], n_tried > 0)
    if counts.any():
        shares = _likeliest_shares(found, counts, shares, n_tried)
    weights = (shares / np.maximum(n_tried, 1))[true]
    return weights / weights.mean()


def _likeliest_shares(found, counts, usual, n_tried):
    """Shares of the kinds of damage, of which a table seldom has many.

    Maximum likelihood over all kinds uses each of them to explain chance. So kinds are added one by
    one, the one that makes the proposals likeliest first, as long as that gains more than half the
    logarithm of the number of proposals (BIC). How proposals of a kind look is known from the
    trials in which it was found; the fewer, the larger the gains that chance explains.
    """
    n, left = counts.sum(), np.flatnonzero(n_tried).tolist()
    n_found = np.maximum(found.sum(axis=1) * n_tried, 1.0)
    chosen: list[int] = []
    shares, best = usual, -np.inf
    while left:
        fits = [_fit_shares(found, counts, usual, [*chosen, kind]) for kind in left]
        place = int(np.argmax([likelihood for _, likelihood in fits]))
        chosen.append(left.pop(place))
        bound = 0.5 * np.log(n) * (1.0 + n / n_found[chosen].min())
        if fits[place][1] <= best + bound:
            break
        shares, best = fits[place]
    return shares


def _fit_shares(found, counts, usual, kinds):
    """Shares of some kinds, by EM, if there are no others; and the log-likelihood."""
    seen = np.flatnonzero(counts)
    likely, rate = found[kinds][:, seen], found[kinds].sum(axis=1)
    shares = usual[kinds] / usual[kinds].sum()
    for _ in range(_EM_STEPS):
        joint = shares[:, None] * likely
        # A kind that is seldom found stands for more records than those found.
        records = (joint / joint.sum(axis=0)) @ counts[seen] / rate
        before, shares = shares, records / records.sum()
        if np.max(np.abs(shares - before)) < _SETTLED:
            break
    likelihood = counts[seen] @ np.log(shares @ likely / (shares @ rate))
    every = _PSEUDO_RECORDS * usual
    every[kinds] += records
    return every / every.sum(), likelihood


def _usual_shares(p, tried):
    """Shares of the kinds of damage in any table, of those that were tried."""
    prior = default_prior(p)
    k, swaps = np.arange(p + 1), swap_shares(p)
    swaps[:4] = 0.0
    shares = np.bincount(_kind_of(k), weights=prior.moved * (1 - swaps), minlength=N_KINDS)
    shares[_SWAPS] = prior.moved @ swaps
    shares[_SHIFT] += prior.shift
    shares = np.where(tried, shares, 0.0)
    return shares / shares.sum()


def _classes(evidence, chosen, limits):
    """Kind and clarity of some proposals, as one number."""
    kinds = damage_kinds(evidence.permutations[chosen])
    return kinds * (len(limits) + 1) + np.searchsorted(limits, evidence.clear[chosen])


def damage_orders(codes, prior, rng):
    """Random permutations of the kinds that the prior expects; equal values are avoided."""
    n, p = codes.shape
    orders = np.tile(np.arange(p), (n, 1))
    shares = np.append(prior.moved, prior.shift)
    kinds = rng.choice(p + 2, size=n, p=shares / shares.sum())
    first, second = np.triu_indices(p, 1)
    pairs = rng.integers(len(first), size=(n, 10))
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
        orders[r, places] = _deranged(places, rng)
    return orders


def _deranged(places, rng):
    """The places in an order that leaves none as it is: one cycle, or several."""
    while np.any((order := rng.permutation(places)) == places):
        pass
    return order


def damage_kinds(orders):
    """Return the kind of damage of every permutation: 0 to N_KINDS - 1."""
    n_moved, shifted = moves_of(orders)
    there = orders.astype(np.int64)
    back = np.all(np.take_along_axis(there, there, axis=1) == np.arange(orders.shape[1]), axis=1)
    several = back & (n_moved > 2)
    return np.select([shifted, several], [_SHIFT, _SWAPS], default=_kind_of(n_moved))


def _kind_of(n_moved):
    return np.maximum(np.searchsorted(_KINDS_FROM, n_moved, side="right") - 1, 0)
