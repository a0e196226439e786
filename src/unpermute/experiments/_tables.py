"""Figures side by side: our default, the paper's method as implemented here, the published one."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files

from unpermute.experiments._experiment import Table

__all__ = ["PUBLISHED", "beside", "read_reference"]

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


def read_reference(name: str) -> list[dict[str, str]]:
    """Return the rows of a table of published figures."""
    source = files("unpermute.experiments") / "reference" / f"{name}.csv"
    with source.open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))
