"""The estimator: parameters, stages in order, fitted attributes."""

import warnings
from dataclasses import fields, replace
from typing import ClassVar

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClusterMixin,
    OneToOneFeatureMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from unpermute._validation import (
    HasMethods,
    Integral,
    Interval,
    Real,
    StrOptions,
    check_n_subspaces,
    check_rank,
    fit_context,
    resolve_contamination,
    validate_vectors,
)
from unpermute.classify import elimination_distances
from unpermute.numerics.parallel import map_blocks, one_blas_thread
from unpermute.numerics.permutations import has_no_order
from unpermute.numerics.subspaces import BASIS_METHODS
from unpermute.numerics.units import in_unit, restored, unit_of
from unpermute.pmsdr._classes import find_classes
from unpermute.pmsdr._clean_model import FAR_AWAY, learn_model
from unpermute.pmsdr._distances import distances_as_they_stand, fill_missing
from unpermute.pmsdr._exemplars import exemplar_count, learn_from_exemplars
from unpermute.pmsdr._learn import STAGES, Learner, log
from unpermute.pmsdr._put_back import Repaired, put_back
from unpermute.pmsdr._stages import CLUSTERERS, Given, own_stage
from unpermute.pmsdr._trial_report import TrialReport
from unpermute.recover import RECOVERERS

__all__ = ["PMSDR"]

# Vectors that are judged at once: intermediate results then stay in the cache.
_BLOCK = 4096
# Fewer vectors are too few to hold some of them out.
_FEW_VECTORS = 60


