"""The report in short, for the output of a notebook cell."""

from unpermute.report._examples import left_alone, worst_columns, worst_records
from unpermute.report._findings import open_result, shorten
from unpermute.report._heatmap import count_moved, draw_heat_map
from unpermute.report._render import key_figures, template

__all__ = ["render_card"]

_SHOWN = 3


def render_card(result) -> str:
    """Return a result as a fragment of HTML: the sentence, key figures, a map, the worst records.

    The fragment holds no script and loads nothing; values of the table are escaped.

    Parameters
    ----------
    result : TableResult
        What :func:`unpermute.table.repair` or :func:`unpermute.table.scan` returned.

    Returns
    -------
    str
        The fragment.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from unpermute.report import render_card
    >>> from unpermute.table import scan
    >>> card = render_card(scan(load_wine(as_frame=True).data))
    >>> "Nothing looks shuffled in 178 records." in card
    True
    """
    found = open_result(result)
    examples = worst_records(found) if found.by_row else worst_columns(found)
    return template("card.html.j2").render(
        sentence=shorten(result.summary["sentence"], 600),
        figures=key_figures(found),
        heat=draw_heat_map(count_moved(found), found.names) if len(found.row) else None,
        examples=examples[:_SHOWN],
        alone=left_alone(found, _SHOWN),
        what=found.what,
    )
