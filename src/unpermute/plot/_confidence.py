"""Stated confidences: a reliability diagram, or their distribution."""

import narwhals.stable.v1 as nw
import numpy as np
from scipy.stats import beta

from unpermute.plot._axes import AFTER, BEFORE, STAYS, Display, check_count

__all__ = ["ConfidenceDisplay"]


class ConfidenceDisplay(Display):
    """Reliability diagram: stated confidence against the share that was right.

    Points on the diagonal keep their promise; points below it promise too much. The whiskers are
    95% intervals of the shares, and bars count how often a confidence was stated. Where the truth
    is unknown (:meth:`from_result`), only the bars are drawn.

    Make one with :meth:`from_estimator`, :meth:`from_predictions` or :meth:`from_result`.
    They pass further options to matplotlib's ``errorbar``.

    Parameters
    ----------
    confidence : ndarray of shape (n_bins,)
        Mean stated confidence of every bin that is not empty.
    share_right : ndarray of shape (n_bins,)
        Share of the bin that was right; NaN where that is unknown.
    count : ndarray of int of shape (n_bins,)
        Size of the bin.
    n_bins : int, default=10
        Bins from 0 to 1.
    min_confidence : float, default=None
        Threshold from which on vectors are changed: a vertical line.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes drawn on.
    figure_ : matplotlib Figure
        The figure that holds them.

    Examples
    --------
    >>> from unpermute.plot import ConfidenceDisplay
    >>> display = ConfidenceDisplay.from_predictions(
    ...     [0.95, 0.92, 0.98, 0.96, 0.4], [True, True, True, False, False]
    ... )
    >>> display.share_right.tolist()
    [0.0, 0.75]
    """

    _size = (4.6, 4.2)

    def __init__(self, *, confidence, share_right, count, n_bins=10, min_confidence=None):
        self.confidence = confidence
        self.share_right = share_right
        self.count = count
        self.n_bins = n_bins
        self.min_confidence = min_confidence

    @classmethod
    def from_estimator(cls, estimator, **kwargs):
        """Draw how confidences turned out in the trials of a fitted model.

        Parameters
        ----------
        estimator : PMSDR
            A fitted model whose ``trials_`` hold some, so with ``refine=True``.
        **kwargs : dict
            Passed to :meth:`plot`.

        Returns
        -------
        display : ConfidenceDisplay
            What was drawn.
        """
        trials = getattr(estimator, "trials_", None)
        if trials is None or not trials.reliability:
            raise ValueError(
                "The model ran no trials: nothing looked shuffled, or refine=False. Compare its"
                " confidence_ with the truth by from_predictions instead."
            )
        confidence, right, count = map(np.array, zip(*trials.reliability, strict=True))
        display = cls(
            confidence=confidence,
            share_right=right,
            count=count,
            min_confidence=estimator.min_confidence,
        )
        return display.plot(**kwargs)

    @classmethod
    def from_predictions(cls, confidence, right, *, n_bins=10, min_confidence=None, **kwargs):
        """Compare stated confidences with the truth.

        Parameters
        ----------
        confidence : array-like of shape (n,)
            Stated probabilities.
        right : array-like of bool of shape (n,)
            Whether each was right.
        n_bins : int, default=10
            Number of bins from 0 to 1.
        min_confidence : float, default=None
            Threshold to mark.
        **kwargs : dict
            Passed to :meth:`plot`.

        Returns
        -------
        display : ConfidenceDisplay
            What was drawn.
        """
        right = np.asarray(right, dtype=np.float64)
        bins = _bins(confidence, right, check_count("n_bins", n_bins, 1))
        display = cls(**bins, n_bins=n_bins, min_confidence=min_confidence)
        return display.plot(**kwargs)

    @classmethod
    def from_result(cls, result, *, n_bins=20, **kwargs):
        """Draw how the confidences of the suspicious records or columns of a table are spread.

        Parameters
        ----------
        result : TableResult
            What :func:`unpermute.table.scan` or :func:`unpermute.table.repair` returned.
        n_bins : int, default=20
            Number of bins from 0 to 1.
        **kwargs : dict
            Passed to :meth:`plot`.

        Returns
        -------
        display : ConfidenceDisplay
            What was drawn.
        """
        vectors = nw.from_native(result.vectors, eager_only=True)
        confidence = np.array(vectors["confidence"].to_list(), dtype=np.float64)
        unknown = np.full(len(confidence), np.nan)
        bins = _bins(confidence, unknown, check_count("n_bins", n_bins, 1))
        least = result.summary["settings"]["min_confidence"]
        return cls(**bins, n_bins=n_bins, min_confidence=least).plot(**kwargs)

    def _draw(self, **kwargs):
        known = np.isfinite(self.share_right)
        bars = self.ax_.twinx() if known.any() else self.ax_
        places = np.minimum((self.confidence * self.n_bins).astype(int), self.n_bins - 1)
        bars.bar(
            (places + 0.5) / self.n_bins, self.count, 0.9 / self.n_bins, color=STAYS, alpha=0.4
        )
        bars.set_ylabel("number")
        if known.any():
            # The bars stay in the lower third, the points on top of them.
            bars.set_ylim(0, 3 * max(self.count.max(), 1))
            self.ax_.set_zorder(bars.get_zorder() + 1)
            self.ax_.patch.set_visible(False)
            self.ax_.plot([0, 1], [0, 1], color=STAYS, linewidth=1, linestyle="--")
            share, count = self.share_right[known], self.count[known]
            interval = np.abs(np.array(_interval(share, count)) - share)
            options = {"fmt": "o", "capsize": 3, "color": AFTER, **kwargs}
            self.ax_.errorbar(self.confidence[known], share, yerr=interval, **options)
            self.ax_.set(ylabel="share that was right", ylim=(-0.02, 1.04))
        if self.min_confidence is not None:
            self.ax_.axvline(self.min_confidence, color=BEFORE, linewidth=1)
        self.ax_.set(xlabel="stated confidence", xlim=(-0.02, 1.02))


def _interval(share, count):
    """95% interval of a share (Clopper and Pearson)."""
    right = share * count
    low = np.where(right > 0, beta.ppf(0.025, right, count - right + 1), 0.0)
    high = np.where(right < count, beta.ppf(0.975, right + 1, count - right), 1.0)
    return low, high


def _bins(confidence, right, n_bins):
    confidence = np.asarray(confidence, dtype=np.float64)
    if confidence.shape != right.shape or confidence.ndim != 1:
        raise ValueError(
            f"confidence has shape {confidence.shape} and right {right.shape}; both must be lists"
            " of one length."
        )
    if len(confidence) and not (np.min(confidence) >= 0 and np.max(confidence) <= 1):
        raise ValueError("confidence must hold probabilities from 0 to 1.")
    places = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    used = np.unique(places)
    return {
        "confidence": np.array([confidence[places == place].mean() for place in used]),
        "share_right": np.array([right[places == place].mean() for place in used]),
        "count": np.array([np.sum(places == place) for place in used], dtype=int),
    }
