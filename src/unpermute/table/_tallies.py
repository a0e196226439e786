"""Notes that count: those of several blocks of a table are added up, and told once."""

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Tally", "added_up"]

_SENTENCES = {
    "infinite": "Infinite values counted as missing: {count:,}.",
    "unfit": "Records left as they are because a value does not fit the type of its column:"
    " {count:,} ({columns}).",
    "partial": "Records of which only a part is certain, and put back: {count:,}. Other values of"
    " theirs look misplaced, too; a scan of the repaired table shows them.",
}


@dataclass(frozen=True)
class Tally:
    """A count that the user should know.

    Attributes
    ----------
    kind : {"infinite", "unfit", "partial"}
        What was counted: infinite values, records with a value of another type, or records of
        which a part was put back.
    count : int
        How many.
    columns : tuple of tuple
        Place of every column that is concerned, and what it is called.
    """

    kind: str
    count: int
    columns: tuple[tuple[int, str], ...] = ()

    @property
    def sentence(self) -> str:
        """The count in words."""
        columns = ", ".join(name for _, name in self.columns)
        return _SENTENCES[self.kind].format(count=self.count, columns=columns)


def added_up(tallies: Iterable[Tally]) -> list[Tally]:
    """Return one tally of each kind, in one order."""
    found: dict[str, Tally] = {}
    for tally in tallies:
        before = found.get(tally.kind, Tally(tally.kind, 0))
        columns = tuple(sorted({*before.columns, *tally.columns}))
        found[tally.kind] = Tally(tally.kind, before.count + tally.count, columns)
    return [found[kind] for kind in _SENTENCES if kind in found]
