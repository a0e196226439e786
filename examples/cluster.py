"""Repair a file of vectors on a Dask cluster; here with two workers on this machine."""

import numpy as np

from unpermute import PMSDR, distributed, stream
from unpermute.datasets import make_permuted_subspaces

if __name__ == "__main__":  # workers import this file, and must not start workers themselves
    data = make_permuted_subspaces(2, 1500, 30, 3, outlier_ratio=0.05, random_state=0)
    np.save("vectors.npy", data.X)

    model = PMSDR(random_state=0)
    options = {"n_workers": 2, "block_size": 1000}
    distributed.fit(model, "vectors.npy", max_vectors=300, **options)
    distributed.transform(model, "vectors.npy", "repaired", **options)

    parts = list(stream.read_results("repaired"))
    status = np.concatenate([part.status for part in parts])
    repaired = np.concatenate([part.X for part in parts])
    print(f"{len(parts)} partitions, {(status == 'recovered').sum()} vectors recovered")
    print(f"{data.outlier_mask.sum()} were shuffled")
    error = np.linalg.norm(repaired - data.X_clean) / np.linalg.norm(data.X_clean)
    print(f"relative error of the whole file: {error:.4f}")
