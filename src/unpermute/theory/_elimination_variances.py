r"""Theorem 1 of the paper: the variances of the residuals in place and shuffled.

The vector :math:`y = U\beta`, :math:`\beta \sim N(0, I_r / r)`, is observed as
:math:`\tilde y = \tilde\pi y`, with :math:`\tilde y_j = y_{\varphi(j)}`. Its residual in the
subspace is :math:`Y(j) = (\tilde y - UU^\top \tilde y)_j = \kappa(j)^\top \tau\beta` with
:math:`\kappa(j) = Uu_j - e_j` and :math:`\tau = (I - \tilde\pi) U`, so that given U it is normal
with variance :math:`\kappa(j)^\top \tau\tau^\top \kappa(j) / r`: called :math:`\sigma_\xi^2` where
entry j is in place, :math:`\sigma_\eta^2` where it is shuffled. The theorem bounds and approximates
both; what follows for the elimination is in :mod:`unpermute.theory._elimination_probability`.

Everything is coded as printed. Where the paper prints two versions, an option chooses. Several
statements do not hold: docs/errata.md has the verdicts, and
:func:`expected_xi_variance` and :func:`expected_eta_variance` the exact means.
"""

import numpy as np

from unpermute._validation import StrOptions, check_basis, check_rank, validate_params
from unpermute.theory._matrix_beta import entry_moments, log_determinant_moment, trace_moments
from unpermute.theory._setting import N_FEATURES, N_SHUFFLED, RANK, check_shuffled

__all__ = [
    "CONCENTRATION_DELTA",
    "coefficients_to_residuals",
    "concentration_constant",
    "eta_variance_approximation",
    "eta_variance_lower_bound",
    "residual_variances",
    "xi_variance_concentration",
    "xi_variance_upper_bound",
]

_SETTING = {"n_features": N_FEATURES, "rank": RANK, "n_shuffled": N_SHUFFLED}

# δ = 1 − 0.9973²: two normal variables leave three standard deviations.
CONCENTRATION_DELTA = 1 - 0.9973**2


@validate_params(
    {"basis": ["array-like"], "permutation": ["array-like"]},
    prefer_skip_nested_validation=True,
)
def residual_variances(basis, permutation):
    r"""Variance of every residual for one subspace and one permutation, without approximation.

    Parameters
    ----------
    basis : array-like of shape (n_features, rank)
        Orthonormal basis U of the subspace.
    permutation : array-like of int of shape (n_features,)
        The map φ: entry j of the observed vector is entry φ(j) of the vector.

    Returns
    -------
    variances : ndarray of shape (n_features,)
        :math:`\kappa(j)^\top \tau\tau^\top \kappa(j) / r`: :math:`\sigma_\xi^2` where φ(j) = j and
        :math:`\sigma_\eta^2` elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> from unpermute.theory import residual_variances
    >>> basis = np.full((4, 1), 0.5)
    >>> residual_variances(basis, [0, 2, 3, 1])
    array([0., 0., 0., 0.])
    """
    phi = np.asarray(permutation)
    if phi.ndim != 1 or not np.array_equal(np.sort(phi), np.arange(len(phi))):
        raise ValueError(
            f"permutation={permutation!r} must hold every number from 0 to n_features - 1 once."
        )
    basis = check_basis(basis, len(phi))
    return np.square(coefficients_to_residuals(basis, phi)).sum(axis=1) / basis.shape[1]


@validate_params(
    {**_SETTING, "version": [StrOptions({"exact", "bound"})]}, prefer_skip_nested_validation=True
)
def concentration_constant(n_features, rank, n_shuffled, *, version="exact"):
    r"""The constant C of the concentration bound on :math:`\sigma_\xi^2`.

    Parameters
    ----------
    n_features : int
        Number M of entries.
    rank : int
        Dimension r of the subspace, below M.
    n_shuffled : int
        Number M₂ of shuffled entries, from 3 to M - 1.
    version : {"exact", "bound"}, default="exact"
        C of the function g in the appendix, or what the theorem says it is at most,
        :math:`2 + 6(1 + \sqrt 2) \sqrt{(M - r) / (r M_2 M)}`.

    Returns
    -------
    constant : float
        The constant C.

    Examples
    --------
    >>> from unpermute.theory import concentration_constant
    >>> round(concentration_constant(50, 5, 20), 2)
    3.18
    """
    M, r, m = _setting(n_features, rank, n_shuffled)
    if version == "bound":
        return float(2 + 6 * (1 + np.sqrt(2)) * np.sqrt((M - r) / (r * m * M)))
    # g(M, M2, r): mean and 3σ of Σ H_ii, then 3σ of Σ H_iφ(i), in units of the mean.
    mean, variance = trace_moments(M, r, m)
    deviations = np.sqrt(variance) + np.sqrt(m * entry_moments(M, r).variance_off_diagonal)
    return float(2 + 6 * deviations / mean)


