r"""Exact moments of a random projection, and the exact variances of Theorem 1 that follow.

Let :math:`H = UU^\top` project on a uniformly distributed subspace of dimension r of
:math:`\mathbb{R}^M`. :math:`QHQ^\top` has the law of H for every orthogonal Q, so the mean of
:math:`H \otimes \dots \otimes H` is a combination of pairings of its indices. H is symmetric and
its factors commute, so a pairing counts only through how it links the factors with each other:

.. math:: E[H_{ij}H_{kl}] &= \alpha_{1,1}\,\delta_{ij}\delta_{kl} + \alpha_2 (\dots) \\
          E[H_{ij}H_{kl}H_{mn}] &= \alpha_{1,1,1}\,\delta_{ij}\delta_{kl}\delta_{mn}
          + \alpha_{2,1} (\text{6 pairings}) + \alpha_3 (\text{8 pairings}).

The coefficients follow from contracting all indices, because :math:`H^2 = H` and tr H = r:

.. math:: M^3 \alpha_{1,1,1} + 6 M^2 \alpha_{2,1} + 8 M \alpha_3 &= E (\mathrm{tr} H)^3 = r^3 \\
          M^2 \alpha_{1,1,1} + (M^3 + M^2 + 4M) \alpha_{2,1} + (4M^2 + 4M) \alpha_3
          &= E\, \mathrm{tr} H\, \mathrm{tr} H^2 = r^2 \\
          M \alpha_{1,1,1} + (3M^2 + 3M) \alpha_{2,1} + (M^3 + 3M^2 + 4M) \alpha_3
          &= E\, \mathrm{tr} H^3 = r.

The matrix is the Gram matrix of the 15 pairings, summed over kinds; its inverse is the orthogonal
Weingarten function. Inserting the moments into the paper's expressions of
:math:`\sigma_\xi^2` and :math:`\sigma_\eta^2` gives their means without any approximation.
"""

from collections.abc import Iterator

import numpy as np

from unpermute._validation import validate_params
from unpermute.theory._setting import N_FEATURES, N_SHUFFLED, RANK, check_at_most, check_shuffled

__all__ = [
    "expected_eta_variance",
    "expected_xi_variance",
    "projection_moment",
    "second_coefficients",
    "third_coefficients",
]


@validate_params(
    {"entries": ["array-like"], "n_features": N_FEATURES, "rank": RANK},
    prefer_skip_nested_validation=True,
)
def projection_moment(entries, n_features, rank):
    r"""Mean of a product of up to three entries of a random projection.

    Parameters
    ----------
    entries : array-like of int of shape (n_factors, 2)
        Places (i, j) of the factors, between 0 and `n_features` - 1; at most three.
    n_features : int
        Dimension M of the space; at least 3 for three factors.
    rank : int
        Dimension r of the uniformly distributed subspace, at most M.

    Returns
    -------
    moment : float
        :math:`E \prod_k H_{i_k j_k}`.

    Examples
    --------
    >>> from unpermute.theory import projection_moment
    >>> projection_moment([(0, 0)], 10, 4)
    0.4
    >>> projection_moment([(0, 1), (1, 2)], 10, 4)
    0.0
    """
    check_at_most("rank", rank, n_features, "the number of features")
    places = _check_entries(entries, n_features)
    coefficients = _coefficients(len(places), int(n_features), int(rank))
    indices = places.ravel()
    return float(
        sum(
            coefficients[_kind(pairing)]
            for pairing in _pairings(tuple(range(len(indices))))
            if all(indices[p] == indices[q] for p, q in pairing)
        )
    )


@validate_params(
    {"n_features": N_FEATURES, "rank": RANK, "n_shuffled": N_SHUFFLED},
    prefer_skip_nested_validation=True,
)
def expected_xi_variance(n_features, rank, n_shuffled):
    r"""Exact mean of the variance :math:`\sigma_\xi^2` of a residual that is in place.

    .. math:: E \sigma_\xi^2 = \frac{M_2 (M - r) [2(M + 2)r - 8 + (M_2 + 1)(M - 2r)]}
                                    {M (M - 1)(M - 2)(M + 2)(M + 4)}

    which is about :math:`y (1 - x) [2x + y (1 - 2x)] / M` with x = r / M and y = M₂ / M.

    Parameters
    ----------
    n_features : int
        Number M of entries.
    rank : int
        Dimension r of the subspace, at most M.
    n_shuffled : int
        Number M₂ of shuffled entries, from 3 to M - 1.

    Returns
    -------
    variance : float
        Mean over subspaces; every permutation without fixed points and 2-cycles has the same.

    Notes
    -----
    In the double sum that the paper gives for :math:`r \sigma_\xi^2`, only these products have a
    mean: :math:`H_{ii}H_{i1}^2`, :math:`H_{ii}H_{\varphi(i)1}^2` and
    :math:`H_{1p}H_{pi}H_{i1}` with p ≠ i. The paper equates the first two; they differ by
    :math:`2\alpha_3`.

    Examples
    --------
    >>> from unpermute.theory import expected_xi_variance
    >>> round(expected_xi_variance(50, 5, 20), 5)
    0.00368
    """
    check_at_most("rank", rank, n_features, "the number of features")
    check_shuffled(n_features, n_shuffled, n_in_place=1)
    _, one_pair, linked = third_coefficients(int(n_features), int(rank))
    return n_shuffled * (2 * one_pair + (n_shuffled + 1) * linked) / rank


