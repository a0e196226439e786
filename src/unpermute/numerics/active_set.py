r"""Exact solution of one elastic net on an active set: the kernels of self-representation.

.. math:: \min_c \; t\|c\|_1 + \tfrac{\delta}{2}\|c\|_2^2
          + \tfrac12\|x_j - \textstyle\sum_i c_i x_i\|_2^2

over a working set: one violator enters at a time, the problem on the active set is solved through
an updated Cholesky factor, coefficients that would change sign leave. All functions are numba
kernels; the diagonal of `factor` holds reciprocals.

Large coefficients that cancel leave a residual with few right digits. `settle` and `enter` are for
such problems: each step is one of Newton from a gradient computed in twice the precision, so that
the rounding of float64 slows the steps down but does not limit what they reach.
"""

import numpy as np
from numba import njit

from unpermute.numerics.double_double import add, double_dot, double_residual, product

__all__ = ["DONE", "FAST", "FULL", "RUNNING", "dot", "enter", "local_search", "settle"]

RUNNING, DONE, FULL = 0, 1, 2
# Active sets from this size on take several violators at once: those with this share of the worst
# violation, or more.
MANY, COMPANY = 48, 0.5
# Sums may be reordered (for SIMD); NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "nsz", "arcp"}


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def local_search(
    X, j, residual, threshold, ridge, limit, active, sign, coef, inner, factor, size, candidates
):
    """Add candidates one at a time, worst first, until none violates. Changes its arrays in place.

    Works on inner products alone: `cross[c, a]` of candidate c with active a. Returns the status
    and the new size of the active set.
    """
    status = RUNNING
    trial = np.empty(len(active))
    n_candidates = len(candidates)
    cross = np.empty((n_candidates, len(active)))
    target = np.empty(n_candidates)
    inside = np.zeros(n_candidates, dtype=np.bool_)
    for c in range(n_candidates):
        target[c] = dot(X[candidates[c]], X[j])
    for a in range(size):
        for c in range(n_candidates):
            cross[c, a] = dot(X[candidates[c]], X[active[a]])
    values = np.empty(n_candidates)
    blocked = -1
    # The bound only cuts off cycles within the rounding; the next global check goes on from there.
    for _ in range(8 * n_candidates):
        worst, entering = limit, -1
        for c in range(n_candidates):
            values[c] = 0.0
            if inside[c] or c == blocked:
                continue
            correlation = target[c]
            for a in range(size):
                correlation -= cross[c, a] * coef[a]
            values[c] = correlation
            if abs(correlation) > worst:
                worst, entering = abs(correlation), c
        if entering < 0:
            break
        if size == len(active):
            status = FULL
            break
        # Where a solve is dear, those nearly as bad enter with the worst.
        bar = worst if size < MANY else max(limit, COMPANY * (worst - limit) + limit)
        for c in range(n_candidates):
            if abs(values[c]) >= bar and size < len(active):
                i = candidates[c]
                _append(X, ridge, i, values[c], target[c], cross[c], active, sign, coef, inner,
                        factor, size)  # fmt: skip
                for other in range(n_candidates):
                    cross[other, size] = dot(X[candidates[other]], X[i])
                size += 1
        size = _descend(threshold, active, sign, coef, inner, factor, size, trial, cross)
        for c in range(n_candidates):
            inside[c] = _position(active, size, candidates[c]) >= 0
        # A violation below the rounding of the solve comes out at once: do not try it again.
        if not inside[entering]:
            blocked = entering
    _update_residual(X, j, active, coef, size, residual)
    return status, size


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def dot(a, b):
    """Inner product of two vectors."""
    total = 0.0
    for d in range(len(a)):
        total += a[d] * b[d]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _position(active, size, i):
    for a in range(size):
        if active[a] == i:
            return a
    return -1


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _append(X, ridge, i, correlation, target, cross, active, sign, coef, inner, factor, size):
    """Let vector i enter the active set: one new row of the Cholesky factor."""
    row = factor[size]
    squares = 0.0
    for a in range(size):
        total = cross[a]
        for b in range(a):
            total -= factor[a, b] * row[b]
        row[a] = total * factor[a, a]
        squares += row[a] * row[a]
    pivot = dot(X[i], X[i]) + ridge - squares
    row[size] = 1.0 / np.sqrt(max(pivot, 0.5 * ridge))
    active[size] = i
    sign[size] = 1.0 if correlation > 0 else -1.0
    coef[size] = 0.0
    inner[size] = target


@njit(cache=True, nogil=True, error_model="numpy")
def _descend(threshold, active, sign, coef, inner, factor, size, trial, cross):
    """Minimise on the active set; whatever would change its sign on the way leaves it."""
    while size > 0:
        for a in range(size):
            trial[a] = inner[a] - threshold * sign[a]
        _solve(factor, size, trial)
        step, leaving = 1.0, -1
        for a in range(size):
            if trial[a] * sign[a] <= 0.0:
                crossing = coef[a] / (coef[a] - trial[a]) if coef[a] != 0.0 else 0.0
                if leaving < 0 or crossing < step:
                    step, leaving = crossing, a
        for a in range(size):
            coef[a] += step * (trial[a] - coef[a])
        if leaving < 0:
            break
        size = _leave(active, sign, coef, inner, factor, size, leaving)
        for c in range(len(cross)):
            _close_gap(cross[c], leaving, size)
    return size


