"""Errors that users can do something about: one sentence on stderr, exit code 2, no traceback."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

__all__ = ["one_sentence"]


@contextmanager
def one_sentence() -> Iterator[None]:
    """Turn what is wrong with the input or an option into a sentence and exit code 2."""
    try:
        yield
    except ModuleNotFoundError as error:
        _say(f'The command needs {error.name}: pip install "unpermute[cli]"')
    except MemoryError:
        _say("There is not enough memory for this table.")
    except ValueError as error:
        # The whole message on one line, whoever wrote it.
        _say(" ".join(str(error).split()))


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr)
    raise typer.Exit(2)
