"""Work in the background: how far it is, how long it takes, and how it is cancelled."""

import threading
import time
from collections.abc import Callable
from contextlib import contextmanager

from unpermute._progress import on_progress

__all__ = ["Job"]

# What stages are called on the page; others go by their own name.
_TITLES = {
    "columns": "Read the columns",
    "trials": "Damage records on purpose, to measure how sure repairs are",
    "judge records": "Judge every record",
    "sources": "Compare the sources",
}


class CancelledError(Exception):
    """Raised inside a job that was cancelled."""


class Job:
    """A function that runs in a thread of its own.

    Parameters
    ----------
    title : str
        What is being done.
    work : function
        Called without arguments; `unpermute._progress.report` inside it tells how far it is.

    Attributes
    ----------
    result : object
        What the function returned.
    error : Exception or None
        Why there is no result.
    cancelled : bool
        Whether that is because somebody cancelled.
    """

    def __init__(self, title: str, work: Callable):
        self.title, self._work = title, work
        self.result, self.cancelled = None, False
        self.error: Exception | None = None
        self._stop = threading.Event()
        self._stage, self._share, self._began = "", 0.0, time.monotonic()
        self._stage_began = self._began
        self._thread = threading.Thread(target=self._run, daemon=True, name="unpermute-job")

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def cancel(self) -> None:
        """Stop at the next step."""
        self._stop.set()

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._thread.is_alive()

    def wait(self, seconds: float | None = None) -> None:
        """Wait for the end."""
        self._thread.join(seconds)

    def progress(self) -> dict:
        """Return how far it is: stage, per cent, seconds gone, and seconds left of the stage."""
        now = time.monotonic()
        gone = now - self._stage_began
        known = self._share > 0.02 and gone > 0.5
        return {
            "stage": _TITLES.get(self._stage, self._stage.capitalize()) or "Get ready",
            "percent": round(100 * self._share),
            "seconds": round(now - self._began),
            "left": round(gone * (1 - self._share) / self._share) if known else None,
            "cancelling": self._stop.is_set(),
        }

    def _run(self):
        try:
            with on_progress(self._report), self._ended_by_cancel():
                self.result = self._work()
        except Exception as error:
            self.error = error

    @contextmanager
    def _ended_by_cancel(self):
        try:
            yield
        except CancelledError:
            self.cancelled = True

    def _report(self, stage, done, total):
        if self._stop.is_set():
            raise CancelledError
        share = done / max(total, 1)
        if stage != self._stage or share < self._share:
            self._stage, self._stage_began = stage, time.monotonic()
        self._share = share
