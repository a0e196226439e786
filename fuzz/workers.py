"""Workers of a Dask cluster that are killed at a random time: the answer stays the same."""

import functools
import logging
import os
import signal
import tempfile
import threading
from pathlib import Path

import numpy as np
from distributed import Client, LocalCluster
from mutations import FailedError, rng_of

from unpermute import PMSDR, distributed, stream
from unpermute.datasets import make_permuted_subspaces

_BLOCK = 100


def check(seed, number):
    rng = rng_of(seed, 8, number)
    X, model, whole = _expected()
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=logging.ERROR
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        np.save(Path(folder, "X.npy"), X)
        source = np.load(Path(folder, "X.npy"), mmap_mode="r")
        victim = rng.choice(list(client.run(os.getpid).values()))
        timer = threading.Timer(rng.uniform(0, 2), os.kill, [int(victim), signal.SIGKILL])
        timer.start()
        out = Path(folder, "out")
        distributed.transform(model, source, out, client=client, block_size=_BLOCK)
        timer.join()
        if not all(map(np.array_equal, _whole(out), whole)):
            raise FailedError("a killed worker changed the answer")
    return "the same answer"


@functools.cache
def _expected():
    X = make_permuted_subspaces(2, 1000, 20, 3, outlier_ratio=0.3, random_state=0).X
    model = PMSDR(2, 3, random_state=0).fit(X[::5])
    with tempfile.TemporaryDirectory() as folder:
        return X, model, _whole(stream.transform(model, X, Path(folder, "out"), block_size=_BLOCK))


def _whole(folder):
    parts = list(stream.read_results(folder))
    names = ("X", "labels", "status", "confidence", "permutations")
    return [np.concatenate([getattr(part, name) for part in parts]) for name in names]
