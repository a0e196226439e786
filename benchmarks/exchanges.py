"""Two columns exchanged in many rows: in a run of rows, scattered, and in clean tables.

``--part runs``: in 5%, 20% and 30% of the rows, and in the second half. Asked: the run is named
with its first and last row; repaired if it is a minority, a question if not; never the wrong side.
``--part scattered``: in 10% to 50% of the rows. Asked: repaired, or a question with an answer that
puts all back; nothing wrong. ``--part clean``: no run and no question in tables as they are,
sorted, drifting, or with columns that change places by nature.

The method was tuned on tables of seeds below 100.
"""

import argparse

import numpy as np
import pandas as pd
from made_tables import FIRST, LAST, MIXED, customers, hospital, orders, random_table
from records import public_tables

from unpermute.table import repair, scan

ROWS = 1000


def sensors(n, seed):
    """Five sensors over time."""
    rng = np.random.default_rng(seed)
    wave = np.sin(np.arange(n) / 50)
    columns = {
        "temperature": (20 + 5 * wave + rng.normal(0, 0.5, n)).round(2),
        "humidity": (60 - 10 * wave + rng.normal(0, 2, n)).round(1),
        "pressure": (1013 + rng.normal(0, 3, n)).round(1),
        "co2": (420 + 50 * rng.random(n)).round(0),
        "voltage": (3.3 + rng.normal(0, 0.02, n)).round(3),
    }
    return pd.DataFrame(columns).astype(str)


def walks(n, seed):
    """Six series that drift and cross."""
    steps = np.random.default_rng(seed).normal(size=(n, 6))
    return pd.DataFrame(steps.cumsum(axis=0).round(2), columns=list("abcdef")).astype(str)


def trends(n, seed):
    """Five series with a trend, some of which cross."""
    noise = np.random.default_rng(seed).normal(0, 0.1, (n, 5))
    slopes = np.outer(np.linspace(-1, 1, n), [1, -1, 0.5, 0, -2])
    return pd.DataFrame((10 + slopes + noise).round(2), columns=list("abcde")).astype(str)


def mirrors(n, seed):
    """Columns that change places by nature: matches, parents, accounts, bounds, shares."""
    rng = np.random.default_rng(seed)
    teams = np.array([f"Team {letter}" for letter in "ABCDEFGHIJKLMNOPQR"])
    home = rng.integers(0, 18, n)
    away = (home + rng.integers(1, 18, n)) % 18
    held, paid = rng.normal(52, 8, n).round(1), rng.lognormal(5, 0.4, n).round(2)
    low, debit, before = rng.normal(10, 3, n), rng.random(n) < 0.4, rng.normal(140, 15, n)
    opened = rng.lognormal(4, 1, n)
    planned = np.datetime64("2020-01-01") + rng.integers(0, 900, n)
    columns = {
        "home": teams[home], "away": teams[away], "goals": rng.poisson(1.6, n),
        "against": rng.poisson(1.2, n), "held": held, "lost": (100 - held).round(1),
        "mother": rng.choice(FIRST[::2], n), "father": rng.choice(FIRST[1::2], n),
        "surname": rng.choice(LAST, n), "maiden": rng.choice(LAST, n), "lower": low.round(2),
        "upper": (low + rng.gamma(2, 1, n)).round(2), "debit": np.where(debit, paid, 0),
        "credit": np.where(debit, 0, paid), "before": before.round(),
        "after": (before - rng.normal(6, 8, n)).round(), "open": opened.round(2),
        "close": (opened * np.exp(rng.normal(0.003, 0.02, n))).round(2), "planned": planned,
        "done": planned + rng.normal(1, 3, n).round().astype(int),
        "is": np.where(debit, "yes", "no"), "is_not": np.where(debit, "no", "yes"),
    }  # fmt: skip
    return pd.DataFrame({name: np.asarray(part).astype(str) for name, part in columns.items()})


PAIRS = [
    (customers, "first_name", "last_name"), (customers, "age", "n_orders"),
    (customers, "city", "country"), (customers, "joined", "last_seen"),
    (sensors, "temperature", "humidity"), (sensors, "pressure", "co2"), (orders, "net", "tax"),
    (orders, "net", "gross"), (orders, "placed", "shipped"), (orders, "item", "payment"),
    (hospital, "systolic", "diastolic"), (hospital, "born", "admitted"),
]  # fmt: skip


def exchanged(truth, a, b, rows):
    """A copy with two columns exchanged in some rows."""
    damaged, places = truth.copy(), [truth.columns.get_loc(name) for name in (a, b)]
    damaged.iloc[rows, places] = truth.iloc[rows, places[::-1]].to_numpy()
    return damaged


