r"""How much of the evidence for an exchange of two columns to believe, measured without labels.

An exchange is its own inverse. Under a right model, the log-likelihood ratio s of "exchanged"
against "as is" is therefore the log-odds of the one against the other, up to the share ε of
exchanged records. If the model is wrong for a pair of columns, s is too large for too many records.
For every pair, the λ ≤ 1 is chosen that maximises

.. math:: \sum_r \log[(1 - ε)\,σ(-λ s_r) + ε\,σ(λ s_r)] ,

with a prior over λ that all pairs share, and cautiously: the lower quartile of its posterior. The
evidence of a pair that looks odd again and again is thereby disbelieved. It is believed in full
where the odd records mirror the others, as truly exchanged ones do: they are as likely exchanged as
the others are as they are. Where most odd records do not, single ones may: a record whose s is what
most others have with the opposite sign is believed in full, whatever λ the weaker ones deserve.
"""

from dataclasses import dataclass

import numpy as np

from unpermute.records._prior import log_prior, moves_of
from unpermute.records._record import new_room
from unpermute.records._search import exchanged, read_blocks

__all__ = ["CLOSE", "Tempering", "exchange_ratios", "no_tempering", "temper_pairs", "tempered_odds"]

_FACTORS = np.array([1.0, 0.8, 0.65, 0.5, 0.4, 0.3, 0.2, 0.12, 0.06])
# Pairs of columns that are assumed beside the table's own, by λ.
_EXPECTED = np.array([1.8, 0.9, 0.6, 0.4, 0.3, 0.2, 0.1, 0.1, 0.1])
# Records that are looked at: enough to see a pair that is often wrong.
_RECORDS = 1500
# The share of exchanged records of a pair is taken to be up to three times the average one, and
# never more than the second number.
_UNEVEN, _MOST = 3.0, 0.3
# Two columns are close if an exchange costs a typical record less than so many nats: records that
# look exchanged by nature were found in such pairs only. There, more records than that may be odd
# by so many standard deviations.
CLOSE, _DEVIATIONS = 15.0, 2.0
# Odd records mirror the others if the mean rank of their ratios among the mirrored ones of the
# others is at least the first (that of truly exchanged ones is 1/2), or if their mean reaches this
# share of the others' median.
_MIRRORED_RANK, _MIRRORED_SIZE = 0.3, 0.7
# Records with smaller ratios tell nothing, and are left out where hardly any other one is odd.
_TELLING, _FEW_ODD = 1.0, 0.03
# Columns with similar values mirror each other in any case. Largest number of odd records per other
# record, and least median ratio of the others.
_MOST_ODD, _LEAST_TYPICAL = 0.3, 2.0
# Records that tell what an exchange of two columns usually costs.
_ENOUGH = 50
# Posterior quantile of λ that is used.
_QUANTILE = 0.25
# Records with log-odds of damage above this tell only about the pair they would exchange.
_DAMAGED = -1.0
_EM_STEPS, _OF_MANY = 10, 0.75
_LOWEST = -1e6


@dataclass(frozen=True)
class Tempering:
    """How much of the evidence for an exchange of two columns to believe.

    Attributes
    ----------
    factors : ndarray of shape (p, p)
        λ of every pair of columns, symmetric, 1 on the diagonal.
    full : ndarray of shape (p, p)
        Ratios from which on the evidence counts in full.
    """

    factors: np.ndarray
    full: np.ndarray

    def of_swaps(self, first, second, ratios):
        """Return the share to believe of these ratios for an exchange of these columns."""
        factor = self.factors[first, second]
        reached = np.clip(2.0 * ratios / self.full[first, second] - 1.0, 0.0, 1.0)
        return factor + (1.0 - factor) * reached

    def and_also(self, other):
        """Return the more cautious of two."""
        return Tempering(np.minimum(self.factors, other.factors), np.maximum(self.full, other.full))


def no_tempering(p):
    """Everything is believed."""
    return Tempering(np.ones((p, p)), np.ones((p, p)))


