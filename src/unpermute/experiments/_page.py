"""The page: one section per experiment that was run, made from the files of a folder alone."""

import json
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FunctionLoader, StrictUndefined

from unpermute import __version__
from unpermute.experiments._experiment import Experiment, format_setting
from unpermute.experiments._figures import save
from unpermute.experiments._methods import DEFAULT
from unpermute.experiments._records import read_records
from unpermute.experiments._run import read_arrays, read_failures

__all__ = ["draw_figure", "write_page"]


def draw_figure(experiment: Experiment, folder: Path) -> None:
    """Draw the figure of what was saved, if anything was."""
    records = read_records(folder / f"{experiment.name}.csv")
    if records:
        arrays = read_arrays(folder, experiment.name)
        save(experiment.figure(records, arrays), folder, experiment.name)


def write_page(experiments: Iterable[Experiment], folder: Path) -> Path:
    """Write ``index.html`` about everything in `folder` and return its path."""
    conditions = json.loads((folder / "conditions.json").read_text("utf-8"))
    page = (
        _environment()
        .get_template("paper.html.j2")
        .render(
            version=__version__,
            conditions=conditions,
            ours=DEFAULT,
            sections=[
                _section(experiment, folder, conditions["quick"])
                for experiment in experiments
                if (folder / f"{experiment.name}.csv").exists()
            ],
        )
    )
    path = folder / "index.html"
    path.write_text(page, encoding="utf-8")
    return path


def _section(experiment: Experiment, folder: Path, quick: bool) -> dict[str, Any]:
    records = read_records(folder / f"{experiment.name}.csv")
    done = {(record.setting, record.seed) for record in records}
    seeds = range(experiment.n_seeds(quick))
    draws = {(format_setting(s), seed) for s in experiment.settings(quick) for seed in seeds}
    # A fit reports the same seconds with each of its metrics and outputs.
    seconds = {(r.setting, r.seed, r.seconds) for r in records if r.seconds == r.seconds}
    return {
        "name": experiment.name,
        "title": experiment.title,
        "protocol": experiment.protocol,
        "left_out": experiment.quick if quick else "",
        "tables": experiment.tables(records) if records else [],
        "has_figure": (folder / f"{experiment.name}.png").exists(),
        "n_done": len(done & draws),
        "n_draws": len(draws),
        "minutes": f"{np.sum([entry[-1] for entry in seconds]) / 60:.1f}",
        "failures": read_failures(folder, experiment.name),
    }


def _environment() -> Environment:
    folder = files("unpermute.experiments") / "templates"
    return Environment(
        loader=FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
