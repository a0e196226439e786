"""
Repair a matrix
===============

Each row of a matrix is a vector: a curve, an image, the readings of all sensors at one moment.
Some rows were shuffled. :class:`~unpermute.PMSDR` finds them and puts their values back, if the
clean rows lie near a few subspaces of low dimension.
"""

# %%
# A matrix with a known answer
# ----------------------------
# 300 vectors of 40 entries, near three subspaces of four dimensions. In 30% of the vectors, 40%
# of the entries were permuted.
import numpy as np

from unpermute import PMSDR
from unpermute.datasets import make_permuted_subspaces
from unpermute.metrics import recovery_error
from unpermute.plot import RepairDisplay, SubspaceDisplay

data = make_permuted_subspaces(3, 100, 40, 4, outlier_ratio=0.3, random_state=0)
X = data.X

# %%
# Fit
# ---
# Nothing needs to be set: which vectors are shuffled, the number of subspaces, their dimensions
# and the noise are estimated. If you know the number of subspaces, their rank or the share of
# shuffled vectors, pass ``n_subspaces``, ``rank`` or ``contamination``.
model = PMSDR(random_state=0)
X_fixed = model.fit_transform(X)
print("subspaces:", model.n_subspaces_, "of ranks", model.ranks_.tolist())
for status in ("clean", "recovered", "uncertain"):
    print(f"{status:>9}: {np.sum(model.status_ == status)}")

# %%
# Clean vectors are returned as they were. Recovered ones hold the observed values in a new order:
# ``permutations_`` says which.
row = np.flatnonzero(model.status_ == "recovered")[0]
same_values = np.array_equal(np.sort(X[row]), np.sort(X_fixed[row]))
print("the same values, moved:", same_values)
print(f"relative error before {recovery_error(data.X_clean, X):.3f}, after ", end="")
print(f"{recovery_error(data.X_clean, X_fixed):.3f}")

# %%
# Look at it
# ----------
RepairDisplay.from_predictions(X, X_fixed, truth=data.X_clean)

# %%
SubspaceDisplay.from_estimator(model, X)

# %%
# How sure is it?
# ---------------
# ``confidence_`` is the probability that a repair is closer to the truth than what was
# observed. It is measured on this matrix: clean vectors were shuffled and repaired, and the
# results compared with what they had been.
print(f"lowest confidence of a repair: {model.confidence_[model.outlier_mask_].min():.3f}")
print(model.trials_)

# %%
# Vectors below ``min_confidence`` (0.95) are called uncertain and are not changed.
#
# New vectors
# -----------
# A fitted model repairs vectors it has not seen.
new = make_permuted_subspaces(3, 100, 40, 4, outlier_ratio=0.3, random_state=0).X[:5]
print(model.transform(new).shape, model.predict(new))

# %%
# Where next
# ----------
# :doc:`/concepts/outputs` explains the three outputs, :doc:`/confidence` what a confidence
# promises, :doc:`/concepts/four-stages` the method, and :doc:`/large-data` files that do not
# fit into memory.
