r"""Least squares with elimination of the worst-fitting entries.

Given an orthonormal basis :math:`U` and a vector :math:`y` of which some entries were shuffled:
fit :math:`\hat x = \arg\min_x \|y_K - U_K x\|_2` on the kept entries :math:`K`, drop the entries
with the largest :math:`|y_i - (U\hat x)_i|`, repeat. Stage 3 of the paper stops halfway and looks
at the angle that remains (Algorithm 2); stage 4 (LSRF of UPCA) goes on until r + 1 entries remain
and keeps the coefficients. Both stop once the kept entries fit exactly, where the order of the
residuals is that of rounding errors, and neither drops an entry without which the others would no
longer determine the coefficients.

Numbers of equations in the comments are those of Xie & Fan.

References
----------
Xie & Fan, "Multi-subspace matrix recovery from permuted data", AAAI 2025.
Yao, Peng & Tsakiris, "Unlabeled principal component analysis", NeurIPS 2021.
"""

import numpy as np
from numba import njit

from unpermute.numerics.parallel import map_blocks

__all__ = [
    "add_outer",
    "dot",
    "eliminate",
    "elimination_schedule",
    "solve_positive_definite",
]

# A pivot below this share of the trace of the Gram matrix is what rounding leaves of zero: the
# squares of up to thousands of entries are added and subtracted again.
_NO_INFORMATION = 1e-12
# Residuals below this share of the largest kept entry are rounding.
_EXACT_FIT = 1e-12


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
    # Line 1 of Algorithm 2: Σ m_i = ⌊(M − r)(1 − γ)⌋, with m_i descending.
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
        Entries to drop in each step. Never fewer than ``rank + 1`` entries are kept, and none is
        dropped that is the only one to determine a direction or once the rest fit exactly.
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
    determined : ndarray of bool of shape (n_vectors,)
        Whether the entries that remain determine the coefficients. Where they do not, coefficients
        without information are 0.
    """
    basis = np.ascontiguousarray(basis)
    n, rank = len(Y), basis.shape[1]
    coefficients, distance = np.empty((n, rank)), np.empty(n)
    determined = np.empty(n, dtype=np.bool_)

    def run(start, stop):
        part = slice(start, stop)
        out = coefficients[part], distance[part], determined[part]
        _eliminate(Y[part], basis, schedule, *out)

    map_blocks(run, n, block=64, stage=stage, n_jobs=n_jobs)
    return coefficients, distance, determined


@njit(cache=True, nogil=True, error_model="numpy")
def _eliminate(Y, basis, schedule, coefficients, distance, determined):
    """Run the elimination for every row of Y. Writes into the last three arguments."""
    n_features, rank = basis.shape
    rows = np.empty((n_features, rank))
    y, residual = np.empty(n_features), np.empty(n_features)
    gram, factor, work = np.empty((rank, rank)), np.empty((rank, rank)), np.empty(rank)
    for j in range(len(Y)):
        size = _gather(Y[j], basis, rows, y)  # ν⁽⁰⁾ = y and B⁽⁰⁾ = U, observed entries only
        floor = _fill_gram(rows, size, gram)
        x = coefficients[j]
        for step in range(len(schedule) + 1):
            missing = _cholesky(gram, floor, np.inf, factor)
            x.fill(0.0)
            # Eq. (6): ν̂ = B B† ν, and the residual ν − ν̂ of Eq. (7)
            _least_squares_step(rows, y, size, factor, x, residual, work)
            if step == len(schedule) or size <= rank + 1 or _fits_exactly(y, residual, size):
                break
            count = min(schedule[step], size - rank - 1)
            # Eq. (7): the largest m_i entries of |ν − ν̂| leave ν and B.
            kept = _drop_worst(rows, y, residual, size, count, gram, factor, floor, work)
            if kept == size:
                break
            size = kept
        # Once more on the residual: as accurate as an orthogonal factorisation (Björck 1987).
        _least_squares_step(rows, y, size, factor, x, residual, work)
        # Eq. (5): d = 1 − cos(ν, B B† ν)
        distance[j] = _cosine_distance(rows, y, size, x)
        determined[j] = missing == 0


@njit(cache=True, nogil=True, error_model="numpy")
def _gather(values, basis, rows, y):
    """Copy the observed entries and their rows of the basis; return how many there are."""
    size = 0
    for i in range(len(values)):
        if not np.isnan(values[i]):
            _copy(basis[i], rows[size])
            y[size] = values[i]
            size += 1
    return size


@njit(cache=True, nogil=True, error_model="numpy")
def _fill_gram(rows, size, gram):
    """Gram matrix of the rows; return the size of a pivot that carries no information.

    The size follows from all rows: what is left after dropping some may be nothing but rounding.
    """
    gram.fill(0.0)
    for i in range(size):
        add_outer(gram, rows[i], 1.0)
    floor = 1e-300
    for a in range(len(gram)):
        floor += _NO_INFORMATION * gram[a, a]
    return floor


@njit(cache=True, nogil=True, error_model="numpy")
def _least_squares_step(rows, y, size, factor, x, residual, step):
    """Add to x the least-squares solution for the current residual; update the residual."""
    rank = len(x)
    for i in range(size):
        residual[i] = y[i] - dot(rows[i], x)
    step.fill(0.0)
    for i in range(size):
        for a in range(rank):
            step[a] += rows[i, a] * residual[i]
    _solve_factored(factor, step)
    for a in range(rank):
        x[a] += step[a]
    for i in range(size):
        residual[i] = y[i] - dot(rows[i], x)


@njit(cache=True, nogil=True, error_model="numpy")
def solve_positive_definite(gram, b):
    """Solve gram x = b in place by Cholesky; directions without information are damped."""
    factor = np.empty_like(gram)
    floor = 1e-300
    for a in range(len(b)):
        floor += 1e-14 * gram[a, a]
    _cholesky(gram, floor, floor, factor)
    _solve_factored(factor, b)


@njit(cache=True, nogil=True, error_model="numpy")
def _cholesky(gram, floor, substitute, factor):
    """Write the lower Cholesky factor; return how many pivots were not above `floor`.

    Those are replaced: by a small positive number to damp their coordinates, by infinity to set
    them to zero in every solution.
    """
    replaced = 0
    for a in range(len(gram)):
        for c in range(a):
            total = gram[a, c]
            for k in range(c):
                total -= factor[a, k] * factor[c, k]
            factor[a, c] = total / factor[c, c]
        pivot = gram[a, a]
        for k in range(a):
            pivot -= factor[a, k] * factor[a, k]
        if not pivot > floor:
            pivot = substitute
            replaced += 1
        factor[a, a] = np.sqrt(pivot)
    return replaced


@njit(cache=True, nogil=True, error_model="numpy")
def _solve_factored(factor, b):
    """Solve factor factorᵀ x = b in place."""
    rank = len(b)
    _forward(factor, b)
    for a in range(rank - 1, -1, -1):
        for k in range(a + 1, rank):
            b[a] -= factor[k, a] * b[k]
        b[a] /= factor[a, a]


@njit(cache=True, nogil=True, error_model="numpy")
def _forward(factor, b):
    """Solve factor x = b in place."""
    for a in range(len(b)):
        for k in range(a):
            b[a] -= factor[a, k] * b[k]
        b[a] /= factor[a, a]


@njit(cache=True, nogil=True, error_model="numpy")
def _fits_exactly(y, residual, size):
    """Whether only rounding is left of the residual."""
    worst, scale = 0.0, 0.0
    for i in range(size):
        worst = max(worst, abs(residual[i]))
        scale = max(scale, abs(y[i]))
    return worst <= _EXACT_FIT * scale


@njit(cache=True, nogil=True, error_model="numpy")
def _drop_worst(rows, y, residual, size, count, gram, factor, floor, work):
    """Remove the `count` entries with the largest residuals; return how many entries remain.

    Entries without which the others would determine fewer coefficients are passed over.
    """
    # Dropping rows whose leverages add up to less than 1 leaves every direction some information.
    # Only beyond that the factor has to be computed anew.
    spent, missing = 0.0, _count_infinite(factor)
    while count > 0:
        worst_first = _worst_first(residual, size, count)
        if len(worst_first) == 0:
            break
        for i in worst_first:
            _copy(rows[i], work)
            _forward(factor, work)
            spent += dot(work, work)
            add_outer(gram, rows[i], -1.0)
            if spent > 0.99:
                spent = 0.0
                if _cholesky(gram, floor, np.inf, factor) > missing:
                    add_outer(gram, rows[i], 1.0)
                    _cholesky(gram, floor, np.inf, factor)
                    residual[i] = 0.0
                    continue
            residual[i] = np.inf
            count -= 1
        size = _close_gaps(rows, y, residual, size)
    return size


@njit(cache=True, nogil=True, error_model="numpy")
def _worst_first(residual, size, count):
    """Up to `count` entries with the largest residuals other than zero, in descending order."""
    if count == 1:  # most steps on short vectors
        worst = _argmax_abs(residual, size)
        return np.full(int(residual[worst] != 0.0), worst)
    chosen, n = np.empty(size, dtype=np.int64), 0
    limit = np.partition(np.abs(residual[:size]), size - count)[size - count]
    for i in range(size):
        if residual[i] != 0.0 and abs(residual[i]) >= limit:
            chosen[n] = i
            n += 1
    chosen = chosen[:n]
    return chosen[np.argsort(-np.abs(residual[chosen]))][:count]


@njit(cache=True, nogil=True, error_model="numpy")
def _close_gaps(rows, y, residual, size):
    """Let the last entries fill the places of infinite residuals; return how many remain."""
    i = 0
    while i < size:
        if residual[i] < np.inf:
            i += 1
            continue
        size -= 1
        if i < size:
            _copy(rows[size], rows[i])
            y[i] = y[size]
            residual[i] = residual[size]
    return size


@njit(cache=True, nogil=True, error_model="numpy")
def _argmax_abs(values, size):
    best = 0
    for i in range(1, size):
        if abs(values[i]) > abs(values[best]):
            best = i
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def _count_infinite(factor):
    count = 0
    for a in range(len(factor)):
        if np.isinf(factor[a, a]):
            count += 1
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def add_outer(gram, row, weight):
    """Add weight · row rowᵀ to gram."""
    for a in range(len(row)):
        for c in range(len(row)):
            gram[a, c] += weight * row[a] * row[c]


@njit(cache=True, nogil=True, error_model="numpy")
def _copy(source, target):
    # Assigning rows (target[:] = source) takes numba seconds to compile.
    for i in range(len(source)):
        target[i] = source[i]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"}, error_model="numpy")
def dot(a, b):
    """Inner product of two vectors."""
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _cosine_distance(rows, y, size, x):
    """1 − cos = ρ / (1 + √(1 − ρ)) with ρ the squared relative residual: no cancellation."""
    error, length = 0.0, 0.0
    for i in range(size):
        error += (y[i] - dot(rows[i], x)) ** 2
        length += y[i] ** 2
    if length == 0.0:
        return 0.0
    share = min(error / length, 1.0)
    return share / (1.0 + np.sqrt(1.0 - share))
