r"""Real data: vectors whose noise grows with their contrast.

The distance of a face in the dark, or of a point that hardly moves, from its subspace says little
until it is compared with what a permutation could change: the standard deviation of the vector's
entries, its contrast. Where no common noise explains the clean vectors, all are divided by their
contrast (a linear subspace does not mind), clustered by the shape interaction matrix, and judged by
their distances from subspaces they did not shape, in turn until the selection no longer changes.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np

from unpermute._validation import resolve_contamination
from unpermute.cluster import ShapeInteractionClustering
from unpermute.detect import split_log_scores
from unpermute.numerics.collaborative import represent_together
from unpermute.numerics.elimination import eliminate, elimination_schedule
from unpermute.pmsdr._accuracy import try_accuracy
from unpermute.pmsdr._distances import distances_as_they_stand
from unpermute.pmsdr._refine import fit_members, relative_distances
from unpermute.recover import Accuracy, recover_everywhere

__all__ = ["Contrasted", "contrasts", "known_subspaces", "learn_by_contrast", "noise_is_uneven"]

# Distances of clean vectors that spread so many times more than those of a common noise.
_UNEVEN = 2.5
_MAX_ROUNDS = 6
# Distances so many times smaller than the median do not differ.
_CLOSE = 4.0
# A vector that would turn a subspace more than this is not near it.
_MAX_LEVERAGE = 1.0
# A vector that the detector trusts is left out of the fit only this many times beyond the limit.
_UNUSUAL = 1.5
# Share of such vectors in a cluster of their own; elsewhere it is below.
_OWN_CLUSTER = 0.4
# Shares of the entries that the classification retains.
_RETAINED = (0.3, 0.5, 0.7)
# Clean vectors up to this share of the entries represent others together: more would represent
# anything, whatever moved.
_FEW_CLEAN = 0.5
# Weights of the coefficients of such representations, against mean absolute errors.
_RIDGE_TOGETHER, _RIDGE_ALONE = 0.4, 0.01
# Subspaces, by these distances, in which a vector is recovered to be classified.
_PLAUSIBLE = 3
# Share of the entries that count as independent when distances are weighed against coordinates.
_INDEPENDENT = 0.1
# Degrees of freedom of the t distribution of coordinates.
_TAILS = 4.0
# Relative noise up to which a fit to a basis is evidence against other subspaces. More is what the
# rank does not hold, and not independent: faces in the dark fit those of other people.
_EXACT = 0.05


@dataclass(frozen=True)
class Contrasted:
    """Linear subspaces of vectors divided by their contrasts.

    Attributes
    ----------
    bases : list of ndarray of shape (n_features, rank)
    means, covariances : list of ndarray
        Of the coordinates of the clean vectors of every subspace, not divided.
    noise : float
        Typical distance of a clean vector, per entry, in units of its contrast.
    limit : float
        Distances above it are those of permuted vectors.
    mask, labels : ndarray of shape (n_vectors,)
        Which vectors are permuted, and the subspaces of the others (−1: permuted).
    members : list of ndarray of shape (n_members, n_features), or None
        The clean vectors of every subspace, divided, if they are few enough to tell more than the
        bases do.
    accuracy : Accuracy, or None
        How accurate fits are, if the noise is not independent.
    """

    bases: list[np.ndarray]
    means: list[np.ndarray]
    covariances: list[np.ndarray]
    noise: float
    limit: float
    mask: np.ndarray
    labels: np.ndarray
    members: list[np.ndarray] | None = None
    accuracy: Accuracy | None = None

    def classify(self, Y, *, n_jobs=None):
        """Return the subspaces of permuted vectors, as they were observed."""
        units = contrasts(Y)
        scaled = Y / units[:, None]
        if self.members is None:
            return self._classify_apart(scaled, units, n_jobs)
        labels = np.empty(len(Y), dtype=np.int64)
        whole = ~np.isnan(Y).any(axis=1)
        labels[whole] = _classify_by_members(scaled[whole], self.members)
        if not whole.all():
            labels[~whole] = self._classify_apart(scaled[~whole], units[~whole], n_jobs)
        return labels

    def _classify_apart(self, scaled, units, n_jobs):
        """Return the subspace from which every vector is least far.

        Algorithm 2 with several shares of the entries retained (few where most of them moved, many
        where subspaces are similar), and, in the nearest few, how usual the coordinates of the
        recovered vector are: a motion of lower rank has a direction to spare, in which points of
        another would lie far out. A t distribution with few degrees of freedom says how usual.
        """
        distances = _log_distances(scaled, self.bases, n_jobs)
        plausible = np.argsort(np.argsort(distances, axis=1), axis=1) < _PLAUSIBLE
        costs = np.where(plausible, _INDEPENDENT * scaled.shape[1] * distances, np.inf)
        for k, basis in enumerate(self.bases):
            rows = np.flatnonzero(plausible[:, k])
            if len(rows) > 0:
                found = recover_everywhere(
                    scaled[rows], [basis], [np.zeros(len(basis))], noise_scale=self.noise,
                    max_starts=0, seed=0, n_jobs=n_jobs,
                )  # fmt: skip
                costs[rows, k] += self._unusual(found.coefficients * units[rows, None], k)
        return costs.argmin(axis=1)

    def _unusual(self, coordinates, k):
        """Minus the log-density of coordinates, up to a constant."""
        centred, covariance = coordinates - self.means[k], self.covariances[k]
        squares = np.sum(centred * np.linalg.solve(covariance, centred.T).T, axis=1)
        weight = 0.5 * (_TAILS + len(covariance))
        volume = 0.5 * np.linalg.slogdet(covariance)[1]
        return volume + weight * np.log1p(squares / _TAILS)


def _classify_by_members(Y, members):
    """Return the subspace whose clean vectors represent every vector best.

    No rank holds all of a face, but other faces under the same light do. The vectors of all
    subspaces represent it together, and what one of them contributes to that leaves an error:
    people are told apart much better in competition. What subspaces have in common is shared out
    among them, though; so the cost of each alone is added.
    """
    n_features = Y.shape[1]
    X = represent_together(Y, np.vstack(members), ridge=_RIDGE_TOGETHER * n_features).solution
    parts = np.split(X, np.cumsum([len(own) for own in members])[:-1], axis=1)
    costs = []
    for part, own in zip(parts, members, strict=True):
        alone = represent_together(Y, own, ridge=_RIDGE_ALONE * n_features).solution
        errors = np.abs(Y - part @ own) + np.abs(Y - alone @ own)
        costs.append(
            errors.sum(axis=1) + 0.5 * _RIDGE_ALONE * n_features * np.sum(alone**2, axis=1)
        )
    return np.argmin(costs, axis=0)


def _log_distances(Y, bases, n_jobs):
    """Logarithms of Algorithm 2's distances, the means over the shares that are retained."""
    total = np.zeros((len(Y), len(bases)))
    for share, (k, basis) in product(_RETAINED, enumerate(bases)):
        schedule = elimination_schedule(*basis.shape, retain_ratio=share, max_steps=20)
        distances = eliminate(Y, basis, schedule, stage="classify", n_jobs=n_jobs)[1]
        total[:, k] += np.log(np.maximum(distances, 1e-300))
    return total / len(_RETAINED)


