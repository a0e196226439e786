"""How sure the repair is: suspicious vectors by confidence, and causes by how often they occur."""

from collections import Counter

import numpy as np
from markupsafe import Markup

from unpermute.report._findings import shorten
from unpermute.report._svg import path, picture, rectangles, text

__all__ = ["bin_confidences", "count_causes", "draw_confidences"]

# Most confidences are high: that is where the bins are narrow.
_EDGES = [0.0, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999]
_NAMES = ["under 50%", "50 – 80%", "80 – 90%", "90 – 95%", "95 – 99%", "99 – 99.9%", "over 99.9%"]
_LABELS, _BARS, _ROW = 92.0, 400.0, 24.0
_MOST_CAUSES = 8


def bin_confidences(confidence, status) -> list[tuple[str, int, int]]:
    """Count vectors by confidence: name of the bin, how many are repaired, and left alone."""
    places = np.searchsorted(_EDGES, np.nan_to_num(confidence), side="right") - 1
    places = np.clip(places, 0, len(_EDGES) - 1)
    repaired = np.bincount(places[status == "recovered"], minlength=len(_EDGES))
    alone = np.bincount(places[status != "recovered"], minlength=len(_EDGES))
    return [(name, int(a), int(b)) for name, a, b in zip(_NAMES, repaired, alone, strict=True)]


def draw_confidences(bins, what: str) -> Markup:
    """Draw a bar per bin, the surest at the top; what was left alone comes last, hatched."""
    most = max(max(repaired + alone for _, repaired, alone in bins), 1)
    parts = []
    for line, (name, repaired, alone) in enumerate(reversed(bins)):
        top = line * _ROW
        parts.append(text(_LABELS - 10, top + 15, name, anchor="end"))
        widths = [count / most * _BARS for count in (repaired, alone)]
        if repaired:
            parts.append(path(rectangles([_LABELS], [top + 4], widths[0], _ROW - 8), "bar-after"))
        if alone:
            left = _LABELS + widths[0]
            parts.append(path(rectangles([left], [top + 4], widths[1], _ROW - 8), "bar-alone"))
        count = f"{repaired + alone:,}"
        name = "" if repaired + alone else "faint"
        parts.append(text(_LABELS + sum(widths) + 6, top + 15, count, name=name))
    total = sum(repaired + alone for _, repaired, alone in bins)
    label = f"Bar chart of {total:,} suspicious {what}s by confidence, " + ", ".join(
        f"{name}: {repaired + alone}" for name, repaired, alone in bins if repaired + alone
    )
    size = _LABELS + _BARS + 60, _ROW * len(bins) + 2
    return picture(*size, label, *parts, name="confidence")


def count_causes(causes) -> list[tuple[str, int]]:
    """Count the causes, most frequent first; rare ones of a long list are put together."""
    counts = Counter(str(cause) for cause in causes if cause).most_common()
    listed = [(shorten(cause), n) for cause, n in counts[:_MOST_CAUSES]]
    rest = sum(n for _, n in counts[_MOST_CAUSES:])
    return [*listed, ("others", rest)] if rest else listed
