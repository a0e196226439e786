"""The commands of ``unpermute`` and their options."""

from typing import Annotated

import typer

from unpermute import __version__
from unpermute.cli._errors import one_sentence
from unpermute.cli._options import (
    Choice,
    Force,
    Json,
    Learning,
    Reading,
    Scale,
    TablePath,
    TablePaths,
    refuse_zero,
    with_options,
)
from unpermute.experiments import NAMES as EXPERIMENTS

__all__ = ["app"]

app = typer.Typer(
    help="Find the records, columns or signals whose entries were shuffled,"
    " and put every value back.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

_Model = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Judge the table by a model saved with --save-model instead of learning a new one.",
    ),
]
_Changes = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Write the list of changes: a CSV with one line per cell, to review and to undo; a"
        " Parquet file for a table larger than memory.",
    ),
]
_SafeForSpreadsheets = Annotated[
    bool,
    typer.Option(
        "--safe-for-spreadsheets",
        metavar="",
        help="In the list of changes, put an apostrophe before cells that begin with = + - or @, so"
        " that a spreadsheet does not run them as formulas; apply removes it again.",
    ),
]
_FailOnFound = Annotated[
    bool,
    typer.Option("--fail-on-found", metavar="", help="Exit with 1 if something looks shuffled."),
]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"unpermute {__version__}")
        raise typer.Exit()


def _tables():
    """Import the commands for tables when one is called; name a missing extra in one sentence."""
    with one_sentence():
        from unpermute.cli import _tables
    return _tables


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            metavar="",
            help="Print the version.",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    seed: Annotated[
        int, typer.Option(metavar="N", min=0, max=2**32 - 1, help="Random seed of the damage.")
    ] = 0,
    json: Json = False,
) -> None:
    """Damage a real table, repair it, compare with the truth, and write demo-report.html."""
    with one_sentence():
        from unpermute.cli import _demo
    _demo.run(seed=seed, as_json=json)


@app.command()
def paper(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help=f"Experiments to run (default: all): {', '.join(EXPERIMENTS)}.",
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", metavar="", help="Run fewer settings and draws, in minutes instead of hours."
        ),
    ] = False,
    data: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Folder with the data sets (default: $UNPERMUTE_DATA)."),
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="DIR", help="Folder for the results.")
    ] = "paper",
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", metavar="", help="Continue an interrupted run; finished settings are kept."
        ),
    ] = False,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORD",
            help="Run only these methods and keep the results of the others, for instance pmsdr or"
            " nothing-given; repeat it for several (default: all).",
        ),
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(
            metavar="N", callback=refuse_zero, help="Number of processes; -1 for one per core."
        ),
    ] = -1,
) -> None:
    """Repeat the paper's experiments and compare with the published figures: CSV, PNG, one page.

    Examples:

        unpermute paper --quick
        unpermute paper motion faces --data ~/data -o results --resume

    Exits with 0 when done, 1 if something failed, 2 for bad input.
    """
    with one_sentence():
        from unpermute.cli import _paper

        _paper.run(
            names or [],
            quick=quick,
            data=data,
            output=output,
            resume=resume,
            methods=methods or [],
            jobs=jobs,
        )


