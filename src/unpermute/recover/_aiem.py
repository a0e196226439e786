r"""AIEM: algebraic initialisation, then alternating minimisation, for fully shuffled vectors.

.. math:: \min_{x, \Pi} \|y - \Pi U x\|_2^2 ,

started from the solutions of the r polynomial equations in r unknowns

.. math:: p_k(U x) = p_k(y), \quad k = 1, \dots, r, \qquad p_k(v) = \textstyle\sum_i v_i^k :

no permutation changes a power sum. They have at most r! common roots (finitely many for a generic
basis), one of which is the truth when there is no noise; with noise the roots move, some become
complex and give their real part. From each root, alternate: sort U x and give its entries the
values of y in the same order, refit x, until nothing changes. The lowest matching cost is kept.

Choose it when every entry may have moved and the rank is at most 4: it needs no random start and no
entry in place. Beyond that the number of roots and the effect of the noise on high powers grow
too fast; ``search`` and, up to its own limit, ``branch-and-bound`` go on. No guarantee of the
global minimum with noise; ``branch-and-bound`` gives one.

The first equation is linear and removes one unknown. The remaining ones, of degrees 2 to r, are
solved together: the null space of their Macaulay matrix (all multiples up to the degree where it
is spanned by the roots) is invariant under multiplication by a linear form, whose eigenvectors are
the monomials at the roots. Where the columns of U sum to nearly zero, the linear equation says
nothing, and the roots are taken on parallel slices of the sphere :math:`\|x\| = \|y\|` instead.

References
----------
Tsakiris, Peng, Conca, Kneip, Shi & Choi, "An algebraic-geometric approach for linear regression
without correspondences", IEEE Transactions on Information Theory 66(8), 2020.
Batselier, Dreesen & De Moor, "On the null spaces of the Macaulay matrix", Linear Algebra and its
Applications 460, 2014.
"""

import functools
import itertools
import math

import numpy as np
from numba import njit

from unpermute.numerics.parallel import map_blocks
from unpermute.recover._problem import RecoverySolution

__all__ = ["aiem", "alternate", "order_by_block", "require_complete"]

_MAX_RANK = 4
# Cosine between the constant vector and the subspace below which the noise swamps the first
# equation; random bases have √(r/M).
_SMALL_SUM = 0.02
_N_SLICES = 16
_MAX_ALTERNATIONS = 200


def aiem(problem):
    """Solve a :class:`RecoveryProblem` from the roots of its power-sum equations.

    Parameters
    ----------
    problem : RecoveryProblem
        Complete vectors, rank at most 4. At most `max_starts` roots are used, nearly real ones
        first; the blocks restrict the matching.

    Returns
    -------
    RecoverySolution
        ``info["cost"]`` is the root mean square matching cost of every vector and
        ``info["n_roots"]`` the number of starts. Converged where the alternation settled.

    Raises
    ------
    ValueError
        For more than 4 coefficients, or missing entries.
    """
    Y, rank = problem.Y, problem.basis.shape[1]
    if rank > _MAX_RANK:
        raise ValueError(
            f"method='aiem' solves polynomial equations in at most {_MAX_RANK} unknowns, but the"
            f" basis has rank {rank}; use method='search'."
        )
    problem.require_linear("aiem")
    require_complete(Y, "aiem")
    length = np.linalg.norm(Y, axis=1)
    scale = np.where(length > 0.0, length, 1.0)[:, None]
    rows, starts, values = order_by_block(problem.basis, problem.blocks, Y / scale)
    coefficients, cost = np.zeros((len(Y), rank)), np.zeros(len(Y))
    settled, n_roots = np.zeros(len(Y), dtype=np.bool_), np.zeros(len(Y), dtype=np.int64)

    def run(start, stop):
        part = slice(start, stop)
        roots, n_roots[part] = _real_starts(_roots(values[part], rows), problem.max_starts)
        _alternate_all(
            *(rows, starts, values[part], roots, n_roots[part]),
            *(coefficients[part], cost[part], settled[part]),
        )

    map_blocks(run, len(Y), block=16, stage="recover", n_jobs=problem.n_jobs)
    info = {"cost": cost * scale[:, 0], "n_roots": n_roots}
    return RecoverySolution(coefficients * scale, settled, info)


