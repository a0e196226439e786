"""``unpermute demo``: shuffle, repair without looking at the truth, then compare with it."""

import json
import time
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from unpermute import PMSDR, __version__
from unpermute.cli._progress_bars import draw_progress
from unpermute.datasets import make_permuted_subspaces
from unpermute.metrics import recovery_error, subspace_clustering_error

__all__ = ["DemoSummary", "most_damaged", "run", "sparkline", "summarise"]

_N_SUBSPACES, _RANK = 5, 5
_SHUFFLED_RATIO = 0.3
_SNR_DB = 40.0
_TITLE_WIDTH = 12


class Pens(NamedTuple):
    """Characters to draw with: nine levels of a bar, and the mark of a wrong entry."""

    bars: str
    mark: str


_UNICODE, _ASCII = Pens(" ▁▂▃▄▅▆▇█", "×"), Pens(" .:-=+*%#", "x")


@dataclass(frozen=True)
class DemoSummary:
    """How the repair compares with the truth.

    An entry is in the wrong place if its value differs by more than three standard deviations of
    the noise from the value that belongs there.
    """

    n_vectors: int
    n_shuffled: int
    n_found: int
    n_false_alarms: int
    n_uncertain: int
    n_subspaces: int
    n_subspaces_found: int
    n_right_subspace: int
    n_entries: int
    n_wrong_entries_before: int
    n_wrong_entries_after: int
    error_before: float
    error_after: float
    error_of_noise: float
    seconds: float


def run(*, seed: int, as_json: bool) -> None:
    """Run the demonstration and print it."""
    data = _draw_data(seed)
    model = PMSDR(random_state=seed)
    with draw_progress():
        start = time.perf_counter()
        X_fixed = model.fit_transform(data.X)
        seconds = time.perf_counter() - start
    summary = summarise(data, X_fixed, model, seconds)
    if as_json:
        print(json.dumps({"version": __version__, "seed": seed} | asdict(summary), indent=2))
    else:
        _show(Console(highlight=False), data, X_fixed, summary)


def _draw_data(seed):
    return make_permuted_subspaces(
        _N_SUBSPACES,
        120,
        50,
        _RANK,
        outlier_ratio=0.3,
        shuffled_ratio=_SHUFFLED_RATIO,
        snr_db=_SNR_DB,
        random_state=seed,
    )


def summarise(data, X_fixed, model, seconds) -> DemoSummary:
    """Compare a repaired matrix, and what the fitted model says of it, with the truth in `data`."""
    n_vectors = len(data.X)
    in_order = np.take_along_axis(data.X, data.permutations, axis=1)
    outlier_mask = model.outlier_mask_
    clustering_error = subspace_clustering_error(data.labels, model.labels_)
    return DemoSummary(
        n_vectors=n_vectors,
        n_shuffled=int(data.outlier_mask.sum()),
        n_found=int((outlier_mask & data.outlier_mask).sum()),
        n_false_alarms=int((outlier_mask & ~data.outlier_mask).sum()),
        n_uncertain=int((model.status_ == "uncertain").sum()),
        n_subspaces=len(np.unique(data.labels)),
        n_subspaces_found=len(model.bases_),
        n_right_subspace=round(n_vectors * (1 - clustering_error)),
        n_entries=data.X.size,
        n_wrong_entries_before=int(misplaced(data, data.X).sum()),
        n_wrong_entries_after=int(misplaced(data, X_fixed).sum()),
        error_before=recovery_error(data.X_clean, data.X),
        error_after=recovery_error(data.X_clean, X_fixed),
        error_of_noise=recovery_error(data.X_clean, in_order),
        seconds=round(seconds, 3),
    )


def misplaced(data, X):
    """Return a mask of the entries of `X` whose value belongs elsewhere."""
    in_order = np.take_along_axis(data.X, data.permutations, axis=1)
    # Every vector has length 1, so this is the standard deviation of the noise of an entry.
    noise_sd = 10 ** (-_SNR_DB / 20) / np.sqrt(X.shape[1])
    return np.abs(X - in_order) > 3 * noise_sd


def most_damaged(data) -> int:
    """Return the vector with the most misplaced entries; how well it was repaired plays no role."""
    return int(misplaced(data, data.X).sum(axis=1).argmax())


