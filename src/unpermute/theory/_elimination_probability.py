r"""Theorem 1 of the paper: how likely the first entry to be eliminated is a shuffled one.

The entry with the largest absolute residual :math:`|(\tilde y - \hat{\tilde y})_j|` is eliminated.
(The theorem prints y in place of :math:`\tilde y`.) Assumptions 1 and 2 take the residuals for
independent normal variables: ξ with variance :math:`\sigma_\xi^2` at the M₁ entries in place, η
with variance :math:`\sigma_\eta^2` at the M₂ shuffled ones. The proof then takes the maximum of m
of them for a normal variable with mean :math:`\sigma\rho(m)` and standard deviation
:math:`\sigma\psi(m)`.
"""

import numpy as np
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import norm

from unpermute._validation import Integral, Interval, Real, StrOptions, validate_params
from unpermute.theory._setting import N_FEATURES, N_SHUFFLED, check_shuffled

__all__ = ["elimination_probability", "maximum_location", "maximum_scale"]

_COUNT = [Interval(Integral, 2, None, closed="left")]
_VARIANCE = [Interval(Real, 0, None, closed="neither")]


@validate_params({"count": _COUNT}, prefer_skip_nested_validation=True)
def maximum_location(count):
    r"""The number :math:`\rho(m) = \Phi^{-1}(1 - 1/m)`, said to be the mean of a maximum.

    Parameters
    ----------
    count : int
        Number m of independent standard normal variables, at least 2.

    Returns
    -------
    location : float
        Exceeded by one variable on average; the mean of the maximum is larger.

    Examples
    --------
    >>> from unpermute.theory import maximum_location
    >>> round(maximum_location(20), 3)
    1.645
    """
    return float(norm.isf(1 / count))


@validate_params({"count": _COUNT}, prefer_skip_nested_validation=True)
def maximum_scale(count):
    r"""The number :math:`\psi(m) = 1 / (m\,\phi(\rho(m)))`, said to be the deviation of a maximum.

    Parameters
    ----------
    count : int
        Number m of independent standard normal variables, at least 2.

    Returns
    -------
    scale : float
        The claimed standard deviation.

    Examples
    --------
    >>> from unpermute.theory import maximum_scale
    >>> round(maximum_scale(20), 3)
    0.485
    """
    return float(1 / (count * norm.pdf(norm.isf(1 / count))))


@validate_params(
    {
        "n_features": N_FEATURES,
        "n_shuffled": N_SHUFFLED,
        "xi_variance": _VARIANCE,
        "eta_variance": _VARIANCE,
        "version": [StrOptions({"theorem", "appendix", "assumptions"})],
    },
    prefer_skip_nested_validation=True,
)
def elimination_probability(
    n_features, n_shuffled, xi_variance, eta_variance, *, version="theorem"
):
    r"""Theorem 1: probability that the entry with the largest residual is a shuffled one.

    Parameters
    ----------
    n_features : int
        Number M of entries.
    n_shuffled : int
        Number M₂ of shuffled entries, from 3 to M - 2.
    xi_variance, eta_variance : float
        Variances of the residuals in place and shuffled; the theorem leaves open which of its
        estimates to take.
    version : {"theorem", "appendix", "assumptions"}, default="theorem"
        :math:`2\Phi(z) - 1` as in the theorem, :math:`\Phi(z)` as derived in the appendix with
        :math:`z = (\sigma_\eta\rho(M_2) - \sigma_\xi\rho(M_1)) /
        \sqrt{\sigma_\eta^2\psi^2(M_2) + \sigma_\xi^2\psi^2(M_1)}`, or what Assumptions 1 and 2
        imply exactly: :math:`\Pr(\max_{M_1} |\xi| \le \max_{M_2} |\eta|)` for independent normal
        variables.

    Returns
    -------
    probability : float
        Of the event; negative values of :math:`2\Phi(z) - 1` are returned as they are.

    Notes
    -----
    The maxima of the derivation are those of ξ and η, not of their absolute values, and the
    maximum of normal variables is not asymptotically normal; it is a Gumbel variable.

    Examples
    --------
    >>> from unpermute.theory import elimination_probability
    >>> for version in ("theorem", "appendix", "assumptions"):
    ...     round(elimination_probability(50, 20, 0.0037, 0.0231, version=version), 3)
    0.922
    0.961
    0.998
    """
    check_shuffled(n_features, n_shuffled, n_in_place=2)
    in_place, shuffled = int(n_features - n_shuffled), int(n_shuffled)
    xi, eta = np.sqrt(xi_variance), np.sqrt(eta_variance)
    if version == "assumptions":
        return _probability_of_larger_maximum(in_place, shuffled, eta / xi)
    difference = eta * maximum_location(shuffled) - xi * maximum_location(in_place)
    spread = np.hypot(eta * maximum_scale(shuffled), xi * maximum_scale(in_place))
    probability = ndtr(difference / spread)
    return float(2 * probability - 1 if version == "theorem" else probability)


def _probability_of_larger_maximum(in_place, shuffled, ratio):
    """Chance that the largest |η| of a few exceeds the largest |ξ|; `ratio` is σ_η / σ_ξ."""

    def density(x):
        # The largest |η| is x, in units of σ_η, and all |ξ| are below it.
        below = (1 - 2 * ndtr(-x)) ** (shuffled - 1) * (1 - 2 * ndtr(-x * ratio)) ** in_place
        return 2 * shuffled * norm.pdf(x) * below

    # The density has no weight beyond: 40 standard deviations are not seen in any count.
    return float(quad(density, 0, 40, points=[1, 2, 3, 5, 8], limit=200)[0])
