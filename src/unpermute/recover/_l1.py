r"""Least absolute deviations, solved exactly.

.. math:: \min_x \|y - U x\|_1 \;=\; \max_z \{ y^\top z : U^\top z = 0,\ \|z\|_\infty \le 1 \} .

Choose it when most entries are in place and neither the noise nor the share of moved entries is
known: without noise it finds the coefficients exactly as long as few enough entries moved, and
needs no parameter. It does not use that the moved values are still there; where many moved,
``search`` succeeds long after this does not. Its coefficients are the usual start of other methods.

The minimum is attained where r entries are fitted exactly. The solver walks from one such vertex
to the next along the edge of steepest descent, each time through as many breakpoints as keep
the cost falling (Barrodale & Roberts). The signs of the residuals, with the r multipliers of the
fitted entries, are the dual point z; scaled into the box they prove a lower bound, and the
solution counts as converged when cost and bound differ by at most 1e-6 of the cost.

References
----------
Barrodale & Roberts, "An improved algorithm for discrete l1 linear approximation", SIAM Journal on
Numerical Analysis, 1973, doi:10.1137/0710069.
Slawski & Ben-David, "Linear regression with sparsely permuted data", Electronic Journal of
Statistics 13(1), 2019.
"""

import numpy as np
from numba import njit

from unpermute.numerics.parallel import map_blocks
from unpermute.numerics.result import warn_not_converged
from unpermute.recover._problem import RecoverySolution

__all__ = ["l1", "l1_coefficients"]

_TOLERANCE = 1e-6
# Share of ‖y‖₁ below which the cost counts as zero: the gap is then relative to this share.
_NEGLIGIBLE = 1e-8
# Vertices visited before giving up, per coefficient and entry; a tenth of it is never needed.
_PIVOTS_PER_SIZE = 20
# The entries are first moved apart by this share of the largest: without noise many vertices are
# one point, and the walk could circle between them. The second walk is on the entries as they are.
_PERTURBATIONS = (1e-10, 0.0)


def l1(problem):
    """Solve a :class:`RecoveryProblem` by least absolute deviations.

    Parameters
    ----------
    problem : RecoveryProblem
        Missing entries are left out; the blocks are not used.

    Returns
    -------
    RecoverySolution
        ``info["gap"]`` is the relative duality gap of every vector and ``info["cost"]`` its
        :math:`\\|y - Ux\\|_1`. Converged where the gap is at most 1e-6 and there are at least as
        many entries as coefficients.
    """
    coefficients, gap, cost = l1_coefficients(problem.centred, problem.basis, n_jobs=problem.n_jobs)
    if np.any(gap > _TOLERANCE):
        warn_not_converged(
            f"least absolute deviations of {np.sum(gap > _TOLERANCE)} of {len(gap)} vectors",
            gap.max(),
            _TOLERANCE,
            "scale the vectors, or use method='lsrf'",
        )
    determined = np.sum(~np.isnan(problem.centred), axis=1) >= problem.basis.shape[1]
    return RecoverySolution(
        coefficients, (gap <= _TOLERANCE) & determined, {"gap": gap, "cost": cost}
    )


def l1_coefficients(Y, basis, *, n_jobs=None):
    """Least-absolute-deviations coefficients of every vector, without warnings.

    Parameters
    ----------
    Y : ndarray of shape (n_vectors, n_features)
        Vectors; NaN entries are left out.
    basis : ndarray of shape (n_features, rank)
        Need not be orthonormal.
    n_jobs : int, default=None
        Threads; the result does not depend on it.

    Returns
    -------
    coefficients : ndarray of shape (n_vectors, rank)
        A vertex of the problem; coefficients that no entry determines are zero.
    gap : ndarray of shape (n_vectors,)
        Relative duality gap.
    cost : ndarray of shape (n_vectors,)
        Sum of absolute residuals.
    """
    n, rank = len(Y), basis.shape[1]
    coefficients, gap, cost = np.empty((n, rank)), np.empty(n), np.empty(n)
    perturbations = np.array(_PERTURBATIONS)

    def run(start, stop):
        part = slice(start, stop)
        _solve_all(Y[part], basis, perturbations, coefficients[part], gap[part], cost[part])

    map_blocks(run, n, block=64, stage="recover", n_jobs=n_jobs)
    return coefficients, gap, cost


@njit(cache=True, nogil=True, error_model="numpy")
def _solve_all(Y, basis, perturbations, coefficients, gap, cost):
    """Solve for every row of Y. Writes into the last three arguments."""
    n_features, rank = basis.shape
    # Rows from n_features on are the coefficients themselves, at no cost: the walk starts there.
    rows = np.zeros((n_features + rank, rank))
    values = np.empty(n_features + rank)
    for j in range(len(Y)):
        # A plain 0 would have numba compile everything below once more for the constant.
        size = np.int64(0)
        for i in range(n_features):
            if not np.isnan(Y[j, i]):
                for a in range(rank):
                    rows[size, a] = basis[i, a]
                values[size] = Y[j, i]
                size += 1
        for a in range(rank):
            for b in range(rank):
                rows[size + a, b] = 1.0 if a == b else 0.0
            values[size + a] = 0.0
        gap[j], cost[j] = _solve_one(
            rows[: size + rank], values[: size + rank], size, perturbations, coefficients[j]
        )


