"""PMSDR: the four stages in order."""

import logging
from typing import ClassVar

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClusterMixin,
    OneToOneFeatureMixin,
    TransformerMixin,
    clone,
)
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from unpermute._validation import (
    HasMethods,
    Integral,
    Interval,
    Options,
    Real,
    StrOptions,
    check_n_subspaces,
    check_rank,
    fit_context,
    resolve_contamination,
    validate_vectors,
)
from unpermute.classify._elimination import elimination_distances
from unpermute.cluster import (
    ElasticNetSubspaceClustering,
    OMPSubspaceClustering,
    SparseSubspaceClustering,
)
from unpermute.detect import SelfRepresentationDetector
from unpermute.numerics.parallel import one_blas_thread
from unpermute.numerics.subspaces import BASIS_METHODS, fit_subspaces, residual_norms
from unpermute.recover import recover_vectors
from unpermute.recover._recover import METHODS as RECOVERERS

__all__ = ["PMSDR"]

logger = logging.getLogger("unpermute")

CLUSTERERS = {
    "ssc": SparseSubspaceClustering,
    "elastic-net": ElasticNetSubspaceClustering,
    "omp": OMPSubspaceClustering,
}
# How far above the typical residual of a clean vector a new vector may lie, in robust standard
# deviations of those residuals.
_CLEAN_DEVIATIONS = 6.0


