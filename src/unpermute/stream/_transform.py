"""Repair a source block by block, into a folder of partitions."""

from contextlib import closing
from pathlib import Path

from sklearn.utils.validation import check_is_fitted

from unpermute import __version__
from unpermute._progress import report
from unpermute.stream._open import check_count, open_source
from unpermute.stream._output import Output, prepare_output
from unpermute.stream._work import Repair, fingerprint, run_here, without_training_data

__all__ = ["check_model", "feature_names_of", "transform", "transform_with"]


def transform(model, source, output, *, block_size=10_000, columns=None, overwrite=False):
    """Repair the vectors of a source and write them, with what is known of them, to a folder.

    One block is one partition: a Parquet file if the source is Parquet, else an ``.npz`` file. A
    partition appears when it is complete. Interrupted and called again, the function does what is
    not finished yet; it refuses a folder with results of another model, source or block size.

    Parameters
    ----------
    model : estimator
        A fitted :class:`unpermute.PMSDR`, or another fitted estimator with ``transform``, of which
        only the repaired vectors are written.
    source : str, path, ndarray, memmap, zarr.Array or pyarrow.dataset.Dataset
        The vectors; see :func:`read_blocks`.
    output : str or path
        The folder; it is created. :func:`read_results` reads it.
    block_size : int, default=10_000
        Vectors per partition.
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
    >>> import tempfile
    >>> from unpermute import PMSDR, stream
    >>> from unpermute.datasets import make_permuted_subspaces
    >>> X = make_permuted_subspaces(2, 300, 20, 2, outlier_ratio=0.3, random_state=0).X
    >>> model = PMSDR(2, 2, random_state=0).fit(X[:200])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     output = stream.transform(model, X, folder, block_size=250)
    ...     [(part.start, part.X.shape) for part in stream.read_results(output)]
    [(0, (250, 20)), (250, (250, 20)), (500, (100, 20))]
    """
    check_model(model)
    opened = open_source(source, columns, feature_names_of(model))
    return transform_with(
        run_here, model, opened, output, block_size=block_size, overwrite=overwrite
    )


def transform_with(run, model, source, output, *, block_size, overwrite):
    """Write all partitions that are not there yet, with the blocks worked on by `run`.

    Parameters
    ----------
    run : callable
        As for :func:`fit_with`.
    model : estimator
        Fitted, with ``transform``.
    source : Source
        The vectors.
    output, block_size, overwrite
        As for :func:`transform`.

    Returns
    -------
    output : Path
        The folder.
    """
    check_count("block_size", block_size)
    _check_columns(model, source)
    target = Output(
        folder=str(Path(output).absolute()),
        # Names mean a table: what came as Parquet goes as Parquet.
        layout="npz" if source.names is None else "parquet",
        names=source.names,
        n_vectors=source.n_vectors,
        n_features=source.n_features,
        block_size=int(block_size),
    )
    identity = {
        "model": fingerprint(model),
        "source": source.fingerprint(),
        "block_size": str(block_size),
        "version of unpermute": __version__,
    }
    prepare_output(target, identity, overwrite=overwrite)
    try:
        _work_through(run, source, Repair(without_training_data(model), target))
    finally:
        target.sweep()
    return Path(output)


def check_model(model):
    """Refuse a model that cannot repair other vectors than its own."""
    if not hasattr(model, "transform"):
        raise TypeError(
            f"model: {type(model).__name__} has no transform; it recovers only the matrix that it"
            " is fitted to."
        )
    check_is_fitted(model)


def feature_names_of(model):
    """Return the names of the columns that a model was fitted on, or None."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def _work_through(run, source, task):
    target = task.output
    sizes = {start: stop - start for start, stop in target.unfinished()}
    done = target.n_vectors - sum(sizes.values())
    with closing(run(source, task, target.unfinished())) as finished:
        for start, _ in finished:
            done += sizes[start]
            report("transform", done, target.n_vectors)


def _check_columns(model, source):
    expected = getattr(model, "n_features_in_", source.n_features)
    if source.n_features != expected:
        raise ValueError(
            f"source has {source.n_features} columns, but the model was fitted on {expected}; name"
            " the columns to use in columns."
        )
    names = feature_names_of(model)
    if names is not None and source.names is not None and names != source.names:
        raise ValueError(
            f"columns={source.names!r} must be those that the model was fitted on, {names!r}."
        )
