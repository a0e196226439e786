"""A scan, and how it is kept beside the table: a restart need not repeat what takes minutes.

The file ``TABLE.unpermute-scan`` is a zip of JSON and Parquet: data, so that reading it runs
nothing. It counts only for the same table, read and scanned in the same way by the same version.
Without it the scan is repeated, so that it may be deleted at any time.
"""

import contextlib
import hashlib
import io
import json
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from unpermute import __version__
from unpermute._progress import report
from unpermute.files import Changes, LineEdit, OutputFiles, SourceTable
from unpermute.table import RaggedProposal, TableResult, judge_ragged, scan
from unpermute.web._job import PARTS

__all__ = ["DEFAULTS", "Scan", "keep_scan", "kept_scan", "scan_path", "scan_table"]

DEFAULTS: dict[str, Any] = {"id": None, "groups": None, "kinds": {}, "min_confidence": 0.95,
                            "shuffled_columns": False}  # fmt: skip
_FORMAT = 1
_CELLS = {
    "rows": pl.Int64, "columns": pl.Int64, "from_columns": pl.Int64, "confidence": pl.Float64,
    "damaged": pl.Float64, "accept": pl.Boolean, "cause": pl.String, "evidence": pl.String,
}  # fmt: skip
# What is said if these parts of the key are others; the first pair that differs counts.
_OTHERS = {
    ("format", "unpermute", "polars"): "the scan that was kept was made by another version",
    ("table", "frame", "columns", "rows"):
        "the scan that was kept is of another table, or of this one read with other options",
}  # fmt: skip
# Cells of a shuffled column that are shown.
_EXAMPLES = 5
# What reading and writing may fail with: a file that is no zip of JSON and Parquet, or of others, a
# full disk, or a text that no file can hold.
_FAILURES = (
    OSError, ValueError, KeyError, TypeError, IndexError, EOFError, RuntimeError, zlib.error,
    zipfile.BadZipFile, pl.exceptions.PolarsError,
)  # fmt: skip


@dataclass(frozen=True)
class Scan:
    """What a scan finds in a table, and the options that it was told.

    Attributes
    ----------
    result : TableResult
        About the records.
    lines : list of RaggedProposal
        Lines with another number of fields than the header.
    columns : dict or None
        Columns whose rows seem to be shuffled, if these were looked for: ``sentence``, ``notes``
        and ``found``, one dict per column.
    options : dict
        What a person chose: ``id``, ``groups``, ``kinds``, ``min_confidence`` and
        ``shuffled_columns``.
    """

    result: TableResult
    lines: list[RaggedProposal] = field(default_factory=list)
    columns: dict[str, Any] | None = None
    options: dict[str, Any] = field(default_factory=DEFAULTS.copy)


def scan_table(source: SourceTable, options: dict[str, Any], n_jobs: int | None = None) -> Scan:
    """Find suspicious records, lines that are not regular, and shuffled columns if wanted."""
    chosen = {**options, "kinds": options["kinds"] or None}
    with_columns = chosen.pop("shuffled_columns")
    with_lines = len(source.frame_rows) < source.n_rows
    n_parts = 1 + with_lines + with_columns
    report(PARTS, 0, n_parts)
    result, lines, columns = scan(source.frame, **chosen, n_jobs=n_jobs), [], None
    if with_lines:
        report(PARTS, 1, n_parts)
        lines = judge_ragged(source, result, n_jobs=n_jobs)
    if with_columns:
        report(PARTS, n_parts - 1, n_parts)
        columns = _shuffled_columns(source, options, n_jobs)
    return Scan(result, lines, columns, options)


def _shuffled_columns(source, options, n_jobs):
    """Columns whose rows seem to be shuffled against the others, as the command finds them."""
    ignored = [name for name, kind in options["kinds"].items() if kind == "ignore"]
    try:
        found = scan(
            source.frame, vectors="columns", id=options["id"], exclude=ignored or None,
            min_confidence=options["min_confidence"], n_jobs=n_jobs,
        )  # fmt: skip
    except ValueError as error:  # a table may have no numbers to look at
        return {"sentence": str(error), "notes": [], "found": []}
    listed = [
        each | {"examples": _examples(source, found.moves, each["vector"])}
        for each in found.vectors.select("vector", "status", "confidence", "moved").to_dicts()
    ]
    return {"sentence": found.summary["sentence"], "notes": found.summary["notes"], "found": listed}


