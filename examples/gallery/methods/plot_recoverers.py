"""
Six recoverers
==============

A recoverer is given the basis of a subspace and a shuffled vector. The picture shows how many
vectors each method recovers as more entries move, and what it costs.
:doc:`/choosing-a-recoverer` tells when to choose which.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

from unpermute.datasets import make_permuted_subspaces
from unpermute.recover import recover_vectors

methods, ratios = ["search", "pl", "lsrf", "l1", "aiem", "branch-and-bound"], [0.2, 0.5, 0.8]
share, seconds = np.zeros((6, 3)), np.zeros(6)
for j, ratio in enumerate(ratios):
    data = make_permuted_subspaces(
        1, 20, 40, 3, outlier_ratio=1.0, shuffled_ratio=ratio, random_state=0
    )
    for i, method in enumerate(methods):
        start = time.process_time()
        result = recover_vectors(data.X, data.bases[0], method=method, random_state=0)
        seconds[i] += time.process_time() - start
        error = np.linalg.norm(result.fitted - data.X_clean, axis=1)
        share[i, j] = np.mean(error < 0.05 * np.linalg.norm(data.X_clean, axis=1))

fig, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
for i, method in enumerate(methods):
    axes[0].plot(ratios, share[i] + 0.006 * (i - 2.5), "o-", label=method, markersize=4)
axes[0].set(xlabel="share of moved entries", ylabel="share recovered", title="rank 3, 40 entries")
axes[0].legend(frameon=False, fontsize=8)
axes[1].barh(methods, 1000 * seconds / 60, color="#0072b2")
axes[1].set(xscale="log", xlabel="milliseconds per vector")
axes[1].invert_yaxis()
