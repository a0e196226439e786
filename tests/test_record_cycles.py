"""Parts of a repair that are sure by themselves, and records that were damaged twice."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest

from unpermute.records._parts import _MOST_CYCLES, _Broken, cycles_of, swap_limits
from unpermute.records._prior import default_prior, swap_shares
from unpermute.records._trials import N_KINDS, damage_kinds, damage_orders
from unpermute.table import learn, repair


def damaged_twice(rng, n=600):
    """A table, and a copy with two exchanges in some records, of which one is hard to tell."""
    far = rng.normal(size=(n, 3)) * [1, 50, 4] + [0, 1000, -300]
    near = rng.normal(size=(n, 4)) * 5 + [80, 90, 100, 110]
    clean = pd.DataFrame(np.hstack([far, near]).round(2), columns=list("abcdefg"))
    values = clean.to_numpy(copy=True)
    for row in range(0, n, 8):
        for places in (rng.choice(3, 2, replace=False), 3 + rng.choice(4, 2, replace=False)):
            values[row, places] = values[row, places[::-1]]
    return clean, pd.DataFrame(values, columns=clean.columns)


def test_a_sure_part_is_carried_out_alone(rng):
    clean, damaged = damaged_twice(rng)
    result = repair(damaged)
    rows = np.arange(0, 600, 8)
    right = (result.frame == clean).to_numpy()
    assert right[rows][:, :3].all(axis=1).mean() > 0.9
    partial = result.vectors[result.vectors["evidence"].str.endswith("look misplaced, too")]
    assert len(partial) > 3
    assert set(partial["status"]) == {"recovered"}
    assert (partial["confidence"] >= 0.95).all()
    assert any("only a part is certain" in note for note in result.summary["notes"])
    moved = (result.frame != damaged).to_numpy()
    assert right[moved].mean() >= 0.97
    assert not moved[np.setdiff1d(np.arange(600), rows)].any()


def test_a_part_is_proposed_whatever_stands_beside_the_record(rng):
    _, damaged = damaged_twice(rng)
    model = learn(damaged)
    together = model.repair(damaged, adapt=False)
    assert together.vectors["evidence"].str.endswith("look misplaced, too").any()
    alone = model.repair(damaged.iloc[:120], adapt=False)
    np.testing.assert_array_equal(alone.frame.to_numpy(), together.frame.iloc[:120].to_numpy())
    np.testing.assert_array_equal(alone.confidence, together.confidence[:120])


def test_a_smaller_confidence_repairs_the_whole(rng):
    clean, damaged = damaged_twice(rng)
    sure, likely = repair(damaged), repair(damaged, min_confidence=0.5)
    n_whole = [(each.frame == clean).all(axis=1).sum() for each in (sure, likely)]
    assert n_whole[1] > n_whole[0]


def test_cycles_are_numbered(rng):
    orders = np.array([rng.permutation(7) for _ in range(200)])
    for order, cycles in zip(orders, cycles_of(orders), strict=True):
        for place in range(7):
            if order[place] == place:
                assert cycles[place] == -1
                continue
            reached = {place}
            while (place := int(order[place])) not in reached:
                reached.add(place)
            assert set(np.flatnonzero(cycles == cycles[place])) == reached
        assert set(cycles) - {-1} == set(range(cycles.max() + 1))


@pytest.mark.parametrize("seed", range(3))
def test_shares_of_parts_are_those_of_the_orders_seen(seed):
    rng, n, p = np.random.default_rng(seed), 4, 6
    words, stays = rng.integers(0, 8, size=(n, p)), rng.normal(size=n)
    answer = np.array([1, 0, 3, 4, 2, 5])
    cycles = np.tile(cycles_of(answer[None])[0], (n, 1))
    ranks, shares = np.empty((n, _MOST_CYCLES), dtype=int), np.empty((n, _MOST_CYCLES))
    seen = _Broken(words, stays, words[:, answer], cycles, (ranks, shares))
    every, known = np.arange(n), [{tuple(answer): 0.0} for _ in range(n)]
    for _ in range(4):
        orders = np.array([rng.permutation(p) for _ in range(n)])
        values, around = rng.normal(size=n), rng.normal(size=(n, p, p))
        around[:, *np.tril_indices(p)] = -np.inf
        seen.add_around(every, orders, values, around, around.max(axis=(1, 2)))
        for r in range(n):
            _know(known[r], orders[r], values[r])
            for a, b in zip(*np.triu_indices(p, 1), strict=True):
                other = orders[r].copy()
                other[[a, b]] = other[[b, a]]
                _know(known[r], other, around[r, a, b])
    seen.weigh(np.tile(answer, (n, 1)), np.zeros(n))
    for r in range(n):
        known[r].pop(tuple(range(p)), None)
        orders, weights = np.array(list(known[r])), np.exp(list(known[r].values()))
        agree = words[r][orders] == words[r][answer]
        alone = [
            weights @ np.all(agree[:, cycles[r] == k], axis=1) / weights.sum() for k in range(2)
        ]
        assert ranks[r, :2].tolist() == ([0, 1] if alone[0] >= alone[1] else [1, 0])
        assert shares[r, 0] == pytest.approx(max(alone))
        both = weights @ np.all(agree[:, :5], axis=1) / weights.sum()
        assert shares[r, 1] == pytest.approx(both)


def _know(known, order, log_posterior):
    key = tuple(order.tolist())
    known[key] = max(known.get(key, -np.inf), log_posterior)


def test_a_part_is_no_surer_than_its_swaps():
    limits = np.full((5, 5), np.inf)
    limits[0, 1], limits[2, 3] = 1.0, -2.0
    orders = np.array([[1, 0, 2, 3, 4], [1, 0, 3, 2, 4], [1, 2, 0, 3, 4], [0, 1, 2, 4, 3]])
    assert swap_limits(limits, orders).tolist() == [1.0, -2.0, np.inf, np.inf]


def test_shares_of_swaps_count_them():
    for k in range(2, 7):
        deranged = [o for o in permutations(range(k)) if all(o[i] != i for i in range(k))]
        swaps = sum(all(o[o[i]] == i for i in range(k)) for o in deranged)
        assert swap_shares(8)[k] == pytest.approx(swaps / len(deranged))


def test_trials_damage_some_records_twice(rng):
    orders = damage_orders(np.tile(np.arange(8), (3000, 1)), default_prior(8), rng)
    n_cycles = cycles_of(orders).max(axis=1) + 1
    assert np.mean(n_cycles > 1) > 0.1
    twice = np.array([[1, 0, 3, 2, 4], [1, 2, 3, 0, 4], [1, 0, 2, 3, 4]])
    assert damage_kinds(twice).tolist() == [N_KINDS - 1, 2, 0]
