"""Sphinx extension: compile all kernels before the gallery runs.

The first call of a kernel compiles it, once per version. In a fresh clone this would happen inside
the examples: their recorded times, and the picture that compares recoverers, would be wrong.
"""

import warnings

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_wine

from unpermute import PMSDR
from unpermute.baselines import UPCA, LowRankRepresentation, RobustPCA
from unpermute.classify import EliminationClassifier
from unpermute.cluster import SparseSubspaceClustering
from unpermute.datasets import make_permuted_subspaces
from unpermute.detect import SelfRepresentationDetector
from unpermute.recover import recover_vectors
from unpermute.table import audit, repair

__all__ = ["setup"]

METHODS = ("search", "pl", "lsrf", "l1", "aiem", "branch-and-bound")


def warm_up():
    """Call what the examples call, with small data."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _repair_matrices()
        _repair_tables()


def _repair_matrices():
    data = make_permuted_subspaces(2, 40, 30, 3, outlier_ratio=0.25, random_state=0)
    gaps = make_permuted_subspaces(
        2, 40, 30, 3, outlier_ratio=0.25, missing_ratio=0.1, random_state=0
    )
    for output in ("values", "blend"):
        PMSDR(output=output, random_state=0).fit(data.X)
    PMSDR(random_state=0).fit(gaps.X)
    one = make_permuted_subspaces(1, 20, 30, 3, outlier_ratio=1.0, random_state=0)
    for method in METHODS:
        recover_vectors(one.X, one.bases[0], method=method, random_state=0)
    SelfRepresentationDetector(contamination=20).fit_predict(data.X)
    clean = data.X[~data.outlier_mask]
    labels = SparseSubspaceClustering(2, random_state=0).fit_predict(clean)
    EliminationClassifier(rank=3).fit(clean, labels).predict(data.X[data.outlier_mask])
    for baseline in (RobustPCA(tol=1e-2), LowRankRepresentation(tol=1e-2), UPCA(rank=6)):
        baseline.fit_transform(data.X)


def _repair_tables():
    rng = np.random.default_rng(0)
    length, width = rng.uniform(5, 50, (2, 200))
    towns = rng.choice(["Bergen", "Oslo"], 200)
    frame = pd.DataFrame({"length": length, "width": width, "area": length * width})
    # Tables with links between columns, with gaps, and with neither need kernels of their own.
    repair(_damaged(frame.assign(town=towns, country=np.where(towns == "Oslo", "N", "B"))))
    repair(_damaged(frame.assign(town=towns, gaps=np.where(length > 10, width, np.nan))))
    repair(_damaged(load_breast_cancer(as_frame=True).data.iloc[:200, :12]))
    repair(_damaged(load_wine(as_frame=True).data))
    moved = frame.assign(area=np.r_[rng.permutation(frame["area"][:50]), frame["area"][50:]])
    repair(moved, vectors="columns")
    audit(frame, ["area"], ratio=0.5, n_trials=1)


def _damaged(frame):
    """Exchange two columns in some rows."""
    damaged, columns = frame.copy(), list(frame.columns[1:3])
    damaged.loc[:9, columns] = frame.loc[:9, columns[::-1]].to_numpy()
    return damaged


def setup(app):
    """Register the extension; it goes before the gallery, which listens to the same event."""
    app.connect("builder-inited", lambda app: warm_up(), priority=100)
    return {"parallel_read_safe": True}
