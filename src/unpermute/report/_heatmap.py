"""Where cells moved: columns downwards, the records from first to last across, both in bins."""

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from unpermute.report._findings import shorten
from unpermute.report._svg import number, path, picture, rectangles, text

__all__ = ["HeatMap", "busiest_columns", "count_moved", "draw_heat_map"]

_MOST_ACROSS, _MOST_DOWN = 100, 40
_LEVELS = 5
# A column with this many times the average number of moved cells is named.
_BUSY = 1.25
_LABELS, _TILES, _BARS = 190.0, 600.0, 110.0
_ROW, _TOP, _BOTTOM = 15.0, 46.0, 50.0


@dataclass(frozen=True)
class HeatMap:
    """Counts of moved cells.

    Attributes
    ----------
    counts : ndarray of int of shape (n_lines, n_bins)
        Moved cells per tile.
    first_column, first_row : ndarray of int
        Where the bins begin, and after the last one, where they end.
    levels : ndarray of int of shape (n_lines, n_bins)
        0 where nothing moved, up to 5 where most did.
    ranges : list of tuple (int, int, int)
        The levels that occur, with their fewest and most moved cells.
    """

    counts: np.ndarray
    first_column: np.ndarray
    first_row: np.ndarray
    levels: np.ndarray
    ranges: list[tuple[int, int, int]]


def count_moved(found) -> HeatMap:
    """Count the moved cells of a result, tile by tile."""
    first_row = _edges(found.n_rows, _MOST_ACROSS)
    first_column = _edges(len(found.names), _MOST_DOWN)
    across = np.searchsorted(first_row, found.row, side="right") - 1
    down = np.searchsorted(first_column, found.column, side="right") - 1
    shape = len(first_column) - 1, len(first_row) - 1
    counts = np.bincount(down * shape[1] + across, minlength=shape[0] * shape[1]).reshape(shape)
    most = max(int(counts.max()), 1)
    # The root of large counts shows a few moved cells beside a tile where all of them moved.
    share = counts / most if most <= _LEVELS else np.sqrt(counts / most)
    levels = np.ceil(_LEVELS * share).astype(int)
    used = [level for level in range(1, _LEVELS + 1) if np.any(levels == level)]
    ranges = [
        (level, int(counts[levels == level].min()), int(counts[levels == level].max()))
        for level in used
    ]
    return HeatMap(counts, first_column, first_row, levels, ranges)


def busiest_columns(found, n_columns: int = 3) -> list[tuple[str, int]]:
    """Return columns with clearly more moved cells than the others, and how many those are."""
    counts = np.bincount(found.column, minlength=len(found.names))
    order = np.argsort(-counts, kind="stable")[:n_columns]
    many = _BUSY * counts[counts > 0].mean() if np.any(counts) else np.inf
    return [(found.names[place], int(counts[place])) for place in order if counts[place] >= many]


def draw_heat_map(heat, names) -> Markup:
    """Draw the counts, with sums per line at the right and per bin of records at the top."""
    n_lines, n_bins = heat.counts.shape
    width, height = _TILES / n_bins, _ROW
    bottom = _TOP + n_lines * height
    gap = 1.0 if width > 3 else 0.0
    parts = [path(rectangles([_LABELS], [_TOP], _TILES, n_lines * height), "ground")]
    for level in range(1, _LEVELS + 1):
        lines, bins = np.nonzero(heat.levels == level)
        tiles = rectangles(_LABELS + bins * width, _TOP + lines * height, width - gap, height - 1)
        parts.append(path(tiles, f"heat{level}"))
    parts += _line_labels(heat, names)
    parts += _sums(heat, width)
    parts += _row_axis(heat, bottom)
    label = f"Heat map of {heat.counts.sum():,} moved cells, columns downwards, records across."
    return picture(_LABELS + _TILES + _BARS, bottom + _BOTTOM, label, *parts, name="heat")


def _edges(n, most):
    n_bins = max(min(n, most), 1)
    return np.arange(n_bins + 1) * n // n_bins


def _line_labels(heat, names):
    for line, (first, end) in enumerate(
        zip(heat.first_column[:-1], heat.first_column[1:], strict=True)
    ):
        name = shorten(names[first], 28)
        if end - first > 1:
            name = f"{shorten(names[first], 13)} … {shorten(names[end - 1], 13)}"
        yield text(_LABELS - 8, _TOP + (line + 0.5) * _ROW + 3.5, name, anchor="end")


def _sums(heat, width):
    """Bars of the sums: they show a bad column and a bad stretch of records at a glance."""
    across, down = heat.counts.sum(axis=0), heat.counts.sum(axis=1)
    bins = np.flatnonzero(across)
    heights = across[bins] / max(across.max(), 1) * (_TOP - 16)
    drawing = "".join(
        rectangles([_LABELS + place * width], [_TOP - 4 - h], max(width - 1, 0.5), h)
        for place, h in zip(bins, heights, strict=True)
    )
    yield path(drawing, "sum")
    left, room = _LABELS + _TILES + 6, _BARS - 50
    lines = np.flatnonzero(down)
    drawing = "".join(
        rectangles([left], [_TOP + line * _ROW + 2], down[line] / down.max() * room, _ROW - 5)
        for line in lines
    )
    yield path(drawing, "sum")
    for line in lines:
        x = left + down[line] / down.max() * room + 4
        yield text(x, _TOP + (line + 0.5) * _ROW + 3.5, f"{down[line]:,}", name="faint")


def _row_axis(heat, bottom):
    n_rows = int(heat.first_row[-1])
    yield text(_LABELS, 9, "moved cells, by place in the table", name="faint")
    yield text(_LABELS + _TILES + 6, _TOP - 8, "by column", name="faint")
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = _LABELS + share * _TILES
        anchor = {0.0: "start", 1.0: "end"}.get(share, "middle")
        yield path(f"M{number(x)} {number(bottom)}v4", "axis")
        row = round(share * (n_rows - 1))
        yield text(x, bottom + 16, f"row {row:,}" if share == 0 else f"{row:,}", anchor=anchor)
    yield from _legend(heat, bottom + 36)


def _legend(heat, y):
    x = _LABELS
    yield text(x, y + 3, "moved cells per tile", name="faint")
    x += 124
    for level, fewest, most in heat.ranges:
        yield path(rectangles([x], [y - 7], 12, 12), f"heat{level}")
        label = f"{fewest:,}" if fewest == most else f"{fewest:,}–{most:,}"
        yield text(x + 17, y + 3, label)
        x += 32 + 6.2 * len(label)
