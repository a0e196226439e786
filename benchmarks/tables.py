"""Tables with damaged records: how many are found, and how many cells are wrong afterwards?

30% of the records are damaged: a share of the attributes moved, two fields swapped, or a tail
(three cells or more) shifted by one. A record counts as damaged if a value changed, a cell as
wrong if its value differs from the truth. Run ``python benchmarks/tables.py --part rows``.
"""

import argparse
import time

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine

from unpermute.table._records import repair_records

TABLES = {
    "cancer": lambda: load_breast_cancer().data,
    "wine": lambda: load_wine().data,
    "diabetes": lambda: load_diabetes(scaled=False).data,
    "digits": lambda: load_digits().data,
}
# Asked for: damaged records flagged (at least), wrong cells after (at most), in per cent.
ASKED = {
    ("cancer", "10%"): (99, 0.6), ("cancer", "20%"): (99, 1.5), ("cancer", "40%"): (99, 4.5),
    ("cancer", "swap"): (96, 0.4), ("cancer", "shift"): (99, 0.5),
    ("wine", "20%"): (91, 6.5), ("wine", "swap"): (82, 3.5), ("wine", "shift"): (99, 1.0),
    ("diabetes", "20%"): (91, 2.0), ("diabetes", "swap"): (90, 2.0),
    ("diabetes", "shift"): (99, 3.5), ("digits", "20%"): (0, 100),
}  # fmt: skip


def damage_record(x, how, rng):
    """A damaged copy of one record."""
    p, y = len(x), x.copy()
    if how == "swap":
        places = rng.choice(p, 2, replace=False)
        y[places] = x[places[::-1]]
    elif how == "shift":
        start = rng.integers(0, p - 2)
        y[start:] = np.roll(x[start:], rng.choice([-1, 1]))
    else:
        places = rng.choice(p, max(2, round(float(how.rstrip("%")) / 100 * p)), replace=False)
        order = rng.permutation(len(places))
        while np.any(order == np.arange(len(places))):
            order = rng.permutation(len(places))
        y[places] = x[places[order]]
    return y


def damage_table(X, how, seed, share=0.3):
    """A copy with a share of the records damaged."""
    rng = np.random.default_rng(seed)
    Y = X.copy()
    for r in rng.choice(len(X), round(share * len(X)), replace=False):
        Y[r] = damage_record(X[r], how, rng)
    return Y


def measure(X, Y, result):
    """Figures of one repaired table, in per cent."""
    fixed = np.take_along_axis(Y, result.permutations, axis=1)
    damaged = np.any(X != Y, axis=1)
    flagged = result.status != "clean"
    touched = np.any(fixed != Y, axis=1)
    named = {"swap": "two fields swapped", "shift": "tail shifted by one"}
    seen = result.cause[damaged & flagged]
    causes = {key: np.sum(seen == name) / max(len(seen), 1) for key, name in named.items()}
    return {
        "flagged": 100 * np.mean(flagged[damaged]),
        "touched": 100 * np.mean(touched[~damaged]),
        "listed": 100 * np.mean(flagged[~damaged]),
        "before": 100 * np.mean((X != Y)[damaged]),
        "after": 100 * np.mean((fixed != X)[damaged]),
        "exact": 100 * np.mean(np.all(fixed == X, axis=1)[damaged]),
    } | {f"named {key}": 100 * value for key, value in causes.items()}


def rows(tables, seeds):
    """Print one line for every table and kind of damage."""
    names = ["flagged", "touched", "listed", "before", "after", "exact", "named"]
    print(f"{'table':9}{'damage':8}" + "".join(f"{n:>9}" for n in names) + "  s  asked")
    for (table, how), (asked_flagged, asked_after) in ASKED.items():
        if table not in tables:
            continue
        X = TABLES[table]()
        figures, seconds = [], 0.0
        for seed in seeds:
            Y = damage_table(X, how, seed)
            start = time.perf_counter()
            result = repair_records(Y, random_state=seed)
            seconds += (time.perf_counter() - start) / len(seeds)
            figures.append(measure(X, Y, result))
        mean = {key: np.mean([f[key] for f in figures]) for key in figures[0]}
        mean["named"] = mean.get(f"named {how}", np.nan)
        ok = mean["flagged"] >= asked_flagged and mean["touched"] <= 1
        ok &= mean["after"] <= min(asked_after, mean["before"])
        cells = "".join(f"{mean[n]:9.2f}" for n in names)
        verdict = "ok" if ok else "MISSED"
        print(f"{table:9}{how:8}{cells} {seconds:5.2f}  {asked_flagged}/1/{asked_after} {verdict}",
              flush=True)  # fmt: skip


def sources(seeds):
    """One source of three in another column order: how often is that found exactly?"""
    X = TABLES["cancer"]()
    groups = np.repeat([0, 1, 2], 50)
    exact = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        truth = X[rng.permutation(len(X))[:150]]
        Y, moved = truth.copy(), groups == rng.integers(3)
        Y[moved] = truth[moved][:, rng.permutation(X.shape[1])]
        result = repair_records(Y, groups=groups, random_state=seed)
        exact.append(np.array_equal(np.take_along_axis(Y, result.permutations, axis=1), truth))
    print(f"sources  {np.sum(exact)} of {len(exact)} tables exactly restored, asked 95%")


def main():
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--part", choices=["rows"], default="rows")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    rows(options.tables, seeds)
    sources(range(options.first_seed, options.first_seed + 4 * options.seeds))


if __name__ == "__main__":
    main()
