"""What real.py and no_harm.py share: damage vectors, repair them, compare with the truth.

It prints nothing of its own.
"""

import argparse
import itertools
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

from unpermute import PMSDR

PATTERNS = ("scattered", "window", "swap", "shift")


@dataclass
class Repair:
    """What a method makes of a matrix."""

    flagged: np.ndarray  # (n,) bool
    status: np.ndarray  # (n,) "clean", "recovered" or "uncertain"
    confidence: np.ndarray  # (n,) of the proposal with observed values
    values: np.ndarray  # (n, M) output "values"
    blend: np.ndarray  # (n, M) output "blend"
    proposed: np.ndarray  # (n, M) what "values" would be if every flagged vector were repaired
    seconds: float  # CPU time of one fit
    abstained: bool  # nothing was changed because trials failed


def run(X, seed):
    """Repair a matrix of which nothing is known."""
    model = PMSDR(output="values", random_state=seed)
    start = time.process_time()
    values = model.fit_transform(X)
    seconds = time.process_time() - start
    proposed = np.take_along_axis(X, model.permutations_, axis=1)
    confidence, blend = model.confidence_.copy(), None
    proposals = getattr(model, "_proposals", None)
    if proposals is not None:
        rows, sure = proposals["rows"], proposals["confidence_values"] >= model.min_confidence
        proposed[rows], confidence[rows] = proposals["values"], proposals["confidence_values"]
        # Only if this rule gives the output that is known, it is trusted with the other.
        if np.array_equal(
            _replace(X, rows[sure], proposals["values"][sure]), values, equal_nan=True
        ):
            sure = proposals["confidence_blend"] >= model.min_confidence
            blend = _replace(X, rows[sure], proposals["blend"][sure])
    if blend is None:
        blend = PMSDR(output="blend", random_state=seed).fit_transform(X)
    trials = getattr(model, "trials_", None)
    told = trials.get if isinstance(trials, dict) else lambda key: getattr(trials, key, False)
    return Repair(
        flagged=model.outlier_mask_, status=model.status_, confidence=confidence, values=values,
        blend=blend, proposed=proposed, seconds=seconds, abstained=bool(told("abstained")),
    )  # fmt: skip


def run_new(reference, Y, seed):
    """Repair new vectors by a model of a reference that is clean."""
    start = time.process_time()
    model = PMSDR(output="values", random_state=seed).fit(reference)
    values = model.transform(Y)
    seconds = time.process_time() - start
    flagged = model.decision_function(Y) < 0.0
    return Repair(
        flagged=flagged, status=np.where(flagged, "uncertain", "clean"), proposed=values,
        confidence=np.zeros(len(Y)), values=values, seconds=seconds,
        blend=model.set_params(output="blend").transform(Y),
        abstained=bool(model.trials_.abstained),
    )  # fmt: skip


def _replace(X, rows, repaired):
    fixed = X.copy()
    fixed[rows] = repaired
    return fixed


def parse_level(text):
    """Shares of vectors and of their entries, of a text like 25/40."""
    vectors, entries = text.split("/")
    return float(vectors) / 100, float(entries) / 100


def damage(X, level, pattern, seed):
    """A copy with entries of some vectors moved."""
    rng = np.random.default_rng([seed, 1])
    vectors, entries = parse_level(level)
    Y = X.copy()
    if vectors * entries > 0:
        for i in rng.choice(len(X), round(vectors * len(X)), replace=False):
            Y[i] = _damage_vector(X[i], entries, pattern, rng)
    return Y


def _damage_vector(x, share, pattern, rng):
    y, M = x.copy(), len(x)
    size = min(M, max(2, round(share * M)))
    if pattern == "shift":
        start = rng.integers(M - 1)
        y[start:] = np.roll(x[start:], rng.choice([-1, 1]))
    elif pattern == "swap":
        places = rng.choice(M, 2, replace=False)
        y[places] = x[places[::-1]]
    elif pattern == "window":
        start = rng.integers(M - size + 1)
        y[start : start + size] = rng.permutation(x[start : start + size])
    else:
        places = rng.choice(M, size, replace=False)
        y[places] = x[rng.permutation(places)]
    return y


