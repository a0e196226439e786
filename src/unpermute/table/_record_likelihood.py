r"""Kernels: the log-likelihood of one record under a permutation, and after any exchange.

With z_ij and ℓ_ij the standardised form and the worth of value i in column j, H the places of the
missing cells, and m the number of the others,

.. math:: L(\pi) = -\frac{\nu + m}{2}\log\Bigl(1 + \frac{q(\pi)}{\nu}\Bigr)
          - \tfrac12\log|P_{HH}| + \sum_j \ell_{\pi(j)j}, \qquad q = z^\top Q z ,

where Q is the precision P once the places H are left out. The state of a search is `permutation`,
z, Q, g = Q z and the constant −½ log|P_HH|: then an exchange of two observed cells changes q by a
few products, and only a missing cell that moves changes Q. A missing cell has z = 0. Without
missing cells the caller passes P itself as Q.
"""

import numpy as np
from numba import njit

__all__ = ["exchange", "leave_out", "likelihood", "log_density", "neighbours", "rebuild"]


@njit(cache=True, nogil=True)
def log_density(q, nu, m):
    """Student's t of m cells at squared distance q, up to constants."""
    return -0.5 * (nu + m) * np.log1p(max(q, 0.0) / nu)


@njit(cache=True, nogil=True)
def rebuild(permutation, missing, n_missing, Z, P, z, g, Q, constant):
    """Write z, Q, g and `constant`, which is −½ log|P_HH|."""
    p = len(permutation)
    constant[0] = 0.0
    if n_missing:
        constant[0] = -0.5 * _sweep(permutation, missing, P, -1, Q)
    for j in range(p):
        z[j] = Z[permutation[j], j]
    for j in range(p):
        total = 0.0
        for i in range(p):
            total += Q[j, i] * z[i]
        g[j] = total


@njit(cache=True, nogil=True)
def likelihood(permutation, n_missing, worth, nu, z, g, constant):
    """Log-likelihood of the state."""
    p = len(permutation)
    q, unary = 0.0, constant[0]
    for j in range(p):
        q += z[j] * g[j]
        unary += worth[permutation[j], j]
    return log_density(q, nu, p - n_missing) + unary


@njit(cache=True, nogil=True)
def exchange(permutation, a, b, missing, n_missing, Z, P, z, g, Q, constant):
    """Exchange the values at places a and b; changes the state."""
    i, j = permutation[a], permutation[b]
    permutation[a], permutation[b] = j, i
    if missing[i] or missing[j]:
        rebuild(permutation, missing, n_missing, Z, P, z, g, Q, constant)
        return
    da, db = Z[j, a] - z[a], Z[i, b] - z[b]
    for c in range(len(z)):
        g[c] += da * Q[a, c] + db * Q[b, c]
    z[a] += da
    z[b] += db


@njit(cache=True, nogil=True)
def neighbours(permutation, missing, n_missing, Z, worth, P, nu, z, g, Q, constant, out):
    """Write the log-likelihood after the exchange of places a < b into out[a, b]."""
    p = len(permutation)
    m, q, unary = p - n_missing, 0.0, 0.0
    for j in range(p):
        q += z[j] * g[j]
        unary += worth[permutation[j], j]
    if n_missing:
        _move_holes(permutation, missing, Z, worth, P, nu, m, z, unary, out)
    unary += constant[0]
    current = log_density(q, nu, m) + unary
    for a in range(p):
        i = permutation[a]
        for b in range(a + 1, p):
            j = permutation[b]
            if missing[i] or missing[j]:
                if missing[i] and missing[j]:
                    out[a, b] = current
                continue
            da, db = Z[j, a] - z[a], Z[i, b] - z[b]
            changed = q + da * (2 * g[a] + da * Q[a, a]) + db * (2 * g[b] + db * Q[b, b])
            changed += 2 * da * db * Q[a, b]
            paid = unary + worth[j, a] + worth[i, b] - worth[i, a] - worth[j, b]
            out[a, b] = log_density(changed, nu, m) + paid


@njit(cache=True, nogil=True)
def leave_out(Q, h):
    """Leave place h out of the precision Q, in place; returns the pivot."""
    p = len(Q)
    pivot = Q[h, h]
    for i in range(p):
        share = Q[i, h] / pivot
        if i != h and share != 0.0:
            for j in range(p):
                Q[i, j] -= share * Q[h, j]
    for i in range(p):
        Q[h, i] = 0.0
        Q[i, h] = 0.0
    return pivot


@njit(cache=True, nogil=True)
def _sweep(permutation, missing, P, spared, Q):
    """Leave out the places of missing cells, except `spared`; writes Q, returns log|P_HH|."""
    p = len(permutation)
    for i in range(p):
        for j in range(p):
            Q[i, j] = P[i, j]
    logdet = 0.0
    for h in range(p):
        if h != spared and missing[permutation[h]]:
            logdet += np.log(leave_out(Q, h))
    return logdet


@njit(cache=True, nogil=True)
def _move_holes(permutation, missing, Z, worth, P, nu, m, z, unary, out):
    """The same for exchanges of a missing cell, at place h, with an observed one."""
    p = len(permutation)
    Q, g = np.empty((p, p)), np.empty(p)
    for h in range(p):
        i = permutation[h]
        if not missing[i]:
            continue
        logdet = _sweep(permutation, missing, P, h, Q)
        q = 0.0
        for b in range(p):
            g[b] = 0.0
            for c in range(p):
                g[b] += Q[b, c] * z[c]
            q += g[b] * z[b]
        for b in range(p):
            j = permutation[b]
            if missing[j]:
                continue
            da, db = Z[j, h], -z[b]
            changed = q + da * (2 * g[h] + da * Q[h, h]) + db * (2 * g[b] + db * Q[b, b])
            changed += 2 * da * db * Q[h, b]
            slope = g[b] + da * Q[b, h] + db * Q[b, b]
            changed -= slope * slope / Q[b, b]
            paid = unary + worth[j, h] + worth[i, b] - worth[i, h] - worth[j, b]
            density = log_density(changed, nu, m) - 0.5 * (logdet + np.log(Q[b, b]))
            out[min(h, b), max(h, b)] = density + paid
