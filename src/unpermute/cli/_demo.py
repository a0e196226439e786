"""``unpermute demo``: damage a real table, repair it without the truth, then compare with it."""

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table
from rich.text import Text
from sklearn.datasets import load_breast_cancer

from unpermute import __version__
from unpermute.cli._errors import one_sentence
from unpermute.cli._progress_bars import draw_progress
from unpermute.files import OutputFiles, TableError
from unpermute.report import render_report
from unpermute.table import TableResult, repair

__all__ = ["REPORT", "DamagedTable", "DemoSummary", "damage", "run", "summarise"]

REPORT = "demo-report.html"
# Last line of the report: only a file that ends with it is overwritten.
_MARK = b"<!-- written by unpermute demo -->\n"

_DAMAGED = 0.15
_PERMUTED = 0.2
_MOST_FIELDS = 4


@dataclass(frozen=True)
class DamagedTable:
    """A damaged table and the truth.

    Attributes
    ----------
    names : list of str
        The columns.
    truth, values : ndarray of shape (n, p)
        Values before and after the damage.
    kind : ndarray of str of shape (n,)
        What happened to a record, in the words of the repair; "" where nothing did.
    """

    names: list[str]
    truth: np.ndarray
    values: np.ndarray
    kind: np.ndarray


@dataclass(frozen=True)
class DemoSummary:
    """How the repair compares with the truth; a cell is wrong if its value differs from it."""

    n_records: int
    n_damaged: int
    n_found: int
    n_false_alarms: int
    n_changed_for_nothing: int
    n_uncertain: int
    n_named: int
    n_cells: int
    n_wrong_cells_before: int
    n_wrong_cells_after: int
    seconds: float


def run(*, seed: int, as_json: bool) -> None:
    """Run the demonstration, write its report and print what came out."""
    with one_sentence(), OutputFiles(force=True) as files:
        _refuse_to_replace(Path(REPORT))
        files.plan(REPORT)
        table = damage(seed)
        with draw_progress():
            start = time.perf_counter()
            result = repair(pl.DataFrame(table.values, schema=table.names), random_state=seed)
            seconds = time.perf_counter() - start
        summary = summarise(table, result, seconds)
        files.write(REPORT, [_report(result, seed), _MARK])
        files.commit()
    if as_json:
        about = {"version": __version__, "seed": seed, "report": REPORT}
        print(json.dumps(about | asdict(summary), indent=2))
    else:
        _show(Console(highlight=False), table, result, summary)


def damage(seed: int) -> DamagedTable:
    """Return the breast cancer table with some of its records damaged, each in one of three ways.

    Examples
    --------
    >>> from unpermute.cli._demo import damage
    >>> table = damage(0)
    >>> int((table.values != table.truth).any(axis=1).sum()), table.truth.shape
    (85, (569, 30))
    """
    data = load_breast_cancer()
    rng = np.random.default_rng(seed)
    values, kind = data.data.copy(), np.full(len(data.data), "", dtype=object)
    rows = np.sort(rng.choice(len(values), round(_DAMAGED * len(values)), replace=False))
    for row, way in zip(rows, rng.integers(len(_WAYS), size=len(rows)), strict=True):
        kind[row], move = _WAYS[way]
        # A move between equal values cannot be seen.
        while np.array_equal(values[row], data.data[row]):
            values[row] = data.data[row][move(values.shape[1], rng)]
    return DamagedTable([str(name) for name in data.feature_names], data.data, values, kind)


def summarise(table: DamagedTable, result: TableResult, seconds: float) -> DemoSummary:
    """Compare a result with the truth."""
    fixed = result.frame.to_numpy()
    damaged = table.kind != ""
    changed = (fixed != table.values).any(axis=1)
    found, named = np.zeros(len(damaged), dtype=bool), np.zeros(len(damaged), dtype=bool)
    rows = result.vectors["row"].to_numpy()
    found[rows] = True
    named[rows] = result.vectors["cause"].to_numpy() == table.kind[rows]
    return DemoSummary(
        n_records=len(damaged),
        n_damaged=int(damaged.sum()),
        n_found=int((found & damaged).sum()),
        n_false_alarms=int((found & ~damaged).sum()),
        n_changed_for_nothing=int((changed & ~damaged).sum()),
        n_uncertain=int(result.summary["n_uncertain"]),
        n_named=int((named & damaged).sum()),
        n_cells=table.truth.size,
        n_wrong_cells_before=int((table.values != table.truth).sum()),
        n_wrong_cells_after=int((fixed != table.truth).sum()),
        seconds=round(seconds, 3),
    )


