"""Scan or repair a table that is larger than memory: sample, learn, judge piece by piece."""

import hashlib
import io
import os
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from unpermute import __version__
from unpermute._progress import report
from unpermute._words import counted
from unpermute.files import TableError
from unpermute.large._files import FILE_ENDS, TableFiles
from unpermute.large._folder import Folder, aside_folder
from unpermute.large._work import COUNTED, JudgePiece, TakeSample, tally_sentences, uncounted, worst
from unpermute.stream import check_count, written_at_once
from unpermute.table import TableModel, learn_sample

__all__ = [
    "FilesResult",
    "Job",
    "make_job",
    "process",
]

# Records that are drawn besides those to learn from: they tell which records are usual.
_FRESH = 10_000


@dataclass(frozen=True)
class FilesResult:
    """What was found in a table in files.

    Attributes
    ----------
    summary : dict
        ``sentence``, counts, ``judged_columns``, ``structure``, ``questions``, ``trials``,
        ``notes`` and ``settings``, as :class:`unpermute.table.TableResult` has them.
    vectors : list of dict
        The most suspicious records: ``file``, ``row``, ``status``, ``confidence`` and so on.
    model : TableModel
        What judged the records: ``model.repair(frame, adapt=False)`` gives the same answers.
    output, changes : str or None
        Where the repaired table and the list of changes are.

    Examples
    --------
    >>> from unpermute.large import FilesResult
    >>> FilesResult({"sentence": "Nothing looks shuffled in 9 records."}, [], None)
    FilesResult: Nothing looks shuffled in 9 records.
    """

    summary: dict[str, Any]
    vectors: list[dict[str, Any]]
    model: Any
    output: str | None = None
    changes: str | None = None

    def __repr__(self):
        return f"FilesResult: {self.summary['sentence']}"


@dataclass(frozen=True)
class Job:
    """What is to be done with the files.

    Attributes
    ----------
    command : {"scan", "repair"}
        Whether the table is repaired.
    output, changes : str or None
        Where the repaired table and the list of changes go.
    model : TableModel or None
        A model to adapt to this table; None: one is learned.
    sample_size, block_size : int
        Records to learn from, and records that are judged at once.
    force : bool
        Whether earlier results may be replaced.
    n_jobs : int or None
        Threads while the model is learned.
    learning : dict
        ``columns``, ``exclude``, ``kinds``, ``rank`` and ``random_state``.
    judging : dict
        ``id``, ``min_confidence`` and ``max_moves``.
    """

    command: str
    output: str | None
    changes: str | None
    model: TableModel | None = None
    sample_size: int = 10_000
    block_size: int = 50_000
    force: bool = False
    n_jobs: int | None = None
    learning: dict[str, Any] = field(default_factory=dict)
    judging: dict[str, Any] = field(default_factory=dict)


def make_job(command, output, changes, options, **settings) -> Job:
    """Return a job, with its options checked and sorted.

    Parameters
    ----------
    command, output, changes
        As of :class:`Job`.
    options : dict
        Options of :func:`unpermute.table.repair`.
    **settings : dict
        ``model``, ``sample_size``, ``block_size``, ``force`` and ``n_jobs``.

    Returns
    -------
    Job
    """
    check_count("sample_size", settings["sample_size"], least=20)
    check_count("block_size", settings["block_size"])
    learning = {"columns": None, "exclude": None, "kinds": None, "rank": None, "random_state": 0}
    judging = {"id": None, "min_confidence": 0.95, "max_moves": None}
    for name, value in options.items():
        target = learning if name in learning else judging
        if name not in target:
            raise TableError(f"{name} takes the whole table in memory; leave it out.")
        target[name] = value
    changes = None if changes is None else os.fspath(changes)
    return Job(command, output, changes, learning=learning, judging=judging, **settings)


def process(run, files: TableFiles, job: Job) -> FilesResult:
    """Do a job, with the tasks called by `run`.

    Parameters
    ----------
    run : callable
        ``run(task, pieces)`` calls the task on every piece and yields pieces with their results,
        in any order.
    files : TableFiles
        The table.
    job : Job
        What to do.

    Returns
    -------
    FilesResult
    """
    start = time.perf_counter()
    if not files.n_records:
        raise TableError("The files hold no records.")
    _check_names(files, job)
    _check_pieces(files)
    folder = _folder(files, job)
    try:
        files, model, learned, found = _learn_and_judge(run, files, job, folder)
    except (ValueError, OSError) as error:
        # Bytes that moved look like any error of a file.
        _refuse_changed(files, error)
        raise
    _refuse_changed(files)
    if folder is not None:
        _put_in_place(folder, files, job)
    summary = _summary(found, files, job, learned) | {"seconds": time.perf_counter() - start}
    records = worst(record for each in found for record in each["named"])
    return FilesResult(summary, records, model, job.output, job.changes)


