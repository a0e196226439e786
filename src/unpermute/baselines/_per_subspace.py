"""Any recovery inside each subspace: the "-S" variants."""

from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils.validation import has_fit_parameter

from unpermute._progress import report
from unpermute._validation import HasMethods, fit_context
from unpermute.baselines._base import MatrixRecovery, check_names
from unpermute.baselines._rpca import RobustPCA
from unpermute.numerics.permutations import has_no_order
from unpermute.pmsdr import PMSDR

__all__ = ["PerSubspace"]


class PerSubspace(MetaEstimatorMixin, MatrixRecovery, BaseEstimator):
    r"""Tell the subspaces apart first, then recover the vectors of each by some method.

    With the labels :math:`\ell_i` of stages 1 to 3 of PMSDR (detect, cluster, classify) and the
    cost :math:`f` of the method,

    .. math:: \min \; \sum_k f\big( \{ x_i : \ell_i = k \} \big) ,

    the "-S" variants of [1]_: RPCA-S, RKPCA-S, SSC-S, MRUC-S.

    Choose it when vectors come from several subspaces and the method knows only one: what had high
    rank together may have low rank apart. A wrong label puts a stranger among the vectors of a
    subspace, which robust methods tolerate.

    Parameters
    ----------
    method : object, default=None
        An estimator with ``fit_transform``; None: :class:`RobustPCA`.
    stages : object, default=None
        An estimator whose ``fit_predict(X)`` returns the subspace of every vector; None:
        :class:`~unpermute.PMSDR` with its defaults. Not used if labels are given.
    random_state : int, RandomState instance or None, default=None
        Seeds the default `stages`; `method` keeps its own.

    Attributes
    ----------
    recovered_ : ndarray of shape (n_vectors, n_features)
        The recovered vectors.
    labels_ : ndarray of shape (n_vectors,)
        Subspace of every vector.
    estimators_ : list
        One fitted method per subspace, None where there were fewer than two vectors, or only
        zeros: those stay as they are.
    permutations_ : ndarray of shape (n_vectors, n_features)
        ``np.take_along_axis(X, permutations_, axis=1)`` is every vector put back in order, if
        `method` finds permutations; if not, nothing is moved.
    objective_ : list of ndarray
        The costs per iteration that each method reports.

    References
    ----------
    .. [1] Xie & Fan, "Multi-subspace matrix recovery from permuted data", AAAI 2025.

    Examples
    --------
    >>> from unpermute import PMSDR
    >>> from unpermute.baselines import PerSubspace, RobustPCA
    >>> from unpermute.datasets import make_permuted_subspaces
    >>> from unpermute.metrics import recovery_error
    >>> data = make_permuted_subspaces(5, 40, 30, 3, outlier_ratio=0.3, shuffled_ratio=0.2,
    ...                                random_state=0)
    >>> together = RobustPCA().fit_transform(data.X)
    >>> apart = PerSubspace(RobustPCA(), PMSDR(5, 3, random_state=0)).fit_transform(data.X)
    >>> bool(recovery_error(data.X_clean, apart) < 0.5 * recovery_error(data.X_clean, together))
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "method": [None, HasMethods("fit_transform")],
        "stages": [None, HasMethods("fit_predict")],
        "random_state": ["random_state"],
    }

    def __init__(self, method=None, stages=None, *, random_state=None):
        self.method = method
        self.stages = stages
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y=None, *, labels=None, groups=None):
        """Recover `X`; the result is in ``recovered_``.

        Parameters
        ----------
        X : array-like of shape (n_vectors, n_features)
            The observed vectors, one per row.
        y : None
            Ignored.
        labels : array-like of shape (n_vectors,), default=None
            Subspace of every vector, if known.
        groups : array-like of shape (n_vectors,), default=None
            Passed on to methods that take it, as :class:`MRUC` does. The vectors of its anchor are
            then known to be in order, and stage 1 is skipped.

        Returns
        -------
        self : object
            The fitted model.
        """
        X = self._check(X)
        groups = None if groups is None else check_names("groups", groups, len(X))
        self.labels_ = self._find_labels(X, labels, groups)
        self.estimators_, self.recovered_ = [], X.copy()
        self.permutations_ = np.tile(np.arange(X.shape[1]), (len(X), 1))
        names = np.unique(self.labels_)
        for k, name in enumerate(names):
            rows = np.flatnonzero(self.labels_ == name)
            model, part = self._recover_part(X[rows], None if groups is None else groups[rows])
            self.estimators_.append(model)
            if model is not None:
                self.recovered_[rows] = part
                self.permutations_[rows] = getattr(model, "permutations_", self.permutations_[rows])
            report("subspaces", k + 1, len(names))
        self.objective_ = [getattr(model, "objective_", np.zeros(0)) for model in self.estimators_]
        return self

    def fit_transform(self, X, y=None, *, labels=None, groups=None):
        """Recover `X` and return it.

        Parameters
        ----------
        X : array-like of shape (n_vectors, n_features)
            The observed vectors, one per row.
        y : None
            Ignored.
        labels : array-like of shape (n_vectors,), default=None
            Subspace of every vector, if known.
        groups : array-like of shape (n_vectors,), default=None
            Passed on to methods that take it, as :class:`MRUC` does. The vectors of its anchor are
            then known to be in order, and stage 1 is skipped.

        Returns
        -------
        X_recovered : ndarray of shape (n_vectors, n_features)
            The recovered vectors.
        """
        return self.fit(X, y, labels=labels, groups=groups).recovered_

    def _find_labels(self, X, labels, groups):
        if labels is not None:
            return check_names("labels", labels, len(X))
        stages = clone(PMSDR() if self.stages is None else self.stages)
        known = stages.get_params(deep=False) if hasattr(stages, "get_params") else {}
        if self.stages is None:
            stages.set_params(random_state=self.random_state)
        if groups is not None and {"detector", "refine"} <= set(known):
            # Vectors that share a permutation represent each other as well as clean ones do, and
            # no detector can tell; but which vectors are in order is known.
            anchor = getattr(self.method, "anchor", None)
            anchor = np.unique(groups)[0] if anchor is None else anchor
            mask = (groups != anchor)[~has_no_order(X)]  # PMSDR shows the detector only these
            stages.set_params(detector=_KnownOutliers(mask), refine=False)
        return check_names("labels", stages.fit_predict(X), len(X))

    def _recover_part(self, X, groups):
        """Fit the method to the vectors of one subspace, unless there is nothing to fit."""
        if len(X) < 2 or not np.any(np.nan_to_num(X)):
            return None, X
        model = clone(RobustPCA() if self.method is None else self.method)
        passed = groups is not None and has_fit_parameter(model, "groups")
        return model, model.fit_transform(X, **({"groups": groups} if passed else {}))


class _KnownOutliers(BaseEstimator):
    """Stage 1 when its answer is known."""

    def __init__(self, mask):
        self.mask = mask

    def fit_predict(self, X, y=None):
        return np.where(self.mask, -1, 1)
