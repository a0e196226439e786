r"""Every vector by all others: n elastic nets that share one dictionary, solved exactly.

For every vector :math:`x_j` (rows of ``X``)

.. math:: \min_c \; \lambda\|c\|_1 + \tfrac{1-\lambda}{2}\|c\|_2^2
          + \tfrac{\gamma_j}{2}\|x_j - \textstyle\sum_i c_i x_i\|_2^2
          \quad\text{s.t. } c_j = 0,
          \qquad \gamma_j = \alpha\lambda / \max_{i \ne j} |\langle x_i, x_j\rangle| .

Dividing by :math:`\gamma_j` gives the form used below, with threshold :math:`t = \lambda/\gamma_j`
and ridge :math:`\delta = (1-\lambda)/\gamma_j`; its optimality (KKT) conditions are

.. math:: \langle x_i, r\rangle - \delta c_i = t\,\mathrm{sign}(c_i) \;(c_i \ne 0), \qquad
          |\langle x_i, r\rangle| \le t \;(c_i = 0), \qquad r = x_j - \textstyle\sum_i c_i x_i .

Each problem is solved by an active set: one violator enters at a time, the problem on the active
set is solved through an updated Cholesky factor, coefficients that would change sign leave. Where
an entry of the dictionary may violate the conditions is found for many problems at once by one
float32 matrix product; whatever lies within its rounding bound of the threshold is computed again
in float64, so that the certificate is a float64 one. No n x n matrix is ever formed.

Vectors with tiny inner products ask for tiny thresholds, and perhaps for large coefficients that
cancel: rounding them to float64 alone may move :math:`\langle x_i, r\rangle` by more than the
tolerance. Where that may be, the last steps and the certificate are computed in twice the
precision.

References
----------
You, Robinson & Vidal, "Provable self-representation based outlier detection in a union of
subspaces", CVPR 2017, doi:10.1109/CVPR.2017.460.
Lee, Battle, Raina & Ng, "Efficient sparse coding algorithms", NIPS 2006 (the sign-guided search).
"""

import numpy as np
from numba import njit
from scipy import sparse

from unpermute.numerics.active_set import (
    DONE,
    FAST,
    FULL,
    RUNNING,
    dot,
    enter,
    local_search,
    settle,
)
from unpermute.numerics.double_double import double_dot
from unpermute.numerics.parallel import map_blocks
from unpermute.numerics.result import SolverResult, warn_not_converged

__all__ = ["self_representation"]

# Vectors per task. Fixed, so that the arithmetic of a vector does not depend on `n_jobs`.
_CHUNK = 512
# Problems advanced together: enough rows to keep the matrix product efficient.
_SLOTS = 128
# Violators taken from one global check into the local search.
_CANDIDATES = 12
# Smallest ridge. At lambda = 1 duplicates make the active set singular; this keeps it solvable. Its
# part in the optimality conditions, ridge * c / t, is below the tolerance for vectors of usual
# scale, but damps coefficients in the thousands.
_MIN_RIDGE = 1e-10
_EPS = np.finfo(np.float64).eps
# Float64 is trusted with violations from this multiple of its rounding on.
_DISTINCT = 10.0
# In twice the precision the active set is solved to this share of the tolerance: an error on it
# can grow by 1 / sqrt(ridge) before it reaches the sign of the next one to enter.
_SETTLED_SHARE = 1e-8


