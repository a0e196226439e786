"""Columns of two real tables shuffled, and put back.

Figure "Data re-identification" of Xie & Fan (AAAI 2025): vectors are the columns.
"""

from itertools import product
from typing import NamedTuple

import numpy as np

from unpermute.baselines import MRUC, UPCA, RobustKernelPCA, RobustPCA, SSCReconstruction
from unpermute.datasets import load_benign_tumours, load_student_scores
from unpermute.experiments._competitors import best_with_truth
from unpermute.experiments._experiment import Experiment, Measurement
from unpermute.experiments._figures import line_panels
from unpermute.experiments._methods import (
    ALONE,
    DEFAULT,
    NOTHING_GIVEN,
    PAPER,
    SUBSPACE,
    default_method,
    paper_method,
    timed,
)
from unpermute.experiments._records import collect
from unpermute.experiments._tables import (
    PUBLISHED,
    beside,
    count_harmed,
    ours_first,
    read_reference,
)
from unpermute.numerics.subspaces import SmallClusterError
from unpermute.pmsdr import PMSDR

__all__ = ["EXPERIMENT"]

BLEND = "our default, output='blend'"
_OUTPUTS = {DEFAULT: "values", BLEND: "blend", SUBSPACE: "subspace"}
_LAMBDAS = np.arange(0.1, 0.951, 0.05)
_ALPHAS = (5.0, 20.0, 100.0, 200.0, 500.0, 1000.0)
_CHOSEN = "(chosen with the truth)"
_COMPETITORS = {
    f"RPCA, λ {_CHOSEN}": [RobustPCA(float(lam)) for lam in _LAMBDAS],
    f"RKPCA, λ {_CHOSEN}": [RobustKernelPCA(float(lam)) for lam in _LAMBDAS],
    f"SSC, α {_CHOSEN}": [SSCReconstruction(alpha) for alpha in _ALPHAS],
}


class _Problem(NamedTuple):
    """A table as vectors of length 1, one per column, some of them to be shuffled."""

    X: np.ndarray
    lengths: np.ndarray
    norm: float
    columns: range
    rank: int


def settings(quick):
    """Return table, shuffled ratio, number of subspaces, and which methods run."""
    ratios = (0.2, 0.6, 0.9) if quick else tuple(k / 10 for k in range(1, 11))
    parts = [(1, "pmsdr"), (1, "nothing-given"), (1, "others")]
    if not quick:
        parts += [(2, "pmsdr"), (3, "pmsdr"), (1, "mruc")]  # the last takes minutes
    return [
        {"table": table, "shuffled_ratio": ratio, "n_subspaces": n, "methods": methods}
        for (n, methods), table, ratio in product(parts, ("scores", "tumours"), ratios)
    ]


def run(setting, seed, data_home):
    """Run some methods on one draw, which is the same for all of them."""
    problem = _load(setting["table"], data_home)
    Y = _shuffle(problem, setting["shuffled_ratio"], seed)

    def error(recovered):
        return float(np.linalg.norm((recovered - problem.X) * problem.lengths) / problem.norm)

    if setting["methods"] == "pmsdr":
        results = _pmsdr(problem, Y, setting["n_subspaces"], seed)
    elif setting["methods"] == "nothing-given":
        results = [(NOTHING_GIVEN, *timed(PMSDR(random_state=seed).fit_transform, Y))]
    elif setting["methods"] == "others":
        results = _others(problem, Y, error, seed)
    else:
        results = _mruc(problem, Y, seed)
    return [
        Measurement(name, "error", error(recovered), seconds)
        for name, recovered, seconds in results
    ]


def _pmsdr(problem, Y, n_subspaces, seed):
    yield ALONE, Y, 0.0
    for name, output in _OUTPUTS.items():
        yield name, *_put_back(default_method, problem, Y, n_subspaces, seed, output)
    yield PAPER, *_put_back(paper_method, problem, Y, n_subspaces, seed, "subspace")


def _put_back(method, problem, Y, n_subspaces, seed, output):
    """Recover with the rank of the paper, or the largest for which clusters have enough columns."""
    given = len(problem.columns), seed
    for rank in range(problem.rank, 1, -1):
        model = method(n_subspaces, rank, *given).set_params(output=output)
        try:
            return timed(model.fit_transform, Y)
        except SmallClusterError:
            continue
    return timed(method(n_subspaces, 1, *given).set_params(output=output).fit_transform, Y)


def _others(problem, Y, error, seed):
    for name, models in _COMPETITORS.items():
        _, recovered, seconds = best_with_truth(models, Y, error)
        yield name, recovered, seconds
    yield "UPCA", *timed(UPCA(problem.rank, random_state=seed).fit_transform, Y)


