"""Tables larger than memory: CSV and Parquet files that are judged and repaired piece by piece.

``--part csv``: a CSV of a million records of 30 columns, repaired by the command on two workers.
``--part parquet``: 20 files of a million records each, repaired on two workers, one of which is
killed halfway; and again after the command itself was killed. Both outputs are compared with that
of a run that nothing disturbed (``--disturb`` leaves the undisturbed run and its time alone).
``--part parts``: where the time of a piece goes. Prints CPU and wall time and the peak memory of
all processes of a run. ``--records`` makes everything smaller.
"""

import argparse
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import polars as pl

N_COLUMNS, N_FACTORS = 30, 6
# Share of the records of which two values are exchanged, and records that are drawn at once.
DAMAGED, STEP = 0.02, 100_000
TICKS = os.sysconf("SC_CLK_TCK")


def draw(rng, loadings, n):
    """Draw records of numbers that share some factors; some of them have two values exchanged."""
    X = rng.normal(size=(n, N_FACTORS)) @ loadings
    X += 0.05 * np.abs(loadings).sum(axis=0) * rng.normal(size=X.shape)
    digits = 3 - np.floor(np.log10(X.std(axis=0))).astype(int)
    X = np.column_stack([np.round(column, d) for column, d in zip(X.T, digits, strict=True)])
    rows = np.flatnonzero(rng.random(n) < DAMAGED)
    places = rng.random((len(rows), N_COLUMNS)).argpartition(1, axis=1)[:, :2]
    X[rows[:, None], places] = X[rows[:, None], places[:, ::-1]]
    return pl.DataFrame(X, schema=[f"c{j}" for j in range(N_COLUMNS)])


def batches(n_records, seed=0):
    """Yield the records of a table."""
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(N_FACTORS, N_COLUMNS)) * rng.lognormal(0, 2, N_COLUMNS)
    for start in range(0, n_records, STEP):
        yield draw(rng, loadings, min(STEP, n_records - start))


def write_csv(path, n_records):
    """Write a table as one CSV file."""
    with open(path, "wb") as file:
        for k, frame in enumerate(batches(n_records)):
            frame.write_csv(file, include_header=k == 0)


def write_parquet(folder, n_records, n_files):
    """Write a table as Parquet files."""
    folder.mkdir()
    frames, each, k = [], n_records // n_files, 0
    for frame in batches(n_records):
        frames.append(frame)
        while sum(map(len, frames)) >= each:
            together = pl.concat(frames)
            together[:each].write_parquet(folder / f"part{k:03d}.parquet")
            frames, k = [together[each:]] if len(together) > each else [], k + 1


class Watch(threading.Thread):
    """Measures the memory and the CPU time of a process and of all that it has started."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.peak, self.cpu, self._ended = pid, 0.0, {}, threading.Event()
        self.start()

    def run(self):
        """Look every half second."""
        while not self._ended.wait(0.5):
            pids = descendants(self.pid)
            self.peak = max(self.peak, sum(map(private_memory, pids)))
            for pid in pids:
                self.cpu[pid] = max(cpu_time(pid), self.cpu.get(pid, 0.0))

    def stop(self):
        """Return peak memory in GB and CPU seconds."""
        self._ended.set()
        self.join()
        return self.peak / 1e9, sum(self.cpu.values())


def descendants(pid):
    """Return a process and all processes below it."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:
            continue
        found += [each for child in children for each in descendants(int(child))]
    return found


