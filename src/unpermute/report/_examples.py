"""The worst vectors, before and after: what a reader can check with their own eyes."""

from dataclasses import dataclass

import narwhals.stable.v1 as nw
import numpy as np
from markupsafe import Markup

from unpermute.report._findings import before_and_after, shorten, sure_text
from unpermute.report._projection import sample, standardise
from unpermute.report._svg import circle, dots, line, number, path, picture, rectangles, text

__all__ = ["Cell", "Example", "left_alone", "worst_columns", "worst_records"]

_SHOWN = 8
_MOST_CELLS = 6
_MOST_COLUMNS, _MOST_COMPARED = 60, 400
# Rows that tell what is usual in a column, and rows drawn of one.
_MOST_ROWS, _MOST_DOTS = 1000, 350
# Spreads from the median, beyond which values are drawn at the edge.
_EDGE_OF_PROFILE, _EDGE_OF_COMPARISON = 4.0, 8.0


@dataclass(frozen=True)
class Cell:
    """A moved cell in words."""

    column: str
    old: str | None
    new: str | None
    origin: str
    confidence: str


@dataclass(frozen=True)
class Example:
    """One vector: what it is called, how sure, a picture, and cells of it."""

    title: str
    cause: str
    sure: str
    n_moved: int
    figure: Markup
    cells: list[Cell]
    caption: str = ""
    evidence: str = ""


def worst_records(found) -> list[Example]:
    """Return the records with moved cells that look most shuffled."""
    order = _worst(found)
    positions = found.positions()[order]
    titles, causes = found.texts("vector")[order], found.texts("cause")[order]
    confidence = found.floats("confidence")[order]
    profiles = _profiles(found, positions)
    evidence = _evidence(found)[order]
    examples = []
    for k, row in enumerate(positions):
        moved = np.flatnonzero(found.row == row)
        cells = _cells(found.changes[moved[:_MOST_CELLS].tolist()])
        named = str(titles[k]) == str(row)
        place = found.place(row)
        title = place.capitalize() if named else f"{shorten(titles[k], 40)} ({place})"
        sure = sure_text(confidence[k])
        cause, why = shorten(causes[k]), shorten(evidence[k], 160)
        example = Example(title, cause, sure, len(moved), profiles[k], cells, evidence=why)
        examples.append(example)
    return examples


def worst_columns(found) -> list[Example]:
    """Return the columns with moved rows that look most shuffled."""
    order = _worst(found)
    positions = found.positions()[order]
    causes, confidence = found.texts("cause")[order], found.floats("confidence")[order]
    pictures = _comparisons(found, positions)
    return [
        Example(
            title=shorten(found.names[column], 48),
            cause=shorten(causes[k]),
            sure=sure_text(confidence[k]),
            n_moved=int(np.sum(found.column == column)),
            figure=pictures[k][0],
            cells=[],
            caption=pictures[k][1],
        )
        for k, column in enumerate(positions)
    ]


def left_alone(found, most: int = 10) -> list[dict[str, str]]:
    """Return the suspicious vectors that are too uncertain to change, worst first."""
    places = np.flatnonzero(found.texts("status") == "uncertain")[:most]
    names, causes = found.texts("vector")[places], found.texts("cause")[places]
    damaged = found.floats("damaged")[places] if "damaged" in found.vectors.columns else None
    confidence = found.floats("confidence")[places]
    evidence = _evidence(found)[places]
    proposed, titles = [""] * len(places), [shorten(name) for name in names]
    if found.by_row:
        rows = found.positions()[places]
        proposed = _proposed(found, rows)
        for k, row in enumerate(rows):
            where = found.place(row)
            titles[k] = where if str(names[k]) == str(row) else f"{titles[k]} ({where})"
    return [
        {
            "name": titles[k],
            "damaged": "" if damaged is None else sure_text(damaged[k]),
            "confidence": sure_text(confidence[k]),
            "cause": shorten(causes[k]),
            "proposed": proposed[k],
            "evidence": shorten(evidence[k], 160),
        }
        for k in range(len(places))
    ]


def _evidence(found):
    """Evidence of every suspicious vector in words."""
    if "evidence" in found.vectors.columns:
        return found.texts("evidence")
    return np.full(len(found.vectors), "", dtype=object)


def _proposed(found, rows):
    """Values now and proposed of some records, in one line each."""
    listed = found.proposals
    lines = []
    for row in rows:
        cells = listed.filter(nw.col("row") == int(row)).rows(named=True)
        moves = [
            f"{shorten(c['column'], 24)}: {shorten(c['old'], 16)} → {shorten(c['new'], 16)}"
            for c in cells[:_MOST_CELLS]
        ]
        more = f"; and {len(cells) - _MOST_CELLS} more" if len(cells) > _MOST_CELLS else ""
        lines.append("; ".join(moves) + more)
    return lines


def _worst(found):
    """Places in the list of vectors, which is sorted already."""
    return np.flatnonzero(found.vectors["moved"].to_numpy() > 0)[:_SHOWN]


