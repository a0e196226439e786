"""Parts of the search of records: against plain loops, and with and without what is left out."""

import numpy as np
import pytest

from unpermute.records import _weigh
from unpermute.records._cells import number_cells
from unpermute.records._model import fit_model
from unpermute.records._placement import _set_free
from unpermute.records._prior import default_prior
from unpermute.records._record import new_room, new_work, read_records
from unpermute.records._search import _rotations, exchanged
from unpermute.records._weigh import Seen


def _weigh_plainly(x, states, order, best, stays):
    """Weigh one record, state by state; `states` maps orders to log-posteriors."""
    identity = tuple(range(len(x)))
    answer = tuple(order) if best > stays else identity
    states = states | {tuple(order): max(best, states.get(tuple(order), -np.inf))}
    changed = {state: np.exp(value - stays) for state, value in states.items()}
    changed.pop(identity, None)
    same = sum(weight for state, weight in changed.items() if all(x[[*state]] == x[[*answer]]))
    total = sum(changed.values())
    return np.log(total), (same + (answer == identity)) / (total + 1)


@pytest.mark.parametrize("seed", range(6))
def test_every_order_seen_counts_once(seed):
    rng = np.random.default_rng(seed)
    n, p = 8, 6
    words, stays = rng.integers(5, size=(n, p)), rng.normal(size=n)
    seen, states, every = Seen(words, stays), [{} for _ in range(n)], np.arange(n)
    above = np.triu(np.ones((p, p), dtype=bool), 1)
    order = np.stack([rng.permutation(p) for _ in range(n)])
    for first in range(4):
        # An exchange away from the last one, which is then seen again.
        order[:, [first, 4]] = order[:, [4, first]]
        value = rng.normal(size=n)
        around = np.where(above, rng.normal(-1, 2, size=(n, p, p)), -np.inf)
        seen.add_around(every, order, value, around, around.max(axis=(1, 2)))
        for r in range(n):
            for a, b in [(0, 0), *np.argwhere(above)]:
                state = order[r].copy()
                state[[a, b]] = state[[b, a]]
                added = value[r] if a == b else around[r, a, b]
                states[r][tuple(state)] = max(added, states[r].get(tuple(state), -np.inf))
    odds, right = seen.weigh(order, value)
    for r in range(n):
        expected = _weigh_plainly(words[r], states[r], order[r], value[r], stays[r])
        np.testing.assert_allclose((odds[r], right[r]), expected)


def test_what_is_kept_of_a_record_does_not_depend_on_its_company(monkeypatch, rng):
    n, p = 5, 12
    words = np.tile(np.arange(p), (n, 1))
    steps = [rng.permuted(words, axis=1) for _ in range(40)]
    around = rng.normal(-1.0, 1.0, size=(40, n, p, p))
    around[:, :, ~np.triu(np.ones((p, p), dtype=bool), 1)] = -np.inf
    monkeypatch.setattr(_weigh, "_MOST_KEPT", 2000)

    def weigh(rows):
        seen, every = Seen(words[rows], np.full(len(rows), -3.0)), np.arange(len(rows))
        for orders, own in zip(steps, around, strict=True):
            best = own[rows].max(axis=(1, 2))
            seen.add_around(every, orders[rows], np.zeros(len(rows)), own[rows], best)
            assert seen.n_kept <= 2000
        return np.array(seen.weigh(steps[0][rows], np.zeros(len(rows))))

    together = weigh(np.arange(n))
    for row in range(n):
        np.testing.assert_allclose(weigh(np.array([row]))[:, 0], together[:, row])


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