def contrasts(X):
    """Standard deviation of the entries of every vector; 1 where they are all equal."""
    deviations = np.nanstd(X, axis=1)
    return np.where(deviations > 0, deviations, 1.0)


def noise_is_uneven(distances, n_degrees):
    """Whether clean vectors lie at distances that a common noise does not explain.

    The logarithm of a χ variable with d degrees of freedom has the standard deviation 1/√(2d);
    the quartiles of a normal variable are 1.349 standard deviations apart.
    """
    finite = distances[np.isfinite(distances) & (distances > 0)]
    if len(finite) == 0:
        return False
    lower, upper = np.quantile(np.log(finite), [0.25, 0.75])
    return bool(upper - lower > _UNEVEN * 1.349 / np.sqrt(2.0 * n_degrees))


def learn_by_contrast(X, mask, *, n_subspaces, rank, affine, contamination, seed, n_jobs):
    """Cluster the clean vectors and select them again, until the selection stays.

    Parameters
    ----------
    X : ndarray of shape (n_vectors, n_features)
        Vectors without missing entries.
    mask : ndarray of shape (n_vectors,)
        Vectors that seem permuted.
    n_subspaces, rank : int
        As given.
    affine : bool
        Whether the subspaces have an offset; they are then clustered as such, and spanned by their
        linear hulls, of one more dimension.
    contamination : "auto", float or int
        Share or number of permuted vectors.
    seed : int
        Seeds k-means.
    n_jobs : int or None
        Threads.

    Returns
    -------
    Contrasted
    """
    scaled = X / contrasts(X)[:, None]
    # Fewer vectors than twice the rank do not tell a subspace from what lies near several of them,
    # such as faces in the dark.
    clusterer = ShapeInteractionClustering(
        n_subspaces, rank, affine=affine, min_size=max(rank + 2, 2 * rank), n_jobs=n_jobs,
        random_state=seed,
    )  # fmt: skip
    ranks, far, left_out, seen = [rank + affine] * n_subspaces, mask, mask, set()
    for _ in range(_MAX_ROUNDS):
        seen.add(left_out.tobytes())
        # Without those that are merely unusual the subspaces would be too small.
        labels, unusual = _cluster_all_but(left_out, X, clusterer), far & ~left_out
        if _has_cluster_of(unusual, labels):
            labels = _cluster_all_but(far, X, clusterer)
            _, distances = _fit_and_measure(scaled, labels, ranks)
            labels[unusual] = distances[unusual].argmin(axis=1)
        subspaces, distances = _fit_and_measure(scaled, labels, ranks)
        nearest = distances.min(axis=1)
        if contamination == "auto":
            # Any distances can be split: a detector that found nothing is believed.
            limit = _limit(nearest) if mask.any() else float(nearest.max())
            far = nearest > limit
            left_out = nearest > limit * np.where(mask, 1.0, _UNUSUAL)
        else:
            limit, far = _farthest(nearest, resolve_contamination(contamination, len(X)))
            left_out = far
        if left_out.tobytes() in seen:
            break
    # Members keep their clusters: motions of lower rank than others lie near several subspaces.
    everyone = np.where(labels >= 0, labels, distances.argmin(axis=1))
    bases = subspaces.bases
    means, covariances = _coordinates(X, labels, bases)
    noise = float(np.median(nearest[~far]))
    accuracy = _accuracy(scaled, everyone, far, bases, noise, seed, n_jobs)
    everyone = np.where(far, -1, everyone)
    few = np.sum(~far) <= _FEW_CLEAN * X.shape[1]
    members = [scaled[everyone == k] for k in range(n_subspaces)] if few else None
    return Contrasted(bases, means, covariances, noise, limit, far, everyone, members, accuracy)