def sparkline(values, lowest: float, highest: float, bars: str = _UNICODE.bars) -> tuple[str, str]:
    """Draw one bar per value, two lines high: return the upper line and the lower one.

    Examples
    --------
    >>> from unpermute.cli._demo import sparkline
    >>> for line in sparkline([0.0, 1.0, 7.0, 15.0], 0.0, 15.0):
    ...     print(line)
       █
    ▁▂██
    """
    half = len(bars) - 1
    heights = 1 + (np.asarray(values) - lowest) / (highest - lowest) * (2 * half - 1)
    levels = np.rint(heights).astype(int)
    upper = "".join(bars[max(level - half, 0)] for level in levels)
    return upper, "".join(bars[min(level, half)] for level in levels)


def _show(console, data, X_fixed, summary):
    console.print(
        f"\n{summary.n_vectors} vectors of {data.X.shape[1]} entries from {_N_SUBSPACES} subspaces"
        f" of dimension {_RANK}, with a little noise; in {summary.n_shuffled} of them,"
        f" {_SHUFFLED_RATIO:.0%} of the entries were shuffled. The repair was given the vectors and"
        " nothing else; the truth was used only for what follows."
    )
    console.print(_picture(data, X_fixed, console.width - _TITLE_WIDTH, _pens(console.encoding)))
    console.print(_table(summary))
    console.print(
        "\nNext: PMSDR().fit_transform(X) repairs a matrix of your own, one vector per row"
        " (from unpermute import PMSDR). unpermute demo --seed 1 draws other vectors."
    )


def _pens(encoding):
    try:
        "".join(_UNICODE).encode(encoding)
    except (LookupError, UnicodeEncodeError):
        return _ASCII
    return _UNICODE


def _picture(data, X_fixed, width, pens):
    row = most_damaged(data)
    damaged = misplaced(data, data.X)[row]
    shown = _most_damaged_stretch(damaged, width)
    lines = [
        ("true", data.X_clean[row], np.zeros_like(damaged)),
        ("observed", data.X[row], damaged),
        ("repaired", X_fixed[row], misplaced(data, X_fixed)[row]),
    ]
    lowest = min(values.min() for _, values, _ in lines)
    highest = max(values.max() for _, values, _ in lines)
    text = Text(_caption(row, shown, len(damaged), pens.mark))
    for name, values, wrong in lines:
        # The marks repeat in characters what the colours say, for those who see none.
        styles = np.where(wrong, "bold red", np.where(damaged, "green", ""))[shown]
        upper, lower = sparkline(values[shown], lowest, highest, pens.bars)
        marks = "".join(np.where(wrong[shown], pens.mark, " "))
        for title, characters in [("", upper), (name, lower), ("", marks)]:
            text.append(f"\n  {title:<{_TITLE_WIDTH - 2}}")
            _append_styled(text, characters, styles)
    return text


def _most_damaged_stretch(damaged, width):
    """Return the slice of at most `width` neighbouring entries with the most damage."""
    width = min(max(width, 1), len(damaged))
    counts = np.convolve(damaged, np.ones(width), mode="valid")
    start = int(counts.argmax())
    return slice(start, start + width)


def _caption(row, shown, n_entries, mark):
    part = ""
    if shown.stop - shown.start < n_entries:
        part = f", entries {shown.start} to {shown.stop - 1} of {n_entries}"
    return (
        f"\nThe vector with the most damage, number {row}{part};"
        f" {mark} marks entries out of place:\n"
    )


def _append_styled(text, characters, styles):
    for character, style in zip(characters, styles, strict=True):
        text.append(character, style=str(style))


def _table(summary):
    table = Table("", "before", "after", box=None, pad_edge=False, padding=(0, 3, 0, 2))
    n = summary.n_shuffled
    rows = [
        ("shuffled vectors found", "", f"{summary.n_found} of {n}"),
        ("false alarms", "", f"{summary.n_false_alarms} of {summary.n_vectors - n}"),
        ("uncertain, left as they were", "", f"{summary.n_uncertain} of {summary.n_vectors}"),
        ("subspaces found", "", f"{summary.n_subspaces_found} of {summary.n_subspaces}"),
        ("vectors in the right subspace", "", f"{summary.n_right_subspace} of {summary.n_vectors}"),
        (
            f"entries out of place, of {summary.n_entries}",
            str(summary.n_wrong_entries_before),
            str(summary.n_wrong_entries_after),
        ),
        (
            f"relative error (noise alone: {summary.error_of_noise:.4f})",
            f"{summary.error_before:.4f}",
            f"{summary.error_after:.4f}",
        ),
        ("seconds, measured (compiling included)", "", f"{summary.seconds:.2f}"),
    ]
    for row in rows:
        table.add_row(*row)
    return table
