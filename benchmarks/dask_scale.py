"""A Parquet file of any size, repaired by this process and by a Dask cluster of local workers.

Prints the times of both, whether their results are the same, and the ratio (asked: at most 1.3).
``python benchmarks/dask_scale.py`` takes 10⁶ vectors; ``--kill`` kills a worker halfway.
"""

import argparse
import os
import signal
import tempfile
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from distributed import Client, LocalCluster

from unpermute import PMSDR, distributed, stream
from unpermute._progress import on_progress

N_FEATURES, N_SUBSPACES, RANK = 50, 10, 5
PERMUTED, SHUFFLED, NOISE_DB = 0.3, 0.4, 40.0
# Vectors that are drawn at once.
STEP = 50_000


def write_vectors(path, n_vectors, seed=0):
    """Write vectors of a union of subspaces to Parquet, part of them permuted."""
    rng = np.random.default_rng(seed)
    shape = (N_SUBSPACES, N_FEATURES, RANK)
    bases = np.linalg.qr(rng.standard_normal(shape))[0]
    names = [f"x{j}" for j in range(N_FEATURES)]
    with pq.ParquetWriter(path, pa.schema([(name, pa.float64()) for name in names])) as writer:
        for start in range(0, n_vectors, STEP):
            X = _draw(rng, bases, min(STEP, n_vectors - start))
            writer.write_table(pa.table({name: X[:, j] for j, name in enumerate(names)}))


def _draw(rng, bases, count):
    labels = rng.integers(len(bases), size=count)
    X = np.einsum("nmr,nr->nm", bases[labels], rng.standard_normal((count, RANK)))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X += 10 ** (-NOISE_DB / 20) / np.sqrt(N_FEATURES) * rng.standard_normal(X.shape)
    moved = round(SHUFFLED * N_FEATURES)
    for row in np.flatnonzero(rng.random(count) < PERMUTED):
        places = rng.choice(N_FEATURES, moved, replace=False)
        X[row, np.sort(places)] = X[row, places]
    return X


def run(name, fit, transform, source, output, options):
    """Fit and transform, print the times, and return the seconds."""
    start = time.perf_counter()
    model = fit(PMSDR(N_SUBSPACES, RANK, random_state=0, n_jobs=options.workers), source,
                max_vectors=options.sample, random_state=0)  # fmt: skip
    fitted = time.perf_counter()
    transform(model, source, output, block_size=options.block)
    done = time.perf_counter()
    print(f"{name:>6}: fit {fitted - start:.1f} s, transform {done - fitted:.1f} s", flush=True)
    return done - start


def differences(first, second):
    """Count the vectors that differ in anything exact, and the largest difference of confidence."""
    differing, largest = 0, 0.0
    for a, b in zip(stream.read_results(first), stream.read_results(second), strict=True):
        same = (a.labels == b.labels) & (a.status == b.status)
        same &= np.all((a.X == b.X) & (a.permutations == b.permutations), axis=1)
        differing += np.count_nonzero(~same)
        largest = max(largest, float(np.abs(a.confidence - b.confidence).max()))
    return differing, largest


def kill_halfway(client):
    """Return a progress callback that kills a worker when half of the vectors are done."""
    killed = []

    def callback(stage, done, total):
        if stage == "transform" and 2 * done >= total and not killed:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)
            print(f"        worker {killed[0]} killed", flush=True)

    return callback


def main():
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("n_vectors", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--sample", type=int, default=5_000, help="max_vectors of fit")
    parser.add_argument("--block", type=int, default=10_000, help="block_size")
    parser.add_argument("--kill", action="store_true", help="kill a worker halfway")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source, here, there = (Path(folder, name) for name in ("X.parquet", "here", "there"))
        write_vectors(source, options.n_vectors)
        # Compiled kernels are kept on disk; a smaller run writes and loads them before the clock.
        few = Path(folder, "few.parquet")
        write_vectors(few, 2 * options.sample, seed=1)
        run("warm", stream.fit, stream.transform, few, Path(folder, "few"), options)
        local = run("local", stream.fit, stream.transform, source, here, options)
        cluster = LocalCluster(n_workers=options.workers, threads_per_worker=1,
                               dashboard_address="127.0.0.1:0")  # fmt: skip
        with cluster, Client(cluster) as client:
            fit, transform = (
                partial(call, client=client) for call in (distributed.fit, distributed.transform)
            )
            watch = on_progress(kill_halfway(client)) if options.kill else nullcontext()
            with watch:
                remote = run("dask", fit, transform, source, there, options)
        differing, largest = differences(here, there)
        print(f"{differing} of {options.n_vectors} vectors differ; confidence by {largest:.1e}")
        print(f"time of dask / local: {remote / local:.2f} (asked: at most 1.3)")


if __name__ == "__main__":
    main()