def _accuracy(scaled, nearest, mask, bases, noise, seed, n_jobs=None):
    if noise <= _EXACT:
        return None
    return try_accuracy(scaled, nearest, mask, bases, noise, seed=seed, n_jobs=n_jobs)


def _cluster_all_but(left_out, X, clusterer):
    labels = np.full(len(X), -1)
    labels[~left_out] = clusterer.fit_predict(X[~left_out])
    return labels


def _has_cluster_of(unusual, labels):
    """Whether the unusual vectors make up so much of a cluster that it is no subspace's."""
    sizes = np.bincount(labels[labels >= 0])
    return np.any(np.bincount(labels[unusual], minlength=len(sizes)) > _OWN_CLUSTER * sizes)


def _fit_and_measure(X, labels, ranks):
    subspaces = fit_members(X, labels, ranks, method="svd", affine=False)
    options = {"max_leverage": _MAX_LEVERAGE}
    return subspaces, relative_distances(X, subspaces, labels, X.shape[1], **options)


def known_subspaces(X, mask, bases, *, seed=0):
    """Return the :class:`Contrasted` of known linear subspaces and permuted vectors."""
    scaled = X / contrasts(X)[:, None]
    distances = distances_as_they_stand(scaled, bases, [np.zeros(X.shape[1])] * len(bases))
    nearest = distances.argmin(axis=1)
    labels, own = np.where(mask, -1, nearest), distances[~mask].min(axis=1)
    means, covariances = _coordinates(X, labels, bases)
    noise, limit = float(np.median(own)), float(own.max())
    accuracy = _accuracy(scaled, nearest, mask, bases, noise, seed)
    return Contrasted(bases, means, covariances, noise, limit, mask, labels, None, accuracy)


def _coordinates(X, labels, bases):
    """Means and covariances of the coordinates of every subspace's members."""
    means, covariances = [], []
    for k, basis in enumerate(bases):
        coordinates = X[labels == k] @ basis
        ridge = 1e-9 * np.mean(coordinates**2) * basis.shape[1]
        means.append(coordinates.mean(axis=0))
        # A direction in which all agree is known up to rounding.
        covariances.append(np.cov(coordinates.T, bias=True) + ridge * np.eye(basis.shape[1]))
    return means, covariances


def _limit(distances):
    """Distance that splits the usual from the larger ones."""
    closeness = 1.0 / np.maximum(distances, np.median(distances) / _CLOSE)
    split = split_log_scores(closeness / np.mean(closeness))[1] * np.mean(closeness)
    return float(1.0 / max(split, 1e-300))


def _farthest(distances, count):
    """A limit for the `count` largest distances, and which they are."""
    far = np.zeros(len(distances), dtype=bool)
    if count == 0:
        return np.inf, far
    order = np.argsort(distances, kind="stable")
    far[order[-count:]] = True
    return float(np.mean(distances[order[[-count - 1, -count]]])), far
