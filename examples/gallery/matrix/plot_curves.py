"""
Smooth curves, shuffled and repaired
====================================

The eye sees at once which entries of a smooth curve are out of place. The repair knows nothing
about smoothness: it uses only that the clean curves lie near a subspace of four dimensions.
"""

# %%
# 120 curves, each a mixture of the same four waves. In every fourth curve, 18 of 48 values change
# places.
import matplotlib.pyplot as plt
import numpy as np

from unpermute import PMSDR
from unpermute.plot import RepairDisplay

rng = np.random.default_rng(3)
times = np.linspace(0, 1.5 * np.pi, 48)
waves = np.cos(np.arange(1, 5)[:, None] * times + rng.uniform(0, 2 * np.pi, size=(4, 1)))
weights = rng.standard_normal((120, 4))
weights = weights[np.argsort(np.arctan2(weights[:, 0], weights[:, 1]))]
truth = weights @ waves + 0.02 * rng.standard_normal((120, 48))

observed = truth.copy()
for row in range(0, 120, 4):
    places = rng.choice(48, size=18, replace=False)
    observed[row, np.sort(places)] = truth[row, places]

# %%
# Nothing needs to be set. The little arrows mark the curves that were changed.
model = PMSDR(random_state=0)
repaired = model.fit_transform(observed)
RepairDisplay.from_predictions(observed, repaired, truth=truth)

# %%
# One curve in detail: all its values are still there, and the repair moves them.
row = 40
fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
moved = observed[row] != truth[row]
ax.plot(truth[row], color="#9a9a9a", linewidth=6, alpha=0.5, label="truth")
ax.plot(np.flatnonzero(moved), observed[row, moved], "x", color="#d55e00", label="observed")
ax.plot(repaired[row], ".-", color="#0072b2", linewidth=1, label="repaired")
ax.set(xlabel="entry", title=f"Curve {row}: {moved.sum()} of 48 values were moved")
ax.legend(frameon=False)

# %%
print(model.trials_)
