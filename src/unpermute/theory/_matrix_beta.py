r"""Moments of the matrix-variate beta distribution, as the paper's appendix uses them.

A p × p corner H of a random projection of rank r in :math:`\mathbb{R}^M` has the moments of the
distribution :math:`\mathcal{B}_p(r/2, (M - r)/2)`, which it follows where that has a density. By
orthogonal invariance :math:`E H^t = \tilde c_t(p, r, M - r) I_p`.

All gamma functions stay logarithms: :math:`\Gamma_r` overflows from r = 20 or so.
"""

from typing import NamedTuple

from scipy.special import multigammaln

from unpermute._validation import Integral, Interval, Real, StrOptions, validate_params
from unpermute.theory._haar_moments import second_coefficients, third_coefficients
from unpermute.theory._setting import N_FEATURES, RANK, check_at_most

__all__ = [
    "EntryMoments",
    "entry_moments",
    "log_determinant_moment",
    "log_multivariate_gamma",
    "power_mean",
    "trace_moments",
]

_DIMENSION = [Interval(Integral, 1, None, closed="left")]


class EntryMoments(NamedTuple):
    """Moments of the entries of H: one on the diagonal, one beside it, two on the diagonal."""

    mean_diagonal: float
    variance_diagonal: float
    variance_off_diagonal: float
    covariance_diagonal: float
    third_moment_diagonal: float
    third_central_moment_diagonal: float


@validate_params(
    {"n_features": N_FEATURES, "rank": RANK},
    prefer_skip_nested_validation=True,
)
def entry_moments(n_features, rank):
    """Moments of single entries of H, as the appendix prints them.

    They do not depend on p. Any other product of up to three entries is in
    :func:`projection_moment`.

    Parameters
    ----------
    n_features : int
        Dimension M of the space.
    rank : int
        Rank r of the projection, at most M.

    Returns
    -------
    moments : EntryMoments
        Mean, variance, second and third moments of entries on the diagonal and beside it.

    Examples
    --------
    >>> from unpermute.theory import entry_moments
    >>> entry_moments(10, 4).mean_diagonal
    0.4
    """
    check_at_most("rank", rank, n_features, "the number of features")
    M, r = int(n_features), int(rank)
    return EntryMoments(
        # Corollary "statistic properties": mean, variances, and covariance of H_ii and H_kk.
        mean_diagonal=r / M,
        variance_diagonal=2 * r * (M - r) / (M**2 * (M + 2)),
        variance_off_diagonal=r * (M - r) / (M * (M - 1) * (M + 2)),
        covariance_diagonal=-2 * r * (M - r) / (M**2 * (M - 1) * (M + 2)),
        # Corollary "third-order moments", part (1).
        third_moment_diagonal=r * (r + 2) * (r + 4) / (M * (M + 2) * (M + 4)),
        third_central_moment_diagonal=(
            8 * (M - r) * (M - 2 * r) * r / (M**3 * (M + 2) * (M + 4))
        ),
    )  # fmt: skip


@validate_params(
    {"n_features": N_FEATURES, "rank": RANK, "dimension": _DIMENSION},
    prefer_skip_nested_validation=True,
)
def trace_moments(n_features, rank, dimension):
    r"""Mean and variance of the trace of a corner H, that is of :math:`\sum_{i \le p} H_{ii}`.

    Parameters
    ----------
    n_features : int
        Dimension M of the space.
    rank : int
        Rank r of the projection, at most M.
    dimension : int
        Size p of the corner, at most M; the paper takes p = M₂.

    Returns
    -------
    mean : float
        :math:`rp / M`.
    variance : float
        :math:`2p(M - p)r(M - r) / (M^2 (M - 1)(M + 2))`.

    Examples
    --------
    >>> from unpermute.theory import trace_moments
    >>> trace_moments(10, 4, 5)[0]
    2.0
    """
    check_at_most("rank", rank, n_features, "the number of features")
    check_at_most("dimension", dimension, n_features, "the number of features")
    M, r, p = int(n_features), int(rank), int(dimension)
    variance = 2 * p * (M - p) * r * (M - r) / (M**2 * (M - 1) * (M + 2))
    return r * p / M, variance


