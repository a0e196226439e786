"""Run an experiment: every draw of every setting, saved at once, so that nothing is done twice."""

import csv
import json
import os
import platform
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from unpermute import __version__
from unpermute._progress import on_progress, report
from unpermute.experiments._experiment import Experiment, Outcome, Record, format_setting
from unpermute.experiments._records import append_records, read_records, write_records

__all__ = [
    "Failure",
    "choose_settings",
    "read_arrays",
    "read_failures",
    "run_experiment",
    "write_conditions",
]


class Failure(NamedTuple):
    """A draw that raised an error, and the last line of it."""

    setting: str
    seed: int
    message: str


class _Finished(NamedTuple):
    setting: str
    seed: int
    outcome: Outcome | None
    error: str


def run_experiment(
    experiment: Experiment,
    folder: Path,
    *,
    quick: bool = False,
    resume: bool = False,
    methods: Sequence[str] = (),
    data_home: str | None = None,
    n_jobs: int = -1,
) -> list[Failure]:
    """Run all draws of an experiment and save each as soon as it is finished.

    Parameters
    ----------
    experiment : Experiment
        What to run.
    folder : Path
        Where ``NAME.csv`` goes, and ``NAME.npz`` if the figure needs arrays.
    quick : bool, default=False
        Whether to run the small version.
    resume : bool, default=False
        Whether to keep what is there, of this version, and run what is missing.
    methods : sequence of str, default=()
        If given, run only the settings with one of these words as their ``methods``, and keep what
        is there of the others.
    data_home : str, optional
        Folder with data; None: the environment variable ``UNPERMUTE_DATA`` names it.
    n_jobs : int, default=-1
        Processes; the result does not depend on it.

    Returns
    -------
    list of Failure
        The draws that raised an error; the others are not affected.
    """
    settings = choose_settings(experiment, quick, methods)
    if experiment.check_data is not None:
        experiment.check_data(data_home)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{experiment.name}.csv"
    kept = [r for r in read_records(path) if _is_kept(r, methods, resume)]
    write_records(path, kept)
    done = {(record.setting, record.seed) for record in kept}
    seeds = range(experiment.n_seeds(quick))
    draws = [(setting, seed) for setting in settings for seed in seeds]
    left = [draw for draw in draws if (format_setting(draw[0]), draw[1]) not in done]
    failures, n_done = [], len(draws) - len(left)
    arrays = read_arrays(folder, experiment.name) if resume or methods else {}
    report(experiment.name, n_done, len(draws))
    for finished in _run_all(experiment, left, data_home, n_jobs):
        if finished.outcome is None:
            failures.append(Failure(finished.setting, finished.seed, finished.error))
        else:
            append_records(path, _records(finished))
            arrays.update(finished.outcome.arrays)
            _save_arrays(folder, experiment.name, finished.outcome.arrays, arrays)
        n_done += 1
        report(experiment.name, n_done, len(draws))
    _write_failures(folder, experiment.name, failures)
    return failures


def read_arrays(folder: Path, name: str) -> dict[str, Any]:
    """Return the arrays that an experiment keeps for its figure."""
    path = folder / f"{name}.npz"
    if not path.exists():
        return {}
    with np.load(path) as arrays:
        return dict(arrays)


def read_failures(folder: Path, name: str) -> list[Failure]:
    """Return the draws of the last run that raised an error."""
    path = _failures_path(folder, name)
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.reader(stream))[1:]
    return [Failure(setting, int(seed), message) for setting, seed, message in rows]


def write_conditions(folder: Path, *, quick: bool) -> None:
    """Save versions and machine; times in particular depend on them."""
    folder.mkdir(parents=True, exist_ok=True)
    conditions = {
        "unpermute": __version__,
        "quick": quick,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
    }
    (folder / "conditions.json").write_text(json.dumps(conditions, indent=1) + "\n", "utf-8")


def choose_settings(
    experiment: Experiment, quick: bool, methods: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the settings with one of these words as their ``methods``; all if none is given."""
    settings = experiment.settings(quick)
    words = list(dict.fromkeys(s["methods"] for s in settings if "methods" in s))
    unknown = [word for word in methods if word not in words]
    if unknown:
        there = f"there are {', '.join(words)}" if words else "all of its methods run together"
        raise ValueError(f"{experiment.name} has no methods {unknown[0]!r}; {there}.")
    return [s for s in settings if not methods or s["methods"] in methods]


def _is_kept(record: Record, methods: Sequence[str], resume: bool) -> bool:
    """Say whether a figure that is there stays: of other methods always, even of old versions."""
    if methods and record.parsed.get("methods") not in methods:
        return True
    return resume and record.version == __version__


def _run_all(experiment, draws, data_home, n_jobs) -> Iterator[_Finished]:
    jobs = 1 if experiment.alone else n_jobs
    tasks = (delayed(_run_one)(experiment.run, *draw, data_home) for draw in draws)
    # Draws are saved in the order in which they finish, so that none waits for a slow one.
    yield from Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)(tasks)


def _run_one(run, setting, seed, data_home) -> _Finished:
    """Run one draw; an error is returned, not raised, so that the other draws go on."""
    text = format_setting(setting)
    try:
        with on_progress(_ignore):
            outcome = run(setting, seed, data_home)
    except Exception as error:
        line = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(line.filename).name}:{line.lineno}"
        message = " ".join(f"{type(error).__name__}: {error} ({where})".split())
        return _Finished(text, seed, None, message)
    return _Finished(text, seed, outcome if isinstance(outcome, Outcome) else Outcome(outcome), "")


def _ignore(stage: str, done: int, total: int) -> None:
    """Ignore the stages of a draw: only finished draws are reported."""


def _records(finished: _Finished) -> list[Record]:
    assert finished.outcome is not None
    return [
        Record(finished.setting, m.method, finished.seed, m.metric, m.value, m.seconds, __version__)
        for m in finished.outcome.measurements
    ]


def _save_arrays(folder, name, new, arrays):
    if new:
        np.savez_compressed(folder / f"{name}.npz", **arrays)


def _failures_path(folder, name):
    return folder / f"{name}-failures.csv"


def _write_failures(folder, name, failures):
    path = _failures_path(folder, name)
    if not failures:
        path.unlink(missing_ok=True)
        return
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([Failure._fields, *failures])