@validate_params(
    {**_SETTING, "version": [StrOptions({"exact", "bound"})]}, prefer_skip_nested_validation=True
)
def xi_variance_concentration(n_features, rank, n_shuffled, *, version="exact"):
    r"""Theorem 1, line 1: a number that :math:`\sigma_\xi^2` stays below with high probability.

    .. math:: \Pr\left(\sigma_\xi^2 < C\,\frac{r(M - r)M_2}{M^2(M - 1)(M + 2)}\right)
              > 1 - \delta, \qquad \delta = 0.0054 .

    It does not hold: the derivation takes :math:`U^{(2)}u_1` and τ for independent. At low rank
    even the exact mean :func:`expected_xi_variance` is larger.

    Parameters
    ----------
    n_features : int
        Number M of entries.
    rank : int
        Dimension r of the subspace, below M.
    n_shuffled : int
        Number M₂ of shuffled entries, from 3 to M - 1.
    version : {"exact", "bound"}, default="exact"
        Which constant C, see :func:`concentration_constant`.

    Returns
    -------
    bound : float
        The claimed bound.

    Examples
    --------
    >>> from unpermute.theory import xi_variance_concentration
    >>> round(xi_variance_concentration(50, 5, 20), 4)
    0.0022
    """
    M, r, m = _setting(n_features, rank, n_shuffled)
    constant = concentration_constant(M, r, m, version=version)
    return constant * m / M * entry_moments(M, r).variance_off_diagonal


@validate_params(_SETTING, prefer_skip_nested_validation=True)
def xi_variance_upper_bound(n_features, rank, n_shuffled):
    r"""Theorem 1, line 2: the claimed upper bound on the mean of :math:`\sigma_\xi^2`.

    .. math:: \frac{M_2 r(M - r)}{M^2(M - 1)(M + 2)}
              + \frac{\sqrt 6 M_2 r^{1/2}(M - r)^{3/2}}{M^2(M - 1)(M + 2)^{3/2}}
              + \frac{M_2^2}{M^3}

    The last term approximates :math:`\tilde c_3`. The bound holds in small settings; with
    many entries it fails where :math:`M_2 / M < (1 - x) / (3 - 2x)`, x = r / M.

    Parameters
    ----------
    n_features : int
        Number M of entries.
    rank : int
        Dimension r of the subspace, below M.
    n_shuffled : int
        Number M₂ of shuffled entries, from 3 to M - 1.

    Returns
    -------
    bound : float
        The claimed bound.

    Examples
    --------
    >>> from unpermute.theory import xi_variance_upper_bound
    >>> round(xi_variance_upper_bound(50, 5, 20), 4)
    0.0046
    """
    M, r, m = _setting(n_features, rank, n_shuffled)
    first = m / M * entry_moments(M, r).variance_off_diagonal
    second = first * np.sqrt(6 * (M - r) / (r * (M + 2)))
    return float(first + second + m**2 / M**3)


