"""A folder of finished partitions: each is there, complete, or not there at all.

``manifest.json`` says what the partitions are of; ``part-00000.parquet`` or ``part-00000.npz``
holds the first `block_size` vectors, and so on. A run that finds the folder of the same model,
source and settings goes on where it was interrupted.
"""

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from unpermute._unfinished import UNFINISHED
from unpermute._words import counted
from unpermute.stream._open import import_optional

__all__ = ["Output", "Part", "open_output", "prepare_output", "read_results", "written_at_once"]

_MANIFEST = "manifest.json"
_ASIDE = ".aside"
# Beside the columns of the source, which may well have one called "label".
_PREFIX = "unpermute_"
_EXTRAS = ("labels", "status", "confidence", "permutations")


@dataclass(frozen=True)
class Part:
    """A run of repaired vectors.

    Attributes
    ----------
    start : int
        Number of the first vector.
    X : ndarray of shape (n_vectors, n_features)
        The vectors, repaired.
    labels : ndarray of shape (n_vectors,) or None
        Their subspaces; this and what follows is None if the model was no PMSDR.
    status : ndarray of shape (n_vectors,) or None
        "clean", "recovered" or "uncertain".
    confidence : ndarray of shape (n_vectors,) or None
        Probability that the vector is right.
    permutations : ndarray of shape (n_vectors, n_features) or None
        ``X = np.take_along_axis(observed, permutations, axis=1)``, where the output are values.

    Examples
    --------
    >>> import numpy as np
    >>> from unpermute.stream import Part
    >>> part = Part(start=250, X=np.zeros((2, 3)))
    >>> part.start, part.X.shape, part.labels
    (250, (2, 3), None)
    """

    start: int
    X: np.ndarray
    labels: np.ndarray | None = None
    status: np.ndarray | None = None
    confidence: np.ndarray | None = None
    permutations: np.ndarray | None = None

    def __repr__(self):
        return f"Part: {counted(len(self.X), 'vector')} from number {self.start:,} on"


@dataclass(frozen=True)
class Output:
    """Where partitions go, and how they are cut."""

    folder: str
    layout: str
    names: list[str] | None
    n_vectors: int
    n_features: int
    block_size: int

    def path(self, start: int) -> Path:
        """Return the file of the partition that begins at `start`."""
        return Path(self.folder, f"part-{start // self.block_size:05d}.{self.layout}")

    def partitions(self) -> list[tuple[int, int]]:
        """Return first vector and end of every partition."""
        starts = range(0, self.n_vectors, self.block_size)
        return [(start, min(start + self.block_size, self.n_vectors)) for start in starts]

    def unfinished(self) -> list[tuple[int, int]]:
        """Return the partitions whose files are not there."""
        return [part for part in self.partitions() if not self.path(part[0]).exists()]

    def write(self, part: Part) -> None:
        """Write a partition; whoever looks sees all of it or nothing."""
        with written_at_once(self.path(part.start)) as file:
            if self.layout == "parquet":
                import_optional("pyarrow.parquet").write_table(_to_table(part, self.names), file)
            else:
                np.savez(file, **{key: v for key, v in vars(part).items() if v is not None})

    def read(self, start: int) -> Part:
        """Read a partition."""
        path = self.path(start)
        if self.layout == "parquet":
            return _from_table(
                import_optional("pyarrow.parquet").read_table(path), start, self.names
            )
        with np.load(path, allow_pickle=False) as arrays:
            return Part(**{**arrays, "start": start})

    def sweep(self) -> None:
        """Remove what killed writers left behind."""
        for path in Path(self.folder).glob(f".*{_ASIDE}"):
            path.unlink(missing_ok=True)


def prepare_output(output: Output, run: dict[str, str], *, overwrite: bool) -> None:
    """Make the folder ready for a run, or refuse what would mix two runs.

    Parameters
    ----------
    output : Output
    run : dict of str
        Fingerprints of what must be the same for a run to go on: of the model, the source, ...
    overwrite : bool
        Whether partitions of another run are removed.
    """
    folder = Path(output.folder)
    manifest = folder / _MANIFEST
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"output={output.folder!r} must be a folder, but is a file.")
    if not manifest.exists() and folder.exists() and any(folder.iterdir()):
        raise FileExistsError(
            f"output={output.folder!r} holds other files; give a new or an empty folder."
        )
    if manifest.exists():
        earlier = json.loads(manifest.read_text(encoding="utf-8"))["run"]
        other = [key for key in run if earlier.get(key) != run[key]]
        if not overwrite and not other:
            return
        if not overwrite:
            raise FileExistsError(
                f"output={output.folder!r} holds results of another {' and '.join(other)}; give"
                " another folder, or overwrite=True."
            )
        for path in folder.glob("part-*"):
            path.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    layout = {key: value for key, value in asdict(output).items() if key != "folder"}
    text = json.dumps({"format": 1, "run": run, **layout}, indent=1)
    with written_at_once(manifest) as file:
        file.write(text.encode())


def open_output(folder) -> Output:
    """Return the output whose manifest lies in a folder."""
    try:
        text = Path(folder, _MANIFEST).read_text(encoding="utf-8")
    except OSError as error:
        raise FileNotFoundError(
            f"output={str(folder)!r} holds no {_MANIFEST}: nothing was written there yet."
        ) from error
    fields = json.loads(text)
    return Output(str(folder), **{k: v for k, v in fields.items() if k not in ("format", "run")})


def read_results(output) -> Iterator[Part]:
    """Iterate over the partitions that ``transform`` wrote, in the order of the source.

    Parameters
    ----------
    output : str or path
        The folder.

    Returns
    -------
    iterator of Part
        Each with `start`, `X`, `labels`, `status`, `confidence` and `permutations`.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from unpermute import stream
    >>> from unpermute.baselines import RobustPCA
    >>> X = np.outer(np.arange(1.0, 41.0), np.arange(1.0, 6.0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     output = stream.transform(RobustPCA().fit(X), X, folder, block_size=25)
    ...     [part.X.shape for part in stream.read_results(output)]
    [(25, 5), (15, 5)]
    """
    found = open_output(output)
    missing, total = len(found.unfinished()), len(found.partitions())
    if missing:
        raise ValueError(
            f"output={str(output)!r} lacks {missing} of {total} partitions; run transform again,"
            " it does only those."
        )
    return (found.read(start) for start, _ in found.partitions())


@contextmanager
def written_at_once(path):
    """Give a file to write to; it is at its path when all is written, or not at all."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(6)}{_ASIDE}")
    UNFINISHED.add(str(aside))
    try:
        # "x" creates the file with the permissions that new files get here.
        with open(aside, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)
        UNFINISHED.discard(str(aside))


def _to_table(part, names):
    import pyarrow

    columns = {name: part.X[:, j] for j, name in enumerate(names)}
    for key in _EXTRAS:
        values = getattr(part, key)
        if values is None:
            continue
        if values.ndim == 2:
            values = pyarrow.FixedSizeListArray.from_arrays(values.ravel(), values.shape[1])
        columns[_PREFIX + key] = values
    return pyarrow.table(columns)


def _from_table(table, start, names):
    X = np.column_stack([table[name].to_numpy() for name in names])
    extras = {}
    for key in _EXTRAS:
        if _PREFIX + key in table.column_names:
            column = table[_PREFIX + key].combine_chunks()
            if key == "permutations":
                extras[key] = column.flatten().to_numpy().reshape(X.shape)
            else:
                extras[key] = column.to_numpy(zero_copy_only=False)
    if "status" in extras:
        extras["status"] = extras["status"].astype(str)
    return Part(start, X, **extras)
