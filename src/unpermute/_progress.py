"""Progress reporting for long computations: a callback for drawing, `logging` for reading.

The core calls :func:`report`. Whoever wants to draw wraps the call in :func:`on_progress`;
``verbose=1`` of an estimator or of :mod:`unpermute.table` does that through :func:`show_progress`.
Nothing is drawn unless somebody asked for it.
"""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TextIO

__all__ = ["TITLES", "Rounds", "on_progress", "report", "show_progress"]

logger = logging.getLogger("unpermute")
_callback: ContextVar[Callable[[str, int, int], None] | None] = ContextVar(
    "unpermute_progress", default=None
)

# A stage that is not listed is drawn under its own name.
TITLES = {
    "detect": "Detect shuffled vectors",
    "cluster": "Cluster the clean ones",
    "classify": "Classify the shuffled ones",
    "project": "Compare with the subspaces",
    "recover": "Recover their entries",
    "search": "Search for their order",
    "certify": "Rule out other orders",
    "match": "Match values with places",
    "assign": "Match whole groups",
    "judge": "Judge the vectors",
    "climb": "Improve their order",
    "read columns": "Read the columns",
    "search records": "Search the records",
    "index": "Find the records",
    "sample": "Draw a sample",
    "judge pieces": "Judge all records",
}
_WIDTH = 30


@contextmanager
def on_progress(callback: Callable[[str, int, int], None]) -> Iterator[None]:
    """Call ``callback(stage, done, total)`` whenever work inside the block moves on.

    Parameters
    ----------
    callback : callable
        Called with the name of the stage, the units that are done, and their number. A stage may
        run several times, for instance once per subspace.

    Yields
    ------
    None
        Nothing; the callback is active inside the block, and only in this thread.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from unpermute import on_progress
    >>> from unpermute.table import audit
    >>> with on_progress(lambda stage, done, total: print(stage, done, "of", total)):
    ...     result = audit(load_wine(as_frame=True).data, ["alcohol"], n_trials=2)
    attack 1 of 2
    attack 2 of 2
    control 1 of 2
    control 2 of 2
    """
    token = _callback.set(callback)
    try:
        yield
    finally:
        _callback.reset(token)


def report(stage: str, done: int, total: int) -> None:
    """Say that `done` of `total` units of `stage` are finished."""
    logger.debug("%s: %d of %d", stage, done, total)
    callback = _callback.get()
    if callback is not None:
        callback(stage, done, total)


@contextmanager
def show_progress(verbose: int) -> Iterator[None]:
    """Draw a progress bar while the block runs: in a notebook as HTML, in a terminal as text.

    Nothing is drawn if `verbose` is 0, if a callback is active already, or if standard error is
    neither a terminal nor a notebook.
    """
    bar = None if not verbose or _callback.get() is not None else _bar()
    if bar is None:
        yield
        return
    rounds = Rounds()

    def draw(stage: str, done: int, total: int) -> None:
        before, last = rounds.add(stage, done, total)
        bar.show(TITLES.get(stage, stage.capitalize()), before / max(last, 1))

    try:
        with on_progress(draw):
            yield
    finally:
        bar.close()


class Rounds:
    """Counts stages that run several times: their bars go on growing."""

    def __init__(self):
        self._stages: dict[str, tuple[int, int, int]] = {}

    def add(self, stage: str, done: int, total: int) -> tuple[int, int]:
        """Return how many units are done and known, all rounds of the stage together."""
        over, last_done, last_total = self._stages.get(stage, (0, 0, 0))
        if done < last_done or last_done == last_total:
            over += last_total
        self._stages[stage] = over, done, total
        return over + done, over + total


class _TextBar:
    """One line of a terminal, written again and again."""

    def __init__(self, stream: TextIO):
        self._stream, self._last = stream, ""

    def show(self, title: str, share: float) -> None:
        full = round(share * _WIDTH)
        line = f"{title:<26} [{'#' * full}{'.' * (_WIDTH - full)}] {share:4.0%}"
        if line != self._last:
            self._stream.write("\r" + line.ljust(len(self._last)))
            self._stream.flush()
            self._last = line

    def close(self) -> None:
        self._stream.write("\r" + " " * len(self._last) + "\r")
        self._stream.flush()


class _NotebookBar:
    """One output of a notebook cell, updated in place."""

    def __init__(self, display, html):
        self._html, self._last = html, ""
        self._handle = display(html(""), display_id=True)

    def show(self, title: str, share: float) -> None:
        page = f'{title} <progress max="100" value="{share * 100:.0f}"></progress> {share:.0%}'
        if page != self._last:
            self._handle.update(self._html(page))
            self._last = page

    def close(self) -> None:
        self._handle.update(self._html(""))


def _bar() -> _TextBar | _NotebookBar | None:
    # Asked of modules that are loaded already: whoever runs in a notebook has IPython.
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None and hasattr(shell, "kernel"):
        from IPython.display import HTML, display

        return _NotebookBar(display, HTML)
    if sys.stderr is not None and sys.stderr.isatty():
        return _TextBar(sys.stderr)
    return None
