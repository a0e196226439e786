"""How likely a recovery is, and the paper's Theorem 1 with exact variances.

docs/errata.md compares every statement of the theorem with simulation.
"""

from unpermute.theory._elimination_probability import (
    elimination_probability,
    maximum_location,
    maximum_scale,
)
from unpermute.theory._elimination_variances import (
    CONCENTRATION_DELTA,
    concentration_constant,
    eta_variance_approximation,
    eta_variance_lower_bound,
    residual_variances,
    xi_variance_concentration,
    xi_variance_upper_bound,
)
from unpermute.theory._haar_moments import (
    expected_eta_variance,
    expected_xi_variance,
    projection_moment,
)
from unpermute.theory._matrix_beta import (
    entry_moments,
    log_determinant_moment,
    log_multivariate_gamma,
    power_mean,
    trace_moments,
)
from unpermute.theory._recoverability import recoverability
from unpermute.theory._simulation import simulate_elimination

__all__ = [
    "CONCENTRATION_DELTA",
    "concentration_constant",
    "elimination_probability",
    "entry_moments",
    "eta_variance_approximation",
    "eta_variance_lower_bound",
    "expected_eta_variance",
    "expected_xi_variance",
    "log_determinant_moment",
    "log_multivariate_gamma",
    "maximum_location",
    "maximum_scale",
    "power_mean",
    "projection_moment",
    "recoverability",
    "residual_variances",
    "simulate_elimination",
    "trace_moments",
    "xi_variance_concentration",
    "xi_variance_upper_bound",
]
