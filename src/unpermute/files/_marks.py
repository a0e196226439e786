"""Decimal commas and separated thousands, found column by column and read as plain numbers.

"3,50" shows that a comma is the decimal mark, "3.50" that the point is; "1,234" shows neither. A
column is read as most of its telling cells ask for, and a column without any as the others are.
Signs of money and per cent stay: they say something about the column a cell belongs to.
"""

import numpy as np
import polars as pl

from unpermute.files._source import few

__all__ = ["with_points"]

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
# Records that are looked at, evenly spaced, and how many times more cells must show one mark.
_LOOKED_AT = 20_000
_CLEARLY = 9
# Share of the cells of a column that must have been read so for it to be mentioned.
_TELLING = 0.1


def with_points(frame: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Return a frame of texts with a point in every number and nothing between thousands.

    Examples
    --------
    >>> import polars as pl
    >>> from unpermute.files._marks import with_points
    >>> frame, notes = with_points(pl.DataFrame({"price": ["1.234,50", "3,20"], "n": ["1", "2"]}))
    >>> frame["price"].to_list(), notes
    (['1234.50', '3.20'], ['Read as decimal commas: price.'])
    """
    marked = [s.name for s in frame if s.str.contains(rf"\d(?:,|{_GAP})\d").any()]
    if not marked:
        return frame, []
    marks = _decimal_marks(frame)
    shown = set(marks.values()) - {None}
    usual = "," if shown == {","} else "."
    changed = []
    commas: list[str] = []
    grouped: list[str] = []
    for name in frame.columns:
        mark = marks[name] or usual
        if mark == "." and name not in marked:
            continue
        plain = _plain(frame[name], mark, own=marks[name] == mark or mark == ".")
        n_changed = int((plain != frame[name]).sum() or 0)
        if n_changed:
            changed.append(plain)
        if n_changed > _TELLING * (frame.height - frame[name].null_count()):
            (commas if mark == "," else grouped).append(name)
    notes = [f"Read as decimal commas: {few(commas)}."] if commas else []
    if grouped:
        notes.append(f"Read as numbers with separated thousands: {few(grouped)}.")
    return frame.with_columns(changed), notes


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
