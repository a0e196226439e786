"""What an experiment is: settings, one function that runs one of them, a figure, a comparison."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = [
    "Experiment",
    "Measurement",
    "Outcome",
    "Record",
    "Table",
    "format_setting",
    "parse_setting",
]

Setting = Mapping[str, Any]


class Measurement(NamedTuple):
    """One figure of one method; `seconds` is what the method took, without drawing the data."""

    method: str
    metric: str
    value: float
    seconds: float = float("nan")


class Record(NamedTuple):
    """A measurement and where it comes from: one figure of the CSV."""

    setting: str
    method: str
    seed: int
    metric: str
    value: float
    seconds: float
    version: str

    @property
    def parsed(self) -> dict[str, Any]:
        """The setting as a dict."""
        return parse_setting(self.setting)


class Table(NamedTuple):
    """Figures side by side, as text; the first `n_labels` columns say what a row is about."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    n_labels: int = 1
    caption: str = ""


@dataclass
class Outcome:
    """What a run gives: figures for the CSV, and arrays that only the figure needs."""

    measurements: list[Measurement]
    arrays: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper.

    Attributes
    ----------
    name : str
        As on the command line, which also names the files.
    title : str
        Heading of its section.
    protocol : str
        How it is run, what is given, what was chosen with the truth.
    settings : callable
        ``settings(quick)`` returns the settings, a list of dicts of numbers and words.
    n_seeds : callable
        ``n_seeds(quick)`` returns the number of draws of every setting.
    run : callable
        ``run(setting, seed, data_home)`` returns an :class:`Outcome`, or a list of measurements.
    tables : callable
        ``tables(records)`` returns the comparison with the published figures.
    figure : callable
        ``figure(records, arrays)`` returns a matplotlib figure.
    quick : str
        What ``--quick`` leaves out.
    check_data : callable, optional
        ``check_data(data_home)`` raises FileNotFoundError where data are missing.
    alone : bool
        Whether settings must run one after the other, for instance to measure time.
    """

    name: str
    title: str
    protocol: str
    settings: Callable[[bool], list[dict[str, Any]]]
    n_seeds: Callable[[bool], int]
    run: Callable[[Setting, int, str | None], Any]
    tables: Callable[[Sequence[Record]], list[Table]]
    figure: Callable[[Sequence[Record], Mapping[str, Any]], Any]
    quick: str
    check_data: Callable[[str | None], Any] | None = None
    alone: bool = False


def format_setting(setting: Setting) -> str:
    """Write a setting as one word per parameter, for a cell of the CSV.

    Examples
    --------
    >>> from unpermute.experiments._experiment import format_setting
    >>> format_setting({"n_subspaces": 2, "shuffled_ratio": 0.4})
    'n_subspaces=2 shuffled_ratio=0.4'
    """
    words = {name: str(value) for name, value in setting.items()}
    bad = [word for pair in words.items() for word in pair if " " in word or "=" in word]
    if bad:
        raise ValueError(f"a setting must not hold spaces or '=', but {bad[0]!r} does.")
    return " ".join(f"{name}={value}" for name, value in words.items())


def parse_setting(text: str) -> dict[str, Any]:
    """Undo :func:`format_setting`.

    Examples
    --------
    >>> from unpermute.experiments._experiment import parse_setting
    >>> parse_setting("sequence=cars1 ratio=0.4 n=2")
    {'sequence': 'cars1', 'ratio': 0.4, 'n': 2}
    """
    pairs = (word.split("=", 1) for word in text.split())
    return {name: _parse(value) for name, value in pairs}


def _parse(value: str) -> Any:
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value
