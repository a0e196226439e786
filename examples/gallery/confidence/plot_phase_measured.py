"""
The border, measured
====================

Success of two recoverers on a grid of ranks and shares of moved entries. ``lsrf``, the method
of the paper, drops entries that do not fit; ``search``, the default, also uses that every value
is still there.
"""

import matplotlib.pyplot as plt
import numpy as np

from unpermute.datasets import make_permuted_subspaces
from unpermute.plot import RecoverabilityDisplay
from unpermute.recover import recover_vectors

ranks, ratios, n = [2, 5, 8, 11, 14], [0.1, 0.3, 0.5, 0.7], 12
success = {"lsrf": np.zeros((4, 5)), "search": np.zeros((4, 5))}
for j, rank in enumerate(ranks):
    for i, ratio in enumerate(ratios):
        data = make_permuted_subspaces(
            1, n, 40, rank, outlier_ratio=1.0, shuffled_ratio=ratio, random_state=i
        )
        for method in success:
            starts = 300 if method == "search" else None
            result = recover_vectors(
                data.X, data.bases[0], method=method, max_starts=starts, random_state=0
            )
            error = np.linalg.norm(result.fitted - data.X_clean, axis=1)
            right = error < 0.05 * np.linalg.norm(data.X_clean, axis=1)
            success[method][i, j] = right.mean()

fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for ax, (method, grid) in zip(axes, success.items(), strict=True):
    RecoverabilityDisplay.from_predictions(ranks, ratios, grid, ax=ax)
    ax.set_title(method)
