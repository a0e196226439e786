"""
Three outputs: values, subspace, blend
======================================

``values`` moves observed values and invents nothing. ``subspace`` returns the vector that the
subspace predicts. ``blend`` weighs both and has the least expected error.
"""

import matplotlib.pyplot as plt
import numpy as np

from unpermute import PMSDR
from unpermute.datasets import make_permuted_subspaces

levels = [12, 20, 30]
errors = {"values": [], "subspace": [], "blend": []}
alone = []
for snr_db in levels:
    data = make_permuted_subspaces(1, 60, 20, 2, outlier_ratio=0.25, snr_db=snr_db, random_state=1)
    hit = data.outlier_mask
    length = np.linalg.norm(data.X_clean[hit])
    alone.append(np.linalg.norm((data.X - data.X_clean)[hit]) / length)
    for output, line in errors.items():
        repaired = PMSDR(output=output, random_state=0).fit_transform(data.X)
        line.append(np.linalg.norm((repaired - data.X_clean)[hit]) / length)

fig, ax = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
for output, line in errors.items():
    ax.plot(levels, line, "o-", label=output)
ax.plot(levels, alone, "--", color="#9a9a9a", label="left alone")
ax.set(
    xlabel="length of the vector over the noise (dB)", ylabel="relative error of shuffled vectors"
)
ax.set_ylim(bottom=0)
ax.legend(frameon=False)