def require_complete(Y, method):
    """Refuse missing entries, which leave the sorted values without partners."""
    incomplete = np.flatnonzero(np.isnan(Y).any(axis=1))
    if len(incomplete):
        raise ValueError(
            f"method='{method}' needs complete vectors, but {len(incomplete)} of {len(Y)} have"
            f" missing entries (the first is vector {incomplete[0]}); use method='search'."
        )


def order_by_block(basis, blocks, Y):
    """Rows of the basis grouped by block, where each block starts, and its values sorted.

    Returns
    -------
    rows : ndarray of shape (n_features, rank)
    starts : ndarray of int of shape (n_blocks + 1,)
    values : ndarray of shape (n_vectors, n_features)
        Ascending inside every block.
    """
    order = np.lexsort((np.arange(len(blocks)), blocks))
    edges = np.flatnonzero(np.diff(blocks[order])) + 1
    starts = np.concatenate([[0], edges, [len(blocks)]]).astype(np.int64)
    values = Y[:, order]
    for start, stop in itertools.pairwise(starts):
        values[:, start:stop].sort(axis=1)
    return np.ascontiguousarray(basis[order]), starts, values


def _roots(Y, basis):
    """Complex roots (n_vectors, n_roots, rank) of the power-sum equations of unit vectors."""
    n_features, rank = basis.shape
    if rank == 1:  # ‖x‖ = ‖y‖ = 1
        return np.tile([[1.0 + 0.0j], [-1.0]], (len(Y), 1, 1))
    # First axis: the direction in which the linear equation determines x.
    axes = np.linalg.qr(np.column_stack([basis.sum(axis=0), np.eye(rank)]))[0]
    along, across = basis @ axes[:, 0], basis @ axes[:, 1:]
    total = along.sum()
    if abs(total) > _SMALL_SUM * math.sqrt(n_features):
        first = [Y.sum(axis=1) / total]
    else:
        heights = np.cos(np.pi * (np.arange(_N_SLICES) + 0.5) / _N_SLICES)
        first = [np.full(len(Y), height) for height in heights]
    powers = np.column_stack([np.sum(Y**k, axis=1) for k in range(2, rank + 1)])
    parts = []
    for c in first:
        rest = _solve(along, across, c, powers).astype(complex)
        parts.append(np.insert(rest, 0, c[:, None], axis=2))
    return np.concatenate(parts, axis=1) @ axes.T


def _real_starts(roots, max_starts):
    """Real parts, nearly real roots first, and how many of them to use per vector.

    Of two conjugate roots, which have the same real part, the second is not used.
    """
    distance = np.linalg.norm(roots.imag, axis=2)
    # A combination of the imaginary parts, not zero by chance, tells the two apart.
    sign = np.sign(roots.imag @ np.sqrt(np.arange(1.0, roots.shape[2] + 1.0)))
    unusable = (sign < 0) | ~np.isfinite(roots).all(axis=2)
    distance[unusable] = np.inf
    order = np.argsort(distance, axis=1, kind="stable")
    counts = np.sum(~unusable, axis=1)
    if max_starts is not None:
        counts = np.minimum(counts, max_starts)
    starts = np.take_along_axis(roots.real, order[:, :, None], axis=1)
    return np.ascontiguousarray(starts), counts


def _solve(along, across, c, powers):
    """Common roots t of Σ_i (c·along_i + across_i·t)^k = powers_k, k = 2, …, r."""
    n, n_unknowns = len(c), across.shape[1]
    exponents, columns, n_roots = _macaulay_layout(n_unknowns)
    matrix = np.zeros((n, sum(len(table) for table in columns), len(exponents)))
    row = 0
    for k, table in enumerate(columns, start=2):
        terms = exponents[: table.shape[1]]
        coefficients = _power_sum_coefficients(along, across, k, terms)
        coefficients = coefficients * c[:, None] ** (k - terms.sum(axis=1))
        coefficients[:, 0] -= powers[:, k - 2]
        coefficients /= np.linalg.norm(coefficients, axis=1, keepdims=True) + 1e-300
        matrix[:, row + np.arange(len(table))[:, None], table] = coefficients[:, None, :]
        row += len(table)
    null_space = np.linalg.svd(matrix)[2][:, -n_roots:].transpose(0, 2, 1)
    return _roots_from_null_space(null_space, exponents)