def self_representation(
    X, *, l1_ratio=0.95, alpha=5.0, tol=1e-8, max_rounds=1000, n_jobs=None, stage="represent"
):
    """Represent every vector by all others with a sparse elastic net.

    Parameters
    ----------
    X : ndarray of shape (n_vectors, n_features)
        C-ordered float64, rows usually of length one. Zero rows are allowed.
    l1_ratio : float in (0, 1]
        The weight λ between the l1 (1) and the squared l2 norm (0).
    alpha : float
        Sets γ_j per vector; nothing is represented at or below 1, more is from there on.
    tol : float
        Tolerance on the optimality conditions, relative to λ.
    max_rounds : int
        Global checks per vector before it is given up (and reported as not converged).
    n_jobs : int or None
        Threads, as in joblib. The result is the same for every value.
    stage : str
        Name under which progress is reported.

    Returns
    -------
    SolverResult
        ``solution`` is a CSR array whose row j holds the coefficients of vector j (empty where
        nothing represents it); ``optimality`` the KKT residual of every vector relative to λ,
        of the coefficients before they are rounded to float64; ``info["gamma"]`` the weights γ_j
        (0 for vectors orthogonal to all others).
    """
    n = len(X)
    # Floats, whatever was given: numba would compile the kernels again for integers.
    l1_ratio, alpha, tol = float(l1_ratio), float(alpha), float(tol)
    X32 = X.astype(np.float32)
    longest = np.sqrt(np.einsum("ij,ij->i", X, X).max())

    def solve(start, stop):
        return _solve_chunk(X, X32, start, stop, longest, l1_ratio, alpha, tol, max_rounds)

    parts = map_blocks(solve, n, block=_CHUNK, stage=stage, n_jobs=n_jobs, pure=True)
    counts, indices, data, gamma, kkt, rounds = map(np.concatenate, zip(*parts, strict=True))
    indptr = np.concatenate([[0], np.cumsum(counts)])
    solution = sparse.csr_array((data, indices, indptr), shape=(n, n))
    solution.sort_indices()
    converged = kkt <= tol
    if not converged.all():
        warn_not_converged(
            f"The self-representation of {np.sum(~converged)} of {n} vectors",
            kkt.max(),
            tol,
            "raise max_rounds or lower alpha",
        )
    return SolverResult(solution, kkt, rounds, converged, {"gamma": gamma})


class _Pool:
    """State of the problems that are advanced together, one per slot."""

    def __init__(self, n_slots, n_vectors, n_features, capacity):
        self.target = np.full(n_slots, -1)
        self.threshold = np.zeros(n_slots)
        self.ridge = np.zeros(n_slots)
        self.size = np.zeros(n_slots, dtype=np.int64)
        self.status = np.zeros(n_slots, dtype=np.int64)
        self.exact = np.zeros(n_slots, dtype=bool)
        self.kkt = np.zeros(n_slots)
        self.residual = np.zeros((n_slots, n_features))
        self.residual32 = np.zeros((n_slots, n_features), dtype=np.float32)
        self.correlation = np.empty((n_slots, n_vectors), dtype=np.float32)
        self.active = np.zeros((n_slots, capacity), dtype=np.int64)
        self.sign = np.zeros((n_slots, capacity))
        self.coef = np.zeros((n_slots, capacity))
        self.inner = np.zeros((n_slots, capacity))
        self.factor = np.zeros((n_slots, capacity, capacity))

    def start(self, slots, targets, X):
        """Put new problems into slots."""
        self.target[slots] = targets
        self.size[slots] = 0
        self.exact[slots] = False
        self.threshold[slots] = -1.0
        self.residual[slots] = X[targets]
        self.residual32[slots] = X[targets]

    def finish(self, slots):
        """Empty slots; return targets, sizes, indices, coefficients, thresholds and residuals."""
        sizes = self.size[slots]
        used = np.arange(self.active.shape[1]) < sizes[:, None]
        targets = self.target[slots]
        self.target[slots] = -1
        solution = self.active[slots][used], self.coef[slots][used]
        return targets, sizes, *solution, self.threshold[slots], self.kkt[slots]

    def grow(self):
        """Double the room for active coefficients."""
        for name in ("active", "sign", "coef", "inner"):
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.zeros_like(old)], axis=1))
        k = self.factor.shape[1]
        self.factor = np.pad(self.factor, ((0, 0), (0, k), (0, k)))


