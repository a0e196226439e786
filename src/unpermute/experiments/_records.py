"""The tidy CSV: written as settings finish, read again by `--resume`, figures and the page."""

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from unpermute.experiments._experiment import Record

__all__ = ["append_records", "collect", "pick", "read_records", "write_records"]


def read_records(path: Path) -> list[Record]:
    """Read what was saved; of a line that an interruption cut short, the whole draw is dropped."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as stream:
        text = stream.read()
    whole = text[: text.rfind("\n") + 1]
    rows = list(csv.reader(io.StringIO(whole)))[1:]
    records = [_parse(row) for row in rows if len(row) == len(Record._fields)]
    rest = text[len(whole) :]
    if rest and records:
        last = records[-1].setting, records[-1].seed
        records = [record for record in records if (record.setting, record.seed) != last]
    return records


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Start the file anew with what is kept; never leaves a half-written one."""
    new = path.with_suffix(".new")
    new.write_text(_lines([Record._fields, *records]), encoding="utf-8", newline="")
    new.replace(path)


def append_records(path: Path, records: Iterable[Record]) -> None:
    """Add the records of one draw, in one piece."""
    with path.open("a", newline="", encoding="utf-8") as stream:
        stream.write(_lines(records))


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


def _lines(rows) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(rows)
    return stream.getvalue()


def _parse(row: list[str]) -> Record:
    setting, method, seed, metric, value, seconds, version = row
    return Record(setting, method, int(seed), metric, float(value), float(seconds), version)
