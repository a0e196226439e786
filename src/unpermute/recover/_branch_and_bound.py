r"""Branch and bound: the best permutation of all, with a proof.

.. math:: \min_{x, \Pi} \|y - \Pi U x\|_2^2
          \;=\; \min_\Pi \; \|y\|^2 - \|U^\top \Pi^\top y\|^2 ,

the right-hand side since the best x for a permutation is :math:`x_\Pi = U^\top \Pi^\top y`.

Choose it when all entries may have moved, the rank is at most 6, and the answer has to be known to
be the best one: the relative gap between its cost and the proved lower bound is always reported.
At M = 50 and 40 dB the gap closes within a few milliseconds up to rank 4, in 0.05 s at rank 5 and
in half a second to a few seconds at rank 6, where the budget may have to be raised. Every
coefficient more multiplies the work by about ten: above that, or when no proof is needed, use
``search``. The best answer is not always the truth: with noise another permutation may fit better.

Boxes of coefficients are split, best bound first. For a box with centre c and half-widths δ, let
:math:`F(c) = \min_\Pi \|y - \Pi U c\|^2`, which a sort finds. If the best answer :math:`x_\Pi` of
some permutation lies in the box then, by Pythagoras in the range of U,

.. math:: \|y - \Pi U x_\Pi\|^2 = \|y - \Pi U c\|^2 - \|x_\Pi - c\|^2 \ge F(c) - \|\delta\|^2 ,

so the right-hand side is a lower bound for the box. It is the bound that replaces the concave cost
by its envelope over the box [1]_, in closed form. Three facts shrink the boxes further. With C the
lowest cost known, only answers of lower cost matter, and these satisfy

- :math:`\|y\|^2 - C < \|x\|^2 \le \|y\|^2`, the cost being :math:`\|y\|^2 - \|x\|^2`;
- :math:`|g_b^\top x - s_b| \le w_b \sqrt C` for every block b of places, where :math:`s_b` is the
  sum of its values, :math:`g_b = U^\top 1_b` and :math:`w_b = \|(I - UU^\top) 1_b\|`: the residual
  is orthogonal to U, shorter than :math:`\sqrt C`, and sums to :math:`s_b - g_b^\top x` there.

Upper bounds come from the centres by sorting and refitting in turn.

References
----------
.. [1] Peng & Tsakiris, "Linear regression without correspondences via concave minimization", IEEE
   Signal Processing Letters 27, 2020, arXiv:2003.07706.
"""

import numpy as np
from numba import njit

from unpermute.numerics.parallel import map_blocks
from unpermute.numerics.result import warn_not_converged
from unpermute.recover._aiem import alternate, order_by_block, require_complete
from unpermute.recover._problem import RecoverySolution

__all__ = ["branch_and_bound"]

_MAX_RANK = 6
_MAX_BOXES = 500_000
_TOLERANCE = 1e-3
# Squared cost, as a share of ‖y‖², at which the fit is exact up to rounding: no better one exists.
_EXACT = 1e-22
# Rounding allowed for in the conditions that discard boxes, as a share of ‖y‖ or ‖y‖².
_SLACK = 1e-12
# An upper bound costs as much as several lower ones: the first boxes all get one, later only one
# box in this many, and boxes whose cost is near the best.
_EAGER_BOXES, _EVERY = 200, 16


def branch_and_bound(problem):
    """Solve a :class:`RecoveryProblem` to proved optimality.

    Parameters
    ----------
    problem : RecoveryProblem
        Complete vectors, rank at most 6. `max_starts` is the number of boxes per vector (default
        500 000); with `noise_scale`, a cost at or below the expected :math:`(M - r)\\sigma^2` ends
        the search, whatever the gap.

    Returns
    -------
    RecoverySolution
        ``info`` holds, for every vector, the relative ``gap`` between cost and lower bound, the
        root mean square ``cost`` and the number of boxes ``n_boxes``. Converged where the gap is
        at most 1e-3, or the cost at most the noise.

    Raises
    ------
    ValueError
        For more than 6 coefficients, or missing entries.
    """
    Y, (n_features, rank) = problem.Y, problem.basis.shape
    if rank > _MAX_RANK:
        raise ValueError(
            f"method='branch-and-bound' searches boxes of at most {_MAX_RANK} coefficients, but the"
            f" basis has rank {rank}; use method='search'."
        )
    problem.require_linear("branch-and-bound")
    require_complete(Y, "branch-and-bound")
    length = np.linalg.norm(Y, axis=1)
    scale = np.where(length > 0.0, length, 1.0)
    noise = 0.0 if problem.noise_scale is None else problem.noise_scale
    enough = np.maximum((n_features - rank) * (noise / scale) ** 2, _EXACT)
    coefficients, state = _search(problem, Y / scale[:, None], enough)
    squared, gap, converged = state[:, 0], state[:, 1], state[:, 2] > 0
    if not converged.all():
        warn_not_converged(
            f"branch and bound of {np.sum(~converged)} of {len(Y)} vectors",
            gap[~converged].max(),
            _TOLERANCE,
            f"raise max_starts above {int(state[~converged, 3].max())} boxes, or give noise_scale",
        )
    info = {
        "gap": gap.copy(),
        "cost": np.sqrt(squared / n_features) * scale,
        "n_boxes": state[:, 3].astype(np.int64),
    }
    return RecoverySolution(coefficients * scale[:, None], converged, info)


