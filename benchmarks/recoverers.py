"""The recoverers other than search: success, median error and time per vector, one thread.

M = 50, true basis; success is a relative error below 5%. Run
``python benchmarks/recoverers.py``.
"""

import argparse
import time
import warnings

import numpy as np

from unpermute.datasets import make_permuted_subspaces
from unpermute.recover import recover_vectors

PARTLY = ((5, 0.2), (5, 0.4), (5, 0.6), (10, 0.4), (10, 0.6), (15, 0.4), (25, 0.2))
COMPLETELY = ((1, 1.0), (2, 1.0), (3, 1.0), (4, 1.0))
NOISY = COMPLETELY[1:]
LARGE = ((5, 1.0), (6, 1.0))


def measure(method, rank, ratio, snr_db, n_vectors, seed):
    """Share of right vectors, median error, CPU milliseconds per vector."""
    data = make_permuted_subspaces(
        1,
        n_vectors,
        50,
        rank,
        outlier_ratio=1.0,
        shuffled_ratio=ratio,
        snr_db=snr_db,
        random_state=seed,
    )
    basis = data.bases[0]
    recover_vectors(data.X[:2], basis, method=method, random_state=0)
    start = time.process_time()
    fitted = recover_vectors(data.X, basis, method=method, random_state=0).fitted
    milliseconds = 1e3 * (time.process_time() - start) / n_vectors
    error = np.linalg.norm(fitted - data.X_clean, axis=1)
    return np.mean(error < 0.05), np.median(error), milliseconds


def print_table(methods, cells, snr_db, n_vectors, seed):
    """Print one line per cell."""
    print(f"rank, share moved, at {snr_db:g} dB: " + ", ".join(methods))
    for rank, ratio in cells:
        figures = [measure(method, rank, ratio, snr_db, n_vectors, seed) for method in methods]
        text = "  ".join(f"{right:4.0%} ({error:.3f}) {ms:6.2f} ms" for right, error, ms in figures)
        print(f"{rank:3} {ratio:4.1f}  {text}")


def main():
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--vectors", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    n, seed = options.vectors, options.seed
    print_table(("lsrf", "l1", "pl"), PARTLY, 40.0, n, seed)
    print_table(("aiem", "branch-and-bound"), COMPLETELY, 40.0, n, seed)
    print_table(("aiem", "branch-and-bound"), NOISY, 20.0, n, seed)
    print_table(("branch-and-bound",), LARGE, 40.0, max(n // 20, 2), seed)


if __name__ == "__main__":
    main()
