"""Decimal commas and separated thousands, found column by column and read as plain numbers.

"3,50" shows that a comma is the decimal mark, "3.50" that the point is; "1,234" shows neither. A
column is read as most of its telling cells ask for, and a column without any as the others are.
Signs of money and per cent stay: they say something about the column a cell belongs to.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from unpermute.files._source import few

__all__ = ["Marks", "find_marks"]

_SIGN = r"(?:%|[$€£¥]|EUR|USD|GBP|CHF)"
_BEFORE, _AFTER = rf"^[+-]?(?:{_SIGN}[ \u00a0]?)?[+-]?", rf"(?:[ \u00a0]?{_SIGN})?$"
_GAP = r"['\u2019 \u00a0\u202f]"


def _number(digits):
    return _BEFORE + digits + _AFTER


# Cells that show which mark is the decimal one: it has another than three digits behind it, or
# groups of three digits before it.
_SHOWS = {
    ",": _number(rf"(?:\d+,(?:\d{{1,2}}|\d{{4,}})|0,\d+|\d{{1,3}}(?:(?:\.|{_GAP})\d{{3}})+,\d+)"),
    ".": _number(rf"(?:\d+\.(?:\d{{1,2}}|\d{{4,}})|0\.\d+|\d{{1,3}}(?:(?:,|{_GAP})\d{{3}})+\.\d+)"),
}
# Cells that are numbers once the mark is known; in groups without decimals only if the column is
# one of such numbers: 192.168.100.200 is none.
_FRACTION = {
    ",": _number(rf"(?:\d+|[1-9]\d{{0,2}}(?:(?:\.|{_GAP})\d{{3}})+),\d+"),
    ".": _number(rf"[1-9]\d{{0,2}}(?:(?:,|{_GAP})\d{{3}})+\.\d+"),
}
_GROUPED = {
    ",": _number(rf"[1-9]\d{{0,2}}(?:(?:\.|{_GAP})\d{{3}})+"),
    ".": _number(rf"[1-9]\d{{0,2}}(?:(?:,|{_GAP})\d{{3}})+"),
}
_BETWEEN = {",": rf"(\d)(?:\.|{_GAP})(\d)", ".": rf"(\d)(?:,|{_GAP})(\d)"}
_MARKED = rf"\d(?:[.,]|{_GAP})\d"
# Records that are looked at, evenly spaced, and how many times more cells must show one mark.
_LOOKED_AT = 20_000
_CLEARLY = 9
# Share of the cells of a column that must have been read so for it to be mentioned.
_TELLING = 0.1


@dataclass(frozen=True)
class Marks:
    """Decimal marks of the columns of a table.

    Attributes
    ----------
    own : dict of str to str or None
        What the cells of a column show; None if they show nothing.
    usual : str
        What the others are read with.
    """

    own: dict[str, str | None]
    usual: str

    def plain(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return a frame of texts with a point in every number and nothing between thousands."""
        return frame.with_columns(self._plain(series) for series in frame)

    def notes(self, before: pl.DataFrame, after: pl.DataFrame) -> list[str]:
        """Return sentences that say what was assumed."""
        named: dict[str, list[str]] = {",": [], ".": []}
        for name in before.columns:
            n_changed = int((before[name] != after[name]).sum() or 0)
            if n_changed > _TELLING * (before.height - before[name].null_count()):
                named[self.own[name] or self.usual].append(name)
        notes = [f"Read as decimal commas: {few(named[','])}."] if named[","] else []
        if named["."]:
            notes.append(f"Read as numbers with separated thousands: {few(named['.'])}.")
        return notes

    def _plain(self, series):
        mark = self.own[series.name] or self.usual
        if not series.str.contains(_MARKED).any():
            return series
        return _plain(series, mark, own=self.own[series.name] == mark or mark == ".")


def find_marks(frame: pl.DataFrame) -> Marks:
    """Return the decimal marks that the cells of a frame of texts show.

    Examples
    --------
    >>> import polars as pl
    >>> from unpermute.files._marks import find_marks
    >>> frame = pl.DataFrame({"price": ["1.234,50", "3,20"], "n": ["1", "2"]})
    >>> find_marks(frame).plain(frame)["price"].to_list()
    ['1234.50', '3.20']
    """
    own = _decimal_marks(frame)
    return Marks(own, "," if set(own.values()) - {None} == {","} else ".")


def _decimal_marks(frame):
    """Return the decimal mark that the cells of each column show, None if they do not."""
    rows = np.unique(np.linspace(0, frame.height - 1, _LOOKED_AT).astype(np.int64))
    sample = frame[rows] if frame.height > _LOOKED_AT else frame
    marks: dict[str, str | None] = {}
    for series in sample:
        n = {mark: int(series.str.contains(shows).sum() or 0) for mark, shows in _SHOWS.items()}
        mark = max(n, key=lambda each: n[each])
        marks[series.name] = mark if n[mark] > _CLEARLY * (sum(n.values()) - n[mark]) else None
    return marks


def _plain(series, mark, *, own):
    """Return cells that are numbers with this decimal mark as plain numbers."""
    is_number = series.str.contains(_FRACTION[mark])
    if own:
        is_number |= series.str.contains(_GROUPED[mark])
    plain = series.str.replace_all(_BETWEEN[mark], "${1}${2}")
    if mark == ",":
        plain = plain.str.replace(r"(\d),(\d)", "${1}.${2}")
    return plain.zip_with(is_number.fill_null(False), series).alias(series.name)
