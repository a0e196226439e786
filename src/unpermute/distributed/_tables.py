"""The work of :mod:`unpermute.large` on a Dask cluster."""

import os
from dataclasses import replace
from functools import partial

import numpy as np

from unpermute.distributed._client import RETRIES, connect, share
from unpermute.files import TableError
from unpermute.large import FrameFiles, make_job, open_files, process
from unpermute.numerics.parallel import one_blas_thread

__all__ = ["process_files", "repair_table", "scan_table"]


def repair_table(
    source, output, *, client=None, n_workers=None, changes=None, model=None, sample_size=10_000,
    block_size=50_000, style=None, force=False, **options,
):  # fmt: skip
    """Repair the records of a table of any size on a cluster, piece by piece.

    Does what :func:`unpermute.large.repair_table` does, with the same answers: workers read their
    own pieces, judge every record alone, and write their own results. A run that was begun here
    can be finished there, and the other way round, if the source is given by paths.

    Parameters
    ----------
    source : str, path, list of these, or dask DataFrame
        A folder of Parquet or CSV files, a pattern, or files; or a data frame, whose partitions
        are the pieces. Paths must lead to the same files on all workers.
    output : str or path
        A folder, the same on all workers; it is created. If the source is the path of a CSV file, a
        file, unless it ends in a slash or is a folder that exists.
    client : dask.distributed.Client or str, default=None
        A client, or the address of a scheduler; None: worker processes on this machine, for this
        call alone.
    n_workers : int, default=None
        Number of those processes; None: one per core.
    changes : str or path, default=None
        Parquet file for the list of proposed changes.
    model : TableModel, default=None
        Learned before; it is adapted to the damage of this table. None: one is learned.
    sample_size : int, default=10_000
        Records to learn from, drawn uniformly.
    block_size : int, default=50_000
        Records that a worker judges at once; fewer take less memory.
    style : CsvStyle, default=None
        How CSV files are read; None: found out.
    force : bool, default=False
        Whether the results of another run may be replaced.
    **options : dict
        ``id``, ``columns``, ``exclude``, ``kinds``, ``rank``, ``min_confidence``, ``max_moves``
        and ``random_state`` of :func:`unpermute.table.repair`.

    Returns
    -------
    FilesResult
        Counts, the most suspicious records, and the model.

    Examples
    --------
    >>> from unpermute import distributed
    >>> distributed.repair_table(
    ...     "/data/orders", "/data/repaired", client="tcp://scheduler:8786", id="order"
    ... )  # doctest: +SKIP
    """
    job = make_job(
        "repair", os.fspath(output), changes, options, model=model, sample_size=sample_size,
        block_size=block_size, force=force, n_jobs=n_workers,
    )  # fmt: skip
    with connect(client, n_workers) as connected:
        return _process(connected, source, style, job)


def scan_table(
    source, *, client=None, n_workers=None, changes=None, model=None, sample_size=10_000,
    block_size=50_000, style=None, force=False, **options,
):  # fmt: skip
    """List the records of a table of any size that look shuffled; nothing is changed.

    Parameters
    ----------
    source : str, path, list of these, or dask DataFrame
        As for :func:`repair_table`.
    client : dask.distributed.Client or str, default=None
        As for :func:`repair_table`.
    n_workers : int, default=None
        As for :func:`repair_table`.
    changes : str or path, default=None
        As for :func:`repair_table`.
    model : TableModel, default=None
        As for :func:`repair_table`.
    sample_size : int, default=10_000
        As for :func:`repair_table`.
    block_size : int, default=50_000
        As for :func:`repair_table`.
    style : CsvStyle, default=None
        As for :func:`repair_table`.
    force : bool, default=False
        As for :func:`repair_table`.
    **options : dict
        As for :func:`repair_table`.

    Returns
    -------
    FilesResult
        Counts, the most suspicious records, and the model.

    Examples
    --------
    >>> from unpermute import distributed
    >>> distributed.scan_table("/data/orders", n_workers=2).summary  # doctest: +SKIP
    """
    job = make_job(
        "scan", None, changes, options, model=model, sample_size=sample_size,
        block_size=block_size, force=force, n_jobs=n_workers,
    )  # fmt: skip
    with connect(client, n_workers) as connected:
        return _process(connected, source, style, job)


def process_files(files, job, *, client=None, n_workers=None):
    """Do a job of :mod:`unpermute.large` on a cluster.

    Parameters
    ----------
    files : TableFiles
        The table, opened.
    job : Job
        What is to be done with it.
    client : dask.distributed.Client or str, default=None
        A client, or the address of a scheduler; None: worker processes on this machine.
    n_workers : int, default=None
        Number of those processes; None: one per core.

    Returns
    -------
    FilesResult
        Counts, the most suspicious records, and the model.
    """
    with connect(client, n_workers) as connected:
        return process(partial(_run_pieces, connected, None), files, job)


def _process(client, source, style, job):
    """Do the work of a table on the workers."""
    package = type(source).__module__.partition(".")[0]
    if package != "dask":
        return process(partial(_run_pieces, client, None), open_files(source, style), job)
    if not hasattr(source, "divisions"):
        raise TableError("source is a Dask array; tables are data frames, or paths.")
    sizes = np.ravel(client.compute(source.map_partitions(len)).result()).tolist()
    files = FrameFiles([str(name) for name in source.columns], sizes, source._name)
    return process(partial(_run_pieces, client, source.to_delayed()), files, job)


def _run_pieces(client, partitions, task, pieces):
    """Call a task on every piece on the workers; yield pieces with their results when ready."""
    from distributed import as_completed

    shared = share(client, _anywhere(task))
    if partitions is None:
        # Workers may have been started in another folder.
        there = [replace(piece, file=os.path.abspath(piece.file)) for piece in pieces]
        futures = client.map(_work_on_piece, there, shared=shared, pure=False, retries=RETRIES)
    else:
        from dask import delayed

        call = delayed(_work_on_partition, pure=False)
        tasks = [call(partitions[piece.begin], piece, shared) for piece in pieces]
        futures = client.compute(tasks, retries=RETRIES)
    waiting = dict(zip(futures, pieces, strict=True))
    try:
        for future in as_completed(futures, loop=client.loop):
            piece = waiting.pop(future)
            yield piece, _result(future, piece)
    finally:
        client.cancel([*waiting, shared])


def _anywhere(task):
    """Return a task that writes to the same folder wherever it is called."""
    folder = getattr(task, "folder", None)
    if folder is None:
        return task
    return replace(task, folder=replace(folder, path=os.path.abspath(folder.path)))


def _result(future, piece):
    """Return what a worker found in a piece, or say in one sentence what became of it."""
    from distributed import CancelledError, KilledWorker
    from distributed.comm import CommClosedError

    try:
        found = future.result()
    except KilledWorker as error:
        raise TableError(
            f"{piece.name}: all workers that judged its records from {piece.row:,} on died, perhaps"
            " for want of memory; give them more, or a smaller block size (--block-size)."
        ) from error
    except (CancelledError, CommClosedError) as error:
        raise TableError(
            "The connection to the cluster was lost; the same call goes on with what is not done."
        ) from error
    if isinstance(found, TableError):
        raise found
    return found


def _work_on_piece(piece, shared):
    try:
        with one_blas_thread():
            return shared(piece)
    except TableError as error:
        # Raised here, it would be tried again and fill the log of the worker.
        return error


def _work_on_partition(partition, piece, shared):
    return _work_on_piece(piece, replace(shared, files=shared.files.holding(partition)))