@njit(cache=True, nogil=True, error_model="numpy")
def _solve_one(rows, values, size, perturbations, x):
    """Walk to the best vertex; x becomes the solution. Returns relative gap and cost."""
    rank = len(x)
    largest, total = 0.0, 0.0
    for i in range(size):
        largest = max(largest, abs(values[i]))
        total += abs(values[i])
    x.fill(0.0)
    if total == 0.0:
        return 0.0, 0.0
    vertex, inverse = np.empty(rank, dtype=np.int64), np.empty((rank, rank))
    sign, shifted = np.empty(len(values)), values.copy()
    gap, cost = np.inf, total
    for perturbation in perturbations:
        for a in range(rank):
            vertex[a] = size + a
            for b in range(rank):
                inverse[a, b] = 1.0 if a == b else 0.0
        for i in range(size):
            # Fractional parts of multiples of the golden ratio: all different, evenly spread.
            spread = (0.6180339887498949 * (i + 1)) % 1.0
            shifted[i] = values[i] + perturbation * largest * (0.5 + spread)
        _walk(rows, shifted, size, vertex, inverse, sign)
        _polish(rows, vertex, inverse)
        _fit_vertex(values, vertex, inverse, x)
        gap, cost = _duality_gap(rows, values, size, vertex, inverse, sign, x, total)
        if gap <= _TOLERANCE:
            break
    if not np.isfinite(cost):
        x.fill(0.0)
        return np.inf, total
    return gap, cost


@njit(cache=True, nogil=True, error_model="numpy")
def _walk(rows, values, size, vertex, inverse, sign):
    """Exchange one fitted entry at a time until no edge descends. Changes the last three."""
    rank = len(vertex)
    residual = np.empty(len(values))
    along = np.empty(len(values))
    breaks = np.empty(size)
    order = np.empty(size, dtype=np.int64)
    inside = np.zeros(len(values), dtype=np.bool_)
    x, slope = np.empty(rank), np.empty(rank)
    stuck = np.zeros(rank, dtype=np.bool_)
    for a in range(rank):
        inside[vertex[a]] = True
    for pivot in range(_PIVOTS_PER_SIZE * (size + rank)):
        if pivot % 64 == 0:
            _restart(rows, values, size, vertex, inverse, inside, x, residual, sign, pivot == 0)
        leaving = _steepest_edge(rows, size, vertex, inverse, inside, sign, slope, stuck)
        if leaving < 0:
            break
        costs = vertex[leaving] < size
        entering, step = _long_step(
            *(rows, size, inverse, leaving, slope[leaving], costs, inside, residual),
            *(sign, along, breaks, order),
        )
        if entering < 0:
            # No entry depends on this coefficient: it keeps its value.
            stuck[leaving] = True
            continue
        for i in range(size):
            residual[i] -= step * along[i]
        left = vertex[leaving]
        if left < size:
            residual[left] = -step * along[left]
            sign[left] = 1.0 if along[left] < 0.0 else -1.0
        inside[left], inside[entering] = False, True
        residual[entering] = 0.0
        vertex[leaving] = entering
        _exchange(rows, inverse, leaving, entering)


@njit(cache=True, nogil=True, error_model="numpy")
def _restart(rows, values, size, vertex, inverse, inside, x, residual, sign, fresh):
    """Remove the rounding the exchanges left; with `fresh`, take the signs from the residuals."""
    _polish(rows, vertex, inverse)
    _fit_vertex(values, vertex, inverse, x)
    for i in range(size):
        fitted = 0.0
        for a in range(len(x)):
            fitted += rows[i, a] * x[a]
        residual[i] = 0.0 if inside[i] else values[i] - fitted
        if fresh or residual[i] * sign[i] < 0.0:
            sign[i] = 1.0 if residual[i] >= 0.0 else -1.0


@njit(cache=True, nogil=True, error_model="numpy")
def _polish(rows, vertex, inverse):
    """One Newton step X ← X(2I − BX) towards the inverse of the fitted rows B."""
    rank = len(vertex)
    defect = np.empty((rank, rank))
    for a in range(rank):
        for b in range(rank):
            total = 2.0 if a == b else 0.0
            for k in range(rank):
                total -= rows[vertex[a], k] * inverse[k, b]
            defect[a, b] = total
    line = np.empty(rank)
    for a in range(rank):
        for b in range(rank):
            total = 0.0
            for k in range(rank):
                total += inverse[a, k] * defect[k, b]
            line[b] = total
        for b in range(rank):
            inverse[a, b] = line[b]


@njit(cache=True, nogil=True, error_model="numpy")
def _fit_vertex(values, vertex, inverse, x):
    """Coefficients that fit the entries of the vertex exactly."""
    for a in range(len(x)):
        x[a] = 0.0
        for k in range(len(x)):
            x[a] += inverse[a, k] * values[vertex[k]]


