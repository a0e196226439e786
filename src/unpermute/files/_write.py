"""Output files that are either all there, complete, or not touched at all."""

import codecs
import contextlib
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import BinaryIO

from unpermute._shown import shown
from unpermute._unfinished import UNFINISHED
from unpermute.files._source import TableError

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

__all__ = ["STDOUT", "OutputFiles"]

STDOUT = "-"


class OutputFiles:
    """Files to be written together: checked early, written aside, put in place at the end.

    Leaving the block by an exception, an interrupt too, removes whatever was written aside.

    Parameters
    ----------
    force : bool
        Whether existing files may be replaced.
    inputs : iterable of str
        Files that are being read; replacing one needs `force` as well, and is called by its name.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from unpermute.files import OutputFiles
    >>> with tempfile.TemporaryDirectory() as folder, OutputFiles(force=False) as outputs:
    ...     path = str(Path(folder, "a.csv"))
    ...     outputs.plan(path)
    ...     outputs.write(path, [b"x,y", b"1,2"])
    ...     before = Path(path).exists()
    ...     outputs.commit()
    ...     (before, Path(path).read_bytes())
    (False, b'x,y1,2')
    """

    def __init__(self, *, force: bool, inputs: Iterable[str] = ()):
        self._force = force
        self._inputs = {os.path.realpath(path) for path in inputs if path != STDOUT}
        self._planned: set[str] = set()
        # Files written aside, open until they are in place, and where that is.
        self._staged: list[tuple[BinaryIO, str]] = []

    def __enter__(self) -> "OutputFiles":
        return self

    def __exit__(self, *_) -> None:
        for aside, _target in self._staged:
            # On a full disk closing fails too, because that writes what is left.
            with contextlib.suppress(OSError):
                os.unlink(aside.name)
            with contextlib.suppress(OSError):
                aside.close()
            UNFINISHED.discard(aside.name)
        self._staged.clear()

    def plan(self, path: str) -> None:
        """Refuse a file that could not be written, before any work is done for it."""
        target = _target(path)
        if target in self._planned:
            raise TableError(f"{path} is named for two outputs; give each a file of its own.")
        self._planned.add(target)
        if path == STDOUT or _is_device(target):
            return
        if os.path.isdir(target):
            raise TableError(f"{path} is a directory, not a file to write to.")
        if os.path.exists(target) and not self._force:
            what = "is the input itself" if target in self._inputs else "exists already"
            raise TableError(f"{path} {what}; --force replaces it.")
        folder = os.path.dirname(target)
        if not os.path.isdir(folder):
            raise TableError(f"{path} cannot be written: there is no directory {folder}.")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise TableError(f"{path} cannot be written: no permission to write in {folder}.")

    def write(self, path: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Write a file aside; to standard output, everything goes out at once."""
        if path == STDOUT:
            for piece in _harmless(pieces) if sys.stdout.isatty() else pieces:
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            return
        target = _target(path)
        try:
            if _is_device(target):
                with open(target, "wb") as file:
                    file.writelines(pieces)
                return
            self._write_aside(target, pieces)
        except OSError as error:
            raise TableError(f"{path} cannot be written: {error.strerror}.") from error

    def commit(self) -> None:
        """Put everything that was written aside in its place."""
        while self._staged:
            aside, target = self._staged[0]
            try:
                aside.close()
                os.replace(aside.name, target)
            except OSError as error:
                raise TableError(f"{target} cannot be written: {error.strerror}.") from error
            UNFINISHED.discard(aside.name)
            del self._staged[0]

    def _write_aside(self, target, pieces):
        path = Path(target)
        _remove_remains(path)
        aside = str(path.with_name(f"{_prefix(path)}{secrets.token_hex(6)}.part"))
        UNFINISHED.add(aside)
        # "x" creates the file with the permissions that new files get here.
        file = open(aside, "xb")  # noqa: SIM115
        self._staged.append((file, target))
        with contextlib.suppress(OSError):  # not every file system knows locks
            _lock(file)
        file.writelines(pieces)
        file.flush()
        os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(target, aside)


def _harmless(pieces):
    """Yield pieces of a file as a terminal may show them: control characters as codes."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for piece in pieces:
        cells = re.split(r"(\t|\r\n)", decoder.decode(bytes(piece)))
        yield "".join(text if k % 2 else shown(text) for k, text in enumerate(cells)).encode()


def _prefix(path):
    # A name may have 255 bytes, and a character up to four.
    return f".{path.name[:50]}."


def _remove_remains(path):
    """Remove unfinished files of a killed run; a run that is still writing holds a lock."""
    for remains in path.parent.iterdir() if fcntl is not None else ():
        name = remains.name.removeprefix(_prefix(path))
        if name != remains.name and re.fullmatch(r"[0-9a-f]{12}\.part", name):
            with contextlib.suppress(OSError), open(remains, "rb") as file:
                _lock(file)
                remains.unlink()


def _lock(file):
    """Lock a file until it is closed, or raise OSError if another process has done so."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _target(path):
    # A link stays a link: the file it leads to is replaced.
    return path if path == STDOUT else os.path.realpath(path)


def _is_device(target):
    try:
        mode = os.stat(target).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
