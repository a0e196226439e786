"""SVG as strings: shapes, text and frames; colours are classes that the style sheet defines."""

import numpy as np
from markupsafe import Markup, escape

__all__ = ["circle", "dots", "line", "number", "path", "picture", "rectangles", "text"]


def number(value: float) -> str:
    """Return a coordinate to a tenth of a pixel.

    Examples
    --------
    >>> from unpermute.report._svg import number
    >>> number(2.0), number(0.25), number(-0.04)
    ('2', '0.2', '0')
    """
    rounded = f"{value:.1f}"
    return {"-0.0": "0"}.get(rounded, rounded.removesuffix(".0"))


def picture(width: float, height: float, label: str, *parts: str, name: str = "") -> Markup:
    """Return an image that scales with the page, and says in words what it shows."""
    return Markup(
        f'<svg class="{name}" viewBox="0 0 {number(width)} {number(height)}" role="img"'
        f' aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def path(drawing: str, name: str) -> str:
    """Return a path, or nothing if there is nothing to draw."""
    return f'<path class="{name}" d="{drawing}"/>' if drawing else ""


def rectangles(left, top, width: float, height: float) -> str:
    """Return the outline of equal rectangles, for one path: short even for thousands."""
    size = f"h{number(width)}v{number(height)}h-{number(width)}z"
    return "".join(f"M{number(x)} {number(y)}{size}" for x, y in zip(left, top, strict=True))


def dots(x, y, name: str) -> str:
    """Return many round dots as one path of lines without length; the stroke makes them round."""
    drawing = "".join(
        f"M{number(a)} {number(b)}h0"
        for a, b in zip(np.asarray(x), np.asarray(y), strict=True)
        if np.isfinite(a) and np.isfinite(b)
    )
    return path(drawing, name)


def circle(x: float, y: float, radius: float, name: str, title: str = "") -> str:
    """Return a circle; browsers show the title when the pointer rests on it."""
    place = f'cx="{number(x)}" cy="{number(y)}" r="{number(radius)}"'
    inside = f"<title>{escape(title)}</title>" if title else ""
    return f'<circle class="{name}" {place}>{inside}</circle>'


def line(x1: float, y1: float, x2: float, y2: float, name: str) -> str:
    """Return a straight line."""
    return path(f"M{number(x1)} {number(y1)}L{number(x2)} {number(y2)}", name)


def text(x: float, y: float, content: str, *, anchor: str = "start", name: str = "") -> str:
    """Return a line of text; what it holds is escaped."""
    return (
        f'<text class="{name}" x="{number(x)}" y="{number(y)}" text-anchor="{anchor}">'
        f"{escape(content)}</text>"
    )
