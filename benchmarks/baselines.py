"""The methods PMSDR is compared with: exact where theory says so, the paper's MRUC table, time.

Run ``python benchmarks/baselines.py``, or some parts: ``--part exact mruc speed comparison``. Set
OPENBLAS_NUM_THREADS=1 for times on one thread.
"""

import argparse
import time
import warnings

import numpy as np
from pyrpca import rpca_pcp_ialm
from scipy.linalg import eigh
from scipy.spatial.distance import cdist

from unpermute import PMSDR
from unpermute.baselines import (
    MRUC,
    UPCA,
    LowRankRepresentation,
    PerSubspace,
    RobustKernelPCA,
    RobustPCA,
    SSCReconstruction,
)
from unpermute.datasets import make_permuted_subspaces
from unpermute.metrics import permutation_error_ratio, recovery_error, subspace_clustering_error
from unpermute.numerics.graphs import affinity, spectral_clusters

# (subspaces, permutation groups): the paper's permutation errors in %, MRUC-S and MRUC.
PAPER = {
    (2, 2): (0.0, 12.0),
    (3, 2): (0.0, 30.0),
    (3, 3): (13.3, 55.0),
    (3, 5): (17.0, 71.5),
    (5, 5): (23.0, 73.2),
}


def corrupted_low_rank(n, m, rank, noise, seed):
    """Low rank, 10% of the entries wrong, and noise; returns the clean matrix too."""
    rng = np.random.default_rng(seed)
    low_rank = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, m))
    wrong = np.where(rng.random((n, m)) < 0.1, rng.uniform(-10, 10, size=(n, m)), 0.0)
    return low_rank, low_rank + wrong + noise * rng.normal(size=(n, m))


def permutation_error(data, permutations):
    """Share of places of the shuffled vectors, in %, whose value is wrong beyond the noise."""
    # The vectors have unit length, the noise 40 dB less; the values of two places are compared.
    noise = 10.0 ** (-40 / 20) / np.sqrt(data.X.shape[1])
    error = permutation_error_ratio(
        data.X,
        data.permutations,
        permutations,
        tol=3.0 * np.sqrt(2.0) * noise,
        mask=data.outlier_mask,
    )
    return 100.0 * error


def print_exact(seed):
    """Exact recovery where theory promises it."""
    low_rank, X = corrupted_low_rank(200, 150, 5, 0.0, seed)
    for solver in ("ialm", "apg"):
        error = recovery_error(low_rank, RobustPCA(solver=solver).fit_transform(X))
        print(f"RobustPCA {solver}, 200 x 150, rank 5, 10% wrong: error {error:.1e} (asked 1e-5)")
    data = make_permuted_subspaces(5, 30, 50, 5, outlier_ratio=0, snr_db=None, random_state=seed)
    for model in (LowRankRepresentation(), SSCReconstruction()):
        graph = affinity(model.fit(data.X).coefficients_)
        labels, _ = spectral_clusters(graph, 5, random_state=0)
        error = subspace_clustering_error(data.labels, labels)
        print(f"{type(model).__name__}, 5 independent subspaces: segmentation error {error:g}")
    for recoverer in ("lsrf", "search"):
        errors = []
        for trial in range(10):
            data = make_permuted_subspaces(1, 120, 50, 5, outlier_ratio=0.4, random_state=trial)
            fixed = UPCA(5, recoverer=recoverer, random_state=0).fit_transform(data.X)
            errors.append(recovery_error(data.X_clean, fixed, mask=data.outlier_mask))
        worst = max(errors)
        print(f"UPCA {recoverer}: mean RE {np.mean(errors):.4f}, worst of 10 {worst:.4f} (0.01)")
    for ratio in (0.5, 1.0):
        errors = [mruc_errors(1, 2, 120, trial, ratio)[0] for trial in range(10)]
        right = sum(error == 0 for error in errors)
        print(f"MRUC, two groups, {ratio:.0%} shuffled: exact in {right} of 10 (asked 9)")


def mruc_errors(n_subspaces, n_groups, n_vectors, seed, ratio=0.5, informed=True, apart=False):
    """Permutation errors of MRUC, and if `apart` of MRUC-S, on one problem."""
    data = make_permuted_subspaces(
        n_subspaces,
        n_vectors,
        20,
        2,
        shuffled_ratio=ratio,
        n_permutation_groups=n_groups,
        random_state=seed,
    )
    groups = data.permutation_groups
    method = MRUC(informed=informed, random_state=seed)
    errors = [permutation_error(data, method.fit(data.X, groups=groups).permutations_)]
    if apart:
        model = PerSubspace(method, PMSDR(n_subspaces, 2, random_state=seed))
        errors.append(permutation_error(data, model.fit(data.X, groups=groups).permutations_))
    return errors


