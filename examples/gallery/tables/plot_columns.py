"""
A column shuffled against the rest
==================================

Rows of one column lost their order, for instance because two exports were sorted differently.
The other columns tell which value belongs to which row.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from unpermute.table import repair

rng = np.random.default_rng(0)
length, width, height = rng.uniform(5, 50, (3, 300))
truth = pd.DataFrame(
    {
        "length": length,
        "width": width,
        "height": height,
        "volume": length * width * height,
        "weight": 0.7 * length * width * height * np.exp(3e-4 * rng.standard_normal(300)),
    }
).round(3)

# %%
# 40% of the weights change places.
damaged = truth.copy()
rows = rng.choice(300, 120, replace=False)
damaged.loc[rows, "weight"] = truth.loc[rng.permutation(rows), "weight"].to_numpy()

result = repair(damaged, vectors="columns")
print(result.summary["sentence"])
print("wrong weights before:", (damaged["weight"] != truth["weight"]).sum())
print("wrong weights after: ", (result.frame["weight"] != truth["weight"]).sum())

# %%
fig, axes = plt.subplots(1, 2, figsize=(8, 3.6), sharey=True, layout="constrained")
for ax, (title, frame, color) in zip(
    axes, [("observed", damaged, "#d55e00"), ("repaired", result.frame, "#0072b2")], strict=True
):
    ax.plot(truth["volume"], frame["weight"], ".", color=color)
    ax.set(title=title, xlabel="volume of the parcel")
axes[0].set_ylabel("weight")
