"""How long the methods take, and how that grows.

Table of running times, and the complexity analysis, of Xie & Fan (AAAI 2025).
"""

import numpy as np

from unpermute.baselines import MRUC, RobustKernelPCA
from unpermute.experiments._competitors import share_permutations
from unpermute.experiments._experiment import Experiment, Measurement
from unpermute.experiments._figures import line_panels
from unpermute.experiments._methods import DEFAULT, PAPER, default_method, paper_method, timed
from unpermute.experiments._records import collect
from unpermute.experiments._tables import PUBLISHED, beside
from unpermute.experiments.synthetic_grid import draw_synthetic

__all__ = ["EXPERIMENT"]

_RANK, _RATIO = 5, 0.4
_PRINTED = {
    "PMSDR": {2: 1.5, 5: 4.3, 10: 15.7},
    "RKPCA": {2: 1.2, 5: 9.9, 10: 54.5},
    "MRUC": {2: 679.0, 5: 699.0, 10: 1072.0},
}
_METHODS = (DEFAULT, PAPER, "RKPCA", "MRUC")
_USUAL = {"n_subspaces": 5, "n_vectors": 120, "n_features": 50}
# What varies while the rest is as usual, and the exponent that the paper states for the leading
# term (T1 + T2) M N² of its method.
_VARIED = {"n_vectors": 2.0, "n_features": 1.0}


def settings(quick):
    """Return the published table, then more vectors, then more entries."""
    table = [{**_USUAL, "n_subspaces": n} for n in ((2, 5) if quick else (2, 5, 10))]
    vectors = (60, 240) if quick else (30, 60, 240, 480, 960)
    features = (100,) if quick else (100, 200, 400)
    return [
        *table,
        *({**_USUAL, "n_vectors": n} for n in vectors),
        *({**_USUAL, "n_features": m} for m in features),
    ]


def run(setting, seed, data_home):
    """Time every method on one draw; the two competitors only in the published table."""
    n_subspaces, n_vectors = setting["n_subspaces"], setting["n_vectors"]
    sizes = {"n_vectors_per_subspace": n_vectors, "n_features": setting["n_features"]}
    draw = draw_synthetic(n_subspaces, _RANK, _RATIO, seed, **sizes)
    given = n_subspaces, _RANK, int(draw.outlier_mask.sum()), seed
    _compile(seed)
    found = [
        (DEFAULT, timed(default_method(*given).fit_transform, draw.X)[1]),
        (PAPER, timed(paper_method(*given).fit_transform, draw.X)[1]),
    ]
    if (n_vectors, setting["n_features"]) == (_USUAL["n_vectors"], _USUAL["n_features"]):
        found.append(("RKPCA", timed(RobustKernelPCA().fit_transform, draw.X)[1]))
        rng = np.random.default_rng(seed)
        n_shuffled = int(_RATIO * draw.X.shape[1])
        X, groups = share_permutations(
            draw.X_clean,
            draw.outlier_mask,
            2,
            lambda rng: rng.choice(draw.X.shape[1], n_shuffled, replace=False),
            rng,
        )
        found.append(("MRUC", timed(MRUC(random_state=seed).fit_transform, X, groups=groups)[1]))
    return [Measurement(name, "seconds", value, value) for name, value in found]


def _compile(seed):
    """Run everything once on little data, so that compilation is not timed."""
    draw = draw_synthetic(2, 2, _RATIO, seed, n_vectors_per_subspace=20, n_features=12)
    given = 2, 2, int(draw.outlier_mask.sum()), seed
    timed(default_method(*given).fit_transform, draw.X)
    timed(paper_method(*given).fit_transform, draw.X)


def tables(records):
    """The published table, and log-log slopes."""
    usual = [r for r in records if all(r.parsed[name] == _USUAL[name] for name in _VARIED)]
    found = {m: collect(usual, m, "seconds", lambda s: s["n_subspaces"]) for m in _METHODS}
    published = {f"{name}, {PUBLISHED}": line for name, line in _PRINTED.items()}
    lines = {**found, **published}
    rows = [((n,), {m: line.get(n) for m, line in lines.items()}) for n in sorted(found[PAPER])]
    seconds = beside(("subspaces",), rows, list(lines), digits=1, caption="Seconds")
    return [seconds, _slopes(records)]


def _line(records, method, varied):
    same = [name for name in _USUAL if name != varied]
    mine = [r for r in records if all(r.parsed[name] == _USUAL[name] for name in same)]
    return collect(mine, method, "seconds", lambda s: s[varied])


def _slopes(records):
    rows = []
    for varied, stated in _VARIED.items():
        figures = {"stated": stated}
        for method in (DEFAULT, PAPER):
            line = _line(records, method, varied)
            if len(line) > 1:
                x, y = np.log(list(line)), np.log(list(line.values()))
                figures[method] = float(np.polyfit(x, y, 1)[0])
        rows.append(((varied,), figures))
    caption = "Exponent of the time (slope, log-log), and of the paper's leading term M N²"
    return beside(("size",), rows, (DEFAULT, PAPER, "stated"), digits=2, caption=caption)


def figure(records, arrays):
    """Draw seconds against both sizes."""
    panels = {v: {m: _line(records, m, v) for m in (DEFAULT, PAPER)} for v in _VARIED}
    return line_panels(panels, x="size", y="seconds", log=True)


EXPERIMENT = Experiment(
    name="time",
    title="Time",
    protocol=(
        f"Rank {_RANK}, ratio {_RATIO}, 120 vectors per subspace, 50 entries; then more vectors and"
        " more entries at five subspaces. One run after the other, compilation not counted, with"
        " whatever threads the numerical libraries take. MRUC gets the same vectors shuffled by two"
        " shared permutations, and 10 starts. The published times are of another machine."
    ),
    settings=settings,
    n_seeds=lambda quick: 1 if quick else 3,
    run=run,
    tables=tables,
    figure=figure,
    quick="2 and 5 subspaces; 60, 120, 240 vectors; 50 and 100 entries; one run of three.",
    alone=True,
)
