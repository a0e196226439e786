"""Vectors from Parquet files, read forward through their row groups."""

import bisect
import threading
from itertools import groupby
from operator import itemgetter

import joblib
import numpy as np

from unpermute.stream._source import Source

__all__ = ["ParquetSource"]

# Row groups of a million rows are common, and much larger than a block: they are decoded in steps.
_STEP = 4096


class ParquetSource(Source):
    """Columns of Parquet files that follow one another.

    Reading on from where the last block ended costs nothing; going elsewhere costs decoding the
    row group up to there.

    Parameters
    ----------
    files : list of str
    columns : sequence of str, default=None
        Names; None: all, which must then be numbers.
    filesystem : pyarrow.fs.FileSystem, default=None
        None: the local one.
    """

    def __init__(self, files, columns=None, *, filesystem=None):
        import pyarrow.fs

        self._filesystem = pyarrow.fs.LocalFileSystem() if filesystem is None else filesystem
        self._files = list(files)
        self.names: list[str] = []
        self._group_files: list[tuple[str, int]] = []
        sizes = []
        for path in self._files:
            with self._open(path) as file:
                self._settle_columns(path, file.schema_arrow, columns)
                for group in range(file.num_row_groups):
                    self._group_files.append((path, group))
                    sizes.append(file.metadata.row_group(group).num_rows)
        self._group_starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).tolist()
        self.n_vectors = self._group_starts[-1]
        self.n_features = len(self.names)
        self._begin()

    def read(self, start, stop):
        with self._lock:
            return self._read(start, stop)

    def fingerprint(self):
        states = self._filesystem.get_file_info(self._files)
        return joblib.hash(([(state.size, state.mtime_ns) for state in states], self.names))

    def __getstate__(self):
        # Where the reading stands belongs to a process, not to the source.
        return {key: value for key, value in vars(self).items() if key not in _READING}

    def __setstate__(self, state):
        vars(self).update(state)
        self._begin()

    def _open(self, path):
        from pyarrow.parquet import ParquetFile

        return ParquetFile(path, filesystem=self._filesystem)

    def _settle_columns(self, path, schema, columns):
        """Take the columns from the first file; the others must have them too."""
        if not self.names:
            self.names = [str(name) for name in (schema.names if columns is None else columns)]
        for name in self.names:
            if schema.names.count(name) != 1:
                raise ValueError(
                    f"columns: {name!r} must occur exactly once in {path}, which has"
                    f" {', '.join(map(repr, schema.names))}."
                )
            if not _is_numeric(schema.field(name).type):
                raise ValueError(
                    f"column {name!r} of {path} holds {schema.field(name).type}, not numbers; name"
                    " the columns to use in columns."
                )

    def _begin(self):
        # Threads of a worker share the source, and with it the place where the reading stands.
        self._lock = threading.Lock()
        self._batches, self._rest, self._position = iter(()), None, self.n_vectors

    def _read(self, start, stop):
        block = np.empty((stop - start, self.n_features))
        self._go_to(start)
        filled = 0
        while filled < len(block):
            batch = self._next(len(block) - filled)
            for j, name in enumerate(self.names):
                block[filled : filled + len(batch), j] = _numbers(batch.column(name))
            filled += len(batch)
        return block

    def _go_to(self, start):
        """Let the next batch begin at vector `start`."""
        group = bisect.bisect_right(self._group_starts, start) - 1
        first = self._group_starts[group]
        if not first <= self._position <= start:
            self._batches, self._rest, self._position = self._iterate(group), None, first
        while self._position < start:
            self._next(start - self._position)

    def _next(self, n_rows):
        """Return up to `n_rows` rows from where the reading stands."""
        while self._rest is None or len(self._rest) == 0:
            self._rest = next(self._batches)
        batch, self._rest = self._rest.slice(0, n_rows), self._rest.slice(n_rows)
        self._position += len(batch)
        return batch

    def _iterate(self, first):
        for path, places in groupby(self._group_files[first:], key=itemgetter(0)):
            groups = [group for _, group in places]
            with self._open(path) as file:
                # Threads of Arrow would compete with those that work on the blocks.
                yield from file.iter_batches(
                    _STEP, row_groups=groups, columns=self.names, use_threads=False
                )


_READING = ("_lock", "_batches", "_rest", "_position")


def _is_numeric(kind):
    from pyarrow import types

    return any(
        test(kind)
        for test in (types.is_floating, types.is_integer, types.is_boolean, types.is_decimal)
    )


def _numbers(column):
    import pyarrow

    # Integers above 2**53 lose their last digits; Arrow would refuse them.
    return column.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False)
