"""
How a confidence is measured
============================

The model shuffles some of its own clean vectors and repairs them. Because the answer is known
for these trials, they tell how far a repair can be trusted on *this* matrix.
"""

from unpermute import PMSDR
from unpermute.datasets import make_permuted_subspaces
from unpermute.plot import ConfidenceDisplay

data = make_permuted_subspaces(1, 250, 16, 5, outlier_ratio=0.2, snr_db=14, random_state=0)
model = PMSDR(random_state=0).fit(data.X)
print(model.trials_)

# %%
# Stated confidence of the trials against the share that came closer to the truth:
ConfidenceDisplay.from_estimator(model)
