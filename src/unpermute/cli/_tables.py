"""``unpermute scan``, ``repair``, ``apply`` and ``audit``: read, call, write, show."""

import io
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from unpermute.cli._errors import one_sentence
from unpermute.cli._large import is_large, read_kinds, run_large
from unpermute.cli._options import Choice, Learning, Reading, Scale, Vectors, given, split_names
from unpermute.cli._progress_bars import draw_progress
from unpermute.cli._questions import ask, read_answers
from unpermute.cli._show import Screen, as_json
from unpermute.files import (
    CHANGE_COLUMNS,
    NA_TEXTS,
    STDOUT,
    Changes,
    CsvStyle,
    OutputFiles,
    SourceTable,
    TableError,
    check_columns,
    check_output_format,
    file_format,
    listed_changes,
    listed_edits,
    plan_moves,
    read_table,
    repaired_as,
    tells_format,
    written_changes,
)

if TYPE_CHECKING:
    from unpermute.table import RaggedProposal

__all__ = ["Outputs", "run_apply", "run_audit", "run_review", "run_scan_or_repair"]


@dataclass(frozen=True)
class Outputs:
    """Where results go; None means nowhere."""

    table: str | None = None
    changes: str | None = None
    report: str | None = None
    model: str | None = None
    for_spreadsheets: bool = False

    def planned(self, *, force: bool, inputs: Iterable[str | None], json: bool) -> OutputFiles:
        """Check all of them, before any work is done."""
        files = OutputFiles(force=force, inputs=[path for path in inputs if path is not None])
        for path in (self.table, self.changes, self.report, self.model):
            if path is not None:
                files.plan(path)
        if self.for_spreadsheets and self.changes is None:
            raise TableError("--safe-for-spreadsheets is for the list of --changes; name its file.")
        if json and STDOUT in (self.table, self.changes, self.report, self.model):
            raise TableError("--json and an output called - cannot both go to standard output.")
        return files

    def paths(self) -> dict[str, str | None]:
        """Return where results go, by name."""
        return {name: getattr(self, name) for name in ("table", "changes", "report", "model")}

    @property
    def use_stdout(self) -> bool:
        """Whether standard output is taken, so that people read on stderr."""
        return STDOUT in (self.table, self.changes, self.report, self.model)


def run_scan_or_repair(
    command: str,
    table: str,
    reading: Reading,
    choice: Choice,
    learning: Learning,
    scale: Scale,
    outputs: Outputs,
    *,
    model: str | None,
    fail_on_found: bool,
    force: bool,
    json: bool,
) -> None:
    """Find what is shuffled; write only what has been given a name.

    The two commands differ in what they are asked for and in what they say: a scan proposes the
    changes that a repair makes.
    """
    with one_sentence():
        if is_large(table, scale, _format(reading), by_row=choice.vectors is Vectors.rows):
            style = _style(reading)
            run_large(command, table, style, reading, choice, learning, scale, outputs,
                      model=model, fail_on_found=fail_on_found, force=force, json=json)  # fmt: skip
            return
        if outputs.table is not None:
            check_output_format(outputs.table, table, file_format(table, _format(reading)))
        words = [*given(reading, choice, learning), *(["--model", model] if model else [])]
        inputs = [table, choice.reference, model]
        with outputs.planned(force=force, inputs=inputs, json=json) as files:
            source, result = _search(command, table, reading, choice, learning, model)
            changes = result.moves.in_file(source)
            found = Found(source, result, changes, _ragged(source, result, learning.jobs))
            lines = _lines_of(source)
            command_line = shlex.join(["unpermute", "repair", table, *words])
            questions = ask(result.summary.get("questions") or [], table, words, lines)
            _write(files, outputs, found, command_line, questions)
        if json:
            changes = _as_dicts(found.listed())
            written, ragged = outputs.paths(), [line.as_dict(source) for line in found.ragged]
            more = {"changes": changes, "written": written, "assumed": source.notes}
            more |= {"ragged_lines": ragged} if ragged else {}
            more |= {"questions": questions} if questions else {}
            print(as_json(command, table, result, lines=lines, **more))
        else:
            screen = Screen(stderr=outputs.use_stdout)
            screen.assumed(source.notes)
            if command == "scan":
                screen.scanned(result, table, words, lines)
            else:
                n_mended = sum(line.accepted for line in found.ragged)
                screen.repaired(result, table, outputs, lines, n_mended)
            screen.ragged(found.ragged, source.columns)
            screen.asked(questions)
    if fail_on_found and (result.summary["n_suspicious"] or found.ragged or questions):
        raise typer.Exit(1)


