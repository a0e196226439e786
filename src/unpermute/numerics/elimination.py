r"""Least squares with elimination of the worst-fitting entries.

Given an orthonormal basis :math:`U` and a vector :math:`y` of which some entries were shuffled:
fit :math:`\hat x = \arg\min_x \|y_K - U_K x\|_2` on the kept entries :math:`K`, drop the entries
with the largest :math:`|y_i - (U\hat x)_i|`, repeat. Stage 3 of the paper stops halfway and looks
at the angle that remains (Algorithm 2); stage 4 (LSRF of UPCA) goes on until r + 1 entries remain
and keeps the coefficients.

References
----------
Xie & Fan, "Multi-subspace matrix recovery from permuted data", AAAI 2025.
Yao, Peng & Tsakiris, "Unlabeled principal component analysis", NeurIPS 2021.
"""

import numpy as np
from numba import njit

from unpermute.numerics.parallel import map_blocks

__all__ = ["eliminate", "elimination_schedule"]


def elimination_schedule(n_features, rank, *, retain_ratio, max_steps):
    """How many entries to drop in every step of Algorithm 2, in descending order.

    The total is ⌊(M − r)(1 − γ)⌋ with retain ratio γ; the running total follows a logarithm, so
    that gross errors go first and in bulk, and doubtful entries late and one by one.

    Examples
    --------
    >>> from unpermute.numerics.elimination import elimination_schedule
    >>> elimination_schedule(50, 5, retain_ratio=0.5, max_steps=50)
    array([5, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1])
    """
    total = int((n_features - rank) * (1 - retain_ratio))
    n_steps = min(max_steps, total)
    if n_steps == 0:
        return np.zeros(0, dtype=np.int64)
    running = total * np.log1p(np.arange(n_steps + 1)) / np.log1p(n_steps)
    counts = np.diff(np.round(running).astype(np.int64))
    return -np.sort(-counts[counts > 0])


def eliminate(Y, basis, schedule, *, stage, n_jobs=None):
    """Fit every vector of `Y` to `basis` while dropping its worst entries.

    Parameters
    ----------
    Y : ndarray of shape (n_vectors, n_features)
        Vectors; NaN entries are dropped from the start.
    basis : ndarray of shape (n_features, rank)
    schedule : ndarray of int
        Entries to drop in each step. Never fewer than ``rank + 1`` entries are kept.
    stage : str
        Name under which progress is reported.
    n_jobs : int or None
        Threads; the result does not depend on it.

    Returns
    -------
    coefficients : ndarray of shape (n_vectors, rank)
        Least-squares coefficients on the entries that remain.
    distance : ndarray of shape (n_vectors,)
        1 − cos of the angle between what remains of the vector and its projection, d_k of
        Algorithm 2.
    """
    n, rank = len(Y), basis.shape[1]
    coefficients, distance = np.empty((n, rank)), np.empty(n)

    def run(start, stop):
        _eliminate(Y[start:stop], basis, schedule, coefficients[start:stop], distance[start:stop])

    map_blocks(run, n, block=64, stage=stage, n_jobs=n_jobs)
    return coefficients, distance


@njit(cache=True, nogil=True)
def _eliminate(Y, basis, schedule, coefficients, distance):
    """Run the elimination for every row of Y. Writes into the last two arguments."""
    n_features, rank = basis.shape
    rows = np.empty((n_features, rank))
    y = np.empty(n_features)
    residual = np.empty(n_features)
    gram = np.empty((rank, rank))
    for j in range(len(Y)):
        size = 0
        for i in range(n_features):
            if not np.isnan(Y[j, i]):
                _copy(basis[i], rows[size])
                y[size] = Y[j, i]
                size += 1
        gram.fill(0.0)
        for i in range(size):
            _add_outer(gram, rows[i], 1.0)
        x = coefficients[j]
        for step in range(len(schedule) + 1):
            x.fill(0.0)
            _least_squares_step(rows, y, size, gram, x, residual)
            if step == len(schedule) or size <= rank + 1:
                break
            for _ in range(min(schedule[step], size - rank - 1)):
                size = _drop_worst(rows, y, residual, size, gram)
        # Once more on the residual: as accurate as an orthogonal factorisation (Björck 1987).
        _least_squares_step(rows, y, size, gram, x, residual)
        distance[j] = _cosine_distance(rows, y, size, x)


@njit(cache=True, nogil=True)
def _least_squares_step(rows, y, size, gram, x, residual):
    """Add to x the least-squares solution for the current residual; update the residual."""
    rank = len(x)
    for i in range(size):
        residual[i] = y[i] - _dot(rows[i], x)
    step = np.zeros(rank)
    for i in range(size):
        for a in range(rank):
            step[a] += rows[i, a] * residual[i]
    _solve_positive_definite(gram, step)
    for a in range(rank):
        x[a] += step[a]
    for i in range(size):
        residual[i] = y[i] - _dot(rows[i], x)


@njit(cache=True, nogil=True)
def _solve_positive_definite(gram, b):
    """Solve gram x = b in place by Cholesky; directions without information are damped."""
    rank = len(b)
    factor = np.zeros((rank, rank))
    floor = 1e-300
    for a in range(rank):
        floor += 1e-14 * gram[a, a]
    for a in range(rank):
        for c in range(a + 1):
            total = gram[a, c]
            for k in range(c):
                total -= factor[a, k] * factor[c, k]
            factor[a, c] = np.sqrt(max(total, floor)) if a == c else total / factor[c, c]
    for a in range(rank):
        for k in range(a):
            b[a] -= factor[a, k] * b[k]
        b[a] /= factor[a, a]
    for a in range(rank - 1, -1, -1):
        for k in range(a + 1, rank):
            b[a] -= factor[k, a] * b[k]
        b[a] /= factor[a, a]


@njit(cache=True, nogil=True)
def _drop_worst(rows, y, residual, size, gram):
    """Remove the entry with the largest residual; the last entry takes its place."""
    worst = 0
    for i in range(1, size):
        if abs(residual[i]) > abs(residual[worst]):
            worst = i
    _add_outer(gram, rows[worst], -1.0)
    last = size - 1
    _copy(rows[last], rows[worst])
    y[worst] = y[last]
    residual[worst] = residual[last]
    return last


@njit(cache=True, nogil=True)
def _add_outer(gram, row, weight):
    """Add weight · row rowᵀ to gram."""
    for a in range(len(row)):
        for c in range(len(row)):
            gram[a, c] += weight * row[a] * row[c]


@njit(cache=True, nogil=True)
def _copy(source, target):
    # Assigning rows (target[:] = source) takes numba seconds to compile.
    for i in range(len(source)):
        target[i] = source[i]


@njit(cache=True, nogil=True)
def _dot(a, b):
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@njit(cache=True, nogil=True)
def _cosine_distance(rows, y, size, x):
    """1 − cos = ρ / (1 + √(1 − ρ)) with ρ the squared relative residual: no cancellation."""
    error, length = 0.0, 0.0
    for i in range(size):
        error += (y[i] - _dot(rows[i], x)) ** 2
        length += y[i] ** 2
    if length == 0.0:
        return 0.0
    share = min(error / length, 1.0)
    return share / (1.0 + np.sqrt(1.0 - share))