def _learn_and_judge(run, files, job, folder):
    """Return the files as they are read, the model, what was learned, and what was found."""
    kept = None if folder is None else folder.kept_model()
    model, learned = kept or _learn(run, files, job)
    if kept is None and folder is not None:
        folder.keep_model(model, learned)
    files = files.settled(learned["settled"])
    task = JudgePiece(files, model, job.judging, job.block_size, folder, job.command == "repair")
    found = _work_through(run, task, files.pieces, _targets(folder, files, job))
    return files, model, learned, found


def _refuse_changed(files, error=None):
    """Refuse files that are no longer what they were when they were opened."""
    path = files.changed()
    if path is not None:
        raise TableError(
            f"{path} changed while it was read, so the results are of no use; --force starts"
            " afresh."
        ) from error


def _check_pieces(files):
    """Refuse files of which two would be written under one name."""
    for names in (files.paths, [piece.part for piece in files.pieces]):
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise TableError(
                f"Two files would be called {twice[0]} in the output; rename one of them."
            )


def _check_names(files, job):
    """Refuse columns that the files do not have."""
    named = [job.judging["id"], *(job.learning["kinds"] or {})]
    for option in ("columns", "exclude"):
        names = job.learning[option]
        named += [names] if isinstance(names, str) else list(names or [])
    for name in named:
        if name is not None and name not in files.columns:
            shown = ", ".join(repr(other) for other in files.columns[:8])
            more = ", …" if len(files.columns) > 8 else ""
            raise TableError(f"The table has no column {name!r}; its columns are {shown}{more}.")


def _folder(files, job):
    """Prepare the folder of a run; None: nothing is kept."""
    target = job.output if job.output is not None else job.changes
    if target is None:
        return None
    to_folder = job.output is not None and (
        os.path.isdir(job.output) or job.output.endswith(os.sep)
    )
    aside = job.output is None or (files.single and not to_folder)
    folder = Folder(aside_folder(target) if aside else job.output)
    _check_outputs(files, job, folder, aside)
    identity = {
        "files": files.identity(),
        "settings": {
            "command": job.command, "sample_size": job.sample_size,
            **_plain(job.learning), **_plain(job.judging),
        },
        "model": None if job.model is None else _digest(job.model),
        "version of unpermute": __version__,
    }  # fmt: skip
    parts, outputs = [piece.part for piece in files.pieces], _places(job)
    joined = [] if aside or files.format != "csv" else files.names
    folder.prepare(identity, [*parts, *joined], outputs, force=job.force)
    return folder


def _places(job):
    """Where outputs go, whatever they are called."""
    return [os.path.realpath(path) for path in (job.output, job.changes) if path is not None]


def _check_outputs(files, job, folder, aside):
    """Refuse outputs that cannot be written, before any work is done."""
    inputs, begun = set(map(os.path.realpath, files.paths)), folder.outputs()
    if len(set(_places(job))) < len(_places(job)):
        raise TableError(f"{job.changes} is named for two outputs; give each a file of its own.")
    for path in (job.output if aside else None, job.changes):
        if path is None:
            continue
        if os.path.realpath(path) in inputs:
            raise TableError(f"{path} is the input itself; name another output.")
        if os.path.isdir(path):
            raise TableError(f"{path} is a directory, not a file to write to.")
        if os.path.exists(path) and not job.force and os.path.realpath(path) not in begun:
            raise TableError(f"{path} exists already; --force replaces it.")
        parent = os.path.dirname(os.path.abspath(path))
        if not os.path.isdir(parent):
            raise TableError(f"{path} cannot be written: there is no directory {parent}.")
    if not aside:
        place = os.path.realpath(job.output)
        if any(path.startswith(place + os.sep) for path in inputs):
            raise TableError(f"{job.output} holds the input; name another output folder.")
        called = {"parquet": "Parquet", "csv": "CSV"}.get(files.format)
        if called and not os.path.isdir(job.output) and job.output.lower().endswith(FILE_ENDS):
            raise TableError(
                f"{job.output} would be a folder of {called} files; give it a name without the"
                " extension of a file."
            )


