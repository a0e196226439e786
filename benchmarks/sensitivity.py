"""What halving and doubling every constant of the model of clean vectors does.

Constants are the numbers at the top of the modules of `unpermute.pmsdr`. Each is halved and doubled
alone, and the same problems are solved: vectors with normal noise, a union of five subspaces, sine
waves, binary vectors, and scikit-learn's digits, 30% of the vectors with 40% of their entries
shuffled. Prints, per constant and factor, the error left (the sum over the problems, relative to
leaving everything alone), vectors harmed, clean vectors flagged and time, each beside that of the
constants as they are; lines without any effect are marked. Run
``python benchmarks/sensitivity.py --jobs 2`` (an hour; ``--modules _decide _trials`` for a part).
"""

import argparse
import ast
import importlib
import os
import pkgutil
import time
import warnings
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # one core per fit

import numpy as np
from harm import damage
from joblib import Parallel, delayed
from no_harm import KINDS
from sklearn.datasets import load_digits

import unpermute.pmsdr
from unpermute import PMSDR
from unpermute.datasets import make_permuted_subspaces

PACKAGE = unpermute.pmsdr
LEVEL = "30/40"


def constants(modules):
    """Module, name, and position in a tuple (or None) of every number."""
    for info in pkgutil.iter_modules(PACKAGE.__path__):
        if modules and info.name not in modules:
            continue
        module = importlib.import_module(f"{PACKAGE.__name__}.{info.name}")
        tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
        targets = [a.targets[0] for a in tree.body if isinstance(a, ast.Assign)]
        names = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
        for name in names:
            value = getattr(module, name)
            if isinstance(value, int | float | np.floating) and not isinstance(value, bool):
                yield info.name, name


def problems(seed):
    """Clean vectors of every problem."""
    rng = np.random.default_rng([seed, 4])
    for kind in ("normal noise", "sines", "binary"):
        yield KINDS[kind](rng, 150, 40)
    yield make_permuted_subspaces(5, 60, 40, 4, outlier_ratio=0.0, random_state=seed).X_clean
    X = load_digits().data
    yield X[rng.permutation(len(X))[:200]] / 16.0


def measure(module, name, factor, seeds):
    """Error left, vectors harmed, clean ones flagged and seconds, with one constant changed."""
    warnings.simplefilter("ignore")
    home = importlib.import_module(f"{PACKAGE.__name__}.{module}") if module else None
    before = getattr(home, name) if module else None
    if module:
        changed = type(before)(round(before * factor)) if isinstance(before, int) else None
        setattr(home, name, changed if changed is not None else type(before)(before * factor))
    left = harmed = flagged = 0
    start = time.process_time()
    try:
        for seed in seeds:
            for X in problems(seed):
                Y = damage(X, LEVEL, "scattered", seed)
                model = PMSDR(random_state=seed)
                fixed = model.fit_transform(Y)
                left += np.linalg.norm(fixed - X) / np.linalg.norm(Y - X)
                error, observed = (np.linalg.norm(Z - X, axis=1) for Z in (fixed, Y))
                harmed += int(np.sum(error > observed))
                flagged += int(np.sum(model.outlier_mask_ & np.all(X == Y, axis=1)))
    except Exception as problem:  # a constant may not stand it
        return f"{type(problem).__name__}: {problem}"
    finally:
        if module:
            setattr(home, name, before)
    return left, harmed, flagged, time.process_time() - start


def main():
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--modules", nargs="+", help="as _decide _trials; all by default")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    tasks = [(None, "as they are", 1.0)]
    tasks += [(m, n, f) for m, n in constants(options.modules) for f in (0.5, 2.0)]
    work = (delayed(measure)(*task, options.seeds) for task in tasks)
    results = Parallel(options.jobs, return_as="generator")(work)
    base = None
    print(
        f"{'constant':36}{'factor':>7}{'error left':>12}{'harmed':>8}{'flagged':>9}{'seconds':>9}"
    )
    for (module, name, factor), row in zip(tasks, results, strict=True):
        title = name if module is None else f"{module}.{name}"
        if isinstance(row, str):
            print(f"{title:36}{factor:7.1f}  {row[:60]}", flush=True)
            continue
        base = row if base is None else base
        same = module is not None and row[:3] == base[:3]
        print(
            f"{title:36}{factor:7.1f}{row[0]:12.3f}{row[1]:8d}{row[2]:9d}{row[3]:9.1f}"
            + ("  no effect" if same else ""),
            flush=True,
        )


if __name__ == "__main__":
    main()
