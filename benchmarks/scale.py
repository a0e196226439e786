"""How time and memory grow: many vectors, long vectors, and the pipeline at the paper's sizes.

``python benchmarks/scale.py`` prints everything beside the asked figures; ``--part vectors``,
``entries`` or ``pipeline`` one of them, ``--sizes`` and ``--entries`` other sizes. Data are made
and kernels compiled beforehand; every size of the first two parts runs in a process of its own,
whose peak memory is that of the whole process.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from unpermute import PMSDR
from unpermute.datasets import make_permuted_subspaces
from unpermute.metrics import (
    outlier_classification_error,
    recovery_error,
    subspace_clustering_error,
    undetected_outlier_ratio,
)

# Made in parts: the whole with its answers needs more memory than the fit.
PART = 100_000
ANSWERS = ("X", "X_clean", "labels", "outlier_mask")


def make_vectors(folder, n, seed, snr_db):
    """Write n vectors of ten subspaces, 30% of them permuted, to memory maps."""
    bases = make_permuted_subspaces(10, 10, 50, 5, random_state=seed).bases
    rng = np.random.default_rng(seed)
    kinds = {"X": float, "X_clean": float, "labels": np.int64, "outlier_mask": bool}
    for name in ANSWERS:
        shape = (n, 50) if name.startswith("X") else (n,)
        np.lib.format.open_memmap(folder / f"{name}.npy", "w+", kinds[name], shape)
    maps = {name: np.load(folder / f"{name}.npy", mmap_mode="r+") for name in ANSWERS}
    for start in range(0, n, PART):
        labels = rng.integers(10, size=min(PART, n - start))
        part = _shuffle(_draw(labels, bases, rng), rng, snr_db)
        rows = slice(start, start + len(labels))
        for name, values in zip(ANSWERS, (part[0], part[1], labels, part[2]), strict=True):
            maps[name][rows] = values


def _draw(labels, bases, rng):
    """Draw unit vectors of the subspaces."""
    clean = np.empty((len(labels), len(bases[0])))
    for k, basis in enumerate(bases):
        rows = labels == k
        clean[rows] = rng.normal(size=(rows.sum(), basis.shape[1])) @ basis.T
    return clean / np.linalg.norm(clean, axis=1, keepdims=True)


def _shuffle(clean, rng, snr_db):
    """Add noise, and shuffle 40% of the entries of 30% of the vectors."""
    n_features = clean.shape[1]
    noise = 10 ** (-snr_db / 20) / np.sqrt(n_features)
    X = clean + noise * rng.normal(size=clean.shape)
    mask = rng.random(len(X)) < 0.3
    for j in np.flatnonzero(mask):
        places = rng.choice(n_features, int(0.4 * n_features), replace=False)
        X[j, places] = X[j, rng.permutation(places)]
    return X, clean, mask


def measure(folder, jobs, given):
    """Fit the vectors of a folder, in this process; print what came out."""
    PMSDR(2, 3, random_state=0).fit(make_permuted_subspaces(2, 60, 50, 3, random_state=0).X)
    X = np.load(folder / "X.npy")
    model = PMSDR(**given, n_jobs=jobs, random_state=0)
    start, cpu = time.perf_counter(), time.process_time()
    X_fixed = model.fit_transform(X)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    # ru_maxrss is in kilobytes on Linux, in bytes on macOS.
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9
    truth = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in ANSWERS[1:]}
    print(json.dumps({"seconds": seconds, "cpu": cpu, "peak": peak} | score(model, X_fixed, truth)))


def score(model, X_fixed, truth):
    """Compare with the known answer, in parts."""
    mask, labels = np.array(truth["outlier_mask"]), np.array(truth["labels"])
    error, length = 0.0, 0.0
    for start in range(0, len(mask), PART):
        rows = start + np.flatnonzero(mask[start : start + PART])
        clean = truth["X_clean"][rows]
        error += np.sum((X_fixed[rows] - clean) ** 2)
        length += np.sum(clean**2)
    return {
        "subspaces": model.n_subspaces_,
        "CE": max(
            subspace_clustering_error(labels, model.labels_, mask=~mask),
            outlier_classification_error(
                labels, model.labels_, outlier_mask=mask, outlier_mask_pred=model.outlier_mask_
            ),
        ),
        "UOratio": undetected_outlier_ratio(mask, model.outlier_mask_),
        "RE": float(np.sqrt(error / length)),
    }


def run_vectors(sizes, jobs, seed, snr_db, given):
    """Print time, memory and errors for every number of vectors."""
    print(f"vectors: M = 50, L = 10, r = 5, 30% permuted, 40% shuffled, {snr_db:g} dB, jobs {jobs}")
    before = None
    for n in sizes:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            make_vectors(folder, n, seed, snr_db)
            command = [sys.executable, __file__, "--measure", name, "--jobs", str(jobs)]
            command += ["--given"] if given else []
            printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found = json.loads(printed.splitlines()[-1])
        growth = "" if before is None else f" (x {found['seconds'] / before:.1f})"
        before = found["seconds"]
        print(
            f"n = {n}: {found['seconds']:.1f} s{growth}, {found['cpu']:.1f} s of CPU,"
            f" peak {found['peak']:.2f} GB, {found['subspaces']} subspaces, CE {found['CE']:.2%},"
            f" UOratio {found['UOratio']:.2%}, RE {found['RE']:.4f}",
            flush=True,
        )
    print("asked: at most x 11 per decade; 10^6 under 120 s and 3 GB on two cores;")
    print("       CE at most 0.5%, UOratio at most 1%, RE at most 0.02")


def run_entries(entries, seed):
    """Print time and error for every number of entries, everything estimated."""
    print("entries: 30 vectors, rank 4, half of them 50% shuffled, 40 dB, one core")
    before = None
    for n_features in (200, 2000, *entries):
        data = make_permuted_subspaces(
            1, 30, n_features, 4, outlier_ratio=0.5, shuffled_ratio=0.5, random_state=seed
        )
        model = PMSDR(random_state=0)
        start, cpu = time.perf_counter(), time.process_time()
        X_fixed = model.fit_transform(data.X)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        if n_features not in entries:  # only to compile
            continue
        growth = "" if before is None else f" (x {seconds / before:.1f})"
        before = seconds
        error = recovery_error(data.X_clean, X_fixed, mask=data.outlier_mask)
        print(
            f"M = {n_features}: {seconds:.2f} s{growth}, {cpu:.2f} s of CPU, ranks {model.ranks_},"
            f" {model.outlier_mask_.sum()} permuted, RE {error:.4f}",
            flush=True,
        )
    print("asked: at most x 13 per decade; 10^5 under 30 s; RE at most 0.02")


def run_pipeline(seed):
    """Print the time of the pipeline on the paper's synthetic data, best of five."""
    print("pipeline: 120 vectors per subspace, M = 50, r = 5, 60% permuted, 40% shuffled, one core")
    for n_subspaces, asked in ((2, 0.2), (5, 0.5), (10, 1.5)):
        data = make_permuted_subspaces(n_subspaces, random_state=seed)
        count = int(data.outlier_mask.sum())
        for name, model in (
            ("L, r and count given", PMSDR(n_subspaces, 5, contamination=count, random_state=0)),
            ("everything estimated", PMSDR(random_state=0)),
        ):
            seconds = []
            for _ in range(5):
                start = time.perf_counter()
                X_fixed = model.fit_transform(data.X)
                seconds.append(time.perf_counter() - start)
            error = recovery_error(data.X_clean, X_fixed, mask=data.outlier_mask)
            print(
                f"L = {n_subspaces}, {name}: {min(seconds):.2f} s (asked: under {asked} s),"
                f" RE {error:.4f}",
                flush=True,
            )


def main():
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--part", choices=["vectors", "entries", "pipeline"])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10**4, 10**5, 10**6])
    parser.add_argument("--entries", type=int, nargs="+", default=[10**3, 10**4, 10**5])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--snr-db", type=float, default=40.0)
    parser.add_argument("--given", action="store_true", help="L and r are known")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        given = {"n_subspaces": 10, "rank": 5} if options.given else {}
        measure(Path(options.measure), options.jobs, given)
        return
    if options.part in (None, "pipeline"):
        run_pipeline(options.seed)
    if options.part in (None, "entries"):
        run_entries(options.entries, options.seed)
    if options.part in (None, "vectors"):
        run_vectors(options.sizes, options.jobs, options.seed, options.snr_db, options.given)


if __name__ == "__main__":
    main()
