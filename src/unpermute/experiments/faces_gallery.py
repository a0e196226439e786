"""One damaged face of each of ten people, recovered by every method.

Figure on recovered faces of Xie & Fan (AAAI 2025): image 23 of subjects 1 to 10.
"""

import numpy as np

from unpermute.baselines import MRUC, RobustKernelPCA, RobustPCA, SSCReconstruction
from unpermute.experiments._competitors import alone_and_apart, share_permutations
from unpermute.experiments._experiment import Experiment, Measurement, Outcome
from unpermute.experiments._figures import empty, new_figure
from unpermute.experiments._methods import (
    DEFAULT,
    NOTHING_GIVEN,
    PAPER,
    SUBSPACE,
    timed,
)
from unpermute.experiments._records import collect
from unpermute.experiments._tables import beside
from unpermute.experiments.faces import (
    HEIGHT,
    RANK,
    WIDTH,
    draw_faces,
    load,
    our_faces_method,
    paper_faces_method,
    window,
)
from unpermute.pmsdr import PMSDR

__all__ = ["EXPERIMENT"]

_IMAGE = 22  # number 23, counted from 0
_ORIGINAL, _DAMAGED = "original", "damaged"
BLEND = "our default, output='blend'"
# The weights of the paper's figure.
_METHODS = {
    "RPCA": RobustPCA(),
    "SSC": SSCReconstruction(5.0),
    "RKPCA": RobustKernelPCA(0.7),
}
_ORDER = (
    *(_ORIGINAL, _DAMAGED, "RPCA", "RPCA-S", "SSC", "SSC-S", "RKPCA", "RKPCA-S"),
    *("MRUC (two shared permutations)", PAPER, SUBSPACE, BLEND, DEFAULT, NOTHING_GIVEN),
)
_SHOWN = 10


def settings(quick):
    """Return the methods, so that each is saved when it is finished."""
    if quick:
        return [{"n_people": 2, "methods": name} for name in ("pmsdr", "nothing-given", "RPCA")]
    families = ("pmsdr", "nothing-given", *_METHODS, "MRUC")
    return [{"n_people": 10, "methods": name} for name in families]


def run(setting, seed, data_home):
    """Recover all images by one family of methods; keep one image of every person."""
    n_people, family = setting["n_people"], setting["methods"]
    draw = draw_faces(range(n_people), "run", seed, data_home, always=_IMAGE)
    shown = _IMAGE + 64 * np.arange(n_people)
    if family == "pmsdr":
        results = list(_pmsdr(draw, n_people, seed))
    elif family == "nothing-given":
        fixed = timed(PMSDR(random_state=seed).fit_transform, draw.X)
        results = [(_ORIGINAL, draw.X_clean, 0.0), (NOTHING_GIVEN, *fixed)]
    elif family == "MRUC":
        results = list(_mruc(draw, seed))
    else:
        # The labels of the "-S" variants are those of the paper's method.
        labels = timed(paper_faces_method(n_people, seed).fit, draw.X)[0].labels_
        results = list(alone_and_apart(family, _METHODS[family], draw.X, labels))
    found, arrays = [], {}
    for name, X, seconds in results:
        errors = np.linalg.norm(X[shown] - draw.X_clean[shown], axis=1)
        found.append(Measurement(name, "mean relative error", float(errors.mean()), seconds))
        arrays[name] = X[shown].reshape(-1, HEIGHT, WIDTH).astype(np.float32)
    return Outcome(found, arrays)


def _pmsdr(draw, n_people, seed):
    yield _ORIGINAL, draw.X_clean, 0.0
    yield _DAMAGED, draw.X, 0.0
    yield PAPER, *timed(paper_faces_method(n_people, seed).fit_transform, draw.X)
    model = our_faces_method(n_people, seed)
    fitted, seconds = timed(model.fit_transform, draw.X)
    yield DEFAULT, np.take_along_axis(draw.X, model.permutations_, axis=1), seconds
    yield SUBSPACE, fitted, seconds
    yield BLEND, *timed(model.set_params(output="blend").fit_transform, draw.X)


def _mruc(draw, seed):
    """MRUC cannot work with a permutation for every image: it gets two shared ones."""
    rng = np.random.default_rng(seed)
    X, groups = share_permutations(draw.X_clean, draw.outlier_mask, 2, window, rng)
    model = MRUC(rank=RANK, anchor=-1, n_starts=1, random_state=seed)
    yield "MRUC (two shared permutations)", *timed(model.fit_transform, X, groups=groups)


def tables(records):
    """Mean relative error of the images shown."""
    found = {m: collect(records, m, "mean relative error", lambda s: s["n_people"]) for m in _ORDER}
    counts = sorted({record.parsed["n_people"] for record in records})
    rows = [
        ((method,), {f"{n} people": line.get(n) for n in counts})
        for method, line in found.items()
        if line and method != _ORIGINAL
    ]
    return [beside(("method",), rows, [f"{n} people" for n in counts])]


def figure(records, arrays):
    """Draw one row of faces per method."""
    names = [name for name in _ORDER if name in arrays]
    if not names:
        return empty()
    n_people = min(_SHOWN, *(len(arrays[name]) for name in names))
    picture = new_figure(0.95 * n_people + 4.5, 1.05 * len(names))
    axes = picture.subplots(len(names), n_people, squeeze=False)
    for row, name in zip(axes, names, strict=True):
        for axis, image, original in zip(row, arrays[name], arrays[_ORIGINAL], strict=False):
            axis.imshow(image, cmap="gray", vmin=0, vmax=float(original.max()))
            axis.set_xticks([])
            axis.set_yticks([])
        row[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8)
    return picture


EXPERIMENT = Experiment(
    name="faces-gallery",
    title="Recovered faces",
    protocol=(
        "Image 23 of people 1 to 10 is among the 16 damaged ones of each; pixels inside one square"
        " are shuffled. λ = 1/√max for RPCA, 0.7 for RKPCA, α = 5 for SSC, as in the paper. MRUC"
        " assumes shared permutations and gets two, and one start. The figure is the mean relative"
        " error of the images shown. The paper prints no figures here."
    ),
    settings=settings,
    n_seeds=lambda quick: 1,
    run=run,
    tables=tables,
    figure=figure,
    quick="two people; ours, the paper's method, RPCA and RPCA-S.",
    check_data=load,
)
