"""Quasi-Newton descent for a smooth cost plus an l1 norm, ``min_E f(E) + λ ‖E‖₁``.

Where no entry changes its sign the cost is smooth, so that a quasi-Newton step can be taken there:
entries that would cross zero stop at it, and those at zero may leave it only downhill (OWL-QN).
Curvature is learned from the last steps, on top of a diagonal that the cost itself gives.

References
----------
Andrew & Gao, "Scalable training of L1-regularized log-linear models", ICML 2007,
doi:10.1145/1273496.1273501.
"""

from collections import deque

import numpy as np

from unpermute._progress import report
from unpermute.numerics.proximal import soft_threshold
from unpermute.numerics.result import SolverResult

__all__ = ["orthant_descent"]

# Steps whose curvature is remembered: more of them cost more and describe a cost that has changed.
_MEMORY = 5
# A step must lower the cost by this share of what the slope promises; it is shortened by this
# factor until it does.
_DECREASE, _SHRINK, _MAX_SHRINKS = 1e-4, 0.4, 25
# The step of Barzilai and Borwein changes by this factor at most: any point would look stationary
# at the scale of a step that is far too long.
_MAX_CHANGE = 10.0
# Pairs with less curvature than this, relative to their lengths, are rounding or not convex.
_MIN_CURVATURE = 1e-10


def orthant_descent(smooth, start, lam, *, first_step, tol, max_iter, task):
    """Find a stationary point; the cost never rises.

    Parameters
    ----------
    smooth : callable
        ``smooth(E)`` returns f, its slope, and a positive diagonal that resembles its curvature
        up to a factor (any shape that broadcasts).
    start : ndarray
        First E.
    lam : float
        The weight λ.
    first_step : callable
        ``first_step(slope)`` is the length of the first step along the slope.
    tol : float
        Tolerance on the length of the proximal gradient, relative to `lam` and the root of the
        number of entries.
    max_iter : int
        Maximum number of iterations.
    task : str
        What progress is reported as.

    Returns
    -------
    SolverResult
        `info` holds the ``objective`` of every iterate.
    """
    E = start
    value, slope, diagonal = smooth(E)
    cost = value + lam * np.abs(E).sum()
    model = _Curvature(first_step(slope))
    objective = []
    for n_iter in range(1, max_iter + 1):
        moved = _descend(smooth, E, cost, slope, diagonal, lam, model)
        if moved is not None:
            candidate, cost, new_slope, diagonal = moved
            model.learn(candidate - E, new_slope - slope)
            E, slope = candidate, new_slope
        objective.append(cost)
        rest = E - soft_threshold(E - model.step * slope, model.step * lam)
        optimality = np.linalg.norm(rest) / (model.step * lam * np.sqrt(E.size))
        report(task, n_iter, max_iter)
        # Where no step lowers the cost, rounding hides what is left to gain: no use to go on.
        if optimality <= tol or moved is None:
            report(task, max_iter, max_iter)
            break
    info = {"objective": objective}
    return SolverResult(E, float(optimality), n_iter, bool(optimality <= tol), info)


def _descend(smooth, E, cost, slope, diagonal, lam, model):
    """One step that lowers the cost: the new E, cost, slope and diagonal, or None."""
    # The steepest way down of the whole cost, zero where an entry should stay at zero.
    steepest = np.where(E != 0, slope + lam * np.sign(E), soft_threshold(slope, lam))
    if not steepest.any():
        return None
    sides = np.where(E != 0, np.sign(E), -np.sign(steepest))
    for direction in model.directions(steepest, diagonal):
        # Only entries that go downhill by themselves move.
        direction *= direction * steepest < 0
        length = 1.0
        for _ in range(_MAX_SHRINKS):
            candidate = E + length * direction
            candidate *= candidate * sides > 0
            value, new_slope, new_diagonal = smooth(candidate)
            value += lam * np.abs(candidate).sum()
            if value <= cost + _DECREASE * np.vdot(steepest, candidate - E) and value < cost:
                return candidate, value, new_slope, new_diagonal
            length *= _SHRINK
        model.forget()
    return None


class _Curvature:
    """Inverse curvature of the last steps (L-BFGS), and the step of Barzilai and Borwein."""

    def __init__(self, step):
        self.step = step
        self.pairs: deque = deque(maxlen=_MEMORY)

    def learn(self, move, change):
        """Remember a step and how the slope changed along it."""
        curvature = np.vdot(move, change)
        if curvature > _MIN_CURVATURE * np.linalg.norm(move) * np.linalg.norm(change):
            self.pairs.append((move, change, curvature))
            ratio = np.vdot(move, move) / curvature
            self.step = float(np.clip(ratio, self.step / _MAX_CHANGE, self.step * _MAX_CHANGE))

    def forget(self):
        self.pairs.clear()

    def directions(self, steepest, diagonal):
        """Yield the quasi-Newton direction, and if that fails the one against the slope."""
        if self.pairs:
            yield self._quasi_newton(steepest, diagonal)
        yield -self.step * steepest

    def _quasi_newton(self, steepest, diagonal):
        direction, shares = -steepest, []
        for move, change, curvature in reversed(self.pairs):
            shares.append(np.vdot(move, direction) / curvature)
            direction -= shares[-1] * change
        _, change, curvature = self.pairs[-1]
        direction *= (curvature / np.vdot(change, change / diagonal)) / diagonal
        for (move, change, curvature), share in zip(self.pairs, reversed(shares), strict=True):
            direction += (share - np.vdot(change, direction) / curvature) * move
        return direction