def _cells(changes):
    lines = changes.select(
        "column", "old", "new", nw.col("moved_from").alias("origin"), "confidence"
    ).rows(named=True)
    return [
        Cell(
            column=shorten(line["column"], 40),
            old=None if line["old"] is None else shorten(line["old"], 24),
            new=None if line["new"] is None else shorten(line["new"], 24),
            origin=shorten(line["origin"], 40),
            confidence=sure_text(line["confidence"]),
        )
        for line in lines
    ]


def _profiles(found, positions):
    """Draw each record: every value in the units of its column, where 0 is usual."""
    usual = sample(np.arange(found.n_rows), _MOST_ROWS)
    rows = np.union1d(usual, positions)
    mine = np.isin(found.row, positions)
    moved = np.unique(found.column[mine])
    others = np.setdiff1d(np.arange(len(found.names)), moved)
    # Moved columns first: a wide table may have room for little else.
    columns = np.sort(np.concatenate([moved, others])[:_MOST_COLUMNS])
    before, after = standardise(*before_and_after(found, rows, columns), _EDGE_OF_PROFILE)
    places = np.searchsorted(rows, positions)
    names = [found.names[column] for column in columns]
    changed = [
        np.isin(columns, found.column[mine & (found.row == row)]) for row in positions
    ]  # values that did not move may hide behind those that did
    return [
        _draw_profile(before[place], after[place], change, names)
        for place, change in zip(places, changed, strict=True)
    ]


def _draw_profile(before, after, moved, names, width=460.0, height=118.0):
    left, top, bottom = 26.0, 8.0, height - 16.0
    middle, unit = (top + bottom) / 2, (bottom - top) / 2 / 4.3
    step = (width - left - 6) / len(names)
    x = left + (np.arange(len(names)) + 0.5) * step
    y, y_before = middle - unit * after, middle - unit * before
    parts = [path(rectangles([left], [middle - 2 * unit], width - left - 2, 4 * unit), "usual")]
    parts.append(line(left, middle, width - 2, middle, "guide"))
    for value in (-4, 0, 4):
        sign = {-4: "−4", 0: "0", 4: "+4"}[value]
        parts.append(text(left - 6, middle - unit * value + 3.5, sign, anchor="end", name="faint"))
    parts.append(dots(x[~moved], y[~moved], "other"))
    for k in np.flatnonzero(moved):
        name = shorten(names[k], 40)
        parts.append(line(x[k], y_before[k], x[k], y[k], "track"))
        parts.append(circle(x[k], y_before[k], 3.4, "before", f"{name}, before"))
        parts.append(circle(x[k], y[k], 3.0, "after", f"{name}, after"))
    parts.append(text(width - 2, height - 3, "columns, in their order", anchor="end", name="faint"))
    label = f"Values of the record in units of each column; {moved.sum()} of {len(names)} move."
    return picture(width, height, label, *parts, name="profile")


def _comparisons(found, positions):
    """Draw each column against the one it depends on most, before and after."""
    rows = sample(np.arange(found.n_rows), _MOST_ROWS)
    suspicious = found.positions()
    clean = sample(np.setdiff1d(np.arange(len(found.names)), suspicious), _MOST_COMPARED)
    columns = np.union1d(positions, clean)
    if len(columns) < 2:
        return [(Markup(""), "")] * len(positions)
    cells = before_and_after(found, rows, columns)
    before, after = standardise(*cells, _EDGE_OF_COMPARISON)
    old, new = _correlations(before), _correlations(after)
    # Columns shuffled together agree before as after: one that stayed tells the difference.
    allowed = np.isin(columns, clean) if len(clean) else np.ones(len(columns), dtype=bool)
    drawn = sample(np.arange(len(rows)), _MOST_DOTS)
    pictures = []
    for place in np.searchsorted(columns, positions):
        strength = np.where(allowed, np.abs(new[place]), -1.0)
        strength[place] = -1.0
        partner = int(strength.argmax())
        name = shorten(found.names[columns[partner]], 40)
        x, values = after[drawn, partner], (before[drawn, place], after[drawn, place])
        was, now = (f"{part[place, partner]:.2f}".replace("-", "−") for part in (old, new))
        caption = f"Against {name}: correlation {was} before, {now} after."
        pictures.append((_draw_comparison(x, *values, caption), caption))
    return pictures


def _correlations(values):
    values = values - values.mean(axis=0)
    lengths = np.linalg.norm(values, axis=0)
    unit = values / np.where(lengths > 1e-12, lengths, 1.0)
    return unit.T @ unit


def _draw_comparison(x, before, after, label, size=200.0):
    low, high = min(before.min(), after.min()), max(before.max(), after.max())
    across = _rescaled(x, x.min(), x.max()) * (size - 16) + 8
    parts = []
    for k, (values, name) in enumerate([(before, "before"), (after, "after")]):
        left = k * (size + 20)
        y = 20 + (1 - _rescaled(values, low, high)) * (size - 46) + 8
        frame = f"M{number(left)} 20v{number(size - 26)}h{number(size)}"
        parts += [path(frame, "axis"), text(left, 12, name, name="faint")]
        parts.append(dots(left + across, y, f"{name}-dots"))
    return picture(2 * size + 20, size, label, *parts, name="comparison")


def _rescaled(values, low, high):
    return (values - low) / (high - low) if high > low else np.full(len(values), 0.5)
