"""Parts of the search of records: against plain loops, and with and without what is left out."""

import numpy as np
import pytest

from unpermute.records._cells import number_cells
from unpermute.records._model import fit_model
from unpermute.records._placement import _set_free
from unpermute.records._prior import default_prior
from unpermute.records._record import new_room, new_work, read_records
from unpermute.records._search import _rotations, exchanged
from unpermute.records._weigh import weigh


def _weigh_plainly(x, order, best, stays, around, own, turned, rotated):
    """Weigh one record, state by state."""
    p, moves, top = len(x), best > stays, max(best, stays)
    identity = np.arange(p)
    answer = order if moves else identity
    wrong, changed, same = np.zeros(p), float(moves), 1.0

    def swapped(state, a, b):
        state = state.copy()
        state[[a, b]] = state[[b, a]]
        return state

    states = []
    if moves:
        wrong += np.exp(stays - top) * (x != x[answer])
    for a in range(p):
        for b in range(a + 1, p):
            if moves and not np.array_equal(swapped(order, a, b), identity):
                changed += np.exp(around[a, b] - top)
                wrong[[a, b]] += np.exp(around[a, b] - top)
            if not moves or np.sum(swapped(identity, a, b) != order) > 2:
                states.append((swapped(identity, a, b), np.exp(own[a, b] - top)))
    for turn in range(2):
        for start in range(p):
            state = rotated[turn, start]
            if not moves or np.any(state != order):
                states.append((state, np.exp(turned[turn, start] - top)))
    for state, weight in states:
        if weight > 1e-12:
            changed += weight
            wrong += weight * (x[state] != x[answer])
            same += weight * np.array_equal(x[state], x[answer])
    total = changed + np.exp(stays - top)
    odds = np.log(max(changed, 1e-300)) + top - stays
    return odds, same / total, np.clip(1 - wrong / total, 0, 1)


@pytest.mark.parametrize("seed", range(6))
def test_weights_are_those_of_a_plain_loop(seed):
    rng = np.random.default_rng(seed)
    n, p = 20, 6
    words = rng.integers(5, size=(n, p))
    order = np.stack([rng.permutation(p) for _ in range(n)])
    order[::3] = np.arange(p)
    order[::3, [1, 4]] = 4, 1
    best, stays = rng.normal(size=(2, n))
    above = np.triu(np.ones((p, p), dtype=bool), 1)
    around, own = (np.where(above, rng.normal(-1, 2, size=(n, p, p)), -np.inf) for _ in range(2))
    own[rng.random(own.shape) < 0.2] = -np.inf
    turned, rotated = rng.normal(-1, 2, size=(n, 2, p)), _rotations(p)
    turned[:, :, -1] = -np.inf
    found = weigh(words, order, (best, stays), around.copy(), own, turned, rotated)
    for k in range(n):
        expected = _weigh_plainly(
            words[k], order[k], best[k], stays[k], around[k], own[k], turned[k], rotated
        )
        for got, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(got[k], wanted, rtol=1e-12, atol=1e-12)


def test_rotations_turn_tails_by_one():
    forth, back = _rotations(4)
    assert forth[1].tolist() == [0, 2, 3, 1]
    assert back[1].tolist() == [0, 3, 1, 2]
    assert forth[3].tolist() == back[3].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("only_if_it_pays", [True, False])
def test_cells_are_set_free_as_if_each_were_left_out_alone(rng, only_if_it_pays):
    n, p, nu = 12, 8, 5.0
    A = rng.normal(size=(p, p))
    P, z = A @ A.T + np.eye(p), rng.normal(size=(n, p))
    z[np.arange(n), rng.integers(p, size=n)] *= 20
    holes = rng.random((n, p)) < 0.15
    z[holes] = 0.0
    free = _set_free(only_if_it_pays, z, np.tile(P, (n, 1, 1)), np.full(n, nu), holes)

    def distance(k, left):
        # The squared distance of the cells that are left, by the covariance.
        return z[k, left] @ np.linalg.solve(np.linalg.inv(P)[np.ix_(left, left)], z[k, left])

    def log_density(k, left, m):
        return -0.5 * (nu + m) * np.log1p(distance(k, left) / nu)

    for k in range(n):
        left = np.flatnonzero(~holes[k])
        while len(left) > (2 if only_if_it_pays else p // 2):
            without = [np.delete(left, i) for i in range(len(left))]
            nearest = min(without, key=lambda rest, k=k: distance(k, rest))
            pays = log_density(k, nearest, len(left)) - log_density(k, left, len(left))
            if only_if_it_pays and pays < 4.0:
                break
            left = nearest
        assert np.flatnonzero(~free[k]).tolist() == left.tolist()


def test_what_is_not_compiled_for_complete_tables_changes_nothing(rng):
    X = rng.normal(size=(40, 5)) @ rng.normal(size=(5, 5))
    cells = number_cells(X)
    model, placed = fit_model(cells, np.ones(40, dtype=bool), default_prior(5), rank=None, seed=0)
    tables, laws = placed.tables(), model.laws()
    assert new_room(tables) is None
    results = []
    for room in (None, np.empty((2, 5, 5))):
        work = new_work(40, 5, laws)
        read_records(tables, laws, 0, 40, work)
        results.append(
            [part.copy() for part in exchanged(work, room, laws, np.array([0, 2, 1, 3, 4]))]
        )
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other)
