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
in P: it is never left out. Without cells to leave out Q is P, and there is no room for another.
Links between columns (:mod:`unpermute.records._dependence`) add a term
for every two columns that depend on each other.
"""

import numpy as np
from numba.extending import register_jitable

from unpermute.records._record import (
    AMOUNT,
    AROUND,
    CONSTANT,
    DEGREES,
    HOLE,
    KEY,
    KIND,
    LEFT,
    N_CELLS,
    PLACED,
    SLOPE,
    SPARE,
    SPARE_ROW,
    TERM,
    USED,
    WORTH,
    Z,
)

__all__ = ["exchange", "likelihood", "log_density", "neighbours", "rebuild"]


@register_jitable
def log_density(q, nu, m):
    """Student's t of m cells at squared distance q, up to constants."""
    return -0.5 * (nu + m) * np.log(1.0 + (0.0 if q < 0.0 else q) / nu)


@register_jitable
def rebuild(order, record, P, room):
    """Write z, Q, g and the constant −½ log|P_HH| of the state."""
    p, rows, Q = len(order), record.rows, P if room is None else room[LEFT]
    record.numbers[CONSTANT] = 0.0
    if room is not None:
        record.numbers[CONSTANT] = -0.5 * _sweep(order, record, P, -1, Q)
    for j in range(p):
        rows[PLACED, j] = record.planes[Z, order[j], j]
    for j in range(p):
        total = 0.0
        for i in range(p):
            total += Q[j, i] * rows[PLACED, i]
        rows[SLOPE, j] = total


@register_jitable
def likelihood(order, record, links):
    """Log-likelihood of the state."""
    rows, numbers = record.rows, record.numbers
    q, unary = 0.0, numbers[CONSTANT]
    if links is not None:
        unary += _links(order, record, links, False)
    for j in range(len(order)):
        q += rows[PLACED, j] * rows[SLOPE, j]
        unary += record.planes[WORTH, order[j], j]
    return log_density(q, numbers[DEGREES], numbers[N_CELLS]) + unary


@register_jitable
def exchange(order, a, b, record, P, room):
    """Exchange the values at places a and b; changes order and state."""
    rows, Q = record.rows, P if room is None else room[LEFT]
    i, j = order[a], order[b]
    order[a], order[b] = j, i
    if room is not None and (record.cells[HOLE, i] or record.cells[HOLE, j]):
        rebuild(order, record, P, room)
        return
    da = record.planes[Z, j, a] - rows[PLACED, a]
    db = record.planes[Z, i, b] - rows[PLACED, b]
    for c in range(len(order)):
        rows[SLOPE, c] += da * Q[a, c] + db * Q[b, c]
    rows[PLACED, a] += da
    rows[PLACED, b] += db


@register_jitable
def neighbours(order, record, P, room, links):
    """Write the log-likelihood after the exchange of places a < b into the plane AROUND.

    Returns that of the state.
    """
    p, planes, rows, cells = len(order), record.planes, record.rows, record.cells
    nu, m, Q = record.numbers[DEGREES], record.numbers[N_CELLS], P if room is None else room[LEFT]
    q, unary = 0.0, 0.0
    if links is not None:
        unary += _links(order, record, links, False)
    for j in range(p):
        q += rows[PLACED, j] * rows[SLOPE, j]
        unary += planes[WORTH, order[j], j]
    if room is not None:
        _move_holes(order, record, P, room, q, unary)
    unary += record.numbers[CONSTANT]
    current = log_density(q, nu, m) + unary
    for a in range(p):
        i = order[a]
        for b in range(a + 1, p):
            j = order[b]
            paid = planes[WORTH, j, a] + planes[WORTH, i, b]
            paid = paid - planes[WORTH, i, a] - planes[WORTH, j, b]
            if room is not None and (cells[HOLE, i] or cells[HOLE, j]):
                if cells[HOLE, i] and cells[HOLE, j]:
                    planes[AROUND, a, b] = current + paid
                continue
            da, db = planes[Z, j, a] - rows[PLACED, a], planes[Z, i, b] - rows[PLACED, b]
            changed = q + da * (2 * rows[SLOPE, a] + da * Q[a, a])
            changed += db * (2 * rows[SLOPE, b] + db * Q[b, b]) + 2 * da * db * Q[a, b]
            planes[AROUND, a, b] = log_density(changed, nu, m) + unary + paid
    if links is not None:
        _links(order, record, links, True)
    return current


