"""
How sure the repair of a table is
=================================

Every suspicious record has a confidence: the probability that all of its proposed repair is
right. Only records above ``min_confidence`` are changed; the others are listed.
"""

import numpy as np
from sklearn.datasets import load_wine

from unpermute.plot import ConfidenceDisplay
from unpermute.table import scan

table = load_wine(as_frame=True).data
rng = np.random.default_rng(0)
damaged = table.copy()
for row in rng.choice(len(table), 25, replace=False):
    columns = rng.choice(table.columns, 2, replace=False)
    damaged.loc[row, columns] = table.loc[row, columns[::-1]].to_numpy()

result = scan(damaged)
ConfidenceDisplay.from_result(result)

# %%
# The list of suspicious records, worst first:
result.vectors[["row", "status", "damaged", "confidence", "columns"]].head(8).round(3)