def run_apply(
    table: str,
    changes: str,
    reading: Reading,
    *,
    output: str | None,
    undo: bool,
    force: bool,
    json: bool,
) -> None:
    """Replay or undo a list of changes."""
    outputs = Outputs(table=output)
    with one_sentence():
        if output is not None:
            check_output_format(output, table, file_format(table, _format(reading)))
        with outputs.planned(force=force, inputs=[table, changes], json=json) as files:
            with draw_progress():
                source = _read(table, reading)
                moves = plan_moves(source, read_table(changes, format="csv"), undo=undo)
            if output is not None:
                files.write(output, repaired_as(output, source, moves))
            files.commit()
        if json:
            numbers = {"n_moved_cells": len(moves), "n_edited_lines": len(moves.edits)}
            print(as_json("apply", table, None, written=outputs.paths(), **numbers))
        else:
            Screen(stderr=outputs.use_stdout).applied(moves, table, output, undo=undo)


def run_review(
    table: str | None, reading: Reading, *, port: int, browser: bool, jobs: int | None
) -> None:
    """Open the workbench in the browser."""
    with one_sentence():
        missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
        if missing:
            raise TableError(f'The workbench needs {missing[0]}: pip install "unpermute[web]"')
        if table == "-":
            raise TableError("The workbench needs a file: its journal lies beside the table.")
        from unpermute.web import serve

        serve(
            table,
            open_table=lambda path: (_open if path == table else _open_beside)(path, reading),
            say=lambda address: print(f"Open {address}\nEnd with Ctrl-C.", flush=True),
            port=port,
            browser=browser,
            n_jobs=jobs,
        )


def run_audit(
    table: str,
    reading: Reading,
    *,
    columns: list[str],
    release: str | None,
    json: bool,
    **options: Any,
) -> None:
    """Say how much of a shuffled release can be undone."""
    from unpermute.table import audit

    with one_sentence():
        names = split_names(columns) or []
        with draw_progress():
            source = _open(table, reading)
            check_columns([*names, *_present([options.get("id")])], source)
            if release is not None:
                released = _open_beside(release, reading)
                check_columns(names, released)
                options["release"] = released.frame
            result = audit(source.frame, names, **options)
        if json:
            print(as_json("audit", table, result, assumed=source.notes))
        else:
            Screen().assumed(source.notes)
            Screen().audited(result)


def _search(command, table, reading, choice, learning, model):
    """Read the table and whatever else is named, and call `scan` or `repair`."""
    from unpermute.table import repair, scan

    with draw_progress():
        source = _open(table, reading)
        options = _choice_options(source, choice)
        if choice.reference is not None:
            options["reference"] = _open_beside(choice.reference, reading).frame
        if model is not None:
            options |= _model_options(model, source, options)
        kept = options.pop("model", None)
        run = {"scan": scan, "repair": repair}[command] if kept is None else getattr(kept, command)
        result = run(
            source.frame,
            **options,
            n_subspaces=learning.n_subspaces,
            rank=learning.rank,
            min_confidence=learning.min_confidence,
            max_moves=learning.max_moves,
            random_state=learning.seed,
            n_jobs=learning.jobs,
        )
    return source, result


@dataclass(frozen=True)
class Found:
    """A table, what was found in it, cells that would move, and lines that are not regular."""

    source: SourceTable
    result: Any
    changes: Changes
    ragged: list["RaggedProposal"]

    def accepted(self) -> Changes:
        """Return what is to be done."""
        edits = tuple(line.edit for line in self.ragged if line.edit is not None and line.accepted)
        return replace(self.changes.accepted(), edits=edits)

    def listed(self) -> Iterator[tuple]:
        """Yield everything that is proposed, as lines of a list of changes."""
        mended = [line.proposal() for line in self.ragged if line.edit is not None]
        ids = self.result.proposals["id"].to_list()
        return chain(
            listed_changes(self.source, self.changes, ids), listed_edits(self.source, mended)
        )


def _ragged(source, result, n_jobs):
    """Judge lines with another number of fields than the header, if there are any."""
    if len(source.frame_rows) == source.n_rows:
        return []
    from unpermute.table import judge_ragged

    return judge_ragged(source, result, n_jobs=n_jobs)


