"""Trials: clean vectors shuffled as the damaged ones seem to be, and repaired like these.

Every trial is judged by folds that its clean original did not shape; only the search for a
certified order uses the bases of all clean vectors. What came of the trials is the only source of
confidence: how often a repair with such a score is closer to the truth.
"""

from dataclasses import dataclass

import numpy as np

from unpermute.pmsdr._judge import Judged, Membership

__all__ = [
    "ALL_SHARES",
    "SHARES",
    "Pattern",
    "Trials",
    "matching_shares",
    "noise_ratio",
    "patterns_of",
    "run_trials",
    "scattered",
    "share_weights",
    "shuffle",
]

# Shares of moved entries in trials while nothing is known about the damage.
SHARES = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
# Shares that damage may turn out to have.
ALL_SHARES = np.r_[SHARES, 0.8, 1.0]
# Moved entries that fill so much of the stretch between first and last are a window; rotations of
# which so many agree are one shift.
_DENSE, _AGREE = 0.6, 0.6
# Steps of EM, which sharpen the distribution of shares: too many would leave single spikes.
_WEIGHT_STEPS = 30


@dataclass(frozen=True)
class Pattern:
    """How a vector is damaged: scattered, in a window, two entries swapped, or a stretch shifted.

    Attributes
    ----------
    kind : {"scattered", "window", "swap", "shift"}
    share : float
        Share of the entries that move, if scattered.
    first, last : int
        The stretch, if in a window or shifted.
    by : int
        Places by which it is rotated, if shifted.
    """

    kind: str
    share: float
    first: int = 0
    last: int = 0
    by: int = 0

    def order(self, n_features, rng):
        """Draw a permutation of this kind."""
        order = np.arange(n_features)
        if self.kind == "shift":
            order[self.first : self.last] = np.roll(order[self.first : self.last], self.by)
            return order
        if self.kind == "window":
            order[self.first : self.last] = rng.permutation(order[self.first : self.last])
            return order
        count = 2 if self.kind == "swap" else max(2, round(self.share * n_features))
        places = rng.choice(n_features, min(count, n_features), replace=False)
        order[places] = places[::-1] if self.kind == "swap" else rng.permutation(places)
        return order


@dataclass
class Trials:
    """Shuffled clean vectors and what became of them.

    Attributes
    ----------
    rows : ndarray of int
        The clean vector of every trial.
    truth, observed : ndarray of shape (n_trials, n_features)
    membership : Membership
        By which folds they are judged.
    patterns : list of Pattern
    judged : Judged
    """

    rows: np.ndarray
    truth: np.ndarray
    observed: np.ndarray
    membership: Membership
    patterns: list[Pattern]
    judged: Judged

    def squared_errors(self):
        """Squared errors as observed, of the values moved, of the blend, and of the fit."""
        judged = self.judged
        versions = self.observed, judged.values, judged.blend, judged.fitted
        return tuple(np.nansum((version - self.truth) ** 2, axis=1) for version in versions)

    @property
    def shares(self):
        """Share of the entries that moved in every trial."""
        return np.array([pattern.share for pattern in self.patterns])


def scattered(shares):
    """Patterns of scattered damage."""
    return [Pattern("scattered", float(share)) for share in shares]


def shuffle(X, patterns, rng):
    """Damage every vector by a pattern drawn from the list."""
    drawn = [patterns[i] for i in rng.integers(len(patterns), size=len(X))]
    orders = np.array([pattern.order(X.shape[1], rng) for pattern in drawn])
    return np.take_along_axis(X, orders.reshape(len(X), X.shape[1]), axis=1), drawn


def run_trials(X, propose, membership, patterns, *, count, rng):
    """Shuffle clean vectors, each perhaps several times, and repair them.

    Parameters
    ----------
    X : ndarray of shape (n_clean, n_features)
    propose : callable
        ``propose(Y, membership)`` returns the :class:`Judged` of vectors.
    membership : Membership
        Of these vectors.
    patterns : list of Pattern
    count : int
        Number of trials.
    rng : numpy.random.Generator

    Returns
    -------
    Trials
    """
    rows = _draw(len(X), count, rng)
    truth = X[rows]
    observed, drawn = shuffle(truth, patterns, rng)
    judged = propose(observed, membership[rows])
    return Trials(rows, truth, observed, membership[rows], drawn, judged)


