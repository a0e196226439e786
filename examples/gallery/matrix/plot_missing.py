"""
Missing entries
===============

Vectors may have gaps (NaN). A gap moves with the other values and stays a gap: nothing is
filled in.
"""

import matplotlib.pyplot as plt
import numpy as np

from unpermute import PMSDR
from unpermute.datasets import make_permuted_subspaces

ratios, errors = [0.0, 0.1, 0.2], []
for ratio in ratios:
    data = make_permuted_subspaces(
        2, 60, 40, 3, outlier_ratio=0.25, missing_ratio=ratio, random_state=0
    )
    repaired = PMSDR(random_state=0).fit_transform(data.X)
    assert np.isnan(repaired).sum() == np.isnan(data.X).sum()
    both = ~np.isnan(data.X_clean) & ~np.isnan(repaired)
    errors.append(
        [
            np.sqrt(np.nansum((matrix - data.X_clean)[both] ** 2) / np.nansum(data.X_clean**2))
            for matrix in (data.X, repaired)
        ]
    )

fig, ax = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
ax.plot(ratios, np.array(errors)[:, 0], "o-", color="#d55e00", label="observed")
ax.plot(ratios, np.array(errors)[:, 1], "o-", color="#0072b2", label="repaired")
ax.set(
    xlabel="share of missing entries",
    ylabel="relative error of the entries present",
    ylim=(0, None),
)
ax.legend(frameon=False)
