r"""Kernels: the log-likelihood of one record under a permutation, and after any exchange.

With z_ij and w_ij the standardised form and the worth of value i in column j, H the places of the
cells without z (missing, or text), and m the number of cells that have one,

.. math:: L(\pi) = -\frac{\nu + m}{2}\log\Bigl(1 + \frac{q(\pi)}{\nu}\Bigr)
          - \tfrac12\log|P_{HH}| + \sum_j w_{\pi(j)j}, \qquad q = z^\top Q z ,

where Q is the precision P once the places H are left out. The worth is the log-probability of the
value in the column minus what t_ν says of z alone, so that L is the sum of the value models and of
the joint term. The state of a search is z, Q, g = Q z and the constant −½ log|P_HH|: then an
exchange of two observed cells changes q by a few products, and only a cell without z that moves
changes Q. A place that takes no part in the joint distribution has z = 0 and the row of an identity
in P: it is never left out. Links between columns (:mod:`unpermute.records._dependence`) add a term
for every two columns that depend on each other.
"""

from collections import namedtuple

import numpy as np
from numba import njit

__all__ = [
    "State",
    "exchange",
    "leave_out",
    "likelihood",
    "log_density",
    "neighbours",
    "new_state",
    "rebuild",
]

State = namedtuple("State", "z g Q constant")


@njit(cache=True, nogil=True)
def new_state(record, joint, space):
    """State of a search; without cells to leave out, the precision itself is used."""
    p = len(record.x)
    Q = space if record.n_missing else joint.P
    return State(np.empty(p), np.empty(p), Q, np.empty(1))


@njit(cache=True, nogil=True)
def log_density(q, nu, m):
    """Student's t of m cells at squared distance q, up to constants."""
    return -0.5 * (nu + m) * np.log1p(max(q, 0.0) / nu)


@njit(cache=True, nogil=True)
def rebuild(permutation, record, joint, state):
    """Write z, Q, g and the constant −½ log|P_HH| of the state."""
    p = len(permutation)
    state.constant[0] = 0.0
    if record.n_missing:
        state.constant[0] = -0.5 * _sweep(permutation, record, joint, -1, state.Q)
    for j in range(p):
        state.z[j] = record.Z[permutation[j], j]
    for j in range(p):
        total = 0.0
        for i in range(p):
            total += state.Q[j, i] * state.z[i]
        state.g[j] = total


@njit(cache=True, nogil=True)
def likelihood(permutation, record, joint, state):
    """Log-likelihood of the state."""
    p = len(permutation)
    q, unary = 0.0, state.constant[0]
    if len(joint.links.first):
        unary += _links(permutation, record, joint.links, False, record.worth)
    for j in range(p):
        q += state.z[j] * state.g[j]
        unary += record.worth[permutation[j], j]
    return log_density(q, joint.degrees, record.m) + unary


@njit(cache=True, nogil=True)
def exchange(permutation, a, b, record, joint, state):
    """Exchange the values at places a and b; changes permutation and state."""
    i, j = permutation[a], permutation[b]
    permutation[a], permutation[b] = j, i
    if record.missing[i] or record.missing[j]:
        rebuild(permutation, record, joint, state)
        return
    da, db = record.Z[j, a] - state.z[a], record.Z[i, b] - state.z[b]
    for c in range(len(permutation)):
        state.g[c] += da * state.Q[a, c] + db * state.Q[b, c]
    state.z[a] += da
    state.z[b] += db


@njit(cache=True, nogil=True)
def neighbours(permutation, record, joint, state, out):
    """Write the log-likelihood after the exchange of places a < b into out[a, b]."""
    p, worth, Z = len(permutation), record.worth, record.Z
    z, g, Q = state.z, state.g, state.Q
    m, q, unary = record.m, 0.0, 0.0
    if len(joint.links.first):
        unary += _links(permutation, record, joint.links, False, record.worth)
    for j in range(p):
        q += z[j] * g[j]
        unary += worth[permutation[j], j]
    if record.n_missing:
        _move_holes(permutation, record, joint, state, q, unary, out)
    unary += state.constant[0]
    current = log_density(q, joint.degrees, m) + unary
    for a in range(p):
        i = permutation[a]
        for b in range(a + 1, p):
            j = permutation[b]
            paid = worth[j, a] + worth[i, b] - worth[i, a] - worth[j, b]
            if record.missing[i] or record.missing[j]:
                if record.missing[i] and record.missing[j]:
                    out[a, b] = current + paid
                continue
            da, db = Z[j, a] - z[a], Z[i, b] - z[b]
            changed = q + da * (2 * g[a] + da * Q[a, a]) + db * (2 * g[b] + db * Q[b, b])
            changed += 2 * da * db * Q[a, b]
            out[a, b] = log_density(changed, joint.degrees, m) + unary + paid
    if len(joint.links.first):
        _links(permutation, record, joint.links, True, out)