def _solve_chunk(X, X32, start, stop, longest, l1_ratio, alpha, tol, max_rounds):
    """Solve the problems of vectors `start` to `stop`; a finished slot is refilled at once."""
    n_slots = min(_SLOTS, stop - start)
    pool = _Pool(n_slots, X.shape[0], X.shape[1], capacity=32)
    rounds = np.zeros(stop, dtype=np.int64)
    finished = []
    live, following = np.arange(n_slots), start + n_slots
    pool.start(live, np.arange(start, following), X)
    while len(live):
        np.matmul(pool.residual32[live], X32.T, out=pool.correlation[: len(live)])
        _advance(
            X, live, pool.correlation, pool.target, pool.threshold, pool.ridge, pool.size,
            pool.status, pool.exact, pool.kkt, pool.residual, pool.residual32, pool.active,
            pool.sign, pool.coef, pool.inner, pool.factor, longest, l1_ratio, alpha, tol,
        )  # fmt: skip
        rounds[pool.target[live]] += 1
        if np.any(pool.status[live] == FULL):
            pool.grow()
        exhausted = rounds[pool.target[live]] >= max_rounds
        done = live[(pool.status[live] == DONE) | exhausted]
        if len(done):
            finished.append(pool.finish(done))
            refilled = done[: stop - following]
            pool.start(refilled, np.arange(following, following + len(refilled)), X)
            following += len(refilled)
        live = np.flatnonzero(pool.target >= 0)
    targets, sizes, indices, data, threshold, kkt = map(np.concatenate, zip(*finished, strict=True))
    order = np.argsort(targets)
    by_row = np.argsort(np.repeat(targets, sizes), kind="stable")
    gamma = np.divide(l1_ratio, threshold, out=np.zeros_like(threshold), where=threshold > 0)
    return sizes[order], indices[by_row], data[by_row], gamma[order], kkt[order], rounds[start:]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _advance(
    X, live, correlation, target, threshold, ridge, size, status, exact, kkt, residual,
    residual32, active, sign, coef, inner, factor, longest, l1_ratio, alpha, tol,
):  # fmt: skip
    """Check every live slot globally, then solve it on its active set and worst violators.

    Changes all per-slot arrays in place.
    """
    n_features = X.shape[1]
    candidates = np.empty(_CANDIDATES, dtype=np.int64)
    for row in range(len(live)):
        s = live[row]
        j = target[s]
        status[s] = RUNNING
        correlation[row, j] = 0.0
        # |fl32(x.r) - x.r| <= (n_features + 2) eps |x||r|, two of them for casting x and r.
        length = np.sqrt(dot(residual[s], residual[s]))
        bound = np.float32((n_features + 4) * 6e-8 * longest * length)
        if threshold[s] < 0:
            largest = _largest(X, residual[s], correlation[row], bound, j)
            threshold[s] = largest / alpha
            ridge[s] = max(threshold[s] * (1 - l1_ratio) / l1_ratio, _MIN_RIDGE)
            if largest <= 1e-14:
                threshold[s] = 0.0
                kkt[s] = 0.0
                status[s] = DONE
                continue
        limit = threshold[s] * (1 + tol)
        if not exact[s]:
            n_candidates, worst = _violators(
                X, j, residual[s], correlation[row], bound, limit, active[s], size[s], candidates
            )
            kkt[s] = max(worst - threshold[s], 0.0) / threshold[s]
            rounding = _rounding(longest, n_features, coef[s], size[s]) / threshold[s]
            if max(kkt[s], tol) < _DISTINCT * rounding:
                exact[s] = True
            elif n_candidates == 0:
                error = _stationarity(
                    X, residual[s], threshold[s], ridge[s], active[s], sign[s], coef[s], size[s]
                )
                kkt[s] = max(kkt[s], error / threshold[s])
                if kkt[s] <= tol:
                    status[s] = DONE
                    continue
                # The factor lost digits when it was updated.
                exact[s] = True
        if exact[s]:
            status[s], size[s], kkt[s] = _advance_exactly(
                X, j, correlation[row], bound, threshold[s], ridge[s], tol, active[s], sign[s],
                coef[s], inner[s], factor[s], size[s], residual[s], residual32[s],
            )  # fmt: skip
        else:
            status[s], size[s] = local_search(
                X, j, residual[s], threshold[s], ridge[s], limit, active[s], sign[s], coef[s],
                inner[s], factor[s], size[s], candidates[:n_candidates],
            )  # fmt: skip
            # Violators that come out at once would do so in every round to come.
            exact[s] = not _round(residual[s], residual32[s]) and status[s] == RUNNING


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _rounding(longest, n_features, coef, size):
    """How far the rounding of float64 typically moves the inner products with the residual."""
    total = 1.0
    for a in range(size):
        total += abs(coef[a])
    return _EPS * np.sqrt(n_features) * longest * longest * total


