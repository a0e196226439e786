"""The table in two dimensions: standardised numbers, principal components, points to draw.

Records are points in the space of the columns. Those in order lie near a subspace of few
dimensions, so two pictures are made: its two main directions, and the distance from it. Columns are
unit vectors in the space of the records: their correlations with the first two components lie in
the unit circle, and a shuffled column has next to none.
"""

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from unpermute.report._findings import before_and_after, share_text, shorten
from unpermute.report._svg import circle, dots, line, number, path, picture, text

__all__ = ["Panel", "Projection", "draw_panel", "project", "sample", "standardise"]

_MOST_MOVED, _MOST_OTHERS = 150, 850
# Rows from which columns are compared, and columns in whose space records are.
_MOST_ROWS, _MOST_COLUMNS = 1000, 300
# Standardised values are clipped, for a moved cell may be a million times out of scale.
_LARGEST = 4.0
# Share of the variance that the subspace of the records holds.
_VARIANCE = 0.9
_WIDTH, _HEIGHT, _MARGIN = 480.0, 380.0, 36.0
_MOST_NAMES = 8


@dataclass(frozen=True)
class Panel:
    """Points of one picture.

    Attributes
    ----------
    others : ndarray of shape (n, 2)
        Vectors that stay as they are.
    unsure : ndarray of shape (k, 2)
        Those of them that are suspicious.
    before, after : ndarray of shape (m, 2)
        Moved vectors.
    x, y : str
        What the axes show.
    in_circle : bool
        Whether the points lie in the unit circle.
    """

    others: np.ndarray
    unsure: np.ndarray
    before: np.ndarray
    after: np.ndarray
    x: str
    y: str
    in_circle: bool


@dataclass(frozen=True)
class Projection:
    """What is drawn of the vectors of a result.

    Attributes
    ----------
    panels : list of Panel
        The pictures.
    titles : list of str
        What the moved vectors are called.
    explained : float
        Share of the variance in the first two components.
    rank : int
        Dimensions of the subspace that distances are taken from; 0 if none are.
    n_others, n_moved : int
        How many vectors there are; the pictures may show fewer.
    """

    panels: list[Panel]
    titles: list[str]
    explained: float
    rank: int
    n_others: int
    n_moved: int


def project(found) -> Projection | None:
    """Project the vectors of a result; None if two dimensions would show nothing."""
    if min(found.n_rows, len(found.names)) < 3:
        return None
    n_vectors = found.n_rows if found.by_row else len(found.names)
    moved = np.unique(found.row if found.by_row else found.column)
    stayed = np.ones(n_vectors, dtype=bool)
    stayed[moved] = False
    shown, others = sample(moved, _MOST_MOVED), sample(np.flatnonzero(stayed), _MOST_OTHERS)
    unsure = sample(np.sort(found.positions()[found.texts("status") == "uncertain"]), _MOST_MOVED)
    others = np.union1d(others, unsure)
    vectors = np.union1d(shown, others)
    places = [np.searchsorted(vectors, part) for part in (others, unsure, shown)]
    panels, explained, rank = (_record_panels if found.by_row else _column_panels)(
        found, vectors, places
    )
    titles = [found.place(place) if found.by_row else found.names[place] for place in shown]
    return Projection(panels, titles, explained, rank, n_vectors - len(moved), len(moved))


def sample(places: np.ndarray, most: int) -> np.ndarray:
    """Return some of the places, ascending and always the same ones."""
    if len(places) <= most:
        return places
    return np.sort(np.random.default_rng(0).choice(places, most, replace=False))


def standardise(before, after, largest: float = _LARGEST) -> tuple[np.ndarray, np.ndarray]:
    """Bring columns to median 0 and spread 1 as they are after the repair; missing cells are 0."""
    filled = np.where(np.isnan(after).all(axis=0), 0.0, after)
    with np.errstate(over="ignore", invalid="ignore"):
        centre = np.nanmedian(filled, axis=0)
        spread = 1.4826 * np.nanmedian(np.abs(filled - centre), axis=0)
        # More than half of the cells of a column may be equal.
        spread = np.where(spread > 0, spread, np.nanstd(filled, axis=0))
        spread = np.where((spread > 0) & np.isfinite(spread), spread, 1.0)
        old, new = (
            np.clip(np.nan_to_num((part - centre) / spread), -largest, largest)
            for part in (before, after)
        )
    return old, new


