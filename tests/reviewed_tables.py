"""Tables for tests of the workbench: patients, some of whose values stand in wrong columns."""

import csv
import io

import numpy as np

NAMES = [
    *("patient", "name", "city", "age", "height"),
    *("weight", "systolic", "diastolic", "admitted", "cost"),
]
_FIRST = ["Ann", "Bob", "Cem", "Dora", "Eve", "Finn", "Gita", "Hugo", "Nora", "Jan", "Kira", "Leo"]
_CITIES = ["Berlin", "Hamburg", "München", "Köln", "Leipzig", "Bremen"]
# Columns that change places; the last is a cycle of three.
_SWAPS = [(4, 5), (6, 7), (3, 6), (8, 2), (1, 2), (9, 4), (3, 4, 5)]


def patients(n=400, *, n_damaged=24, exchanged=(), seed=0):
    """Return the records of a table, whole and damaged; blood pressures of some are exchanged."""
    rng = np.random.default_rng(seed)
    height = rng.normal(172, 9, n)
    weight = 0.9 * (height - 100) + rng.normal(0, 7, n)
    age = rng.integers(18, 90, n)
    systolic = 110 + 0.4 * age + rng.normal(0, 8, n)
    diastolic = 0.62 * systolic + rng.normal(0, 4, n)
    days = np.datetime64("2015-01-01") + rng.integers(0, 3000, n)
    whole = [
        [f"P{i:05d}", str(rng.choice(_FIRST)), str(rng.choice(_CITIES)), str(age[i]),
         f"{height[i]:.1f}", f"{weight[i]:.1f}", f"{systolic[i]:.0f}", f"{diastolic[i]:.0f}",
         str(days[i]), f"{rng.lognormal(4, 0.5):.2f}"]
        for i in range(n)
    ]  # fmt: skip
    damaged = [list(record) for record in whole]
    for k, i in enumerate(rng.choice(n, n_damaged, replace=False)):
        columns = list(_SWAPS[k % len(_SWAPS)])
        values = [damaged[i][column] for column in columns]
        for column, value in zip(columns, values[1:] + values[:1], strict=True):
            damaged[i][column] = value
    for i in exchanged:
        damaged[i][6], damaged[i][7] = damaged[i][7], damaged[i][6]
    return whole, damaged


def as_csv(records, names=NAMES):
    """Return records as a file."""
    sink = io.StringIO()
    csv.writer(sink, lineterminator="\n").writerows([names, *records])
    return sink.getvalue().encode()


def as_ragged_csv(records, rows):
    """Return records as a file in which some lines have other fields than the header.

    The first of every three gets a delimiter within the name, the second loses its weight, and
    nothing can be done about the third.
    """
    lines = as_csv(records).decode().splitlines()
    for k, row in enumerate(rows):
        fields = lines[row + 1].split(",")
        if k % 3 == 0:
            fields[1:2] = [fields[1], " Dr"]
        elif k % 3 == 1:
            del fields[5]
        else:
            fields += ["x", "y", "z"]
        lines[row + 1] = ",".join(fields)
    return ("\n".join(lines) + "\n").encode()
