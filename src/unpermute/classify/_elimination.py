"""Classification of permuted vectors by elimination (Algorithm 2 of the paper)."""

from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from unpermute._validation import (
    Integral,
    Interval,
    Real,
    StrOptions,
    check_rank,
    fit_context,
    validate_vectors,
)
from unpermute.numerics.elimination import eliminate, elimination_schedule
from unpermute.numerics.subspaces import BASIS_METHODS, fit_subspaces

__all__ = ["EliminationClassifier", "elimination_distances"]


class EliminationClassifier(ClassifierMixin, BaseEstimator):
    r"""Assign permuted vectors to subspaces by dropping the entries that fit worst.

    For every subspace with basis :math:`U_k`: least squares, drop the entries with the largest
    residual, repeat; then compare what remains, :math:`\nu`, with what remains of the subspace,

    .. math:: d_k = 1 - \cos(\nu, B B^\dagger \nu), \qquad \hat k = \arg\min_k d_k .

    In the right subspace it is mostly shuffled entries that go, and the rest fits; in a wrong one
    no small rest fits. Choose it when most entries of a vector are in place.

    Parameters
    ----------
    rank : int, sequence of int, or None, default=None
        Dimension of the subspaces (one for all, or one each in the order of the sorted labels);
        None: by the largest gap of the singular values.
    retain_ratio : float in (0, 1], default=0.5
        γ: ⌊(M − r)(1 − γ)⌋ entries are dropped in all.
    max_steps : int, default=50
        Maximum number of least-squares fits per subspace.
    basis : {"svd", "irls", "dpcp", "robust"}, default="svd"
        How a basis is fitted to the clean vectors of a class.
    affine : bool, default=False
        Whether the subspaces are affine.
    n_jobs : int, default=None
        Threads; the result does not depend on it.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    bases_ : list of ndarray of shape (n_features, rank)
        Orthonormal basis of each class.
    offsets_ : list of ndarray of shape (n_features,)
        Zeros unless `affine`.

    References
    ----------
    Xie & Fan, "Multi-subspace matrix recovery from permuted data", AAAI 2025, Algorithm 2.

    Examples
    --------
    >>> from unpermute.classify import EliminationClassifier
    >>> from unpermute.datasets import make_permuted_subspaces
    >>> data = make_permuted_subspaces(3, 40, 30, 2, shuffled_ratio=0.3, random_state=0)
    >>> clean = ~data.outlier_mask
    >>> model = EliminationClassifier(rank=2).fit(data.X[clean], data.labels[clean])
    >>> model.score(data.X[~clean], data.labels[~clean])
    1.0
    """

    _parameter_constraints: ClassVar[dict] = {
        "rank": ["array-like", Interval(Integral, 1, None, closed="left"), None],
        "retain_ratio": [Interval(Real, 0, 1, closed="right")],
        "max_steps": [Interval(Integral, 1, None, closed="left")],
        "basis": [StrOptions(set(BASIS_METHODS))],
        "affine": ["boolean"],
        "n_jobs": [None, Integral],
    }

    def __init__(
        self, rank=None, *, retain_ratio=0.5, max_steps=50, basis="svd", affine=False, n_jobs=None
    ):
        self.rank = rank
        self.retain_ratio = retain_ratio
        self.max_steps = max_steps
        self.basis = basis
        self.affine = affine
        self.n_jobs = n_jobs

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # scikit-learn's checks expect blobs to be told apart; these are no subspaces.
        tags.classifier_tags.poor_score = True
        return tags

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y):
        """Fit one subspace to the clean vectors of every class.

        Parameters
        ----------
        X : array-like of shape (n_vectors, n_features)
            Vectors whose entries are in place.
        y : array-like of shape (n_vectors,)
            Their classes.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        X, y = validate_vectors(self, X, y, min_features=2)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        n_classes = len(self.classes_)
        check_rank(self.rank, X.shape[1], n_classes)
        self.bases_, self.offsets_ = fit_subspaces(
            X, labels, self.rank, n_classes, method=self.basis, affine=self.affine
        )
        return self

    def decision_function(self, X):
        """Return −d_k for every vector and class: larger means a better fit.

        Parameters
        ----------
        X : array-like of shape (n_vectors, n_features)
            Vectors, permuted or not.

        Returns
        -------
        scores : ndarray of shape (n_vectors, n_classes) or (n_vectors,)
            For two classes d_0 − d_1, as scikit-learn has it.
        """
        check_is_fitted(self)
        X = validate_vectors(self, X, reset=False)
        scores = -elimination_distances(
            X,
            self.bases_,
            self.offsets_,
            retain_ratio=self.retain_ratio,
            max_steps=self.max_steps,
            n_jobs=self.n_jobs,
        )
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X):
        """Return the class of every vector.

        Parameters
        ----------
        X : array-like of shape (n_vectors, n_features)
            Vectors, permuted or not.

        Returns
        -------
        y : ndarray of shape (n_vectors,)
            The class with the smallest d_k.
        """
        scores = self.decision_function(X)
        # Last line of Algorithm 2: the label is argmin_k d_k, the scores are −d_k.
        best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[best]


def elimination_distances(Y, bases, offsets, *, retain_ratio=0.5, max_steps=50, n_jobs=None):
    """Distance of every vector to every subspace by elimination, d_k of Algorithm 2.

    Nothing is validated.

    Parameters
    ----------
    Y : ndarray of shape (n_vectors, n_features)
        Vectors, permuted or not; NaN where missing.
    bases : list of ndarray of shape (n_features, rank)
        Orthonormal bases of the subspaces.
    offsets : list of ndarray of shape (n_features,)
        Their offsets; zeros where a subspace is linear.
    retain_ratio, max_steps, n_jobs
        As for :class:`EliminationClassifier`.

    Returns
    -------
    distances : ndarray of shape (n_vectors, n_subspaces)
        Between 0 and 1; the smallest decides.
    """
    distances = np.empty((len(Y), len(bases)))
    for k, (basis, offset) in enumerate(zip(bases, offsets, strict=True)):
        schedule = elimination_schedule(
            *basis.shape, retain_ratio=retain_ratio, max_steps=max_steps
        )
        # Eqs. (6) and (7) of Xie & Fan in turn, then Eq. (5).
        distances[:, k] = eliminate(Y - offset, basis, schedule, stage="classify", n_jobs=n_jobs)[1]
    return distances
