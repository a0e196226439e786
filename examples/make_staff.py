"""Write a made-up table of staff whose salary follows from the other columns.

python examples/make_staff.py staff.csv [round salaries to so much]
"""

import sys

import numpy as np


def main(path, unit):
    """Write the table."""
    rng = np.random.default_rng(0)
    age, years = rng.integers(20, 65, 400), rng.integers(0, 30, 400)
    hours = rng.integers(20, 41, 400)
    salary = 1500 + 41 * age + 67 * years + 33 * hours + 5 * rng.standard_normal(400)
    salary = np.round(salary / unit) * unit
    header = "age,years,hours,salary"
    table = np.column_stack([age, years, hours, salary])
    np.savetxt(path, table, fmt="%g", delimiter=",", header=header, comments="")


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0.01)