def _search(problem, Y, enough):
    """Coefficients of unit vectors, and their squared cost, gap, convergence and boxes."""
    n, rank = len(Y), problem.basis.shape[1]
    # First axis along the sum of the rows: there the second condition is an interval.
    axes = np.linalg.qr(np.column_stack([problem.basis.sum(axis=0), np.eye(rank)]))[0]
    rows, starts, values = order_by_block(problem.basis @ axes, problem.blocks, Y)
    sums = np.add.reduceat(values, starts[:-1], axis=1)
    normals = np.add.reduceat(rows, starts[:-1], axis=0)
    slack = np.sqrt(np.maximum(np.diff(starts) - np.sum(normals**2, axis=1), 0.0))
    budget = _MAX_BOXES if problem.max_starts is None else max(problem.max_starts, 2)
    coefficients, state = np.zeros((n, rank)), np.zeros((n, 4))

    def run(start, stop):
        for j in range(start, stop):
            _search_one(
                *(rows, starts, values[j], (normals, sums[j], slack)),
                *(enough[j], budget, coefficients[j], state[j]),
            )

    map_blocks(run, n, block=1, stage="recover", n_jobs=problem.n_jobs)
    return coefficients @ axes.T, state


@njit(cache=True, nogil=True, error_model="numpy")
def _search_one(rows, starts, values, conditions, enough, budget, x, state):
    """Search for one vector of length 1. Writes into the last two arguments."""
    rank = rows.shape[1]
    centre, half = np.empty((budget, rank)), np.empty((budget, rank))
    bound, heap = np.empty(budget), np.empty(budget, dtype=np.int64)
    for a in range(rank):
        centre[0, a], half[0, a] = 0.0, 1.0
    bound[0], heap[0] = 0.0, 0
    length = 0.0
    for i in range(len(values)):
        length += values[i] ** 2
    # x = 0 costs ‖y‖²: the first upper bound. `floor` is the lowest bound of a discarded box.
    cost, floor = length, np.inf
    # Plain constants would have numba compile what is called below once more for them.
    n_open, n_stored, n_boxes = np.int64(1), np.int64(1), np.int64(0)
    while n_open > 0 and cost > enough and n_boxes + 2 <= budget:
        box, n_open = _pop(bound, heap, n_open)
        if bound[box] >= cost * (1.0 - _TOLERANCE):
            floor = min(floor, bound[box])
            break
        _split(centre, half, bound, box, n_stored)
        for child in (box, n_stored):
            if not _contract(centre[child], half[child], length, cost, conditions):
                continue
            n_boxes += 1
            matching, cost = _evaluate(rows, starts, values, centre[child], n_boxes, cost, x)
            for a in range(rank):
                matching -= half[child, a] ** 2
            bound[child] = max(bound[child], matching)
            if bound[child] < cost * (1.0 - _TOLERANCE):
                n_open = _push(bound, heap, n_open, child)
            else:
                floor = min(floor, bound[child])
        n_stored += 1
    if n_open > 0:
        floor = min(floor, bound[heap[0]])
    exact = cost <= _EXACT
    gap = 0.0 if exact else max(1.0 - max(floor, 0.0) / cost, 0.0)
    state[0], state[1], state[3] = cost, gap, n_boxes
    state[2] = 1.0 if gap <= _TOLERANCE or cost <= enough else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _split(centre, half, bound, box, new):
    """Halve the longest side; the second half goes to the place `new`."""
    longest = 0
    for a in range(centre.shape[1]):
        centre[new, a], half[new, a] = centre[box, a], half[box, a]
        if half[box, a] > half[box, longest]:
            longest = a
    quarter = 0.5 * half[box, longest]
    half[box, longest] = half[new, longest] = quarter
    centre[box, longest] -= quarter
    centre[new, longest] += quarter
    bound[new] = bound[box]


