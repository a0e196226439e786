"""Temporary files that are being written, so that a signal can remove them."""

import contextlib
import os

__all__ = ["UNFINISHED", "remove_unfinished"]

# Their paths: added before a file is created, and taken out once it is in place or removed.
UNFINISHED: set[str] = set()


def remove_unfinished() -> None:
    """Remove all unfinished files.

    Examples
    --------
    >>> import os, tempfile
    >>> from unpermute._unfinished import UNFINISHED, remove_unfinished
    >>> handle, path = tempfile.mkstemp()
    >>> UNFINISHED.add(path)
    >>> remove_unfinished()
    >>> os.path.exists(path), path in UNFINISHED
    (False, False)
    """
    for path in list(UNFINISHED):
        with contextlib.suppress(OSError):
            os.unlink(path)
        UNFINISHED.discard(path)
