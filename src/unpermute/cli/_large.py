"""``unpermute scan`` and ``repair`` of tables that are judged piece by piece."""

import glob
import io
import os
from typing import Any

import typer

from unpermute.cli._options import Choice, Learning, Reading, Scale, Vectors, given, split_names
from unpermute.cli._progress_bars import draw_progress
from unpermute.cli._show import Screen, as_json
from unpermute.files import CsvStyle, OutputFiles, TableError, split_suffix

__all__ = ["is_large", "read_kinds", "run_large"]

# Files above this many bytes are judged piece by piece: as texts and numbers in memory they take
# about ten times as much.
_LARGE = 1 << 30
_IN_PIECES = (".csv", ".tsv", ".tab", ".parquet", ".pq")


def is_large(table: str, scale: Scale, format: str | None, *, by_row: bool) -> bool:
    """Return whether a table is judged piece by piece: asked for, in several files, or large."""
    if given(scale) or os.path.isdir(table):
        return True
    if not os.path.exists(table):
        return table != "-" and glob.has_magic(table)
    suits = format in ("csv", "tsv", "parquet") or split_suffix(table)[1] in _IN_PIECES
    return suits and by_row and not split_suffix(table)[2] and os.path.getsize(table) > _LARGE


def run_large(
    command: str,
    table: str,
    style: CsvStyle,
    reading: Reading,
    choice: Choice,
    learning: Learning,
    scale: Scale,
    outputs: Any,
    *,
    model: str | None,
    fail_on_found: bool,
    force: bool,
    json: bool,
) -> None:
    """Scan or repair a table piece by piece, here or on a cluster."""
    _refuse(table, reading, choice, learning, scale, outputs)
    from unpermute.large import make_job, open_files

    options: dict[str, Any] = {
        "id": choice.id,
        "columns": split_names(choice.columns),
        "exclude": split_names(choice.exclude),
        "kinds": read_kinds(choice.kind),
        "rank": learning.rank,
        "min_confidence": learning.min_confidence,
        "max_moves": learning.max_moves,
        "random_state": learning.seed,
    }
    job = make_job(
        command, outputs.table, outputs.changes, options, model=_load(model),
        sample_size=scale.sample_size or 10_000, block_size=scale.block_size or 50_000, force=force,
        n_jobs=scale.workers or learning.jobs,
    )  # fmt: skip
    format = None if reading.format is None else reading.format.value
    try:
        with draw_progress(time_left=True):
            files = open_files(table, style, format)
            kept = _plan_model(outputs, [*files.paths, model], force=force)
            result = _process(files, job, scale, learning.jobs)
    except ImportError as error:  # of a package that says how to get it
        raise TableError(f"{error}") from None
    if outputs.model is not None:
        content = io.BytesIO()
        result.model.save(content)
        with kept:
            kept.write(outputs.model, [content.getvalue()])
            kept.commit()
    if json:
        summary, written = result.summary, outputs.paths()
        more = {"summary": summary, "vectors": result.vectors, "changes": [], "written": written}
        print(as_json(command, table, None, **more, assumed=files.notes))
    else:
        Screen().in_pieces(result, table, outputs, repaired=command == "repair")
    if fail_on_found and result.summary["n_suspicious"]:
        raise typer.Exit(1)


def _plan_model(outputs, inputs, *, force):
    """Refuse a place for the model where it would replace something else."""
    files = OutputFiles(force=force, inputs=[path for path in inputs if path is not None])
    if outputs.model is None:
        return files
    taken = [path for path in (*inputs, outputs.table, outputs.changes) if path is not None]
    if os.path.realpath(outputs.model) in map(os.path.realpath, taken):
        raise TableError(
            f"--save-model {outputs.model} is another file of this run; name a new one."
        )
    files.plan(outputs.model)
    return files


def read_kinds(texts):
    """Return what columns are said to hold, by name."""
    from unpermute.records import KINDS

    if texts is None:
        return None
    kinds = {}
    for text in split_names(texts) or []:
        name, equals, kind = text.rpartition("=")
        if not equals or kind not in KINDS:
            raise TableError(
                f"--kind {text!r} must name a column and one of {', '.join(KINDS)}, as in"
                " code=text."
            )
        kinds[name] = kind
    return kinds


def _process(files, job, scale, jobs):
    if scale.workers is None and scale.cluster is None:
        from unpermute.large import process, run_here

        return process(lambda task, pieces: run_here(task, pieces, jobs), files, job)
    from unpermute.distributed import process_files

    try:
        return process_files(files, job, client=scale.cluster, n_workers=scale.workers)
    except ConnectionError:
        if scale.cluster is None:
            raise
        raise TableError(f"--cluster {scale.cluster}: the cluster does not answer.") from None


def _load(path):
    if path is None:
        return None
    from unpermute.table import TableModel

    try:
        return TableModel.load(path)
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror}.") from None


def _refuse(table, reading, choice, learning, scale, outputs):
    """Refuse what takes the whole table in memory, or makes no sense here."""
    if scale.workers is not None and scale.cluster is not None:
        raise TableError("--workers starts workers, --cluster uses yours; give one of the two.")
    if table == "-" or outputs.table == "-":
        raise TableError(
            "A table judged in pieces is read from files and written to files; - is neither."
        )
    alone = {
        "--vectors columns": choice.vectors is Vectors.columns,
        "--groups": choice.groups,
        "--blocks": choice.blocks,
        "--exchange": choice.exchange,
        "--reference": choice.reference,
        "--n-subspaces": learning.n_subspaces,
        "--sheet": reading.sheet,
        "--report": outputs.report,
        "--safe-for-spreadsheets": outputs.for_spreadsheets,
    }
    for name, value in alone.items():
        if value:
            raise TableError(
                f"{name} takes the whole table in memory, but {table} is judged in pieces; leave it"
                " out."
            )
    if outputs.changes is not None and not outputs.changes.endswith(".parquet"):
        raise TableError(
            f"--changes {outputs.changes}: the list of a table judged in pieces is Parquet; let it"
            " end in .parquet."
        )
