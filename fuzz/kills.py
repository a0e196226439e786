"""Runs that are interrupted, ended or killed at a random time."""

import contextlib
import os
import signal
import subprocess
import tempfile
from pathlib import Path

from mutations import rng_of
from runs import check_end, expected, start, wait_until_it_listens

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]


def check(seed, number):
    rng = rng_of(seed, 6, number)
    _, seconds = expected()
    sent = SIGNALS[number % 3]
    at = rng.uniform(0, seconds)
    while True:
        with tempfile.TemporaryDirectory() as name:
            process = start(Path(name))
            wait_until_it_listens(process)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(at)
            alive = process.poll() is None
            if alive:
                os.kill(process.pid, sent)
            code = check_end(process, Path(name), sent)
        if alive:
            return "finished" if code == 0 else "stopped"
        at /= 2  # it had ended before
