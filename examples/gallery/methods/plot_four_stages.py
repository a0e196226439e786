"""
The four stages, one by one
===========================

The paper repairs a matrix in four stages. Each is a class or a function of its own, and each can be
looked at. :doc:`/concepts/four-stages` has the equations.
"""

import matplotlib.pyplot as plt
import numpy as np

from unpermute.classify import EliminationClassifier
from unpermute.cluster import SparseSubspaceClustering
from unpermute.datasets import make_permuted_subspaces
from unpermute.detect import SelfRepresentationDetector
from unpermute.metrics import subspace_clustering_error
from unpermute.recover import recover_vectors

data = make_permuted_subspaces(3, 50, 40, 3, outlier_ratio=0.2, random_state=0)

# %%
# **1. Detect.** A clean vector is a combination of a few others of its subspace; a shuffled one
# is not. The score of the detector tells them apart.
detector = SelfRepresentationDetector(contamination=int(data.outlier_mask.sum()))
flagged = detector.fit_predict(data.X) == -1
fig, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
values = detector.scores_
ax.hist(
    [values[~data.outlier_mask], values[data.outlier_mask]],
    bins=30,
    label=["clean", "shuffled"],
    color=["#0072b2", "#d55e00"],
)
ax.set(xlabel="score (larger is more normal)", ylabel="vectors")
ax.legend(frameon=False)

# %%
# **2. Cluster.** The clean vectors represent each other inside their subspace only: the matrix of
# coefficients, sorted by subspace, has blocks.
clean = data.X[~flagged]
clusterer = SparseSubspaceClustering(3, random_state=0).fit(clean)
order = np.argsort(data.labels[~flagged], kind="stable")
affinity = clusterer.affinity_matrix_
affinity = affinity.toarray() if hasattr(affinity, "toarray") else np.asarray(affinity)
fig, ax = plt.subplots(figsize=(3.6, 3.6), layout="constrained")
ax.imshow(np.sqrt(affinity[np.ix_(order, order)]), cmap="Blues")
ax.set(title="who represents whom", xticks=[], yticks=[])
print("clustering error:", subspace_clustering_error(data.labels[~flagged], clusterer.labels_))

# %%
# **3. Classify.** A shuffled vector belongs to the subspace in which elimination of its worst
# entries leaves the smallest angle.
classifier = EliminationClassifier(rank=3).fit(clean, clusterer.labels_)
labels = classifier.predict(data.X[flagged])
print("shuffled vectors per subspace:", np.bincount(labels))
distances = np.sort(-classifier.decision_function(data.X[flagged]), axis=1)
fig, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
ax.plot(distances[:, 1], "o", color="#9a9a9a", label="the next subspace")
ax.plot(distances[:, 0], "o", color="#0072b2", label="the nearest subspace")
ax.set(xlabel="shuffled vector", ylabel="distance $d_k$", yscale="log")
ax.legend(frameon=False)

# %%
# **4. Recover.** In its subspace, every value finds its place.
before, after = [], []
for k, basis in enumerate(classifier.bases_):
    own = np.flatnonzero(flagged)[labels == k]
    result = recover_vectors(data.X[own], basis, random_state=0)
    fixed = np.take_along_axis(data.X[own], result.permutations, axis=1)
    before += list(np.linalg.norm(data.X[own] - data.X_clean[own], axis=1))
    after += list(np.linalg.norm(fixed - data.X_clean[own], axis=1))
fig, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
ax.plot(np.sort(before)[::-1], color="#d55e00", label="before")
ax.plot(np.sort(after)[::-1], color="#0072b2", label="after")
ax.set(xlabel="shuffled vectors, worst first", ylabel="distance from the truth", ylim=(0, None))
ax.legend(frameon=False)
