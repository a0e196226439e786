"""Phase diagram: how likely a vector is recovered, by rank and share of moved entries."""

import numpy as np

from unpermute.plot._axes import BEFORE, Display, check_count
from unpermute.theory import recoverability

__all__ = ["RecoverabilityDisplay"]


class RecoverabilityDisplay(Display):
    """Probability that a shuffled vector is recovered, by rank and share of moved entries.

    Make one with :meth:`from_formula`, :meth:`from_estimator` or :meth:`from_predictions`.
    They pass further options to matplotlib's ``pcolormesh``.

    Parameters
    ----------
    ranks : ndarray of int of shape (n_ranks,)
        Dimensions of the subspace, from left to right.
    ratios : ndarray of shape (n_ratios,)
        Shares of moved entries, from bottom to top.
    probability : ndarray of shape (n_ratios, n_ranks)
        Probability of recovery, or measured share of success.
    points : ndarray of shape (n_points, 2), default=None
        Ranks and shares to mark, for instance those of a data set.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes drawn on.
    figure_ : matplotlib Figure
        The figure that holds them.

    Examples
    --------
    >>> from unpermute.plot import RecoverabilityDisplay
    >>> display = RecoverabilityDisplay.from_formula(50, ranks=[5, 15, 25], ratios=[0.2, 0.6])
    >>> display.probability.round(1).tolist()
    [[1.0, 1.0, 1.0], [1.0, 0.5, 0.0]]
    """

    _size = (5.2, 4.0)

    def __init__(self, *, ranks, ratios, probability, points=None):
        self.ranks = ranks
        self.ratios = ratios
        self.probability = probability
        self.points = points

    @classmethod
    def from_formula(
        cls, n_features, *, snr_db=40.0, ranks=None, ratios=None, points=None, **kwargs
    ):
        """Draw :func:`unpermute.theory.recoverability` for one length of vectors.

        Parameters
        ----------
        n_features : int
            Number of entries of a vector.
        snr_db : float, default=40.0
            Length of a vector over the length of its noise, in decibels.
        ranks : sequence of int, default=None
            Ranks to draw. None: from 1 to half of `n_features`.
        ratios : sequence of float, default=None
            Shares of moved entries to draw. None: from 0 to 1 in steps of 0.05.
        points : array-like of shape (n_points, 2), default=None
            Ranks and shares to mark.
        **kwargs : dict
            Passed to :meth:`plot`.

        Returns
        -------
        display : RecoverabilityDisplay
            What was drawn.
        """
        n_features = check_count("n_features", n_features, 2)
        ranks = np.arange(1, max(2, n_features // 2 + 1)) if ranks is None else np.asarray(ranks)
        ratios = np.linspace(0, 1, 21) if ratios is None else np.asarray(ratios)
        probability = np.array(
            [[recoverability(n_features, int(r), float(p), snr_db) for r in ranks] for p in ratios]
        )
        return cls.from_predictions(ranks, ratios, probability, points=points, **kwargs)

    @classmethod
    def from_estimator(cls, estimator, **kwargs):
        """Draw where the recovered vectors of a fitted model lie in the phase diagram.

        Parameters
        ----------
        estimator : PMSDR
            A fitted model.
        **kwargs : dict
            Passed to :meth:`plot`.

        Returns
        -------
        display : RecoverabilityDisplay
            What was drawn; `points` are the ranks and shares of the recovered vectors.
        """
        permutations = estimator.permutations_
        n_features = permutations.shape[1]
        recovered = estimator.status_ == "recovered"
        moved = np.mean(permutations != np.arange(n_features), axis=1)[recovered]
        ranks = np.asarray(estimator.ranks_)[estimator.labels_[recovered]]
        most = int(min(n_features - 1, max(n_features // 2, *np.atleast_1d(estimator.ranks_))))
        return cls.from_formula(
            n_features,
            ranks=np.arange(1, most + 1),
            points=np.column_stack([ranks, moved]),
            **kwargs,
        )

    @classmethod
    def from_predictions(cls, ranks, ratios, probability, *, points=None, **kwargs):
        """Draw probabilities or measured shares of success on a grid.

        Parameters
        ----------
        ranks : array-like of int of shape (n_ranks,)
            Dimensions of the subspace.
        ratios : array-like of shape (n_ratios,)
            Shares of moved entries.
        probability : array-like of shape (n_ratios, n_ranks)
            Values from 0 to 1.
        points : array-like of shape (n_points, 2), default=None
            Ranks and shares to mark.
        **kwargs : dict
            Passed to :meth:`plot`.

        Returns
        -------
        display : RecoverabilityDisplay
            What was drawn.
        """
        ranks, ratios, probability = map(np.asarray, (ranks, ratios, probability))
        if probability.shape != (len(ratios), len(ranks)):
            raise ValueError(
                f"probability has shape {probability.shape}, but {len(ratios)} ratios and"
                f" {len(ranks)} ranks need {(len(ratios), len(ranks))}."
            )
        points = None if points is None else np.asarray(points, dtype=np.float64)
        display = cls(ranks=ranks, ratios=ratios, probability=probability, points=points)
        return display.plot(**kwargs)

    def _draw(self, **kwargs):
        options = {"cmap": "viridis", "vmin": 0, "vmax": 1, "shading": "nearest", **kwargs}
        drawn = self.ax_.pcolormesh(self.ranks, self.ratios, self.probability, **options)
        self.figure_.colorbar(drawn, ax=self.ax_, label="probability of recovery")
        if self.points is not None and len(self.points):
            x, y = self.points.T
            self.ax_.plot(x, y, "o", color=BEFORE, markersize=4, markeredgecolor="white")
        self.ax_.set(xlabel="rank of the subspace", ylabel="share of moved entries")
