r"""One rule for training and new vectors: what a repair gains under a model they did not shape.

Every vector gets its best repair: the component and the in-place probabilities that explain it best
by entries that moved, and its values sorted into the places that are probably wrong. The **gain**
is the log pseudo-likelihood of the repaired vector less that of the observed one, both with nothing
moved: about 0 for clean vectors, whatever their own noise, and large where a repair helps.
"""

from dataclasses import dataclass, fields

import numpy as np

from unpermute.numerics.parallel import map_blocks
from unpermute.numerics.permutations import match_values
from unpermute.pmsdr._exchange import exchange, log_arrangements, sort_into
from unpermute.pmsdr._explain import Component, Standing, in_place, moved, value_density

__all__ = [
    "FAST",
    "FULL",
    "Effort",
    "Judged",
    "Membership",
    "Mixture",
    "as_they_stand",
    "judge",
    "repair",
    "repair_further",
    "stand",
]

# Entries that are worked on at once: the arrays of one step then stay in the cache. Parts that give
# work to several threads, and the fewest vectors of a block: smaller products are slow.
_BLOCK, _PARTS, _SMALL_BLOCK = 200_000, 4, 32


@dataclass(frozen=True)
class Effort:
    """How hard repairs are looked for."""

    iterations: int
    anneal: int
    steps: int
    starts: int = 0


# While the clean vectors are being found, and once they are.
FAST = Effort(iterations=12, anneal=8, steps=3)
FULL = Effort(iterations=22, anneal=12, steps=4)
# A random start: enough entries to determine the scores count, the others hardly.
_START = Effort(iterations=18, anneal=8, steps=4)
_TRUSTED, _DISTRUSTED = np.float32(0.9), np.float32(0.02)
# Squared noise, for the typical one, and squared error of an entry, for that noise, up to which a
# vector has nothing to repair.
_QUIET, _NO_PEAK = 2.0, 16.0
# Longer vectors settle without random starts, and ranks above this share of the entries with none.
_LONG, _HIGH_RANK = 400, 0.25


@dataclass(frozen=True)
class Mixture:
    """Components and the logarithms of their shares."""

    components: list[Component]
    log_shares: np.ndarray


@dataclass(frozen=True)
class Membership:
    """The component that every vector helped to shape, and its fold there; −1: none.

    Attributes
    ----------
    labels, folds : ndarray of int of shape (n_vectors,)
    """

    labels: np.ndarray
    folds: np.ndarray

    @classmethod
    def none(cls, n_vectors):
        """Vectors that the model has not seen."""
        return cls(np.full(n_vectors, -1), np.full(n_vectors, -1))

    @classmethod
    def of(cls, mixture, labels):
        """Members of a mixture that was fitted to these labels."""
        folds = np.full(len(labels), -1)
        for k, component in enumerate(mixture.components):
            folds[labels == k] = component.folds
        return cls(labels, folds)

    def __getitem__(self, rows):
        return Membership(self.labels[rows], self.folds[rows])


