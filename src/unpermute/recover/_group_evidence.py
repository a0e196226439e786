r"""Evidence of a permutation that several vectors share, or whose places have their own units.

The certificate of :mod:`unpermute.numerics.certificate`, with two changes: the vectors of a group
add up their fit, and a random order is measured in the units of the places.
"""

import math

import numpy as np

from unpermute.numerics.certificate import null_scales
from unpermute.numerics.matching import log_probability_of_small_residual

__all__ = ["group_evidence", "independent_vectors", "pooled_null_scales"]


def group_evidence(residuals, null, degrees, log_ways, n_independent=None):
    r"""Evidence that the shared permutation of a group is no accident.

    .. math:: e = -\log N_k - \log P\left(\chi^2_m \le \frac{m}{\sum_v m_v}
              \sum_v E_v / s_v^2\right), \qquad m = \frac{n'}{n} \sum_v m_v ,

    with E_v the residual sum of squares of a vector, m_v its degrees of freedom and s_v² the mean
    square residual of a random order: the vectors add their fit, and the number N_k of ways to
    move k entries counts once. Vectors that resemble each other fit a wrong order together, so
    only n' of the n count (:func:`independent_vectors`). For one vector it is the evidence of
    :mod:`unpermute.numerics.certificate`.
    """
    counts = (degrees > 0) & (null > 0)
    total = np.sum(degrees[counts])
    if total == 0 or n_independent == 0:
        return 0.0
    share = 1.0 if n_independent is None else min(n_independent / np.count_nonzero(counts), 1.0)
    ratio = max(np.sum(residuals[counts] / null[counts]) / total, 1e-24)
    return -log_ways - log_probability_of_small_residual(ratio, share * total)


def independent_vectors(Y, blocks):
    """n' = (tr G)² / ‖G‖²: G holds the inner products of the vectors less their block means."""
    centred = np.zeros_like(Y)
    for block in np.unique(blocks):
        places = np.flatnonzero(blocks == block)
        values = Y[:, places]
        count = np.maximum(np.sum(~np.isnan(values), axis=1, keepdims=True), 1)
        mean = np.nansum(values, axis=1, keepdims=True) / count
        centred[:, places] = np.nan_to_num(values - mean)
    norms = np.linalg.norm(centred, axis=1, keepdims=True)
    centred /= np.maximum(norms, 1e-300)
    total = np.sum((centred @ centred.T) ** 2)
    return np.count_nonzero(norms) ** 2 / total if total > 0 else 0.0


def pooled_null_scales(problem, scale):
    """Mean square residual of a random order of every vector, in units of the scale.

    With several units a random order is a mixture: a value of the wrong unit never fits. What
    counts is the chance that a random value is near the right one, so the normal distribution is
    taken that has the same mean logarithmic density (nearest neighbours) at the values.
    """
    Y, blocks = problem.Y, problem.blocks
    if np.all(scale == scale[0]):
        null = null_scales(Y, problem.basis, problem.offset, blocks) / scale[0] ** 2
    else:
        null = np.exp([_log_null(y, blocks, scale) - 1.0 for y in Y])
    largest = np.max(np.abs(np.nan_to_num(Y)) / scale, axis=1)
    return np.where(null > 1e-24 * largest**2, null, 0.0)


def _log_null(y, blocks, scale):
    """Mean of log(τ² / s²), 1 / (τ √2π) being the density of a block's values at one of them."""
    total, n_places = 0.0, 0
    for block in np.unique(blocks):
        places = np.flatnonzero(blocks == block)
        values = y[places][~np.isnan(y[places])]
        n = len(values)
        if n < 2:
            continue  # nothing can be exchanged
        k = max(1, round(math.sqrt(n - 1)))
        gaps = np.sort(np.abs(values[:, None] - values), axis=1)[:, k]
        gaps = np.maximum(gaps, 1e-6 * np.ptp(values) + 1e-150)
        spread = 2 * (n - 1) * gaps / (k * math.sqrt(2 * math.pi))
        total += len(places) * 2 * np.mean(np.log(spread)) - 2 * np.sum(np.log(scale[places]))
        n_places += len(places)
    return total / n_places if n_places else -np.inf
