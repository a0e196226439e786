"""Pictures of records: heat maps, lines and boxes in one style, as PNG and SVG.

matplotlib is imported when something is drawn, so that benchmarks that only measure do without.
"""

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from unpermute.experiments._methods import ALONE, DEFAULT, NOTHING_GIVEN, PAPER, SUBSPACE
from unpermute.experiments._tables import PUBLISHED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["COLORS", "box_pairs", "empty", "heat_maps", "line_panels", "new_figure", "save"]

COLORS = {
    DEFAULT: "#0b62a4",
    SUBSPACE: "#58a5dc",
    NOTHING_GIVEN: "#d1345b",
    PAPER: "#c04a00",
    PUBLISHED: "#222222",
    ALONE: "#8a949f",
}
_OTHERS = ["#3d8f4f", "#8a5ba8", "#b58900", "#5f6d7c", "#d06ba0", "#2a9d9d", "#7a5230", "#9aa500"]
_DASHED = {PUBLISHED: "--", ALONE: ":"}


def new_figure(width: float, height: float) -> "Figure":
    """Return an empty figure (sizes in inches), without pyplot and its global state."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(figure: "Figure", folder: Path, name: str) -> None:
    """Write a figure as PNG and SVG; the same figure gives the same files."""
    from matplotlib import rc_context
    from PIL import Image  # matplotlib depends on it

    with rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        picture = BytesIO()
        figure.savefig(picture, dpi=110, format="png")
        # A palette makes the file three times smaller; such a picture has few colours.
        with Image.open(picture) as image:
            image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(
                folder / f"{name}.png", optimize=True
            )
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})


def heat_maps(
    panels: Mapping[str, Mapping[str, Mapping[tuple, float]]], *, x: str, y: str
) -> "Figure":
    """Draw one row of maps per method and one column per metric.

    Parameters
    ----------
    panels : dict of dict of dict
        ``panels[method][metric][x, y]`` is a value from 0 to 1; what is missing stays white.
    x, y : str
        Names of the axes.

    Returns
    -------
    Figure
        The figure.
    """
    methods = list(panels)
    metrics = list(dict.fromkeys(metric for rows in panels.values() for metric in rows))
    cells = [cell for rows in panels.values() for grid in rows.values() for cell in grid]
    xs, ys = sorted({cell[0] for cell in cells}), sorted({cell[1] for cell in cells})
    figure = new_figure(2.1 * len(metrics) + 1.2, 2.1 * len(methods) + 0.5)
    axes = figure.subplots(len(methods), len(metrics), squeeze=False, sharex=True, sharey=True)
    for i, method in enumerate(methods):
        for j, metric in enumerate(metrics):
            grid = panels[method].get(metric, {})
            values = np.array([[grid.get((a, b), np.nan) for a in xs] for b in ys])
            axes[i, j].imshow(
                values, vmin=0, vmax=1, origin="lower", aspect="auto", cmap="viridis_r"
            )
            axes[i, j].set_xticks(*_few_ticks(xs))
            axes[i, j].set_yticks(*_few_ticks(ys))
            if i == 0:
                axes[i, j].set_title(metric, fontsize=10)
        axes[i, 0].set_ylabel(f"{method}\n{y}", fontsize=9)
    for axis in axes[-1]:
        axis.set_xlabel(x, fontsize=9)
    figure.colorbar(axes[0, 0].images[0], ax=axes, shrink=0.8)
    return figure


def line_panels(
    panels: Mapping[str, Mapping[str, Mapping]],
    *,
    x: str,
    y: str,
    log: bool = False,
    labels: Sequence[str] | None = None,
) -> "Figure":
    """Draw one panel per title with one line per method: ``panels[title][method][x]``."""
    figure = new_figure(4.2 * len(panels) + 0.6, 4.2)
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    methods = list(dict.fromkeys(method for lines in panels.values() for method in lines))
    styles = _styles(methods)
    for axis, (title, lines) in zip(axes, panels.items(), strict=True):
        for method, points in lines.items():
            xs = sorted(points)
            axis.plot(xs, [points[a] for a in xs], label=method, **styles[method])
        axis.set_title(title, fontsize=10)
        axis.set_xlabel(x)
        if log:
            axis.set_xscale("log")
            axis.set_yscale("log")
            sizes = sorted({a for points in lines.values() for a in points})
            axis.set_xticks(sizes, [f"{a:g}" for a in sizes])
            axis.set_xticks([], minor=True)
        if labels is not None:
            axis.set_xticks(range(len(labels)), labels, rotation=30, ha="right", fontsize=8)
        axis.grid(alpha=0.25)
    axes[0].set_ylabel(y)
    handles: dict = {}
    for axis in axes:
        handles.update(zip(*axis.get_legend_handles_labels()[::-1], strict=True))
    figure.legend(list(handles.values()), list(handles), loc="outside right upper", fontsize=8)
    return figure


def box_pairs(groups: Mapping[str, Mapping[str, Sequence[float]]], *, y: str) -> "Figure":
    """Draw the spread of a figure: ``groups[title][method]`` is a list of values."""
    figure = new_figure(2.4 * len(groups) + 1.5, 4.0)
    axes = figure.subplots(1, len(groups), squeeze=False, sharey=True)[0]
    styles = _styles(dict.fromkeys(method for methods in groups.values() for method in methods))
    shown: dict = {}
    for axis, (title, methods) in zip(axes, groups.items(), strict=True):
        boxes = axis.boxplot(
            list(methods.values()), patch_artist=True, showmeans=True, widths=0.6, whis=(5, 95),
            flierprops=dict(markersize=2.5, alpha=0.5),
            meanprops=dict(marker="D", markerfacecolor="white", markeredgecolor="black", ms=5),
            medianprops=dict(color="black"),
        )  # fmt: skip
        for box, method in zip(boxes["boxes"], methods, strict=True):
            box.set_facecolor(styles[method]["color"])
            box.set_alpha(0.6)
            shown.setdefault(method, box)
        axis.set_title(title, fontsize=10)
        axis.set_xticks([])
        # Most values are 0 or close to it, a few are not: the scale shows both.
        axis.set_yscale("symlog", linthresh=0.01, linscale=0.7)
        axis.grid(axis="y", alpha=0.25)
    axes[0].set_ylabel(y)
    figure.legend(list(shown.values()), list(shown), loc="outside lower left", ncols=3, fontsize=8)
    return figure


def empty(words: str = "Nothing was measured.") -> "Figure":
    """Return a figure that says why there is none."""
    figure = new_figure(4.0, 1.0)
    figure.text(0.5, 0.5, words, ha="center", va="center")
    return figure


def _styles(methods):
    others = iter(_OTHERS * 4)
    styles = {}
    for method in methods:
        color = COLORS.get(method) or next(others)
        styles[method] = dict(color=color, linestyle=_DASHED.get(method, "-"), marker="o", ms=4)
        if method.endswith("simulated"):  # circles around the curves that claim to meet them
            styles[method] |= dict(color="black", linestyle="none", mfc="none", ms=8, zorder=5)
    return styles


def _few_ticks(values):
    step = max(1, len(values) // 5)
    places = list(range(0, len(values), step))
    return places, [str(values[i]) for i in places]
