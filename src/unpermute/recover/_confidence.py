"""From evidence to probabilities.

Measured, not derived: ``python benchmarks/recovery.py --part confidence`` prints how often vectors
of a given confidence are right.
"""

import numpy as np
from scipy.special import expit
from scipy.stats import chi2

__all__ = [
    "RIGHT",
    "entry_confidence",
    "expected_error",
    "found_probability",
    "vector_confidence",
]

# Logistic curve of "found" over the evidence.
_MIDDLE, _WIDTH = 5.0, 4.0
# A vector is right if its relative error is below this.
RIGHT = 0.05
# Factor by which matching errors raise the error of the fit above that of independent noise alone.
_INFLATION = 1.5
# Share of wrong values among those of a vector that is right.
_WRONG_VALUES = 0.01


def vector_confidence(evidence, residual, noise_scale, fitted, rank):
    """Probability that a fitted vector is right: its relative error below 5%.

    It must have been found, which the evidence tells, and the noise must leave it so accurate:
    the squared error of a fit with r coefficients is about σ²χ²_r if noise is independent.
    """
    found = found_probability(evidence)
    expected = expected_error(residual, noise_scale, fitted, rank)
    ratio = np.divide(RIGHT, expected, out=np.full(len(fitted), np.inf), where=expected > 0)
    return found * chi2.cdf(rank * ratio**2 / _INFLATION, rank)


def found_probability(evidence):
    """Probability that a vector was found at all."""
    return expit((evidence - _MIDDLE) / _WIDTH)


def expected_error(residual, noise_scale, fitted, rank):
    """Relative error of a fit that independent noise leaves, with all values in place."""
    variance = residual if noise_scale is None else np.maximum(residual, noise_scale**2)
    error, lengths = np.sqrt(rank * variance), np.linalg.norm(fitted, axis=1)
    return np.divide(error, lengths, out=np.where(error > 0, np.inf, 0.0), where=lengths > 0)


def entry_confidence(Y, fitted, permutations, confidence, scale):
    """Probability that every value is in its place, up to the noise.

    Of a right vector, the residual of a value in its place is normal with the vector's own
    residual scale, that of a wrong one has the spread of the values; the vector itself is right
    with its confidence.
    """
    values = np.take_along_axis(Y, permutations, axis=1)
    missing = np.isnan(values)
    residual = np.where(missing, 0.0, values - fitted)
    scale = np.maximum(scale, 1e-12)[:, None]
    observed = np.maximum(np.sum(~np.isnan(Y), axis=1, keepdims=True), 1)
    spread = np.sqrt(np.nansum((Y - np.nansum(Y, axis=1, keepdims=True) / observed) ** 2, axis=1))
    spread = np.maximum(spread[:, None] / np.sqrt(observed), 2 * scale)
    log_odds = (
        np.log(spread / scale)
        - 0.5 * (residual / scale) ** 2
        + 0.5 * (residual / spread) ** 2
        + np.log((1 - _WRONG_VALUES) / _WRONG_VALUES)
    )
    right = expit(log_odds)
    return confidence[:, None] * np.where(missing, 1.0, right)
