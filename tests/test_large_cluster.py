"""Tables on a Dask cluster: the answers of this process, whatever happens to workers."""

import os
import signal

import dask
import dask.dataframe
import numpy as np
import polars as pl
import pytest
from distributed import Client, LocalCluster

from unpermute import distributed, large, on_progress
from unpermute.distributed import _client, _tables
from unpermute.files import TableError

N, N_FILES = 2400, 8


def _write(folder):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2)) @ rng.normal(size=(2, 5)) * [1, 10, 3, 0.5, 30] + [5, 90, 0, 2, 400]
    X = np.round(X + 0.05 * rng.normal(size=X.shape) * X.std(axis=0), 3)
    for r in np.flatnonzero(rng.random(N) < 0.03):
        a, b = rng.choice(5, 2, replace=False)
        X[r, [a, b]] = X[r, [b, a]]
    frame = pl.DataFrame(X, schema=list("abcde"))
    folder.mkdir()
    for k, part in enumerate(frame.iter_slices(N // N_FILES)):
        part.write_parquet(folder / f"part{k}.parquet")
    return frame


def _content(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.parquet")}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Files, the table in them, and their repair in this process."""
    folder = tmp_path_factory.mktemp("tables")
    frame = _write(folder / "in")
    result = large.repair_table(folder / "in", folder / "out", sample_size=300)
    assert result.summary["n_repaired"] > 30
    return folder, frame, result


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.mark.parametrize("n_workers", [1, 2])
def test_workers_give_the_answers_of_this_process(table, tmp_path, client, n_workers):
    folder, _, here = table
    cluster = {"client": client} if n_workers == 2 else {"n_workers": 1}
    there = distributed.repair_table(
        folder / "in", tmp_path / "out", **cluster, sample_size=300, block_size=150,
        changes=tmp_path / "changes.parquet",
    )  # fmt: skip
    assert _content(tmp_path / "out") == _content(folder / "out")
    assert there.vectors == here.vectors
    listed = pl.read_parquet(tmp_path / "changes.parquet")
    assert listed["accept"].sum() == here.summary["n_moved_cells"]


def test_a_killed_worker_changes_nothing(table, tmp_path, client):
    folder, _, _ = table
    killed = []

    def kill(stage, done, total):
        if stage == "judge pieces" and done >= total // 3 and not killed:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    with on_progress(kill):
        distributed.repair_table(
            folder / "in", tmp_path / "out", client=client, sample_size=300, block_size=50
        )
    assert killed
    assert _content(tmp_path / "out") == _content(folder / "out")


def test_a_run_begun_here_is_finished_there(table, tmp_path, client):
    folder, _, _ = table

    class EnoughError(Exception):
        pass

    def stop(stage, done, total):
        if stage == "judge pieces" and done >= total // 2:
            raise EnoughError

    with pytest.raises(EnoughError), on_progress(stop):
        large.repair_table(folder / "in", tmp_path / "out", sample_size=300)
    assert 0 < len(list((tmp_path / "out/_changes").iterdir())) < N_FILES
    distributed.repair_table(folder / "in", tmp_path / "out", client=client, sample_size=300)
    assert _content(tmp_path / "out") == _content(folder / "out")


def test_a_dask_data_frame_is_repaired_partition_by_partition(table, tmp_path, client):
    _, frame, here = table
    source = dask.dataframe.from_pandas(frame.to_pandas(), npartitions=3)
    distributed.repair_table(source, tmp_path / "out", client=client, sample_size=300)
    repaired = pl.concat(map(pl.read_parquet, sorted((tmp_path / "out").glob("*.parquet"))))
    whole = here.model.repair(frame, adapt=False).frame
    assert repaired.select(frame.columns).equals(whole)
    with pytest.raises(TableError, match="is a Dask array"):
        distributed.scan_table(source.to_dask_array(), client=client)
    found = distributed.scan_table(source, client=client, sample_size=300)
    assert found.summary["n_repaired"] == here.summary["n_repaired"]


def test_relative_paths_lead_to_the_same_files_on_workers(table, tmp_path, client, monkeypatch):
    folder, _, _ = table
    monkeypatch.chdir(folder)
    home = client.run(os.getcwd)
    client.run(os.chdir, str(tmp_path))
    output = os.path.relpath(tmp_path / "new/out", folder)
    (tmp_path / "new").mkdir()
    try:
        distributed.repair_table("in", output, client=client, sample_size=300)
    finally:
        for worker, path in home.items():
            client.run(os.chdir, path, workers=[worker])
    assert _content(tmp_path / "new/out") == _content(folder / "out")


def test_a_piece_that_kills_its_workers_is_named_in_one_sentence(table):
    folder, _, _ = table
    files = large.open_files(folder / "in")
    settings = {"distributed.scheduler.allowed-failures": 0}
    with (
        dask.config.set(settings),
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
        pytest.raises(TableError, match=r"part1\.parquet: all workers .* from 0 on died"),
    ):
        list(_tables._run_pieces(client, None, lambda piece: os._exit(1), files.pieces[1:2]))


def test_workers_keep_the_memory_that_they_need_again(monkeypatch):
    """As returning it at once costs half as much time again as all of the work."""
    # Other clusters of this process leave it in the environment.
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    with _client.connect(None, 1) as client:
        [environment] = client.run(lambda: dict(os.environ)).values()
    assert "MALLOC_TRIM_THRESHOLD_" not in environment
    assert environment["OMP_NUM_THREADS"] == "1"
