"""Columns of two real tables shuffled, and put back: how much better than leaving them alone?

The paper's protocol: vectors are the columns, centred and scaled to length 1; number of subspaces
(1), rank and number of permuted columns are given. The error is that of the whole table in its
own units. The student scores need their data folder (``UNPERMUTE_DATA``). Run
``python benchmarks/reidentification.py --ratios 0.2 0.4``.
"""

import argparse

import numpy as np

from unpermute import PMSDR
from unpermute.datasets import load_benign_tumours, load_student_scores
from unpermute.experiments.synthetic_grid import paper_method

TABLES = {
    "scores": (load_student_scores, range(7, 14), 3),
    "tumours": (load_benign_tumours, range(1, 30, 2), 4),
}


def shuffle_columns(X, columns, ratio, seed):
    """Shuffle a share of the entries of every named vector, each in its own way."""
    rng = np.random.default_rng(seed)
    Y = X.copy()
    for column in columns:
        places = rng.choice(X.shape[1], int(ratio * X.shape[1] + 1e-9), replace=False)
        Y[column, places] = Y[column, rng.permutation(places)]
    return Y


def errors(name, ratio, seed):
    """Errors of leaving alone, of every output, and of the paper's method."""
    load, columns, rank = TABLES[name]
    table = load().data
    X = (table - table.mean(axis=0)).T
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    X = X / lengths
    Y = shuffle_columns(X, columns, ratio, seed)
    results = {"alone": Y}
    for output in ("values", "blend", "subspace"):
        model = PMSDR(1, rank, contamination=len(columns), output=output, random_state=0)
        results[output] = model.fit_transform(Y)
    results["paper"] = paper_method(1, rank, len(columns), 0).fit_transform(Y)
    norm = np.linalg.norm(table)
    return {key: np.linalg.norm((value - X) * lengths) / norm for key, value in results.items()}


def main():
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument(
        "--ratios", type=float, nargs="+", default=[0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 1]
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for name in options.tables:
        for ratio in options.ratios:
            figures = errors(name, ratio, options.seed)
            cells = "  ".join(f"{key} {value:.3f}" for key, value in figures.items())
            print(f"{name:8} {ratio:4.1f}  {cells}", flush=True)


if __name__ == "__main__":
    main()
