"""Ctrl-C and SIGTERM: remove what is half written, and end at once.

A signal may arrive anywhere. An exception raised there may get lost in a finalizer, be printed by
compiled code, or come out of a kernel as another error; so nothing is raised.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from unpermute._unfinished import remove_unfinished

__all__ = ["end_on_signals", "handle_signals", "hold_signals", "ignore_signals"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SHOW_CURSOR = b"\x1b[?25h\n"


def end_on_signals() -> None:
    """From now on, a signal ends the process with 128 plus its number, without a word."""
    handle_signals(_end)


def handle_signals(handler: Callable[[int, Any], None]) -> None:
    """From now on, a signal calls ``handler(number, frame)``, unless the parent had it ignored."""
    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


def ignore_signals() -> None:
    """From now on, nothing happens: the work is done, and the exit code says how it ended."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def hold_signals(held: bool) -> None:
    """Let signals wait, or deliver them again; only for a process without other threads."""
    signal.pthread_sigmask(signal.SIG_BLOCK if held else signal.SIG_UNBLOCK, _SIGNALS)


def _end(number, _frame):
    ignore_signals()
    remove_unfinished()
    # Progress bars hide it.
    if sys.stderr is not None and os.isatty(2):
        os.write(2, _SHOW_CURSOR)
    os._exit(128 + number)
