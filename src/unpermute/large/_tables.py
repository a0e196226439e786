"""The doors of the package: files in, a repaired table and a summary out."""

import os
from dataclasses import replace

from unpermute.files import CsvStyle
from unpermute.large._csv import CsvFiles
from unpermute.large._files import TableFiles, find_files
from unpermute.large._parquet import ParquetFiles
from unpermute.large._run import make_job, process
from unpermute.large._work import run_here

__all__ = ["open_files", "repair_table", "scan_table"]


def repair_table(
    source, output, *, changes=None, model=None, sample_size=10_000, block_size=50_000, style=None,
    n_jobs=None, force=False, **options,
):  # fmt: skip
    """Repair a table in files of any size, piece by piece; memory is bounded.

    A model is learned from a sample, or adapted to it. Then every record is judged alone, so the
    answers do not depend on the block size, on the number of threads, or on how the records are
    split into files. Interrupted and called again, the function does what is not finished yet.

    Parameters
    ----------
    source : str, path, or list of these
        A folder of Parquet or CSV files, a pattern such as ``"data/*.parquet"``, or files; all
        with the same columns.
    output : str or path
        A folder, which is created. If the source is the path of a CSV file, a file, unless it ends
        in a slash or is a folder that exists.
    changes : str or path, default=None
        Parquet file for the list of proposed changes.
    model : TableModel, default=None
        Learned before, for instance by :func:`unpermute.table.learn`; it is adapted to the damage
        of this table. None: a model is learned from the sample.
    sample_size : int, default=10_000
        Records to learn from, drawn uniformly. Up to 10,000 more tell which records are usual.
    block_size : int, default=50_000
        Records that are judged at once; fewer take less memory.
    style : CsvStyle, default=None
        How CSV files are read; None: found out.
    n_jobs : int, default=None
        Threads; -1: one per core.
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
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_wine
    >>> from unpermute import large
    >>> wine = load_wine(as_frame=True).data
    >>> wine.loc[5, ["alcohol", "magnesium"]] = [112.0, 14.2]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "wine.csv")
    ...     wine.to_csv(path, index=False)
    ...     large.repair_table(path, Path(folder, "repaired.csv")).summary["n_repaired"]
    1
    """
    files = open_files(source, style)
    job = make_job(
        "repair", os.fspath(output), changes, options, model=model, sample_size=sample_size,
        block_size=block_size, force=force, n_jobs=n_jobs,
    )  # fmt: skip
    return process(lambda task, pieces: run_here(task, pieces, n_jobs), files, job)


def scan_table(
    source, *, changes=None, model=None, sample_size=10_000, block_size=50_000, style=None,
    n_jobs=None, force=False, **options,
):  # fmt: skip
    """List the records of a table in files of any size that look shuffled; nothing is changed.

    Parameters
    ----------
    source : str, path, or list of these
        As for :func:`repair_table`.
    changes : str or path, default=None
        Parquet file for the list of proposed changes. With it an interrupted scan can be resumed.
    model : TableModel, default=None
        As for :func:`repair_table`.
    sample_size : int, default=10_000
        As for :func:`repair_table`.
    block_size : int, default=50_000
        As for :func:`repair_table`.
    style : CsvStyle, default=None
        As for :func:`repair_table`.
    n_jobs : int, default=None
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
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_wine
    >>> from unpermute import large
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "wine.csv")
    ...     load_wine(as_frame=True).data.to_csv(path, index=False)
    ...     large.scan_table(path).summary["n_suspicious"]
    0
    """
    files = open_files(source, style)
    job = make_job(
        "scan", None, changes, options, model=model, sample_size=sample_size,
        block_size=block_size, force=force, n_jobs=n_jobs,
    )  # fmt: skip
    return process(lambda task, pieces: run_here(task, pieces, n_jobs), files, job)


def open_files(source, style: CsvStyle | None = None, format: str | None = None) -> TableFiles:
    """Open a table in files: a folder, a pattern, or paths."""
    paths, names, format = find_files(source, format)
    style = style or CsvStyle()
    if format == "parquet":
        return ParquetFiles(paths, names)
    if format == "tsv" and style.delimiter is None:
        style = replace(style, delimiter="\t")
    files = CsvFiles(paths, names, style)
    files.single = isinstance(source, str | os.PathLike) and os.path.isfile(source)
    return files
