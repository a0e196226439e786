"""The workloads of `gate.py`: every public entry point, at a size that takes little time.

Each is a function that prepares its data and returns what is measured.
"""

import tempfile
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from unpermute import PMSDR, stream
from unpermute.baselines import MRUC, LowRankRepresentation, RobustPCA
from unpermute.cluster import ElasticNetSubspaceClustering, SparseSubspaceClustering
from unpermute.datasets import make_permuted_subspaces
from unpermute.detect import SelfRepresentationDetector
from unpermute.files import Moves, read_table
from unpermute.recover import recover_vectors
from unpermute.table import audit, learn_sample, repair, scan

__all__ = ["WORKLOADS"]


def _vectors(n_subspaces, n_each, n_features=50, rank=5):
    return make_permuted_subspaces(
        n_subspaces, n_each, n_features, rank, outlier_ratio=0.3, random_state=0
    )


def _quietly(work):
    """Return the work without its warnings, which are about the data."""

    def run():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return work()

    return run


def fit(n_subspaces, n_each):
    X = _vectors(n_subspaces, n_each).X
    return _quietly(lambda: PMSDR(random_state=0).fit(X))


def fit_paper():
    data = _vectors(2, 60)
    model = PMSDR(
        2, 5, contamination=int(data.outlier_mask.sum()), clusterer="ssc", basis="svd",
        classifier="elimination", recoverer="lsrf", refine=False, output="subspace", random_state=0,
    )  # fmt: skip
    return _quietly(lambda: model.fit(data.X))


def fit_long_vectors():
    X = _vectors(1, 20, 400, 3).X
    return _quietly(lambda: PMSDR(random_state=0).fit(X))


def fit_images():
    X = load_digits().data[:150]
    rng = np.random.default_rng(0)
    for row in range(0, len(X), 4):
        places = rng.permutation(X.shape[1])[:26]
        X[row, places] = X[row, rng.permutation(places)]
    return _quietly(lambda: PMSDR(random_state=0).fit(X))


def transform():
    data = _vectors(2, 1000)
    model = PMSDR(2, 5, random_state=0).fit(data.X[::10])
    return _quietly(lambda: model.transform(data.X))


def transform_blocks():
    data = _vectors(2, 500)
    model = PMSDR(2, 5, random_state=0).fit(data.X[::5])

    def run():
        with tempfile.TemporaryDirectory() as folder:
            stream.transform(model, data.X, Path(folder, "out"), block_size=250)

    return _quietly(run)


def recover(method, n_vectors, n_features, rank, shuffled_ratio=0.4):
    data = make_permuted_subspaces(
        1, n_vectors, n_features, rank, outlier_ratio=1.0, shuffled_ratio=shuffled_ratio,
        random_state=0,
    )  # fmt: skip
    return _quietly(
        lambda: recover_vectors(data.X, data.bases[0], method=method, random_state=0, n_jobs=1)
    )


def estimator(model, n_each=60):
    X = _vectors(2, n_each).X
    return _quietly(lambda: model.fit(X))


def _sklearn_table(load, n_swaps):
    """Return a table of numbers in which some records have two values exchanged."""
    data = load()
    values, rng = data.data.copy(), np.random.default_rng(0)
    for row in rng.permutation(len(values))[:n_swaps]:
        i, j = rng.permutation(values.shape[1])[:2]
        values[row, [i, j]] = values[row, [j, i]]
    return pl.DataFrame(values, schema=[str(name) for name in data.feature_names])


def _mixed_table(n_rows=400):
    """Return a table of names, towns, dates, prices and counts, some records with a swap."""
    rng = np.random.default_rng(0)
    towns = ["Lyon", "Turin", "Graz", "Ghent", "Porto"]
    columns = {
        "name": [f"{a}{b}" for a, b in zip(
            rng.choice(["Ann", "Bo", "Cy", "Di"], n_rows), rng.integers(100, size=n_rows),
            strict=True)],
        "town": rng.choice(towns, n_rows).tolist(),
        "day": [f"20{y:02}-{m:02}-{d:02}" for y, m, d in zip(
            rng.integers(10, 25, n_rows), rng.integers(1, 13, n_rows),
            rng.integers(1, 29, n_rows), strict=True)],
        "price": [f"{x:.2f}" for x in rng.lognormal(4, 0.5, n_rows)],
        "count": [str(k) for k in rng.poisson(3, n_rows)],
    }  # fmt: skip
    for row in rng.permutation(n_rows)[:12]:
        columns["town"][row], columns["day"][row] = columns["day"][row], columns["town"][row]
    return pl.DataFrame(columns)


