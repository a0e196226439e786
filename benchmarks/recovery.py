"""What ``recover_vectors(method="search")`` recovers and how fast, beside what is asked of it.

The true basis is given, the shuffled ratio and the noise level are not; M = 50 and 40 dB unless
said otherwise; a vector is right if the relative error of the fitted one is below 5%. Times are CPU
times of one thread, after compilation. Run ``python benchmarks/recovery.py``, with ``--quick`` for
fewer vectors, or with ``--part fully-shuffled`` and the like for some of the tables.
"""

import argparse
import functools
import time
from typing import NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score

from unpermute import PMSDR
from unpermute.datasets import make_permuted_subspaces
from unpermute.metrics import recovery_error
from unpermute.recover import recover_vectors

N_FEATURES, SNR_DB = 50, 40.0
# (rank, shuffled ratio): least share of right vectors.
PARTLY_SHUFFLED = {
    (5, 0.6): 0.99, (10, 0.5): 0.99, (15, 0.4): 0.99, (20, 0.3): 0.99, (25, 0.2): 0.99,
    (10, 0.6): 0.95, (15, 0.5): 0.95, (25, 0.3): 0.95, (20, 0.4): 0.85, (15, 0.6): 0.45,
}  # fmt: skip
EASY = (5, 0.4)
FULLY_SHUFFLED = {(3, 1.0): 0.99, (4, 1.0): 0.99, (5, 1.0): 0.95, (6, 1.0): 0.85}
# Cells that are looked at with more noise too when the confidence is judged.
NOISIER = {30.0: [(5, 0.6), (10, 0.5), (15, 0.4), (20, 0.3)], 25.0: [(5, 0.4), (10, 0.4), (3, 1.0)]}
HARD = [(15, 0.6), (20, 0.4)]
LARGE = (1000, 10_000, 100_000)


class Cell(NamedTuple):
    """What became of the vectors of one kind."""

    right: np.ndarray
    right_lsrf: np.ndarray
    confidence: np.ndarray
    ms: float


@functools.cache
def measure(rank, ratio, snr_db, n_vectors, seed, n_bases=4):
    """Recover vectors of one kind, in equal parts from several subspaces, all tables the same."""
    sizes = [len(part) for part in np.array_split(np.arange(n_vectors), n_bases)]
    data = make_permuted_subspaces(
        n_bases, sizes, N_FEATURES, rank, outlier_ratio=1.0, shuffled_ratio=ratio,
        snr_db=snr_db, random_state=seed,
    )  # fmt: skip
    fitted, lsrf = np.empty_like(data.X), np.empty_like(data.X)
    confidence, seconds = np.empty(n_vectors), 0.0
    for k, basis in enumerate(data.bases):
        rows = data.labels == k
        start = time.process_time()
        result = recover_vectors(data.X[rows], basis, random_state=seed, n_jobs=1)
        seconds += time.process_time() - start
        fitted[rows], confidence[rows] = result.fitted, result.confidence
        lsrf[rows] = recover_vectors(data.X[rows], basis, method="lsrf", n_jobs=1).fitted
    return Cell(
        is_right(fitted, data.X_clean),
        is_right(lsrf, data.X_clean),
        confidence,
        1e3 * seconds / n_vectors,
    )


def is_right(fitted, truth):
    """Relative error below 5%, for every vector."""
    return np.linalg.norm(fitted - truth, axis=1) < 0.05 * np.linalg.norm(truth, axis=1)


def compare_success(cells, n_vectors, seed):
    """Rows of rank, ratio, asked share, share of right vectors, that of LSRF, ms per vector."""
    rows = []
    for (rank, ratio), asked in cells.items():
        cell = measure(rank, ratio, SNR_DB, n_vectors, seed)
        rows.append((rank, ratio, asked, cell.right.mean(), cell.right_lsrf.mean(), cell.ms))
    return rows


