"""Real vectors, some of them shuffled, nothing given: what is found, repaired and harmed?

At most 400 vectors of every set (``--most``), drawn by the seed and divided by the largest absolute
value; a share of the vectors has a share of its entries moved (``--levels 25/40``: 25% of the
vectors, 40% of their entries; ``--pattern`` says how). The sets are those of ``real/`` below the
data folder (``UNPERMUTE_DATA``), scikit-learn's digits, and ``*.npz`` of ``--folder`` (array X).

Prints one line per set and level: the error of the shuffled vectors left alone and with either
output, shuffled vectors missed and clean ones flagged, vectors changed, how many of them are closer
to the truth, vectors harmed, fits that abstained, seconds of CPU time. Errors and seconds are means
over the seeds, counts are sums. Then, over all fits: the changed vectors that are closer, clean
vectors changed where nothing was permuted, and whether the confidence of proposals, applied or not,
is the share of them that improve. Run ``python benchmarks/real.py --jobs 2``.

``--reference 0.6`` learns from 60% of the vectors, all clean, and judges the others as new ones.
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # one core per fit
os.environ["MKL_NUM_THREADS"] = "1"

from pathlib import Path

import numpy as np
from harm import drop_failed, fit_all, make_parser, mean, share, total, write_json
from sklearn.datasets import load_digits

MAX_VECTORS = 400
# Bins with fewer proposals are not judged.
MIN_PROPOSALS = 100


def find_sets(folder):
    """Files by name of set; None for what needs no file."""
    home = os.environ.get("UNPERMUTE_DATA")
    if not home and folder is None:
        raise SystemExit("UNPERMUTE_DATA is not set: it names the folder that holds real/*.npz.")
    folders = [Path(home).expanduser() / "real"] if home else []
    folders += [] if folder is None else [folder]
    files = {path.stem: path for place in folders for path in sorted(place.glob("*.npz"))}
    return files | {"digits": None}


def load(path):
    """All vectors of a set."""
    if path is None:
        return load_digits().data
    with np.load(path) as content:
        return content["X"].astype(float)


def draw(X, seed, most=MAX_VECTORS):
    """Vectors of one problem, on a common scale."""
    X = X[np.random.default_rng([seed, 0]).permutation(len(X))[:most]]
    return X / np.nanmax(np.abs(X))


def problems(sets, options):
    """Name, vectors, level and seed of every fit."""
    for name in options.sets or sets:
        X = load(sets[name])
        for level in options.levels:
            for seed in options.seeds:
                yield name, draw(X, seed, options.most), level, seed


def print_line(rows):
    """One line for the seeds of a set and level."""
    clean = total(rows, "vectors") - total(rows, "damaged")
    cells = f"{rows[0]['name']:24}{rows[0]['level']:>7}"
    for key in ("alone", "values", "blend"):
        error = mean(rows, key)
        cells += f"{'-':>8}" if np.isnan(error) else f"{error:8.3f}"
    cells += f"{share(total(rows, 'missed'), total(rows, 'damaged')):>8}"
    cells += f"{share(total(rows, 'flagged clean'), clean):>8}"
    for name in ("values", "blend"):
        changed = total(rows, f"{name} changed")
        cells += f"{changed:8d}{share(total(rows, f'{name} closer'), changed):>8}"
        cells += f"{total(rows, f'{name} harmed'):7d}"
    cells += f"{total(rows, 'vectors'):7d}{total(rows, 'abstained'):8d}{mean(rows, 'seconds'):8.2f}"
    print(cells, flush=True)


def print_header():
    """Names of the columns of a line."""
    print(f"{'':31}{'error of the shuffled':^24}{'':16}{'values':^23}{'blend':^23}")
    names = ("alone", "values", "blend", "missed%", "false%")
    names += ("changed", "closer%", "harmed") * 2
    widths = (8, 8, 8, 8, 8, 8, 8, 7, 8, 8, 7)
    cells = "".join(f"{name:>{width}}" for name, width in zip(names, widths, strict=True))
    print(f"{'set':24}{'level':>7}{cells}{'of':>7}{'abstain':>8}{'s':>8}")


def print_changes(rows):
    """Changed vectors that are closer to the truth, and clean ones changed for nothing."""
    for output in ("values", "blend"):
        changed, closer = f"{output} changed", f"{output} closer"
        counts = {}
        for name in dict.fromkeys(row["name"] for row in rows):
            mine = [row for row in rows if row["name"] == name]
            if total(mine, changed):
                counts[name] = total(mine, closer), total(mine, changed)
        text = f"{output}: {total(rows, changed)} changed, {total(rows, f'{output} harmed')} harmed"
        if counts:
            name, (part, whole) = min(counts.items(), key=lambda item: item[1][0] / item[1][1])
            text += f", closer {share(total(rows, closer), total(rows, changed))}%"
            text += f", worst set {name} {share(part, whole)}% of {whole}"
        print(text)
    untouched = [row for row in rows if row["damaged"] == 0]
    if untouched:
        count, n = total(untouched, "values changed clean"), total(untouched, "vectors")
        print(f"nothing permuted: {count} of {n} vectors changed")


def print_reliability(rows):
    """How often proposals improve, by their confidence."""
    confidence = np.array([c for row in rows for c in row["confidence"]])
    improved = np.array([i for row in rows for i in row["improved"]], dtype=float)
    if len(confidence) == 0:
        print("no confidence to judge")
        return
    print(f"\nconfidence of {len(confidence)} proposals (values), applied or not")
    print(f"{'bin':9}{'count':>7}{'confidence':>12}{'improved':>10}")
    bins = np.minimum((10 * confidence).astype(int), 9)
    for k in np.unique(bins):
        expected, found, count = confidence[bins == k].mean(), improved[bins == k], sum(bins == k)
        error = np.sqrt(found.mean() * (1 - found.mean()) / count)
        verdict = "ok" if abs(expected - found.mean()) <= 0.05 + 2 * error else "OFF"
        verdict = verdict if count >= MIN_PROPOSALS else "few"
        cells = f"{count:7d}{expected:12.3f}{found.mean():10.3f}  {verdict}"
        print(f"{k / 10:.1f}–{(k + 1) / 10:.1f}  {cells}")
    base = improved.mean()
    score = np.mean((confidence - improved) ** 2)
    print(f"Brier score {score:.4f}, always saying {base:.3f} has {base * (1 - base):.4f}")


def main():
    """Run from the command line."""
    parser = make_parser(__doc__.split("\n")[0], [0, 1, 2, 3, 4])
    parser.add_argument("--levels", nargs="+", default=["25/40"], help="vectors/entries, per cent")
    parser.add_argument("--sets", nargs="+", help="names of sets; all unless given")
    parser.add_argument("--most", type=int, default=MAX_VECTORS, help="vectors of a set")
    parser.add_argument("--folder", type=Path, help="further sets")
    options = parser.parse_args()
    sets = find_sets(options.folder)
    unknown = set(options.sets or []) - set(sets)
    if unknown:
        parser.error(f"unknown sets {sorted(unknown)}; there are {sorted(sets)}")
    print_header()
    every = []
    for rows in fit_all(problems(sets, options), options):
        every += rows
        if fitted := drop_failed(rows):
            print_line(fitted)
    write_json(options.json, every)
    fitted = [row for row in every if "error" not in row]
    print()
    print_changes(fitted)
    print_reliability(fitted)


if __name__ == "__main__":
    main()