def draw_panel(panel, titles) -> Markup:
    """Draw the points: grey those that stay, and the others from where to where they move."""
    place = _places_in_circle if panel.in_circle else _places(panel)
    others, before, after = map(place, (panel.others, panel.before, panel.after))
    parts = [*_axes(panel), dots(others[:, 0], others[:, 1], "other")]
    parts += [circle(x, y, 3.4, "unsure") for x, y in place(panel.unsure)]
    parts += [line(x1, y1, x2, y2, "track") for x1, y1, x2, y2 in np.hstack([before, after])]
    for points, radius, name in ((before, 3.4, "before"), (after, 3.0, "after")):
        parts += [
            circle(x, y, radius, name, shorten(f"{title}, {name}"))
            for (x, y), title in zip(points, titles, strict=True)
        ]
    if panel.in_circle and len(titles) <= _MOST_NAMES:
        parts += [
            text(x + 6, y + 3.5, shorten(title, 18))
            for (x, y), title in zip(after, titles, strict=True)
        ]
    label = (
        f"Scatter plot of {len(others):,} points that stay and {len(after):,} that move;"
        f" across: {panel.x}; upwards: {panel.y}."
    )
    return picture(_WIDTH, _HEIGHT, label, *parts, name="projection")


def _record_panels(found, rows, places):
    columns = sample(np.arange(len(found.names)), _MOST_COLUMNS)
    before, after = standardise(*before_and_after(found, rows, columns))
    mean = after.mean(axis=0)
    old, new = before - mean, after - mean
    axes, shares = _components(new.T)
    largest = max(1, len(columns) // 2)
    rank = int(min(np.searchsorted(np.cumsum(shares), _VARIANCE) + 1, largest, axes.shape[1]))
    main = [part @ axes[:, :2] for part in (old, new)]
    off = [
        np.column_stack([part @ axes[:, 0], _distances(part, axes[:, :rank])])
        for part in (old, new)
    ]
    across = _axis_name(0, shares)
    panels = [
        _panel(points, places, (across, upwards))
        for points, upwards in (
            (main, _axis_name(1, shares)),
            (off, f"distance from the subspace (dimension {rank})"),
        )
    ]
    return panels, float(shares[:2].sum()), rank


def _column_panels(found, columns, places):
    rows = sample(np.arange(found.n_rows), _MOST_ROWS)
    old, new = map(_unit_columns, standardise(*before_and_after(found, rows, columns)))
    axes, shares = _components(new)
    points = [part.T @ axes[:, :2] for part in (old, new)]
    names = _axis_name(0, shares), _axis_name(1, shares)
    return [_panel(points, places, names, in_circle=True)], float(shares[:2].sum()), 0


def _panel(points, places, names, *, in_circle=False):
    (before, after), (others, unsure, moved), (x, y) = points, places, names
    return Panel(after[others], after[unsure], before[moved], after[moved], x, y, in_circle)


def _axis_name(place, shares):
    return f"component {place + 1}, {share_text(shares[place])} of the variance"


def _unit_columns(values):
    values = values - values.mean(axis=0)
    lengths = np.linalg.norm(values, axis=0)
    return values / np.where(lengths > 1e-12, lengths, 1.0)


def _components(vectors):
    """Left singular vectors, with a sign of their own, and the variance that each explains."""
    axes, values, _ = np.linalg.svd(vectors, full_matrices=False)
    largest = np.abs(axes).argmax(axis=0)
    axes = axes * np.where(axes[largest, np.arange(axes.shape[1])] < 0, -1.0, 1.0)
    return axes, values**2 / max(np.sum(values**2), 1e-300)


def _distances(vectors, axes):
    """Root mean square of what the axes leave over."""
    return np.sqrt(np.mean((vectors - vectors @ axes @ axes.T) ** 2, axis=1))


def _places(panel):
    """Map that lets all points fill the picture."""
    points = np.concatenate([panel.others, panel.before, panel.after])
    low, high = points.min(axis=0), points.max(axis=0)
    size = np.where(high > low, high - low, 1.0)
    room = np.array([_WIDTH, _HEIGHT]) - 2 * _MARGIN

    def place(points):
        share = (points - low) / size
        return _MARGIN + np.column_stack([share[:, 0], 1 - share[:, 1]]) * room

    return place


def _places_in_circle(points):
    radius = _HEIGHT / 2 - _MARGIN
    return np.array([_WIDTH / 2, _HEIGHT / 2]) + points * [radius, -radius]


def _axes(panel):
    left, top, right, bottom = 22.0, 20.0, _WIDTH - 12, _HEIGHT - 22
    if panel.in_circle:
        yield circle(_WIDTH / 2, _HEIGHT / 2, _HEIGHT / 2 - _MARGIN, "guide")
    yield path(f"M{number(left)} {number(top)}V{number(bottom)}H{number(right)}", "axis")
    yield text(right, bottom + 16, panel.x, anchor="end", name="faint")
    yield text(left, top - 8, panel.y, name="faint")
