"""Exact answers where the noise is low: the search of stage 4, in competition with the EM.

The search finds coefficients and permutation together and certifies its answer. A certified answer
takes the place of the EM's where the repaired vector is more likely as a clean one. Whether the
search helps at this noise, with and without random starts, a few vectors tell first.
"""

import numpy as np

from unpermute.numerics.permutations import match_values
from unpermute.pmsdr._judge import Effort, repair, stand
from unpermute.pmsdr._model import principal_directions
from unpermute.pmsdr._put_back import recover_by
from unpermute.pmsdr._some_entries import VERY_LONG
from unpermute.pmsdr._trials import noise_ratio
from unpermute.recover import recover_everywhere, starts_for

__all__ = ["Certifier", "recover_as_told"]

# Noise, relative to the spread of a vector's entries, above which the search finds an order for odd
# vectors, too (for digits, at 0.18).
_LOW_NOISE = 0.15
# Vectors that tell whether the search helps, and those of them that random starts are tried on.
_PILOT, _SEARCHED = 24, 8
# Vectors below which random starts, by far the dearest part, are not tried.
_FEWEST = 5
# Relative increase of the gain that counts as an improvement.
_WORTH_IT = 0.2
# Random starts per vector of up to 100 entries and component; the share of the pilot that must be
# left louder than clean vectors to try them if nothing else helps, and the share that they must
# improve, unless they certify one.
_STARTS, _MANY = 2000, 0.2
# Share of the pilot that is certified from which certificates can be had for most vectors, and
# share that must improve otherwise.
_MOST, _SOME = 0.5, 0.1
# Expected number of starts that draw entries in place only, below which none is tried: the search
# moves its starts towards such entries, and finds vectors for which it is a thousandth.
_HOPELESS = 1e-4
# Scale of a t distribution with 4 degrees of freedom that is fitted to normal noise of variance 1.
_NORMAL = 0.831