@app.command()
@with_options
def scan(
    table: TablePaths,
    reading: Reading,
    choice: Choice,
    learning: Learning,
    scale: Scale,
    model: _Model = None,
    changes: _Changes = None,
    safe_for_spreadsheets: _SafeForSpreadsheets = False,
    fail_on_found: _FailOnFound = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """List the records or columns of a table that look shuffled; nothing is changed.

    Examples:

        unpermute scan patients.csv --id patient
        unpermute scan sensors.parquet --vectors columns --blocks day
        unpermute scan - --json --fail-on-found < export.csv
        unpermute scan 'orders/*.parquet' --id order --changes proposed.parquet --workers 4

    Exits with 0 when done, 1 if --fail-on-found is given and something was found, 2 for bad input.
    """
    _tables().run_scan_or_repair(
        "scan",
        table,
        reading,
        choice,
        learning,
        scale,
        _tables().Outputs(changes=changes, for_spreadsheets=safe_for_spreadsheets),
        model=model,
        fail_on_found=fail_on_found,
        force=force,
        json=json,
    )


@app.command()
@with_options
def repair(
    table: TablePaths,
    reading: Reading,
    choice: Choice,
    learning: Learning,
    scale: Scale,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the repaired table to this file (folder, if TABLE is several); - prints"
            " it.",
        ),
    ] = None,
    changes: _Changes = None,
    safe_for_spreadsheets: _SafeForSpreadsheets = False,
    report: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write a report as one HTML page.")
    ] = None,
    save_model: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Save the learned model, for --model."),
    ] = None,
    model: _Model = None,
    fail_on_found: _FailOnFound = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Move shuffled values back where they belong; without -o, this is a dry run.

    Values are moved, never invented: a repaired CSV differs from the table in the moved cells only.

    Examples:

        unpermute repair patients.csv
        unpermute repair patients.csv -o repaired.csv --changes changes.csv --report report.html
        unpermute repair new.csv --model learned.model -o - | less
        unpermute repair orders/ -o repaired/ --workers 4
        unpermute repair huge.csv -o repaired.csv --sample-size 20000 --jobs -1

    The repaired table of a folder is a folder. A run that was interrupted goes on where it was when
    the same command is given again.

    Exits with 0 when done, 1 if --fail-on-found is given and something was found, 2 for bad input.
    """
    _tables().run_scan_or_repair(
        "repair",
        table,
        reading,
        choice,
        learning,
        scale,
        _tables().Outputs(output, changes, report, save_model, safe_for_spreadsheets),
        model=model,
        fail_on_found=fail_on_found,
        force=force,
        json=json,
    )


@app.command()
@with_options
def apply(
    table: TablePath,
    changes: Annotated[
        str,
        typer.Argument(
            metavar="CHANGES", help="List of changes written by --changes, edited or not."
        ),
    ],
    reading: Reading,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write the table to this file; - prints it."
        ),
    ] = None,
    undo: Annotated[
        bool, typer.Option("--undo", metavar="", help="Move all values back where they were.")
    ] = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Apply a reviewed list of changes to a table, or undo it; without -o, only check the list.

    Examples:

        unpermute apply patients.csv changes.csv -o edited.csv
        unpermute apply repaired.csv changes.csv --undo -o original.csv

    Exits with 0 when done, 2 for bad input.
    """
    _tables().run_apply(table, changes, reading, output=output, undo=undo, force=force, json=json)


@app.command()
@with_options
def review(
    reading: Reading,
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="TABLE", help="Table to review (default: choose one in the browser)."
        ),
    ] = None,
    port: Annotated[
        int,
        typer.Option(metavar="N", min=0, max=65535, help="Port of the server; 0 for any free one."),
    ] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", metavar="", help="Print the address, open no browser.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N", callback=refuse_zero, help="Number of threads, -1 for one per core."
        ),
    ] = None,
) -> None:
    """Decide about every proposed repair in the browser; no data leave this machine.

    Decisions are kept in TABLE.unpermute-review; the same command continues where you stopped.

    Examples:

        unpermute review patients.csv
        unpermute review export.csv --delimiter tab --no-browser

    Ends with Ctrl-C; exits with 2 for bad input.
    """
    _tables().run_review(table, reading, port=port, browser=not no_browser, jobs=jobs)


@app.command()
@with_options
def audit(
    table: TablePath,
    columns: Annotated[
        list[str],
        typer.Option(metavar="A,B", help="Columns that are shuffled before the release."),
    ],
    reading: Reading,
    release: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The released table (default: releases are simulated)."),
    ] = None,
    together: Annotated[
        bool,
        typer.Option(
            "--together/--independent",
            metavar="",
            help="Shuffle all columns with one permutation (--together) or each with its own"
            " (--independent, the default).",
        ),
    ] = False,
    ratio: Annotated[
        float,
        typer.Option(metavar="P", min=0.0, max=1.0, help="Share of the rows that are shuffled."),
    ] = 0.5,
    id: Annotated[
        str | None,
        typer.Option(
            metavar="COL", help="Column that identifies the records; the attacker does not use it."
        ),
    ] = None,
    trials: Annotated[
        int, typer.Option(metavar="N", min=1, help="Number of simulated releases.")
    ] = 20,
    tolerance: Annotated[
        float,
        typer.Option(
            metavar="P",
            min=0.0,
            help="Distance, in standard deviations, within which a cell counts as recovered.",
        ),
    ] = 0.05,
    max_seconds: Annotated[
        float | None,
        typer.Option(metavar="S", min=0.001, help="Start no new trial after this many seconds."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, max=2**32 - 1, help="Random seed.")] = 0,
    json: Json = False,
) -> None:
    """Estimate how much of a release with shuffled columns can be undone, and how to protect it.

    Examples:

        unpermute audit salaries.csv --columns salary,bonus --ratio 0.5
        unpermute audit salaries.csv --columns salary,bonus --together --release released.csv

    Exits with 0 when done, 2 for bad input.
    """
    _tables().run_audit(
        table,
        reading,
        columns=columns,
        release=release,
        json=json,
        together=together,
        ratio=ratio,
        id=id,
        n_trials=trials,
        tolerance=tolerance,
        random_state=seed,
        max_seconds=max_seconds,
    )
