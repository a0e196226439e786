r"""Kernels: robust first guesses of a record's permutation, by assignment.

Cells that fit least are set free: each time the place whose leaving lowers the squared distance
most. What the others predict for the free places, with its variance, prices every free value at
every free place, and the cheapest assignment is the guess. With all cells free it is a placement by
the marginals.
"""

import numpy as np
from numba import njit

from unpermute.records._likelihood import leave_out, log_density

__all__ = ["place"]

# Gain in log-likelihood from which on a cell is set free.
_PAYS = 4.0


@njit(cache=True, nogil=True)
def place(method, record, joint, permutation):
    """Write a guess: free are all cells (0), those whose leaving pays (1), or half of them (2)."""
    p = len(record.x)
    free = record.missing.copy()
    if method == 0:
        for j in range(p):
            free[j] = True
    else:
        _set_free(method == 1, record, joint, free)
    for j in range(p):
        permutation[j] = j
    places = np.flatnonzero(free)
    n_free = len(places)
    if n_free < 2:
        return
    covariance = _inverse(joint.P, places, n_free)
    cost = np.empty((n_free, n_free))
    _price(places, free, record, joint, covariance, cost)
    chosen = _assign(cost)
    for b in range(n_free):
        permutation[places[b]] = places[chosen[b]]


@njit(cache=True, nogil=True)
def _set_free(only_if_it_pays, record, joint, free):
    """Set cells free, the worst first; changes `free`."""
    p = len(free)
    Z, nu = record.Z, joint.degrees
    Q, g = joint.P.copy(), np.zeros(p)
    n_left, q = p, 0.0
    for h in range(p):
        if free[h]:
            leave_out(Q, h)
            n_left -= 1
    for j in range(p):
        for i in range(p):
            g[j] += Q[j, i] * Z[i, i]
        q += g[j] * Z[j, j]
    while n_left > 2 and (only_if_it_pays or n_left > p // 2):
        worst, drop = -1, 0.0
        for j in range(p):
            if not free[j] and g[j] * g[j] > drop * Q[j, j]:
                worst, drop = j, g[j] * g[j] / Q[j, j]
        if worst < 0:
            return
        pays = log_density(q - drop, nu, n_left) - log_density(q, nu, n_left)
        if only_if_it_pays and pays < _PAYS:
            return
        step = g[worst] / Q[worst, worst]
        for j in range(p):
            g[j] -= step * Q[j, worst]
        leave_out(Q, worst)
        q -= drop
        free[worst] = True
        n_left -= 1


@njit(cache=True, nogil=True)
def _price(places, free, record, joint, covariance, cost):
    """Write what value a costs at place b, given the cells that are not free."""
    p, n_free, nu = len(free), len(places), joint.degrees
    pull = np.zeros(n_free)
    for b in range(n_free):
        for j in range(p):
            if not free[j]:
                pull[b] += joint.P[places[b], j] * record.Z[j, j]
    for b in range(n_free):
        predicted = 0.0
        for c in range(n_free):
            predicted -= covariance[b, c] * pull[c]
        variance = covariance[b, b]
        for a in range(n_free):
            i, j = places[a], places[b]
            cost[b, a] = -record.worth[i, j] - (i == j)
            if not record.missing[i]:
                square = (record.Z[i, j] - predicted) ** 2 / variance
                cost[b, a] += 0.5 * (nu + 1) * np.log1p(square / nu) + 0.5 * np.log(variance)


@njit(cache=True, nogil=True)
def _inverse(P, places, n):
    """Inverse of the part of P at `places`, by Gauss-Jordan elimination."""
    A, B = np.empty((n, n)), np.zeros((n, n))
    for a in range(n):
        B[a, a] = 1.0
        for b in range(n):
            A[a, b] = P[places[a], places[b]]
    for c in range(n):
        pivot = A[c, c]
        for b in range(n):
            A[c, b] /= pivot
            B[c, b] /= pivot
        for a in range(n):
            share = A[a, c]
            if a != c and share != 0.0:
                for b in range(n):
                    A[a, b] -= share * A[c, b]
                    B[a, b] -= share * B[c, b]
    return B


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
