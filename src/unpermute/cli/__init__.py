"""The command ``unpermute``: parse, call, draw progress, print; no maths.

Nothing here imports numpy, scikit-learn or numba before a command needs them, so that
``unpermute --help`` answers at once.
"""

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

    app(prog_name="unpermute")