def time_large(n_features, seed, rank=10, ratio=0.3, n_vectors=3):
    """Seconds per vector and largest relative error with many entries."""
    data = make_permuted_subspaces(
        1, n_vectors, n_features, rank, outlier_ratio=1.0, shuffled_ratio=ratio,
        snr_db=SNR_DB, random_state=seed,
    )  # fmt: skip
    start = time.process_time()
    result = recover_vectors(data.X, data.bases[0], random_state=seed, n_jobs=1)
    seconds = (time.process_time() - start) / n_vectors
    errors = np.linalg.norm(result.fitted - data.X_clean, axis=1)  # clean vectors have length 1
    return seconds, errors.max()


def pool(cells, n_vectors, seed):
    """Confidence and truth of all vectors of (rank, ratio, snr_db) cells."""
    measured = [measure(*cell, n_vectors, seed) for cell in cells]
    return (
        np.concatenate([cell.confidence for cell in measured]),
        np.concatenate([cell.right for cell in measured]),
    )


def confidence_cells():
    """All cells at 40 dB, and some with more noise."""
    cells = [(*cell, SNR_DB) for cell in [*PARTLY_SHUFFLED, EASY, *FULLY_SHUFFLED]]
    return cells + [(*cell, snr_db) for snr_db, some in NOISIER.items() for cell in some]


def reliability(confidence, right, n_bins=10):
    """Rows of lower end, count, mean confidence, share right, for bins of equal width."""
    bins = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    return [
        (k / n_bins, int(np.sum(bins == k)), confidence[bins == k].mean(), right[bins == k].mean())
        for k in np.unique(bins)
    ]


def calibration_error(confidence, right):
    """Mean over the vectors of |mean confidence − share right| of their bin."""
    rows = reliability(confidence, right)
    return sum(count * abs(mean - share) for _, count, mean, share in rows) / len(right)


def judge_confidence(n_vectors, seed):
    """Rows of name, asked, measured."""
    confidence, right = pool(confidence_cells(), n_vectors, seed)
    hard, hard_right = pool([(*cell, SNR_DB) for cell in HARD], n_vectors, seed)
    sure = confidence >= 0.95
    return [
        ("right among confidence >= 0.95", ">= 0.99", right[sure].mean()),
        ("confidence >= 0.95 among right", ">= 0.80", sure[right].mean()),
        ("AUROC, (15, .6) and (20, .4)", ">= 0.95", roc_auc_score(hard_right, hard)),
        ("calibration error, same cells", "<= 0.08", calibration_error(hard, hard_right)),
    ]


def recover_with_missing(n_vectors, seed, rank=5, ratio=0.4, missing_ratio=0.1):
    """Relative error of the fitted vectors, all together, and the share of right ones."""
    data = make_permuted_subspaces(
        1, n_vectors, N_FEATURES, rank, outlier_ratio=1.0, shuffled_ratio=ratio, snr_db=SNR_DB,
        missing_ratio=missing_ratio, random_state=seed,
    )  # fmt: skip
    fitted = recover_vectors(data.X, data.bases[0], random_state=seed, n_jobs=1).fitted
    return recovery_error(data.X_clean, fitted), is_right(fitted, data.X_clean).mean()


def compare_values(n_vectors, seed):
    """Rows of rank, ratio, share of cells within 3σ and of false moves: true basis, pipeline."""
    rows = []
    for rank in (3, 5, 10):
        for ratio in (0.1, 0.2, 0.3, 0.4):
            options = dict(shuffled_ratio=ratio, snr_db=SNR_DB, random_state=seed)
            data = make_permuted_subspaces(
                1, n_vectors, N_FEATURES, rank, outlier_ratio=1.0, **options
            )
            result = recover_vectors(data.X, data.bases[0], random_state=seed, n_jobs=1)
            figures = judge_values(data, result.permutations)
            data = make_permuted_subspaces(5, rank=rank, **options)
            model = PMSDR(random_state=seed, n_jobs=1).fit(data.X)
            rows.append((rank, ratio, *figures, *judge_values(data, model.permutations_)))
    return rows