@njit(cache=True, nogil=True, error_model="numpy")
def _steepest_edge(rows, size, vertex, inverse, inside, sign, slope, stuck):
    """Which fitted entry to release: the one with the fastest descent per unit length, or −1.

    Writes into `slope` the derivative of the cost of the other entries along each column of the
    inverse; releasing an entry costs 1 (0 for a coefficient), so an edge descends when its slope
    exceeds that.
    """
    rank = len(vertex)
    gradient = np.zeros(rank)
    for i in range(size):
        if not inside[i]:
            for a in range(rank):
                gradient[a] += sign[i] * rows[i, a]
    best, leaving = 0.0, -1
    for k in range(rank):
        slope[k], squares = 0.0, 0.0
        for a in range(rank):
            slope[k] += inverse[a, k] * gradient[a]
            squares += inverse[a, k] * inverse[a, k]
        descent = abs(slope[k]) - (1.0 if vertex[k] < size else 0.0)
        if descent > 1e-10 * (1.0 + abs(slope[k])) and not stuck[k]:
            # Coefficients first: only when all have gone is the vertex one of the problem.
            rate = descent / np.sqrt(squares) + (1e12 if vertex[k] >= size else 0.0)
            if rate > best:
                best, leaving = rate, k
    return leaving


@njit(cache=True, nogil=True, error_model="numpy")
def _long_step(
    rows, size, inverse, leaving, slope, costs, inside, residual, sign, along, breaks, order
):
    """Follow the edge through its breakpoints while the cost falls. Returns entry and step.

    Writes into `along` the rate at which every fitted value changes.
    """
    rank = inverse.shape[0]
    direction = 1.0 if slope > 0.0 else -1.0
    descent = abs(slope) - (1.0 if costs else 0.0)
    n_breaks, largest = 0, 0.0
    for i in range(size):
        total = 0.0
        for a in range(rank):
            total += rows[i, a] * inverse[a, leaving]
        along[i] = direction * total
        largest = max(largest, abs(total))
    for i in range(size):
        if not inside[i] and along[i] * sign[i] > 1e-9 * largest:
            breaks[n_breaks] = max(residual[i] / along[i], 0.0)
            order[n_breaks] = i
            n_breaks += 1
    for root in range(n_breaks // 2 - 1, -1, -1):
        _sift_down(breaks, order, n_breaks, root)
    entering, step = -1, 0.0
    while n_breaks > 0:
        entering, step = order[0], breaks[0]
        descent -= 2.0 * abs(along[entering])
        if descent <= 0.0:
            break
        sign[entering] = -sign[entering]
        n_breaks -= 1
        breaks[0], order[0] = breaks[n_breaks], order[n_breaks]
        _sift_down(breaks, order, n_breaks, 0)
    return entering, step


@njit(cache=True, nogil=True, error_model="numpy")
def _sift_down(keys, items, size, root):
    """Restore the heap (smallest key first) below `root`."""
    while 2 * root + 1 < size:
        child = 2 * root + 1
        if child + 1 < size and keys[child + 1] < keys[child]:
            child += 1
        if keys[root] <= keys[child]:
            break
        keys[root], keys[child] = keys[child], keys[root]
        items[root], items[child] = items[child], items[root]
        root = child


@njit(cache=True, nogil=True, error_model="numpy")
def _exchange(rows, inverse, leaving, entering):
    """Update the inverse after row `leaving` of the vertex became `entering`."""
    rank = inverse.shape[0]
    pivot = 0.0
    for a in range(rank):
        pivot += rows[entering, a] * inverse[a, leaving]
    for a in range(rank):
        inverse[a, leaving] /= pivot
    for k in range(rank):
        if k != leaving:
            share = 0.0
            for a in range(rank):
                share += rows[entering, a] * inverse[a, k]
            for a in range(rank):
                inverse[a, k] -= share * inverse[a, leaving]


@njit(cache=True, nogil=True, error_model="numpy")
def _duality_gap(rows, values, size, vertex, inverse, sign, x, total):
    """Relative gap between the cost of x and the bound proved by the signs; and the cost."""
    rank = len(x)
    dual = sign.copy()
    for k in range(rank):
        dual[vertex[k]] = 0.0
    gradient = np.zeros(rank)
    for i in range(size):
        for a in range(rank):
            gradient[a] += dual[i] * rows[i, a]
    largest = 1.0
    for k in range(rank):
        multiplier = 0.0
        for a in range(rank):
            multiplier -= inverse[a, k] * gradient[a]
        if vertex[k] < size:
            dual[vertex[k]] = multiplier
            largest = max(largest, abs(multiplier))
    cost, bound = 0.0, 0.0
    for i in range(size):
        residual = values[i]
        for a in range(rank):
            residual -= rows[i, a] * x[a]
        cost += abs(residual)
        bound += dual[i] / largest * residual
    return max(cost - bound, 0.0) / max(cost, _NEGLIGIBLE * total), cost