def _refuse_to_replace(path):
    """Refuse to write over a file that is not an earlier report of this demonstration."""
    try:
        ours = not path.exists() or (path.is_file() and path.read_bytes().endswith(_MARK))
    except OSError:
        ours = False
    if not ours:
        raise TableError(
            f"{path} exists and is not a report of this demonstration; rename it, or run the"
            " demonstration in another directory."
        )


def _report(result, seed):
    settings = {"command": f"unpermute demo --seed {seed}", **result.summary["settings"]}
    name = f"Breast cancer table, {_DAMAGED:.0%} of its records damaged"
    return (render_report(result, source_name=name, settings=settings) + "\n").encode()


def _swap(n_fields, rng):
    order = np.arange(n_fields)
    places = rng.choice(n_fields, 2, replace=False)
    order[places] = places[::-1]
    return order


def _shift_tail(n_fields, rng):
    order = np.arange(n_fields)
    start = rng.integers(0, n_fields - 2)
    order[start:] = np.roll(order[start:], rng.choice([-1, 1]))
    return order


def _permute(n_fields, rng):
    order = np.arange(n_fields)
    places = rng.choice(n_fields, round(_PERMUTED * n_fields), replace=False)
    order[places] = np.roll(places, 1)
    return order


# Named as the repair names them.
_WAYS = [
    ("two fields swapped", _swap),
    ("tail shifted by one", _shift_tail),
    ("fields permuted", _permute),
]


def _show(console, table, result, summary):
    console.print(
        f"\nThe breast cancer table of scikit-learn: {summary.n_records} records of"
        f" {len(table.names)} measurements. In {summary.n_damaged} of them values were put under"
        " wrong columns: two fields swapped, a tail shifted by one, or six fields permuted. The"
        " repair was given the damaged table and nothing else; the truth was used only for what"
        " follows.\n"
    )
    fixed = result.frame.to_numpy()
    for kind, _ in _WAYS:
        rows = np.flatnonzero(table.kind == kind)
        if len(rows):
            # The first damaged record, however well it was repaired: examples are not picked.
            console.print(_record(table, fixed, rows[0]))
    console.print(_comparison(summary))
    console.print(f"\nThe report, for a browser: {REPORT}", soft_wrap=True)
    console.print(
        "\nNext: unpermute scan TABLE.csv looks for shuffled records in a table of your own,"
        " and changes nothing. unpermute demo --seed 1 damages other records."
    )


def _record(table, fixed, row):
    """Draw some cells of a record: the repaired ones, and then those that stayed wrong."""
    moved = np.flatnonzero(table.values[row] != table.truth[row])
    lines = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    lines.title = Text(f"Record {row}: {table.kind[row]}, {len(moved)} cells", style="bold")
    lines.title_justify = "left"
    lines.add_column("", min_width=24)
    for name in ("damaged", "repaired", "truth"):
        lines.add_column(name, justify="right", min_width=9)
    lines.add_column("", min_width=5)
    for column in moved[:_MOST_FIELDS]:
        right = fixed[row, column] == table.truth[row, column]
        cells = [f"{part[row, column]:.6g}" for part in (table.values, fixed, table.truth)]
        # A word repeats the colour, for readers who see none.
        lines.add_row(
            Text(table.names[column]),
            Text(cells[0], style="red"),
            Text(cells[1], style="green" if right else "bold red"),
            cells[2],
            "" if right else "wrong",
        )
    if len(moved) > _MOST_FIELDS:
        lines.add_row(Text(f"and {len(moved) - _MOST_FIELDS} more", style="dim"))
    lines.add_row("")
    return lines


def _comparison(summary):
    n, n_whole = summary.n_damaged, summary.n_records - summary.n_damaged
    lines = Table("", "before", "after", box=None, pad_edge=False, padding=(0, 3, 0, 0))
    lines.columns[1].justify = lines.columns[2].justify = "right"
    for name, before, after in [
        ("damaged records found", "", f"{summary.n_found} of {n}"),
        ("  and their kind of damage named", "", f"{summary.n_named} of {n}"),
        ("false alarms", "", f"{summary.n_false_alarms} of {n_whole}"),
        ("  and values moved in them", "", f"{summary.n_changed_for_nothing} of {n_whole}"),
        ("suspicious, but left as they were", "", str(summary.n_uncertain)),
        (
            f"wrong cells, of {summary.n_cells:,}",
            f"{summary.n_wrong_cells_before:,}",
            f"{summary.n_wrong_cells_after:,}",
        ),
        ("seconds (compiling included)", "", f"{summary.seconds:.2f}"),
    ]:
        lines.add_row(name, before, after)
    return lines