def print_mruc(n_trials):
    """The paper's MRUC table, and MRUC before PMSDR."""
    print(
        "\nPermutation error in %, M = 20, r = 2, half of the entries shuffled, 40 dB, 10 starts;"
    )
    print(
        f"mean over {n_trials} problems, values compared up to the noise; in brackets with random"
    )
    print("starts only.")
    print("vectors  (L, p)    MRUC-S: paper     ours            MRUC: paper     ours")
    for n_vectors in (120, 30):
        for (n_subspaces, n_groups), (paper_apart, paper) in PAPER.items():
            cells = []
            for informed in (True, False):
                table = [
                    mruc_errors(n_subspaces, n_groups, n_vectors, t, informed=informed, apart=True)
                    for t in range(n_trials)
                ]
                cells.append(np.mean(table, axis=0))
            (alone, apart), (alone_random, apart_random) = cells
            print(
                f"{n_vectors:7}  ({n_subspaces}, {n_groups}) {paper_apart:16.1f}"
                f" {apart:8.2f} ({apart_random:4.1f}) {paper:17.1f} {alone:8.2f}"
                f" ({alone_random:4.1f})"
            )
    print("\nCompletely shuffled, 5 subspaces, 5 groups, 30 vectors each: recovery error")
    for trial in range(3):
        print("  " + describe_chain(trial))


def describe_chain(seed):
    """MRUC first, PMSDR after it."""
    data = make_permuted_subspaces(
        5, 30, 20, 2, shuffled_ratio=1.0, n_permutation_groups=5, random_state=seed
    )
    first = MRUC(random_state=seed).fit_transform(data.X, groups=data.permutation_groups)
    after = PMSDR(5, 2, random_state=seed).fit_transform(first)
    alone = PMSDR(5, 2, random_state=seed).fit_transform(data.X)
    errors = [
        recovery_error(data.X_clean, X, mask=data.outlier_mask)
        for X in (data.X, alone, first, after)
    ]
    return "as it is {:.3f}, PMSDR {:.3f}, MRUC {:.3f}, MRUC then PMSDR {:.3f}".format(*errors)


def timed(function, *args, **options):
    """Return the result and the seconds."""
    start = time.perf_counter()
    result = function(*args, **options)
    return result, time.perf_counter() - start


def print_speed(seed):
    """Time beside other packages and the paper."""
    RobustPCA().fit(np.eye(3) + 1.0)  # compile
    for noise, tol in ((0.0, 1e-6), (0.01, 3e-4), (0.01, 1e-6)):
        _, X = corrupted_low_rank(500, 2000, 20, noise, seed)
        lam = 1.0 / np.sqrt(2000)
        (theirs, _), their_seconds = timed(rpca_pcp_ialm, X, lam, verbose=False)
        model, seconds = timed(RobustPCA(lam, tol=tol).fit, X)
        costs = [
            np.linalg.norm(L, "nuc") + lam * np.abs(X - L).sum() for L in (model.recovered_, theirs)
        ]
        print(
            f"500 x 2000, noise {noise:g}: RobustPCA(tol={tol:g}) {seconds:.2f} s, pyrpca"
            f" {their_seconds:.2f} s; objective higher by {costs[0] / costs[1] - 1:.1e} of it"
        )
    data = make_permuted_subspaces(5, 120, 50, 5, n_permutation_groups=5, random_state=seed)
    K = np.exp(-0.5 * cdist(data.X, data.X, "sqeuclidean"))
    one = np.median([timed(eigh, K)[1] for _ in range(9)])
    model, seconds = timed(RobustKernelPCA(max_iter=50).fit, data.X)
    share = seconds / model.n_iter_ / one
    print(f"RobustKernelPCA, n = 600: an iteration costs {share:.2f} eigh ({1e3 * one:.0f} ms) (3)")
    groups = data.permutation_groups
    MRUC(n_starts=1).fit(data.X[:, :5], groups=groups)  # compile
    model, seconds = timed(MRUC().fit, data.X, groups=groups)
    error = permutation_error(data, model.permutations_)
    print(
        f"MRUC, L = 5, M = 50, 600 vectors, 5 groups: {seconds:.1f} s (paper 699), error {error:g}%"
    )


def print_comparison(seed):
    """All methods, alone and per subspace, on one problem; weights as they come."""
    print("\nRecovery error over the shuffled vectors, L = 3, M = 50, 60 vectors each, 30% of them")
    print("shuffled in 20% of the entries, 40 dB:   rank 3   rank 10  (alone, per subspace)")
    methods = [
        RobustPCA(),
        RobustKernelPCA(),
        LowRankRepresentation(norm="l1"),
        SSCReconstruction(),
        UPCA(random_state=0),
    ]
    for method in methods:
        cells = []
        for rank in (3, 10):
            data = make_permuted_subspaces(
                3, 60, 50, rank, outlier_ratio=0.3, shuffled_ratio=0.2, random_state=seed
            )
            labels = PMSDR(3, rank, random_state=0).fit(data.X).labels_
            alone = method.fit_transform(data.X)
            apart = PerSubspace(method).fit_transform(data.X, labels=labels)
            cells += [
                recovery_error(data.X_clean, X, mask=data.outlier_mask) for X in (alone, apart)
            ]
        print(f"  {type(method).__name__:24}" + "  ".join(f"{cell:.3f}" for cell in cells))


def main():
    """Run from the command line."""
    parts = ("exact", "mruc", "speed", "comparison")
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--part", nargs="+", choices=parts, default=parts)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if "exact" in options.part:
        print_exact(options.seed)
    if "speed" in options.part:
        print_speed(options.seed)
    if "comparison" in options.part:
        print_comparison(options.seed)
    if "mruc" in options.part:
        print_mruc(options.trials)


if __name__ == "__main__":
    main()
