"""``unpermute paper``: run the paper's experiments, draw them, write the page."""

from pathlib import Path

import typer
from rich.console import Console

from unpermute.cli._progress_bars import draw_progress
from unpermute.experiments import (
    NAMES,
    choose_settings,
    draw_figure,
    load,
    run_experiment,
    write_conditions,
    write_page,
)

__all__ = ["run"]


def run(
    names: list[str],
    *,
    quick: bool,
    data: str | None,
    output: str,
    resume: bool,
    methods: list[str],
    jobs: int,
) -> None:
    """Run the named experiments, all if none is named; what fails is reported and skipped."""
    if methods and not names:
        raise ValueError("--methods needs the names of the experiments whose methods run again.")
    experiments = [load(name) for name in names or NAMES]
    for experiment in experiments:  # before anything is written
        choose_settings(experiment, quick, methods)
    folder = Path(output)
    write_conditions(folder, quick=quick)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    n_failed = 0
    for experiment in experiments:
        try:
            with draw_progress(time_left=True):
                failures = run_experiment(
                    experiment,
                    folder,
                    quick=quick,
                    resume=resume,
                    methods=methods,
                    data_home=data,
                    n_jobs=jobs,
                )
        except FileNotFoundError as missing:
            n_failed += 1
            console.print(f"{experiment.name} is left out: {missing}", markup=False)
            continue
        for failure in failures:
            words = f"{experiment.name}, {failure.setting}, draw {failure.seed}: {failure.message}"
            console.print(words, markup=False)
        n_failed += len(failures)
        draw_figure(experiment, folder)
        # After each, so that the page can be read while the others run.
        page = write_page(map(load, NAMES), folder)
        typer.echo(f"{experiment.name}: {folder / experiment.name}.csv, .png and .svg; {page}")
    if n_failed:
        typer.echo(f"{n_failed} failed; the messages are above. Run again with --resume.", err=True)
        raise typer.Exit(1)
