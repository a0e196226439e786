r"""Kernels: robust first guesses of a record's permutation, by assignment.

Cells that fit least are set free: each time the place whose leaving lowers the squared distance
most. What the others predict for the free places, with its variance, prices every free value at
every free place, and the cheapest assignment is the guess. With all cells free it is a placement by
the marginals.
"""

import numpy as np
from numba import njit

from unpermute.records._record import DEGREES, HOLE, ORDER, WORTH, Z

__all__ = ["place_records"]

# Gain in log-likelihood from which on a cell is set free.
_PAYS = 4.0


def place_records(method, work, chosen, precision):
    """Write a guess: free are all cells (0), those whose leaving pays (1), or half of them (2)."""
    holes, P = work.cells[chosen, HOLE] > 0, precision[work.version[chosen]]
    z = np.diagonal(work.planes[chosen, Z], axis1=1, axis2=2)
    nu = work.numbers[chosen, DEGREES]
    free = np.ones(holes.shape, dtype=bool)
    if method:
        free = _set_free(method == 1, z, P, nu, holes)
    work.cells[chosen, ORDER] = np.arange(holes.shape[1])
    cost = _price(work.planes[chosen], holes, _predict(P, z, free), nu[:, None, None])
    for k in np.flatnonzero(free.sum(axis=1) > 1):
        places = np.flatnonzero(free[k])
        # In C order: numba would compile the kernel again for another layout.
        part = np.ascontiguousarray(cost[k][np.ix_(places, places)])
        work.cells[chosen[k], ORDER, places] = places[_assign(part)]


def _set_free(only_if_it_pays, z, P, nu, holes):
    """Which cells of every record are set free, the worst first, after those without z.

    Leaving place w out of the precision Q takes v vᵀ / v_w from it, where v is its column w. So a
    column is that of P without what the places that left before have taken.
    """
    n, p = z.shape
    free, going, every = np.zeros((n, p), dtype=bool), np.ones(n, dtype=bool), np.arange(n)
    g, diagonal = np.einsum("rij,rj->ri", P, z), np.diagonal(P, axis1=1, axis2=2).copy()
    left, least = np.zeros((n, p, p)), 2 if only_if_it_pays else max(p // 2, 2)
    for step in range(p):
        n_left, forced = p - step, (holes & ~free).any(axis=1)
        q = np.einsum("ri,ri->r", g, np.where(free, 0.0, z))
        with np.errstate(invalid="ignore", divide="ignore"):
            drops = np.where(free, 0.0, g * g / diagonal)
        worst = np.where(forced, np.argmax(holes & ~free, axis=1), np.argmax(drops, axis=1))
        drop = drops[every, worst]
        # Student's t of the cells that are left, before and after.
        pays = (
            0.5
            * (nu + n_left)
            * (np.log1p(np.maximum(q, 0.0) / nu) - np.log1p(np.maximum(q - drop, 0.0) / nu))
        )
        going &= forced | (
            (n_left > least) & (drop > 0) & (pays >= (_PAYS if only_if_it_pays else -np.inf))
        )
        if not going.any():
            break
        column = P[every, worst] - np.einsum(
            "rs,rsi->ri", left[every, :step, worst], left[:, :step]
        )
        pivot = np.where(going, diagonal[every, worst], np.inf)
        left[:, step] = column / np.sqrt(pivot)[:, None]
        g -= (g[every, worst] / pivot)[:, None] * column
        diagonal -= left[:, step] ** 2
        free[every[going], worst[going]] = True
    return free


def _predict(P, z, free):
    """What the cells that are not free say of the others: means and variances."""
    inside = np.where(free[:, :, None] & free[:, None, :], P, 0.0)
    covariance = np.linalg.inv(inside + ~free[:, :, None] * np.eye(z.shape[1]))
    pull = free * np.einsum("rij,rj->ri", P, np.where(free, 0.0, z))
    mean = -np.einsum("rij,rj->ri", covariance, pull)
    return mean, np.diagonal(covariance, axis1=1, axis2=2)


def _price(planes, holes, predicted, nu):
    """What it costs to have at place b value a, given the cells that are not free."""
    mean, variance = (part[:, None, :] for part in predicted)
    square = (planes[:, Z] - mean) ** 2 / variance
    price = 0.5 * (nu + 1) * np.log1p(square / nu) + 0.5 * np.log(variance)
    cost = np.where(holes[:, :, None], 0.0, price) - planes[:, WORTH] - np.eye(planes.shape[2])
    return np.swapaxes(cost, 1, 2)


@njit(cache=True, nogil=True)
def _assign(cost):
    """Column of every row in the cheapest assignment, by shortest augmenting paths."""
    n = len(cost)
    u, v, shortest = np.zeros(n + 1), np.zeros(n + 1), np.empty(n + 1)
    row_of, way = np.zeros(n + 1, dtype=np.int64), np.zeros(n + 1, dtype=np.int64)
    used = np.zeros(n + 1, dtype=np.bool_)
    for row in range(1, n + 1):
        row_of[0] = row
        column = 0
        for j in range(n + 1):
            shortest[j] = np.inf
            used[j] = False
        while True:
            used[column] = True
            current, delta, following = row_of[column], np.inf, 0
            for j in range(1, n + 1):
                if not used[j]:
                    reduced = cost[current - 1, j - 1] - u[current] - v[j]
                    if reduced < shortest[j]:
                        shortest[j] = reduced
                        way[j] = column
                    if shortest[j] < delta:
                        delta, following = shortest[j], j
            for j in range(n + 1):
                if used[j]:
                    u[row_of[j]] += delta
                    v[j] -= delta
                else:
                    shortest[j] -= delta
            column = following
            if row_of[column] == 0:
                break
        while column:
            row_of[column] = row_of[way[column]]
            column = way[column]
    chosen = np.empty(n, dtype=np.int64)
    for j in range(1, n + 1):
        chosen[row_of[j] - 1] = j - 1
    return chosen
