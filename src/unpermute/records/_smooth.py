r"""Density of the values that a column of numbers or dates takes, seen ones and new ones.

The values are transformed by the identity, the square root or the logarithm, whichever makes them
most likely under Student's t with 4 degrees of freedom, and standardised to z. The density of z is
a kernel estimate plus a tenth of a Cauchy distribution: a value far from all others is unlikely,
not impossible. The Jacobian of the transform makes columns comparable with each other.
"""

from dataclasses import dataclass

import numpy as np

__all__ = ["Smooth", "fit_smooth"]

_IDENTITY, _ROOT, _LOG = 0, 1, 2
# The kernel estimate is kept on a grid of z from -10 to 10.
_GRID = np.linspace(-10.0, 10.0, 801)
_CENTRES, _STEP = (_GRID[1:] + _GRID[:-1]) / 2, _GRID[1] - _GRID[0]
# Weight and half-width of the Cauchy part.
_WIDE_SHARE, _WIDE = 0.1, 2.0
# Standard deviations at which the Gaussian kernel is cut off.
_REACH = 4.0
# Fewest values for a kernel estimate.
_FEWEST = 3
# Share of zeros up to which the logarithm is still considered.
_MOST_ZEROS = 0.1
# z of a value for which the transform is undefined.
_UNDEFINED = -30.0
# Largest number, and largest distance in scales: all beyond count as equally far, so that squares
# do not overflow.
_HUGE, _FAR = 1e300, 1e100


@dataclass(frozen=True)
class Smooth:
    """Density of one column; see the module.

    Attributes
    ----------
    transform : int
        0: identity, 1: square root, 2: logarithm.
    offset, centre, scale : float
        Added before the transform; location and scale after it.
    density : ndarray of shape (800,) or None
        Kernel estimate on the grid; None if there are too few values.
    """

    transform: int
    offset: float
    centre: float
    scale: float
    density: np.ndarray | None

    def standardised(self, values):
        """Return z of the values."""
        with np.errstate(over="ignore"):
            z = (_transformed(self.transform, self.offset, values)[0] - self.centre) / self.scale
        return np.where(np.isfinite(z), np.clip(z, -_FAR, _FAR), _UNDEFINED)

    def log_density(self, values, log_steps=0.0):
        """Return the logarithm of the density at values that are known to a step.

        The slope of the transform is that at half a step at least: 0 stands for all of its step.
        """
        z = self.standardised(values)
        log_slope = np.zeros(np.shape(values))
        if self.transform != _IDENTITY:
            at = np.maximum(values, 0.5 * np.exp(log_steps) - self.offset)
            log_slope = _transformed(self.transform, self.offset, at)[1]
            # Where the transform is undefined, values have the slope of the typical one.
            typical = (
                -self.centre if self.transform == _LOG else -np.log(2 * abs(self.centre) + 1e-9)
            )
            log_slope = np.where(z <= _UNDEFINED, typical, log_slope)
        density = _WIDE_SHARE / (np.pi * _WIDE * (1.0 + (z / _WIDE) ** 2))
        if self.density is not None:
            inside = np.interp(z, _CENTRES, self.density, left=0.0, right=0.0)
            density = density + (1 - _WIDE_SHARE) * inside
        return np.log(density) + log_slope - np.log(self.scale)


def fit_smooth(values, weights=None):
    """Learn the density of values, each of which may stand for several."""
    order = np.argsort(values, kind="stable")
    v = np.clip(values[order], -_HUGE, _HUGE)
    w = np.ones(len(v)) if weights is None else weights[order].astype(float)
    if len(v) < _FEWEST:
        centre = float(v.mean()) if len(v) else 0.0
        spread = float(np.ptp(v)) if len(v) else 1.0
        return Smooth(_IDENTITY, 0.0, centre, max(spread, abs(centre), 1e-3), None)
    shape = _best_transform(v, w)
    # The usual rule of thumb for the bandwidth, in standard deviations.
    bandwidth = 0.9 * w.sum() ** -0.2
    counts = np.histogram(shape.standardised(v), _GRID, weights=w)[0].astype(float)
    density = _smoothed(counts, max(bandwidth / _STEP, 1.0)) / w.sum() / _STEP
    return Smooth(shape.transform, shape.offset, shape.centre, shape.scale, density)


def _smoothed(counts, width):
    """Smooth by a Gaussian, the ends repeated: like scipy.ndimage, which takes 30 ms to import."""
    radius = int(_REACH * width + 0.5)
    kernel = np.exp(-0.5 * (np.arange(-radius, radius + 1) / width) ** 2)
    return np.convolve(np.pad(counts, radius, mode="edge"), kernel / kernel.sum(), mode="valid")


def _best_transform(v, w):
    """Transform, location and scale with the best trimmed likelihood; v is sorted."""
    ranks = (np.cumsum(w) - w / 2) / w.sum()
    bulk = (ranks >= 0.01) & (ranks <= 0.99)
    if np.count_nonzero(bulk) < _FEWEST:
        bulk[:] = True
    core, weights = v[bulk], w[bulk]
    best, choice = -np.inf, None
    for transform in (_IDENTITY, _ROOT, _LOG):
        zeros = weights[core == 0].sum() / weights.sum()
        if transform != _IDENTITY and core[0] < 0:
            continue
        if transform == _LOG and zeros >= _MOST_ZEROS:
            continue
        positive = core[core > 0]
        offset = float(np.median(positive)) / 10 if transform == _LOG and zeros else 0.0
        z, log_slope = _transformed(transform, offset, core)
        low, middle, high = np.interp((0.25, 0.5, 0.75), _ranks(weights), z)
        size = max(float(np.max(np.abs(z))), 1e-300)
        mean = np.average(z / size, weights=weights)
        deviation = size * np.sqrt(np.average((z / size - mean) ** 2, weights=weights))
        scale = max((high - low) / 1.349, 0.3 * deviation, 1e-12, 1e-12 * abs(middle))
        t = (z - middle) / scale
        # A transform has to be better than none by one unit of log-likelihood.
        value = weights @ (log_slope - np.log(scale) - 2.5 * np.log1p(t**2 / 4)) - (transform > 0)
        if value > best:
            best, choice = value, Smooth(transform, offset, float(middle), float(scale), None)
    return choice or Smooth(_IDENTITY, 0.0, float(np.median(v)), 1.0, None)


def _ranks(weights):
    return (np.cumsum(weights) - weights / 2) / weights.sum()


def _transformed(transform, offset, values):
    """Transformed values and the logarithm of the slope there."""
    values = np.clip(values, -_HUGE, _HUGE)
    if transform == _IDENTITY:
        return values, np.zeros(np.shape(values))
    with np.errstate(all="ignore"):
        if transform == _ROOT:
            root = np.sqrt(values + offset)
            return root, -np.log(2 * np.maximum(root, 1e-9))
        logarithm = np.log(values + offset)
        return logarithm, -logarithm
