"""Write a small made-up table of customers, with some fields in the wrong columns.

    python examples/make_customers.py customers.csv [--damage 0.05] [--seed 0] [--rows 600]

The tutorials use it. The names and addresses are drawn at random from short lists.
"""

import argparse
import csv
from datetime import date, timedelta

import numpy as np

FIRST = [
    "Ada", "Ben", "Clara", "David", "Emma", "Felix", "Grace", "Henry", "Ida", "Jonas", "Kim", "Lea",
    "Max", "Nora", "Oscar", "Paula",
]  # fmt: skip
LAST = [
    "Adler", "Berg", "Costa", "Dubois", "Evans", "Fischer", "Garcia", "Hansen", "Ito", "Jensen",
    "Kaya", "Kim", "Lang", "Max", "Moreau",
]  # fmt: skip
TOWNS = {
    "Berlin": ("DE", "+49"), "Hamburg": ("DE", "+49"), "Lyon": ("FR", "+33"),
    "Paris": ("FR", "+33"), "Madrid": ("ES", "+34"), "Oslo": ("NO", "+47"),
    "Porto": ("PT", "+351"), "Rome": ("IT", "+39"),
}  # fmt: skip
COLUMNS = [
    "customer", "first_name", "last_name", "email", "town", "country", "phone", "joined", "visits",
    "orders", "spent",
]  # fmt: skip


def make_customer(number, rng):
    """Return the fields of one customer as texts."""
    first, last, town = rng.choice(FIRST), rng.choice(LAST), rng.choice(list(TOWNS))
    country, prefix = TOWNS[town]
    visits = int(rng.poisson(12) + 1)
    orders = int(rng.binomial(visits, 0.5) + 1)
    joined = date(2015, 1, 1) + timedelta(days=int(rng.integers(0, 3600)))
    mail = f"{first}.{last}{rng.integers(1, 99)}@example.org".lower()
    phone = f"{prefix} {rng.integers(100, 999)} {rng.integers(100000, 999999)}"
    spent = f"{orders * rng.gamma(9, 4):.2f}"
    return [
        f"C{number:05d}",
        first, last, mail, town, country, phone, joined.isoformat(),
        str(visits), str(orders), spent,
    ]  # fmt: skip


def damage(fields, rng):
    """Exchange two fields, or shift the end of the record by one."""
    fields = list(fields)
    if rng.random() < 0.7:
        a, b = rng.choice(np.arange(1, len(fields)), 2, replace=False)
        fields[a], fields[b] = fields[b], fields[a]
    else:
        start = int(rng.integers(3, 7))
        fields[start:] = fields[-1:] + fields[start:-1]
    return fields


def main():
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path")
    parser.add_argument("--damage", type=float, default=0.05, help="share of damaged records")
    parser.add_argument("--seed", type=int, default=0, help="random seed")
    parser.add_argument("--rows", type=int, default=600, help="number of records")
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    rows = [make_customer(1000 * options.seed + k, rng) for k in range(options.rows)]
    broken = rng.random(options.rows) < options.damage
    with open(options.path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(
            damage(row, rng) if bad else row for row, bad in zip(rows, broken, strict=True)
        )


if __name__ == "__main__":
    main()
