"""How long work reports that it moves: a callback for drawing, `logging` for reading.

The core calls :func:`report`; whoever wants to draw wraps the call in :func:`on_progress`.
Nothing in the core prints.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["on_progress", "report"]

logger = logging.getLogger("unpermute")
_callback: ContextVar[Callable[[str, int, int], None] | None] = ContextVar(
    "unpermute_progress", default=None
)


@contextmanager
def on_progress(callback: Callable[[str, int, int], None]) -> Iterator[None]:
    """Call ``callback(stage, done, total)`` whenever work inside the block moves on.

    Examples
    --------
    >>> from unpermute._progress import on_progress, report
    >>> with on_progress(lambda stage, done, total: print(stage, done, "of", total)):
    ...     report("detect", 3, 10)
    detect 3 of 10
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