def temper_pairs(model, placed, found, *, seed):
    """Return how far every pair of columns is to be believed."""
    n, p = placed.codes.shape
    rows = np.sort(np.random.default_rng(seed).permutation(n)[:_RECORDS])
    a, b = np.triu_indices(p, 1)
    ratios = model.trust * exchange_ratios(model, placed.take(rows))[:, a, b]
    _leave_out_damaged(ratios, found.permutations[rows], found.odds[rows])
    share = np.clip(_UNEVEN * model.prior.damaged / len(a), 1e-12, _MOST) + 0.5 / len(rows)
    logs = _log_likelihoods(ratios, share)
    weights = np.exp(logs - logs.max(axis=0))
    common = _EXPECTED[:, None] / _EXPECTED.sum()
    for _ in range(_EM_STEPS):
        posterior = weights * common
        posterior /= posterior.sum(axis=0)
        common = posterior.sum(axis=1, keepdims=True) + _EXPECTED[:, None]
        common /= common.sum()
    # The factors fall: the sum from the end is the distribution function of λ.
    below = np.cumsum(posterior[::-1], axis=0)
    chosen = _FACTORS[::-1][np.argmax(below >= _QUANTILE, axis=0)]
    ratios = _sorted(ratios)
    chosen[_mirrored(ratios)] = 1.0
    factors, full = np.ones((p, p)), np.full((p, p), np.inf)
    factors[a, b] = factors[b, a] = chosen
    full[a, b] = full[b, a] = _usual_ratios(ratios, share)
    return Tempering(factors, full)


def tempered_odds(found, prior, tempering):
    """Log-odds of damage, of which λ of the exchanged pairs counts, the prior in full.

    A swap has the λ of its pair, a longer move the upper quartile of those it consists of.
    """
    p = found.permutations.shape[1]
    places = np.arange(p)
    n_moved, shifted = moves_of(found.permutations)
    moves, shifts = log_prior(prior)
    shift = shifts[0] if p > 2 else -np.inf
    base = np.where(shifted, shift, moves[np.maximum(n_moved, 2)]) - moves[0]
    base = np.maximum(base, _LOWEST)
    moved = found.permutations != places
    swaps = np.flatnonzero(n_moved == 2)
    first, last = np.argmax(moved[swaps], axis=1), p - 1 - np.argmax(moved[swaps, ::-1], axis=1)
    base[swaps] += prior.pairs[first, last]
    # Records of equal values have no change to weigh.
    gain = np.maximum(found.gain, _LOWEST)
    factor, many = np.ones(len(gain)), np.flatnonzero(n_moved > 2)
    factor[swaps] = tempering.of_swaps(first, last, gain[swaps] - base[swaps])
    # Of many moved cells most evidence comes from columns that are told apart well.
    trust = np.where(moved, tempering.factors[places, found.permutations], np.nan)
    factor[many] = np.nanquantile(trust[many], _OF_MANY, axis=1)
    return factor * (gain - base) + base + np.maximum(found.odds - gain, 0.0)


@dataclass(frozen=True)
class _Sorted:
    """The ratios of every pair in one row, from low to high, those left out last.

    Attributes
    ----------
    rows : ndarray of shape (n_pairs, n_records)
        The ratios.
    below, above : ndarray of int of shape (n_pairs,)
        Records that lose by the exchange, which come first, and those that gain by it.
    typical : ndarray of shape (n_pairs,)
        Median of what is lost; 0 where nothing is.
    """

    rows: np.ndarray
    below: np.ndarray
    above: np.ndarray
    typical: np.ndarray


def _sorted(ratios):
    rows = np.sort(ratios.T, axis=1)
    below, above = np.sum(rows < 0, axis=1), np.sum(rows > 0, axis=1)
    return _Sorted(rows, below, above, _lost(rows, below, 0.5))


def _lost(rows, below, share):
    """A quantile of what records lose, as NumPy defines it; 0 for pairs by which none does."""
    place = share * np.maximum(below - 1, 0)
    first, last = np.floor(place).astype(int), np.ceil(place).astype(int)
    low, high = (-rows[np.arange(len(rows)), np.maximum(below - 1 - k, 0)] for k in (first, last))
    return np.where(below > 0, high - (high - low) * (first + 1 - place), 0.0)


