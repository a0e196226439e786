"""Whether anything became slow: small workloads, each beside its recorded time.

``make bench-gate`` runs them. A time is CPU time divided by that of a reference computation (SVD,
matrix products and sorts) which is measured before and after every run, so that it means the same
on any machine, busy or not; best of several. More than 1.5 times what
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
# it seems slow, because others on the machine make times longer, and the first run may compile.
ROUNDS, ENOUGH_SECONDS = 5, 1.0
MOST_ROUNDS, MOST_SECONDS = 12, 20.0


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
    times: list[float] = []
    units, counts = [_cpu_time(unit)], {}
    while True:
        counts = _counted(work, times)
        units.append(_cpu_time(unit))
        ratio = _best_ratio(np.array(times), np.array(units))
        seems_slow = record is not None and ratio > TOO_SLOW * record
        # A new workload is run twice: the first run may have compiled.
        long = sum(times) > ENOUGH_SECONDS and len(times) > (record is None)
        all_tried = len(times) >= MOST_ROUNDS or (len(times) > 2 and sum(times) > MOST_SECONDS)
        if all_tried or (not seems_slow and (long or len(times) >= ROUNDS)):
            return Measured(ratio, min(times), counts)


def _best_ratio(times, units):
    """Time in units of the reference: of the best of each, or beside each other, if that is less.

    Whoever shares the machine for a while slows a long workload down as a whole, but not the best
    of many short references; those that ran just before and after it were slowed down as well.
    """
    beside = (units[:-1] + units[1:]) / 2
    return min(times.min() / units.min(), np.min(times / beside))


def is_too_slow(measured: Measured, record: float | None) -> bool:
    """Return whether a workload takes much longer than was recorded."""
    return record is not None and measured.ratio > TOO_SLOW * record


def _cpu_time(work):
    start = time.process_time()
    work()
    return time.process_time() - start


def _counted(work, times):
    """Run a workload and add its time; return what its stages did, and its iterations."""
    counts: dict[str, int] = {}

    def count(stage, done, total):
        if done >= total:
            counts[stage] = counts.get(stage, 0) + total

    start = time.process_time()
    with on_progress(count):
        result = work()
    times.append(time.process_time() - start)
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


def run_twice(workloads: dict[str, Callable], records: dict[str, float], unit=reference) -> dict:
    """Measure all workloads, and once more those that are too slow: others may have disturbed."""
    measured = run(workloads, records, unit)
    slow = too_slow(measured, records)
    again = run({name: workloads[name] for name in slow}, records, unit)
    return measured | {
        name: min(measured[name], found, key=lambda each: each.ratio)
        for name, found in again.items()
    }


def too_slow(measured: dict[str, Measured], records: dict[str, float]) -> list[str]:
    """Return the names of the workloads that take much longer than was recorded."""
    return [name for name, found in measured.items() if is_too_slow(found, records.get(name))]


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
        measured = run_twice(chosen, records)
    print(f"{time.perf_counter() - start:.0f} s in all")
    slow = too_slow(measured, records)
    if options.record:
        RECORDS.write_text(json.dumps(records | better(records, measured), indent=2) + "\n")
    if slow:
        sys.exit(f"Too slow, more than {TOO_SLOW} times the record: {', '.join(slow)}.")


if __name__ == "__main__":
    main()