class Tally:
    """Counts over tables of one kind."""

    def __init__(self):
        self.n = self.whole = self.asked = self.named = self.wrong = self.answered = 0

    def add(self, truth, damaged, pair, run=None):
        """Repair one table, and answer its question rightly."""
        result = repair(damaged, n_jobs=1)
        right = result.frame.to_numpy() == truth.to_numpy()
        questions = [each for each in result.summary["questions"] if each["columns"] == [*pair]]
        self.n += 1
        self.whole += right.all(axis=1).mean() >= 0.999
        self.wrong += np.sum(~right) > np.sum(damaged.to_numpy() != truth.to_numpy())
        self.asked += bool(questions)
        if run is not None:
            self.named += run in _named(result, questions, len(truth))
        for question in questions[:1]:
            fixed = [
                repair(damaged, exchange=each["exchange"], n_jobs=1).frame.to_numpy()
                for each in question["readings"]
            ]
            answers = [(each == truth.to_numpy()).all(axis=1).mean() for each in fixed]
            self.answered += max(answers) >= 0.999

    def __str__(self):
        """The counts in words."""
        return (
            f"{self.whole} repaired, {self.asked} asked ({self.answered} settled by the right"
            f" answer), {self.named} named, {self.wrong} wrong"
        )


def _named(result, questions, n):
    """First and last row of the runs that are named, or of the rest of the table."""
    rows = result.vectors.loc[result.vectors["cause"].str.contains("run of rows"), "row"]
    found = [(int(rows.min()), int(rows.max()))] if len(rows) else []
    for question in questions:
        first, last = question["first_row"], question["last_row"]
        if first is not None:
            found += [(first, last), (0, first - 1), (last + 1, n - 1)]
    return found


def runs(seeds):
    """Exchanges in a run of rows."""
    print("\nruns of rows")
    for make, a, b in PAIRS:
        for first, stop in ((0.3, 0.35), (0.5, 0.7), (0.1, 0.4), (0.5, 1.0)):
            tally, run = Tally(), (round(first * ROWS), round(stop * ROWS) - 1)
            for seed in seeds:
                truth = make(ROWS, seed)
                tally.add(truth, exchanged(truth, a, b, np.arange(run[0], run[1] + 1)), (a, b), run)
            share = f"{stop - first:.0%}"
            print(f"{make.__name__}, {a} and {b}, {share} of {tally.n}: {tally}", flush=True)


def scattered(seeds):
    """Exchanges in rows anywhere."""
    print("\nscattered rows")
    for make, a, b in PAIRS:
        for share in (0.1, 0.2, 0.3, 0.5):
            tally = Tally()
            for seed in seeds:
                truth = make(ROWS, seed)
                rows = np.random.default_rng([seed, 17]).permutation(ROWS)[: round(share * ROWS)]
                tally.add(truth, exchanged(truth, a, b, rows), (a, b))
            print(f"{make.__name__}, {a} and {b}, {share:.0%} of {tally.n}: {tally}", flush=True)


def clean(seeds, n_made):
    """Tables without damage: no runs and no questions."""
    print("\nclean tables (asked: nothing)")
    makers = [*MIXED.values(), sensors, walks, trends, mirrors]
    groups = {"public": list(public_tables().values())}
    groups |= {make.__name__: [make(ROWS, seed) for seed in seeds] for make in makers}
    groups["made"] = [random_table(7000 + k + seeds[0]) for k in range(n_made)]
    for name, tables in groups.items():
        n_tables = n_asked = n_runs = 0
        for table in tables:
            orders = [np.arange(len(table))]
            orders += [table[column].argsort(kind="stable") for column in table.columns[:2]]
            for order in orders:
                result = scan(table.iloc[order].reset_index(drop=True).astype(object), n_jobs=1)
                n_tables += 1
                n_asked += bool(result.summary["questions"])
                n_runs += bool(result.vectors["cause"].str.contains("run of rows").any())
        print(f"{name:10} {n_tables:4} tables: {n_asked} asked, {n_runs} with runs", flush=True)


def main():
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parts = ["runs", "scattered", "clean"]
    parser.add_argument("--part", nargs="+", choices=parts, default=parts)
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--made", type=int, default=20, help="tables of random kinds of columns")
    options = parser.parse_args()
    seeds = list(range(options.first_seed, options.first_seed + options.seeds))
    if "runs" in options.part:
        runs(seeds)
    if "scattered" in options.part:
        scattered(seeds)
    if "clean" in options.part:
        clean(seeds, options.made)


if __name__ == "__main__":
    main()