class PMSDR(OneToOneFeatureMixin, ClusterMixin, TransformerMixin, BaseEstimator):
    r"""Recover vectors of a union of subspaces whose entries were permuted.

    Clean vectors lie near one of L subspaces; of the others ("outliers") part of the entries was
    permuted, each with its own permutation.

    By default a model of the clean vectors, a mixture of low-rank Gaussians fitted to the matrix
    itself, judges every vector: it is permuted if moving its values makes it much more likely. What
    a repair is worth is found out by trials: clean vectors, which did not shape the part of the
    model that judges them, are shuffled as the permuted ones seem to be and repaired. A vector is
    changed only if such repairs end closer to the truth; if they do not, nothing is changed, and
    `fit` warns. The same vector may be judged differently by `fit_transform`, where the model is
    held back from it, and by `transform`, where it is a new one.

    Given `n_subspaces` or `rank`, or a stage by name, the same model finds and repairs the damaged
    vectors. The clean ones are then clustered into so many groups, a basis of that rank is fitted
    to each, and a repaired vector belongs to the nearest.

    With ``refine=False``, with a recoverer other than "search", with fewer than 60 vectors, or with
    more than `max_exemplars`, four stages follow each other instead, as in the paper: **detect**
    which vectors are permuted, **cluster** the clean ones and fit a basis to each cluster,
    **classify** every permuted vector to one of the subspaces, **recover** it there.

    Choose it when the permuted vectors are many, or their permutations differ, and the clean ones
    outnumber the dimension of every subspace.

    Parameters
    ----------
    n_subspaces : int, default=None
        Number of subspaces; None: as many components as repairs gain from.
    rank : int or sequence of int, default=None
        Dimension of the subspaces: one for all, or a list that is matched to the clusters by the
        residual it leaves; None: estimated.
    contamination : "auto", float in [0, 1) or int, default="auto"
        Share (float) or number (int) of permuted vectors in the training matrix; "auto": estimated.
    affine : bool, default=False
        Whether the bases have an offset. (SSC's own affine constraint is
        ``clusterer=SparseSubspaceClustering(affine=True)``.)
    detector : {"model", "self-representation"} or object, default="model"
        Stage 1; an object has ``fit_predict(X)`` that returns -1 for permuted vectors. For the
        model it is a first guess. "model", here and below: the model of clean vectors, or, where
        the four stages follow each other, "self-representation", "elastic-net", "robust" and
        "recovery".
    clusterer : {"model", "elastic-net", "ssc", "omp"} or object, default="model"
        Stage 2; an object has ``fit_predict(X)`` that returns labels. For the model its clusters
        are candidates for components, taken if repairs gain from them; `labels_` follow them if
        `n_subspaces` is given. Of vectors with more than 400 entries stages 1 and 2 see a part.
    basis : {"model", "robust", "irls", "dpcp", "svd"}, default="model"
        How a basis is fitted to a cluster; "robust" is "irls"; "model": to the clean and the
        recovered vectors, by SVD.
    classifier : {"model", "recovery", "elimination"} or object, default="model"
        Stage 3; "model": the subspace nearest to the repaired vector; "recovery": recover in every
        plausible subspace, the best certified wins; an object has ``fit(X, y)`` and ``predict(Y)``.
    recoverer : str or callable, default="search"
        Stage 4; a method of :func:`unpermute.recover.recover_vectors`, or a callable with its
        signature.
    refine : bool, default=True
        Whether to judge vectors by the model of clean vectors. If not, the four stages follow each
        other once, and the detector's mask decides for the training matrix, as in the paper.
    output : {"values", "subspace", "blend"}, default="values"
        What permuted vectors become: the observed values moved; the fitted vector; or, entry by
        entry, observed and fitted value weighed by the probability of being in place. Clean
        vectors are returned unchanged. Uncertain ones stay unchanged in "values" and "blend", and
        become the best estimate in "subspace" (in the subspace of their class, if `n_subspaces` or
        `rank` is given); with the four stages also in "blend".
    min_confidence : float in [0, 1], default=0.95
        Vectors recovered with less confidence are uncertain.
    n_jobs : int, default=None
        Threads; the result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seeds folds, trials, clustering and starts.
    verbose : int, default=0
        Above 0, the stages are logged at level INFO instead of DEBUG (logger "unpermute").
    max_exemplars : "auto", int or None, default="auto"
        Vectors that take part in stages 1 and 2, whose time grows with the square of their number.
        If there are more, that many are drawn at random, subspaces that they miss are looked for
        in what they do not explain, and all vectors near a subspace fit its basis; subspaces that
        the noise cannot tell apart are merged even if `n_subspaces` is given. "auto": 3000 if
        there are more than 5000; None: always all. Needs `refine`.

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
    confidence_ : ndarray of shape (n_vectors,)
        Probability that the proposed repair, in the chosen output, is closer to the truth than the
        observed vector, whether or not it is applied; for clean vectors 1 − `damage_probability_`.
        With "subspace" and a given rank: of the fit before it is projected on its subspace.
        With the four stages: that the relative error of the fit is below 5%, and 1 for clean ones.
    damage_probability_ : ndarray of shape (n_vectors,)
        Probability that the vector is permuted.
    expected_error_ : ndarray of shape (n_vectors,)
        Expected relative error of the proposed repair; 0 for clean vectors, NaN with the four
        stages.
    certified_ : ndarray of shape (n_vectors,)
        True where the search has proven that no other order fits as well.
    trials_ : TrialReport
        How the confidence was measured; ``print(model.trials_)``. None with the four stages.
    noise_model_ : list of dict
        Rank, number of clean vectors, noise and its range over the entries of every component of
        the model; empty with the four stages.
    entry_confidence_ : ndarray of shape (n_vectors, n_features)
        Probability that the value in a place is right, up to the noise.
    status_ : ndarray of shape (n_vectors,)
        "clean", "recovered" or "uncertain".
    n_subspaces_ : int
        Number of subspaces.
    ranks_ : ndarray of shape (n_subspaces,)
        Their dimensions.
    noise_scale_ : float
        Standard deviation of the noise of an entry. Of values beyond 1e60 or below 1e-60 this,
        `offsets_` and `noise_model_` are in units of the largest magnitude.
    offset_ : float
        New vectors whose score is below it count as permuted.
    n_exemplars_ : int
        Number of vectors that took part in stages 1 and 2.
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
        "detector": [StrOptions({"model", "self-representation"}), HasMethods("fit_predict")],
        "clusterer": [StrOptions({"model", *CLUSTERERS}), HasMethods("fit_predict")],
        "basis": [StrOptions({"model", *BASIS_METHODS})],
        "classifier": [
            StrOptions({"model", "recovery", "elimination"}),
            HasMethods(["fit", "predict"]),
        ],
        "recoverer": [StrOptions(set(RECOVERERS)), callable],
        "refine": ["boolean"],
        "output": [StrOptions({"values", "subspace", "blend"})],
        "min_confidence": [Interval(Real, 0, 1, closed="both")],
        "n_jobs": [None, Integral],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "max_exemplars": [
            None,
            StrOptions({"auto"}),
            Interval(Integral, 2, None, closed="left"),
        ],
    }

    def __init__(
        self,
        n_subspaces=None,
        rank=None,
        *,
        contamination="auto",
        affine=False,
        detector="model",
        clusterer="model",
        basis="model",
        classifier="model",
        recoverer="search",
        refine=True,
        output="values",
        min_confidence=0.95,
        n_jobs=None,
        random_state=None,
        verbose=0,
        max_exemplars="auto",
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
        self.max_exemplars = max_exemplars

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

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
        X = validate_vectors(self, X, min_vectors=2, min_features=2, allow_nan=True)
        if np.isnan(X).all():
            raise ValueError("X holds no value: all of its entries are missing (NaN).")
        self._forget()
        self._check_sizes(*X.shape)
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self._unit = unit_of(X)
        scaled = in_unit(X, self._unit)
        return restored(X, scaled, self._fit_transform(scaled), self._unit)

    def _fit_transform(self, X):
        with one_blas_thread():
            if self._uses_model(X):
                return self._fit_model(X)
            learned = self._learn(X)
            mask, labels = nearest = self._nearest(X)
            if learned.is_final:
                mask, labels = learned.mask & ~has_no_order(X), learned.labels
                # Vectors that are neither permuted nor clustered have no order.
                labels = np.where((labels < 0) & ~mask, nearest[1], labels)
            return self._repair(X, mask, labels)

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
        check_is_fitted(self, "permutations_")
        X = validate_vectors(self, X, reset=False, allow_nan=True)
        with one_blas_thread():
            return self._examine(X).X

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
        check_is_fitted(self, "permutations_")
        X = validate_vectors(self, X, reset=False, allow_nan=True)
        with one_blas_thread():
            return self._examine(X).labels

    def score_samples(self, X):
        """Return how well every vector, as it stands, fits its nearest subspace.

        Parameters
        ----------
        X : array-like of shape (n_vectors, n_features)
            Vectors, one per row.

        Returns
        -------
        scores : ndarray of shape (n_vectors,)
            Larger is more normal: minus the logarithm of what a repair gains; with the four
            stages, minus the root mean square residual of an entry, or, for few vectors with noise
            of their own, minus the log-likelihood ratio that entries moved.
        """
        check_is_fitted(self, "permutations_")
        X = validate_vectors(self, X, reset=False, allow_nan=True)
        with one_blas_thread():
            X = in_unit(X, self._unit)
            return self._judge(X)[0] if self._staged else self._score_by_model(X)

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

    def _forget(self):
        """Drop what an earlier fit left, so that a failed one leaves no mixture."""
        for name in [name for name in vars(self) if name.endswith("_") and name[0] != "_"]:
            if name not in ("n_features_in_", "feature_names_in_"):
                delattr(self, name)
        for name in ("_model", "_classes", "_proposals", "_peers"):
            self.__dict__.pop(name, None)

    def _uses_model(self, X):
        """Whether the model of clean vectors does it all, or the four stages follow each other."""
        many = exemplar_count(self.max_exemplars, len(X)) is not None
        few = np.count_nonzero(~has_no_order(X)) < _FEW_VECTORS
        plain = self.refine and isinstance(self.recoverer, str) and self.recoverer == "search"
        return plain and not (many or few)

    def _given(self):
        names = [field.name for field in fields(Given) if field.name != "seed"]
        given = Given(**{name: getattr(self, name) for name in names}, seed=self._seed)
        if self.n_subspaces is None and np.ndim(self.rank) > 0:
            given = replace(given, n_subspaces=len(self.rank))
        return given

    def _stage(self, name):
        """The stage as named; "model": the one that the four stages are best at."""
        stage = getattr(self, name)
        return STAGES[name] if isinstance(stage, str) and stage == "model" else stage

    def _fit_model(self, X):
        """Learn the model of clean vectors, and repair the training vectors by it."""
        movable = np.flatnonzero(~has_no_order(X))
        movable = movable[_is_near(X[movable])]
        given, count = self._given(), None
        if self.contamination != "auto":
            count = resolve_contamination(self.contamination, len(X))
            count = min(count, len(movable) - 1)
            given = replace(given, contamination=count)
        model, judged = learn_model(X[movable], given, min_confidence=self.min_confidence)
        self._staged, self._model, self._classes = False, model, None
        self.n_exemplars_ = len(X)
        repaired = Repaired.untouched(X, np.zeros(len(X), dtype=np.int64))
        if model is None:
            self._keep_nothing(X)
        else:
            self._keep_model(model)
            part, proposals = model.enter(
                X[movable], judged, self.output, self.min_confidence, count=count
            )
            self._proposals = proposals | {"rows": movable[proposals["rows"]]}
            if given.asks_for_classes:
                self._classify_training(X[movable], judged, part, given)
            repaired.enter(movable, part)
            self._label_others(X, movable, repaired)
        self._keep(repaired)
        self._warn_if_abstained()
        return repaired.X

    def _label_others(self, X, movable, repaired):
        """Vectors that are not judged belong to the nearest subspace."""
        others = np.setdiff1d(np.arange(len(X)), movable)
        if len(others) > 0:
            distances = distances_as_they_stand(X[others], self.bases_, self.offsets_)
            repaired.labels[others] = distances.argmin(axis=1)

    def _classify_training(self, X, judged, part, given):
        """Find the subspaces that were asked for, and the class of every vector."""
        flags = part.status != "clean"
        estimates = self._model.estimates(X, judged, flags)
        self._classes, labels = find_classes(
            X, estimates, flags, part.status == "recovered", part.labels, given,
            seed=self._seed, n_jobs=self.n_jobs,
        )  # fmt: skip
        self.bases_, self.offsets_ = self._classes.bases, self._classes.offsets
        self.n_subspaces_ = len(self.bases_)
        self.ranks_ = np.array([basis.shape[1] for basis in self.bases_])
        if self._classes.classifier is not None:
            self.classifier_ = self._classes.classifier
        self._enter_classes(part, estimates, labels, flags)

    def _enter_classes(self, part, estimates, labels, flags):
        part.labels[:] = labels
        if self._classes is not None and self.output == "subspace" and flags.any():
            part.X[flags] = self._classes.project(estimates[flags], labels[flags])

    def _keep_model(self, model):
        self.bases_, self.offsets_ = model.bases, model.offsets
        self.trials_ = model.report or TrialReport()
        self.noise_model_ = model.noise_report()
        self.noise_scale_ = float(np.median([part["noise"] for part in self.noise_model_]))
        self.offset_ = -float(np.log1p(model.cut))
        self.n_subspaces_ = len(self.bases_)
        self.ranks_ = np.array([basis.shape[1] for basis in self.bases_])

    def _keep_nothing(self, X):
        """No model: one subspace that holds everything, so that nothing is ever judged."""
        n_features = X.shape[1]
        self.bases_, self.offsets_ = [np.eye(n_features)], [np.zeros(n_features)]
        self.n_subspaces_, self.ranks_ = 1, np.array([n_features])
        self.noise_scale_, self.offset_ = 0.0, -np.inf
        self.noise_model_ = []
        reason = (
            "No majority of the vectors fits together: nothing can be said about which are"
            " shuffled, and nothing was changed."
        )
        self.trials_ = TrialReport(abstained=True, reason=reason)

    def _warn_if_abstained(self):
        """Say so if vectors look shuffled but none is repaired."""
        report, flagged = self.trials_, int(self.outlier_mask_.sum())
        closer = report.closer.get(self.output)
        suspicious = max(report.n_suspicious, flagged)
        if closer is None and suspicious > 0:
            report.reason = (
                f"{suspicious} vectors may be shuffled, but none is repaired: of"
                f" {report.n_trials} clean vectors that were shuffled, only {report.found:.0%} were"
                " found, too few to tell what repairs are worth."
            )
        elif flagged and not np.any(self.status_ == "recovered"):
            report.reason = (
                f"{flagged} vectors look shuffled, but none is repaired with a confidence of"
                f" {self.min_confidence:g}: of {report.n_trials} clean vectors that were shuffled"
                f" and repaired, {closer:.0%} ended closer to the truth."
            )
        report.abstained = bool(report.reason)
        if report.abstained:
            warnings.warn(f"{report.reason} See trials_.", UserWarning, stacklevel=6)

    def _examine(self, X):
        """Judge and repair new vectors; returns a :class:`Repaired`."""
        scaled = in_unit(X, self._unit)
        repaired = self._examine_scaled(scaled)
        return replace(repaired, X=restored(X, scaled, repaired.X, self._unit))

    def _examine_scaled(self, X):
        if self._staged:
            mask, labels = self._nearest(X)
            return self._put_back(X, mask, labels).decide(mask, self.min_confidence)
        repaired = Repaired.untouched(X, np.zeros(len(X), dtype=np.int64))
        model = self._model
        if model is None:
            return repaired
        movable = np.flatnonzero(~has_no_order(X) & model.is_near(X))
        for start in range(0, len(movable), _BLOCK):  # bounds the memory
            rows = movable[start : start + _BLOCK]
            judged = model.propose(model.in_units(X[rows]), n_jobs=self.n_jobs)
            part, _ = model.enter(X[rows], judged, self.output, self.min_confidence, seen=False)
            if self._classes is not None:
                flags = part.status != "clean"
                estimates = model.estimates(X[rows], judged, flags)
                labels = self._classes.label(X[rows], estimates, flags)
                self._enter_classes(part, estimates, labels, flags)
            repaired.enter(rows, part)
        self._label_others(X, movable, repaired)
        return repaired

    def _score_by_model(self, X):
        model = self._model
        if model is None:
            return np.zeros(len(X))
        scores = np.zeros(len(X))
        movable = np.flatnonzero(~has_no_order(X) & model.is_near(X))
        for start in range(0, len(movable), _BLOCK):
            rows = movable[start : start + _BLOCK]
            Y = model.in_units(X[rows])
            judged = model.propose(Y, n_jobs=self.n_jobs)
            own = -np.log1p(np.maximum(judged.gain, 0.0))
            damaged = model.is_damaged(judged, Y)
            scores[rows] = np.where(damaged, own, np.maximum(own, self.offset_))
        return scores

    def _learn(self, X):
        """Find the subspaces and keep them."""
        given = replace(self._given(), **{name: self._stage(name) for name in STAGES})
        self._staged, self._model, self.trials_, self.noise_model_ = True, None, None, []
        size = exemplar_count(self.max_exemplars, len(X)) if self.refine else None
        rows = slice(None)
        if size is None:
            learned = Learner(X, given).learn()
        else:
            learned, rows = learn_from_exemplars(X, given, size)
        self.bases_, self.offsets_ = learned.bases, learned.offsets
        self.n_subspaces_ = len(self.bases_)
        self.ranks_ = np.array([basis.shape[1] for basis in self.bases_])
        self.noise_scale_, self.offset_ = learned.noise, learned.offset
        self.n_exemplars_ = len(X) if size is None else size
        self._peers = learned.peers
        if learned.classifier is not None:
            self.classifier_ = learned.classifier
        if self.refine:
            self._adjust(X, rows)
        return learned

    def _adjust(self, X, rows):
        """Meet the given number of permuted vectors, and fit a classifier of the user's own."""
        if self.contamination != "auto" and self._peers is None:
            scores, _, movable = self._judge(X)
            if movable.any():
                scores = np.sort(-scores[movable])
                first = len(scores) - resolve_contamination(self.contamination, len(scores))
                self.offset_ = -float(scores[first - 1 : first + 1].mean())
        if not isinstance(self.classifier, str):
            mask, nearest = self._nearest(X[rows])
            filled = fill_missing(X[rows], self.bases_, self.offsets_)
            classifier = own_stage(self.classifier, self._seed)
            self.classifier_ = classifier.fit(filled[~mask], nearest[~mask])

    def _judge(self, X):
        """How normal every vector is, its nearest subspace, and whether its entries differ."""
        scores, nearest = np.empty(len(X)), np.empty(len(X), dtype=np.int64)
        movable = np.empty(len(X), dtype=bool)

        def judge(start, stop):
            block, part = X[start:stop], slice(start, stop)
            distances = distances_as_they_stand(block, self.bases_, self.offsets_)
            scores[part], nearest[part] = -distances.min(axis=1), distances.argmin(axis=1)
            movable[part] = ~has_no_order(block)

        map_blocks(judge, len(X), block=_BLOCK, stage="judge", n_jobs=self.n_jobs)
        if self._peers is not None:
            scores = -self._peers.damage(X, n_jobs=self.n_jobs)
        return scores, nearest, movable

    def _nearest(self, X):
        """Whether a vector is permuted, and the nearest subspace (−1: still to be classified)."""
        scores, nearest, movable = self._judge(X)
        mask = (scores < self.offset_) & movable
        return mask, np.where(mask, -1, nearest)

    def _repair(self, X, mask, labels):
        """Put the training vectors back and keep what is known about them."""
        repaired = self._put_back(X, mask, labels).decide(mask, self.min_confidence)
        repaired.expected_error[mask] = np.nan
        self._keep(repaired)
        return repaired.X

    def _keep(self, repaired):
        """Keep what is known of the training vectors."""
        self.status_, self.labels_ = repaired.status, repaired.labels
        self.outlier_mask_ = repaired.status != "clean"
        self.permutations_, self.certified_ = repaired.permutations, repaired.certified
        self.confidence_, self.entry_confidence_ = repaired.confidence, repaired.entry_confidence
        self.damage_probability_ = repaired.damage_probability
        self.expected_error_ = repaired.expected_error
        self._n_unexplained = int(np.sum(repaired.odd & (repaired.status != "recovered")))
        uncertain = np.sum(self.status_ == "uncertain")
        log(self, "recover: %d vectors, %d of them uncertain", self.outlier_mask_.sum(), uncertain)

    def _put_back(self, X, mask, labels):
        """Stages 3 and 4 for the vectors of `mask`."""
        if self._peers is not None:
            return self._peers.put_back(
                Repaired.untouched(X, labels), mask, self.bases_, self.offsets_,
                output=self.output, min_confidence=self.min_confidence, n_jobs=self.n_jobs,
            )  # fmt: skip
        return put_back(
            X,
            mask,
            labels,
            self.bases_,
            self.offsets_,
            classify=self._classify,
            recoverer=self.recoverer,
            output=self.output,
            min_confidence=self.min_confidence,
            noise_scale=self.noise_scale_,
            seed=self._seed,
            n_jobs=self.n_jobs,
        )

    def _classify(self, Y):
        """Stage 3: subspace of every permuted vector, or None where the recovery shall tell."""
        if self._stage("classifier") == "recovery":
            return None
        if self.classifier == "elimination":
            distances = elimination_distances(Y, self.bases_, self.offsets_, n_jobs=self.n_jobs)
            return distances.argmin(axis=1)
        return self.classifier_.predict(Y)


def _is_near(X):
    """Vectors that are not far larger than most: float32 could not hold both."""
    sizes = np.nanmax(np.abs(X - np.nanmedian(X)), axis=1)
    return sizes <= FAR_AWAY * max(float(np.median(sizes)), 1e-300)
