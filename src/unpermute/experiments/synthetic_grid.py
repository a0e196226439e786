"""Performance on synthetic unions of subspaces over (L, r, shuffled ratio).

The figure "Performance of PMSDR on synthetic data" of Xie & Fan (AAAI 2025): M = 50, 120 vectors
per subspace, 60% of them permuted, 40 dB, number of subspaces, rank and number of permuted vectors
given. The published figures are one draw per cell, their recovery error is the refined one.

Run ``python -m unpermute.experiments.synthetic_grid --paper``.
"""

import argparse
import csv
import sys
import time
import warnings
from importlib.resources import files
from itertools import product

import numpy as np
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning

from unpermute._progress import report
from unpermute.datasets import make_permuted_subspaces
from unpermute.metrics import (
    outlier_classification_error,
    recovery_error,
    subspace_clustering_error,
    undetected_outlier_ratio,
)
from unpermute.pmsdr import PMSDR

__all__ = ["METRICS", "compare", "paper_method", "reference", "run", "run_cell"]

METRICS = ("RE", "RE_refined", "CE_recon", "SCerr", "UOratio")
# Names in the published table; the authors report the refined recovery error only.
_PUBLISHED = {
    "RE_refined": "RE_recon",
    "CE_recon": "CE_recon",
    "SCerr": "SCerr",
    "UOratio": "UOratio",
}

PAPER_GRID = {
    "n_subspaces": (2, 5, 10),
    "rank": (3, 5, 10, 15),
    "shuffled_ratio": (0.1, 0.2, 0.4, 0.6),
}


def paper_method(n_subspaces, rank, n_outliers, random_state):
    """Build the paper's own method with the settings of its experiments."""
    return PMSDR(
        n_subspaces,
        rank,
        contamination=n_outliers,
        clusterer="ssc",
        basis="svd",
        classifier="elimination",
        recoverer="lsrf",
        refine=False,
        output="subspace",
        random_state=random_state,
    )


def run_cell(n_subspaces, rank, shuffled_ratio, seed, make_model=paper_method):
    """Run one method on one draw; return setting, metrics and seconds as one record."""
    data = make_permuted_subspaces(
        n_subspaces, rank=rank, shuffled_ratio=shuffled_ratio, random_state=seed
    )
    mask = data.outlier_mask
    model = make_model(n_subspaces, rank, int(mask.sum()), seed)
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        X_fixed = model.fit_transform(data.X)
    seconds = time.perf_counter() - start
    detected = model.outlier_mask_
    moved = np.take_along_axis(data.X, model.permutations_, axis=1)
    return {
        "n_subspaces": n_subspaces,
        "rank": rank,
        "shuffled_ratio": shuffled_ratio,
        "seed": seed,
        "RE": recovery_error(data.X_clean, X_fixed, mask=mask),
        "RE_refined": recovery_error(
            data.X_clean, X_fixed, mask=mask, refined=True, labels=data.labels, rank=rank
        ),
        "RE_observed": recovery_error(data.X_clean, data.X, mask=mask),
        "RE_values": recovery_error(data.X_clean, moved, mask=mask),
        "CE_recon": outlier_classification_error(
            data.labels, model.labels_, outlier_mask=mask, outlier_mask_pred=detected
        ),
        "SCerr": subspace_clustering_error(data.labels, model.labels_, mask=~detected),
        "UOratio": undetected_outlier_ratio(mask, detected),
        "seconds": seconds,
        "not_converged": sum(issubclass(w.category, ConvergenceWarning) for w in caught),
    }


def run(grid=PAPER_GRID, seeds=(0, 1, 2), *, make_model=paper_method, n_jobs=None):
    """Yield the records of all cells and seeds, in order, as they are finished."""
    settings = list(product(*grid.values(), seeds))
    tasks = (delayed(run_cell)(*setting, make_model=make_model) for setting in settings)
    records = Parallel(n_jobs=n_jobs, return_as="generator")(tasks)
    for done, record in enumerate(records, start=1):
        report("synthetic-grid", done, len(settings))
        yield record


