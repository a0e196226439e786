"""Classification of permuted vectors by recovery: they belong where they can be put back."""

from typing import ClassVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from unpermute._validation import Integral, Interval, Real, StrOptions, validate_vectors
from unpermute.classify._elimination import EliminationClassifier
from unpermute.numerics.subspaces import BASIS_METHODS
from unpermute.recover import recover_everywhere

__all__ = ["RecoveryClassifier"]


class RecoveryClassifier(EliminationClassifier):
    r"""Assign permuted vectors to the subspace in which they can be put back in order.

    For every subspace with basis :math:`U_k` search coefficients and permutation,
    :math:`y \approx \Pi U_k x`, and weigh the evidence :math:`e_k` that the fit is no accident
    (:mod:`unpermute.numerics.certificate`); :math:`\hat k = \arg\max_k e_k`. Subspaces are tried
    in the order of Algorithm 2's distance, and a certified answer ends it.

    Choose it when many entries of a vector moved: it uses their values, where
    :class:`EliminationClassifier` only uses the entries in place. It costs more.

    Parameters
    ----------
    rank : int, sequence of int, or None, default=None
        Dimension of the subspaces (one for all, or one each in the order of the sorted labels);
        None: by the largest gap of the singular values.
    basis : {"svd", "irls", "dpcp", "robust"}, default="robust"
        How a basis is fitted to the clean vectors of a class.
    affine : bool, default=False
        Whether the subspaces are affine.
    noise_scale : float, default=None
        Standard deviation of the noise of an entry, if known.
    max_starts : int, default=2000
        Budget of starts per vector and subspace. The same number is spent again if the vectors
        found so far differ in the share of moved entries, and four times as many on the remaining
        vectors, unless these are the majority.
    random_state : int, RandomState instance or None, default=None
        Seeds the starts.
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

    Examples
    --------
    >>> from unpermute.classify import RecoveryClassifier
    >>> from unpermute.datasets import make_permuted_subspaces
    >>> data = make_permuted_subspaces(3, 40, 30, 2, shuffled_ratio=0.6, random_state=0)
    >>> clean = ~data.outlier_mask
    >>> model = RecoveryClassifier(rank=2, random_state=0)
    >>> model.fit(data.X[clean], data.labels[clean]).score(data.X[~clean], data.labels[~clean])
    1.0
    """

    _parameter_constraints: ClassVar[dict] = {
        "rank": ["array-like", Interval(Integral, 1, None, closed="left"), None],
        "basis": [StrOptions(set(BASIS_METHODS))],
        "affine": ["boolean"],
        "noise_scale": [None, Interval(Real, 0, None, closed="neither")],
        "max_starts": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "n_jobs": [None, Integral],
    }

    def __init__(
        self,
        rank=None,
        *,
        basis="robust",
        affine=False,
        noise_scale=None,
        max_starts=2000,
        random_state=None,
        n_jobs=None,
    ):
        self.rank = rank
        self.basis = basis
        self.affine = affine
        self.noise_scale = noise_scale
        self.max_starts = max_starts
        self.random_state = random_state
        self.n_jobs = n_jobs

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
        super().fit(X, y)
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        return self

    def decision_function(self, X):
        """Return the evidence for every vector and class: larger means less likely an accident.

        Parameters
        ----------
        X : array-like of shape (n_vectors, n_features)
            Vectors, permuted or not.

        Returns
        -------
        scores : ndarray of shape (n_vectors, n_classes) or (n_vectors,)
            −1000 where an earlier certified answer made it needless to look. For two classes the
            evidence of the second less that of the first, as scikit-learn has it.
        """
        check_is_fitted(self)
        X = validate_vectors(self, X, reset=False)
        found = recover_everywhere(
            X,
            self.bases_,
            self.offsets_,
            noise_scale=self.noise_scale,
            max_starts=self.max_starts,
            seed=self._seed,
            n_jobs=self.n_jobs,
        )
        evidence = np.maximum(found.evidence, -1e3)
        return evidence[:, 1] - evidence[:, 0] if len(self.classes_) == 2 else evidence
