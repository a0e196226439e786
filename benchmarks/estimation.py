"""Nothing given: number of subspaces, ranks and permuted vectors estimated by the defaults.

Problems with 2 to 8 subspaces of mixed ranks 2 to 8, 100 vectors each, M = 50, 10–60% of the
vectors permuted, 20–50% of their entries shuffled. Run ``python benchmarks/estimation.py``
(``--snr 25`` for more noise, ``--first 1000`` for other draws).
"""

import argparse

import numpy as np

from unpermute import PMSDR
from unpermute.datasets import make_permuted_subspaces


def draw_problem(seed, snr_db):
    """Draw one problem; returns the data and the ranks."""
    rng = np.random.default_rng(seed)
    ranks = rng.integers(2, 9, size=rng.integers(2, 9)).tolist()
    data = make_permuted_subspaces(
        len(ranks),
        100,
        50,
        ranks,
        outlier_ratio=rng.uniform(0.1, 0.6),
        shuffled_ratio=rng.uniform(0.2, 0.5),
        snr_db=snr_db,
        random_state=seed,
    )
    return data, ranks


def score(data, ranks):
    """Whether the number and all ranks are right, and F1 of the detection."""
    model = PMSDR(random_state=0).fit(data.X)
    found, true = model.outlier_mask_, data.outlier_mask
    f1 = 2 * np.sum(found & true) / (found.sum() + true.sum())
    return model.n_subspaces_ == len(ranks), sorted(model.ranks_) == sorted(ranks), f1


def main():
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--problems", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="seed of the first problem")
    parser.add_argument("--snr", type=float, default=40.0)
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.problems)
    rows = np.array([score(*draw_problem(seed, options.snr)) for seed in seeds], dtype=float)
    asked = 0.98 if options.snr >= 40 else 0.95
    print(f"{len(rows)} problems at {options.snr:g} dB, nothing given")
    print(f"  number of subspaces right {rows[:, 0].mean():.1%} (asked: 95%)")
    print(f"  all ranks right           {rows[:, 1].mean():.1%} (asked: 85%)")
    print(f"  F1 of detection, mean     {rows[:, 2].mean():.3f} (asked: {asked})")
    print(f"  F1 of detection, worst    {rows[:, 2].min():.3f} (asked: 0.9)")


if __name__ == "__main__":
    main()
