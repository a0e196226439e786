"""The command ``unpermute``: parse, call, draw progress, print; no maths.

Nothing here imports numpy, scikit-learn or numba before a command needs them, so that
``unpermute --help`` answers at once.
"""

import atexit
import contextlib
import gc
import os
import sys
from importlib.util import find_spec

from unpermute.cli._limits import memory_limit, run_under
from unpermute.cli._signals import end_on_signals, ignore_signals

__all__ = ["main"]

# Objects that are made before Python looks for unreachable ones among them.
_COLLECTED_AFTER = 100_000


def main() -> None:
    """Run the command; say in one sentence what is missing if its extras are not installed."""
    _collect_seldom()
    end_on_signals()
    _keep_closed_streams_closed()
    if sys.stdout is None:
        _stop("unpermute cannot write its output: standard output is closed.")
    missing = [name for name in ("typer", "rich") if find_spec(name) is None]
    if missing:
        _stop(f'The command needs {" and ".join(missing)}: pip install "unpermute[cli]"')
    # Characters that the terminal cannot show are printed as escapes, not as a traceback.
    with contextlib.suppress(AttributeError):
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    limit = memory_limit()
    try:
        if limit is None:
            _run()
        else:
            # OpenBLAS interrupts the process if there is no room for the stacks of its threads.
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
            sys.exit(run_under(limit, _run))
    finally:
        # Registered last, so called first when the interpreter ends.
        atexit.register(ignore_signals)


def _run() -> None:
    from unpermute.cli._app import app

    try:
        try:
            app(prog_name="unpermute")
        finally:
            # Now, not when the interpreter ends: a full disk is often noticed only here.
            sys.stdout.flush()
    except SystemExit as stop:
        # Click exits with 1 when the reader of a pipe goes away; here, 1 would mean "found".
        if isinstance(stop.__context__, BrokenPipeError):
            _forget_output()
            sys.exit(0)
        raise
    except BrokenPipeError as error:
        _forget_output()
        sys.exit(error.__context__.code if isinstance(error.__context__, SystemExit) else 0)
    except OSError as error:
        if error.errno is None:  # raised by a library, not by the system
            raise
        _forget_output()
        _stop(f"unpermute cannot write its output: {error.strerror}.")


def _collect_seldom():
    """Spend less time on the garbage of imports: they make many objects, of which most stay.

    When the interpreter ends, the system takes all memory back, so nothing is looked for then.
    """
    gc.set_threshold(_COLLECTED_AFTER, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)


def _keep_closed_streams_closed():
    """Reopen closed standard streams, so that no file of ours gets their number."""
    while (place := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(place)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def _forget_output():
    # Drop the unwritten output: the interpreter would try again at exit, with a traceback.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _stop(sentence: str) -> None:
    print(sentence, file=sys.stderr)
    sys.exit(2)
