"""How likely a repair is closer to the truth: learned from the trials, whose truth is known."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit, cross_val_predict

__all__ = ["Success"]

# Inverse penalty: successes and failures may be separable, and odds must stay finite.
_PENALTY = 1.0
# Parts in which trials are left out of the regression that orders them, and quantile of the scores
# beyond which they tell nothing more.
_SPLITS, _BELIEVED = 5, 0.9


@dataclass(frozen=True)
class Success:
    """Probability that a repair is closer to the truth, learned from trials.

    A logistic regression orders the repairs. Its scores for trials that it was not fitted to are
    turned into probabilities by a second one (Platt scaling), so that what was learned from few
    failures is not believed more than it deserves. No repair is surer than that curve says where
    most trials lie.

    Attributes
    ----------
    centre, scale, slopes : ndarray of shape (n_known,)
        Of the regression that orders repairs.
    slope, intercept, largest : float
        Of the regression over its scores, and the score up to which it is believed.
    """

    centre: np.ndarray
    scale: np.ndarray
    slopes: np.ndarray
    slope: float
    intercept: float
    largest: float = np.inf

    @classmethod
    def of(cls, known, outcome, vectors):
        """Learn from trials.

        Parameters
        ----------
        known : ndarray of shape (n_trials, n_known)
            What is known of the repairs.
        outcome : ndarray of int of shape (n_trials,)
            1 if the repair is closer to the truth, else 0.
        vectors : ndarray of int of shape (n_trials,)
            The clean vector that was shuffled. Trials of one vector come out alike, so they are
            left out of the regression together.
        """
        centre, scale = known.mean(axis=0), known.std(axis=0) + 1e-12
        standard, slopes = (known - centre) / scale, np.zeros(known.shape[1])
        folds = _folds_of_vectors(outcome, vectors)
        # Few trials are never sure: as if half a success and half a failure had been seen before.
        base = logit((outcome.sum() + 0.5) / (len(outcome) + 1.0))
        if folds is None:
            return cls(centre, scale, slopes, 0.0, float(base))
        model = LogisticRegression(C=_PENALTY)
        scores = cross_val_predict(
            model, standard, outcome, cv=PredefinedSplit(folds), method="decision_function"
        )
        slopes = model.fit(standard, outcome).coef_[0]
        scores -= model.intercept_[0]
        platt = LogisticRegression(C=np.inf).fit(scores[:, None], outcome)
        slope = float(platt.coef_[0, 0])
        if slope <= 0.0:
            return cls(centre, scale, slopes, 0.0, float(base))
        largest = float(np.quantile(scores, _BELIEVED))
        return cls(centre, scale, slopes, slope, float(platt.intercept_[0]), largest)

    def __call__(self, known):
        """Return the probabilities."""
        scores = ((known - self.centre) / self.scale) @ self.slopes
        return expit(self.intercept + self.slope * np.minimum(scores, self.largest))


def _folds_of_vectors(outcome, vectors):
    """Folds of trials, those of one vector together.

    Vectors are dealt to the folds in the order of their failures, so that every fold has some. No
    folds (None) if too few vectors fail, or too few succeed.
    """
    _, own, counts = np.unique(vectors, return_inverse=True, return_counts=True)
    successes = np.bincount(own, outcome)
    order = np.argsort(successes / counts, kind="stable")
    folds = np.empty(len(counts), dtype=np.int64)
    folds[order] = np.arange(len(counts)) % _SPLITS
    fewest = min(np.sum(successes > 0), np.sum(successes < counts))
    return folds[own] if fewest >= _SPLITS else None
