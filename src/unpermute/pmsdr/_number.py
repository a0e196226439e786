"""How many components: candidates from graphs, chosen by what repairs of held-out vectors say.

Candidate partitions are spectral clusters of two graphs: the shape interaction matrix (products of
whitened vectors) and elastic-net self-representation. Vectors are then reassigned by their held-out
likelihood. Hold-outs stay out of clustering and fitting; they are shuffled and repaired, and their
errors are compared in pairs with those under the present number of components.
"""

from dataclasses import dataclass, field

import numpy as np
from sklearn.cluster import KMeans

from unpermute.cluster import ElasticNetSubspaceClustering
from unpermute.numerics.robust_subspace import unit_rows
from unpermute.pmsdr._judge import FAST, Membership, judge
from unpermute.pmsdr._mixture import SMALLEST, fit_mixture
from unpermute.pmsdr._model import fit_component, principal_directions
from unpermute.pmsdr._trials import shuffle

__all__ = ["Graphs", "Partition", "choose_number", "is_better"]

# Hold-outs, their share of the vectors and their largest size.
_SPLITS, _SHARE, _SPLIT_SIZE = 4, 0.2, 60
# Gain in the mean logarithm of the error that one more component must bring.
_WORTH_IT = 0.1
# Numbers beyond the best so far that are tried before the search ends.
_PATIENCE = 3


class Graphs:
    """Spectral embeddings of the graphs of clean vectors, for any number of groups."""

    def __init__(self, X, component, *, seed, n_jobs=None):
        self.size, self.seed = len(X), seed
        self.embeddings = [_embedding(_interaction(X, component))]
        if len(X) > 2:
            graph = ElasticNetSubspaceClustering(2, random_state=seed, n_jobs=n_jobs)
            graph.fit(unit_rows(X))
            self.embeddings.append(_embedding(graph.affinity_matrix_.toarray()))

    def partitions(self, count):
        """One partition into `count` groups for every graph; none if they would be too small."""
        if self.size < 2 * SMALLEST * count:
            return []
        found = []
        for embedding in self.embeddings:
            means = KMeans(count, n_init=5, random_state=self.seed)
            found.append(means.fit_predict(unit_rows(embedding[:, :count])))
        return found


def _interaction(X, component):
    """Squared products of whitened vectors of length 1, the largest of every vector kept."""
    Z = unit_rows(X)
    V = principal_directions(Z, min(component.rank + 1, *Z.shape))
    scores = Z @ V.T
    noise = component.noise / np.mean(np.sum(X**2, axis=1))
    white = scores / np.sqrt(np.mean(scores**2, axis=0) + noise)
    products = np.abs(white @ white.T)
    np.fill_diagonal(products, 0.0)
    n = len(X)
    kept = min(n - 1, max(5, int(2 * np.sqrt(n))))
    least = np.partition(products, n - kept, axis=1)[:, [n - kept]]
    graph = np.where(products >= least, products, 0.0) ** 2
    graph /= graph.max(axis=1, keepdims=True) + 1e-12
    return graph + graph.T


def _embedding(graph):
    """Eigenvectors of the normalised graph, those of the largest eigenvalues first."""
    scale = 1.0 / np.sqrt(graph.sum(axis=1) + 1e-12)
    return np.linalg.eigh(scale[:, None] * graph * scale)[1][:, ::-1]


def _paired(errors, others):
    """Compare paired errors: mean log ratio, ratio of totals, and their standard errors."""
    floor = 1e-3 * np.median(others) + 1e-300
    logs = np.log(errors + floor) - np.log(others + floor)
    ratio = errors.sum() / max(others.sum(), 1e-300)
    root = np.sqrt(len(errors))
    spread = np.std(errors - ratio * others) * root / max(others.sum(), 1e-300)
    return logs.mean(), logs.std() / root, ratio, spread


@dataclass
class _Split:
    """One hold-out: fitted and held-out rows, the shuffled vectors, and errors by candidate."""

    fitted: np.ndarray
    held: np.ndarray
    shuffled: np.ndarray
    graphs: Graphs | None = None
    errors: dict = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Partition:
    """Components of given labels, and perhaps of given ranks, as a candidate."""

    labels: np.ndarray
    rank: int | list[int] | None = None