def measure(X, Y, repair):
    """Compare with the truth X; a vector that the shuffle left equal counts as clean.

    Missing entries count as 0 everywhere.
    """
    X, Y = np.nan_to_num(X), np.nan_to_num(Y)
    seen = {name: np.nan_to_num(getattr(repair, name)) for name in ("values", "blend", "proposed")}
    repair = replace(repair, **seen)
    damaged = np.any(X != Y, axis=1)
    row = {
        "vectors": len(X),
        "damaged": int(damaged.sum()),
        "missed": int((damaged & ~repair.flagged).sum()),
        "flagged clean": int((~damaged & repair.flagged).sum()),
        "alone": relative_error(Y[damaged], X[damaged]),
        "before": relative_error(Y, X),
        "after": relative_error(repair.values, X),
        "abstained": int(repair.abstained),
        "seconds": repair.seconds,
    }
    observed = np.linalg.norm(Y - X, axis=1)
    for name, fixed in (("values", repair.values), ("blend", repair.blend)):
        left, changed = np.linalg.norm(fixed - X, axis=1), np.any(fixed != Y, axis=1)
        row[name] = relative_error(fixed[damaged], X[damaged])
        row[f"{name} changed"] = int(changed.sum())
        row[f"{name} changed clean"] = int((changed & ~damaged).sum())
        row[f"{name} closer"] = int((changed & (left < observed)).sum())
        row[f"{name} harmed"] = int((changed & (left > observed)).sum())
    improved = np.linalg.norm(repair.proposed - X, axis=1) < observed
    row["confidence"] = repair.confidence[repair.flagged].astype(float).tolist()
    row["improved"] = improved[repair.flagged].tolist()
    return row


def relative_error(estimate, truth):
    """Frobenius norm of the error over that of the truth; NaN without a vector."""
    return float(np.linalg.norm(estimate - truth) / np.linalg.norm(truth)) if len(truth) else np.nan


def fit_one(name, X, level, pattern, seed, reference=0.0):
    """Figures of one damaged and repaired matrix, or what went wrong.

    `reference`: share of the vectors that stay clean and are learned from; the others are new.
    """
    row = {"name": name, "level": level, "pattern": pattern, "seed": seed}
    try:
        count = round(reference * len(X))
        clean, X = X[:count], X[count:]
        Y = damage(X, level, pattern, seed)
        if count == 0:
            return row | measure(X, Y, run(Y, seed))
        # Proposals that are not carried out stay with the model: no confidence is compared.
        found = measure(X, Y, run_new(clean, Y, seed))
        return row | found | {"confidence": [], "improved": []}
    except Exception as error:  # one failed fit must not end a long run
        return row | {"error": f"{type(error).__name__}: {error}"}


def fit_all(problems, options):
    """Yield lists of rows that differ in the seed alone, in the order of the problems."""
    jobs = (
        delayed(fit_one)(*problem, options.pattern, seed, options.reference)
        for *problem, seed in problems
    )
    rows = Parallel(n_jobs=options.jobs, return_as="generator")(jobs)
    while group := list(itertools.islice(rows, len(options.seeds))):
        yield group


def drop_failed(rows):
    """Print the fits that failed, return the others."""
    for row in rows:
        if "error" in row:
            what = row["error"].splitlines()[0]
            print(f"{row['name']:24}{row['level']:>7} seed {row['seed']} FAILED {what}", flush=True)
    return [row for row in rows if "error" not in row]


def total(rows, key):
    """Sum over rows."""
    return sum(row[key] for row in rows)


def mean(rows, key):
    """Mean over rows; NaN without any."""
    return float(np.mean([row[key] for row in rows])) if rows else np.nan


def share(part, whole):
    """Part of the whole in per cent, as text."""
    return f"{100 * part / whole:.1f}" if whole else "-"


def make_parser(description, seeds):
    """Options that both scripts have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seeds", type=int, nargs="+", default=seeds)
    parser.add_argument(
        "--reference", type=float, default=0.0,
        help="share of the vectors that stay clean and are learned from; the others are new",
    )  # fmt: skip
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--pattern", choices=PATTERNS, default=PATTERNS[0], help="what moves")
    parser.add_argument("--json", type=Path, help="file for the figures of every fit")
    return parser


def write_json(path, rows):
    """Keep the figures of every fit, if a file is named; no number is null."""
    if path is not None:
        known = [{k: None if v != v else v for k, v in row.items()} for row in rows]
        path.write_text(json.dumps(known, indent=1))
