"""What is compared: our defaults, given what the paper gives or nothing; the paper's method."""

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
from unpermute.numerics.subspaces import residual_norms
from unpermute.pmsdr import PMSDR
from unpermute.recover import recover_everywhere, recover_vectors, starts_for

__all__ = [
    "ALONE",
    "DEFAULT",
    "NOTHING_GIVEN",
    "PAPER",
    "SUBSPACE",
    "Draw",
    "default_method",
    "paper_method",
    "score_nothing_given",
    "score_pipeline",
    "score_true_bases",
    "timed",
]

DEFAULT = "our default"
# The default moves values; the paper's method replaces vectors by their fit, as this output does.
SUBSPACE = "our default, output='subspace'"
# The default without the number of subspaces, the rank and the number of permuted vectors.
NOTHING_GIVEN = "nothing given"
PAPER = "the paper's method here"
ALONE = "leave alone"
# Random starts of a vector in a true basis, and the confidence from which it is moved.
_MAX_STARTS, _SURE = 2000, 0.95


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


def score_nothing_given(draw, seed, *, rank=None):
    """Fit the defaults, given nothing, to a draw; measure them, and the matrix left alone.

    The number of components may differ from that of the true subspaces: a component stands for the
    subspace of most of the vectors in it that were taken for clean.

    Parameters
    ----------
    draw : Draw
        Data with a known answer.
    seed : int
        Seed of the method.
    rank : int, optional
        If given, also report the refined error of the paper's synthetic experiments.

    Returns
    -------
    list of Measurement
        The measures of :func:`score_pipeline` and the number of components; of the matrix left
        alone its errors.
    """
    model = PMSDR(random_state=seed)
    fixed, seconds = timed(model.fit_transform, draw.X)
    detected, mask = model.outlier_mask_, draw.outlier_mask
    wrong = _majority_classes(draw.labels, model.labels_, detected) != draw.labels
    found = {
        "UOratio": undetected_outlier_ratio(mask, detected),
        "SCerr": _share(wrong[~detected]),
        "CE_recon": _share(wrong[mask & detected]),
        **dict(_errors(fixed, draw, rank)),
        "components": model.n_subspaces_,
    }
    scores = [Measurement(NOTHING_GIVEN, metric, value, seconds) for metric, value in found.items()]
    return scores + [Measurement(ALONE, m, v, 0.0) for m, v in _errors(draw.X, draw, rank)]


def score_true_bases(name, draw, *, retain_ratio=0.5, max_steps=50, seed=0, exact=False):
    """Classify and recover the permuted vectors of a draw in its true bases: CE_gt and RE_gt.

    Which vectors are permuted is known. Ours looks for every vector in all bases if they are
    `exact`; else vectors are repaired by a model of the clean ones, which is told how many are
    permuted, and belong to the true basis that is nearest to the repair.
    """
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name != DEFAULT:
            options = {"retain_ratio": retain_ratio, "max_steps": max_steps}
            labels, recovered = _eliminate_in(draw, options)
        elif exact:
            labels, recovered = _search_in(draw, seed)
        else:
            labels, recovered = _repair_and_compare(draw, seed)
    seconds, mask = time.perf_counter() - start, draw.outlier_mask
    wrong = outlier_classification_error(draw.labels, labels, outlier_mask=mask)
    return [
        Measurement(name, "CE_gt", wrong, seconds),
        Measurement(name, "RE_gt", recovery_error(draw.X_clean, recovered, mask=mask), seconds),
    ]


def _eliminate_in(draw, options):
    """Stages 3 and 4 of the paper's method."""
    mask, offsets = draw.outlier_mask, _zeros(draw)
    labels, recovered = draw.labels.copy(), draw.X.copy()
    labels[mask] = elimination_distances(draw.X[mask], draw.bases, offsets, **options).argmin(1)
    for k in np.unique(labels[mask]):
        rows = np.flatnonzero(mask & (labels == k))
        recovered[rows] = recover_vectors(draw.X[rows], draw.bases[k], method="lsrf").fitted
    return labels, recovered


def _search_in(draw, seed):
    """Recover every vector wherever it works; move the values of those that are sure."""
    mask, labels, recovered = draw.outlier_mask, draw.labels.copy(), draw.X.copy()
    noise = _clean_noise(draw)
    labels[mask] = recover_everywhere(
        draw.X[mask], draw.bases, _zeros(draw), noise_scale=noise,
        max_starts=starts_for(draw.X.shape[1], _MAX_STARTS), seed=seed,
    ).labels  # fmt: skip
    for k in np.unique(labels[mask]):
        rows = np.flatnonzero(mask & (labels == k))
        found = recover_vectors(draw.X[rows], draw.bases[k], noise_scale=noise, random_state=seed)
        moved = np.take_along_axis(draw.X[rows], found.permutations, axis=1)
        recovered[rows] = np.where(found.confidence[:, None] >= _SURE, moved, draw.X[rows])
    return labels, recovered


def _repair_and_compare(draw, seed):
    """Repair by a model of clean vectors, and take the nearest basis."""
    count = int(draw.outlier_mask.sum())
    model = PMSDR(contamination=count, output="subspace", random_state=seed)
    estimates = model.fit_transform(draw.X)
    labels = residual_norms(estimates, draw.bases, _zeros(draw)).argmin(axis=1)
    return labels, np.take_along_axis(draw.X, model.permutations_.astype(int), axis=1)


def _majority_classes(labels, components, detected):
    """Return the class of every vector's component, -1 if no vector in it was taken for clean."""
    classes = np.full(len(labels), -1)
    for k in np.unique(components[~detected]):
        names, counts = np.unique(labels[~detected & (components == k)], return_counts=True)
        classes[components == k] = names[counts.argmax()]
    return classes


def _share(wrong):
    return float(wrong.mean()) if wrong.size else 0.0


def _zeros(draw):
    return [np.zeros(len(basis)) for basis in draw.bases]


def _clean_noise(draw):
    """Typical residual of a clean vector's entry."""
    residuals = residual_norms(draw.X, draw.bases, _zeros(draw))[~draw.outlier_mask]
    return float(np.median(residuals.min(axis=1)) / np.sqrt(draw.X.shape[1]))


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
