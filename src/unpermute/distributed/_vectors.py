"""The work of :mod:`unpermute.stream` on a Dask cluster."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from unpermute.distributed._client import RETRIES, connect, share
from unpermute.numerics.parallel import map_by, one_blas_thread
from unpermute.stream import (
    ArraySource,
    Source,
    check_count,
    check_model,
    check_numbers,
    feature_names_of,
    fit_with,
    open_source,
    transform_with,
    without_training_data,
)

__all__ = ["fit", "transform"]


def fit(
    model, source, *, client=None, n_workers=None, max_vectors=50_000, block_size=10_000,
    columns=None, random_state=None,
):  # fmt: skip
    """Fit a model to a source of any size, with the passes over the source on a cluster.

    Does what :func:`unpermute.stream.fit` does: workers draw the sample from their own blocks,
    represent blocks of the exemplars by all of them (stage 1 and the elastic net of stage 2), and
    look for what the sample did not explain. The rest of the fit, to a sample whose size is
    bounded, runs in this process, with the threads that the model's `n_jobs` allows. For the same
    seed the model is the same.

    Parameters
    ----------
    model : estimator
        A :class:`unpermute.PMSDR`, or anything with ``fit``. It is changed.
    source : str, path, memmap, zarr.Array, pyarrow.dataset.Dataset, dask Array or DataFrame
        The vectors; paths must lead to the same files on all workers.
    client : dask.distributed.Client or str, default=None
        A client, or the address of a scheduler; None: worker processes on this machine, for this
        call alone.
    n_workers : int, default=None
        Number of those processes; None: one per core.
    max_vectors : int, default=50_000
        Size of the sample; it must fit into the memory of this process.
    block_size : int, default=10_000
        Vectors per task.
    columns : sequence of str or int, default=None
        The columns that make the vectors: names in Parquet and data frames, else positions.
    random_state : int, RandomState instance or None, default=None
        Seeds the sample; None: as the model.

    Returns
    -------
    model : estimator
        The same model. Attributes with one entry per vector (``labels_``, ...) refer to the sample.

    Examples
    --------
    ``examples/cluster.py`` is a whole program.

    >>> from unpermute import PMSDR, distributed
    >>> model = distributed.fit(
    ...     PMSDR(random_state=0), "/data/sensors", client="tcp://scheduler:8786"
    ... )  # doctest: +SKIP
    """
    check_count("block_size", block_size)
    with connect(client, n_workers) as connected, map_by(partial(_map_on, connected)):
        return fit_with(
            partial(_run_on, connected),
            model,
            _open(source, columns, None, connected),
            max_vectors=max_vectors,
            block_size=block_size,
            random_state=random_state,
        )


def transform(
    model, source, output, *, client=None, n_workers=None, block_size=10_000, columns=None,
    overwrite=False,
):  # fmt: skip
    """Repair the vectors of a source on a cluster, partition by partition, into a folder.

    The folder is that of :func:`unpermute.stream.transform`: a run that was begun here can be
    finished there, and the other way round.

    Parameters
    ----------
    model : estimator
        A fitted :class:`unpermute.PMSDR`, or another fitted estimator with ``transform``, of which
        only the repaired vectors are written.
    source : str, path, memmap, zarr.Array, pyarrow.dataset.Dataset, dask Array or DataFrame
        The vectors; paths must lead to the same files on all workers.
    output : str or path
        The folder, the same on all workers; it is created.
        :func:`unpermute.stream.read_results` reads it.
    client : dask.distributed.Client or str, default=None
        A client, or the address of a scheduler; None: worker processes on this machine, for this
        call alone.
    n_workers : int, default=None
        Number of those processes; None: one per core.
    block_size : int, default=10_000
        Vectors per task and partition; 1 000 to 10 000 keep all workers busy.
    columns : sequence of str or int, default=None
        The columns that make the vectors; None: those the model was fitted on, if they had names,
        else all.
    overwrite : bool, default=False
        Whether results that are in the folder are removed first.

    Returns
    -------
    output : Path
        The folder.

    Examples
    --------
    ``examples/cluster.py`` is a whole program.

    >>> from unpermute import distributed, stream
    >>> distributed.transform(model, "/data/sensors", "/data/repaired")  # doctest: +SKIP
    >>> for part in stream.read_results("/data/repaired"):  # doctest: +SKIP
    ...     print(part.start, (part.status == "recovered").sum())
    """
    check_count("block_size", block_size)
    check_model(model)
    with connect(client, n_workers) as connected:
        opened = _open(source, columns, feature_names_of(model), connected)
        run = partial(_run_on, connected)
        return transform_with(
            run, model, opened, output, block_size=block_size, overwrite=overwrite
        )


class _DaskSource(Source):
    """A Dask array of known size, whose blocks stay on the workers."""

    def __init__(self, array, names=None):
        check_numbers(array)
        self.array, self.names = array, names
        self.n_vectors, self.n_features = (int(size) for size in array.shape)

    def read(self, start, stop):
        return self.array[start:stop].astype(np.float64).compute()

    def fingerprint(self):
        # Dask names an array after what it is made from.
        return self.array.name


def _open(source, columns, names, client):
    package = type(source).__module__.partition(".")[0]
    if package == "dask" and hasattr(source, "divisions"):
        return _open_frame(source, names if columns is None else columns, client)
    if package == "dask" and hasattr(source, "chunks"):
        return _open_array(source, columns)
    opened = open_source(source, columns, names)
    if type(opened) is ArraySource and isinstance(source, np.ndarray):
        raise TypeError(
            "source is an array in the memory of this process; give a path or a Dask array, so"
            " that workers read their own blocks, or use unpermute.stream."
        )
    return opened


def _open_array(array, columns):
    if array.ndim == 2 and np.isnan(array.shape[0]):
        raise ValueError("source has chunks of unknown size; call its compute_chunk_sizes() first.")
    return _DaskSource(array if columns is None else array[:, list(columns)])


def _open_frame(frame, columns, client):
    columns = list(frame.columns if columns is None else columns)
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise ValueError(f"columns: the data frame has no {missing[0]!r}.")
    for name in columns:
        if getattr(frame.dtypes[name], "kind", "O") not in "biuf":
            raise ValueError(
                f"column {name!r} of the data frame holds {frame.dtypes[name]}, not numbers; name"
                " the columns to use in columns."
            )
    frame = frame[columns]
    lengths = np.ravel(client.compute(frame.map_partitions(len)).result()).tolist()
    array = frame.astype(np.float64).to_dask_array(lengths=lengths)
    return _DaskSource(array, [str(name) for name in columns])


def _run_on(client, source, task, blocks) -> Iterator[tuple[int, object]]:
    """Call a task on every block on the workers; yield first vector and result when ready."""
    from distributed import as_completed

    if hasattr(task, "model"):
        # One thread per task: the workers share the cores already.
        task = replace(task, model=without_training_data(task.model, n_jobs=1))
    by_dask = isinstance(source, _DaskSource)
    shared = share(client, (task, None if by_dask else source))
    submit = _submit_blocks if by_dask else _submit_ranges
    futures = dict(zip(submit(client, shared, source, blocks), blocks, strict=True))
    try:
        for future in as_completed(list(futures), loop=client.loop):
            yield futures.pop(future)[0], future.result()
    finally:
        client.cancel([*futures, shared])


def _submit_ranges(client, shared, source, blocks):
    starts, stops = zip(*blocks, strict=True)
    return client.map(_call, starts, stops, shared=shared, pure=False, retries=RETRIES)


def _submit_blocks(client, shared, source, blocks):
    """Blocks of a Dask array, computed by the workers."""
    from dask import delayed

    call = delayed(_call_on, pure=False)
    tasks = [call(source.array[start:stop], start, shared) for start, stop in blocks]
    return client.compute(tasks, retries=RETRIES)


def _map_on(client, work, ranges):
    """Call pure work on every range on the workers; yield the results in order."""
    shared = share(client, work)
    starts, stops = zip(*ranges, strict=True)
    futures = client.map(_work_on, starts, stops, shared=shared, pure=False, retries=RETRIES)
    try:
        for future in futures:
            yield future.result()
    finally:
        client.cancel([*futures, shared])


def _work_on(start, stop, shared):
    with one_blas_thread():
        return shared(start, stop)


def _call(start, stop, shared):
    task, source = shared
    return task(source.read(start, stop), start)


def _call_on(block, start, shared):
    return shared[0](np.array(block, dtype=np.float64, order="C"), start)
