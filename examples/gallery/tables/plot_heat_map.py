"""
Where the cells of a table moved
================================

``result.plot()`` shows at a glance which columns and which stretch of a table are concerned.
That often tells how the damage happened.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer

from unpermute.table import repair

table = load_breast_cancer(as_frame=True).data.iloc[:, :12].copy()

# %%
# An import exchanged two columns between rows 200 and 260, and a few records elsewhere had their
# fields mixed up.
damaged = table.copy()
swapped = ["mean texture", "mean perimeter"]
damaged.loc[200:259, swapped] = table.loc[200:259, swapped[::-1]].to_numpy()
rng = np.random.default_rng(0)
for row in rng.choice(np.r_[:180, 300:569], 20, replace=False):
    columns = rng.choice(table.columns, 2, replace=False)
    damaged.loc[row, columns] = table.loc[row, columns[::-1]].to_numpy()

result = repair(damaged)
result.plot()

# %%
# In a notebook, a result shows itself as a card.
result  # noqa: B018

# %%
# How many cells are wrong, before and after:
print("wrong cells before:", int((damaged != table).sum().sum()))
print("wrong cells after: ", int((result.frame != table).sum().sum()))
