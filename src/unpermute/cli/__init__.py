"""The command ``unpermute``: parse, call, draw progress, print; no maths.

Nothing here imports numpy, scikit-learn or numba before a command needs them, so that
``unpermute --help`` answers at once.
"""

import os
import sys
from importlib.util import find_spec

__all__ = ["main"]


def main() -> None:
    """Run the command; say in one sentence what is missing if its extras are not installed."""
    missing = [name for name in ("typer", "rich") if find_spec(name) is None]
    if missing:
        print(
            f'The command needs {" and ".join(missing)}: pip install "unpermute[cli]"',
            file=sys.stderr,
        )
        sys.exit(2)

    from unpermute.cli._app import app

    try:
        try:
            app(prog_name="unpermute")
        finally:
            # Now, not when the interpreter ends: a full disk is often noticed only here.
            sys.stdout.flush()
    except OSError as error:
        # What could not be written must not be tried again at the end, with a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"unpermute cannot write its output: {error.strerror}.", file=sys.stderr)
        sys.exit(2)
