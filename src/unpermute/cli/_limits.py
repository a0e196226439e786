"""A limit of memory: compiled libraries abort where it is reached, so somebody must watch.

Python raises MemoryError, but polars, LLVM and the loader of shared libraries end the process or
fail in their own ways. Where a limit is set, the work is done in a child process, and whoever
started the command hears one sentence instead of a core dump.
"""

import contextlib
import os
import sys
from collections.abc import Callable

from unpermute.cli._signals import handle_signals, hold_signals, ignore_signals

__all__ = ["memory_limit", "run_under"]

_BUG = 70


def memory_limit() -> int | None:
    """Return how many bytes of addresses this process may use; None if there is no limit."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft


def run_under(limit: int, work: Callable[[], None]) -> int:
    """Do the work in a child process; return the exit code, with a sentence if memory ran out."""
    import tempfile

    with tempfile.TemporaryFile() as ended, tempfile.TemporaryFile() as said:
        hold_signals(True)
        child = os.fork()
        if child == 0:
            hold_signals(False)
            # Libraries print messages before they abort; these are shown only if the work was
            # finished.
            os.dup2(said.fileno(), 2)
            _exit_after(work, ended)
        received = _pass_signals_on(child)
        os.waitpid(child, 0)
        ignore_signals()
        ended.seek(0)
        said.seek(0)
        code = int(ended.read() or (128 + received[0] if received else _BUG))
        if code != _BUG:
            sys.stderr.write(said.read().decode(errors="replace"))
            return code
    print(
        f"There was not enough memory: the limit is {limit / 2**20:,.0f} MB (see ulimit -v).",
        file=sys.stderr,
    )
    return 2


def _pass_signals_on(child):
    """Forward signals to a child process; return a list that collects their numbers."""
    received = []

    def pass_on(number, _frame):
        received.append(number)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    handle_signals(pass_on)
    hold_signals(False)
    return received


def _exit_after(work, ended):
    """End this process after the work, and note its exit code.

    The code that the process itself ends with says little: libraries exit with 1, too.
    """
    code = _BUG
    try:
        work()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    finally:
        sys.stderr.flush()
        os.write(ended.fileno(), str(code).encode())
        os._exit(code)
