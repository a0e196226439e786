"""What is compared: our defaults, the paper's method with its own settings, and how both score."""

import time
import warnings
from typing import NamedTuple

import numpy as np

from unpermute.classify import EliminationClassifier, elimination_distances
from unpermute.experiments._experiment import Measurement
from unpermute.metrics import (
    outlier_classification_error,
    recovery_error,
    subspace_clustering_error,
    undetected_outlier_ratio,
)
from unpermute.pmsdr import PMSDR
from unpermute.pmsdr._contrast import contrasts, known_subspaces
from unpermute.pmsdr._put_back import put_back

__all__ = [
    "DEFAULT",
    "PAPER",
    "SUBSPACE",
    "Draw",
    "default_method",
    "paper_method",
    "score_pipeline",
    "score_true_bases",
    "timed",
]

DEFAULT = "our default"
# The default moves values; the paper's method replaces vectors by their fit, as this output does.
SUBSPACE = "our default, output='subspace'"
PAPER = "the paper's method here"


class Draw(NamedTuple):
    """Data with a known answer; `bases` are the true ones."""

    X: np.ndarray
    X_clean: np.ndarray
    labels: np.ndarray
    outlier_mask: np.ndarray
    bases: list


def default_method(n_subspaces, rank, n_outliers, random_state):
    """Build the defaults with what the paper gives: L, r and the number of permuted vectors."""
    return PMSDR(
        n_subspaces, rank, contamination=n_outliers, output="subspace", random_state=random_state
    )


def paper_method(
    n_subspaces,
    rank,
    n_outliers,
    random_state,
    *,
    detector="self-representation",
    clusterer="ssc",
    retain_ratio=0.5,
    max_steps=50,
):
    """Build the paper's own method with the settings of its experiments."""
    return PMSDR(
        n_subspaces,
        rank,
        contamination=n_outliers,
        detector=detector,
        clusterer=clusterer,
        basis="svd",
        classifier=EliminationClassifier(rank, retain_ratio=retain_ratio, max_steps=max_steps),
        recoverer="lsrf",
        refine=False,
        output="subspace",
        random_state=random_state,
    )


def timed(function, *args, **options):
    """Return what the function returns, without its warnings, and the seconds it took."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = function(*args, **options)
    return result, time.perf_counter() - start


def score_pipeline(name, model, draw, *, rank=None):
    """Fit a model whose output is "subspace" to a draw and measure everything about it.

    Parameters
    ----------
    name : str
        The method; :data:`PAPER` is judged by the fitted vectors, others by the values they move;
        :data:`DEFAULT` by both, the fitted ones as :data:`SUBSPACE`.
    model : PMSDR
        With ``output="subspace"``.
    draw : Draw
        Data with a known answer.
    rank : int, optional
        If given, also report the refined error of the paper's synthetic experiments.

    Returns
    -------
    list of Measurement
        UOratio, SCerr, CE_recon, RE_recon and RE_whole (over the whole matrix).
    """
    fitted, seconds = timed(model.fit_transform, draw.X)
    detected, mask = model.outlier_mask_, draw.outlier_mask
    found = {
        "UOratio": undetected_outlier_ratio(mask, detected),
        "SCerr": subspace_clustering_error(draw.labels, model.labels_, mask=~detected),
        "CE_recon": outlier_classification_error(
            draw.labels, model.labels_, outlier_mask=mask, outlier_mask_pred=detected
        ),
    }
    outputs = {name: fitted}
    if name != PAPER:
        outputs = {name: np.take_along_axis(draw.X, model.permutations_, axis=1)}
    if name == DEFAULT:
        outputs[SUBSPACE] = fitted
    scores = [Measurement(name, metric, value, seconds) for metric, value in found.items()]
    for output, X in outputs.items():
        scores += [Measurement(output, m, v, seconds) for m, v in _errors(X, draw, rank)]
    return scores


def score_true_bases(name, draw, *, retain_ratio=0.5, max_steps=50, seed=0, by_contrast=False):
    """Classify and recover the permuted vectors of a draw in its true bases: CE_gt and RE_gt.

    With `by_contrast` as for real data, whose noise differs; which vectors are permuted is known.
    """
    offsets = [np.zeros(len(basis)) for basis in draw.bases]
    ours = name == DEFAULT
    contrasted = None
    if by_contrast and ours:
        contrasted = known_subspaces(draw.X, draw.outlier_mask, draw.bases, seed=seed)
    units = contrasts(draw.X) if contrasted else np.ones(len(draw.X))
    noise = _clean_noise(draw, units) if ours else None

    def by_elimination(Y):
        options = {"retain_ratio": retain_ratio, "max_steps": max_steps}
        return elimination_distances(Y, draw.bases, offsets, **options).argmin(axis=1)

    def by_default(Y):
        return contrasted.classify(Y) if contrasted else None

    repaired, seconds = timed(
        put_back,
        draw.X,
        draw.outlier_mask,
        draw.labels,
        draw.bases,
        offsets,
        classify=by_default if ours else by_elimination,
        recoverer="search" if ours else "lsrf",
        output="values" if ours else "subspace",
        min_confidence=0.95,
        noise_scale=noise,
        seed=seed,
        n_jobs=None,
        units=units if contrasted else None,
        accuracy=contrasted.accuracy if contrasted else None,
    )
    error = recovery_error(draw.X_clean, repaired.X, mask=draw.outlier_mask)
    wrong = outlier_classification_error(
        draw.labels, repaired.labels, outlier_mask=draw.outlier_mask
    )
    return [
        Measurement(name, "CE_gt", wrong, seconds),
        Measurement(name, "RE_gt", error, seconds),
    ]


def _errors(X, draw, rank):
    yield "RE_recon", recovery_error(draw.X_clean, X, mask=draw.outlier_mask)
    yield "RE_whole", recovery_error(draw.X_clean, X)
    if rank is not None:
        yield (
            "RE_refined",
            recovery_error(
                draw.X_clean, X, mask=draw.outlier_mask, refined=True, labels=draw.labels, rank=rank
            ),
        )


def _clean_noise(draw, units):
    """Typical residual of a clean vector's entry, as a fit with these bases would measure it."""
    residuals = []
    for k, basis in enumerate(draw.bases):
        mine = (draw.labels == k) & ~draw.outlier_mask
        vectors = draw.X[mine] / units[mine, None]
        rest = vectors - (vectors @ basis) @ basis.T
        residuals.extend(np.linalg.norm(rest, axis=1) / np.sqrt(len(basis)))
    return float(np.median(residuals))