@validate_params(
    {**_SETTING, "version": [StrOptions({"theorem", "summary", "corrected"})]},
    prefer_skip_nested_validation=True,
)
def eta_variance_lower_bound(n_features, rank, n_shuffled, *, version="theorem"):
    r"""Theorem 1, line 3: the lower bound on the mean of :math:`\sigma_\eta^2`.

    .. math:: \frac{2}{M} - \frac{2[M_2M + M - 4](M - r)}{M^2(M - 1)(M + 2)} + \frac{1}{M_2}
              \frac{\Gamma_r(r/2 + 3/r)\,\Gamma_r(M/2)}{\Gamma_r(M/2 + 3/r)\,\Gamma_r(r/2)}

    Parameters
    ----------
    n_features : int
        Number M of entries.
    rank : int
        Dimension r of the subspace, below M.
    n_shuffled : int
        Number M₂ of shuffled entries, from 3 to M - 1.
    version : {"theorem", "summary", "corrected"}, default="theorem"
        As in the theorem; as in the summary of the appendix, which has
        :math:`[2M_2M + M - 4]` in place of :math:`2[M_2M + M - 4]`; or corrected.

    Returns
    -------
    bound : float
        The claimed bound. Only the corrected one holds.

    Notes
    -----
    The derivation uses covariances of diagonal entries of H where it needs their second moments,
    so its mean of term₂ lacks :math:`2r^2 / M^2` and the bound is :math:`4r / M^2` too large. It
    also takes :math:`U^{(2)\top}U^{(2)} \sim \mathcal{B}_r(r/2, (M - r)/2)` in place of
    :math:`\mathcal{B}_r(M_2/2, (M - M_2)/2)`, which makes the gamma term too small while
    r < M₂. Both are put right in "corrected", where the gamma term vanishes if r > M₂.

    Examples
    --------
    >>> from unpermute.theory import eta_variance_lower_bound
    >>> round(eta_variance_lower_bound(50, 5, 20), 4)
    0.0252
    >>> round(eta_variance_lower_bound(50, 5, 20, version="corrected"), 4)
    0.0197
    """
    M, r, m = _setting(n_features, rank, n_shuffled)
    factor = 2 * m * M + M - 4 if version == "summary" else 2 * (m * M + M - 4)
    bound = 2 / M - factor * (M - r) / (M**2 * (M - 1) * (M + 2))
    if version != "corrected":
        return float(bound + np.exp(log_determinant_moment(3 / r, M, r, r)) / m)
    gammas = np.exp(log_determinant_moment(3 / r, M, m, r)) if r <= m else 0.0
    return float(bound - 4 * r / M**2 + gammas / m)


@validate_params(
    {**_SETTING, "version": [StrOptions({"theorem", "appendix", "independent"})]},
    prefer_skip_nested_validation=True,
)
def eta_variance_approximation(n_features, rank, n_shuffled, *, version="theorem"):
    r"""Theorem 1, line 4: the approximate mean of :math:`\sigma_\eta^2`.

    .. math:: \frac{2M - M_2}{M^2} \left[\left(\frac rM - 1\right)^2
              + \frac{2r(M - r)}{M^2(M + 2)} + \frac{(M_2 - 1)r(M - r)}{M(M - 1)(M + 2)}\right]

    Parameters
    ----------
    n_features : int
        Number M of entries.
    rank : int
        Dimension r of the subspace, below M.
    n_shuffled : int
        Number M₂ of shuffled entries, from 3 to M - 1.
    version : {"theorem", "appendix", "independent"}, default="theorem"
        The prefactor: :math:`(2M - M_2)/M^2` as in the theorem, :math:`(M - M_2)/M^2` as in the
        derivation and the summary of the appendix, or :math:`2/M`, before the empirical factor.

    Returns
    -------
    variance : float
        The approximation; :func:`expected_eta_variance` is exact.

    Examples
    --------
    >>> from unpermute.theory import eta_variance_approximation
    >>> round(eta_variance_approximation(50, 5, 20), 4)
    0.0271
    """
    M, r, m = _setting(n_features, rank, n_shuffled)
    prefactor = {"theorem": 2 * M - m, "appendix": M - m, "independent": 2 * M}[version] / M**2
    H = entry_moments(M, r)
    square = (H.mean_diagonal - 1) ** 2 + H.variance_diagonal
    return float(prefactor * (square + (m - 1) * H.variance_off_diagonal))


def coefficients_to_residuals(basis, permutation):
    """Matrix from β to the residuals, per basis of a stack: κᵀτ = ((I − UUᵀ) π̃ U), row by row."""
    moved = np.take_along_axis(basis, permutation[..., None], axis=-2)
    return moved - basis @ (np.swapaxes(basis, -1, -2) @ moved)


def _setting(n_features, rank, n_shuffled):
    check_rank(rank, n_features)
    check_shuffled(n_features, n_shuffled, n_in_place=1)
    return int(n_features), int(rank), int(n_shuffled)