@dataclass
class Judged:
    """Best repairs of vectors, one row each.

    Attributes
    ----------
    gain : ndarray
        Log pseudo-likelihood of the repaired less that of the observed vector.
    observed : ndarray
        Log pseudo-likelihood of the observed one.
    likelihood : ndarray
        Log-likelihood of the better of both explanations.
    component : ndarray of int
        Component of the repaired vector.
    nearest : ndarray of int
        Component of the vector as it stands.
    noise, noise_after : ndarray
        Squared noise scale of the vector as it stands, and of the repaired one.
    share : ndarray
        Share of the entries that moved.
    natural, natural_after : ndarray
        Share of the deviations that is like those of clean vectors, as it stands and repaired;
        one half if nobody looked.
    margins : ndarray of shape (n_vectors, 2)
        How much smoother than its repair shuffled anew it is, as it stands and repaired
        (:mod:`unpermute.pmsdr._smooth`); 0 if nobody looked.
    likeness : ndarray
        How like those of clean vectors its values are (:mod:`unpermute.pmsdr._profile`); 0 if
        nobody looked.
    certified : ndarray of bool
        Whether the search has proven the order.
    stands_for : ndarray
        Entries that each entry stands for: one, unless only some of them were looked at.
    fitted, staying, variance : ndarray of shape (n_vectors, n_features)
        Predicted entries, probabilities of being in place, variances of the prediction.
    permutations : ndarray of int of shape (n_vectors, n_features)
    values, blend : ndarray of shape (n_vectors, n_features)
        The observed values moved; the expected values, all moves considered.
    doubt : ndarray of shape (n_vectors, n_features)
        Expected squared errors of the latter.
    """

    gain: np.ndarray
    observed: np.ndarray
    likelihood: np.ndarray
    component: np.ndarray
    nearest: np.ndarray
    noise: np.ndarray
    noise_after: np.ndarray
    share: np.ndarray
    natural: np.ndarray
    natural_after: np.ndarray
    margins: np.ndarray
    likeness: np.ndarray
    certified: np.ndarray
    stands_for: np.ndarray
    fitted: np.ndarray
    staying: np.ndarray
    variance: np.ndarray
    permutations: np.ndarray
    values: np.ndarray
    blend: np.ndarray
    doubt: np.ndarray

    @classmethod
    def untouched(cls, Y, nearest, observed, noise):
        """Vectors in which nothing moved."""
        n, n_features = Y.shape
        kind = np.int16 if n_features <= np.iinfo(np.int16).max else np.int32
        return cls(
            gain=np.zeros(n), observed=observed, likelihood=observed.copy(),
            component=nearest.copy(), nearest=nearest, noise=noise, noise_after=noise.copy(),
            share=np.zeros(n), natural=np.full(n, 0.5), natural_after=np.full(n, 0.5),
            margins=np.zeros((n, 2)), likeness=np.zeros(n), certified=np.zeros(n, dtype=bool),
            stands_for=np.ones(n),
            fitted=Y.copy(),
            staying=np.ones(Y.shape, np.float32), variance=np.zeros(Y.shape, np.float32),
            permutations=np.tile(np.arange(n_features, dtype=kind), (n, 1)), values=Y.copy(),
            blend=Y.copy(), doubt=np.zeros_like(Y),
        )  # fmt: skip

    def replace(self, rows, other):
        """Enter better answers for some rows."""
        for field in fields(self):
            getattr(self, field.name)[rows] = getattr(other, field.name)

    def part(self, rows):
        """Some rows."""
        return Judged(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    def move_back(self, Y):
        """Sort the values of every vector into the places where they are probably wrong."""
        self.weigh(Y)
        self.permutations[:] = np.arange(Y.shape[1])
        away, missing = self.staying < 0.5, np.isnan(Y).any(axis=1)
        sort_into(Y, self.blend, away & ~missing[:, None], self.permutations)
        for j in np.flatnonzero(missing):
            places = np.flatnonzero(away[j] | np.isnan(Y[j]))
            if len(places) > 1:
                own = Y[j, places][None], self.fitted[j, places][None].astype(float)
                order = match_values(*own, noise_scale=np.sqrt(np.median(self.variance[j])))[0][0]
                self.permutations[j, places] = places[order]
        self.move_values(Y)

    def move_values(self, Y):
        """Enter the values moved as the permutations say."""
        self.values = np.take_along_axis(Y, self.permutations.astype(np.int64), axis=1)

    def weigh(self, Y):
        """Enter the expected value of every entry, and its variance."""
        self.blend, self.doubt = np.full_like(Y, np.nan), np.zeros_like(Y)
        exchange(Y, self.fitted, self.variance, self.share, self.blend, self.doubt)

    def evidence(self, Y):
        """The gain less the logarithm of how many arrangements there were to choose from."""
        arrangements = log_arrangements(Y, self.fitted, self.variance, self.permutations)
        return self.gain - self.stands_for * arrangements

    def expected_squares(self, Y):
        """Expected squared errors of leaving a vector, of its values moved, and of the blend."""
        blend = np.sum(self.doubt, axis=1)
        left, values = (
            np.nansum((version - self.blend) ** 2, axis=1) + blend for version in (Y, self.values)
        )
        return left, values, blend


def stand(Y, mixture, membership, *, only=None, n_jobs=None):
    """Judge vectors as they stand by every component, or `only` by one of their own.

    Returns a :class:`Standing` of arrays of shape (n_vectors, n_components), the shares of the
    components in the likelihoods; −inf and inf where not judged.
    """
    shape = len(Y), len(mixture.components)
    found = Standing(np.full(shape, -np.inf), np.full(shape, np.inf), np.full(shape, np.inf))
    for k, component in enumerate(mixture.components):

        def work(rows, folds, k=k, component=component):
            for whole, part in zip(found, in_place(Y[rows], component, folds), strict=True):
                whole[rows, k] = part
            found.likelihood[rows, k] += mixture.log_shares[k]

        chosen = np.arange(len(Y)) if only is None else np.flatnonzero(only == k)
        _for_blocks(work, membership, k, chosen, Y.shape[1], n_jobs)
    return found


def judge(Y, mixture, membership, effort, *, n_jobs=None):
    """Find the best repair of every vector, and what it gains; returns a :class:`Judged`.

    A vector is treated as if it were alone. `membership` says by which folds it is judged.
    """
    judged, quiet = as_they_stand(Y, mixture, membership, n_jobs=n_jobs)
    repair(judged, Y, np.flatnonzero(~quiet), mixture, membership, effort, n_jobs=n_jobs)
    return judged


def as_they_stand(Y, mixture, membership, *, n_jobs=None):
    """Vectors with nothing moved, and which of them are quiet: there is nothing to repair.

    Most are quiet by the component whose subspace they are nearest to; only the others are judged
    by all of them.
    """
    judged, quiet = _quiet(Y, mixture, membership, _nearest(Y, mixture), n_jobs)
    rows = np.flatnonzero(~quiet)
    if len(mixture.components) > 1 and len(rows) > 0:
        part, quiet[rows] = _quiet(Y[rows], mixture, membership[rows], None, n_jobs)
        judged.replace(rows, part)
    return judged, quiet


def _quiet(Y, mixture, membership, only, n_jobs):
    standing = stand(Y, mixture, membership, only=only, n_jobs=n_jobs)
    every, nearest = np.arange(len(Y)), standing.likelihood.argmax(axis=1)
    likelihood, noise, peak = (own[every, nearest] for own in standing)
    typical = np.array([component.noise for component in mixture.components])[nearest]
    quiet = (noise <= _QUIET * typical) & (peak <= _NO_PEAK) & ~np.isnan(Y).any(axis=1)
    return Judged.untouched(Y, nearest, likelihood, noise), quiet


def _nearest(Y, mixture):
    """The component that makes every vector likeliest if the noise is the typical one."""
    likelihood = np.empty((len(Y), len(mixture.components)))
    for k, component in enumerate(mixture.components):
        Z = np.nan_to_num(Y - component.mean).astype(np.float32)
        scores = Z @ component.directions[-1].T
        outside = np.einsum("ij,ij->i", Z, Z) - np.einsum("ij,ij->i", scores, scores)
        variances, n_outside = component.variances, Y.shape[1] - component.rank
        likelihood[:, k] = mixture.log_shares[k] - 0.5 * (
            outside / component.noise + n_outside * np.log(component.noise)
            + np.sum(scores**2 / variances + np.log(variances), axis=1)
        )  # fmt: skip
    return likelihood.argmax(axis=1)


def repair(judged, Y, rows, mixture, membership, effort, *, n_jobs=None, weights=None):
    """Look for the best repair of some vectors, and enter what it gains.

    `weights`: probabilities of being in place to start from, in the component that is entered.
    """
    if len(rows) == 0:
        return
    part, own, members = judged.part(rows), Y[rows], membership[rows]
    if weights is None:
        _explain(part, own, mixture, members, effort, n_jobs)
    else:
        for k in np.unique(part.component):
            _explain_by(part, own, k, mixture, members, effort, weights, n_jobs)
    _enter(judged, rows, part, own, mixture, members, n_jobs)


def repair_further(judged, Y, rows, mixture, membership, starts, *, seed=0, n_jobs=None):
    """Look for better repairs of vectors that have one, from random starts."""
    starts, useful = _random_starts(mixture, Y.shape[1], starts)
    if len(rows) == 0 or starts == 0:
        return
    part, own, members = judged.part(rows), Y[rows], membership[rows]
    _explain_further(part, own, mixture, members, starts, useful, seed, n_jobs)
    _enter(judged, rows, part, own, mixture, members, n_jobs)


def _enter(judged, rows, part, own, mixture, members, n_jobs):
    """Sort values as the explanations say, and enter what that gains."""
    part.certified[:] = False
    part.move_back(own)
    after = stand(part.values, mixture, members, only=part.component, n_jobs=n_jobs)
    places = np.arange(len(rows)), part.component
    part.noise_after = after.noise[places]
    part.gain = after.likelihood[places] - part.observed
    judged.replace(rows, part)


def _explain(judged, Y, mixture, membership, effort, n_jobs):
    """Enter the component and in-place probabilities that explain every vector best."""
    judged.likelihood[:] = -np.inf
    density, every = value_density(Y), np.arange(len(Y))
    for k in range(len(mixture.components)):
        _try_component(judged, Y, k, every, mixture, membership, effort, None, density, n_jobs)
    starts, useful = _random_starts(mixture, Y.shape[1], effort.starts)
    _explain_further(judged, Y, mixture, membership, starts, useful, 0, n_jobs)


def _explain_further(judged, Y, mixture, membership, starts, useful, seed, n_jobs):
    """Enter what explains vectors better, from random starts in the components that use them."""
    rng, every = np.random.default_rng(seed), np.arange(len(Y))
    density = value_density(Y) if starts else None
    for _ in range(starts):
        for k in useful:
            weights = _random_start(mixture.components[k].rank, Y.shape[1], rng)
            first = np.broadcast_to(weights, Y.shape)
            _try_component(judged, Y, k, every, mixture, membership, _START, first, density, n_jobs)
    judged.likelihood = np.maximum(judged.observed, judged.likelihood)


def _random_starts(mixture, n_features, starts):
    """How many random starts are of use, and in which components."""
    ranks = [component.rank for component in mixture.components]
    useful = [k for k, rank in enumerate(ranks) if rank <= _HIGH_RANK * n_features]
    return starts if n_features <= _LONG and useful else 0, useful


def _explain_by(judged, Y, k, mixture, membership, effort, weights, n_jobs):
    """Enter what component k says of its vectors, from probabilities that are known roughly."""
    rows, density = np.flatnonzero(judged.component == k), value_density(Y)
    judged.likelihood[rows] = -np.inf
    _try_component(judged, Y, k, rows, mixture, membership, effort, weights, density, n_jobs)


def _try_component(judged, Y, k, chosen, mixture, membership, effort, first, density, n_jobs):
    """Enter the explanation of some vectors by component k where it is the best so far."""
    component = mixture.components[k]

    def work(rows, folds):
        found = moved(
            Y[rows], component, folds, density[rows], iterations=effort.iterations,
            anneal=effort.anneal, steps=effort.steps,
            weights=None if first is None else first[rows],
        )  # fmt: skip
        total = found.likelihood + mixture.log_shares[k]
        better = total > judged.likelihood[rows]
        own = rows[better]
        judged.likelihood[own], judged.component[own] = total[better], k
        judged.share[own], judged.fitted[own] = found.share[better], found.fitted[better]
        judged.staying[own] = found.staying[better]
        judged.variance[own] = found.variance[better]

    _for_blocks(work, membership, k, chosen, Y.shape[1], n_jobs)


def _random_start(rank, n_features, rng):
    """Weights of a start, the same for all vectors: none depends on its company."""
    weights = np.full(n_features, _DISTRUSTED, np.float32)
    count = min(n_features // 2, max(3 * rank, 8))
    weights[rng.choice(n_features, count, replace=False)] = _TRUSTED
    return weights


def _for_blocks(work, membership, k, chosen, n_features, n_jobs):
    """Call ``work(rows, folds)`` for blocks of the chosen vectors, judged by component k."""
    folds = np.where(membership.labels[chosen] == k, membership.folds[chosen], -1)
    order = np.argsort(folds, kind="stable")
    # Whatever the number of threads: blocks may round differently.
    size = max(min(_BLOCK // n_features, -(-len(chosen) // _PARTS)), _SMALL_BLOCK)

    def run(start, stop):
        part = order[start:stop]
        work(chosen[part], folds[part])

    map_blocks(run, len(chosen), block=size, stage="judge", n_jobs=n_jobs)
