"""Write a made-up table of parcels in which the weights of some rows were shuffled.

python examples/make_parcels.py parcels.csv
"""

import sys

import numpy as np


def main(path):
    """Write the table."""
    rng = np.random.default_rng(0)
    length, width, height = rng.uniform(5, 50, (3, 300))
    volume = length * width * height
    weight = 0.7 * volume * np.exp(3e-4 * rng.standard_normal(300))
    rows = rng.choice(300, 120, replace=False)
    weight[rows] = weight[rng.permutation(rows)]
    table = np.column_stack([length, width, height, volume, weight])
    header = "length,width,height,volume,weight"
    np.savetxt(path, table, fmt="%.3f", delimiter=",", header=header, comments="")


if __name__ == "__main__":
    main(sys.argv[1])
