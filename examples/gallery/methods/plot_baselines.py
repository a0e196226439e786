"""
PMSDR beside other methods
==========================

Methods that know nothing about permutations treat a moved value as a wrong number. What they gain
depends on how many vectors there are and how many entries are wrong.
"""

import matplotlib.pyplot as plt
import numpy as np

from unpermute import PMSDR
from unpermute.baselines import UPCA, LowRankRepresentation, RobustPCA
from unpermute.datasets import make_permuted_subspaces

methods = {
    "PMSDR": PMSDR(random_state=0),
    "RobustPCA": RobustPCA(tol=1e-4),
    "LRR": LowRankRepresentation(norm="l1", tol=1e-3),
    "UPCA": UPCA(rank=9),
}
ratios, errors = [0.1, 0.2, 0.4], {name: [] for name in [*methods, "left alone"]}
for ratio in ratios:
    data = make_permuted_subspaces(
        3, 40, 40, 3, outlier_ratio=0.3, shuffled_ratio=ratio, random_state=0
    )
    hit = data.outlier_mask
    length = np.linalg.norm(data.X_clean[hit])
    for name, method in methods.items():
        recovered = method.fit_transform(data.X)
        errors[name].append(np.linalg.norm((recovered - data.X_clean)[hit]) / length)
    errors["left alone"].append(np.linalg.norm((data.X - data.X_clean)[hit]) / length)

fig, ax = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
for name, line in errors.items():
    style = {"linestyle": "--", "color": "#9a9a9a"} if name == "left alone" else {"marker": "o"}
    ax.plot(ratios, line, label=name, **style)
ax.set(xlabel="share of moved entries", ylabel="relative error of shuffled vectors", ylim=(0, None))
ax.legend(frameon=False)
