"""The same answers from a Dask cluster as from this process, even if workers are killed."""

import os
import signal
from functools import partial

import dask.array
import dask.dataframe
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from distributed import Client, LocalCluster

from unpermute import PMSDR, distributed, stream
from unpermute._progress import on_progress
from unpermute.datasets import make_permuted_subspaces
from unpermute.numerics.parallel import map_by
from unpermute.numerics.self_representation import self_representation

N, M = 2000, 30
BLOCK = 250


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0"
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster):
    with Client(cluster, set_as_default=False) as client:
        yield client


@pytest.fixture(scope="module", name="X")
def _vectors():
    data = make_permuted_subspaces(2, N // 2, M, 3, outlier_ratio=0.3, random_state=0)
    return data.X[np.random.default_rng(0).permutation(N)]


@pytest.fixture(scope="module")
def parquet(X, tmp_path_factory):
    path = tmp_path_factory.mktemp("source") / "X.parquet"
    names = [f"x{j}" for j in range(M)]
    table = pa.table({name: X[:, j] for j, name in enumerate(names)})
    pq.write_table(table, path, row_group_size=850)
    return path


@pytest.fixture(scope="module")
def model(X):
    return PMSDR(2, 3, random_state=0).fit(X[:300])


@pytest.fixture(scope="module")
def expected(model, X, tmp_path_factory):
    folder = tmp_path_factory.mktemp("local") / "out"
    return _whole(stream.transform(model, X, folder, block_size=BLOCK))


def _whole(folder):
    parts = list(stream.read_results(folder))
    names = ("X", "labels", "status", "confidence", "permutations")
    return {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}


def _assert_same(folder, expected):
    found = _whole(folder)
    for name in ("X", "labels", "status", "permutations"):
        np.testing.assert_array_equal(found[name], expected[name])
    # Products in float32 are rounded differently in blocks of another size.
    np.testing.assert_allclose(found["confidence"], expected["confidence"], rtol=0, atol=1e-7)


def _interrupt_at(n_vectors):
    def callback(stage, done, total):
        if stage == "transform" and done >= n_vectors:
            raise KeyboardInterrupt

    return on_progress(callback)


@pytest.mark.parametrize("kind", ["parquet", "npy", "zarr", "dask array", "data frame"])
def test_transform_equals_the_local_run(kind, X, parquet, model, expected, client, tmp_path):
    if kind == "parquet":
        source = parquet
    elif kind == "npy":
        source = tmp_path / "X.npy"
        np.save(source, X)
    elif kind == "zarr":
        source = zarr.open_array(str(tmp_path / "X.zarr"), mode="w", shape=X.shape, dtype="f8")
        source[:] = X
    elif kind == "dask array":
        source = dask.array.from_array(X, chunks=(650, 7))
    else:
        source = dask.dataframe.read_parquet(parquet, split_row_groups=True)
    folder = distributed.transform(model, source, tmp_path / "out", client=client, block_size=BLOCK)
    assert (folder / "part-00007.parquet").exists() == (kind in ("parquet", "data frame"))
    _assert_same(folder, expected)


@pytest.mark.parametrize("kind", ["parquet", "data frame"])
def test_fit_equals_the_local_one(kind, parquet, client):
    options = dict(max_vectors=300, block_size=BLOCK, random_state=1)
    local = stream.fit(PMSDR(2, 3, random_state=0), parquet, **options)
    source = parquet if kind == "parquet" else dask.dataframe.read_parquet(parquet)
    remote = distributed.fit(PMSDR(2, 3, random_state=0), source, client=client, **options)
    np.testing.assert_array_equal(remote.bases_, local.bases_)
    np.testing.assert_array_equal(remote.permutations_, local.permutations_)
    assert list(remote.feature_names_in_) == [f"x{j}" for j in range(M)]


def test_exemplars_are_represented_by_the_workers(X, client):
    pids = []
    with map_by(partial(_noted, pids, client)):
        found = self_representation(X[:1500])
    assert len(pids) == 3
    assert os.getpid() not in pids
    expected = self_representation(X[:1500])
    np.testing.assert_array_equal(found.solution.toarray(), expected.solution.toarray())


def _noted(pids, client, work, ranges):
    """Results of the workers, each with the process it was found by."""
    for pid, result in distributed._vectors._map_on(
        client, lambda *bounds: (os.getpid(), work(*bounds)), ranges
    ):
        pids.append(pid)
        yield result


def test_killed_worker_costs_time_not_results(client, parquet, model, expected, tmp_path):
    killed = []

    def kill(stage, done, total):
        if stage == "transform" and not killed:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    with on_progress(kill):
        folder = distributed.transform(
            model, parquet, tmp_path / "out", client=client, block_size=50
        )
    assert killed
    _assert_same(folder, expected)
    assert not list(folder.glob(".*"))


def test_interrupted_run_is_finished_by_either(client, parquet, model, expected, tmp_path):
    folder = tmp_path / "out"
    with _interrupt_at(750), pytest.raises(KeyboardInterrupt):
        distributed.transform(model, parquet, folder, client=client, block_size=BLOCK)
    # A block that is being worked on is finished; on its one thread, the next task comes after it.
    workers = client.scheduler_info()["workers"]
    client.gather([client.submit(int, workers=[worker], pure=False) for worker in workers])
    n_finished = len(list(folder.glob("part-*")))
    assert 3 <= n_finished < 8
    with _interrupt_at(BLOCK * (n_finished + 1)), pytest.raises(KeyboardInterrupt):
        stream.transform(model, parquet, folder, block_size=BLOCK)
    times = {path: path.stat().st_mtime_ns for path in folder.glob("part-*")}
    assert len(times) == n_finished + 1
    distributed.transform(model, parquet, folder, client=client, block_size=BLOCK)
    assert [path for path, time in times.items() if path.stat().st_mtime_ns != time] == []
    _assert_same(folder, expected)
    with pytest.raises(FileExistsError, match="holds results of another block_size"):
        distributed.transform(model, parquet, folder, client=client, block_size=BLOCK + 1)


def test_address_or_nothing_will_do(cluster, parquet, model, expected, tmp_path):
    options = dict(block_size=1000)
    address = cluster.scheduler_address
    folder = distributed.transform(model, parquet, tmp_path / "a", client=address, **options)
    _assert_same(folder, expected)
    folder = distributed.transform(model, parquet, tmp_path / "b", n_workers=1, **options)
    _assert_same(folder, expected)


def test_errors_of_workers_arrive(client, X, model, tmp_path):
    bad = X.copy()
    bad[617, 5] = np.inf
    np.save(tmp_path / "bad.npy", bad)
    with pytest.raises(ValueError, match="vectors 500 to 749 of the source were refused"):
        distributed.transform(
            model, tmp_path / "bad.npy", tmp_path / "out", client=client, block_size=BLOCK
        )


def test_bad_input_is_refused_in_a_sentence(client, X, parquet, model, tmp_path):
    output = tmp_path / "out"
    frame = dask.dataframe.read_parquet(parquet)
    unknown = dask.array.from_array(X, chunks=(650, M))
    unknown = unknown[unknown[:, 0] > 0]
    text = frame.assign(x0="a")
    for source, options, message in [
        (X, {}, "array in the memory of this process; give a path or a Dask array"),
        (unknown, {}, r"unknown size; call its compute_chunk_sizes\(\) first"),
        (text, {}, "column 'x0' of the data frame holds .*, not numbers"),
        (frame, {"columns": ["y"]}, "the data frame has no 'y'"),
        (frame, {"columns": ["x0"]}, "source has 1 columns, but the model was fitted on 30"),
        (parquet, {"client": 3}, "client=3 must be a dask.distributed.Client"),
        (parquet, {"block_size": 0}, "block_size=0 must be a whole number"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message):
            distributed.transform(model, source, output, **{"client": client, **options})
    assert not output.exists()