class PMSDR(OneToOneFeatureMixin, ClusterMixin, TransformerMixin, BaseEstimator):
    r"""Recover vectors of a union of subspaces whose entries were permuted.

    Clean vectors lie near one of L subspaces; of the others ("outliers") part of the entries was
    permuted, each with its own permutation. Four stages: **detect** which vectors are permuted,
    **cluster** the clean ones and fit a basis to each cluster, **classify** every permuted vector
    to one of the subspaces, **recover** it there.

    Choose it when the permuted vectors are many, or their permutations differ, and the clean ones
    outnumber the dimension of every subspace.

    Parameters
    ----------
    n_subspaces : int, default=None
        Number of subspaces; None: by the largest gap of the graph's spectrum.
    rank : int or sequence of int, default=None
        Dimension of the subspaces, one for all or one each; None: by the largest gap of the
        singular values of each cluster.
    contamination : "auto", float in [0, 1) or int, default="auto"
        Share (float) or number (int) of permuted vectors; "auto": estimated by the detector.
    affine : bool, default=False
        Whether the bases have an offset. (SSC's own affine constraint is
        ``clusterer=SparseSubspaceClustering(affine=True)``.)
    detector : {"self-representation"} or object, default="self-representation"
        Stage 1; an object has ``fit_predict(X)`` that returns -1 for permuted vectors.
    clusterer : {"ssc", "elastic-net", "omp"} or object, default="ssc"
        Stage 2; an object has ``fit_predict(X)`` that returns labels.
    basis : {"svd", "irls", "dpcp", "robust"}, default="svd"
        How a basis is fitted to a cluster; "robust" is "irls".
    classifier : {"elimination"} or object, default="elimination"
        Stage 3; an object has ``fit(X, y)`` and ``predict(Y)``.
    recoverer : {"lsrf"} or callable, default="lsrf"
        Stage 4; a callable has the signature of :func:`unpermute.recover.recover_vectors`.
    refine : False, default=False
        Only the paper's single pass over the stages is available.
    output : {"subspace", "values"}, default="subspace"
        What permuted vectors become: the fitted vector, or the observed values moved. Clean
        vectors are returned unchanged.
    min_confidence : float in [0, 1], default=0.95
        Vectors recovered with less confidence stay as they are. The recoverers available now give
        no confidence; it has no effect on them.
    n_jobs : int, default=None
        Threads; the result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seeds the k-means step of the clustering.
    verbose : int, default=0
        Above 0, the stages are logged at level INFO instead of DEBUG (logger "unpermute").

    Attributes
    ----------
    outlier_mask_ : ndarray of shape (n_vectors,)
        True where the vector is permuted.
    labels_ : ndarray of shape (n_vectors,)
        Subspace of every vector.
    bases_ : list of ndarray of shape (n_features, rank)
        Orthonormal bases.
    offsets_ : list of ndarray of shape (n_features,)
        Zeros unless `affine`.
    permutations_ : ndarray of shape (n_vectors, n_features)
        ``np.take_along_axis(X, permutations_, axis=1)`` is every vector put back in order.
    status_ : ndarray of shape (n_vectors,)
        "clean" or "recovered".
    n_subspaces_ : int
        Number of subspaces.
    ranks_ : ndarray of shape (n_subspaces,)
        Their dimensions.
    noise_scale_ : float
        Standard deviation of the noise of an entry.
    offset_ : float
        New vectors whose score is below it count as permuted.
    n_features_in_ : int
        Number of entries of a vector.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, if `X` had any.

    References
    ----------
    Xie & Fan, "Multi-subspace matrix recovery from permuted data", AAAI 2025.

    Examples
    --------
    >>> from unpermute import PMSDR
    >>> from unpermute.datasets import make_permuted_subspaces
    >>> from unpermute.metrics import recovery_error
    >>> data = make_permuted_subspaces(2, 60, 40, 3, random_state=0)
    >>> X_fixed = PMSDR(2, 3, random_state=0).fit_transform(data.X)
    >>> round(recovery_error(data.X_clean, data.X), 2)
    0.68
    >>> round(recovery_error(data.X_clean, X_fixed), 2)
    0.01
    """

    _parameter_constraints: ClassVar[dict] = {
        "n_subspaces": [None, Interval(Integral, 1, None, closed="left")],
        "rank": [None, Interval(Integral, 1, None, closed="left"), "array-like"],
        "contamination": [
            StrOptions({"auto"}),
            Interval(Real, 0, 1, closed="left"),
            Interval(Integral, 0, None, closed="left"),
        ],
        "affine": ["boolean"],
        "detector": [StrOptions({"self-representation"}), HasMethods("fit_predict")],
        "clusterer": [StrOptions(set(CLUSTERERS)), HasMethods("fit_predict")],
        "basis": [StrOptions(set(BASIS_METHODS))],
        "classifier": [StrOptions({"elimination"}), HasMethods(["fit", "predict"])],
        "recoverer": [StrOptions(set(RECOVERERS)), callable],
        "refine": [Options(bool, {False})],
        "output": [StrOptions({"subspace", "values"})],
        "min_confidence": [Interval(Real, 0, 1, closed="both")],
        "n_jobs": [None, Integral],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_subspaces=None,
        rank=None,
        *,
        contamination="auto",
        affine=False,
        detector="self-representation",
        clusterer="ssc",
        basis="svd",
        classifier="elimination",
        recoverer="lsrf",
        refine=False,
        output="subspace",
        min_confidence=0.95,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.n_subspaces = n_subspaces
        self.rank = rank
        self.contamination = contamination
        self.affine = affine
        self.detector = detector
        self.clusterer = clusterer
        self.basis = basis
        self.classifier = classifier
        self.recoverer = recoverer
        self.refine = refine
        self.output = output
        self.min_confidence = min_confidence
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X, y=None):
        """Find the permuted vectors and the subspaces of `X`.

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
        self.fit_transform(X)
        return self

    @fit_context(prefer_skip_nested_validation=False)
    def fit_transform(self, X, y=None):
        """Find the permuted vectors of `X` and return the matrix with them recovered.

        Parameters
        ----------
        X : array-like of shape (n_vectors, n_features)
            The observed vectors, one per row.
        y : None
            Ignored.

        Returns
        -------
        X_fixed : ndarray of shape (n_vectors, n_features)
            Clean vectors as they were, permuted ones as `output` says.
        """
        X = validate_vectors(self, X, min_vectors=2, min_features=2)
        self._check_sizes(*X.shape)
        with one_blas_thread():
            mask = self._detect(X)
            labels = np.empty(len(X), dtype=np.int64)
            labels[~mask] = self._fit_subspaces(X[~mask])
            labels[mask] = self._classify(X[mask])
            X_fixed, self.permutations_ = self._recover(X, mask, labels)
        self.outlier_mask_, self.labels_ = mask, labels
        self.status_ = np.where(mask, "recovered", "clean")
        return X_fixed

    def transform(self, X):
        """Return new vectors with the permuted ones recovered.

        Parameters
        ----------
        X : array-like of shape (n_vectors, n_features)
            Vectors, one per row.

        Returns
        -------
        X_fixed : ndarray of shape (n_vectors, n_features)
            Vectors near a subspace as they were, the others as `output` says.
        """
        check_is_fitted(self)
        X = validate_vectors(self, X, reset=False)
        mask, labels = self._judge(X)
        return self._recover(X, mask, labels)[0]

    def predict(self, X):
        """Return the subspace of every vector, permuted or not.

        Parameters
        ----------
        X : array-like of shape (n_vectors, n_features)
            Vectors, one per row.

        Returns
        -------
        labels : ndarray of shape (n_vectors,)
            Numbers of subspaces.
        """
        check_is_fitted(self)
        return self._judge(validate_vectors(self, X, reset=False))[1]

    def score_samples(self, X):
        """Return how well every vector, as it stands, fits its nearest subspace.

        Parameters
        ----------
        X : array-like of shape (n_vectors, n_features)
            Vectors, one per row.

        Returns
        -------
        scores : ndarray of shape (n_vectors,)
            Minus the root mean square residual of an entry; larger is more normal.
        """
        check_is_fitted(self)
        return -self._residuals(validate_vectors(self, X, reset=False)).min(axis=1)

    def decision_function(self, X):
        """Return the score less its threshold: negative for permuted vectors.

        Parameters
        ----------
        X : array-like of shape (n_vectors, n_features)
            Vectors, one per row.

        Returns
        -------
        scores : ndarray of shape (n_vectors,)
            ``score_samples(X) - offset_``.
        """
        return self.score_samples(X) - self.offset_

    def _check_sizes(self, n_vectors, n_features):
        check_n_subspaces(self.n_subspaces, n_vectors)
        check_rank(self.rank, n_features, self.n_subspaces)
        if self.rank is not None and np.max(self.rank) > n_vectors:
            raise ValueError(
                f"rank={self.rank!r} needs at least as many vectors, but X has {n_vectors}."
            )
        if self.contamination != "auto":
            resolve_contamination(self.contamination, n_vectors)

    def _detect(self, X):
        """Stage 1: True where a vector is permuted."""
        if isinstance(self.detector, str):
            detector = SelfRepresentationDetector(self.contamination, n_jobs=self.n_jobs)
        else:
            detector = clone(self.detector)
        mask = np.asarray(detector.fit_predict(X)) == -1
        self._log("detect: %d of %d vectors are permuted", mask.sum(), len(mask))
        return mask

    def _fit_subspaces(self, X):
        """Stage 2: cluster the clean vectors, fit the bases, measure the noise; return labels."""
        check_n_subspaces(self.n_subspaces, len(X))
        if isinstance(self.clusterer, str):
            clusterer = CLUSTERERS[self.clusterer](
                self.n_subspaces, random_state=check_random_state(self.random_state)
            )
            if "n_jobs" in clusterer.get_params():
                clusterer.set_params(n_jobs=self.n_jobs)
        else:
            clusterer = clone(self.clusterer)
        labels = np.asarray(clusterer.fit_predict(X)) if len(X) > 1 else np.zeros(1, int)
        clustered = labels >= 0
        labels[clustered] = np.unique(labels[clustered], return_inverse=True)[1]
        self.n_subspaces_ = int(labels.max()) + 1
        check_rank(self.rank, X.shape[1], self.n_subspaces_)
        self.bases_, self.offsets_ = fit_subspaces(
            X, labels, self.rank, self.n_subspaces_, method=self.basis, affine=self.affine
        )
        self.ranks_ = np.array([basis.shape[1] for basis in self.bases_])
        self._log("cluster: %d subspaces of ranks %s", self.n_subspaces_, self.ranks_)
        residuals = self._residuals(X)
        # Clusterers may leave vectors out (label -1): those belong to the nearest subspace.
        labels = np.where(clustered, labels, residuals.argmin(axis=1))
        self._measure_noise(residuals.min(axis=1), np.abs(X).max())
        if not isinstance(self.classifier, str):
            self.classifier_ = clone(self.classifier).fit(X, labels)
        return labels

    def _measure_noise(self, residuals, largest):
        """Typical residual of a clean vector, and the threshold for new ones."""
        self.noise_scale_ = float(np.median(residuals))
        deviation = 1.4826 * np.median(np.abs(residuals - self.noise_scale_))
        rounding = 1e-8 * largest
        self.offset_ = -float(self.noise_scale_ + _CLEAN_DEVIATIONS * deviation + rounding)

    def _residuals(self, X):
        """Root mean square residual of an entry, for every vector and subspace."""
        degrees_of_freedom = X.shape[1] - self.ranks_
        return residual_norms(X, self.bases_, self.offsets_) / np.sqrt(degrees_of_freedom)

    def _judge(self, X):
        """Mask and labels of vectors that were not in the training matrix."""
        residuals = self._residuals(X)
        mask = -residuals.min(axis=1) < self.offset_
        labels = residuals.argmin(axis=1)
        labels[mask] = self._classify(X[mask])
        return mask, labels

    def _classify(self, Y):
        """Stage 3: subspace of every permuted vector."""
        if len(Y) == 0:
            return np.empty(0, dtype=np.int64)
        if isinstance(self.classifier, str):
            distances = elimination_distances(Y, self.bases_, self.offsets_, n_jobs=self.n_jobs)
            return distances.argmin(axis=1)
        return self.classifier_.predict(Y)

    def _recover(self, X, mask, labels):
        """Stage 4: the matrix with its permuted vectors recovered, and the permutations."""
        X_fixed = X.copy()
        permutations = np.tile(np.arange(X.shape[1]), (len(X), 1))
        for k in range(self.n_subspaces_):
            rows = np.flatnonzero(mask & (labels == k))
            if len(rows) == 0:
                continue
            result = self._recover_in_subspace(X[rows], k)
            permutations[rows] = result.permutations
            if self.output == "subspace":
                X_fixed[rows] = result.fitted
            else:
                X_fixed[rows] = np.take_along_axis(X[rows], result.permutations, axis=1)
        self._log("recover: %d vectors", mask.sum())
        return X_fixed, permutations

    def _recover_in_subspace(self, Y, k):
        options = {
            "offset": self.offsets_[k] if self.affine else None,
            "noise_scale": self.noise_scale_,
            "n_jobs": self.n_jobs,
        }
        if isinstance(self.recoverer, str):
            return recover_vectors(Y, self.bases_[k], method=self.recoverer, **options)
        return self.recoverer(Y, self.bases_[k], **options)

    def _log(self, message, *values):
        logger.log(logging.INFO if self.verbose else logging.DEBUG, message, *values)
