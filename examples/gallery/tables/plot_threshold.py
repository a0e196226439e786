"""
Choosing a minimum confidence
=============================

A lower ``min_confidence`` repairs more records and makes more mistakes. Here the truth is
known, so both can be counted. On your own table, ``result.summary["trials"]`` counts right and
wrong repairs of records that were damaged on purpose.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

from unpermute.table import learn

table = load_breast_cancer(as_frame=True).data.iloc[:, :8]
clean, new = table.iloc[:300], table.iloc[300:].reset_index(drop=True)
rng = np.random.default_rng(0)
damaged = new.copy()
for row in rng.choice(len(new), 80, replace=False):
    columns = rng.choice(table.columns, 2, replace=False)
    damaged.loc[row, columns] = new.loc[row, columns[::-1]].to_numpy()

model = learn(clean)
thresholds = [0.5, 0.8, 0.9, 0.95, 0.99]
wrong, changed = [], []
for threshold in thresholds:
    result = model.repair(damaged, min_confidence=threshold)
    changed.append(result.summary["n_repaired"])
    wrong.append(int((result.frame != new).any(axis=1).sum()))

fig, ax = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
ax.plot(thresholds, changed, "o-", color="#0072b2", label="records changed")
ax.plot(thresholds, wrong, "o-", color="#d55e00", label="records still wrong")
ax.axhline((damaged != new).any(axis=1).sum(), color="#9a9a9a", linestyle="--", label="damaged")
ax.set(xlabel="min_confidence", ylim=(0, None))
ax.legend(frameon=False)