def _write(files, outputs, found, command_line, questions):
    source, result = found.source, found.result
    if outputs.table is not None:
        files.write(outputs.table, repaired_as(outputs.table, source, found.accepted()))
    if outputs.changes is not None:
        lines = written_changes(found.listed(), for_spreadsheets=outputs.for_spreadsheets)
        files.write(outputs.changes, lines)
    if outputs.report is not None:
        files.write(outputs.report, [_report(result, source, command_line, questions)])
    if outputs.model is not None:
        files.write(outputs.model, [_kept(result)])
    files.commit()


def _open(path: str, reading: Reading) -> SourceTable:
    """Read a table to learn from, which takes more than one record."""
    source = _read(path, reading)
    n_rows = len(source.frame_rows)
    if n_rows < 2:
        found = "no rows" if n_rows == 0 else "one row"
        sentence = f"{source.name} has {found}; a table needs several."
        raise TableError(" ".join([sentence, *source.notes]))
    return source


def _open_beside(path: str, reading: Reading) -> SourceTable:
    """Read a second table; `--format` is for the first, if the second has a telling extension."""
    given = replace(reading, format=None, sheet=None) if tells_format(path) else reading
    return _open(path, given)


def _read(path: str, reading: Reading) -> SourceTable:
    return read_table(path, format=_format(reading), style=_style(reading), sheet=reading.sheet)


def _style(reading: Reading) -> CsvStyle:
    names = {"tab": "\t", "\\t": "\t"}
    delimiter = reading.delimiter
    return CsvStyle(
        delimiter=None if delimiter is None else names.get(delimiter, delimiter),
        decimal=reading.decimal,
        thousands=reading.thousands,
        encoding=reading.encoding,
        na=NA_TEXTS if reading.na is None else split_names(reading.na) or (),
        header=not reading.no_header,
        skip_lines=reading.skip_lines,
    )


def _format(reading):
    return None if reading.format is None else reading.format.value


def _choice_options(source, choice):
    columns, exclude = split_names(choice.columns), split_names(choice.exclude)
    kinds = read_kinds(choice.kind)
    groups: str | list | None = choice.groups
    names = _present([choice.id, choice.blocks])
    if groups is not None and choice.vectors is Vectors.rows:
        names = [*names, choice.groups]
    elif groups is not None and groups != "auto":
        groups = [split_names([part]) for part in choice.groups.split(";")]
        names = [*names, *(name for part in groups for name in part)]
    check_columns([*names, *(columns or []), *(exclude or []), *(kinds or {})], source)
    return {
        "vectors": choice.vectors.value,
        "id": choice.id,
        "columns": columns,
        "exclude": exclude,
        "kinds": kinds,
        "exchange": read_answers(choice.exchange, source),
        "blocks": choice.blocks,
        "groups": groups,
    }


def _lines_of(source):
    """Return a function: the lines of the file where rows of its frame start."""
    return lambda rows: source.lines(source.frame_rows[np.asarray(rows, dtype=np.int64)])


def _present(names):
    return [name for name in names if name is not None]


def _as_dicts(changes):
    return [dict(zip(CHANGE_COLUMNS, change, strict=True)) for change in changes]


def _report(result, source, command_line, questions):
    from unpermute.report import render_report

    settings = {"command": command_line, **result.summary.get("settings", {})}
    answers = {
        reading["if"]: reading["command"]
        for question in questions
        for reading in question["readings"]
    }
    page = render_report(
        result,
        source_name=source.name,
        settings=settings,
        lines=_lines_of(source),
        answers=answers,
    )
    return page.encode()


def _kept(result) -> bytes:
    if result.model is None:
        raise TableError("--save-model: only records (--vectors rows) have a model to keep.")
    sink = io.BytesIO()
    result.model.save(sink)
    return sink.getvalue()


def _model_options(path, source, options):
    """Return a kept model, and the columns that it was learned from."""
    from unpermute.table import TableModel

    try:
        kept = TableModel.load(path)
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror}.") from None
    columns = kept.names
    if options["columns"] not in (None, columns) or set(options["exclude"] or ()) & set(columns):
        raise TableError(
            f"{path} was learned from the columns {', '.join(columns)}; leave out --columns and"
            " --exclude, or name just these."
        )
    check_columns(columns, source)
    return {"model": kept, "columns": columns, "exclude": None}
