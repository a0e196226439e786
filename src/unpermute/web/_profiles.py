"""Where a value lies among those of a column: in words, and as a small picture."""

import datetime
from dataclasses import dataclass
from functools import cached_property

import narwhals.stable.v1 as nw
import numpy as np
import polars as pl
from markupsafe import Markup

from unpermute.records import read_cells
from unpermute.report import circle, line, path, picture, rectangles, share_text, shorten

__all__ = ["Profile", "Profiles"]

# Rows that a picture is made of: an even sample of larger tables.
_MOST_ROWS = 100_000
_BARS, _MOST_CATEGORIES = 40, 14
_WIDTH, _HEIGHT, _BASE = 240.0, 46.0, 36.0
# Share of the values at either end that a picture leaves out.
_OUTSIDE = 0.005
_NUMBER, _DATE, _TEXT = "number", "date", "text"


class Profiles:
    """The columns of a table, each looked at when it is first asked for."""

    def __init__(self, frame: nw.DataFrame, kinds: dict[str, str]):
        self._frame, self._kinds = frame, kinds
        self._known: dict[str, Profile] = {}

    def of(self, name: str) -> "Profile":
        """Return the profile of a column."""
        if name not in self._known:
            step = -(-len(self._frame) // _MOST_ROWS)
            some = self._frame[::step].select(name) if step > 1 else self._frame.select(name)
            column = self._frame[name]
            self._known[name] = Profile(name, column, some, self._kinds.get(name) or None)
        return self._known[name]


@dataclass(frozen=True)
class Profile:
    """The values of one column: all of them to count, some of them to draw."""

    name: str
    column: nw.Series
    some: nw.DataFrame
    kind: str | None

    @cached_property
    def _cells(self):
        return read_cells(self.some, [self.name], self._kinds())[0]

    @cached_property
    def _numbers(self):
        values = self._cells.values[:, 0]
        return np.sort(values[np.isfinite(values)])

    @cached_property
    def _is_numeric(self):
        seen = int(np.sum(~self._cells.missing()))
        return self.kind not in ("category", "text", "identifier") and (
            len(self._numbers) >= 0.5 * max(seen, 1) and len(self._numbers) > 0
        )

    @cached_property
    def _most_common(self):
        """The commonest texts with their counts, and how many distinct ones there are."""
        counts = self._texts.drop_nulls().value_counts(sort=True)
        top = counts.head(_MOST_CATEGORIES)
        return list(zip(*(column.to_list() for column in top.get_columns()), strict=True)), len(counts)

    @cached_property
    def _texts(self) -> pl.Series:
        cells = self.column.to_list()
        return pl.Series("texts", [None if c is None or c != c else str(c) for c in cells], pl.String)

    def words(self, text: str | None, *, stands_here: bool) -> str:
        """Say how usual a value is in the column; the one that stands there does not count."""
        if text is None or text == "":
            n = int(self._texts.null_count()) - stands_here
            share = share_text(n / max(len(self._texts) - stands_here, 1))
            return f"empty, as {share} of the others are" if n > 0 else "no other cell is empty"
        value = self._value(text)
        if self._is_numeric and value is not None:
            return self._rank(value, stands_here)
        if self._is_numeric:
            return f"is no {self._what()}, as the others are"
        n = int((self._texts == text).sum()) - stands_here
        if n > 0:
            return f"occurs {n:,} more times here" if n > 1 else "occurs once more here"
        return "never occurs otherwise" if stands_here else "never occurs here"

    def draw(self, before: str | None, after: str | None) -> Markup:
        """Draw the distribution, with the value that stands in the column and the proposed one."""
        label = f"Distribution of {shorten(self.name, 40)}"
        draw = self._draw_numbers if self._is_numeric else self._draw_texts
        parts, ends = draw(before, after)
        base = line(0, _BASE, _WIDTH, _BASE, "axis")
        return picture(_WIDTH, _HEIGHT, f"{label}{ends}", *parts[:1], base, *parts[1:], name="dist")

    def range_words(self) -> str:
        """Say in a few words what the column holds."""
        if self._is_numeric:
            low, high = self._numbers[0], self._numbers[-1]
            return f"{self._shown(low)} to {self._shown(high)}"
        common, n = self._most_common
        return f"{n:,} different texts, such as {shorten(common[0][0], 24)}" if common else "empty"

    def _kinds(self):
        return {self.name: self.kind} if self.kind else None

    def _what(self):
        return "date" if self.kind == _DATE else "number"

    def _value(self, text):
        """The number of a text, or None."""
        frame = nw.from_native(pl.DataFrame({self.name: [text]}), eager_only=True)
        value = read_cells(frame, [self.name], self._kinds())[0].values[0, 0]
        return float(value) if np.isfinite(value) else None

    def _rank(self, value, stands_here):
        numbers = self._numbers
        low, high = np.searchsorted(numbers, [value, np.nextafter(value, np.inf)])
        n = len(numbers) - stands_here
        if n <= 0:
            return "there is no other value"
        sampled = len(self.some) < len(self.column)
        all_others = f"all {n:,} others" if not sampled else "all others"
        if low >= n or (low == 0 and high <= stands_here):
            where = "above" if low >= n else "below"
            rest = numbers if not stands_here else np.delete(numbers, low)
            return f"{where} {all_others} ({self._shown(rest[0])} to {self._shown(rest[-1])})"
        share = low / n if low / n >= 0.5 else 1 - high / n + stands_here / n
        return f"{'higher' if low / n >= 0.5 else 'lower'} than {share_text(min(share, 1))} of the others"

    def _shown(self, value):
        if self.kind == _DATE or (self.kind is None and self._looks_like_dates):
            try:
                return datetime.date.fromordinal(int(value)).isoformat()
            except (ValueError, OverflowError):
                pass
        return f"{value:,.6g}"

    @cached_property
    def _looks_like_dates(self):
        return bool(np.any(self._cells.classes == 9))

    def _draw_numbers(self, before, after):
        numbers = self._numbers
        low, high = np.quantile(numbers, [_OUTSIDE, 1 - _OUTSIDE])
        if high <= low:
            low, high = low - 0.5, high + 0.5
        counts, edges = np.histogram(np.clip(numbers, low, high), _BARS, (low, high))
        inner = 16.0  # room at either end for values outside
        width = (_WIDTH - 2 * inner) / _BARS
        heights = (_BASE - 8) * np.sqrt(counts / counts.max())
        bars = _bars(inner + np.arange(_BARS) * width, heights, width)

        def place(value):
            if value < low:
                return 5.0
            if value > high:
                return _WIDTH - 5.0
            return inner + (value - low) / (high - low) * (_WIDTH - 2 * inner)

        marks = []
        for text, name in ((before, "before"), (after, "after")):
            value = None if not text else self._value(text)
            if value is not None:
                marks.append(circle(place(value), _BASE, 4.5, name, f"{name}: {shorten(text, 40)}"))
        return [bars, *marks], f", {self._shown(low)} to {self._shown(high)}"

    def _draw_texts(self, before, after):
        common, n = self._most_common
        slots = len(common) + 2  # the last but one: others; the last: never
        width = _WIDTH / slots
        counts = np.array([count for _, count in common], dtype=float)
        heights = (_BASE - 8) * np.sqrt(counts / counts.max()) if len(counts) else counts
        bars = _bars(np.arange(len(common)) * width, heights, width * 0.86)
        places = {text: k for k, (text, _) in enumerate(common)}
        marks = []
        for text, name in ((before, "before"), (after, "after")):
            if text:
                others = bool((self._texts == text).any())
                k = places.get(text, slots - 2 if others else slots - 1)
                x = (k + 0.43) * width
                marks.append(circle(x, _BASE, 4.5, name, f"{name}: {shorten(text, 40)}"))
        return [bars, *marks], f": the {len(common)} commonest of {n:,} texts"


def _bars(left, heights, width):
    """Bars of different heights as one path."""
    drawing = "".join(
        rectangles([x], [_BASE - height], max(width - 1, 0.6), height)
        for x, height in zip(left, heights, strict=True)
        if height > 0
    )
    return path(drawing, "dist-bar")