@validate_params(
    {"n_features": N_FEATURES, "rank": RANK, "n_shuffled": N_SHUFFLED},
    prefer_skip_nested_validation=True,
)
def expected_eta_variance(n_features, rank, n_shuffled):
    r"""Exact mean of the variance :math:`\sigma_\eta^2` of a residual that is shuffled.

    With the coefficients of the moments, in the paper's three terms,

    .. math:: E\,\mathrm{term}_1 &= 2\alpha_{1,1,1} + 4(M_2 + 1)\alpha_{2,1}
              + (M_2^2 + 3M_2 + 6)\alpha_3 \\
              E\,\mathrm{term}_2 &= 2\alpha_{1,1} + (M_2 + 1)\alpha_2 \\
              E\,\mathrm{term}_3 &= 2r / M

    and :math:`r E \sigma_\eta^2 = E (\mathrm{term}_1 - 2\,\mathrm{term}_2 + \mathrm{term}_3)`. With
    x = r / M and y = M₂ / M it is about :math:`(1 - x) [2(1 - x) - y(2 - y)(1 - 2x)] / M`.

    Parameters
    ----------
    n_features : int
        Number M of entries.
    rank : int
        Dimension r of the subspace, at most M.
    n_shuffled : int
        Number M₂ of shuffled entries, from 3 to M.

    Returns
    -------
    variance : float
        Mean over subspaces; every permutation without fixed points and 2-cycles has the same.

    Examples
    --------
    >>> from unpermute.theory import expected_eta_variance
    >>> round(expected_eta_variance(50, 5, 20), 4)
    0.0231
    """
    check_at_most("rank", rank, n_features, "the number of features")
    check_shuffled(n_features, n_shuffled)
    M, r, m = int(n_features), int(rank), int(n_shuffled)
    apart, together = second_coefficients(M, r)
    separate, one_pair, linked = third_coefficients(M, r)
    term1 = 2 * separate + 4 * (m + 1) * one_pair + (m * m + 3 * m + 6) * linked
    term2 = 2 * apart + (m + 1) * together
    term3 = 2 * r / M
    return (term1 - 2 * term2 + term3) / r


def second_coefficients(M, r):
    """Coefficients of one pairing of the kinds (1, 1) and (2)."""
    # Integers up to the division: nothing cancels in floating point.
    common = M * (M - 1) * (M + 2)
    return r * (r * (M + 1) - 2) / common, r * (M - r) / common


def third_coefficients(M, r):
    """Coefficients of one pairing of the kinds (1, 1, 1), (2, 1) and (3)."""
    common = M * (M - 1) * (M - 2) * (M + 2) * (M + 4)
    separate = r * ((M * M + 3 * M - 2) * r * r - 6 * (M + 2) * r + 16)
    one_pair = r * (M - r) * ((M + 2) * r - 4)
    linked = r * (M - r) * (M - 2 * r)
    return separate / common, one_pair / common, linked / common


def _coefficients(n_factors, M, r):
    """Coefficient per kind of pairing."""
    if n_factors == 1:
        return {(1,): r / M}
    if n_factors == 2:
        return dict(zip([(1, 1), (2,)], second_coefficients(M, r), strict=True))
    return dict(zip([(1, 1, 1), (2, 1), (3,)], third_coefficients(M, r), strict=True))


def _pairings(places) -> Iterator[tuple[tuple[int, int], ...]]:
    """All ways to arrange places in pairs."""
    if not places:
        yield ()
        return
    first, *others = places
    for k, partner in enumerate(others):
        rest = tuple(others[:k] + others[k + 1 :])
        for pairing in _pairings(rest):
            yield ((first, partner), *pairing)


def _kind(pairing):
    """Sizes of the groups of factors that a pairing links; factor k has places 2k and 2k + 1."""
    groups = [{k} for k in range(len(pairing))]
    for p, q in pairing:
        touched = [group for group in groups if {p // 2, q // 2} & group]
        groups = [group for group in groups if group not in touched] + [set().union(*touched)]
    return tuple(sorted(map(len, groups), reverse=True))


def _check_entries(entries, n_features):
    places = np.asarray(entries)
    whole = np.issubdtype(places.dtype, np.integer)
    if not whole or places.ndim != 2 or places.shape[1] != 2 or not 1 <= len(places) <= 3:
        raise ValueError(
            f"entries={entries!r} must be one, two or three pairs (i, j) of whole numbers."
        )
    if places.min() < 0 or places.max() >= n_features:
        raise ValueError(
            f"entries={entries!r} must lie between 0 and {n_features - 1}, one less than the"
            " number of features."
        )
    if n_features < len(places):
        raise ValueError(
            f"n_features={n_features} must be at least {len(places)}, the number of factors."
        )
    return places
