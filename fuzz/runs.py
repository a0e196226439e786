"""The command in a process of its own, and what it may leave behind when something goes wrong."""

import functools
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from mutations import FailedError
from tables import csv_of, rows_of

COMMAND = [
    sys.executable, "-m", "unpermute", "repair", "t.csv", "-o", "out.csv", "--changes", "c.csv",
    "--report", "r.html", "--save-model", "m.model",
]  # fmt: skip
_ALLOWED = {0, 2, 128 + signal.SIGINT, 128 + signal.SIGTERM, -signal.SIGKILL}


@functools.cache
def table():
    """Return a table in which two values are exchanged."""
    rows = rows_of(np.random.default_rng(4), 400)
    rows[7][1], rows[7][3] = rows[7][3], rows[7][1]
    return csv_of(rows)


@functools.cache
def expected():
    """Return what the command writes if nobody stops it, and how long that takes when compiled."""
    with tempfile.TemporaryDirectory() as name:
        start(Path(name)).communicate()  # compiles
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        begin = time.perf_counter()
        code = check_words(start(folder), "nothing")
        seconds = time.perf_counter() - begin
        if code != 0:
            raise FailedError(f"without a fault it ends with {code}")
        (folder / "t.csv").unlink()
        return {path.name: path.read_bytes() for path in folder.iterdir()}, seconds


def start(folder, command=COMMAND, before=None):
    """Start the command in a folder; `before` is called in its process first."""
    (folder / "t.csv").write_bytes(table())
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        preexec_fn=before,
    )  # fmt: skip


def wait_until_it_listens(process):
    """Wait until signals are heard; while the interpreter itself starts nobody of ours can."""
    status = Path(f"/proc/{process.pid}/status")
    while process.poll() is None:
        caught = re.search(r"SigCgt:\s*([0-9a-f]+)", status.read_text())
        if caught and int(caught[1], 16) >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.01)


def check_words(process, fault):
    """Return the exit code of a run; it may say one sentence, and only if something is wrong."""
    try:
        said = process.communicate(timeout=120)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        raise FailedError(f"{fault}: it does not end") from None
    n_lines = 1 if process.returncode == 2 else 0
    if process.returncode not in _ALLOWED or len(said.splitlines()) != n_lines:
        raise FailedError(f"{fault}: exit code {process.returncode}: {said}")
    return process.returncode


def check_end(process, folder, fault):
    """Return the exit code of a run; whatever it left in a folder must be whole."""
    check_words(process, fault)
    whole = expected()[0] | {"t.csv": table()}
    for path in folder.iterdir():
        if path.suffix == ".part":
            if fault != signal.SIGKILL:
                raise FailedError(f"{fault}: {path.name} was left")
        # The report has the time in it.
        elif path.name != "r.html" and path.read_bytes() != whole[path.name]:
            raise FailedError(f"{fault}: {path.name} is not what it should be")
    return process.returncode
