"""Whether anything became slow: small workloads, each beside its recorded time.

``make bench-gate`` runs them. A time is CPU time divided by that of a reference computation (SVD,
matrix products and sorts) which is measured again and again between the workloads, so that it means
the same on any machine, busy or not; best of several. More than 1.5 times what
``benchmarks/gate.json`` holds fails, and is named. ``make bench-gate RECORD=1`` records what became
better, and new workloads; what has to become slower is deleted from the file first.

Counts (vectors and blocks that a stage went through, iterations) do not depend on the machine: if
a time changed, they say whether more work is done or the same work takes longer.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from gate_workloads import WORKLOADS
from threadpoolctl import threadpool_limits

from unpermute._progress import on_progress

RECORDS = Path(__file__).with_name("gate.json")
TOO_SLOW = 1.5
# A workload is measured so often, or less if that takes longer than so many seconds; more often if
# it seems slow: whoever shares the machine makes times longer, never shorter.
ROUNDS, ENOUGH_SECONDS, MOST_ROUNDS = 5, 2.0, 12


@dataclass(frozen=True)
class Measured:
    """A workload's best time in units of the reference, in seconds, and what it counted."""

    ratio: float
    seconds: float
    counts: dict[str, int] = field(default_factory=dict)


def reference() -> None:
    """Compute what everything is compared with: some 50 ms of SVD, products and sorts."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(200, 200))
    for _ in range(2):
        np.linalg.svd(A)
        A = A @ A / 200
        for _ in range(3):
            np.sort(rng.normal(size=100_000))


def measure(work: Callable, record: float | None, unit: Callable = reference) -> Measured:
    """Measure a workload until it is fast enough, or has had all its rounds."""
    counts = _counted(work)  # compiles, too
    times, units = [], [_cpu_time(unit)]
    while True:
        times.append(_cpu_time(work))
        units.append(_cpu_time(unit))
        ratio = min(times) / min(units)
        seems_slow = record is not None and ratio > TOO_SLOW * record
        enough = len(times) >= ROUNDS or sum(times) > ENOUGH_SECONDS
        if len(times) >= MOST_ROUNDS or (enough and not seems_slow):
            return Measured(ratio, min(times), counts)


def is_too_slow(measured: Measured, record: float | None) -> bool:
    """Return whether a workload takes much longer than was recorded."""
    return record is not None and measured.ratio > TOO_SLOW * record


def _cpu_time(work):
    start = time.process_time()
    work()
    return time.process_time() - start


def _counted(work):
    """Run a workload; return how much each of its stages did, and its iterations."""
    counts: dict[str, int] = {}

    def count(stage, done, total):
        if done >= total:
            counts[stage] = counts.get(stage, 0) + total

    with on_progress(count):
        result = work()
    n_iter = getattr(result, "n_iter_", None)
    return counts | ({"iterations": int(np.max(n_iter))} if n_iter is not None else {})


def run(workloads: dict[str, Callable], records: dict[str, float], unit=reference) -> dict:
    """Measure all workloads, print a line for each, and return what was measured by name."""
    measured = {}
    for name, prepare in workloads.items():
        record = records.get(name)
        found = measured[name] = measure(prepare(), record, unit)
        beside = "new" if record is None else f"{found.ratio / record:5.2f} of {record:.2f}"
        slow = "  TOO SLOW" if is_too_slow(found, record) else ""
        counts = ", ".join(f"{stage} {n:,}" for stage, n in found.counts.items())
        print(
            f"{name:34} {found.ratio:8.2f}  {beside:16} {found.seconds:6.3f} s  {counts}{slow}",
            flush=True,
        )
    return measured


def better(records: dict[str, float], measured: dict) -> dict[str, float]:
    """Return the records with what is new or became better."""
    found = {name: round(each.ratio, 3) for name, each in measured.items()}
    return {name: min(ratio, records.get(name, ratio)) for name, ratio in found.items()}


def main():
    parser = argparse.ArgumentParser(prog="make bench-gate", description=__doc__)
    parser.add_argument("names", nargs="*", help="workloads; all if none is named")
    parser.add_argument("--record", action="store_true", help="record what became better")
    options = parser.parse_args()
    if unknown := set(options.names) - set(WORKLOADS):
        parser.error(f"no workload is called {', '.join(sorted(unknown))}")
    records = json.loads(RECORDS.read_text()) if RECORDS.exists() else {}
    chosen = {name: WORKLOADS[name] for name in options.names or WORKLOADS}
    start = time.perf_counter()
    print(f"{'workload':34} {'ratio':>8}  {'of its record':16} {'CPU':>8}  counts")
    with threadpool_limits(1):
        measured = run(chosen, records)
    print(f"{time.perf_counter() - start:.0f} s in all")
    slow = [name for name, found in measured.items() if is_too_slow(found, records.get(name))]
    if options.record:
        RECORDS.write_text(json.dumps(records | better(records, measured), indent=2) + "\n")
    if slow:
        sys.exit(f"Too slow, more than {TOO_SLOW} times the record: {', '.join(slow)}.")


if __name__ == "__main__":
    main()
