"""
How far from the subspace
=========================

A shuffled vector leaves its subspace; put back in order, it returns. The picture shows the
distance of every vector from its subspace before and after the repair.
"""

import numpy as np

from unpermute import PMSDR
from unpermute.datasets import make_permuted_subspaces
from unpermute.plot import SubspaceDisplay

data = make_permuted_subspaces(3, 80, 40, 4, outlier_ratio=0.25, snr_db=30, random_state=0)
model = PMSDR(random_state=0).fit(data.X)
display = SubspaceDisplay.from_estimator(model, data.X)

# %%
# The floor is the noise. Vectors that stay high were too uncertain to change.
before, after = display.distance[display.changed].mean(axis=0)
print(f"mean relative distance of the changed vectors: {before:.2f} before, {after:.2f} after")
print("status:", dict(zip(*np.unique(model.status_, return_counts=True), strict=True)))