@njit(cache=True, nogil=True)
def _links(permutation, record, links, exchanges, out):
    """Return the sum of the terms of all links.

    If `exchanges`, what exchanges of places a < b change is added to `out`, which is unused else.
    Arrays are taken out of the tuples once: numba counts the references of all in every call.
    """
    kinds, amounts, bins = record.kinds, record.amounts, record.bins
    own_links, own_keys = record.own_links, record.own_keys
    table, signs = links.table, links.signs
    total, p = 0.0, len(permutation)
    for e in range(len(links.first)):
        j, k, kind, now = links.first[e], links.second[e], links.kind[e], 0.0
        # As it is; with the value of every place a in the first place; with it in the second.
        for t in range(2 * p + 1 if exchanges else 1):
            x, y, place, a = permutation[j], permutation[k], j if t <= p else k, (t - 1) % p
            if t > 0 and (a == place or (t > p and a == j)):
                continue
            if t > p:
                y = permutation[a]
            elif t > 0:
                x, y = permutation[a], x if a == k else y
            term, key = 0.0, -1
            if kind < 0:
                one, other = bins[x, j], bins[y, k]
                if one >= 0 and other >= 0:
                    key, term = one * table.shape[2] + other, table[e, one, other]
            elif kinds[x, int(x != j)] == kind and kinds[y, int(y != k)] == kind:
                low, high = amounts[x, int(x != j)], amounts[y, int(y != k)]
                key = 0 if low < high else 1 if low == high else 2
                term = signs[e, key]
            if key >= 0 and key == own_keys[e]:
                term = own_links[e]
            if t > 0:
                out[min(place, a), max(place, a)] += term - now
            else:
                now = term
                total += term
    return total


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
def _sweep(permutation, record, joint, spared, Q):
    """Leave out the places of cells without z, except `spared`; writes Q, returns log|P_HH|."""
    p = len(permutation)
    for i in range(p):
        for j in range(p):
            Q[i, j] = joint.P[i, j]
    logdet = 0.0
    for h in range(p):
        if h != spared and joint.used[h] and record.missing[permutation[h]]:
            logdet += np.log(leave_out(Q, h))
    return logdet


@njit(cache=True, nogil=True)
def _move_holes(permutation, record, joint, state, q_now, unary, out):
    """The same for exchanges of a cell without z, at place h, with an observed one."""
    p, worth, z = len(permutation), record.worth, state.z
    m, nu = record.m, joint.degrees
    space, own = np.empty((p, p)), np.empty(p)
    for h in range(p):
        i = permutation[h]
        if not record.missing[i]:
            continue
        Q, g, q, logdet = state.Q, state.g, q_now, -2.0 * state.constant[0]
        if joint.used[h]:
            logdet = _sweep(permutation, record, joint, h, space)
            Q, g, q = space, own, 0.0
            for b in range(p):
                own[b] = 0.0
                for c in range(p):
                    own[b] += space[b, c] * z[c]
                q += own[b] * z[b]
        for b in range(p):
            j = permutation[b]
            if record.missing[j]:
                continue
            da, db = record.Z[j, h], -z[b]
            changed = q + da * (2 * g[h] + da * Q[h, h]) + db * (2 * g[b] + db * Q[b, b])
            changed += 2 * da * db * Q[h, b]
            slope = g[b] + da * Q[b, h] + db * Q[b, b]
            changed -= slope * slope / Q[b, b]
            paid = unary + worth[j, h] + worth[i, b] - worth[i, h] - worth[j, b]
            density = log_density(changed, nu, m) - 0.5 * (logdet + np.log(Q[b, b]))
            out[min(h, b), max(h, b)] = density + paid
