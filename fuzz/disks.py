"""Runs that may write so much and no more: files that may not grow, and a tiny disk."""

import functools
import resource
import signal
import subprocess
import tempfile
from pathlib import Path

from mutations import rng_of
from runs import COMMAND, check_end, start

# A disk in a name space of its own is gone with the process: what is on it is copied first.
_ON_A_TINY_DISK = """
mkdir disk seen && mount -t tmpfs -o size={size}k none disk && cp t.csv disk && cd disk || exit 99
"$@"
code=$?
cd .. && cp -a disk/. seen
exit $code
"""
_OWN_NAMES = ["unshare", "--mount", "--map-root-user", "sh", "-c"]


def check(seed, number):
    rng = rng_of(seed, 7, number)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if number % 2:
            if not _may_mount():
                return "skipped (no file system may be mounted here)"
            script = _ON_A_TINY_DISK.format(size=4 * int(rng.integers(8, 200)))
            process = start(folder, [*_OWN_NAMES, script, "sh", *COMMAND])
            process.wait()
            code = check_end(process, folder / "seen", "a tiny disk")
        else:
            limit = int(rng.integers(1, 60_000))
            process = start(folder, before=functools.partial(_limit_files, limit))
            code = check_end(process, folder, "files that may not grow")
    return "finished" if code == 0 else "stopped"


@functools.cache
def _may_mount():
    with tempfile.TemporaryDirectory() as folder:
        trial = [*_OWN_NAMES, 'mount -t tmpfs none "$1"', "sh", folder]
        try:
            return subprocess.run(trial, capture_output=True, check=False).returncode == 0
        except FileNotFoundError:
            return False


def _limit_files(limit):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
