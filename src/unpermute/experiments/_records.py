"""The results as CSV, one line per fit: saved as draws finish, read by `--resume` and the page.

The first columns say where a line comes from, each of the others holds one metric. Eight digits are
more than tables and figures show.
"""

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from unpermute.experiments._experiment import Record

__all__ = ["append_records", "collect", "pick", "read_records", "write_records"]

_ORIGIN = ("setting", "method", "seed", "seconds", "version")


def read_records(path: Path) -> list[Record]:
    """Read the saved records; if the last line was cut short, its whole draw is dropped."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as stream:
        text = stream.read()
    complete = text[: text.rfind("\n") + 1]
    header, *rows = csv.reader(io.StringIO(complete))
    metrics = header[len(_ORIGIN) :]
    records = [each for row in rows if len(row) == len(header) for each in _parse(row, metrics)]
    if len(complete) < len(text) and records:
        last = records[-1].setting, records[-1].seed
        records = [record for record in records if (record.setting, record.seed) != last]
    return records


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Write a new file in one step: an interruption leaves the old one."""
    records = list(records)
    metrics = list(dict.fromkeys(record.metric for record in records))
    new = path.with_suffix(".new")
    rows = [(*_ORIGIN, *metrics), *_rows(records, metrics)]
    new.write_text(_lines(rows), encoding="utf-8", newline="")
    new.replace(path)


def append_records(path: Path, records: Iterable[Record]) -> None:
    """Add the records of one draw, in one piece."""
    records = list(records)
    with path.open(newline="", encoding="utf-8") as stream:
        metrics = next(csv.reader(stream))[len(_ORIGIN) :]
    if not {record.metric for record in records} <= set(metrics):
        write_records(path, [*read_records(path), *records])
        return
    with path.open("a", newline="", encoding="utf-8") as stream:
        stream.write(_lines(_rows(records, metrics)))


def pick(records: Iterable[Record], method: str, metric: str) -> list[Record]:
    """Return the records of one method and metric."""
    return [record for record in records if (record.method, record.metric) == (method, metric)]


def collect(
    records: Iterable[Record],
    method: str,
    metric: str,
    key: Callable[[dict], object],
    average: Callable[[Sequence[float]], float] = np.mean,
) -> dict:
    """Average the values of a method and metric over all draws with the same key."""
    groups: dict = {}
    for record in pick(records, method, metric):
        groups.setdefault(key(record.parsed), []).append(record.value)
    return {name: float(average(values)) for name, values in groups.items()}


def _rows(records: Iterable[Record], metrics: Sequence[str]) -> list[list[str]]:
    """Return one row per fit; metrics that it does not have stay empty."""
    fits: dict = {}
    for record in records:
        origin = (record.setting, record.method, record.seed, f"{record.seconds:.8g}")
        fits.setdefault((*origin, record.version), {})[record.metric] = f"{record.value:.8g}"
    return [[*origin, *(fit.get(name, "") for name in metrics)] for origin, fit in fits.items()]


def _lines(rows) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(rows)
    return stream.getvalue()


def _parse(row: list[str], metrics: list[str]) -> list[Record]:
    setting, method, seed, seconds, version = row[: len(_ORIGIN)]
    return [
        Record(setting, method, int(seed), metric, float(value), float(seconds), version)
        for metric, value in zip(metrics, row[len(_ORIGIN) :], strict=True)
        if value
    ]
