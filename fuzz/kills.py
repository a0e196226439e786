"""Runs that are killed, or may write so much and no more: nothing half-written under its name."""

import functools
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from mutations import FailedError, rng_of
from tables import csv_of, rows_of

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]
ALLOWED = {0, 2, 130, 143, -signal.SIGKILL}
OUTPUTS = ("out.csv", "c.csv", "r.html", "m.model")


@functools.cache
def _table():
    rows = rows_of(np.random.default_rng(4), 400)
    rows[7][1], rows[7][3] = rows[7][3], rows[7][1]
    return csv_of(rows)


@functools.cache
def _expected():
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        _start(Path(folder)).wait()
        seconds = time.perf_counter() - start
        return {name: (Path(folder) / name).read_bytes() for name in OUTPUTS}, seconds


def check(seed, number):
    rng = rng_of(seed, 6, number)
    expected, seconds = _expected()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if number % 5 == 4:  # a file may grow to a random size
            limit = int(rng.integers(1, 60_000))
            process = _start(folder, limit)
            code, sent = _wait(process), "limit"
        else:
            process = _start(folder)
            _wait_for_handler(process)
            time.sleep(rng.uniform(0, 1.1 * seconds))
            sent = SIGNALS[number % 3]
            os.kill(process.pid, sent)
            code = _wait(process)
        _check(folder, code, sent, process.stderr.read(), expected)
    return "finished" if code == 0 else "stopped"


def _start(folder, limit=None):
    (folder / "t.csv").write_bytes(_table())
    words = ["repair", "t.csv", "-o", "out.csv", "--changes", "c.csv", "--report", "r.html"]

    def before():
        if limit is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.Popen(
        [sys.executable, "-m", "unpermute", *words, "--save-model", "m.model"], cwd=folder,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=before,
    )  # fmt: skip


def _wait_for_handler(process):
    """Wait until the command listens; while the interpreter itself starts nobody of ours can."""
    status = Path(f"/proc/{process.pid}/status")
    while process.poll() is None:
        caught = re.search(r"SigCgt:\s*([0-9a-f]+)", status.read_text())
        if caught and int(caught[1], 16) >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.01)


def _wait(process):
    try:
        return process.wait(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        raise FailedError("it does not end") from None


def _check(folder, code, sent, said, expected):
    if code not in ALLOWED:
        raise FailedError(f"{sent}: exit code {code}: {said}")
    if "Traceback" in said:
        raise FailedError(f"{sent}: {said}")
    for path in folder.iterdir():
        if path.suffix == ".part":
            if sent != signal.SIGKILL:
                raise FailedError(f"{sent}: {path.name} was left")
        elif path.name == "t.csv":
            if path.read_bytes() != _table():
                raise FailedError("the table itself was changed")
        # The report has the time in it.
        elif path.name != "r.html" and path.read_bytes() != expected[path.name]:
            raise FailedError(f"{sent}: {path.name} is half a file")