def private_memory(pid):
    """Return the resident bytes of a process, shared pages by their share."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return 1024 * int(line.split()[1])
    except OSError:
        pass
    return 0


def cpu_time(pid):
    """Return the CPU seconds of a process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def run(name, words, *, disturb=None):
    """Run the command, print what it took, and return its exit code."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "unpermute", *map(str, words)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    watch = Watch(running.pid)
    if disturb is not None:
        disturb(running)
    said, wrong = running.communicate()
    seconds = time.perf_counter() - begin
    peak, cpu = watch.stop()
    first = said.partition("\n\n")[0].replace("\n", " ") or wrong.strip()[-300:]
    print(f"{name}: {seconds:.1f} s wall, {cpu:.0f} s CPU, {peak:.2f} GB at most", flush=True)
    print(f"    exit {running.returncode}: {first}", flush=True)
    return running.returncode


def when_half_done(output, n_pieces, then):
    """Return what waits for half of the pieces of a run, and then does something to it."""

    def disturb(running):
        while len(list(output.glob("_changes/*.parquet"))) < n_pieces // 2:
            if running.poll() is not None:
                return
            time.sleep(0.05)
        then(running)

    return disturb


def kill_worker(running):
    """Kill the process below the command that has used most CPU time: a worker."""
    pids = [pid for pid in descendants(running.pid) if pid != running.pid]
    os.kill(max(pids, key=cpu_time), signal.SIGKILL)
    print("    a worker was killed", flush=True)


def kill_command(running):
    """Kill the command itself."""
    running.send_signal(signal.SIGKILL)
    print("    the command was killed", flush=True)


def digest(folder):
    """Return what tells the content of an output folder."""
    found = hashlib.sha256()
    for path in sorted(Path(folder).rglob("*.parquet")):
        found.update(str(path.relative_to(folder)).encode())
        with open(path, "rb") as file:
            found.update(hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()


def csv_part(folder, options):
    """Repair one CSV file."""
    n = options.records or 1_000_000
    path = folder / "large.csv"
    write_csv(path, n)
    print(f"csv: {n:,} x {N_COLUMNS}, {path.stat().st_size / 1e6:.0f} MB; asked 40 s and 2 GB")
    words = ["repair", path, "-o", folder / "out.csv", "--force"]
    run("csv, two workers", [*words, "--workers", 2])
    run("csv, two threads", [*words, "--sample-size", 10_000, "--jobs", 2])


def parquet_part(folder, options):
    """Repair many Parquet files, undisturbed and disturbed."""
    n, n_files = options.records or 20_000_000, options.files
    write_parquet(folder / "in", n, n_files)
    size = sum(path.stat().st_size for path in (folder / "in").iterdir()) / 1e6
    print(f"parquet: {n:,} x {N_COLUMNS}, {n_files} files, {size:,.0f} MB; asked 600 s and 3 GB")
    words = ["repair", folder / "in", "--workers", 2, "-o"]
    run("parquet, undisturbed", [*words, folder / "calm"])
    if options.calm:
        return
    halfway = when_half_done(folder / "worker", n_files, kill_worker)
    run("parquet, a worker killed", [*words, folder / "worker"], disturb=halfway)
    halfway = when_half_done(folder / "command", n_files, kill_command)
    run("parquet, killed", [*words, folder / "command"], disturb=halfway)
    run("parquet, resumed", [*words, folder / "command"])
    same = {digest(folder / name) for name in ("calm", "worker", "command")}
    print(f"the three outputs are {'the same' if len(same) == 1 else 'DIFFERENT'}")


def parts_part(folder, options):
    """Profile the work on one piece, in this process."""
    import cProfile
    import pstats

    from unpermute import large

    n = options.records or 100_000
    write_parquet(folder / "in", n, 1)
    model = large.scan_table(folder / "in", sample_size=5_000).model
    profile = cProfile.Profile(time.process_time)
    begin = time.process_time()
    profile.enable()
    large.repair_table(folder / "in", folder / "out", model=model, sample_size=5_000)
    profile.disable()
    print(
        f"parts: {1e6 * (time.process_time() - begin) / n:.0f} µs CPU a record, learning included"
    )
    pstats.Stats(profile).sort_stats("cumtime").print_stats("unpermute", 40)


def main():
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--part", nargs="+", choices=["csv", "parquet", "parts"],
                        default=["csv", "parquet"])  # fmt: skip
    parser.add_argument("--records", type=int, help="records of the table")
    parser.add_argument("--files", type=int, default=20, help="files of --part parquet")
    parser.add_argument("--calm", action="store_true", help="kill nobody")
    options = parser.parse_args()
    for part in options.part:
        with tempfile.TemporaryDirectory() as folder:
            {"csv": csv_part, "parquet": parquet_part, "parts": parts_part}[part](
                Path(folder), options
            )


if __name__ == "__main__":
    main()
