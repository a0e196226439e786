"""From paths and objects to blocks of vectors, without ever holding more than one block."""

import importlib
import mmap
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from unpermute.stream._parquet import ParquetSource
from unpermute.stream._source import ArraySource, MappedSource, Source

__all__ = ["BlockReader", "check_count", "import_optional", "open_source", "read_blocks"]

_KNOWN = (
    "a .npy file, a Parquet file or a folder of them, a zarr array or its folder, an Arrow data set"
    " of Parquet files, or a NumPy array"
)


class BlockReader:
    """Iterator over ``(start, block)``, with the size of the whole.

    Attributes
    ----------
    n_vectors : int
    n_features : int
    """

    def __init__(self, source: Source, block_size: int):
        self.n_vectors, self.n_features = source.n_vectors, source.n_features
        self._source = source
        self._starts = iter(range(0, source.n_vectors, block_size))
        self._block_size = block_size

    def __iter__(self) -> Iterator[tuple[int, np.ndarray]]:
        return self

    def __next__(self) -> tuple[int, np.ndarray]:
        start = next(self._starts)
        stop = min(start + self._block_size, self.n_vectors)
        return start, self._source.read(start, stop)


def read_blocks(source, *, block_size=10_000, columns=None):
    """Iterate over the vectors of a source, block by block.

    Parameters
    ----------
    source : str, path, ndarray, memmap, zarr.Array or pyarrow.dataset.Dataset
        A ``.npy`` file, a Parquet file or a folder of them, a zarr array or its folder, an Arrow
        data set of Parquet files, or a matrix that NumPy knows, mapped from a file or not.
    block_size : int, default=10_000
        Vectors per block; only the last one may have fewer.
    columns : sequence of str or int, default=None
        The columns that make the vectors: names in Parquet, positions elsewhere; None: all.

    Returns
    -------
    BlockReader
        Iterator over ``(start, block)``: the number of the first vector, and a float64 matrix of
        its own. `n_vectors` and `n_features` tell the size of the whole.

    Examples
    --------
    >>> import numpy as np
    >>> from unpermute.stream import read_blocks
    >>> blocks = read_blocks(np.arange(10.0).reshape(5, 2), block_size=2)
    >>> blocks.n_vectors, [(start, len(block)) for start, block in blocks]
    (5, [(0, 2), (2, 2), (4, 1)])
    """
    check_count("block_size", block_size)
    return BlockReader(open_source(source, columns), int(block_size))


def open_source(source, columns=None, names: Sequence[str] | None = None) -> Source:
    """Return the source behind a path or an object; nothing but its size is read.

    `names` are the columns to take if none are asked for and the source has names.
    """
    if isinstance(source, Source):
        return source
    if isinstance(source, str | os.PathLike):
        return _open_path(os.fspath(source), columns, names)
    # A slice of a map does not know where in the file it lies; the map itself does.
    if isinstance(source, np.memmap) and isinstance(source.base, mmap.mmap):
        return MappedSource(source, columns)
    package = type(source).__module__.partition(".")[0]
    if isinstance(source, np.ndarray) or package == "zarr":
        return ArraySource(source, columns)
    if package == "pyarrow":
        return _open_dataset(source, names if columns is None else columns)
    raise TypeError(f"source has type {type(source).__name__}; it must be {_KNOWN}.")


def check_count(name, value, least=1):
    """Refuse what is no whole number of at least `least`."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}={value!r} must be a whole number, at least {least}.")


def import_optional(package):
    """Import an optional package, or say in one sentence how to get it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ImportError(
            f"this needs the package {package.partition('.')[0]}:"
            " pip install 'unpermute[dask]' brings it."
        ) from error


def _open_path(path, columns, names):
    if not os.path.exists(path):
        raise FileNotFoundError(f"source={path!r} does not exist; it must be {_KNOWN}.")
    if path.endswith(".npy"):
        return MappedSource(_map(path), columns)
    folder = Path(path)
    if any((folder / name).exists() for name in ("zarr.json", ".zarray")):
        return ArraySource(import_optional("zarr").open_array(path, mode="r"), columns)
    files = [path]
    if folder.is_dir():
        files = sorted(str(file) for file in folder.rglob("*.parquet") if _is_visible(file, folder))
    if not files or not files[0].endswith((".parquet", ".pq")):
        raise ValueError(f"source={path!r} is of no known kind; it must be {_KNOWN}.")
    import_optional("pyarrow")
    return ParquetSource(files, names if columns is None else columns)


def _map(path):
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise ValueError(f"source={path!r} is no matrix of numbers: {error}") from error


def _open_dataset(source, columns):
    if not hasattr(source, "files") or source.format.default_extname != "parquet":
        raise TypeError(
            f"source has type {type(source).__name__}; of Arrow, it must be a data set of Parquet"
            " files."
        )
    try:
        source.get_fragments()
    except ValueError as error:
        raise ValueError("source is filtered; give the Arrow data set as a whole.") from error
    return ParquetSource(source.files, columns, filesystem=source.filesystem)


def _is_visible(file, folder):
    # Hidden files are unfinished ones of writers, those with "_" their notes.
    return not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
