"""Exact answers where the noise is low: the search of stage 4, in competition with the EM.

The search finds coefficients and permutation together and certifies its answer. A certified answer
takes the place of the EM's where the repaired vector is more likely as a clean one. Without random
starts the search is cheap, and all vectors that look damaged get it. With them it is kept for
vectors that are still louder than clean ones. Whether either helps at this noise, a few vectors
tell first.
"""

import numpy as np

from unpermute.pmsdr._judge import Effort, repair, stand
from unpermute.pmsdr._model import principal_directions
from unpermute.pmsdr._put_back import recover_by
from unpermute.pmsdr._some_entries import VERY_LONG
from unpermute.pmsdr._trials import noise_ratio
from unpermute.recover import recover_everywhere, starts_for

__all__ = ["Certifier", "recover_as_told"]

# Noise, relative to the spread of a vector's entries, above which nothing is ever certified.
_LOW_NOISE = 0.2
# Vectors that tell whether the search helps, and those of them that random starts are tried on.
_PILOT, _HARDEST = 24, 8
# Vectors below which random starts, by far the dearest part, are not tried.
_FEWEST = 5
# Relative increase of the gain that counts as an improvement.
_WORTH_IT = 0.2
# Random starts per vector of up to 100 entries and component; the share of the pilot that must be
# left louder than clean vectors to try them, and of the hardest of these that they must help.
_STARTS, _MANY = 2000, 0.2
# Share of the pilot that is certified from which certificates can be had for most vectors, and
# share that must improve otherwise.
_MOST, _SOME = 0.5, 0.1
# Expected number of starts that draw entries in place only, below which none is tried: the search
# moves its starts towards such entries, and finds vectors for which it is a thousandth.
_HOPELESS = 1e-4


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
        Random starts per vector that is left louder than clean ones.
    loudest : float
        Largest noise ratio of a clean vector.
    """

    def __init__(self, mixture, bases, offsets, *, seed):
        self.mixture, self.bases, self.offsets, self.seed = mixture, bases, offsets, seed
        noises = [component.noise for component in mixture.components]
        self.noise_scale = float(np.sqrt(np.median(noises)))
        self.is_used, self.starts, self.loudest = False, 0, np.inf

    def pilot(self, judged, Y, membership, loudest, n_jobs=None):
        """Find out whether the search improves vectors, and random starts those that are left."""
        self.loudest = loudest
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
        some = np.arange(len(pilot)) % 3 == 0
        certified, improved = self._try(0, judged, Y, membership, pilot[some], n_jobs)
        if np.any(certified | improved):
            others = self._try(0, judged, Y, membership, pilot[~some], n_jobs)
            certified, improved = np.append(certified, others[0]), np.append(improved, others[1])
        mostly = bool(np.mean(certified) > _MOST)
        self.is_used = mostly or bool(np.mean(improved) >= _SOME)
        failed = pilot[noise_ratio(judged, Y, after=True)[pilot] > loudest]
        failed = failed[np.argsort(-judged.noise_after[failed], kind="stable")]
        enough = len(pilot) >= _FEWEST
        if enough and not mostly and len(failed) > _MANY * len(pilot):
            hardest = failed[self._has_hope(judged.part(failed), Y)][:_HARDEST]
            helped = np.any(self._try(_STARTS, judged, Y, membership, hardest, n_jobs), axis=0)
            mostly = len(hardest) > 0 and bool(np.mean(helped) > _MANY)
        self.starts = _STARTS if enough and mostly else 0

    def learn(self, X, labels):
        """Fit the bases again to vectors in order, clean or certified, of known components."""
        for k, (basis, offset) in enumerate(zip(self.bases, self.offsets, strict=True)):
            own = X[labels == k] - offset
            if len(own) > basis.shape[1]:
                self.bases[k] = np.linalg.qr(principal_directions(own, basis.shape[1]).T)[0]

    def _try(self, starts, judged, Y, membership, rows, n_jobs):
        """Which vectors the search certifies, and which it improves."""
        part = judged.part(rows)
        self._improve(part, Y[rows], membership[rows], starts, n_jobs)
        return part.certified, part.gain > (1.0 + _WORTH_IT) * judged.gain[rows]

    def improve(self, judged, Y, membership, *, n_jobs=None):
        """Enter certified answers that make the repaired vector more likely."""
        if self.is_used:
            self._improve(judged, Y, membership, 0, n_jobs)

    def insist(self, judged, Y, membership, *, n_jobs=None):
        """Search with random starts for vectors that nothing has made like clean ones."""
        if self.starts:
            loud = noise_ratio(judged, Y, after=True) > self.loudest
            rows = np.flatnonzero(loud & ~judged.certified & self._has_hope(judged, Y))
            part = judged.part(rows)
            self._improve(part, Y[rows], membership[rows], self.starts, n_jobs)
            judged.replace(rows, part)

    def _has_hope(self, judged, Y):
        """Whether some start can be expected to draw entries in place only."""
        ranks = np.array([basis.shape[1] for basis in self.bases])[judged.component]
        in_place = starts_for(Y.shape[1], _STARTS) * (1.0 - judged.share) ** ranks
        return in_place > _HOPELESS

    def _improve(self, judged, Y, membership, starts, n_jobs):
        if len(Y) == 0:
            return
        found = recover_everywhere(
            Y, self.bases, self.offsets, noise_scale=self.noise_scale,
            max_starts=starts_for(Y.shape[1], starts), seed=self.seed, n_jobs=n_jobs,
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
        before = judged.gain[rows]
        better = other.gain > before
        judged.replace(rows[better], other.part(better))
        # The same values in the same places: the EM's answer is the one that is certified.
        same = np.isclose(other.values, judged.values[rows], equal_nan=True).all(axis=1)
        judged.certified[rows] = better | same


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
    judged.move_values(Y)
    among = judged.component[:, None]
    after = stand(judged.values, certifier.mixture, membership, among=among, n_jobs=n_jobs)
    places = np.arange(len(Y)), judged.component
    judged.noise_after[:] = after.noise[places]
    judged.gain[:] = after.likelihood[places] - judged.observed
