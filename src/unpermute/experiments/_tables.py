"""Figures side by side: our default, the paper's method as implemented here, the published one."""

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files

from unpermute.experiments._experiment import Record, Table
from unpermute.experiments._methods import ALONE, DEFAULT, NOTHING_GIVEN, PAPER, SUBSPACE
from unpermute.experiments._records import pick

__all__ = ["PUBLISHED", "beside", "count_harmed", "ours_first", "read_reference"]

PUBLISHED = "published"


def beside(
    label_names: Sequence[str],
    rows: Iterable[tuple[Sequence, Mapping[str, float | None]]],
    columns: Sequence[str],
    *,
    digits: int = 3,
    caption: str = "",
) -> Table:
    """Lay rows of labels and figures out as a table; a figure that is not there is a dash.

    Parameters
    ----------
    label_names : sequence of str
        Headings of the labels.
    rows : iterable of (labels, figures)
        What a row is about, and its figures by column.
    columns : sequence of str
        The methods, in order.
    digits : int, default=3
        Decimal places.
    caption : str, default=""
        Words above the table.

    Returns
    -------
    Table
        Everything as text.

    Examples
    --------
    >>> from unpermute.experiments._tables import beside
    >>> beside(["L"], [([2], {"ours": 0.5})], ["ours", "published"]).rows
    [['2', '0.500', '–']]
    """
    laid_out = []
    for labels, figures in rows:
        values = (figures.get(column) for column in columns)
        cells = ["–" if value is None else f"{value:.{digits}f}" for value in values]
        laid_out.append([*(str(label) for label in labels), *cells])
    return Table([*label_names, *columns], laid_out, len(label_names), caption)


def count_harmed(
    records: Sequence[Record],
    methods: Sequence[str],
    metric: str,
    draw_of: Callable[[dict], object],
) -> Table:
    """Count the draws in which a method made a matrix worse than it stands.

    Parameters
    ----------
    records : sequence of Record
        Figures of the methods and of the matrix left alone.
    methods : sequence of str
        The methods, in order.
    metric : str
        Error of the whole matrix.
    draw_of : callable
        ``draw_of(setting)`` returns what the draw depends on, apart from its seed.

    Returns
    -------
    Table
        One row per method.
    """
    alone = {(draw_of(r.parsed), r.seed): r.value for r in pick(records, ALONE, metric)}
    column, rows = "worse than leaving alone", []
    for method in methods:
        pairs = [
            (r.value, alone.get((draw_of(r.parsed), r.seed))) for r in pick(records, method, metric)
        ]
        known = [(value, other) for value, other in pairs if other is not None]
        harmed = sum(value > other + 1e-12 for value, other in known)
        rows.append(((method, len(known)), {column: harmed}))
    caption = "Draws with a larger error of the whole matrix than the matrix as it stands"
    return beside(("method", "draws"), rows, [column], digits=0, caption=caption)


def ours_first(records: Iterable[Record]) -> list[str]:
    """Return the methods that were run: ours, the paper's, then others as they appear."""
    run = dict.fromkeys(record.method for record in records)
    first = [name for name in (DEFAULT, SUBSPACE, NOTHING_GIVEN, PAPER) if name in run]
    return list(dict.fromkeys([*first, *run]))


def read_reference(name: str) -> list[dict[str, str]]:
    """Return the rows of a table of published figures."""
    source = files("unpermute.experiments") / "reference" / f"{name}.csv"
    with source.open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))
