"""Success of ``search`` over a grid of problems, and the parameters of ``theory.recoverability``.

Every cell draws vectors of random subspaces, gives ``search`` the true basis and nothing else, and
counts relative errors below 5%. Cells that cannot do better than an easier one without a single
success are skipped. Run ``python benchmarks/recoverability.py``; it takes some minutes. With
``--rows FILE`` the measured rows are kept, and read again the next time.
"""

import argparse
import csv
import itertools
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from unpermute.datasets import make_permuted_subspaces
from unpermute.recover import recover_vectors
from unpermute.theory._recoverability import _FITTED, Curves, success

RANKS = (2, 4, 6, 8, 10, 15, 20, 25)
RATIOS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
# n_features: ranks and shuffled ratios; fewer where a failure takes seconds.
GRID = {30: (RANKS, RATIOS), 50: (RANKS, RATIOS), 100: ((2, 6, 15, 25), (0.2, 0.4, 0.6, 0.8, 1.0))}
SNRS_DB = (40.0, 30.0, 20.0)
# With so much noise nothing is certified, and every vector takes its whole budget: less of it.
MAX_STARTS = {20.0: 1500}
COLUMNS = ("n_features", "rank", "shuffled_ratio", "snr_db", "n_vectors", "n_right")


def count_right(n_features, rank, shuffled_ratio, snr_db, n_vectors, seed):
    """Number of vectors, two to a basis, that ``search`` recovers with an error below 5%."""
    n_right = 0
    for k in range(n_vectors // 2):
        data = make_permuted_subspaces(
            1, 2, n_features, rank, outlier_ratio=1.0, shuffled_ratio=shuffled_ratio,
            snr_db=snr_db, random_state=1000 * seed + k,
        )  # fmt: skip
        max_starts = MAX_STARTS.get(snr_db)
        result = recover_vectors(
            data.X, data.bases[0], max_starts=max_starts, random_state=seed, n_jobs=1
        )
        # Clean vectors have length 1.
        errors = np.linalg.norm(result.fitted - data.X_clean, axis=1)
        n_right += int(np.sum(errors < 0.05))
    return n_right


def measure_cell(cell, n_first, n_more, seed):
    """Look at a few vectors; at more if they disagree."""
    n_right, n_vectors = count_right(*cell, n_first, seed), n_first
    if 0 < n_right < n_first:
        n_right += count_right(*cell, n_more, seed + 1)
        n_vectors += n_more
    return (*cell, n_vectors, n_right)


def measure_grid(n_first=8, n_more=12, seed=0):
    """Rows of `COLUMNS`, the easiest cells first."""
    rows = []
    for n_features, (ranks, ratios) in GRID.items():
        for cell in itertools.product([n_features], ranks, ratios, SNRS_DB):
            if cell[1] <= 0.8 * cell[0] and not any(_no_easier(cell, row) for row in rows):
                rows.append(measure_cell(cell, n_first, n_more, seed))
    return rows


def _no_easier(cell, row):
    """Whether a cell is at least as hard as a measured one without success."""
    n_features, rank, ratio, snr_db = cell
    hopeless = row[5] == 0
    same = row[0] == n_features
    return hopeless and same and row[1] <= rank and row[2] <= ratio and row[3] >= snr_db


def write_rows(path, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])


def read_rows(path):
    with path.open(newline="") as file:
        return [tuple(float(row[name]) for name in COLUMNS) for row in csv.DictReader(file)]


def fit_curves(rows):
    """Constants of the formula with the largest likelihood of the measured counts."""
    rows = np.array(rows, dtype=float)
    n_vectors, n_right = rows[:, 4], rows[:, 5]

    def loss(parameters):
        share = np.clip(success(*rows[:, :4].T, Curves(*parameters)), 1e-3, 1 - 1e-3)
        likelihood = n_right * np.log(share) + (n_vectors - n_right) * np.log(1 - share)
        return -likelihood.sum() / n_vectors.sum()

    # From the constants in use, each as a multiple of itself.
    scale = np.array(_FITTED)
    bounds = [(0.3, 3.0)] * len(scale)
    found = minimize(lambda z: loss(z * scale), np.ones(len(scale)), bounds=bounds)
    return Curves(*(found.x * scale).tolist())


def compare(rows, curves):
    """Measured share and formula, row by row."""
    rows = np.array(rows, dtype=float)
    return rows[:, 5] / rows[:, 4], success(*rows[:, :4].T, curves)


def print_report(rows, curves):
    measured, formula = compare(rows, curves)
    print(f"{'M':>5} {'r':>3} {'ratio':>5} {'dB':>3} {'vectors':>7} {'measured':>8} {'formula':>7}")
    for row, share, predicted in zip(rows, measured, formula, strict=True):
        n_features, rank, ratio, snr_db, n_vectors, _ = row
        print(
            f"{n_features:5.0f} {rank:3.0f} {ratio:5.1f} {snr_db:3.0f} {n_vectors:7.0f}"
            f" {share:8.2f} {predicted:7.2f}"
        )
    for name, value in curves._asdict().items():
        print(f"{name:16s} {value:7.3f}")
    differences = np.abs(measured - formula)
    undecided = differences[(measured > 0) & (measured < 1)]
    print(f"mean absolute difference {differences.mean():.3f} over {len(rows)} cells,")
    if len(undecided):
        print(f"{undecided.mean():.3f} over the {len(undecided)} between 0 and 1,")
    _, packaged = compare(rows, _FITTED)
    print(f"{np.abs(measured - packaged).mean():.3f} with the constants in unpermute.theory")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=Path, help="CSV file of measured rows, read if it exists")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.rows is not None and options.rows.exists():
        rows = read_rows(options.rows)
    else:
        rows = measure_grid(seed=options.seed)
        if options.rows is not None:
            write_rows(options.rows, rows)
    print_report(rows, fit_curves(rows))


if __name__ == "__main__":
    main()