@njit(cache=True, nogil=True, error_model="numpy")
def _contract(centre, half, length, cost, conditions):
    """Shrink the box to where a cost below `cost` is possible; False where it is nowhere."""
    normals, sums, slack = conditions
    rank = len(centre)
    for b in range(len(sums)):
        offset, width = sums[b], slack[b] * np.sqrt(cost) + _SLACK * (1.0 + abs(sums[b]))
        for a in range(rank):
            offset -= normals[b, a] * centre[a]
            width += abs(normals[b, a]) * half[a]
        for a in range(rank):
            normal = normals[b, a]
            if abs(normal) * half[a] > 1e-9 * width:
                others = width - abs(normal) * half[a]
                target = centre[a] + offset / normal
                before, reach = centre[a], others / abs(normal)
                if not _clip(centre, half, a, target - reach, target + reach):
                    return False
                offset -= normal * (centre[a] - before)
                width = others + abs(normal) * half[a]
        if abs(offset) > width:
            return False
    return _contract_to_shell(centre, half, length, cost)


@njit(cache=True, nogil=True, error_model="numpy")
def _contract_to_shell(centre, half, length, cost):
    """The part of :func:`_contract` that knows the length of x."""
    outer, inner = length * (1.0 + _SLACK), length * (1.0 - _SLACK) - cost
    near, far = 0.0, 0.0
    for a in range(len(centre)):
        near += max(abs(centre[a]) - half[a], 0.0) ** 2
        far += (abs(centre[a]) + half[a]) ** 2
    for a in range(len(centre)):
        near -= max(abs(centre[a]) - half[a], 0.0) ** 2
        far -= (abs(centre[a]) + half[a]) ** 2
        reach = np.sqrt(max(outer - near, 0.0))
        if not _clip(centre, half, a, -reach, reach) or near > outer:
            return False
        # |x_a| must be at least this; the box may lie on both sides of the hole.
        hole = np.sqrt(max(inner - far, 0.0))
        low, high = centre[a] - half[a], centre[a] + half[a]
        if low > -hole and not _clip(centre, half, a, hole, high):
            return False
        if high < hole and not _clip(centre, half, a, low, -hole):
            return False
        near += max(abs(centre[a]) - half[a], 0.0) ** 2
        far += (abs(centre[a]) + half[a]) ** 2
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _clip(centre, half, a, low, high):
    """Intersect side a of the box with [low, high]; False if nothing is left."""
    low, high = max(low, centre[a] - half[a]), min(high, centre[a] + half[a])
    if low > high:
        return False
    centre[a], half[a] = 0.5 * (low + high), 0.5 * (high - low)
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _evaluate(rows, starts, values, centre, n_boxes, cost, x):
    """Matching cost at the centre, and the lowest cost known; x is its solution."""
    rank = len(centre)
    fitted = np.empty(len(values))
    for i in range(len(values)):
        total = 0.0
        for a in range(rank):
            total += rows[i, a] * centre[a]
        fitted[i] = total
    matching = 0.0
    for b in range(len(starts) - 1):
        ordered = np.sort(fitted[starts[b] : starts[b + 1]])
        for k in range(len(ordered)):
            matching += (values[starts[b] + k] - ordered[k]) ** 2
    eager = n_boxes <= _EAGER_BOXES or n_boxes % _EVERY == 0
    if eager or matching < 2.0 * cost:
        trial = centre.copy()
        reached, _ = alternate(rows, starts, values, trial)
        if reached < cost:
            cost = reached
            for a in range(rank):
                x[a] = trial[a]
    return matching, cost


@njit(cache=True, nogil=True, error_model="numpy")
def _push(keys, heap, size, item):
    """Add an item to the heap of lowest keys; returns the new size."""
    position = size
    heap[position] = item
    while position > 0:
        parent = (position - 1) // 2
        if keys[heap[parent]] <= keys[heap[position]]:
            break
        heap[parent], heap[position] = heap[position], heap[parent]
        position = parent
    return size + 1


@njit(cache=True, nogil=True, error_model="numpy")
def _pop(keys, heap, size):
    """Take the item of lowest key from the heap; returns it and the new size."""
    top, size, position = heap[0], size - 1, 0
    heap[0] = heap[size]
    while 2 * position + 1 < size:
        child = 2 * position + 1
        if child + 1 < size and keys[heap[child + 1]] < keys[heap[child]]:
            child += 1
        if keys[heap[position]] <= keys[heap[child]]:
            break
        heap[position], heap[child] = heap[child], heap[position]
        position = child
    return top, size
