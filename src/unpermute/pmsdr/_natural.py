r"""Whether a vector deviates from its subspace as clean vectors do, or as shuffled ones do.

What clean vectors leave over lies along some directions more than along others: an odd outline is
still smooth, an odd face still has shadows. What a shuffle adds lies along all of them alike. With
the principal directions W that follow those of the component, by folds without the vector,

.. math:: s = \frac{\lVert W (x - \mu) \rVert^2}{\lVert x - \mu \rVert^2 - \lVert V (x - \mu)
          \rVert^2}

is large for vectors that are odd by nature, and small for shuffled ones. How much larger, the clean
vectors and the trials of this very matrix tell. Where noise has no such directions, both are much
alike, and no vector counts as shuffled for that.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import logit

__all__ = ["Naturalness", "natural_shares"]

# Shares nearer to 0 or 1 than this are as good as these, and so many vectors tell a distribution.
_LEAST_SHARE, _ENOUGH = 1e-3, 20
# Least width of a distribution of logits: small samples may be alike by chance.
_LEAST_WIDTH = 0.1
# Quantile of the trials below which a repaired vector is not natural.
_UNUSUAL = 0.05


def natural_shares(Y, mixture, membership, component):
    """Share of what vectors deviate from their component that is along the directions that follow.

    Parameters
    ----------
    Y : ndarray of shape (n_vectors, n_features)
        Without missing entries.
    mixture : Mixture
    membership : Membership
        Says by which folds they are judged.
    component : ndarray of int of shape (n_vectors,)
        Component of every vector.

    Returns
    -------
    ndarray of shape (n_vectors,)
        One half where a component has no further directions.
    """
    shares = np.full(len(Y), 0.5)
    for k in np.unique(component):
        own = mixture.components[k]
        if own.further.shape[1] == 0:
            continue
        rows = np.flatnonzero(component == k)
        folds = np.where(membership.labels[rows] == k, membership.folds[rows], -1)
        for f in np.unique(folds):
            some = rows[folds == f]
            # In double precision: what is left over may be a millionth of the vector.
            directions = np.linalg.qr(own.directions[f].T.astype(float))[0]
            left = Y[some] - own.means[f]
            left = left - (left @ directions) @ directions.T
            further = np.sum((left @ own.further[f].T) ** 2, axis=1)
            shares[some] = further / np.maximum(np.sum(left**2, axis=1), 1e-300)
    return np.clip(shares, _LEAST_SHARE, 1.0 - _LEAST_SHARE)


@dataclass(frozen=True)
class Naturalness:
    """Shares of clean vectors and of trials, as logits with Student's t.

    Attributes
    ----------
    clean, damaged : tuple of float
        Location and width.
    least_after : float
        Share from which on a repaired vector is as natural as repaired trials.
    most : float
        Largest log-odds that so many vectors can tell.
    """

    clean: tuple[float, float]
    damaged: tuple[float, float]
    least_after: float
    most: float

    @classmethod
    def of(cls, clean, tried, tried_after):
        """Learn from shares of clean vectors, of trials, and of these once they are repaired.

        None if they are too few.
        """
        if min(len(clean), len(tried)) < _ENOUGH:
            return None
        most = float(np.log(min(len(clean), len(tried))))
        return cls(
            _typical(clean), _typical(tried), float(np.quantile(tried_after, _UNUSUAL)), most
        )

    def log_odds(self, natural, after):
        """Clean vectors per damaged one, as a logarithm.

        A vector that is not natural even when it is repaired is not more likely damaged for that;
        and none is where clean vectors and trials are not clearly different.
        """
        x, (high, wide), (low, narrow) = logit(natural), self.clean, self.damaged
        odds = np.clip(_log_t(x, high, wide) - _log_t(x, low, narrow), -self.most, self.most)
        told = (after >= self.least_after) & (high - low > wide + narrow)
        return np.where(told, odds, np.maximum(odds, 0.0))


def _typical(shares):
    """Median and width of logits."""
    x = logit(shares)
    lower, centre, upper = np.quantile(x, [0.25, 0.5, 0.75])
    return float(centre), max(float(upper - lower) / 1.35, _LEAST_WIDTH)


def _log_t(x, centre, width):
    """Log-density of Student's t with four degrees of freedom, up to a constant."""
    return -2.5 * np.log1p(0.25 * ((x - centre) / width) ** 2) - np.log(width)
