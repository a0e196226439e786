"""
Time against the number of vectors
==================================

A model is learned from a few thousand vectors at most; judging more vectors takes time in
proportion to their number.
"""

import time

import matplotlib.pyplot as plt

from unpermute import PMSDR
from unpermute.datasets import make_permuted_subspaces

train = make_permuted_subspaces(3, 50, 30, 3, outlier_ratio=0.2, random_state=0)
model = PMSDR(random_state=0).fit(train.X)

sizes, seconds = [90, 240, 600], []
for size in sizes:
    data = make_permuted_subspaces(3, size // 3, 30, 3, outlier_ratio=0.05, random_state=1)
    start = time.process_time()
    model.transform(data.X)
    seconds.append(time.process_time() - start)

fig, ax = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
ax.loglog(sizes, seconds, "o-", color="#0072b2")
ax.set(xlabel="vectors of 30 entries", ylabel="CPU seconds of transform")
ax.set_xticks(sizes, [f"{size:,}" for size in sizes], minor=False)
