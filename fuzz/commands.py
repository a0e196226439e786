"""The command in this process, on mutated files with odd options: an exit code and a sentence."""

import functools
import json
import tempfile
from pathlib import Path

import numpy as np
from mutations import FailedError, mutated, rng_of
from tables import base_files, csv_of, rows_of
from typer.testing import CliRunner

from unpermute.cli._app import app

OPTIONS = [
    ["--id", "id"], ["--columns", "word,amount"], ["--exclude", "day"], ["--decimal", ","],
    ["--encoding", "latin-1"], ["--encoding", "utf-16"], ["--no-header"], ["--skip-lines", "1"],
    ["--delimiter", ";"], ["--na", "red"], ["--min-confidence", "0"], ["--max-moves", "2"],
    ["--vectors", "columns"], ["--groups", "word"], ["--kind", "count=text"], ["--format", "csv"],
    ["--format", "json"], ["--fail-on-found"], ["--exchange", "word,day:2-4"], ["--sheet", "1"],
    ["--id", "nobody"], ["--jobs", "0"], ["--seed", "7"],
]  # fmt: skip


def check(seed, number):
    rng = rng_of(seed, 5, number)
    bases = base_files()
    suffix, raw = bases[rng.integers(len(bases))]
    # Few records are not judged: half of the tables have more.
    if rng.random() < 0.5:
        suffix, raw = ".csv", _damaged()
    raw = mutated(raw, rng, 2) if rng.random() < 0.8 else raw
    options = [
        word for k in rng.permutation(len(OPTIONS))[: rng.integers(3)] for word in OPTIONS[k]
    ]
    try:
        with tempfile.TemporaryDirectory() as folder:
            return _run(Path(folder), suffix, raw, options)
    except Exception as error:
        error.inputs = [(suffix, raw), (".options.txt", " ".join(options).encode())]
        raise


@functools.cache
def _damaged():
    rows = rows_of(np.random.default_rng(3), 60)
    for row in rows[10::20]:
        row[1], row[2] = row[2], row[1]
    return csv_of(rows)


def _run(folder, suffix, raw, options):
    path, output = folder / f"t{suffix}", folder / f"out{suffix}"
    path.write_bytes(raw)
    words = ["repair", str(path), "-o", str(output), "--changes", str(folder / "c.csv"), "--json"]
    one = _invoke([*words, *options], options)
    if one.exit_code == 2:
        if {child.name for child in folder.iterdir()} != {path.name}:
            raise FailedError("a refused run left files behind")
        return "refused"
    written = {child.name: child.read_bytes() for child in folder.iterdir()}
    two = _invoke([*words, *options, "--jobs", "2", "--force"], options)
    again = {child.name: child.read_bytes() for child in folder.iterdir()}
    if again != written or _without_jobs(one.stdout) != _without_jobs(two.stdout):
        raise FailedError("two jobs give another answer than one")
    _undo(folder, path, output, suffix, options)
    return "repaired"


def _undo(folder, path, output, suffix, options):
    from files import content

    reading = {"--decimal", "--encoding", "--no-header", "--skip-lines", "--delimiter", "--na",
               "--format", "--sheet"}  # fmt: skip
    kept, k = [], 0
    while k < len(options):
        size = 1 if options[k] in ("--no-header", "--fail-on-found") else 2
        kept += options[k : k + size] if options[k] in reading else []
        k += size
    back = folder / f"back{suffix}"
    words = ["apply", str(output), str(folder / "c.csv"), "--undo", "-o", str(back), *kept]
    result = CliRunner().invoke(app, words)
    if result.exit_code != 0:
        raise FailedError(f"undo was refused: {result.stderr}")
    if content(back.read_bytes(), suffix) != content(path.read_bytes(), suffix):
        raise FailedError("undo does not restore the file")


def _invoke(words, options):
    result = CliRunner().invoke(app, words, prog_name="unpermute")
    allowed = (0, 1, 2) if "--fail-on-found" in options else (0, 2)
    if result.exit_code not in allowed or "Traceback" in result.stderr:
        raise FailedError(f"exit code {result.exit_code}: {result.stderr[-3000:]}")
    return result


def _without_jobs(text):
    found = json.loads(text)
    found.get("summary", {}).pop("seconds", None)
    return found