@validate_params(
    {
        "order": [Interval(Integral, 1, 3, closed="both")],
        "n_features": N_FEATURES,
        "rank": RANK,
        "dimension": _DIMENSION,
        "version": [StrOptions({"exact", "paper"})],
    },
    prefer_skip_nested_validation=True,
)
def power_mean(order, n_features, rank, dimension, *, version="exact"):
    r"""The number :math:`\tilde c_t(p, r, M - r)` in :math:`E H^t = \tilde c_t I_p`.

    For t = 3 the paper knows no expression in the real case and takes
    :math:`(p / M)^2 r / M`. With the coefficients of :mod:`unpermute.theory._haar_moments`,

    .. math:: \tilde c_3(p, r, M - r)
              = \alpha_{1,1,1} + 3(p + 1)\alpha_{2,1} + (p^2 + 3p + 4)\alpha_3 .

    Parameters
    ----------
    order : {1, 2, 3}
        The power t.
    n_features : int
        Dimension M of the space; at least 3 for t = 3.
    rank : int
        Rank r of the projection, at most M.
    dimension : int
        Size p of the corner H, at most M.
    version : {"exact", "paper"}, default="exact"
        The exact value, or the one of the paper; they differ for t = 3 only.

    Returns
    -------
    mean : float
        The diagonal of :math:`E H^t`.

    Notes
    -----
    The paper requires :math:`\tilde c_3(p, M, 0) = 1`, which its approximation
    :math:`(p / M)^2` misses, and :math:`\tilde c_3(M, r, M - r) = r / M`, which it meets.

    Examples
    --------
    >>> from unpermute.theory import power_mean
    >>> round(power_mean(3, 50, 10, 20), 4), round(power_mean(3, 50, 10, 20, version="paper"), 4)
    (0.0642, 0.032)
    """
    check_at_most("rank", rank, n_features, "the number of features")
    check_at_most("dimension", dimension, n_features, "the number of features")
    M, r, p = int(n_features), int(rank), int(dimension)
    if order == 1:
        return r / M
    if order == 2:
        apart, together = second_coefficients(M, r)
        return apart + (p + 1) * together
    if version == "paper":
        return (p / M) ** 2 * r / M  # Eq. "order-3"
    if M < 3:
        raise ValueError(f"n_features={n_features} must be at least 3 for the third power.")
    separate, one_pair, linked = third_coefficients(M, r)
    return separate + 3 * (p + 1) * one_pair + (p * p + 3 * p + 4) * linked


@validate_params(
    {"x": [Interval(Real, 0, None, closed="neither")], "dimension": _DIMENSION},
    prefer_skip_nested_validation=True,
)
def log_multivariate_gamma(x, dimension):
    r"""Logarithm of :math:`\Gamma_p(x) = \pi^{p(p-1)/4} \prod_{i=1}^p \Gamma(x - (i - 1)/2)`.

    Parameters
    ----------
    x : float
        Argument, above (p - 1) / 2.
    dimension : int
        The number p.

    Returns
    -------
    value : float
        The logarithm, finite where :math:`\Gamma_p` itself overflows.

    Examples
    --------
    >>> from unpermute.theory import log_multivariate_gamma
    >>> round(log_multivariate_gamma(1000.0, 500))
    2598730
    """
    if x <= (dimension - 1) / 2:
        raise ValueError(
            f"x={x} must be above {(dimension - 1) / 2}, half of dimension={dimension} less one."
        )
    return float(multigammaln(x, dimension))


@validate_params(
    {
        "power": [Interval(Real, 0, None, closed="left")],
        "n_features": N_FEATURES,
        "rank": RANK,
        "dimension": _DIMENSION,
    },
    prefer_skip_nested_validation=True,
)
def log_determinant_moment(power, n_features, rank, dimension):
    r"""Logarithm of :math:`E \det(H)^k` for :math:`H \sim \mathcal{B}_p(r/2, (M - r)/2)`.

    .. math:: E \det(H)^k = \frac{\Gamma_p(r/2 + k)\,\Gamma_p(M/2)}
                                 {\Gamma_p(M/2 + k)\,\Gamma_p(r/2)}

    Parameters
    ----------
    power : float
        The power k, at least 0.
    n_features : int
        Dimension M of the space.
    rank : int
        Rank r of the projection, at most M.
    dimension : int
        Size p of the corner H, at most r: beyond, the determinant is 0.

    Returns
    -------
    value : float
        The logarithm of the moment.

    Examples
    --------
    >>> import math
    >>> from unpermute.theory import log_determinant_moment
    >>> round(math.exp(log_determinant_moment(1, 10, 4, 1)), 3)
    0.4
    """
    check_at_most("rank", rank, n_features, "the number of features")
    check_at_most("dimension", dimension, rank, "the rank: beyond, the determinant is 0")
    M, r, p = int(n_features), int(rank), int(dimension)
    up = multigammaln(r / 2 + power, p) - multigammaln(r / 2, p)
    down = multigammaln(M / 2 + power, p) - multigammaln(M / 2, p)
    return float(up - down)
