"""What is done to a piece of a table, wherever it is done: pure functions of the piece.

Every task is a small object that can be pickled and is called with a piece. Local runs and clusters
call the same tasks on the same pieces, so that their answers agree.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from unpermute._progress import on_progress
from unpermute.large._files import Piece, TableFiles
from unpermute.large._folder import CHANGES_SCHEMA, Folder
from unpermute.numerics.parallel import n_threads, one_blas_thread
from unpermute.stream import written_at_once
from unpermute.table import TableModel, Tally, added_up

__all__ = [
    "COUNTED",
    "JudgePiece",
    "TakeSample",
    "run_here",
    "tally_sentences",
    "uncounted",
    "worst",
]

# What is counted, most suspicious records that are named, and what is said of them.
COUNTED = ("n_rows", "n_repaired", "n_uncertain", "n_moved_cells", "expected_wrong_cells")
_NAMED = 10
_SHOWN = (
    "vector", "score", "status", "subspace", "damaged", "confidence", "moved", "cause", "columns",
    "evidence",
)  # fmt: skip


@dataclass(frozen=True)
class TakeSample:
    """Take some records of a piece, known by their numbers in the table."""

    files: TableFiles
    rows: np.ndarray

    def __call__(self, piece: Piece) -> Any:
        first, last = np.searchsorted(self.rows, [piece.first, piece.first + piece.size])
        return self.files.take(piece, self.rows[first:last] - piece.first)


@dataclass(frozen=True)
class JudgePiece:
    """Judge a piece block by block, write it repaired, and then the list of its changes.

    Attributes
    ----------
    files : TableFiles
        What the piece is read with.
    model : TableModel
        What judges the records.
    options : dict
        Of :meth:`TableModel.repair`.
    block_size : int
        Records that are judged at once.
    folder : Folder or None
        Where results go.
    change : bool
        Whether the repaired piece is written.
    """

    files: TableFiles
    model: TableModel
    options: dict[str, Any]
    block_size: int
    folder: Folder | None
    change: bool

    def __call__(self, piece: Piece) -> dict[str, Any]:
        found = _Found(piece, by_row=self.options.get("id") is None)
        sink: Any = nullcontext()
        if self.folder is not None and self.change:
            sink = written_at_once(self.folder.target(piece))
        with on_progress(_be_quiet), sink as file:
            for block in self.files.judged(piece, self.block_size, self._judge, file):
                found.add(block)
        summary = found.summary()
        if self.folder is not None:
            self.folder.finish(piece, found.changes, summary)
        return summary

    def _judge(self, frame, change=None):
        change = self.change if change is None else change
        judge = self.model.repair if change else self.model.scan
        return judge(frame, adapt=False, n_jobs=1, **self.options)


class _Found:
    """What was found in the blocks of a piece: changes by column, counts, and a few records."""

    def __init__(self, piece, *, by_row):
        self._piece, self._by_row = piece, by_row
        self.changes: dict[str, list] = {name: [] for name in CHANGES_SCHEMA}
        self._counts: dict[str, Any] = dict.fromkeys(COUNTED, 0)
        self._named: list[dict[str, Any]] = []
        self._notes: dict[str, None] = {}
        self._tallies: list[Tally] = []

    def add(self, block):
        """Add what was found in a block."""
        summary = block.result.summary
        for name in COUNTED:
            self._counts[name] += summary[name]
        self._notes |= dict.fromkeys(uncounted(block.result))
        self._tallies = added_up([*self._tallies, *block.result.tallies])
        self._named = worst(self._named + self._most_suspicious(block))
        if block.listed:
            self._list(block)

    def summary(self):
        """Return counts, notes, and the most suspicious records."""
        n_ragged = self._piece.size - self._counts["n_rows"]
        more = {"n_ragged": n_ragged, "notes": list(self._notes), "named": self._named}
        return self._counts | more | {"tallies": list(map(astuple, self._tallies))}

    def _most_suspicious(self, block):
        vectors = block.result.vectors
        values = [_as_list(vectors[name])[:_NAMED] for name in ("row", *_SHOWN)]
        records = []
        for row, *cells in zip(*values, strict=True):
            place = {"file": self._piece.name, "row": int(block.rows[row])}
            record = place | dict(zip(_SHOWN, cells, strict=True))
            records.append(record | {"vector": place["row"]} if self._by_row else record)
        return records

    def _list(self, block):
        names = ("row", "line", "id", "column", "old", "new", "moved_from")
        columns = dict(zip(names, zip(*block.listed, strict=True), strict=True))
        if self._by_row:
            columns["id"] = tuple(map(str, columns["row"]))
        for name, values in columns.items():
            self.changes[name] += values
        self.changes["file"] += [self._piece.name] * len(block.listed)
        for name in ("accept", "damaged", "confidence", "cause", "evidence"):
            self.changes[name] += getattr(block.result.moves, name).tolist()


def run_here(task, pieces: list[Piece], n_jobs=None) -> Iterator[tuple[Piece, Any]]:
    """Call a task on every piece, on threads of this process; yield pieces with their results."""
    count = min(n_threads(n_jobs), len(pieces))
    if count <= 1:
        yield from ((piece, task(piece)) for piece in pieces)
        return
    pool = ThreadPoolExecutor(count)
    try:
        # Threads of BLAS would compete with those of the pieces.
        with one_blas_thread():
            futures = {pool.submit(task, piece): piece for piece in pieces}
            for future in as_completed(futures):
                yield futures.pop(future), future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def uncounted(result) -> list[str]:
    """Return the notes of a result that count nothing, and are true of the whole table."""
    counting = {tally.sentence for tally in result.tallies}
    return [note for note in result.summary["notes"] if note not in counting]


def tally_sentences(summaries: Iterable[dict[str, Any]]) -> list[str]:
    """Return what was counted in all pieces."""
    tallies = (
        Tally(kind, count, tuple((place, name) for place, name in columns))
        for each in summaries
        for kind, count, columns in each["tallies"]
    )
    return [tally.sentence for tally in added_up(tallies)]


def _be_quiet(stage, done, total):
    """Pieces are counted, not the steps within one."""


def worst(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the most suspicious of some records."""
    key = lambda record: (-record["score"], record["file"], record["row"])  # noqa: E731
    return sorted(records, key=key)[:_NAMED]


def _as_list(column):
    return column.to_pylist() if hasattr(column, "to_pylist") else column.to_list()
