"""Which vectors are learned from: all, each from the others if they are few, a sample if many.

Few vectors are judged by their peers, unless repairs by the model leave trials without error.

Of very many, a random sample is learned from, and all are judged in one pass. Groups that are too
thin in the sample show as vectors that the model neither takes for clean nor repairs. Those of a
larger pool join the sample, once, and if what is learned from both explains more of them, it is
kept.
"""

import logging

import numpy as np

from unpermute.pmsdr._clean_model import learn_model
from unpermute.pmsdr._peers import learn_from_peers

__all__ = ["learn", "sample_size"]

logger = logging.getLogger("unpermute")

# Fewer vectors tell nothing, and fewer than these may be better judged by each other.
_LEAST, _FEW = 4, 60
# Share of the error of trials that repairs by the model must remove to be left as they are.
_NEARLY_ALL = 0.95
# Up to so many vectors all of them take part in the fit; else a sample of so many does.
_MANY, _SAMPLE = 5000, 3000
# Vectors in which unexplained ones are looked for, and share of the sample that joins it at most.
_POOL, _ADDED = 20_000, 0.5
# Fewer unexplained vectors are no group.
_ENOUGH = 20
# Noise that may come with explaining more.
_MORE_NOISE = 1.2


def sample_size(max_exemplars, n_vectors):
    """Return how many vectors take part in the fit."""
    if max_exemplars is None:
        return n_vectors
    if max_exemplars == "auto":
        return n_vectors if n_vectors <= _MANY else _SAMPLE
    return min(n_vectors, int(max_exemplars))


def learn(X, given, size, *, min_confidence):
    """Learn how to judge vectors.

    Parameters
    ----------
    X : ndarray of shape (n_vectors, n_features)
    given : Given
    size : int
        Vectors to learn from.
    min_confidence : float

    Returns
    -------
    model : Judge or None
        None if nothing can be learned.
    rows : ndarray of int
        The vectors that it was learned from.
    """
    options = {"min_confidence": min_confidence}
    if size < len(X):
        return _learn_from_sample(X, given, size, options)
    if len(X) < _LEAST:
        return None, np.arange(len(X))
    model = learn_model(X, given, **options)
    few = len(X) < min(_FEW, X.shape[1]) and given.recoverer == "search"
    if few and (model is None or _worth(model) < _NEARLY_ALL):
        peers = learn_from_peers(X, given, **options)
        model = model if peers is None else peers
    return model, np.arange(len(X))


def _worth(model):
    """Share of the error of trials that sure repairs remove, over the outputs."""
    return np.mean(list(model.report.removed.values()) or [0.0])


def _learn_from_sample(X, given, size, options):
    """Learn from a random sample, and from what it does not explain."""
    rng = np.random.default_rng(given.seed)
    rows = np.sort(rng.choice(len(X), size, replace=False))
    model = learn_model(X[rows], given, **options)
    if model is None:
        return None, rows
    pool = np.setdiff1d(rng.choice(len(X), min(len(X), _POOL), replace=False), rows)
    odd = pool[_unexplained(model, X[pool], given)]
    if len(odd) < _ENOUGH:
        return model, rows
    added = rng.permutation(odd)[: int(_ADDED * size)]
    both = np.sort(np.concatenate([rows, added]))
    other = learn_model(X[both], given, **options)
    if other is None:
        return model, rows
    left = np.sum(_unexplained(other, X[odd], given))
    noise, other_noise = (np.median([p["noise"] for p in m.noise_report]) for m in (model, other))
    better = left < len(odd) and other_noise <= _MORE_NOISE * noise
    logger.debug("sample: %d of %d vectors left unexplained: %s", left, len(odd), better)
    return (other, both) if better else (model, rows)


def _unexplained(model, X, given):
    """Vectors unlike clean ones, as they stand and repaired."""
    Y = model.in_units(X)
    judged = model.explain(Y, n_jobs=given.n_jobs)
    return model.is_suspicious(judged, Y) & ~model.is_explained(judged, Y)
