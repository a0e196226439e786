"""Work in the background: how far it is, how long it takes, and how it is cancelled."""

import threading
import time
from collections.abc import Callable
from contextlib import contextmanager

from unpermute._progress import on_progress

__all__ = ["PARTS", "Job"]

# The stage that tells how many parts of the work are done; each of them has stages of its own.
PARTS = "parts"

# What stages are called on the page; others go by their own name.
_TITLES = {
    "read": "Read the table",
    "read columns": "Read the columns",
    "search records": "Search for the right order of suspicious records",
    "judge records": "Judge every record",
    "sources": "Compare the sources",
}
# Where in a job some stages begin and end, by the time that a scan of many records takes. All
# others lie in the middle of it; nobody knows how often they are run.
_PHASES = {"read": (0.0, 1.0), "read columns": (0.0, 0.5), "judge records": (0.65, 1.0)}
_BETWEEN, _STEP = 0.65, 0.05
# Share and seconds from which the time left is estimated.
_KNOWN_SHARE, _KNOWN_SECONDS = 0.05, 1.5


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
        self._stage, self._share, self._part, self._n_parts = "", 0.0, 0, 1
        self._began = time.monotonic()
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
        """Return how far it is: stage, per cent, and the time gone and left in words."""
        gone = time.monotonic() - self._began
        share = (self._part + self._share) / self._n_parts
        told = f"{_duration(gone)} elapsed"
        if share > _KNOWN_SHARE and gone > _KNOWN_SECONDS:
            told += f", about {_duration(gone * (1 - share) / share)} left"
        return {
            "stage": _TITLES.get(self._stage, self._stage.capitalize()) or "Get ready",
            "percent": round(100 * share),
            "time": told,
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
        if stage == PARTS:
            self._part, self._n_parts, self._share = done, total, 0.0
            return
        self._stage, share = stage, done / max(total, 1)
        if stage in _PHASES:
            first, last = _PHASES[stage]
            self._share = max(self._share, first + (last - first) * share)
        elif share >= 1 and self._share < _BETWEEN:
            self._share += _STEP * (_BETWEEN - self._share)


def _duration(seconds):
    """Return a time as people say it."""
    whole = round(seconds)
    return f"{whole} s" if whole < 100 else f"{round(whole / 60)} min"