def _roots_from_null_space(null_space, exponents):
    """Eigenvectors of the multiplication by a linear form, as points; see the module's text."""
    position = {tuple(term): a for a, term in enumerate(exponents)}
    n_unknowns = exponents.shape[1]
    lower = np.flatnonzero(exponents.sum(axis=1) < exponents[-1].sum())
    shifted = 0.0
    for v, unit in enumerate(np.eye(n_unknowns, dtype=int)):
        rows = [position[tuple(term)] for term in exponents[lower] + unit]
        # Irrational weights: no two roots of a generic system share the value of the form.
        shifted = shifted + math.sqrt(v + 2.0) * null_space[:, rows]
    multiplication = np.linalg.pinv(null_space[:, lower]) @ shifted
    monomials = null_space @ np.linalg.eig(multiplication)[1]
    linear = [position[tuple(unit)] for unit in np.eye(n_unknowns, dtype=int)]
    with np.errstate(divide="ignore", invalid="ignore"):
        return (monomials[:, linear] / monomials[:, :1]).transpose(0, 2, 1)


def _power_sum_coefficients(along, across, k, terms):
    """Coefficients of Σ_i (along_i + across_i·t)^k at the monomials t^terms."""
    coefficients = np.empty(len(terms))
    for a, term in enumerate(terms):
        rest = k - term.sum()
        ways = math.factorial(k) // math.prod(math.factorial(e) for e in (rest, *term))
        coefficients[a] = ways * np.sum(along**rest * np.prod(across**term, axis=1))
    return coefficients


@functools.cache
def _macaulay_layout(n_unknowns):
    """Monomials, columns of all multiples of every equation, and the number of roots.

    The equations have degrees 2, …, n_unknowns + 1; their roots span the null space from degree
    Σ(d_k − 1) + 1 on (Macaulay).
    """
    degrees = range(2, n_unknowns + 2)
    top = sum(d - 1 for d in degrees) + 1
    exponents = _exponents(n_unknowns, top)
    position = {tuple(term): a for a, term in enumerate(exponents)}
    columns = []
    for degree in degrees:
        terms, shifts = _exponents(n_unknowns, degree), _exponents(n_unknowns, top - degree)
        columns.append(np.array([[position[tuple(t + s)] for t in terms] for s in shifts]))
    return exponents, columns, math.prod(degrees)


def _exponents(n_unknowns, degree):
    """All exponents of total degree up to `degree`, lowest degree first."""
    every = itertools.product(range(degree + 1), repeat=n_unknowns)
    return np.array(sorted((e for e in every if sum(e) <= degree), key=lambda e: (sum(e), e)))


@njit(cache=True, nogil=True, error_model="numpy")
def _alternate_all(rows, starts, values, roots, n_roots, coefficients, cost, settled):
    """Keep the best alternation of every vector. Writes into the last three arguments."""
    n_features, rank = rows.shape
    x = np.empty(rank)
    for j in range(len(values)):
        best = np.inf
        for k in range(n_roots[j]):
            for a in range(rank):
                x[a] = roots[j, k, a]
            reached, done = alternate(rows, starts, values[j], x)
            if reached < best:
                best, settled[j] = reached, done
                for a in range(rank):
                    coefficients[j, a] = x[a]
        cost[j] = np.sqrt(best / n_features) if n_roots[j] > 0 else np.nan


@njit(cache=True, nogil=True, error_model="numpy")
def alternate(rows, starts, values, x):
    """Sort-match and refit in turn until the cost no longer falls; changes x.

    Arguments as :func:`order_by_block` returns them, for one vector; the basis is orthonormal.
    Returns the squared matching cost and whether it settled.
    """
    n_features, rank = rows.shape
    fitted, matched = np.empty(n_features), np.empty(n_features)
    best = np.inf
    for _ in range(_MAX_ALTERNATIONS):
        for i in range(n_features):
            total = 0.0
            for a in range(rank):
                total += rows[i, a] * x[a]
            fitted[i] = total
        cost = 0.0
        for b in range(len(starts) - 1):
            start, stop = starts[b], starts[b + 1]
            order = np.argsort(fitted[start:stop])
            for k in range(stop - start):
                i = start + order[k]
                matched[i] = values[start + k]
                cost += (matched[i] - fitted[i]) ** 2
        if cost >= best * (1.0 - 1e-12):
            return best, True
        best = cost
        for a in range(rank):
            x[a] = 0.0
        for i in range(n_features):
            for a in range(rank):
                x[a] += rows[i, a] * matched[i]
    return best, False