def reference():
    """Return the published figures: {(metric, n_subspaces, rank, shuffled_ratio): value}."""
    source = files("unpermute.experiments") / "reference" / "synthetic_grid.csv"
    figures = {}
    with source.open(encoding="utf-8") as stream:
        for metric, n_subspaces, rank, ratio, value in list(csv.reader(stream))[1:]:
            figures[metric, int(n_subspaces), int(rank), float(ratio)] = float(value)
    return figures


def compare(records):
    """Average over the seeds of every cell and put the published figures beside it.

    Returns one record per cell, with ``metric`` and ``metric_published`` for every metric, and a
    last one with the means over the cells.
    """
    published = reference()
    cells: dict[tuple, list[dict]] = {}
    for record in records:
        key = record["n_subspaces"], record["rank"], record["shuffled_ratio"]
        cells.setdefault(key, []).append(record)
    rows = []
    for key, group in cells.items():
        row = dict(zip(("n_subspaces", "rank", "shuffled_ratio"), key, strict=True))
        for metric in METRICS:
            row[metric] = float(np.mean([record[metric] for record in group]))
            if metric in _PUBLISHED:
                row[f"{metric}_published"] = published[_PUBLISHED[metric], *key]
        rows.append(row)
    mean: dict[str, object] = {"n_subspaces": "mean", "rank": "", "shuffled_ratio": ""}
    columns = [name for name in rows[0] if name not in mean]
    mean.update({name: float(np.mean([row[name] for row in rows])) for name in columns})
    return [*rows, mean]


def format_table(rows):
    """Lay the comparison out as text; the published figure follows in parentheses."""
    lines = [f"{'L':>4} {'r':>3} {'ratio':>5} " + " ".join(f"{metric:>15}" for metric in METRICS)]
    for row in rows:
        cells = []
        for metric in METRICS:
            published = row.get(f"{metric}_published")
            beside = "" if published is None else f" ({published:.3f})"
            cells.append(f"{row[metric]:.3f}{beside}".rjust(15))
        lines.append(
            f"{row['n_subspaces']:>4} {row['rank']:>3} {row['shuffled_ratio']:>5} "
            + " ".join(cells)
        )
    return "\n".join(lines)


def write_csv(records, path):
    """Write records, one per line."""
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, records[0])
        writer.writeheader()
        writer.writerows(records)


def main(arguments=None):
    """Run the experiment from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m unpermute.experiments.synthetic_grid", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "--paper",
        action="store_true",
        help="the paper's settings: L in 2, 5, 10; r in 3, 5, 10, 15; four ratios; three seeds",
    )
    parser.add_argument("--seeds", type=int, default=3, help="draws per cell (default: 3)")
    parser.add_argument("--first-seed", type=int, default=0, help="seed of the first draw")
    parser.add_argument("--jobs", type=int, default=-1, help="processes (default: all cores)")
    parser.add_argument("-o", "--output", help="also write every draw to this CSV file")
    options = parser.parse_args(arguments)
    grid = PAPER_GRID if options.paper else {**PAPER_GRID, "n_subspaces": (2,)}
    n_runs = options.seeds * int(np.prod([len(values) for values in grid.values()]))
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    records = []
    for record in run(grid, seeds, n_jobs=options.jobs):
        records.append(record)
        if sys.stderr.isatty():
            print(f"\r{len(records)} of {n_runs} runs", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    print("mean over the draws of a cell (published figure, one draw)")
    print(format_table(compare(records)))
    seconds = sum(record["seconds"] for record in records)
    stopped = sum(record["not_converged"] > 0 for record in records)
    print(f"{n_runs} runs, {seconds:.0f} s in the method, a solver stopped early in {stopped}")
    if options.output:
        write_csv(records, options.output)


if __name__ == "__main__":
    main()
