r"""How much of a permuted vector can be recovered, before trying.

Notation: a vector of M entries lies in a subspace of dimension r, a share ρ of its entries is
shuffled, and noise of relative power :math:`\nu = 10^{-\mathrm{snr\_db} / 10}` is added.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import expit, gammaln
from scipy.stats import chi2

from unpermute._validation import Integral, Interval, Real, check_rank, validate_params
from unpermute.numerics.matching import log_probability_of_small_residual

__all__ = ["recoverability"]

# A vector is recovered if its relative error is below this.
_RIGHT = 0.05


class Curves(NamedTuple):
    """The constants of :func:`recoverability`: a factor, then middle and width of three curves."""

    error_inflation: float
    evidence_middle: float
    evidence_width: float
    sample_middle: float
    sample_width: float
    rank_middle: float
    rank_width: float


# Fitted by ``python benchmarks/recoverability.py``.
_FITTED = Curves(1.38, -0.19, 0.099, -2.6, 0.354, 7.05, 0.351)


@validate_params(
    {
        "n_features": [Interval(Integral, 2, None, closed="left")],
        "rank": [Interval(Integral, 1, None, closed="left")],
        "shuffled_ratio": [Interval(Real, 0, 1, closed="both")],
        "snr_db": [Interval(Real, None, np.inf, closed="right")],
    },
    prefer_skip_nested_validation=True,
)
def recoverability(n_features, rank, shuffled_ratio, snr_db=40.0):
    r"""Probability that a permuted vector is recovered, given the true basis of its subspace.

    A formula with a few constants fitted to the measured success of
    ``recover_vectors(method="search")``: the product of three probabilities.

    - *Accuracy*: even the right permutation leaves a squared relative error of about
      :math:`c \nu \chi^2_r / M`, which must be below 0.05².
    - *Information*: the order must fit better than others. With k = ρM entries moved in one of
      :math:`N_k` ways and m = M − r, the evidence that the truth has to offer is about
      :math:`-\log N_k - \log P(\chi^2_m \le m\nu)`; what counts is its share of an entry.
    - *Search*: it must be found. Either a sample of r entries in place is drawn, which has
      probability :math:`\binom{M - k}{r} / \binom{M}{r}` (its logarithm counts over
      :math:`\sqrt M`: the search learns from its samples), or the rank is so small that starts
      from random permutations will do.

    Parameters
    ----------
    n_features : int
        Number M of entries of the vector.
    rank : int
        Dimension r of the subspace, below `n_features`.
    shuffled_ratio : float
        Share ρ of the entries that are shuffled, between 0 and 1.
    snr_db : float, default=40.0
        Length of the vector over the length of the noise, in decibels; infinite without noise.

    Returns
    -------
    probability : float
        Between 0 and 1: how likely the relative error of the fitted vector is below 5%.

    Notes
    -----
    It falls with the rank, the shuffled ratio and the noise. More entries help while the evidence
    of each is positive. They do not where most entries are shuffled and the noise is high: the
    number of orders grows faster than what the noise leaves of the values, and the measured
    success falls too (rank 2, ratio 0.6, 20 dB: all of the vectors with 30 entries, some with 50,
    none with 100). That is a limit of the evidence which "search" maximises; at small ranks the
    method "branch-and-bound", which minimises the cost alone, may still find the coefficients.

    Measured on random subspaces with 30 to 100 entries and 20 to 40 dB. A real subspace may be
    harder, for instance one with rows that are nearly equal: their values are exchangeable.

    Examples
    --------
    >>> from unpermute.theory import recoverability
    >>> [round(recoverability(50, 15, ratio), 1) for ratio in (0.4, 0.6, 0.8)]
    [1.0, 0.5, 0.0]
    """
    check_rank(rank, n_features)
    return float(success(n_features, rank, shuffled_ratio, snr_db, _FITTED))


def success(n_features, rank, shuffled_ratio, snr_db, curves):
    """The formula of :func:`recoverability` with given constants, for scalars or arrays."""
    M, r, ratio = (np.asarray(a, dtype=float) for a in (n_features, rank, shuffled_ratio))
    noise = 10.0 ** (-np.asarray(snr_db, dtype=float) / 10)
    accurate = _accuracy(M, r, noise, curves.error_inflation)
    evidence = expected_evidence(M, r, ratio, noise) / M
    informed = expit((evidence - curves.evidence_middle) / curves.evidence_width)
    sample = log_clean_sample(M, r, ratio) / np.sqrt(M)
    sampled = expit((sample - curves.sample_middle) / curves.sample_width)
    enumerated = expit((curves.rank_middle - r) / curves.rank_width)
    return accurate * informed * np.maximum(sampled, enumerated)


def expected_evidence(M, r, ratio, noise):
    """How many orders, in logarithms, fit worse than the right one, less those that are possible.

    See :mod:`unpermute.numerics.certificate`; the residual at the truth is taken for its mean.
    """
    # The gamma function dips between 1 and 2; the number of orders must not.
    log_orders = gammaln(M + 1) - np.maximum(gammaln((1 - ratio) * M + 1), 0)
    return -log_orders - _log_probability(noise, M - r)


def log_clean_sample(M, r, ratio):
    """Logarithm of the probability that r entries drawn at random are all in place."""
    in_place = (1 - ratio) * M
    enough = in_place > r - 1
    in_place = np.where(enough, in_place, r)
    log_drawn = gammaln(in_place + 1) - gammaln(in_place - r + 1)
    log_all = gammaln(M + 1) - gammaln(M - r + 1)
    return np.where(enough, log_drawn - log_all, -np.inf)


def _accuracy(M, r, noise, inflation):
    """Probability that the noise leaves an error below 5% when the permutation is right."""
    with np.errstate(divide="ignore"):
        return chi2.cdf(_RIGHT**2 * M / (inflation * noise), r)


_log_probability = np.vectorize(log_probability_of_small_residual, otypes=[float])
