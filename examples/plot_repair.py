"""Draw ``docs/images/demo.png``: smooth curves of two subspaces, shuffled and repaired.

    pip install ".[plot]"
    python examples/plot_repair.py [FILE.png]

Smooth curves, because there the eye sees at once which entries are out of place; the repair knows
nothing about smoothness.
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from unpermute import PMSDR
from unpermute.metrics import recovery_error

N_ENTRIES, N_VECTORS, N_SHUFFLED, RANK, NOISE_SD = 48, 60, 18, 4, 0.01
# Okabe and Ito's colours, which everybody can tell apart.
GREY, VERMILION, BLUE = "#9a9a9a", "#d55e00", "#0072b2"


def main(file):
    rng = np.random.default_rng(3)
    truth = np.vstack([draw_curves(rng), draw_curves(rng)])
    observed = truth.copy()
    shuffled = np.sort(rng.permutation(len(truth))[: len(truth) // 4])
    for row in shuffled:
        places = rng.permutation(N_ENTRIES)[:N_SHUFFLED]
        observed[row, np.sort(places)] = observed[row, places]
    model = PMSDR(random_state=0)
    repaired = model.fit_transform(observed)
    print(f"shuffled vectors: {len(shuffled)}, found: {model.outlier_mask_[shuffled].sum()}")
    print(f"relative error before: {recovery_error(truth, observed):.3f}")
    print(f"relative error after:  {recovery_error(truth, repaired):.3f}")
    plot(truth, observed, repaired, shuffled).savefig(file, dpi=110)


def draw_curves(rng):
    """Draw noisy unit vectors from the span of `RANK` waves with phases of their own."""
    times = np.linspace(0, 1.5 * np.pi, N_ENTRIES)
    frequencies = np.arange(1, RANK + 1)[:, np.newaxis]
    waves = np.cos(frequencies * times + rng.uniform(0, 2 * np.pi, size=(RANK, 1)))
    coefficients = rng.standard_normal((N_VECTORS, RANK))
    # Neighbouring rows look alike in this order; the repair does not care.
    order = np.argsort(np.arctan2(coefficients[:, 0], coefficients[:, 1]))
    curves = coefficients[order] @ waves
    curves /= np.linalg.norm(curves, axis=1, keepdims=True)
    return curves + NOISE_SD * rng.standard_normal(curves.shape)


def plot(truth, observed, repaired, shuffled):
    matplotlib.rcParams.update(
        {"font.size": 12, "axes.spines.top": False, "axes.spines.right": False}
    )
    figure = Figure(figsize=(9.6, 6.6), layout="constrained")
    grid = figure.add_gridspec(2, 6, height_ratios=[1.5, 1])
    panels = [("Observed", observed), ("Repaired", repaired), ("Truth", truth)]
    for i, (title, matrix) in enumerate(panels):
        axes = figure.add_subplot(grid[0, 2 * i : 2 * i + 2])
        draw_matrix(axes, matrix, title)
        if i == 0:
            axes.set_ylabel("vector (marked: shuffled)", labelpad=14)
            axes.plot(np.full(len(shuffled), -1.5), shuffled, ">", ms=4, c=VERMILION, clip_on=False)
    # The two with the most damage, however well they were repaired.
    rows = shuffled[np.argsort(-np.abs(observed - truth)[shuffled].sum(axis=1))[:2]]
    for i, row in enumerate(rows):
        axes = figure.add_subplot(grid[1, 3 * i : 3 * i + 3])
        draw_vector(axes, truth[row], observed[row], repaired[row])
        axes.set_title(f"One vector: row {row}")
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def draw_matrix(axes, matrix, title):
    axes.imshow(matrix, cmap="cividis", aspect="auto", vmin=-0.3, vmax=0.3, interpolation="none")
    axes.set(title=title, xlabel="entry", yticks=[], xlim=(-0.5, matrix.shape[1] - 0.5))
    axes.spines[:].set_visible(False)


def draw_vector(axes, truth, observed, repaired):
    places = np.arange(len(truth))
    wrong = observed != truth
    axes.plot(places, truth, color=GREY, linewidth=6, alpha=0.5, label="truth")
    axes.plot(
        places[wrong], observed[wrong], "x", color=VERMILION, markeredgewidth=2, label="shuffled"
    )
    axes.plot(places, repaired, color=BLUE, linewidth=1.3, marker=".", label="repaired")
    axes.set_xlabel("entry")


if __name__ == "__main__":
    default = Path(__file__).parents[1] / "docs" / "images" / "demo.png"
    main(sys.argv[1] if len(sys.argv) > 1 else default)
