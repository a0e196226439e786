"""
Sensor channels mixed up
========================

Sixteen sensors record one slow process. For some moments the channels arrive in the wrong
order. Every moment is a vector; its sixteen values are right, but some stand in the wrong
channels.
"""

import matplotlib.pyplot as plt
import numpy as np

from unpermute import PMSDR

rng = np.random.default_rng(0)
time = np.linspace(0, 8 * np.pi, 400)
sources = np.column_stack([np.sin(time), np.cos(0.37 * time), np.sin(0.61 * time + 1)])
truth = sources @ rng.standard_normal((3, 16)) + 0.03 * rng.standard_normal((400, 16))
observed = truth.copy()
broken = rng.choice(400, 60, replace=False)
for moment in broken:
    channels = rng.choice(16, 6, replace=False)
    observed[moment, np.sort(channels)] = truth[moment, channels]

model = PMSDR(random_state=0)
repaired = model.fit_transform(observed)

# %%
# Four of the channels. Moments that were repaired fall back into line.
fig, axes = plt.subplots(4, 2, figsize=(10, 5), sharex=True, sharey="row", layout="constrained")
for line in range(4):
    axes[line, 0].plot(observed[:, line], color="#d55e00", linewidth=0.8)
    axes[line, 1].plot(repaired[:, line], color="#0072b2", linewidth=0.8)
    axes[line, 0].set_ylabel(f"channel {line}")
axes[0, 0].set_title("observed")
axes[0, 1].set_title("repaired")
for ax in axes[-1]:
    ax.set_xlabel("moment")

# %%
# With 16 values per moment, many arrangements fit nearly as well as the right one. Uncertain
# moments are left alone.
found = model.outlier_mask_[broken].sum()
changed = (model.status_ == "recovered").sum()
print(f"{len(broken)} moments were mixed up; {found} were found, {changed} were repaired")
closer = np.sum(np.linalg.norm(repaired - truth, axis=1) < np.linalg.norm(observed - truth, axis=1))
print(f"{closer} repairs are closer to the truth than what was observed")
