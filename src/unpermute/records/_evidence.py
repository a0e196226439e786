"""Evidence for every proposal: three scores that trials turn into probabilities.

`odds` are the log-odds that the record is damaged, tempered by the pairs of columns that the
proposal exchanges; `margin` is the gain over the best decoy; `clear` are the log-odds of the
proposal against all other changes.
"""

from dataclasses import dataclass, fields
from functools import partial

import numpy as np
from scipy.special import expit, logit

from unpermute.records._decoys import margins
from unpermute.records._model import RecordModel, search_placed
from unpermute.records._tempering import Tempering, tempered_odds

__all__ = ["CLEAREST", "Evidence", "Judge"]

N_DECOYS = 8
# Tempered log-odds below which a proposal is not followed up.
_LEAST_ODDS = -4.0
# Log-odds of a proposal beyond which more evidence does not count.
CLEAREST = 9.2


@dataclass(frozen=True)
class Evidence:
    """Proposals and their scores, one per record; `followed` says which have a margin."""

    permutations: np.ndarray
    odds: np.ndarray
    margin: np.ndarray
    clear: np.ndarray
    followed: np.ndarray

    def arrays(self):
        """All arrays, in the order of the fields."""
        return [getattr(self, each.name) for each in fields(self)]


@dataclass(frozen=True)
class Judge:
    """What proposals are scored with: the model, and how far pairs are believed."""

    model: RecordModel
    tempering: Tempering
    seed: int
    n_jobs: int | None

    def weigh(self, placed, found=None, *, pool, draws=None):
        """Search the records, unless they have been, and score the proposals.

        `pool` holds the words of records that decoys are drawn from; ``draws(rows, k)`` says which
        of them are the k-th decoys of some rows, by default random ones.
        """
        if found is None:
            found = search_placed(self.model, placed, n_jobs=self.n_jobs)
        odds = tempered_odds(found, self.model.prior, self.tempering)
        followed = (found.gain > 0) & (odds > _LEAST_ODDS)
        rows = np.flatnonzero(followed)
        margin = np.full(len(odds), -np.inf)
        margin[rows] = margins(
            self.model, placed.take(rows), found.gain[rows], pool, n_decoys=N_DECOYS,
            seed=self.seed, n_jobs=self.n_jobs,
            draws=None if draws is None else partial(draws, rows),
        )  # fmt: skip
        clear = np.clip(logit(self._share(found)), -CLEAREST, CLEAREST)
        return Evidence(found.permutations.astype(np.int16), odds, margin, clear, followed)

    def _share(self, found):
        """Probability of the proposal among all changes, by the model alone."""
        unchanged = expit(-self._plain_odds(found))
        return np.clip(found.right / np.maximum(1 - unchanged, 1e-6), 1e-6, 1 - 1e-6)

    def _plain_odds(self, found):
        """Log-odds of damage before the evidence was discounted."""
        prior = logit(self.model.prior.damaged)
        return prior + (found.odds - prior) / self.model.trust
