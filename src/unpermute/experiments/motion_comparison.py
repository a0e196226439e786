"""Other methods on motion data: error of the whole matrix.

Table "Matrix Recovery Error for Comparison Experiments on Hopkins-155" of Xie & Fan (AAAI 2025).
"""

from itertools import chain

import numpy as np

from unpermute.baselines import PerSubspace, RobustKernelPCA, RobustPCA, SSCReconstruction
from unpermute.experiments import motion
from unpermute.experiments._competitors import (
    alone_and_apart,
    best_with_truth,
    mruc_alone_and_apart,
    share_permutations,
)
from unpermute.experiments._experiment import Experiment, Measurement
from unpermute.experiments._figures import box_pairs
from unpermute.experiments._methods import (
    DEFAULT,
    NOTHING_GIVEN,
    PAPER,
    SUBSPACE,
    score_nothing_given,
    score_pipeline,
    timed,
)
from unpermute.experiments._records import pick
from unpermute.experiments._tables import beside, ours_first
from unpermute.metrics import recovery_error

__all__ = ["EXPERIMENT"]

_LAMBDAS = np.arange(0.05, 0.601, 0.05)
_RKPCA = "RKPCA, λ (chosen with the truth)"
_TRUE_GROUPS = " with true groups"
# Median and mean over the sequences with 2 and with 3 motions.
_PRINTED = {
    "RPCA": ((0.046, 0.052), (0.047, 0.055)),
    "RPCA-S": ((0.040, 0.045), (0.043, 0.047)),
    _RKPCA: ((0.009, 0.014), (0.008, 0.012)),
    f"{_RKPCA}-S": ((0.053, 0.064), (0.047, 0.058)),
    "SSC": ((0.087, 0.090), (0.100, 0.104)),
    "SSC-S": ((0.091, 0.095), (0.101, 0.102)),
    "MRUC": ((0.066, 0.084), (0.085, 0.091)),
    "MRUC-S": ((0.048, 0.074), (0.056, 0.078)),
}
_QUICK = ("arm", "three-cars")


def settings(quick):
    """Return the sequences, and which methods run."""
    names = _QUICK if quick else motion.sequences()
    return [
        {"sequence": name, "n_motions": motion.sequences()[name], "methods": methods}
        for methods in ("pmsdr", "nothing-given", "others")
        for name in names
    ]


def run(setting, seed, data_home):
    """Run some methods on one sequence."""
    draw = motion.draw_sequence(setting["sequence"], seed, data_home)
    if setting["methods"] == "others":
        return _others(draw, seed)
    found = _ours(draw, seed) if setting["methods"] == "pmsdr" else score_nothing_given(draw, seed)
    return [m for m in found if m.metric in ("RE_whole", "RE_recon")]


def _ours(draw, seed):
    n_motions, n_outliers = len(draw.bases), int(draw.outlier_mask.sum())
    paper = motion.paper_motion_method(n_motions, seed)
    ours = motion.our_motion_method(n_motions, n_outliers, seed)
    return [*score_pipeline(PAPER, paper, draw), *score_pipeline(DEFAULT, ours, draw)]


def _others(draw, seed):
    """Labels of the "-S" variants come from the paper's method, or are the true ones."""
    paper = motion.paper_motion_method(len(draw.bases), seed)
    labels = timed(paper.fit, draw.X)[0].labels_
    results = chain(_convex(draw, labels), _kernel(draw, labels), _mruc(draw, labels, seed))
    return [
        Measurement(name, "RE_whole", recovery_error(draw.X_clean, X), seconds)
        for name, X, seconds in results
    ]


def _convex(draw, labels):
    for name, method in (("RPCA", RobustPCA()), ("SSC", SSCReconstruction(5.0, affine=True))):
        yield from alone_and_apart(name, method, draw.X, labels)
        true = timed(PerSubspace(method).fit_transform, draw.X, labels=draw.labels)
        yield f"{name}-S{_TRUE_GROUPS}", *true


def _kernel(draw, labels):
    """The weight that is best for all vectors together also serves the groups, as in the paper."""
    models = [RobustKernelPCA(float(lam), normalize=True) for lam in _LAMBDAS]
    best, X, seconds = best_with_truth(models, draw.X, lambda X: recovery_error(draw.X_clean, X))
    yield _RKPCA, X, seconds
    for suffix, groups in (("-S", labels), (f"-S{_TRUE_GROUPS}", draw.labels)):
        yield _RKPCA + suffix, *timed(PerSubspace(best).fit_transform, draw.X, labels=groups)


def _mruc(draw, labels, seed):
    """The shuffled points are split into two parts that share one permutation each."""
    rng = np.random.default_rng(seed)
    n_features = draw.X.shape[1]
    X, groups = share_permutations(
        draw.X_clean,
        draw.outlier_mask,
        2,
        lambda rng: rng.choice(n_features, int(0.4 * n_features), replace=False),
        rng,
    )
    yield from mruc_alone_and_apart(X, groups, labels, seed=seed, rank=2)


def tables(records):
    """Median and mean over the sequences."""
    return [_table(records, n) for n in (2, 3) if any(r.parsed["n_motions"] == n for r in records)]


def _table(records, n_motions):
    mine = [record for record in records if record.parsed["n_motions"] == n_motions]
    rows = []
    for method in ours_first(mine):
        values = [record.value for record in pick(mine, method, "RE_whole")]
        outliers = [record.value for record in pick(mine, method, "RE_recon")]
        printed = _PRINTED.get(method, ((None, None),) * 2)[n_motions - 2]
        figures = {
            "median": float(np.median(values)),
            "mean": float(np.mean(values)),
            "published median": printed[0],
            "published mean": printed[1],
            "mean over shuffled points only": float(np.mean(outliers)) if outliers else None,
        }
        rows.append(((method,), figures))
    n_sequences = len({record.parsed["sequence"] for record in mine})
    caption = f"{n_motions} motions, {n_sequences} sequences: error of the whole matrix"
    return beside(("method",), rows, list(rows[0][1]), caption=caption)


def figure(records, arrays):
    """Draw the spread over the sequences."""
    names = [DEFAULT, SUBSPACE, NOTHING_GIVEN, PAPER, *_PRINTED]
    values = {m: [r.value for r in pick(records, m, "RE_whole")] for m in names}
    picture = box_pairs({"": {m: v for m, v in values.items() if v}}, y="error of the whole matrix")
    picture.set_size_inches(8.0, 5.0)
    return picture


EXPERIMENT = Experiment(
    name="motion-comparison",
    title="Motion: other methods",
    protocol=(
        "Error of the whole matrix on the draws of the motion experiment. RPCA λ = 1/√max; RKPCA"
        " with vectors scaled to length 1, λ the best of 0.05 to 0.6 per sequence, chosen with the"
        " truth; SSC α = 5, affine; MRUC of rank 2, best of 10 starts by its own cost, on the same"
        " points shuffled by two shared permutations. Labels of the -S variants come from stages 1"
        " to 3 of the paper's method. The published rows of PMSDR repeat the error over the"
        " shuffled points only; both are given here."
    ),
    settings=settings,
    n_seeds=lambda quick: 1,
    run=run,
    tables=tables,
    figure=figure,
    quick=f"{len(_QUICK)} of 155 sequences: {', '.join(_QUICK)}.",
    check_data=motion.load,
)
