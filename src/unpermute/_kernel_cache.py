"""Where numba keeps compiled kernels if it can write neither beside the sources nor at home.

Without a place numba refuses `@njit(cache=True)` at import. A folder of the user's own among the
temporary files is the second best place; with no place at all kernels are compiled in every run.
"""

import os
import stat
import sys

__all__ = ["ensure_kernel_cache"]


def ensure_kernel_cache() -> None:
    """Name a place for compiled kernels if numba would find none.

    Usually it finds one. Modules that are needed otherwise are imported here and not at the top, so
    that ``import unpermute`` and ``--help`` stay fast.
    """
    if os.environ.get("NUMBA_CACHE_DIR") or _is_writable(os.path.dirname(__file__)):
        return
    if _is_writable(_user_cache()):
        return
    import logging
    import tempfile

    logger = logging.getLogger("unpermute")
    folder = _private_folder(os.path.join(tempfile.gettempdir(), f"unpermute-kernels-{_user()}"))
    if folder is None:
        logger.warning("No folder for compiled kernels is writable: they are compiled every time.")
        _compile_every_time()
        return
    logger.info("Compiled kernels are kept in %s.", folder)
    os.environ["NUMBA_CACHE_DIR"] = folder
    if "numba" in sys.modules:  # which has read its settings already
        sys.modules["numba"].config.CACHE_DIR = folder


def _user_cache():
    home = os.path.join(os.path.expanduser("~"), ".cache")
    return os.environ.get("XDG_CACHE_HOME") or home


def _user():
    return os.getuid() if hasattr(os, "getuid") else "user"


def _is_writable(folder):
    """Return whether files can be made in a folder, or in the first one above it that exists."""
    place = os.path.abspath(folder)
    while not os.path.exists(place) and place != os.path.dirname(place):
        place = os.path.dirname(place)
    return os.access(place, os.W_OK | os.X_OK)


def _private_folder(folder):
    """Return a folder nobody else can write to: kernels of others would be run as our own."""
    import contextlib
    import tempfile

    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, mode=0o700)
        status = os.lstat(folder)
        mine = not hasattr(os, "getuid") or status.st_uid == os.getuid()
        closed = stat.S_ISDIR(status.st_mode) and not (os.name == "posix" and status.st_mode & 0o77)
        with tempfile.TemporaryFile(dir=folder):
            return folder if mine and closed else None
    except OSError:
        return None


def _compile_every_time():
    from numba.core.dispatcher import Dispatcher

    Dispatcher.enable_caching = lambda self: None  # type: ignore[method-assign]
