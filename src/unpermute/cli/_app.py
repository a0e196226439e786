"""What the command understands."""

from typing import Annotated

import typer

from unpermute import __version__

__all__ = ["app"]

app = typer.Typer(
    help="Find the vectors whose entries were shuffled, and put every value back.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"unpermute {__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Other numbers draw other vectors.")
    ] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Shuffle vectors of a union of subspaces, and repair them before your eyes."""
    from unpermute.cli import _demo

    _demo.run(seed=seed, as_json=json)