@register_jitable
def _links(order, record, links, exchanges):
    """Return the sum of the terms of all links.

    If `exchanges`, what exchanges of places a < b change is added to the plane AROUND.
    """
    bins, own, planes = record.bins, record.own, record.planes
    cells, rows, ends, terms = record.cells, record.rows, links.ends, links.terms
    total, p = 0.0, len(order)
    for e in range(len(ends)):
        j, k, kind, now = ends[e, 0], ends[e, 1], ends[e, 2], 0.0
        # As it is; with the value of every place a in the first place; with it in the second.
        for t in range(2 * p + 1 if exchanges else 1):
            x, y, place, a = order[j], order[k], j if t <= p else k, (t - 1) % p
            if t > 0 and (a == place or (t > p and a == j)):
                continue
            if t > p:
                y = order[a]
            elif t > 0:
                x, y = order[a], x if a == k else y
            term, key = 0.0, -1
            if kind < 0:
                one, other = bins[x, j], bins[y, k]
                if one >= 0 and other >= 0:
                    key, term = one * terms.shape[2] + other, terms[e, one, other]
            elif cells[KIND + (x != j), x] == kind and cells[KIND + (y != k), y] == kind:
                low, high = rows[AMOUNT + (x != j), x], rows[AMOUNT + (y != k), y]
                key = 0 if low < high else 1 if low == high else 2
                term = terms[e, 0, key]
            if key >= 0 and key == own[KEY, e]:
                term = own[TERM, e]
            if t > 0:
                low_place, high_place = (place, a) if place < a else (a, place)
                planes[AROUND, low_place, high_place] += term - now
            else:
                now = term
                total += term
    return total


@register_jitable
def _leave_out(Q, h):
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


@register_jitable
def _sweep(order, record, P, spared, Q):
    """Leave out the places of cells without z, except `spared`; writes Q, returns log|P_HH|."""
    p, cells = len(order), record.cells
    for i in range(p):
        for j in range(p):
            Q[i, j] = P[i, j]
    logdet = 0.0
    for h in range(p):
        if h != spared and cells[USED, h] and cells[HOLE, order[h]]:
            logdet += np.log(_leave_out(Q, h))
    return logdet


@register_jitable
def _move_holes(order, record, P, room, q_now, unary):
    """The same for exchanges of a cell without z, at place h, with an observed one."""
    p, planes, rows, cells = len(order), record.planes, record.rows, record.cells
    nu, m = record.numbers[DEGREES], record.numbers[N_CELLS]
    for h in range(p):
        i = order[h]
        if not cells[HOLE, i]:
            continue
        Q, slope, q, logdet = room[LEFT], SLOPE, q_now, -2.0 * record.numbers[CONSTANT]
        if cells[USED, h]:
            Q, slope, q = room[SPARE], SPARE_ROW, 0.0
            logdet = _sweep(order, record, P, h, Q)
            for b in range(p):
                rows[slope, b] = 0.0
                for c in range(p):
                    rows[slope, b] += Q[b, c] * rows[PLACED, c]
                q += rows[slope, b] * rows[PLACED, b]
        for b in range(p):
            j = order[b]
            if cells[HOLE, j]:
                continue
            da, db, pivot = planes[Z, j, h], -rows[PLACED, b], Q[b, b]
            changed = q + da * (2 * rows[slope, h] + da * Q[h, h])
            changed += db * (2 * rows[slope, b] + db * pivot) + 2 * da * db * Q[h, b]
            rest = rows[slope, b] + da * Q[b, h] + db * pivot
            changed -= rest * rest / pivot
            paid = unary + planes[WORTH, j, h] + planes[WORTH, i, b]
            paid = paid - planes[WORTH, i, h] - planes[WORTH, j, b]
            density = log_density(changed, nu, m) - 0.5 * (logdet + np.log(pivot))
            low, high = (h, b) if h < b else (b, h)
            planes[AROUND, low, high] = density + paid