def _mirrored(ratios):
    """Pairs whose odd records mirror the others."""
    mirrored, n = np.zeros(len(ratios.rows), dtype=bool), ratios.rows.shape[1]
    for k in np.flatnonzero((ratios.above > 0) & (ratios.typical >= _LEAST_TYPICAL)):
        row, below = ratios.rows[k], ratios.below[k]
        usual, seen = -row[:below][::-1], np.searchsorted(row, np.nan)
        odd = row[seen - ratios.above[k] : seen]
        mirrored[k] = _alike(odd, usual)
        if not mirrored[k]:
            odd, usual = (part[np.searchsorted(part, _TELLING, "right") :] for part in (odd, usual))
            mirrored[k] = len(odd) <= _FEW_ODD * n and _alike(odd, usual)
    return mirrored


def _usual_ratios(ratios, share):
    """What most records lose by an exchange of every pair; infinite where odd ones are many.

    In close pairs, that is more than a `share` of damaged records explains.
    """
    rows, typical = ratios.rows, ratios.typical
    explained = share * rows.shape[1]
    explained += _DEVIATIONS * np.sqrt(explained)
    limit = _lost(rows, ratios.below, _MIRRORED_RANK)
    most = _MOST_ODD * np.sum(rows <= -limit[:, None], axis=1)
    most = np.where(typical < CLOSE, np.minimum(most, explained), most)
    told = (ratios.below >= _ENOUGH) & (typical >= _LEAST_TYPICAL)
    told &= np.sum(rows >= limit[:, None], axis=1) <= most
    return np.where(told, np.maximum(limit, _TELLING), np.inf)


def _alike(odd, usual):
    """Whether the odd ones mirror the others, and are few enough; both are in order."""
    if not len(odd) or not len(usual) or len(odd) > _MOST_ODD * len(usual):
        return False
    rank = np.searchsorted(usual, odd).sum() / (len(odd) * len(usual))
    if rank >= _MIRRORED_RANK:
        return True
    median = 0.5 * (usual[(len(usual) - 1) // 2] + usual[len(usual) // 2])
    return odd.sum() / len(odd) >= _MIRRORED_SIZE * median


def _log_likelihoods(ratios, share):
    """Log-likelihood of every λ and pair.

    As σ(-x) = 1 - σ(x), one of the two is enough; and exp(x) may be infinite.
    """
    left_out = np.isnan(ratios)
    ratios, logs = np.where(left_out, 0.0, ratios), np.empty((len(_FACTORS), ratios.shape[1]))
    # One array for all steps: memory that is new each time takes longer than they do.
    p = np.empty_like(ratios)
    with np.errstate(over="ignore"):
        for factor, log in zip(_FACTORS, logs, strict=True):
            np.exp(np.multiply(factor, ratios, out=p), out=p)
            np.divide(1 - 2 * share, np.add(p, 1.0, out=p), out=p)
            p += share
            p[left_out] = 1.0
            np.log(p, out=p).sum(axis=0, out=log)
    return logs


def _leave_out_damaged(ratios, permutations, odds):
    """A damaged record says nothing about the pairs it does not exchange; changes `ratios`."""
    p = permutations.shape[1]
    pair = np.full((p, p), -1)
    pair[np.triu_indices(p, 1)] = np.arange(p * (p - 1) // 2)
    moved = permutations != np.arange(p)
    for r in np.flatnonzero(odds > _DAMAGED):
        places = np.flatnonzero(moved[r])
        kept = pair[places[0], places[1]] if len(places) == 2 else -1
        value = ratios[r, kept]
        ratios[r] = np.nan
        if kept >= 0:
            ratios[r, kept] = value


def exchange_ratios(model, placed):
    """Log-likelihood ratio of every exchange a < b in every record; NaN for equal values."""
    n, p = placed.codes.shape
    ratios = np.empty((n, p, p))
    tables, laws = placed.tables(), model.laws()
    room = new_room(tables)
    for part, work in read_blocks(tables, laws):
        stays, after = exchanged(work, room, laws, np.arange(p))
        ratios[part] = np.where(after > -np.inf, after - stays[:, None, None], np.nan)
    return ratios
