"""Decimal commas and separated thousands, found column by column and read as plain numbers.

"3,50" shows that a comma is the decimal mark, "3.50" that the point is; "1,234" shows neither. A
column is read as most of its telling cells ask for, and a column without any as the others are.
Signs of money and per cent stay: they say something about the column a cell belongs to.
"""

from dataclasses import dataclass, field

import numpy as np
import polars as pl

from unpermute.files._source import few

__all__ = ["Marks", "find_marks"]

_SIGNS = {"money": r"(?:[$€£¥]|EUR|USD|GBP|CHF)", "per cent": "%"}
_SIGN = rf"(?:{'|'.join(_SIGNS.values())})"
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
# Cells that are looked at in one call: a call for each of thousands of short columns takes long.
_AT_ONCE = 1 << 20
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
    signed : dict of str to list of str
        Columns of which many cells have a sign of money or per cent, by what they are called.
    """

    own: dict[str, str | None]
    usual: str
    signed: dict[str, list[str]] = field(default_factory=dict)

    def plain(self, frame: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
        """Return a frame of texts with a point in every number and nothing between thousands.

        Beside it are sentences that say what was assumed.
        """
        changed: list[pl.Series] = []
        named: dict[str, list[str]] = {",": [], ".": []}
        for (mark, own), names in self._alike(frame.columns).items():
            numbers = f"{_FRACTION[mark]}|{_GROUPED[mark]}" if own else _FRACTION[mark]
            n_read = _n_matching(frame[names], numbers)
            some = [name for name in names if n_read[name]]
            if some:
                changed += frame[some].select(_plain(pl.all(), numbers, mark)).get_columns()
                named[mark] += [n for n in some if n_read[n] > _TELLING * frame[n].count()]
        notes = [f"Read as decimal commas: {few(named[','])}."] if named[","] else []
        if named["."]:
            notes.append(f"Read as numbers with separated thousands: {few(named['.'])}.")
        notes += [f"Read as {what}: {few(names)}." for what, names in self.signed.items() if names]
        return frame.with_columns(changed), notes

    def _alike(self, columns):
        """Return columns that are read alike, by decimal mark and whether it is surely theirs."""
        alike: dict[tuple[str, bool], list[str]] = {}
        for name in columns:
            mark = self.own[name] or self.usual
            alike.setdefault((mark, mark in (self.own[name], ".")), []).append(name)
        return alike


def find_marks(frame: pl.DataFrame) -> Marks:
    """Return the decimal marks that the cells of a frame of texts show.

    Examples
    --------
    >>> import polars as pl
    >>> from unpermute.files._marks import find_marks
    >>> frame = pl.DataFrame({"price": ["1.234,50", "3,20"], "n": ["1", "2"]})
    >>> plain, notes = find_marks(frame).plain(frame)
    >>> plain["price"].to_list(), notes
    (['1234.50', '3.20'], ['Read as decimal commas: price.'])
    """
    rows = np.unique(np.linspace(0, frame.height - 1, _LOOKED_AT).astype(np.int64))
    sample = frame[rows] if frame.height > _LOOKED_AT else frame
    own = _decimal_marks(sample)
    usual = "," if set(own.values()) - {None} == {","} else "."
    return Marks(own, usual, {what: _signed(sample, sign) for what, sign in _SIGNS.items()})


def _decimal_marks(frame):
    """Return the decimal mark that the cells of each column show, None if they do not."""
    comma, point = (_n_matching(frame, _SHOWS[mark]) for mark in ",.")
    return {name: _clearer_mark(comma[name], point[name]) for name in frame.columns}


def _signed(frame, sign):
    """Return the columns of which many cells are numbers with a sign before or behind."""
    number = r"[+-]?\d[\d.,'\u2019 \u00a0\u202f]*"
    n_signed = _n_matching(frame, rf"^[+-]?{sign}[ \u00a0]?{number}$|^{number}{sign}$")
    return [name for name, n in n_signed.items() if n and n > _TELLING * frame[name].count()]


def _clearer_mark(n_comma, n_point):
    if max(n_comma, n_point) <= _CLEARLY * min(n_comma, n_point):
        return None
    return "," if n_comma > n_point else "."


def _n_matching(frame, pattern):
    """Return how many cells of every column match, by name."""
    counts = []
    step = max(1, _AT_ONCE // max(frame.height, 1))
    for first in range(0, frame.width, step):
        names = frame.columns[first : first + step]
        cells = frame[names].unpivot()["value"]
        matching = cells.str.contains(pattern).fill_null(False).to_numpy()
        counts += matching.reshape(len(names), -1).sum(axis=1).tolist()
    return dict(zip(frame.columns, counts, strict=True))


def _plain(cells, numbers, mark):
    """Return cells that are numbers with this decimal mark as plain numbers."""
    plain = cells.str.replace_all(_BETWEEN[mark], "${1}${2}")
    if mark == ",":
        plain = plain.str.replace(r"(\d),(\d)", "${1}.${2}")
    return pl.when(cells.str.contains(numbers)).then(plain).otherwise(cells).name.keep()