def judge_values(data, permutations):
    """Share of cells of permuted vectors within 3σ of the truth, and of unmoved cells moved."""
    sigma = 10 ** (-SNR_DB / 20) / np.sqrt(N_FEATURES)  # of a vector of length 1
    values = np.take_along_axis(data.X, permutations, axis=1)
    close = np.abs(values - data.X_clean) <= 3 * sigma
    places = np.arange(N_FEATURES)
    moved = (permutations != places)[data.permutations == places]
    return close[data.outlier_mask].mean(), moved.mean()


def print_success(title, rows):
    print(f"{title}\n   r  ratio    asked  search    LSRF  ms/vector")
    for rank, ratio, asked, share, lsrf, ms in rows:
        verdict = "" if share >= asked else "  below"
        print(
            f"  {rank:2d}    {ratio:.1f}  {asked:7.1%} {share:7.1%} {lsrf:7.1%} {ms:10.2f}{verdict}"
        )


def print_partly_shuffled(n_vectors, seed):
    rows = compare_success(PARTLY_SHUFFLED, n_vectors, seed)
    print_success("Some entries shuffled", rows)
    print(f"  mean over these cells {np.mean([row[-1] for row in rows]):.1f} ms (asked < 60)")
    easy = measure(*EASY, SNR_DB, n_vectors, seed)
    print(f"  {EASY}: {easy.right.mean():.1%} right, {easy.ms:.3f} ms (asked < 0.3)")


def print_fully_shuffled(n_vectors, seed):
    print_success(
        "All entries shuffled (asked < 1000 ms)", compare_success(FULLY_SHUFFLED, n_vectors, seed)
    )


def print_scaling(_, seed):
    print("Many entries, r = 10, 30% shuffled\n        M  s/vector  largest error")
    for n_features in LARGE:
        seconds, error = time_large(n_features, seed)
        print(f"  {n_features:7d} {seconds:9.3f}  {error:13.4f}")


def print_confidence(n_vectors, seed):
    print("Confidence, over the cells above and some with 30 and 25 dB")
    for name, asked, measured in judge_confidence(n_vectors, seed):
        print(f"  {name:32s} {measured:6.3f} (asked {asked})")
    print("  confidence from    count    mean   right")
    for low, count, mean, share in reliability(*pool(confidence_cells(), n_vectors, seed)):
        print(f"  {low:15.1f} {count:8d} {mean:7.3f} {share:7.3f}")


def print_missing(n_vectors, seed):
    error, share = recover_with_missing(n_vectors, seed)
    print("Missing entries, 10%, r = 5, 40% shuffled")
    print(f"  relative error {error:.4f} (asked <= 0.02), {share:.1%} right")


def print_values(n_vectors, seed):
    rows = compare_values(n_vectors, seed)
    print("Values moved back: cells within 3 σ of the truth, unmoved cells reported as moved;")
    print("with the true basis, and by PMSDR with its defaults (5 subspaces, nothing given)")
    print("   r  ratio   close  moved   PMSDR: close  moved")
    for rank, ratio, *figures in rows:
        cells = "{:7.2%} {:6.2%}        {:7.2%} {:6.2%}".format(*figures)
        print(f"  {rank:2d}    {ratio:.1f} {cells}")
    means = np.mean([row[2:] for row in rows], axis=0)
    print("  mean     {:7.2%} {:6.2%}        {:7.2%} {:6.2%}".format(*means))
    print("  asked      >=98% <=0.5%          >=98% <=0.5%")


PARTS = {
    "partly-shuffled": print_partly_shuffled,
    "fully-shuffled": print_fully_shuffled,
    "scaling": print_scaling,
    "confidence": print_confidence,
    "missing": print_missing,
    "values": print_values,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vectors", type=int, default=200, help="vectors per cell")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="40 vectors per cell")
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    n_vectors = 40 if options.quick else options.vectors
    measure(2, 0.2, SNR_DB, 8, options.seed)  # compiles
    print(f"M = {N_FEATURES}, {SNR_DB:.0f} dB, true basis, {n_vectors} vectors per cell")
    for part in options.part:
        print()
        PARTS[part](n_vectors, options.seed)


if __name__ == "__main__":
    main()
