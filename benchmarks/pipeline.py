"""The whole pipeline with its defaults on the paper's synthetic grid, beside the published figures.

L, r and the number of permuted vectors are given, as in the paper; ``output="subspace"``. Run
``python benchmarks/pipeline.py -o draws.csv`` for all 108 cells and three seeds (an hour or two on
two cores: where half of the vectors can be found, the others cost most), or name a part, as
``--subspaces 2 --seeds 1``. Every draw is written to the file at once, and draws that it holds are
not run again.
"""

import argparse
import csv
from itertools import product
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

from unpermute import PMSDR
from unpermute.experiments.synthetic_grid import compare, format_table, run_cell

RANKS = (3, 5, 10, 15, 20, 25)
RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)


def default_method(n_subspaces, rank, n_outliers, random_state):
    """Build the defaults with what the paper gives."""
    return PMSDR(
        n_subspaces, rank, contamination=n_outliers, output="subspace", random_state=random_state
    )


def read_draws(path):
    """Return the records of an earlier run, by setting and seed."""
    if path is None or not Path(path).exists():
        return {}
    with open(path, newline="", encoding="utf-8") as stream:
        records = [{k: float(v) for k, v in row.items()} for row in csv.DictReader(stream)]
    for record in records:
        record.update({name: int(record[name]) for name in ("n_subspaces", "rank", "seed")})
    return {key_of(record): record for record in records}


def key_of(record):
    """Setting and seed."""
    return tuple(record[name] for name in ("n_subspaces", "rank", "shuffled_ratio", "seed"))


def keep(record, path):
    """Append a record to the file."""
    if path is None:
        return
    new = not Path(path).exists()
    with open(path, "a", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, record)
        if new:
            writer.writeheader()
        writer.writerow(record)


def summarise(rows, records):
    """Print the figures over the cells beside the asked ones."""
    cells = rows[:-1]
    harmed = [record for record in records if record["RE_values"] > record["RE_observed"]]
    values = np.array([record["RE_values"] for record in records])
    observed = np.array([record["RE_observed"] for record in records])
    errors = np.array([row["RE"] for row in cells])
    refined = np.array([row["RE_refined"] - row["RE_refined_published"] for row in cells])
    print(f"{len(cells)} cells: mean RE {errors.mean():.3f} (asked: at most 0.20)")
    print(f"cells below 0.05: {np.mean(errors < 0.05):.0%} (asked: at least 70%)")
    print(f"largest RE {errors.max():.3f} (asked: none above 1)")
    print(
        f"cells worse than published by 0.05 (refined): {np.sum(refined > 0.05)} (asked: at most 2)"
    )
    print(f"draws harmed by output='values': {len(harmed)} of {len(records)} (asked: none)")
    print(f"error of the values {values.mean():.3f}, of the observed matrix {observed.mean():.3f}")


def main():
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--subspaces", type=int, nargs="+", default=[2, 5, 10])
    parser.add_argument("--ranks", type=int, nargs="+", default=list(RANKS))
    parser.add_argument("--ratios", type=float, nargs="+", default=list(RATIOS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("-o", "--output", help="file of draws, kept and completed")
    options = parser.parse_args()
    wanted = list(product(options.subspaces, options.ranks, options.ratios, range(options.seeds)))
    draws = read_draws(options.output)
    tasks = (
        delayed(run_cell)(*key, make_model=default_method) for key in wanted if key not in draws
    )
    for record in Parallel(options.jobs, return_as="generator_unordered")(tasks):
        draws[key_of(record)] = record
        keep(record, options.output)
    records = [draws[key] for key in wanted]
    rows = compare(records)
    print(format_table(rows))
    summarise(rows, records)


if __name__ == "__main__":
    main()
