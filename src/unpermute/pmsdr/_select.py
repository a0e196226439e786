"""Which vectors are clean: fit the model to them, judge all, and select again until they stay.

There are two starts, one component and a union of several; the second is taken if repairs of
held-out vectors are clearly better with it, if it has far less noise, or if it makes the vectors
likelier and repairs them not clearly worse. A single component is divided where repairs gain by it,
and components that are one are joined.
"""

import logging
from dataclasses import dataclass, replace

import numpy as np

from unpermute.pmsdr._judge import FAST, FULL, Judged, Membership, Mixture, judge, stand
from unpermute.pmsdr._mixture import Fits, fit_mixture
from unpermute.pmsdr._model import fit_component, held_out_standing, predicted
from unpermute.pmsdr._number import HoldOuts, Partition
from unpermute.pmsdr._start import COST, FAR_MORE_LIKELY, best_cut, cluster_start, robust_start
from unpermute.pmsdr._trials import (
    SHARES,
    Trials,
    matching_shares,
    noise_ratio,
    run_trials,
    scattered,
)

__all__ = ["Selection", "Selector"]

logger = logging.getLogger("unpermute")

# Entries that are looked at while the clean vectors are being found, and where partitions are
# compared by repairs: of fewer entries, more components seem of use.
_ENTRIES, _ENTRIES_REPAIRED = 400, 1000
# Fewer vectors than this share, or number, are no majority to learn from.
_LEAST, _FEWEST = 0.1, 10
# Trials per round.
_TRIALS = 120
# A clean vector that is cut away at last weighs as much as so many missed ones.
_LAST_COST = 5.0
# Gain, in nats, that clean vectors may have by chance where most of them have none.
_LITTLE, _MOST = 5.0, 0.75
# Rounds in which missing entries are predicted before anything else is known.
_FILLS = 5
# Nats by which the vectors of two components may on the average be less likely under one.
_LESS_LIKELY = 2.0
# Interquartile ranges beyond the upper quartile from which a value is far out (Tukey).
_FAR_OUT = 3.0
# Share of the vectors about which two starts must differ to be compared, and that one must leave
# unexplained for another to be tried.
_DIFFER = 0.05
# Share of the vectors that may still join the clean ones when these are settled.
_SAME = 0.01
# Nats per entry by which clean vectors are more likely if their noise is e times smaller.
_FAR_MORE_LIKELY = 1.0


@dataclass
class Selection:
    """Clean vectors, the mixture fitted to them, and how all vectors were judged by it.

    Attributes
    ----------
    mixture : Mixture
    clean : ndarray of bool of shape (n_vectors,)
        The vectors that the mixture was fitted to.
    labels : ndarray of int of shape (n_vectors,)
        Their components; −1 for the others.
    membership : Membership
    judged : Judged
        All vectors.
    trials : Trials
        Clean ones, shuffled.
    cut : float
        Gain above which a vector looks damaged.
    rank : int, list of int or None
        Ranks that the components were given.
    loudest : float
        Largest noise ratio (:func:`noise_ratio`) of a clean vector.
    union : bool
        Whether it began with clusters.
    """

    mixture: Mixture
    clean: np.ndarray
    labels: np.ndarray
    membership: Membership
    judged: Judged
    trials: Trials
    cut: float
    rank: int | list[int] | None = None
    loudest: float = np.inf
    union: bool = False

    @property
    def damaged(self):
        """Which vectors look damaged."""
        return self.judged.gain > self.cut

    @property
    def pseudo_likelihood(self):
        """Of every vector as it stands, by its nearest component."""
        return self.judged.observed - self.mixture.log_shares[self.judged.nearest]


