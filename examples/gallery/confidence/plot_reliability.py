"""
Does 0.97 mean 97%?
===================

``confidence_`` is the probability that a repair is closer to the truth than what was observed.
Here the truth is known, so the promise can be checked, on short and noisy vectors for which
hardly anything is certain. ``min_confidence=0`` has everything changed that is proposed.
"""

import numpy as np

from unpermute import PMSDR
from unpermute.datasets import make_permuted_subspaces
from unpermute.plot import ConfidenceDisplay

confidence, closer = [], []
for seed in range(5):
    data = make_permuted_subspaces(
        1, 200, 16, 5, outlier_ratio=0.3, snr_db=(10, 14)[seed % 2], random_state=seed
    )
    model = PMSDR(min_confidence=0.0, random_state=0)
    repaired = model.fit_transform(data.X)
    changed = np.any(repaired != data.X, axis=1)
    before, after = (np.linalg.norm(m - data.X_clean, axis=1)[changed] for m in (data.X, repaired))
    confidence.append(model.confidence_[changed])
    closer.append(after < before)

confidence, closer = np.concatenate(confidence), np.concatenate(closer)
ConfidenceDisplay.from_predictions(confidence, closer, n_bins=5, min_confidence=0.95)

# %%
# Points on the dashed line keep their promise. Vectors to the right of the red line are changed by
# default; the others would be left alone.
sure = confidence >= 0.95
print(
    f"{sure.sum()} repairs with a confidence of at least 0.95: {closer[sure].mean():.1%} are closer"
)
