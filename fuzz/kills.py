"""Runs that are interrupted, ended or killed at a random time."""

import os
import signal
import tempfile
import time
from pathlib import Path

from mutations import rng_of
from runs import check_end, expected, start, wait_until_it_listens

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]


def check(seed, number):
    rng = rng_of(seed, 6, number)
    _, seconds = expected()
    sent = SIGNALS[number % 3]
    with tempfile.TemporaryDirectory() as name:
        process = start(Path(name))
        wait_until_it_listens(process)
        time.sleep(rng.uniform(0, seconds))
        os.kill(process.pid, sent)
        code = check_end(process, Path(name), sent)
    return "finished" if code == 0 else "stopped"
