"""One page from one result: numbers and pictures are computed here, words are in the templates."""

from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, FunctionLoader, StrictUndefined

from unpermute import __version__
from unpermute.files import OutputFiles
from unpermute.report._advice import call_to_repeat, listed_settings, next_steps
from unpermute.report._confidence import bin_confidences, count_causes, draw_confidences
from unpermute.report._examples import left_alone, worst_columns, worst_records
from unpermute.report._findings import open_result, share_text, shorten
from unpermute.report._heatmap import busiest_columns, count_moved, draw_heat_map
from unpermute.report._projection import draw_panel, project

__all__ = ["key_figures", "render_report", "style_sheet", "template", "write_report"]

_MOST_NOTES = 20
# Characters of a list of columns.
_LONGEST_LIST = 2000


class Figure(NamedTuple):
    """A number worth a large print, and what it counts."""

    value: str
    label: str


def render_report(
    result,
    *,
    source_name: str,
    settings: Mapping[str, Any] | None = None,
    lines: Callable | None = None,
    answers: Mapping[str, str] | None = None,
) -> str:
    """Return a result as one HTML page that needs nothing else.

    The page holds no script and loads nothing; it stays below 2 MB for any table, because tiles,
    points and examples are limited in number, and says so where something is left out. The same
    result gives the same page.

    Parameters
    ----------
    result : TableResult
        What :func:`unpermute.table.repair` or :func:`unpermute.table.scan` returned.
    source_name : str
        What the table is called.
    settings : dict, default=None
        Settings to list; ``"command"`` is the command line that repeats the run. None: those in
        the summary.
    lines : callable, default=None
        Returns the lines of the file where rows start; None: rows are named by their numbers.
    answers : dict of str to str, default=None
        What may be right, and what to type then, of every question in the summary. None: calls of
        `repair`.

    Returns
    -------
    str
        The page.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from unpermute.report import render_report
    >>> from unpermute.table import scan
    >>> page = render_report(scan(load_wine(as_frame=True).data), source_name="wine")
    >>> "Nothing looks shuffled in 178 records." in page
    True
    """
    found = open_result(result, lines)
    summary = result.summary
    settings = summary["settings"] if settings is None else settings
    page = template("report.html.j2").render(
        source=shorten(source_name, 120),
        version=__version__,
        summary=summary,
        what=found.what,
        figures=key_figures(found),
        notes=[shorten(note, 400) for note in summary["notes"][:_MOST_NOTES]],
        causes=count_causes(found.texts("cause")),
        heat=_heat(found),
        examples=worst_records(found) if found.by_row else worst_columns(found),
        alone=left_alone(found),
        projection=_projection(found),
        confidence=_confidence(found),
        trials=summary.get("trials") or {"n": 0},
        kinds=_kinds(summary.get("judged_columns") or []),
        recoverability=share_text(summary["structure"]["recoverability"]),
        settings=listed_settings(settings),
        call=call_to_repeat(settings),
        is_command=bool(settings.get("command")),
        steps=next_steps(summary, settings, answers),
    )  # fmt: skip
    # Names of files that are not text hold halves of characters, which UTF-8 does not know.
    return page.encode(errors="backslashreplace").decode()


def style_sheet() -> str:
    """Return the style sheet of the page."""
    return (files("unpermute.report") / "templates" / "report.css").read_text(encoding="utf-8")


def write_report(result, path, *, source_name: str = "table") -> Path:
    """Write the page of a result to a file, which appears when it is complete.

    Parameters
    ----------
    result : TableResult
        What :func:`unpermute.table.repair` or :func:`unpermute.table.scan` returned.
    path : str or path-like
        File to write; one that exists is replaced.
    source_name : str, default="table"
        What the page calls the table.

    Returns
    -------
    pathlib.Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_wine
    >>> from unpermute.report import write_report
    >>> from unpermute.table import scan
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(scan(load_wine(as_frame=True).data), f"{folder}/wine.html").name
    'wine.html'
    """
    path = Path(path)
    page = render_report(result, source_name=source_name)
    with OutputFiles(force=True) as output:
        output.plan(str(path))
        output.write(str(path), [page.encode()])
        output.commit()
    return path


def template(name: str):
    """Return a template of this package."""
    folder = files("unpermute.report") / "templates"
    environment = Environment(
        loader=FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def key_figures(found):
    """Return the numbers that say most about a result."""
    summary = found.summary
    judged = f"of {summary['n_vectors']:,} {found.what}s look shuffled"
    if not summary["n_suspicious"]:
        told = share_text(summary["structure"]["recoverability"])
        return [
            Figure("0", judged),
            Figure(f"{len(found.names):,}", "columns compared"),
            Figure(told, "of moved cells could be put back"),
        ]
    cells = found.n_rows * len(found.names)
    share = share_text(summary["n_moved_cells"] / cells) if cells else "0%"
    figures = [
        Figure(f"{summary['n_suspicious']:,}", judged),
        Figure(f"{summary['n_repaired']:,}", "can be put back"),
        Figure(f"{summary['n_uncertain']:,}", "too uncertain to change"),
        Figure(f"{summary['n_moved_cells']:,}", f"cells move, {share} of the table"),
    ]
    # What a person has decided for many records at once has no probability.
    if np.isfinite(found.confidence).any():
        figures.append(
            Figure(_floor(np.nanmean(found.confidence)), "of the moved cells expected to be right")
        )
    return figures


def _kinds(columns):
    """Columns by what they were judged as, and those that were not, with the reason."""
    listed: dict[str, list[str]] = {}
    for column in columns:
        kind = f"judged as {column['kind']}" if column["kind"] else "not judged"
        why = f" ({column['not_judged']})" if column["not_judged"] else ""
        listed.setdefault(kind, []).append(shorten(column["column"], 40) + why)
    return [(kind, shorten(", ".join(names), _LONGEST_LIST)) for kind, names in listed.items()]


def _floor(share):
    """Per cent, rounded down, as nobody is sure of all of them."""
    return f"{min(np.floor(share * 1000) / 10, 99.9):.1f}%"


def _heat(found):
    if not len(found.row):
        return None
    heat = count_moved(found)
    return {
        "figure": draw_heat_map(heat, found.names),
        "rows": int(np.diff(heat.first_row).max()),
        "columns": int(np.diff(heat.first_column).max()),
        "busiest": [(shorten(name, 40), f"{n:,}") for name, n in busiest_columns(found)],
    }


def _projection(found):
    shown = project(found)
    if shown is None:
        return None
    first = shown.panels[0]
    return {
        "figures": [draw_panel(panel, shown.titles) for panel in shown.panels],
        "explained": share_text(shown.explained),
        "rank": shown.rank,
        "others": (len(first.others), shown.n_others),
        "moved": (len(first.after), shown.n_moved),
        "unsure": len(first.unsure),
    }


def _confidence(found):
    if not len(found.vectors):
        return None
    bins = bin_confidences(found.floats("confidence"), found.texts("status"))
    return {
        "figure": draw_confidences(bins, found.what),
        "wrong_cells": float(np.nansum(1 - found.confidence)),
        "any_alone": any(alone for _, _, alone in bins),
    }