@njit(cache=True, nogil=True, error_model="numpy")
def _advance_exactly(
    X, j, correlation, bound, threshold, ridge, tol, active, sign, coef, inner, factor, size,
    residual, residual32,
):  # fmt: skip
    """Solve on the active set in twice the precision, check globally, let the worst violator in.

    Changes its arrays in place; returns the status, the size of the active set and the KKT error.
    """
    residual_low = np.empty_like(residual)
    accuracy = _SETTLED_SHARE * tol * threshold
    size, error = settle(
        X, j, threshold, ridge, accuracy, active, sign, coef, inner, factor, size, residual,
        residual_low,
    )  # fmt: skip
    limit = threshold * (1 + tol)
    # The correlations are those of the residual as it was. If it moved, they exclude nothing.
    cut = -np.inf if _round(residual, residual32) else limit - bound
    entering, value = _worst_violator(
        X, j, residual, residual_low, correlation, cut, limit, 1e-6 * bound, active, size
    )
    kkt = max(error, abs(value) - threshold) / threshold
    if entering < 0:
        return DONE, size, kkt
    if size == len(active):
        return FULL, size, kkt
    enter(X, j, ridge, entering, value, active, sign, coef, inner, factor, size)
    size, _ = settle(
        X, j, threshold, ridge, accuracy, active, sign, coef, inner, factor, size + 1, residual,
        residual_low,
    )  # fmt: skip
    _round(residual, residual32)
    return RUNNING, size, kkt


@njit(cache=True, nogil=True, error_model="numpy")
def _round(residual, residual32):
    """Round the residual to float32; return whether that changed anything."""
    changed = False
    for d in range(len(residual)):
        value = np.float32(residual[d])
        changed |= value != residual32[d]
        residual32[d] = value
    return changed


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _largest(X, x, correlation, bound, j):
    """Largest |<x_i, x>| over i != j, in float64."""
    top = np.float32(0.0)
    for i in range(len(correlation)):
        top = max(top, abs(correlation[i]))
    largest = 0.0
    for i in range(len(correlation)):
        if abs(correlation[i]) >= top - 2 * bound and i != j:
            largest = max(largest, abs(dot(X[i], x)))
    return largest


@njit(cache=True, nogil=True, error_model="numpy")
def _violators(X, j, residual, correlation, bound, limit, active, size, candidates):
    """Write the worst violators into `candidates`; return how many, and the worst value."""
    cut = np.float32(limit) - bound
    n_found = 0
    weakest = 0
    for i in range(len(correlation)):
        if abs(correlation[i]) <= cut:
            continue
        # Where the limit is below the rounding, a correlation of zero does not keep j itself out.
        if n_found < len(candidates):
            if _is_violator(X, residual, limit, active, size, i) and i != j:
                candidates[n_found] = i
                n_found += 1
        elif _is_violator(X, residual, limit, active, size, i) and i != j:
            candidates[weakest] = i
        else:
            continue
        if n_found == len(candidates):
            weakest = 0
            for c in range(1, n_found):
                if abs(correlation[candidates[c]]) < abs(correlation[candidates[weakest]]):
                    weakest = c
            cut = max(cut, abs(correlation[candidates[weakest]]))
    worst = 0.0
    for c in range(n_found):
        worst = max(worst, abs(dot(X[candidates[c]], residual)))
    return n_found, worst


@njit(cache=True, nogil=True, error_model="numpy")
def _worst_violator(X, j, residual, residual_low, correlation, cut, limit, slack, active, size):
    """The inactive vector that violates the limit most (-1 if none does), and its inner product.

    What is not above `cut` in float32, or the limit less `slack` in float64, cannot be it.
    """
    worst, value = -1, 0.0
    for i in range(len(correlation)):
        if abs(correlation[i]) <= cut or i == j:
            continue
        top = max(limit, abs(value))
        if _is_violator(X, residual, top - slack, active, size, i):
            exact, _ = double_dot(X[i], residual, residual_low)
            if abs(exact) > top:
                worst, value = i, exact
    return worst, value


@njit(cache=True, nogil=True, error_model="numpy")
def _is_violator(X, residual, limit, active, size, i):
    for a in range(size):
        if active[a] == i:
            return False
    return abs(dot(X[i], residual)) > limit


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _stationarity(X, residual, threshold, ridge, active, sign, coef, size):
    """Largest error of the optimality conditions on the active set."""
    error = 0.0
    for a in range(size):
        gradient = dot(X[active[a]], residual) - ridge * coef[a] - threshold * sign[a]
        error = max(error, abs(gradient))
    return error