def of_table(command, table):
    frame = table()
    return _quietly(lambda: command(frame, random_state=0, n_jobs=1))


def scan_columns():
    data = load_wine()
    values, rng = data.data.copy(), np.random.default_rng(0)
    rows = rng.permutation(len(values))[:60]
    values[rows, 5] = values[rng.permutation(rows), 5]
    frame = pl.DataFrame(values, schema=[str(name) for name in data.feature_names])
    return _quietly(lambda: scan(frame, vectors="columns", random_state=0, n_jobs=1))


def audit_columns(together):
    frame = _sklearn_table(load_wine, 0)
    names = frame.columns[:2]
    return _quietly(lambda: audit(frame, names, together=together, n_trials=2, random_state=0))


def files():
    n_rows = 20_000
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name, "t.csv")
    _mixed_table(n_rows).write_csv(path)
    rows = np.repeat(np.arange(0, n_rows, 50), 2)
    pairs = np.tile([1, 2], len(rows) // 2)
    moves = Moves(rows, pairs, rows, 3 - pairs)

    def run(_folder=folder):  # which lives as long as the work
        source = read_table(str(path))
        return len(source.frame), b"".join(source.with_moves(moves))

    return run


def repair_alone(n_rows=20_000):
    """Judge records one by one, as the pieces of a large table are."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(n_rows, 3)) @ rng.normal(size=(3, 10)) + 9
    values = np.round(values + 0.1 * rng.normal(size=values.shape), 3)
    rows = np.arange(0, n_rows, 50)
    values[rows[:, None], [1, 7]] = values[rows[:, None], [7, 1]]
    frame = pl.DataFrame(values, schema=[f"c{j}" for j in range(10)])
    model = learn_sample(frame[:3000], n_learned=1500).model
    return _quietly(lambda: model.repair(frame, adapt=False, n_jobs=1))


WORKLOADS = {
    "fit, 120 vectors": partial(fit, 2, 60),
    "fit, 300 vectors": partial(fit, 3, 100),
    "fit, 600 vectors": partial(fit, 5, 120),
    "fit, the paper's stages": fit_paper,
    "fit, 20 vectors of 400 entries": fit_long_vectors,
    "fit, 150 images": fit_images,
    "transform, 2,000 vectors": transform,
    "stream.transform, 1,000 vectors": transform_blocks,
    "recover, search": partial(recover, "search", 400, 50, 5),
    "recover, lsrf": partial(recover, "lsrf", 1000, 50, 5),
    "recover, l1": partial(recover, "l1", 1000, 50, 5),
    "recover, pl": partial(recover, "pl", 500, 50, 5),
    "recover, aiem": partial(recover, "aiem", 200, 30, 3),
    "recover, branch-and-bound": partial(recover, "branch-and-bound", 50, 20, 2),
    "SelfRepresentationDetector": partial(estimator, SelfRepresentationDetector(), 300),
    "SparseSubspaceClustering": partial(estimator, SparseSubspaceClustering(2, random_state=0)),
    "ElasticNetSubspaceClustering": partial(
        estimator, ElasticNetSubspaceClustering(2, random_state=0)
    ),
    "RobustPCA": partial(estimator, RobustPCA()),
    "LowRankRepresentation": partial(estimator, LowRankRepresentation()),
    "MRUC": partial(estimator, MRUC(rank=5, max_iter=1, random_state=0), 15),
    "scan, wine": partial(of_table, scan, partial(_sklearn_table, load_wine, 6)),
    "scan, cancer": partial(of_table, scan, partial(_sklearn_table, load_breast_cancer, 20)),
    "scan, mixed": partial(of_table, scan, _mixed_table),
    "repair, wine": partial(of_table, repair, partial(_sklearn_table, load_wine, 6)),
    "repair, cancer": partial(of_table, repair, partial(_sklearn_table, load_breast_cancer, 20)),
    "repair, mixed": partial(of_table, repair, _mixed_table),
    "repair, 20,000 records alone": repair_alone,
    "scan, columns of wine": scan_columns,
    "audit, independent": partial(audit_columns, False),
    "audit, together": partial(audit_columns, True),
    "files, 20,000 lines of CSV": files,
}