def _learn(run, files, job):
    """Draw a sample and learn from it; returns the model, and what else is to be kept."""
    n, seed = files.n_records, job.learning["random_state"]
    size = min(job.sample_size + _FRESH, n)
    drawn = np.random.default_rng(seed).choice(n, size, replace=False, shuffle=False)
    task = TakeSample(files, np.sort(drawn))
    parts, done = {}, 0
    with closing(run(task, files.pieces)) as ready:
        for piece, part in ready:
            parts[piece.number] = part
            done += piece.size
            report("sample", done, n)
    frame, settled = files.joined([parts[piece.number] for piece in files.pieces])
    result = learn_sample(
        frame, model=job.model, n_learned=job.sample_size, n_jobs=job.n_jobs, **job.learning,
        **job.judging,
    )  # fmt: skip
    summary = result.summary
    learned = {name: summary[name] for name in ("structure", "judged_columns", "trials")}
    questions = [_question(each) for each in summary["questions"]]
    learned |= {"columns": result.model.names, "questions": questions, "settled": settled}
    return result.model, learned | {"n_drawn": size, "notes": uncounted(result)}


def _question(question):
    a, b = question["columns"]
    return {
        "columns": [a, b],
        "share": question["share"],
        "sentence": f"{a} and {b} seem to be exchanged in {question['share']:.0%} of the records."
        " It cannot be told which of the two is right, so nothing was moved between them.",
    }


def _targets(folder, files, job):
    """Where every CSV file goes, by its path; empty where pieces are not joined."""
    if job.output is None or files.format != "csv":
        return {}
    aside = folder.path != job.output
    names = [job.output] if aside else [os.path.join(job.output, name) for name in files.names]
    return dict(zip(files.paths, names, strict=True))


def _work_through(run, task, pieces, targets):
    """Judge all pieces that are not done yet; returns what was found in every piece."""
    folder = task.folder
    left = pieces if folder is None else folder.unfinished(pieces, targets, written=task.change)
    total = sum(piece.size for piece in pieces)
    done, found = total - sum(piece.size for piece in left), {}
    if done:
        report("judge pieces", done, total)
    with closing(run(task, left)) as ready:
        for piece, summary in ready:
            found[piece.number] = summary
            done += piece.size
            report("judge pieces", done, total)
    if folder is not None:
        return list(folder.summaries(pieces))
    return [found[piece.number] for piece in pieces]


def _put_in_place(folder, files, job):
    """Make the outputs of the pieces, and remove what was set aside for them."""
    targets = _targets(folder, files, job)
    if targets:
        folder.join_parts(files, targets)
    if job.changes is not None:
        with written_at_once(Path(job.changes)) as sink:
            folder.write_changes(files.pieces, sink)
    if folder.path != job.output:
        folder.remove()


def _summary(found, files, job, learned):
    counts = {name: sum(each[name] for each in found) for name in COUNTED}
    # Sums of sums differ in their last digits.
    counts["expected_wrong_cells"] = round(counts["expected_wrong_cells"], 6)
    n_ragged = sum(each["n_ragged"] for each in found)
    notes = [*files.notes, *dict.fromkeys(note for each in found for note in each["notes"])]
    notes += [note for note in learned["notes"] if note not in notes] + tally_sentences(found)
    if n_ragged:
        notes.append(
            f"{counted(n_ragged, 'line')} with another number of fields than the header left as"
            f" they are (the first: {files.first_odd})."
        )
    settings = {"sample_size": job.sample_size, **job.learning, **job.judging}
    return {
        "sentence": _sentence(counts, learned),
        "judged": True,
        "vectors": "rows",
        "columns": learned["columns"],
        "n_vectors": counts["n_rows"],
        "n_files": len(files.paths),
        "n_sampled": learned["n_drawn"],
        "n_suspicious": counts["n_repaired"] + counts["n_uncertain"],
        **counts,
        **{name: learned[name] for name in ("judged_columns", "structure", "questions", "trials")},
        "notes": notes,
        "settings": settings | {"model": None if job.model is None else "given"},
    }


def _sentence(counts, learned):
    several = counted(counts["n_rows"], "record")
    n_repaired, n_uncertain = counts["n_repaired"], counts["n_uncertain"]
    found = n_repaired + n_uncertain
    sentences = [question["sentence"] for question in learned["questions"]]
    if found:
        sentences.append(
            f"{found:,} of {several} look{'s' if found == 1 else ''} shuffled: {n_repaired:,} can"
            f" be put back ({counts['n_moved_cells']:,} cells move between fields), {n_uncertain:,}"
            f" {'is' if n_uncertain == 1 else 'are'} too uncertain to change."
        )
    else:
        sentences.append(f"Nothing looks shuffled in {several}.")
    weak = learned["structure"]
    return " ".join(sentences + ([weak["sentence"]] if weak["weak"] else []))


def _plain(options):
    """Options as JSON has them."""
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in options.items()
    }


def _digest(model):
    sink = io.BytesIO()
    model.save(sink)
    return hashlib.sha256(sink.getvalue()).hexdigest()
