"""First guesses of which vectors are clean: those with little noise, all together or in clusters.

The noise of a vector relative to its variance, by a component that it did not shape, tells clean
vectors from shuffled ones even while many of those take part in the fit. The third with the least
is trusted first; it grows by a cut between what these vectors and shuffled copies of them show.

A union of subspaces is started from the clusters of a graph, each trimmed in the same way. Too many
clusters do no harm: vectors that go to the likeliest component leave the superfluous ones empty.
"""

import numpy as np

from unpermute.pmsdr._explain import in_place
from unpermute.pmsdr._mixture import SMALLEST
from unpermute.pmsdr._model import fit_component, held_out_standing
from unpermute.pmsdr._stages import cluster, detect
from unpermute.pmsdr._trials import SHARES, scattered, shuffle

__all__ = ["COST", "FAR_MORE_LIKELY", "best_cut", "cluster_start", "robust_start"]

# Share of the vectors that is trusted first, and the least that may be left of them.
_TRUSTED, _LEFT = 0.35, 0.2
_FEWEST = 10
# Concentration steps that lower their noise, and rounds in which they grow.
_STEPS, _ROUNDS = 8, 3
# Nats per entry by which clean vectors are more likely if their noise is e times smaller.
FAR_MORE_LIKELY = 1.0
# Interquartile ranges beyond the upper quartile from which a value is far out (Tukey).
_FAR_OUT = 3.0
# A clean vector that is cut away weighs as much as so many missed ones.
COST = 2.0
# Clusters of fewer vectors are not trimmed.
_SMALL_CLUSTER = 20


def robust_start(X, filled, rng):
    """Vectors with little noise for their variance, by views that they did not shape.

    Parameters
    ----------
    X, filled : ndarray of shape (n_vectors, n_features)
        Vectors with NaN where entries are missing, and with these predicted.
    rng : numpy.random.Generator

    Returns
    -------
    clean : ndarray of bool of shape (n_vectors,)
    """
    known: dict[bytes, tuple] = {}

    def stand(clean):
        """Judge all by the clean ones; both ways come by the same sets of these."""
        key = clean.tobytes()
        if key not in known:
            known[key] = _stand(X, filled, clean)
        return known[key]

    clean, exact = (
        _grow(X, stand, _concentrate(X, stand, surprise), surprise, rng)
        for surprise in (_noise, _unlikeliness)
    )
    return exact if _is_far_likelier(X, stand, exact, clean) else clean


def _noise(standing, X):
    """Logarithm of the noise of vectors over their variance: few moved entries hardly raise it."""
    return np.log(standing.noise) - np.log(np.nanvar(X, axis=1) + 1e-300)


def _unlikeliness(standing, X):
    """The same, were the noise normal and the likelihood as it is: a moved entry raises it."""
    return -2.0 / X.shape[1] * standing.likelihood - np.log(np.nanvar(X, axis=1) + 1e-300)


def _stand(X, filled, clean):
    """Fit the clean vectors, and judge all by folds that they did not shape."""
    component = fit_component(filled[clean])
    folds = np.full(len(X), -1)
    folds[clean] = component.folds
    return component, in_place(X, component, folds)


def _concentrate(X, stand, surprise):
    """Fit again and again to the third with the least surprise (C-steps of FastLTS)."""
    clean = np.ones(len(X), dtype=bool)
    for _ in range(_STEPS):
        before, found = clean, surprise(stand(clean)[1], X)
        clean = found <= np.quantile(found, _TRUSTED)
        if np.array_equal(clean, before):
            break
    return clean


def _is_far_likelier(X, stand, one, other):
    """Whether vectors that both fits are to are far likelier under the first."""
    both = one & other
    if both.sum() < _FEWEST:
        return False
    ours, theirs = (stand(clean)[1].likelihood[both] for clean in (one, other))
    return np.mean(ours - theirs) > FAR_MORE_LIKELY * X.shape[1]


def _grow(X, stand, clean, surprise, rng):
    """Take in all vectors that are more like these than like shuffled copies of them."""
    for _ in range(_ROUNDS):
        component, standing = stand(clean)
        found = surprise(standing, X)
        copies, _ = shuffle(X[clean], scattered(SHARES), rng)
        tried = surprise(held_out_standing(copies, component), copies)
        lower, upper = np.quantile(found[clean], [0.25, 0.75])
        limit = best_cut(found[clean], tried, COST)
        selected = found <= min(limit, upper + _FAR_OUT * (upper - lower))
        if selected.sum() < max(_FEWEST, _LEFT * len(X)) or np.array_equal(selected, clean):
            break
        clean = selected
    return clean


def cluster_start(X, filled, given, rng):
    """Clusters of the vectors that a detector takes for clean, each trimmed.

    Parameters
    ----------
    X, filled : ndarray of shape (n_vectors, n_features)
    given : Given
    rng : numpy.random.Generator

    Returns
    -------
    labels : ndarray of int of shape (n_vectors,)
        −1 for vectors that seem damaged or do not fit their cluster.
    """
    options = {"seed": given.seed, "n_jobs": given.n_jobs}
    inliers = np.flatnonzero(~detect(filled, given.detector, given.contamination, **options))
    options |= {"min_size": given.cluster_size(len(inliers)), "affine": False}
    count = given.n_subspaces
    if given.pieces is not None:
        count = max(min(given.pieces, len(inliers) // _SMALL_CLUSTER), 1)
    found = cluster(filled[inliers], given.clusterer, count, **options)
    labels = np.full(len(X), -1)
    for k in range(found.max() + 1):
        rows = inliers[found == k]
        if len(rows) >= _SMALL_CLUSTER:
            rows = rows[robust_start(X[rows], filled[rows], rng)]
        if len(rows) >= SMALLEST:  # too few would only spoil the components that they join
            labels[rows] = k
    return labels


def best_cut(clean, shuffled, cost):
    """Threshold with the least weighed share of errors; in the middle of the widest gap of ties."""
    values = np.unique(np.concatenate([clean, shuffled]))
    if len(values) < 2:
        return np.inf
    middles = (values[1:] + values[:-1]) / 2
    false = 1.0 - np.searchsorted(np.sort(clean), middles, side="right") / len(clean)
    missed = np.searchsorted(np.sort(shuffled), middles, side="right") / len(shuffled)
    risk = cost * false + missed
    ties = np.flatnonzero(risk <= risk.min() + 1e-12)
    return float(middles[ties[np.argmax(np.diff(values)[ties])]])