class Selector:
    """The work on one matrix.

    Parameters
    ----------
    X : ndarray of shape (n_vectors, n_features)
        The observed vectors; NaN where missing.
    given : Given
    """

    def __init__(self, X, given):
        self.X, self.given = X, given
        self.seed, self.n_jobs = given.seed, given.n_jobs
        self.rng, self.fits = np.random.default_rng(given.seed), Fits()
        n_features = X.shape[1]
        order = self.rng.permutation(n_features)
        self.columns, self.wide_columns = (
            np.sort(order[:count]) for count in (_ENTRIES, _ENTRIES_REPAIRED)
        )
        self.filled = self._fill(X)

    def _fill(self, X):
        """Replace missing entries by what a component predicts that is fitted to all vectors."""
        missing = np.isnan(X)
        count = np.maximum(np.sum(~missing, axis=0), 1)
        filled = np.where(missing, np.nansum(X, axis=0) / count, X)
        for _ in range(_FILLS if missing.any() else 0):
            component = fit_component(filled)
            filled[missing] = predicted(X, component)[missing]
        return filled

    def select(self):
        """Return the :class:`Selection`, or None if no majority of vectors fits together."""
        narrow = self.X, self.filled
        if len(self.columns) < self.X.shape[1]:
            narrow = self.X[:, self.columns], self.filled[:, self.columns]
        clean = robust_start(*narrow, self.rng, **self.given.of_clean(len(self.X)))
        one = np.zeros(len(clean), dtype=np.int64)
        free = self._settle(*narrow, clean, one, rounds=6)
        selection = free
        for given in self.given.starts():
            other = self._from_clusters(*narrow, given, free)
            if other is None:
                continue
            if self._needs_another_look(narrow[1], free, other):
                again = _more_likely(free, self._settle(*narrow, other.clean, one, rounds=6))
                free, selection = again, again if selection is free else selection
            if given.pieces is not None and len(other.mixture.components) == 1:
                continue  # no union, but pieces may have told which vectors are clean
            selection = self._better(selection, other)
            if selection is other and _is_unexplained(narrow[0], other).mean() < _DIFFER:
                break  # nothing is left that another start could explain
        if selection is None:
            return None
        if not selection.union:
            selection = self._take_back(*narrow, selection, one)
        elif selection.rank is None:
            selection = self._complete(*narrow, selection)
        if selection.rank is None:
            selection = self._divided(*narrow, selection)
            selection = self._merge(*narrow, selection, confirmed=True)
        labels = np.where(
            selection.clean & (selection.labels < 0), selection.judged.component, selection.labels
        )
        patterns = self._patterns(selection)
        final = self._settle(
            self.X, self.filled, selection.clean, labels, rounds=3, effort=FULL,
            patterns=patterns, cost=_LAST_COST, rank=selection.rank, union=selection.union,
        )  # fmt: skip
        return final if final is None else self._with_known_number(final)

    def _with_known_number(self, selection):
        """As many vectors look damaged as are known to be: repairs of all of them are wanted."""
        count = 0 if self.given.contamination == "auto" else int(self.given.contamination)
        if count > 0:
            gain = np.sort(np.maximum(selection.judged.gain, 0.0))[::-1]
            between = gain[count - 1 : count + 1].mean()
            selection.cut = min(selection.cut, float(between))
        return selection

    def _take_back(self, X, filled, selection, labels):
        """Begin again with those vectors, too, that neither stand nor are repaired as clean ones.

        A group of clean vectors that the start left out is unlike the others.
        """
        left = _is_unexplained(X, selection)
        if left.mean() < _DIFFER:
            return selection
        again = self._settle(X, filled, selection.clean | left, labels, rounds=6)
        logger.debug("select: %d vectors left out, tried again with them", left.sum())
        return _more_likely(selection, again)

    def _complete(self, X, filled, selection):
        """Add the components of a union that the start left out, if there are any.

        Their vectors neither stand nor are repaired as those of the others; clusters are sought
        among them alone.
        """
        left = np.flatnonzero(_is_unexplained(X, selection))
        if len(left) < _DIFFER * len(X):
            return selection
        given = replace(self.given.starts()[-1], contamination="auto")
        try:
            found = cluster_start(X[left], filled[left], given, self.rng)
        except ValueError:
            return selection  # the detector takes none of them for clean
        labels = selection.labels.copy()
        labels[left] = np.where(found >= 0, found + len(selection.mixture.components), -1)
        again = self._settle(X, filled, labels >= 0, labels, rounds=4, union=True)
        logger.debug("select: %d vectors unexplained, clustered apart", len(left))
        if again is not None:
            again = self._merge(X, filled, again, rounds=4)
        return _more_likely(selection, again)

    def _divided(self, X, filled, selection):
        """Several components where one repairs clearly worse."""
        if len(selection.mixture.components) > 1:
            return selection
        clean, labels = selection.clean, np.full(len(X), -1)
        labels[clean] = self._hold_outs(clean, selection).divide(filled[clean])
        if labels.max() == 0:
            return selection
        return self._settle(X, filled, clean, labels, rounds=4) or selection

    def _hold_outs(self, rows, selection):
        """Some vectors, to compare partitions by their repairs."""
        vectors = self.filled[rows][:, self.wide_columns]
        return HoldOuts(vectors, self._patterns(selection), seed=self.seed, n_jobs=self.n_jobs)

    def _from_clusters(self, X, filled, given, free):
        """Start from the clusters of a graph of the vectors that seem clean.

        None if one component, `free`, predicts entries better than pieces do.
        """
        try:
            labels = cluster_start(X, filled, given, self.rng)
        except ValueError:
            if given.is_explicit:
                raise  # what was asked for cannot be had
            return None
        clean = labels >= 0
        if clean.sum() < max(_FEWEST, _LEAST * len(X)):
            return None
        rank = given.rank if given.n_subspaces is not None else None
        _, labels[clean] = fit_mixture(
            filled[clean], labels[clean], rounds=4, rank=rank, fits=self.fits
        )
        options = {"rank": rank, "union": True}
        if given.pieces is None:
            return self._settle(X, filled, clean, labels, rounds=4, **options)
        # Damaged vectors must go before pieces are compared: they make all of them alike.
        pieces = self._settle(X, filled, clean, labels, rounds=2, **options)
        if pieces is None or (free is not None and _is_clear(_gain_in_likelihood(pieces, free))):
            return None
        return self._merge(X, filled, pieces, rounds=4)

    def _needs_another_look(self, filled, free, other):
        """Whether one component deserves to begin with the clean vectors of a union, too.

        It does not where it makes them far less likely than the union does.
        """
        if free is None:
            return len(other.mixture.components) == 1
        if np.mean(other.clean != free.clean) <= _DIFFER:
            return False
        own = filled[other.clean]
        likelihood = held_out_standing(own, self.fits(own)).likelihood
        change = other.pseudo_likelihood[other.clean] - likelihood
        return change.mean() <= FAR_MORE_LIKELY * len(self.columns)

    def _better(self, one, other):
        """`other` if it repairs clearly better, or not clearly worse and makes vectors likelier.

        Where no repair is found under either, repairs tell nothing, but the noise does.
        """
        if one is None or other is None:
            return one or other
        both = one.clean & other.clean
        if both.sum() < _FEWEST:
            return _more_likely(one, other)
        change = _gain_in_likelihood(one, other)
        if change.mean() > FAR_MORE_LIKELY * len(self.columns):
            return other
        # Fewer vectors are likelier under any model that leaves the others out.
        as_many = other.clean.sum() >= (1.0 - _DIFFER) * one.clean.sum()
        likelier = as_many and _is_clear(change)
        theirs, ours = (Partition(s.labels[both], s.rank) for s in (other, one))
        hold_outs = self._hold_outs(both, other)
        return other if hold_outs.is_better(theirs, ours, likelier=likelier) else one

    def _settle(
        self, X, filled, clean, labels, *, rounds, effort=FAST, patterns=None, cost=COST,
        rank=None, union=False,
    ):  # fmt: skip
        """Fit the clean vectors, judge all, cut; until nothing changes."""
        patterns = scattered(SHARES) if patterns is None else patterns
        seen: list[np.ndarray] = []
        for step in range(rounds):
            several = len(np.unique(labels[clean])) > 1
            mixture, own = fit_mixture(
                filled[clean], labels[clean], rounds=2 if several else 0, rank=rank,
                fits=self.fits,
            )  # fmt: skip
            if mixture is None:
                return None
            labels = np.full(len(X), -1)
            labels[clean] = own
            membership = Membership.of(mixture, labels)
            judged = judge(X, mixture, membership, effort, n_jobs=self.n_jobs)

            def propose(Y, members, mixture=mixture):
                return judge(Y, mixture, members, effort, n_jobs=self.n_jobs)

            trials = run_trials(
                X[clean], propose, membership[np.flatnonzero(clean)], patterns,
                count=min(_TRIALS, int(clean.sum())), rng=self.rng,
            )  # fmt: skip
            gain = np.log1p(np.maximum(judged.gain, 0.0))
            tried = np.log1p(np.maximum(trials.judged.gain, 0.0))
            cut = float(np.expm1(best_cut(gain[clean], tried, cost)))
            # In a union, vectors that are damaged lightly may pass for clean, but stand out where
            # these gain nothing by a repair.
            quiet = union and np.quantile(gain[clean], _MOST) <= 0.0
            fence = np.log1p(_LITTLE) if quiet else np.inf
            missing = np.isnan(X)
            filled[missing] = judged.fitted[missing]
            selection = Selection(
                mixture, clean, labels, membership, judged, trials, cut, rank, union=union
            )
            selection.loudest = self._loudest(X, selection)
            selected = ~selection.damaged & (gain <= fence)
            selected &= noise_ratio(judged, X) <= selection.loudest
            logger.debug(
                "select: %d components of ranks %s, %d of %d vectors clean, %d trials missed",
                len(mixture.components), [c.rank for c in mixture.components], selected.sum(),
                len(X), int(np.sum(trials.judged.gain <= cut)),
            )  # fmt: skip
            if selected.sum() < max(_FEWEST, _LEAST * len(X)):
                return None
            # One component hardly changes for a few vectors that join; one of a union may be small,
            # and vectors that leave may have spoiled any.
            few = not (union or np.any(clean & ~selected)) and np.mean(clean != selected) <= _SAME
            settled = few or np.array_equal(clean, selected)
            if settled or step == rounds - 1 or any(np.array_equal(selected, s) for s in seen):
                break
            seen.append(selected)
            patterns = self._patterns(selection)
            clean = selected
            labels = np.where(clean, judged.nearest, -1)
        return selection

    @staticmethod
    def _loudest(X, selection):
        """Largest noise, for its variance, of a clean vector as against shuffled ones.

        Where a shuffled vector cannot be repaired, no gain shows it, but it must not shape the fit.
        """
        ratio = noise_ratio(selection.judged, X)
        tried = noise_ratio(selection.trials.judged, selection.trials.observed)
        limit = best_cut(ratio[selection.clean], tried, COST)
        quiet = ratio[selection.clean & (ratio <= limit)]
        if len(quiet) == 0:
            return np.inf
        lower, upper = np.quantile(quiet, [0.25, 0.75])
        return max(limit, upper + _FAR_OUT * (upper - lower))

    def _patterns(self, selection):
        damaged = selection.damaged
        if damaged.sum() < 5:
            return scattered(SHARES)
        return scattered(matching_shares(selection.judged.share[damaged], selection.trials))

    def _merge(self, X, filled, selection, *, rounds=2, confirmed=False):
        """Join components that are one, and settle again if there are any.

        `confirmed`: repairs have shown that they are of use, and may show that they are needed.
        """
        clean, labels = selection.clean, selection.labels
        labels = self._joined(X, filled, selection.mixture, labels)
        if np.array_equal(labels, selection.labels):
            return selection
        if confirmed:
            apart, joined = Partition(selection.labels[clean]), Partition(labels[clean])
            if self._hold_outs(clean, selection).is_better(apart, joined):
                return selection
        merged = self._settle(
            X, filled, selection.clean, labels, rounds=rounds, patterns=self._patterns(selection),
            union=selection.union,
        )  # fmt: skip
        return selection if merged is None else merged

    def _joined(self, X, filled, mixture, labels):
        """Labels of members with components joined that are one, the likeliest pair first.

        Their vectors are likelier under a component that is fitted to both; or they are not much
        less likely, and together need no more directions.
        """
        membership, labels = Membership.of(mixture, labels), labels.copy()
        likelihood = stand(X, mixture, membership, n_jobs=self.n_jobs).likelihood
        likelihood -= mixture.log_shares  # the larger of two is no better for that
        ranks = [component.rank for component in mixture.components]
        found: dict[tuple[int, int], tuple] = {}
        while len(present := np.unique(labels[labels >= 0])) > 1:
            for k in present:
                others = present[present != k]
                nearest = others[likelihood[labels == k][:, others].mean(axis=0).argmax()]
                pair = min(k, nearest), max(k, nearest)
                if pair not in found:
                    both = np.flatnonzero(np.isin(labels, pair))
                    rank, own = self._as_one(X[both], filled[both])
                    change = np.mean(own - likelihood[both, labels[both]])
                    needless = rank <= max(ranks[k], ranks[nearest])
                    found[pair] = change + _LESS_LIKELY * needless, both, rank, own
            (k, other), (change, both, rank, own) = max(found.items(), key=lambda i: i[1][0])
            if change <= 0.0:
                break
            labels[both], likelihood[both, k], ranks[k] = k, own, rank
            found = {pair: value for pair, value in found.items() if not {k, other} & {*pair}}
        return labels

    def _as_one(self, X, filled):
        """Rank of a component fitted to vectors, and their held-out likelihood."""
        component = self.fits(filled)
        return component.rank, held_out_standing(X, component).likelihood


def _is_unexplained(X, selection):
    """Vectors that are neither clean nor like clean ones once they are repaired."""
    after = noise_ratio(selection.judged, X, after=True)
    return ~selection.clean & ~(selection.damaged & (after <= selection.loudest))


def _more_likely(one, other):
    """The selection under which all vectors, damaged or not, are clearly more likely."""
    if one is None or other is None:
        return one or other
    return other if _is_clear(other.judged.likelihood - one.judged.likelihood) else one


def _gain_in_likelihood(one, other):
    """Log-likelihood that vectors which are clean in both selections gain in the second.

    Entries that are predicted from all the others know their component: shares do not count.
    """
    both = one.clean & other.clean
    return other.pseudo_likelihood[both] - one.pseudo_likelihood[both]


def _is_clear(change):
    """Whether a change is clearly above 0 on average."""
    return len(change) > 0 and change.mean() > 2.0 * change.std() / np.sqrt(len(change))