class Certifier:
    """The search over the subspaces of a mixture.

    Parameters
    ----------
    mixture : Mixture
    bases, offsets : list of ndarray
        Of its components.
    seed : int

    Attributes
    ----------
    is_used : bool
        Whether the search is used at all.
    starts : int
        Random starts per vector that is not certified without.
    """

    def __init__(self, mixture, bases, offsets, *, seed):
        self.mixture, self.bases, self.offsets, self.seed = mixture, bases, offsets, seed
        noises = [component.noise for component in mixture.components]
        self.noise_scale = float(np.sqrt(np.median(noises))) / _NORMAL
        self.is_used, self.starts = False, 0

    def pilot(self, judged, Y, membership, loudest, n_jobs=None):
        """Find out whether the search improves vectors, and random starts those that are left."""
        if any(basis.shape[1] >= len(basis) - 1 for basis in self.bases):
            return  # any order fits a subspace that holds everything
        if Y.shape[1] > VERY_LONG:
            return  # nobody can prove an order where thousands of values are alike
        if self.noise_scale > _LOW_NOISE * np.median(np.nanstd(Y, axis=1)):
            return
        order = np.argsort(-judged.noise_after, kind="stable")
        spread = order[:: max(2 * len(order) // _PILOT, 1)]
        pilot = np.unique(np.r_[order[: _PILOT // 2], spread])
        # Where a third of them shows nothing, the others would not, either.
        pilot = np.concatenate([pilot[::3], np.delete(pilot, slice(None, None, 3))])
        first = -(-len(pilot) // 3)
        certified, improved = self._try(0, judged, Y, membership, pilot[:first], n_jobs)
        if np.any(certified | improved):
            others = self._try(0, judged, Y, membership, pilot[first:], n_jobs)
            certified, improved = np.append(certified, others[0]), np.append(improved, others[1])
        self.is_used = bool(np.mean(certified) > _MOST or np.mean(improved) >= _SOME)
        loud = noise_ratio(judged, Y, after=True)[pilot] > loudest
        if len(pilot) >= _FEWEST and (self.is_used or np.mean(loud) > _MANY):
            left = np.setdiff1d(pilot, pilot[: len(certified)][certified])
            left = left[self._has_hope(judged.part(left), Y)][:_SEARCHED]
            certified, improved = self._try(_STARTS, judged, Y, membership, left, n_jobs)
            if certified.any() or np.sum(improved) > _MANY * len(left):
                self.is_used, self.starts = True, _STARTS

    def learn(self, X, labels):
        """Fit the bases again to vectors in order, clean or certified, of known components."""
        for k, (basis, offset) in enumerate(zip(self.bases, self.offsets, strict=True)):
            own = X[labels == k] - offset
            if len(own) > basis.shape[1]:
                self.bases[k] = np.linalg.qr(principal_directions(own, basis.shape[1]).T)[0]

    def _try(self, starts, judged, Y, membership, rows, n_jobs):
        """Which vectors the search certifies, and which it improves."""
        part = judged.part(rows)
        self._improve(part, Y[rows], membership[rows], starts, 0, n_jobs)
        return part.certified, part.gain > (1.0 + _WORTH_IT) * judged.gain[rows]

    def improve(self, judged, Y, membership, *, last_starts=0, n_jobs=None):
        """Enter certified answers that make the repaired vector more likely."""
        if self.is_used:
            self._improve(judged, Y, membership, self.starts, last_starts, n_jobs)

    def _has_hope(self, judged, Y):
        """Whether some start can be expected to draw entries in place only."""
        ranks = np.array([basis.shape[1] for basis in self.bases])[judged.component]
        in_place = starts_for(Y.shape[1], _STARTS) * (1.0 - judged.share) ** ranks
        return in_place > _HOPELESS

    def _improve(self, judged, Y, membership, starts, last_starts, n_jobs):
        if len(Y) == 0:
            return
        found = recover_everywhere(
            Y, self.bases, self.offsets, noise_scale=self.noise_scale,
            max_starts=starts_for(Y.shape[1], starts), last_starts=last_starts, seed=self.seed,
            n_jobs=n_jobs,
        )  # fmt: skip
        rows = np.flatnonzero(found.certain)
        for k in np.unique(found.labels[rows]):
            own = rows[found.labels[rows] == k]
            fitted = found.coefficients[own, : self.bases[k].shape[1]] @ self.bases[k].T
            self._enter(judged, Y, own, k, fitted + self.offsets[k], membership, n_jobs)

    def _enter(self, judged, Y, rows, k, fitted, membership, n_jobs):
        """Explain vectors from a fit that is known, and keep what makes them more likely."""
        component, own = self.mixture.components[k], Y[rows]
        spread = np.sqrt(component.noise * component.entry_noise)
        start = (np.abs(own - fitted) < 3.0 * spread).astype(np.float32)
        effort = Effort(iterations=4, anneal=0, steps=max(component.rank, 4))
        other = judged.part(rows)
        other.component[:] = k
        repair(
            other, own, np.arange(len(rows)), self.mixture, membership[rows], effort,
            n_jobs=n_jobs, weights=start,
        )  # fmt: skip
        self._match(other, own, fitted, membership[rows], n_jobs)
        before = judged.gain[rows]
        better = other.gain > before
        judged.replace(rows[better], other.part(better))
        # The same values in the same places: the EM's answer is the one that is certified.
        same = np.isclose(other.values, judged.values[rows], equal_nan=True).all(axis=1)
        judged.certified[rows] = better | same

    def _match(self, judged, Y, fitted, membership, n_jobs):
        """Sort the values to a fit that is known where that gains as much.

        The bases of the search may have learned from certified vectors, too; a component has not.
        """
        rows = np.flatnonzero(~np.isnan(Y).any(axis=1))
        other, own = judged.part(rows), Y[rows]
        other.permutations[:], _ = match_values(own, fitted[rows], noise_scale=self.noise_scale)
        _judge_moved(other, own, self.mixture, membership[rows], n_jobs)
        better = other.gain >= judged.gain[rows]
        judged.replace(rows[better], other.part(better))


def _judge_moved(judged, Y, mixture, membership, n_jobs):
    """Move the values as the permutations say, and enter what that gains."""
    judged.move_values(Y)
    after = stand(judged.values, mixture, membership, only=judged.component, n_jobs=n_jobs)
    places = np.arange(len(Y)), judged.component
    judged.noise_after[:] = after.noise[places]
    judged.gain[:] = after.likelihood[places] - judged.observed


def recover_as_told(recoverer, certifier, judged, Y, membership, *, n_jobs=None):
    """Enter the answers of a recoverer that the user named, in the components that were found."""
    judged.certified[:] = False
    for k in np.unique(judged.component):
        rows, component = np.flatnonzero(judged.component == k), certifier.mixture.components[k]
        answer = recover_by(
            recoverer, Y[rows], certifier.bases[k], certifier.offsets[k],
            noise_scale=certifier.noise_scale, seed=certifier.seed, n_jobs=n_jobs,
        )  # fmt: skip
        judged.permutations[rows] = answer.permutations
        judged.fitted[rows] = answer.fitted
        judged.staying[rows] = answer.permutations == np.arange(Y.shape[1])
        judged.share[rows] = 1.0 - judged.staying[rows].mean(axis=1)
        judged.variance[rows] = component.noise * component.entry_noise
    judged.weigh(Y)
    _judge_moved(judged, Y, certifier.mixture, membership, n_jobs)
