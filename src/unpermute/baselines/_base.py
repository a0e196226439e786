"""What the baselines share: `fit_transform`, its checks, and `transform` where it is useful."""

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin

from unpermute._validation import Integral, Interval, Real, fit_context, validate_vectors
from unpermute.numerics.units import in_unit, restored, unit_of

__all__ = ["SOLVER_CONSTRAINTS", "InductiveRecovery", "MatrixRecovery", "check_names", "positive"]

positive = Interval(Real, 0, None, closed="neither")

SOLVER_CONSTRAINTS: dict = {
    "tol": [positive],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
}


class MatrixRecovery:
    """Mixin of methods that recover a whole matrix at once.

    A subclass has ``_recover(X)``, which returns the recovered matrix and sets the fitted
    attributes. Methods that know nothing about other vectors than those of `X` stay without
    `transform`, as scikit-learn's transductive ones do.
    """

    _parameter_constraints: ClassVar[dict] = {}
    # Whether the method takes missing entries.
    _allow_nan = False
    # Fitted attributes that are in the unit of X.
    _in_unit_of_x: ClassVar[tuple[str, ...]] = ()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()  # type: ignore[misc]  # of BaseEstimator
        tags.input_tags.allow_nan = self._allow_nan
        return tags

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Recover `X`; the result is in ``recovered_``.

        Parameters
        ----------
        X : array-like of shape (n_vectors, n_features)
            The observed vectors, one per row.
        y : None
            Ignored.

        Returns
        -------
        self : object
            The fitted model.
        """
        X = self._check(X)
        unit = unit_of(X)
        scaled, self._unit = in_unit(X, unit), unit
        self.recovered_ = restored(X, scaled, self._recover(scaled), unit)
        for name in self._in_unit_of_x if unit != 1.0 else ():
            setattr(self, name, getattr(self, name) * unit)
        return self

    def fit_transform(self, X, y=None):
        """Recover `X` and return it.

        Parameters
        ----------
        X : array-like of shape (n_vectors, n_features)
            The observed vectors, one per row.
        y : None
            Ignored.

        Returns
        -------
        X_recovered : ndarray of shape (n_vectors, n_features)
            The recovered vectors.
        """
        return self.fit(X, y).recovered_

    def _check(self, X):
        """Refuse what no method can recover, in one sentence."""
        X = validate_vectors(self, X, min_vectors=2, allow_nan=True)
        missing = np.isnan(X)
        if missing.any() and not self._allow_nan:
            raise ValueError(
                f"X holds {missing.sum()} missing entries (NaN), but {type(self).__name__} needs"
                " every entry; fill them first, or use RobustPCA, which does without."
            )
        if missing.all():
            raise ValueError("X holds nothing but missing entries (NaN); there must be numbers.")
        if not np.any(X[~missing]):
            raise ValueError(
                f"X is zero in all {X.size} entries; a vector that differs from zero is needed."
            )
        return X

    @abstractmethod
    def _recover(self, X):
        """Return the recovered matrix and set the fitted attributes."""


def check_names(name, names, n_vectors):
    """Check that `names` holds one name for every vector, and return it as an array."""
    names = np.asarray(names)
    if names.shape != (n_vectors,):
        raise ValueError(
            f"{name} has shape {names.shape}, but must name the {name[:-1]} of each of the"
            f" {n_vectors} vectors."
        )
    missing = [i for i, value in enumerate(names.tolist()) if value is None or value != value]
    if missing:
        raise ValueError(f"{name} names no {name[:-1]} for vector {missing[0]}: it is missing.")
    return names


class InductiveRecovery(OneToOneFeatureMixin, MatrixRecovery, TransformerMixin):
    """Mixin of methods that also recover vectors that were not there when they were fitted."""

    # Defined anew for scikit-learn's set_output, which only sees methods of its own subclasses.
    def fit_transform(self, X, y=None):
        """Recover `X` and return it.

        Parameters
        ----------
        X : array-like of shape (n_vectors, n_features)
            The observed vectors, one per row.
        y : None
            Ignored.

        Returns
        -------
        X_recovered : ndarray of shape (n_vectors, n_features)
            The recovered vectors.
        """
        return MatrixRecovery.fit_transform(self, X, y)
