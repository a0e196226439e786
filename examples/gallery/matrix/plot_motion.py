"""
Trajectories of points in a film
================================

Points on one rigid body move together: their paths over a film lie in a subspace of at most four
dimensions. Some paths are scrambled in time. Where the Hopkins 155 sequences are installed
(``UNPERMUTE_DATA``), one of them is used; otherwise two turning bodies are simulated.
"""

import matplotlib.pyplot as plt
import numpy as np

from unpermute import PMSDR
from unpermute.datasets import load_hopkins155
from unpermute.metrics import recovery_error


def simulate(rng, n_points=60, n_frames=25):
    """Paths of the points of two turning bodies, as x and y of every frame."""
    paths = []
    for turn, shift in [(1.2, (2.0, 0.5)), (-1.8, (-1.0, 1.5))]:
        points, t = rng.standard_normal((n_points, 3)), np.linspace(0, 1, n_frames)
        c, s = np.cos(turn * t), np.sin(turn * t)
        x = points[:, :1] * c + points[:, 2:] * s + shift[0] * t
        y = points[:, 1:2] + 0.3 * points[:, :1] * s + shift[1] * t
        paths.append(np.stack([x, y], axis=2).reshape(n_points, -1))
    return np.vstack(paths) + 0.005 * rng.standard_normal((2 * n_points, 2 * n_frames))


rng = np.random.default_rng(1)
try:
    truth = load_hopkins155().sequences["1R2RC"].data[::4]
except FileNotFoundError:
    truth = simulate(rng)

# %%
# In a quarter of the paths, 40% of the coordinates change places.
observed = truth.copy()
shuffled = rng.choice(len(truth), len(truth) // 4, replace=False)
for row in shuffled:
    places = rng.choice(truth.shape[1], int(0.4 * truth.shape[1]), replace=False)
    observed[row, np.sort(places)] = truth[row, places]
model = PMSDR(random_state=0)
repaired = model.fit_transform(observed)
print(f"{len(truth)} paths of {truth.shape[1]} coordinates, {model.n_subspaces_} subspaces found")
print(f"relative error before: {recovery_error(truth, observed):.3f}")
print(f"relative error after:  {recovery_error(truth, repaired):.3f}")

# %%
# Twelve of the scrambled paths, drawn as curves in the picture plane.
fig, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained", sharex=True, sharey=True)
for ax, (title, matrix) in zip(
    axes, [("observed", observed), ("repaired", repaired), ("truth", truth)], strict=True
):
    for row in shuffled[:12]:
        ax.plot(matrix[row, ::2], matrix[row, 1::2], linewidth=1)
    ax.set(title=title, xticks=[], yticks=[])
