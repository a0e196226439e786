"""Trials of very long vectors by some of their entries.

How noise, moved shares and errors are spread a few thousand entries tell as well as a hundred
thousand. Shuffled among themselves they are shorter vectors of the same kind; what a repair gains
is a sum over the entries, and is multiplied by how many each of them stands for.
"""

from dataclasses import dataclass, replace

import numpy as np

from unpermute.pmsdr._explain import Component
from unpermute.pmsdr._judge import Mixture
from unpermute.pmsdr._trials import Pattern, Trials

__all__ = ["VERY_LONG", "SomeEntries", "is_everywhere"]

# Longer vectors are tried by so many of their entries.
VERY_LONG, _ENTRIES = 5000, 4000
# Share of moved entries from which some of the entries show them.
_ENOUGH = 0.05


@dataclass(frozen=True)
class SomeEntries:
    """Entries drawn at random, the same for all vectors.

    Attributes
    ----------
    columns : ndarray of int
        Their places.
    mixture : Mixture
        What a mixture says of them.
    stands_for : float
        Number of entries per drawn one.
    """

    columns: np.ndarray
    mixture: Mixture
    stands_for: float

    @classmethod
    def of(cls, mixture, *, seed):
        """Draw entries; None if they are not very many."""
        n_features = mixture.components[0].means.shape[1]
        if n_features <= VERY_LONG:
            return None
        drawn = np.random.default_rng(seed).choice(n_features, _ENTRIES, replace=False)
        columns = np.sort(drawn)
        components = [_restricted(component, columns) for component in mixture.components]
        return cls(columns, Mixture(components, mixture.log_shares), n_features / _ENTRIES)

    def stretched(self, trials: Trials):
        """Trials of these entries as if they were of all."""
        judged = trials.judged
        gain, stands_for = judged.gain * self.stands_for, judged.stands_for * self.stands_for
        return replace(trials, judged=replace(judged, gain=gain, stands_for=stands_for))


def is_everywhere(pattern: Pattern):
    """Whether a part of the entries shows the damage as the whole does."""
    return pattern.kind == "scattered" and pattern.share >= _ENOUGH


def _restricted(component: Component, columns):
    """The same component for some entries, with directions of about unit length again."""
    stretch = np.float32(np.sqrt(component.means.shape[1] / len(columns)))
    return replace(
        component,
        means=np.ascontiguousarray(component.means[:, columns]),
        directions=np.ascontiguousarray(component.directions[:, :, columns] * stretch),
        further=np.ascontiguousarray(component.further[:, :, columns] * stretch),
        variances=component.variances / stretch**2,
        entry_noise=np.ascontiguousarray(component.entry_noise[columns]),
    )