@njit(cache=True, nogil=True, error_model="numpy")
def _leave(active, sign, coef, inner, factor, size, leaving):
    """Take one out of the active set; return the size that is left."""
    _delete(factor, size, leaving)
    size -= 1
    for a in range(leaving, size):
        active[a] = active[a + 1]
        sign[a] = sign[a + 1]
        coef[a] = coef[a + 1]
        inner[a] = inner[a + 1]
    return size


@njit(cache=True, nogil=True, error_model="numpy")
def _close_gap(values, start, stop):
    for a in range(start, stop):
        values[a] = values[a + 1]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _solve(factor, size, b):
    """Solve L Lᵀ x = b in place; the diagonal of `factor` holds the reciprocals of L's."""
    for a in range(size):
        total = b[a]
        for c in range(a):
            total -= factor[a, c] * b[c]
        b[a] = total * factor[a, a]
    for a in range(size - 1, -1, -1):
        b[a] *= factor[a, a]
        for c in range(a):
            b[c] -= factor[a, c] * b[a]


@njit(cache=True, nogil=True, error_model="numpy")
def _delete(factor, size, p):
    """Remove row and column p of L Lᵀ: shift the rows up, restore the triangle by rotations.

    Row by row, each by all rotations of the rows above: columns would miss the cache every time.
    """
    cosine, sine = np.empty(size), np.empty(size)
    for a in range(p, size - 1):
        for c in range(p):
            factor[a, c] = factor[a + 1, c]
        entry = factor[a + 1, p]
        for q in range(p, a):
            following = factor[a + 1, q + 1]
            factor[a, q] = cosine[q] * entry + sine[q] * following
            entry = cosine[q] * following - sine[q] * entry
        last = 1.0 / factor[a + 1, a + 1]
        length = np.sqrt(entry * entry + last * last)
        cosine[a], sine[a] = entry / length, last / length
        factor[a, a] = 1.0 / length


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _update_residual(X, j, active, coef, size, residual):
    for d in range(len(residual)):
        residual[d] = X[j, d]
    for a in range(size):
        x, c = X[active[a]], coef[a]
        for d in range(len(residual)):
            residual[d] -= c * x[d]


@njit(cache=True, nogil=True, error_model="numpy")
def enter(X, j, ridge, i, correlation, active, sign, coef, inner, factor, size):
    """Let vector i, which has this correlation with the residual, enter the active set."""
    cross = np.empty(size)
    for a in range(size):
        cross[a] = dot(X[i], X[active[a]])
    target = dot(X[i], X[j])
    _append(X, ridge, i, correlation, target, cross, active, sign, coef, inner, factor, size)


@njit(cache=True, nogil=True, error_model="numpy")
def settle(
    X, j, threshold, ridge, accuracy, active, sign, coef, inner, factor, size, residual,
    residual_low,
):  # fmt: skip
    """Minimise on the active set in twice the precision, until the gradient is below `accuracy`.

    Changes its arrays in place; what changes its sign on the way leaves. Returns the size of the
    active set and the largest entry of the gradient.
    """
    low = np.zeros(len(active))
    step = np.empty(size)
    previous = np.inf
    while True:
        double_residual(X, j, active, coef, low, size, residual, residual_low)
        error = 0.0
        for a in range(size):
            correlation = double_dot(X[active[a]], residual, residual_low)
            step[a] = _gradient(correlation, threshold * sign[a], ridge, coef[a], low[a])
            error = max(error, abs(step[a]))
        # Not even halved: that is as far as this precision goes.
        if error <= accuracy or error > 0.5 * previous:
            return size, error
        previous = error
        _solve(factor, size, step)
        share, leaving = _first_crossing(sign, coef, step, size)
        for a in range(size):
            coef[a], low[a] = add(coef[a], low[a], share * step[a])
        if leaving >= 0:
            size = _leave(active, sign, coef, inner, factor, size, leaving)
            _close_gap(low, leaving, size)
            previous = np.inf


@njit(cache=True, nogil=True, error_model="numpy")
def _gradient(correlation, threshold, ridge, coef, low):
    """Correlation - ridge * (coef + low) - threshold, rounded once, at the end."""
    high, rest = add(correlation[0], correlation[1], -threshold)
    shrinkage, error = product(ridge, coef)
    return add(high, rest, -shrinkage, -error - ridge * low)[0]


@njit(cache=True, nogil=True, error_model="numpy")
def _first_crossing(sign, coef, step, size):
    """Share of the step up to the first change of sign, and whose it is (-1 if there is none)."""
    share, leaving = 1.0, -1
    for a in range(size):
        if (coef[a] + step[a]) * sign[a] <= 0.0:
            # Two that reach zero together: the second may be beyond it by its rounding.
            crossing = -coef[a] / step[a] if coef[a] * sign[a] > 0.0 else 0.0
            if leaving < 0 or crossing < share:
                share, leaving = crossing, a
    return share, leaving