def _draw(n, count, rng):
    """Numbers of `count` vectors out of n, each as often as any other."""
    rounds = [rng.permutation(n) for _ in range(-(-count // n))]
    return np.concatenate(rounds)[:count]


def matching_shares(found, trials, *, nearest=3):
    """True shares of the trials whose estimated share is nearest to each of the `found` ones.

    The estimate is biased: values that moved to a place that suits them look in place.
    """
    if len(trials.shares) <= nearest:
        return SHARES
    distances = np.abs(found[:, None] - trials.judged.share)
    return trials.shares[np.argsort(distances, axis=1)[:, :nearest]].ravel()


def share_weights(judged, Y, trials):
    """How often each share of moved entries in the trials occurs among damaged vectors.

    The trials say how noise, gain and estimated share are distributed at each true share (normal,
    one covariance); the weights that explain the damaged vectors best are found by EM.
    """
    tried, seen = _symptoms(trials.judged, trials.observed), _symptoms(judged, Y)
    classes = [tried[trials.shares == share] for share in np.unique(trials.shares)]
    inside = np.concatenate([own - own.mean(axis=0) for own in classes])
    spread = inside.T @ inside / len(inside) + 1e-6 * np.eye(tried.shape[1])
    whiten = np.linalg.cholesky(np.linalg.inv(spread))
    distances = np.stack(
        [np.sum(((seen - own.mean(axis=0)) @ whiten) ** 2, axis=1) for own in classes], axis=1
    )
    likelihood = np.exp(-0.5 * (distances - distances.min(axis=1, keepdims=True)))
    weights = np.full(len(classes), 1.0 / len(classes))
    for _ in range(_WEIGHT_STEPS):
        posterior = likelihood * weights
        weights = (posterior / posterior.sum(axis=1, keepdims=True)).mean(axis=0)
    return weights


def noise_ratio(judged, Y, *, after=False):
    """Logarithm of the noise of every vector, as it stands or repaired, over its variance."""
    noise = judged.noise_after if after else judged.noise
    return np.log(noise + 1e-300) - np.log(np.nanvar(Y, axis=1) + 1e-300)


def _symptoms(judged, Y):
    """What tells how many entries of a vector moved."""
    noise = noise_ratio(judged, Y)
    gain = np.log1p(np.maximum(judged.gain, 0.0))
    return np.column_stack([noise, gain, judged.share])


def patterns_of(judged, Y, trials, *, count):
    """Draw up some `count` patterns in which vectors seem to be damaged.

    Parameters
    ----------
    judged : Judged
        Of the vectors Y.
    Y : ndarray of shape (n_damaged, n_features)
    trials : Trials
        Clean vectors shuffled with shares of all sizes.
    count : int

    Returns
    -------
    list of Pattern
    """
    if len(Y) == 0:
        return scattered(SHARES)
    found = [
        _pattern_of(o.astype(np.int64), float(q))
        for o, q in zip(judged.permutations, judged.share, strict=True)
    ]
    irregular = np.array([pattern is None for pattern in found])
    repeats = max(count // len(Y), 1)
    patterns = [pattern for pattern in found if pattern is not None] * repeats
    if irregular.any():
        weights = share_weights(judged.part(irregular), Y[irregular], trials)
        counts = np.round(weights * repeats * irregular.sum()).astype(int)
        patterns += scattered(np.repeat(np.unique(trials.shares), counts))
    return patterns


def _pattern_of(order, share):
    """The window, swap or shift that a permutation looks like; None: scattered."""
    places = np.flatnonzero(order != np.arange(len(order)))
    if len(places) == 2:
        return Pattern("swap", 2 / len(order))
    if len(places) < 4:
        return None
    first, last = int(places[0]), int(places[-1]) + 1
    length = last - first
    if length > _DENSE * len(order) and len(places) < _DENSE * length:
        return None
    steps = (order[places] - places) % length
    common = np.bincount(steps).argmax()
    if np.mean(steps == common) > _AGREE:
        # What undoes the damage is its inverse.
        by = int(common if common <= length // 2 else common - length)
        return Pattern("shift", share, first, last, by)
    if len(places) < _DENSE * length or length > _DENSE * len(order):
        return None
    return Pattern("window", share, first, last)
