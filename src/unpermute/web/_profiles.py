"""Where a value lies among those of a column: in words, and as a small picture.

A value is compared with the records that look whole: damaged ones would make it look usual.
"""

import datetime
from functools import cached_property, lru_cache

import narwhals.stable.v1 as nw
import numpy as np
import polars as pl
from markupsafe import Markup

from unpermute.records import read_cells
from unpermute.report import circle, line, path, picture, rectangles, share_text, shorten

__all__ = ["Profile", "Profiles"]

# Records that pictures and ranks are made of: an even sample of larger tables.
_MOST_ROWS = 100_000
_BARS, _MOST_CATEGORIES = 40, 14
_WIDTH, _HEIGHT, _BASE, _END = 240.0, 46.0, 36.0, 16.0
# Share of the values at either end that lie beyond the bars.
_OUTSIDE = 0.005
_TEXTS = ("category", "text", "identifier")


class Profiles:
    """The columns of a table, each looked at when it is first asked for.

    Parameters
    ----------
    frame : narwhals DataFrame
        Records that look whole.
    kinds : dict of str to str
        What columns hold; "" if that is not known.
    """

    def __init__(self, frame: nw.DataFrame, kinds: dict[str, str]):
        self._frame, self._kinds = frame, kinds
        self._known: dict[str, Profile] = {}

    def of(self, name: str) -> "Profile":
        """Return the profile of a column."""
        if name not in self._known:
            self._known[name] = Profile(self._frame[name], self._kinds.get(name, ""))
        return self._known[name]


class Profile:
    """The values of one column.

    Parameters
    ----------
    column : narwhals Series
        The column.
    kind : str
        What it holds; "" if that is not known.
    """

    def __init__(self, column: nw.Series, kind: str):
        self._column, self._kind = column, kind
        # A value is asked for in words and in the picture.
        self._value = lru_cache(100)(self._parsed)
        self._some = column[:: -(-len(column) // _MOST_ROWS)].to_frame() if len(column) else None

    def words(self, text: str) -> str:
        """Say how usual a value is in the column."""
        if not len(self._column):
            return "there is nothing to compare it with"
        if text == "":
            share = self._texts.null_count() / len(self._texts)
            return f"{share_text(share)} of the cells are empty" if share else "no cell is empty"
        if self._is_numeric:
            value = self._value(text)
            what = "date" if self._kind == "date" else "number"
            return f"not a {what}, unlike the others" if value is None else self._rank(value)
        n = int((self._texts == text).sum())
        return (
            f"occurs in {share_text(n / len(self._texts))} of the records" if n else "never occurs"
        )

    def holds(self) -> str:
        """Say in a few words what the column holds."""
        if self._is_numeric:
            return f"{self._shown(self._numbers[0])} to {self._shown(self._numbers[-1])}"
        common, n = self._most_common
        if not common:
            return "nothing"
        several = f"{n:,} different values, such as " if n > 1 else ""
        return several + shorten(common[0][0], 24)

    def draw(self, before: str, after: str) -> Markup:
        """Draw the distribution, with the value that stands in the column and the proposed one."""
        bars, place = self._histogram() if self._is_numeric else self._columns()
        marks = [
            circle(x, _BASE, 4.5, name, f"{name}: {shorten(text, 40)}")
            for text, name in ((before, "before"), (after, "after"))
            if (x := place(text)) is not None
        ]
        base = line(0, _BASE, _WIDTH, _BASE, "axis")
        label = f"Distribution of {shorten(self._column.name, 40)}: {self.holds()}"
        return picture(_WIDTH, _HEIGHT, label, bars, base, *marks, name="dist")

    @cached_property
    def _numbers(self):
        """Numbers and dates of the column, sorted."""
        if self._some is None:
            return np.zeros(0)
        values = self._read(self._some)
        return np.sort(values[np.isfinite(values)])

    @cached_property
    def _is_numeric(self):
        n_seen = 0 if self._some is None else len(self._some.drop_nulls())
        return self._kind not in _TEXTS and 0 < n_seen <= 2 * len(self._numbers)

    @cached_property
    def _texts(self) -> pl.Series:
        native = self._column.to_native()
        if native.dtype == pl.String:
            return native
        cells = [None if cell is None or cell != cell else str(cell) for cell in native.to_list()]
        return pl.Series(native.name, cells, pl.String)

    @cached_property
    def _most_common(self):
        """The commonest texts with their counts, and how many distinct ones there are."""
        texts = self._texts.drop_nulls().rename("text")
        counts = texts.value_counts(name="n").sort(["n", "text"], descending=[True, False])
        return counts.head(_MOST_CATEGORIES).rows(), len(counts)

    def _read(self, frame):
        """Numbers of a column, or days; NaN for whatever it does not hold, such as its dates."""
        name = self._column.name
        cells = read_cells(frame, [name], {name: self._kind} if self._kind else None)[0]
        foreign = cells.dates() != (self._kind == "date") if self._kind else False
        return np.where(foreign, np.nan, cells.values)[:, 0]

    def _parsed(self, text):
        """The number of a text, or None."""
        frame = pl.DataFrame({self._column.name: [text]})
        value = self._read(nw.from_native(frame, eager_only=True))[0]
        return float(value) if np.isfinite(value) else None

    def _rank(self, value):
        numbers, n = self._numbers, len(self._numbers)
        lower, upper = np.searchsorted(numbers, value), np.searchsorted(numbers, value, "right")
        if lower == n or upper == 0:
            return f"{'above' if lower == n else 'below'} all others ({self.holds()})"
        if lower >= n - upper:
            return f"higher than {share_text(lower / n)} of the others"
        return f"lower than {share_text(1 - upper / n)} of the others"

    def _shown(self, value):
        if self._kind != "date":
            return f"{value:,.6g}"
        whole = max(1, min(int(value), datetime.date.max.toordinal()))
        return datetime.date.fromordinal(whole).isoformat()

    def _histogram(self):
        """Bars of numbers, and a function: where a value is drawn."""
        low, high = np.quantile(self._numbers, [_OUTSIDE, 1 - _OUTSIDE])
        low, high = (low, high) if high > low else (low - 0.5, high + 0.5)
        counts, _ = np.histogram(np.clip(self._numbers, low, high), _BARS, (low, high))
        width = _WIDTH - 2 * _END

        def place(text):
            value = self._value(text) if text else None
            if value is None:
                return None
            share = (value - low) / (high - low)
            # What is beyond the bars is drawn at the edge.
            return _END + width * share if 0 <= share <= 1 else (5.0 if share < 0 else _WIDTH - 5)

        return _bars(_END + np.arange(_BARS) * width / _BARS, counts, width / _BARS - 1), place

    def _columns(self):
        """Bars of the commonest texts, and a function: where a value is drawn."""
        common, _ = self._most_common
        places = {text: k for k, (text, _) in enumerate(common)}
        n_common = len(common)
        # Two more places: one for other texts, one for those that never occur.
        step = _WIDTH / (n_common + 2)

        def place(text):
            if not text:
                return None
            others = n_common + (not (self._texts == text).any())
            return (places.get(text, others) + 0.45) * step

        counts = np.array([n for _, n in common])
        return _bars(np.arange(n_common) * step, counts, 0.9 * step), place


def _bars(left, counts, width):
    """Bars as one path; the root of a count is its height, so that rare values can be seen."""
    heights = (_BASE - 8) * np.sqrt(counts / max(counts.max(initial=0), 1))
    drawing = "".join(
        rectangles([x], [_BASE - height], width, height)
        for x, height in zip(left, heights, strict=True)
        if height > 0
    )
    return path(drawing, "dist-bar")
