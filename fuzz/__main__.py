"""``make fuzz``: many odd inputs, and nothing but answers or sentences.

Every kind of case has a number that is asked for; a case is made from the seed and its own number
alone, so that ``python fuzz --seed S --kind files --case K`` repeats one that failed. Inputs that
fail are written to ``fuzz-failures/``; once mended, they belong to ``tests/corpus/``.
"""

import argparse
import os
import resource
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import commands
import disks
import files
import kills
import lists
import matrices
import models
import workers

KINDS = {
    "files": (files.check, 20_000),
    "lists": (lists.check, 3_000),
    "models": (models.check, 2_000),
    "matrices": (matrices.check, 2_000),
    "commands": (commands.check, 600),
    "kills": (kills.check, 100),
    "disks": (disks.check, 24),
    "workers": (workers.check, 4),
}
FAILURES = Path("fuzz-failures")


def run_cases(kind, seed, numbers):
    """Run some cases; return what happened to them, counted, and a text for every failure."""
    check = KINDS[kind][0]
    counts, failures = {}, []
    for number in numbers:
        try:
            outcome = check(seed, number)
            counts[outcome] = counts.get(outcome, 0) + 1
        except Exception as error:
            again = f"python fuzz --seed {seed} --kind {kind} --case {number}"
            failures.append(f"{again}\n{traceback.format_exc()}")
            for i, (suffix, content) in enumerate(getattr(error, "inputs", ())):
                FAILURES.mkdir(exist_ok=True)
                (FAILURES / f"{kind}-{seed}-{number}-{i}{suffix}").write_bytes(content)
    return counts, failures


def _cpu_seconds():
    """Return the CPU time of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--case", type=int, help="run this one alone")
    parser.add_argument("--share", type=float, default=1.0, help="of the usual number of cases")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    n_failed = 0
    for kind in [options.kind] if options.kind else KINDS:
        start, cpu = time.perf_counter(), _cpu_seconds()
        n_cases = max(int(KINDS[kind][1] * options.share), 1)
        numbers = range(n_cases) if options.case is None else [options.case]
        counts, failures = {}, []
        with ProcessPoolExecutor(options.jobs) as pool:
            parts = [numbers[i::64] for i in range(64) if numbers[i::64]]
            for found, failed in pool.map(partial(run_cases, kind, options.seed), parts):
                failures += failed
                for outcome, n in found.items():
                    counts[outcome] = counts.get(outcome, 0) + n
        said = ", ".join(f"{n:,} {outcome}" for outcome, n in sorted(counts.items()))
        seconds, cpu = time.perf_counter() - start, _cpu_seconds() - cpu
        times = f"{seconds:.0f} s, {cpu:.0f} s of CPU time"
        print(f"{kind}: {said}; {len(failures)} failed; {times}", flush=True)
        for failure in failures[:5]:
            print(failure, flush=True)
        n_failed += len(failures)
    sys.exit(min(n_failed, 1))


if __name__ == "__main__":
    main()