def _mruc(problem, Y, seed):
    # Every shuffled column has a permutation of its own; which are shuffled is known to MRUC.
    groups = np.full(len(Y), -1)
    groups[list(problem.columns)] = np.arange(len(problem.columns))
    model = MRUC(rank=problem.rank, anchor=-1, n_starts=1, random_state=seed)
    yield "MRUC", *timed(model.fit_transform, Y, groups=groups)


def _load(table, data_home):
    if table == "scores":
        values, columns, rank = load_student_scores(data_home=data_home).data, range(7, 14), 3
    else:
        values, columns, rank = load_benign_tumours().data, range(1, 30, 2), 4
    X = (values - values.mean(axis=0)).T
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return _Problem(X / lengths, lengths, float(np.linalg.norm(values)), columns, rank)


def _shuffle(problem, ratio, seed):
    """Shuffle a share of the entries of every named column, each in its own way."""
    rng = np.random.default_rng(seed)
    Y = problem.X.copy()
    n_features = Y.shape[1]
    for column in problem.columns:
        places = rng.choice(n_features, int(ratio * n_features + 1e-9), replace=False)
        Y[column, places] = Y[column, rng.permutation(places)]
    return Y


def _published(table):
    """Return the published lines of the scores figure, by the names used here."""
    if table != "scores":
        return {}
    names = {"PMSDR_L1": 1, "PMSDR_L2": 2, "PMSDR_L3": 3, "UPCA": "UPCA", "leave_alone": ALONE}
    lines: dict = {}
    for row in read_reference("reidentification_scores"):
        line = lines.setdefault(names[row["method"]], {})
        line[float(row["shuffled_ratio"])] = float(row["value"])
    return lines


def tables(records):
    """One table per data set and number of subspaces, and the promise about values."""
    found = []
    keys = dict.fromkeys((r.parsed["table"], r.parsed["n_subspaces"]) for r in records)
    for table, n in keys:
        mine = [r for r in records if _belongs(r, table, n)]
        lines = {
            m: collect(mine, m, "error", lambda s: s["shuffled_ratio"]) for m in ours_first(mine)
        }
        lines[f"{PUBLISHED} PMSDR"] = _published(table).get(n, {})
        if n == 1:
            lines[f"{PUBLISHED} UPCA"] = _published(table).get("UPCA", {})
        rows = [
            ((ratio,), {m: line.get(ratio) for m, line in lines.items()})
            for ratio in sorted({ratio for line in lines.values() for ratio in line})
        ]
        caption = f"{table}, {n} subspace{'s' if n > 1 else ''}: mean error of the whole table"
        columns = [m for m, line in lines.items() if line]
        found.append(beside(("shuffled ratio",), rows, columns, caption=caption))
    ours = (DEFAULT, BLEND, SUBSPACE, NOTHING_GIVEN, PAPER)
    harmed = count_harmed(records, ours, "error", lambda s: (s["table"], s["shuffled_ratio"]))
    return [*found, harmed]


def _belongs(record, table, n_subspaces):
    """Say whether a figure is of a table and number of subspaces, or was not given the latter."""
    setting = record.parsed
    same = setting["n_subspaces"] == n_subspaces or record.method == NOTHING_GIVEN
    return same and setting["table"] == table


def figure(records, arrays):
    """Draw the error against the shuffled ratio, one subspace."""
    panels = {}
    for table in dict.fromkeys(r.parsed["table"] for r in records):
        mine = [r for r in records if r.parsed["table"] == table and r.parsed["n_subspaces"] == 1]
        lines = {
            m: collect(mine, m, "error", lambda s: s["shuffled_ratio"]) for m in ours_first(mine)
        }
        published = _published(table).get(1)
        panels[table] = {**lines, **({PUBLISHED: published} if published else {})}
    return line_panels(panels, x="shuffled ratio", y="relative error of the table")


EXPERIMENT = Experiment(
    name="reidentification",
    title="Re-identification: columns of two tables",
    protocol=(
        "Student scores (707 × 14, columns 8 to 14 shuffled, rank 3) and benign tumours (357 × 30,"
        " every second column shuffled, rank 4). Vectors are the columns, centred and scaled to"
        " length 1; the number of subspaces, the rank and the number of shuffled columns are given;"
        " where a cluster has fewer columns than that rank, the largest rank that works is taken;"
        " detected columns are recovered. Given nothing, our default runs once for all numbers of"
        " subspaces. The error is that of the whole table in its own units."
        " Published figures are read off the scores figure; the published tumours figure cannot be"
        " of that table, so the paper's method as implemented here is the reference there. RPCA,"
        " RKPCA and SSC take the parameter that is best with the truth; MRUC is told which columns"
        " are shuffled and starts from the places that fit as they stand."
    ),
    settings=settings,
    n_seeds=lambda quick: 1 if quick else 3,
    run=run,
    tables=tables,
    figure=figure,
    quick="ratios 0.2, 0.6 and 0.9, one subspace, one draw of three, without MRUC.",
    check_data=lambda data_home: load_student_scores(data_home=data_home),
)