class _Comparison:
    """Errors of repaired hold-outs under candidates (number of components, graph)."""

    def __init__(self, X, present, patterns, *, seed, n_jobs):
        self.X, self.present = X, present
        self.seed, self.n_jobs = seed, n_jobs
        size = min(max(int(_SHARE * len(X)), SMALLEST), _SPLIT_SIZE)
        order = np.random.default_rng(seed).permutation(len(X))
        self.splits = []
        for f in range(min(_SPLITS, len(X) // size)):
            held = order[f * size : (f + 1) * size]
            rng = np.random.default_rng((seed, f))
            shuffled = shuffle(X[held], patterns, rng)[0]
            self.splits.append(_Split(np.setdiff1d(order, held), held, shuffled))

    def errors(self, split, candidate):
        """Squared errors of both outputs; None if the candidate has no mixture here."""
        if candidate not in split.errors:
            split.errors[candidate] = self._measure(split, candidate)
        return split.errors[candidate]

    def _measure(self, split, candidate):
        X = self.X[split.fitted]
        candidate, rank = self.present if candidate is None else candidate, None
        if isinstance(candidate, Partition):
            labels, rounds, rank = candidate.labels[split.fitted], 0, candidate.rank
        else:
            count, graph = candidate
            if split.graphs is None:
                component = fit_component(X)
                split.graphs = Graphs(X, component, seed=self.seed, n_jobs=self.n_jobs)
            found = split.graphs.partitions(count)
            if graph >= len(found):
                return None
            labels, rounds = found[graph], 2
        mixture, _ = fit_mixture(X, labels, rounds=rounds, rank=rank)
        if mixture is None:
            return None
        unseen = Membership.none(len(split.held))
        judged = judge(split.shuffled, mixture, unseen, FAST, n_jobs=self.n_jobs)
        truth = self.X[split.held]
        return np.sum((judged.values - truth) ** 2 + (judged.blend - truth) ** 2, axis=1)

    def everywhere(self, candidate):
        """Errors over all hold-outs, or None."""
        parts = [self.errors(split, candidate) for split in self.splits]
        return None if any(part is None for part in parts) else np.concatenate(parts)


def choose_number(X, labels, patterns, *, most, seed=0, n_jobs=None):
    """Choose the number of components and the graph that splits them.

    One hold-out decides which numbers are promising, all of them which is taken: the smallest
    within one standard error of the best, if it is clearly better than the present one both in the
    mean logarithm of the error and in the total.

    Parameters
    ----------
    X : ndarray of shape (n_clean, n_features)
        Vectors without missing entries.
    labels : ndarray of int of shape (n_clean,)
        Present components.
    patterns : list of Pattern
        How hold-outs are shuffled.
    most : int
        Largest number.
    seed : int, default=0
    n_jobs : int, default=None

    Returns
    -------
    candidate : tuple of int (number, graph), or None
        None: the present components stay.
    """
    if len(X) < 4 * SMALLEST:
        return None  # too few to be held out and divided
    comparison = _Comparison(X, Partition(labels), patterns, seed=seed, n_jobs=n_jobs)
    if not comparison.splits:
        return None
    first, present = comparison.splits[0], int(labels.max()) + 1
    base = comparison.errors(first, None)
    if base is None:
        return None
    best, best_count = 0.0, present
    changes: dict[tuple[int, int], float] = {}
    for count in range(present + 1, most + 1):
        for graph in range(2):
            errors = comparison.errors(first, (count, graph))
            if errors is None:
                continue
            change, error, ratio, ratio_error = _paired(errors, base)
            changes[count, graph] = change
            if change < best - 0.02 and change < -error and ratio < 1 + ratio_error:
                best, best_count = change, count
        if count - best_count >= _PATIENCE:
            break
    if best_count == present:
        return None
    promising = [
        candidate
        for candidate, change in changes.items()
        if change < best / 2 and candidate[0] <= best_count + 1
    ]
    return _confirm(comparison, promising)


def is_better(X, candidate, present, patterns, *, seed=0, n_jobs=None):
    """Whether repairs of held-out vectors are clearly better with one partition than another.

    Parameters
    ----------
    X : ndarray of shape (n_clean, n_features)
        Vectors without missing entries.
    candidate, present : Partition
    patterns : list of Pattern
        How hold-outs are shuffled.
    seed : int, default=0
    n_jobs : int, default=None

    Returns
    -------
    bool
    """
    if len(X) < 4 * SMALLEST:
        return False
    comparison = _Comparison(X, present, patterns, seed=seed, n_jobs=n_jobs)
    return _confirm(comparison, [candidate]) is not None


def _confirm(comparison, candidates):
    """The smallest candidate within one standard error of the best over all hold-outs."""
    base, clear = comparison.everywhere(None), {}
    if base is None:
        return None
    for candidate in candidates:
        errors = comparison.everywhere(candidate)
        if errors is not None:
            change, error, ratio, ratio_error = _paired(errors, base)
            if change + error < -_WORTH_IT and ratio + ratio_error < 1:
                clear[candidate] = change, errors
    if not clear:
        return None
    best = min(clear, key=lambda c: clear[c][0])
    for candidate in sorted(clear) if len(clear) > 1 else clear:
        change, error, ratio, ratio_error = _paired(clear[candidate][1], clear[best][1])
        if change <= max(error, 0.02) and ratio <= 1 + max(ratio_error, 0.02):
            return candidate
    return best