def _examples(source, moves, name):
    """Some cells of a shuffled column: line, value now, value after, and the line it comes from."""
    mine = np.flatnonzero(moves.columns == moves.names.index(name))
    if not len(mine):
        return []
    some = mine[np.unique(np.linspace(0, len(mine) - 1, _EXAMPLES).astype(int))]
    part = moves.in_file(source).take(some)
    return [
        {"line": line, "now": now, "then": then, "from": origin}
        for line, now, then, origin in zip(
            source.lines(part.rows).tolist(),
            source.texts(part.rows, part.columns),
            source.texts(part.from_rows, part.from_columns),
            source.lines(part.from_rows).tolist(),
            strict=True,
        )
    ]


def scan_path(table: str) -> Path:
    """Return where the scan of a table is kept."""
    return Path(f"{table}.unpermute-scan")


def keep_scan(path: Path, found: Scan, source: SourceTable, sha256: str) -> None:
    """Write a scan; what cannot be written is not kept, and will be repeated."""
    with contextlib.suppress(*_FAILURES), OutputFiles(force=True) as files:
        files.plan(str(path))
        files.write(str(path), [_packed(found, _key(source, sha256, found.options))])
        files.commit()


def _packed(found, key):
    """Return a scan as the content of a file."""
    moves, result = found.result.moves, found.result
    cells = pl.DataFrame({name: getattr(moves, name).tolist() for name in _CELLS}, _CELLS)
    lines = [
        [each.line.row, each.edit and [each.edit.column, each.edit.kind], each.confidence,
         each.accepted]
        for each in found.lines
    ]  # fmt: skip
    told = {"key": key, "names": moves.names, "lines": lines, "summary": result.summary,
            "columns": found.columns}  # fmt: skip
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("scan.json", json.dumps(told, default=_plain))
        file.writestr("cells.parquet", _parquet(cells))
        file.writestr("scores.parquet", _parquet(result.vectors.select("row", "score")))
    return sink.getvalue()


def kept_scan(
    path: Path, source: SourceTable, sha256: str, options: dict
) -> tuple[Scan | None, str]:
    """Return the scan that was kept of this table with these options, or None and why."""
    try:
        with zipfile.ZipFile(path) as file:
            told = json.loads(file.read("scan.json"))
            key = json.loads(json.dumps(_key(source, sha256, options)))
            if told["key"] != key:
                return None, _difference(told["key"], key)
            cells, scores = (
                pl.read_parquet(io.BytesIO(file.read(f"{name}.parquet")))
                for name in ("cells", "scores")
            )
        return _restored(told, cells, scores, source), ""
    except FileNotFoundError:
        return None, "the last scan was not kept"
    except _FAILURES:
        return None, "the scan that was kept cannot be read"


def _difference(told, key):
    """Why a scan with another key does not count."""
    for names, why in _OTHERS.items():
        if any(told[name] != key[name] for name in names):
            return why
    others = [name for name, value in key["options"].items() if told["options"].get(name) != value]
    return f"the scan that was kept was made with other options ({', '.join(others)})"


def _restored(told, cells, scores, source):
    n, names = len(source.frame_rows), told["names"]
    arrays = {name: cells[name].to_numpy() for name in _CELLS}
    for places, most in ((arrays["rows"], n), (arrays["columns"], len(names)),
                         (arrays["from_columns"], len(names)), (scores["row"], n)):  # fmt: skip
        if len(places) and not 0 <= places.min() <= places.max() < most:
            raise ValueError("a cell is not in the table")
    moves = Changes(
        arrays["rows"], arrays["columns"], arrays["rows"], arrays["from_columns"],
        *(arrays[name].copy() for name in list(_CELLS)[3:]), names=names,
    )  # fmt: skip
    ragged = {line.row: line for line in source.ragged_lines()} if told["lines"] else {}
    lines = [
        RaggedProposal(ragged[row], edit and LineEdit(row, *edit), confidence, accepted)
        for row, edit, confidence, accepted in told["lines"]
    ]
    result = TableResult(source.frame, None, scores, told["summary"], moves=moves)
    return Scan(result, lines, told["columns"], told["key"]["options"])


def _key(source, sha256, options):
    """Everything that a scan depends on; other options of reading make another frame."""
    frame = source.frame.hash_rows(seed=0).to_numpy().tobytes()
    return {
        "format": _FORMAT,
        "unpermute": __version__,
        "polars": pl.__version__,
        "table": sha256,
        "frame": hashlib.sha256(frame).hexdigest(),
        "columns": list(source.columns),
        "rows": source.n_rows,
        "options": options,
    }


def _parquet(frame):
    sink = io.BytesIO()
    frame.write_parquet(sink, compression="zstd")
    return sink.getvalue()


def _plain(value):
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else str(value)
