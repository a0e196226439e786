"""Errors that users can do something about: one sentence on stderr, exit code 2, no traceback."""

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from unpermute._shown import shown

__all__ = ["one_sentence"]

# "Internal software error" of sysexits.h.
_BUG = 70


@contextmanager
def one_sentence() -> Iterator[None]:
    """Turn an error in the input or an option into one sentence and exit code 2."""
    try:
        yield
    except ModuleNotFoundError as error:
        _say(f'The command needs {error.name}: pip install "unpermute[cli]"')
    except MemoryError:
        _say("There is not enough memory for this table.")
    except ValueError as error:
        # The whole message on one line, whoever wrote it.
        _say(" ".join(str(error).split()))
    except (typer.Exit, typer.Abort):
        raise
    except RecursionError:
        _say("Something in the input is nested too deeply to be read.")
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            if error.filename is None:  # standard output, which `main` looks after
                raise
            _say(f"{error.filename}: {error.strerror}.")
        # A bug. Exit code 1 would mean that something was found.
        traceback.print_exc()
        raise typer.Exit(_BUG) from error


def _say(sentence: str) -> None:
    print(shown(sentence), file=sys.stderr)
    raise typer.Exit(2)
