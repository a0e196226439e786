"""The estimator: parameters, stages in order, fitted attributes."""

import logging
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
from unpermute.numerics.parallel import map_blocks, one_blas_thread
from unpermute.numerics.permutations import has_no_order
from unpermute.numerics.subspaces import BASIS_METHODS
from unpermute.numerics.units import in_unit, restored, unit_of
from unpermute.pmsdr._classes import Classes, find_classes
from unpermute.pmsdr._distances import distances_as_they_stand, fill_missing
from unpermute.pmsdr._four_stages import FourStages
from unpermute.pmsdr._put_back import Repaired
from unpermute.pmsdr._sample import learn, sample_size
from unpermute.pmsdr._stages import CLUSTERERS, Given
from unpermute.pmsdr._trial_report import TrialReport
from unpermute.recover import RECOVERERS

__all__ = ["PMSDR"]

logger = logging.getLogger("unpermute")

# Vectors that are judged at once: enough that calls cost little, and few enough for threads.
_BLOCK = 8192
# Vectors so many times larger than most are not judged.
_FAR_AWAY = 1e4


class PMSDR(OneToOneFeatureMixin, ClusterMixin, TransformerMixin, BaseEstimator):
    r"""Recover vectors of a union of subspaces whose entries were permuted.

    Clean vectors lie near one of L subspaces. In the others (the paper's "outliers") some entries
    were permuted, in each vector differently.

    By default every vector is judged by a model of the clean vectors, a mixture of low-rank
    Gaussians fitted to the matrix itself. A vector counts as permuted if moving its values makes it
    much more likely.
    Trials measure how good the repairs are: clean vectors are shuffled in the way the permuted ones
    seem to be, and repaired by a part of the model that they did not shape. A vector is changed
    only if repairs like it end closer to the truth; otherwise it stays as it is, and if no vector
    is changed, `fit` warns. The same vector may be judged differently by `fit_transform`, which
    uses a part of the model that the vector did not shape, and by `transform`, which uses the whole
    model.

    To repair new vectors by a reference, fit the model to clean vectors of the same kinds and
    `transform` the new ones; ``contamination=0`` says that the reference is in order. A new vector
    counts as damaged as likely as not before it is looked at. It is changed if it looks more
    damaged than every undamaged vector of the reference; the more of these there are, the surer
    the repair can be. A vector of a kind that the reference does not have may look damaged.

    Given `n_subspaces`, `rank` or a stage by name, the same model finds and repairs the damaged
    vectors. Then the clean vectors are clustered into `n_subspaces` groups, a basis of that rank is
    fitted to each group, and a repaired vector is assigned to the nearest one.

    If there are fewer than 60 vectors, and fewer vectors than entries, they are judged by
    regression on each other, unless the model repairs trials nearly without error. If there are
    more than `max_exemplars` vectors, the model is learned from a random sample, and all vectors
    are judged.

    With ``refine=False`` the four stages of the paper run instead, each once: **detect** which
    vectors are permuted, **cluster** the clean ones and fit a basis to each cluster, **classify**
    every permuted vector to one of the subspaces, **recover** it there.

    Choose this estimator when many vectors are permuted or their permutations differ, and every
    subspace has more clean vectors than dimensions.

    Parameters
    ----------
    n_subspaces : int, default=None
        Number of subspaces. None: the number of components that repairs best.
    rank : int or sequence of int, default=None
        Dimension of the subspaces: one for all, or a list, whose entries are assigned to the
        clusters with the least residual. None: estimated.
    contamination : "auto", float in [0, 1) or int, default="auto"
        Share (float) or number (int) of permuted vectors in the training matrix; "auto": estimated.
        If it is given, that many vectors are flagged: those that gain most by their repair.
    affine : bool, default=False
        Whether the bases have an offset. (SSC's own affine constraint is
        ``clusterer=SparseSubspaceClustering(affine=True)``.)
    detector : {"model", "self-representation"} or object, default="model"
        Stage 1. An object needs ``fit_predict(X)`` that returns -1 for permuted vectors. The model
        uses the answer as a first guess. "model", here and below, stands for the model of clean
        vectors; with ``refine=False`` it stands for "self-representation", "elastic-net", "robust"
        and "recovery" in the four stages.
    clusterer : {"model", "elastic-net", "ssc", "omp"} or object, default="model"
        Stage 2. An object needs ``fit_predict(X)`` that returns labels. The model takes the
        clusters as its components if that improves repairs; if `n_subspaces` is given, `labels_`
        follow the clusters. Stages 1 and 2 see at most 400 entries of a vector.
    basis : {"model", "robust", "irls", "dpcp", "svd"}, default="model"
        How a basis is fitted to a cluster. "model": by SVD of the clean and the recovered vectors;
        "robust" stands for "irls".
    classifier : {"model", "recovery", "elimination"} or object, default="model"
        Stage 3. "model": the subspace nearest to the repaired vector; "recovery": recover the
        vector in every plausible subspace and take the best certified answer. An object needs
        ``fit(X, y)`` and ``predict(Y)``.
    recoverer : str or callable, default="search"
        Stage 4: a method of :func:`unpermute.recover.recover_vectors`, or a callable with its
        signature. "search": its answer or that of the model, whichever makes the vector likelier
        (that of the model if a vector has more than 5000 entries). Any other method replaces the
        model's repairs; its confidence comes from trials as well.
    refine : bool, default=True
        Whether to judge vectors by the model of clean vectors. If False, the four stages of the
        paper run once, and the detector alone decides which training vectors are permuted.
    output : {"values", "subspace", "blend"}, default="values"
        What permuted vectors become: the observed values moved; the fitted vector; or, entry by
        entry, observed and fitted value weighed by the probability of being in place. Clean
        vectors are returned unchanged. Uncertain ones stay unchanged in "values" and "blend", and
        become the best estimate in "subspace" (in the subspace of their class, if `n_subspaces` or
        `rank` is given); with the four stages also in "blend".
    min_confidence : float in [0, 1], default=0.95
        Minimum confidence; vectors below it are uncertain.
    n_jobs : int, default=None
        Threads; the result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seeds folds, trials, clustering and starts.
    verbose : int, default=0
        Above 0, `fit` draws a progress bar in a terminal or notebook, and the stages are logged at
        level INFO instead of DEBUG (logger "unpermute").
    max_exemplars : "auto", int or None, default="auto"
        Maximum number of vectors that the model is learned from. If there are more, that many are
        drawn at random, and some of the vectors that they do not explain are added. "auto": 3000 if
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
        True where the search has proven that no other order fits as well; never for vectors of
        more than 5000 entries.
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
        Number of vectors that were drawn to learn from.
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
            repaired = self._fit_model(X) if self.refine else self._fit_stages(X)
        self._keep(repaired)
        self._warn_if_abstained()
        return repaired.X

    def transform(self, X):
        """Return new vectors with the permuted ones recovered.

        Parameters
        ----------
        X : array-like of shape (n_vectors, n_features)
            Vectors, one per row.

        Returns
        -------
        X_fixed : ndarray of shape (n_vectors, n_features)
            Clean vectors as they were, permuted ones as `output` says.
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
            stages, minus the root mean square residual of an entry.
        """
        check_is_fitted(self, "permutations_")
        X = validate_vectors(self, X, reset=False, allow_nan=True)
        with one_blas_thread():
            return self._score(in_unit(X, self._unit))

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
        needed = 0 if self.rank is None else (self.n_subspaces or 1) * np.min(self.rank)
        if needed > n_vectors:
            raise ValueError(
                f"n_subspaces={self.n_subspaces} subspaces of rank={self.rank!r} need at least"
                f" {needed} vectors, but X has {n_vectors}."
            )
        if self.contamination != "auto":
            resolve_contamination(self.contamination, n_vectors)

    def _forget(self):
        """Drop what an earlier fit left, so that a failed one leaves no mixture."""
        for name in [name for name in vars(self) if name.endswith("_") and name[0] != "_"]:
            if name not in ("n_features_in_", "feature_names_in_"):
                delattr(self, name)
        for name in ("_model", "_classes", "_proposals"):
            self.__dict__.pop(name, None)

    def _given(self):
        names = [field.name for field in fields(Given) if hasattr(self, field.name)]
        given = Given(**{name: getattr(self, name) for name in names}, seed=self._seed)
        if self.n_subspaces is None and np.ndim(self.rank) > 0:
            given = replace(given, n_subspaces=len(self.rank))
        return given

    def _fit_stages(self, X):
        """Go through the paper's four stages, each once."""
        self._model, mask, labels = FourStages.fit(X, self._given())
        self._classes, self.trials_, self.noise_model_ = None, None, []
        self.n_exemplars_ = len(X)
        self._keep_subspaces(self._model)
        self.noise_scale_, self.offset_ = self._model.noise_scale, self._model.offset
        if self._model.classifier is not None:
            self.classifier_ = self._model.classifier
        options = {"n_jobs": self.n_jobs}
        return self._model.put_back(X, mask, labels, self.output, self.min_confidence, **options)

    def _fit_model(self, X):
        """Learn the model of clean vectors, and repair the training vectors by it."""
        movable = np.flatnonzero(~has_no_order(X))
        movable = movable[_is_near(X[movable])]
        given, size = self._given(), sample_size(self.max_exemplars, len(movable))
        if self.contamination != "auto":
            count = min(resolve_contamination(self.contamination, len(X)), len(movable) - 1)
            share = count / max(len(movable), 1)
            given = replace(given, contamination=max(min(round(share * size), size - 1), 0))
        self._classes = None
        self._model, rows = learn(X[movable], given, size, min_confidence=self.min_confidence)
        self.n_exemplars_ = len(X) if size == len(movable) else size
        if self._model is None:
            return self._leave_alone(X, movable, given)
        self._keep_model(self._model)
        return self._repair_training(X, movable, movable[rows], given)

    def _repair_training(self, X, movable, learned, given):
        """Judge training vectors by folds that they did not shape, all others as new vectors."""
        model, flags = self._model, np.zeros(len(X), dtype=bool)
        known = self.contamination != "auto"
        if known:
            gain, observed = np.zeros((2, len(X)))
            others = np.setdiff1d(movable, learned)
            gain[learned], observed[learned] = model.judged.gain, model.judged.observed
            gain[others], observed[others] = self._gains(X[others])
            count = min(resolve_contamination(self.contamination, len(X)), len(movable) - 1)
            flags[movable[_likeliest(gain[movable], observed[movable], count)]] = True
        own = flags[learned] if known else None
        part, proposals = model.enter(
            X[learned], model.judged, self.output, self.min_confidence, flags=own
        )
        self._proposals = proposals | {"rows": learned[proposals["rows"]]}
        if given.asks_for_classes:
            self._classify_training(X[learned], part, given)
        model.judged = None  # large, and of no use to others
        repaired = Repaired.untouched(X, np.zeros(len(X), dtype=np.int64))
        others = np.setdiff1d(np.arange(len(X)), learned)
        if len(others) > 0:
            own = flags[others] if known else None
            repaired.enter(others, self._examine_scaled(X[others], flags=own, new=False))
        repaired.enter(learned, part)
        return repaired

    def _classify_training(self, X, part, given):
        """Find the subspaces that were asked for, and the class of every vector."""
        flags = part.status != "clean"
        estimates = self._model.estimates(X, self._model.judged, flags)
        self._classes, labels = find_classes(
            X, estimates, flags, part.status == "recovered", part.labels, given,
            seed=self._seed, n_jobs=self.n_jobs,
        )  # fmt: skip
        self._keep_subspaces(self._classes)
        if self._classes.classifier is not None:
            self.classifier_ = self._classes.classifier
        self._enter_classes(X, part, estimates, labels, flags)

    def _enter_classes(self, X, part, estimates, labels, flags):
        part.labels[:] = labels
        if self._classes is None or self.output != "subspace" or not flags.any():
            return
        # An unsure repair may be a wild guess: the less sure, the nearer to the observed vector.
        observed = np.where(np.isnan(X), estimates, X)
        sure = part.confidence[flags, None]
        mixed = sure * estimates[flags] + (1.0 - sure) * observed[flags]
        part.X[flags] = self._classes.project(mixed, labels[flags])

    def _keep_subspaces(self, found):
        self.bases_, self.offsets_ = found.bases, found.offsets
        self.n_subspaces_ = len(self.bases_)
        self.ranks_ = np.array([basis.shape[1] for basis in self.bases_])

    def _keep_model(self, model):
        self._keep_subspaces(model)
        self.trials_, self.noise_model_ = model.report, model.noise_report
        self.noise_scale_ = float(np.median([part["noise"] for part in self.noise_model_]))
        self.offset_ = model.offset

    def _leave_alone(self, X, movable, given):
        """No model: nothing is judged; subspaces that were asked for are fitted to all vectors."""
        n_features, nobody = X.shape[1], np.zeros(len(movable), dtype=bool)
        repaired = Repaired.untouched(X, np.zeros(len(X), dtype=np.int64))
        found = Classes([np.eye(n_features)], [np.zeros(n_features)])
        if given.asks_for_classes and len(movable) > 0:
            filled = fill_missing(X, [], [])
            found, repaired.labels[movable] = find_classes(
                X[movable], filled[movable], nobody, nobody, repaired.labels[movable], given,
                seed=self._seed, n_jobs=self.n_jobs,
            )  # fmt: skip
        self._keep_subspaces(found)
        self.noise_scale_, self.offset_, self.noise_model_ = 0.0, -1.0, []
        self.trials_ = TrialReport()
        if len(movable) > 0:
            self.trials_.reason = (
                "No majority of the vectors fits together: nothing can be said about which are"
                " shuffled, and nothing was changed."
            )
        return repaired

    def _warn_if_abstained(self):
        """Say so if vectors look shuffled but none is repaired."""
        report, flagged = self.trials_, int(self.outlier_mask_.sum())
        if report is None:
            return
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
            warnings.warn(f"{report.reason} See trials_.", UserWarning, stacklevel=5)

    def _examine(self, X):
        """Judge and repair new vectors; returns a :class:`Repaired`."""
        scaled = in_unit(X, self._unit)
        repaired = self._examine_scaled(scaled)
        return replace(repaired, X=restored(X, scaled, repaired.X, self._unit))

    def _examine_scaled(self, X, *, flags=None, new=True):
        """Judge and repair; `flags` and `new` as for :meth:`Judge.enter`."""
        model = self._model
        if isinstance(model, FourStages):
            return model.examine(X, self.output, self.min_confidence, n_jobs=self.n_jobs)
        repaired = Repaired.untouched(X, np.zeros(len(X), dtype=np.int64))
        if model is None:
            return repaired

        def examine(start, stop):
            rows = np.arange(start, stop)
            rows = rows[self._can_be_judged(X[rows])]
            own = None if flags is None else flags[rows]
            judged = model.propose(model.in_units(X[rows]), n_jobs=1)
            part, _ = model.enter(
                X[rows], judged, self.output, self.min_confidence, flags=own, new=new
            )
            if self._classes is not None:
                damaged = part.status != "clean"
                estimates = model.estimates(X[rows], judged, damaged)
                labels = self._classes.label(X[rows], estimates, damaged)
                self._enter_classes(X[rows], part, estimates, labels, damaged)
            repaired.enter(rows, part)
            others = np.setdiff1d(np.arange(start, stop), rows)
            if len(others) > 0:  # not judged: they belong to the nearest subspace
                distances = distances_as_they_stand(X[others], self.bases_, self.offsets_)
                repaired.labels[others] = distances.argmin(axis=1)

        map_blocks(examine, len(X), block=_BLOCK, stage="judge", n_jobs=self.n_jobs)
        return repaired

    def _can_be_judged(self, X):
        """Vectors that have an order, and are not far larger than those of the fit."""
        with np.errstate(over="ignore"):
            sizes = np.abs(self._model.in_units(X))
        largest = np.max(sizes, axis=1, where=~np.isnan(sizes), initial=0.0)
        return ~has_no_order(X) & (largest <= _FAR_AWAY)

    def _gains(self, X):
        """What repairs of new vectors gain, and how likely the vectors are as they stand."""

        def judge(start, stop):
            judged = self._model.propose(self._model.in_units(X[start:stop]), n_jobs=1)
            return judged.gain, judged.observed

        parts = map_blocks(judge, len(X), block=_BLOCK, stage="judge", n_jobs=self.n_jobs)
        return [np.concatenate(own) for own in zip(*parts, strict=True)] or np.zeros((2, 0))

    def _score(self, X):
        model = self._model
        if isinstance(model, FourStages):
            return model.scores(X, n_jobs=self.n_jobs)
        scores = np.zeros(len(X))
        if model is None:
            return scores

        def score(start, stop):
            rows = start + np.flatnonzero(self._can_be_judged(X[start:stop]))
            scores[rows] = model.scores(X[rows], n_jobs=1)

        map_blocks(score, len(X), block=_BLOCK, stage="judge", n_jobs=self.n_jobs)
        return scores

    def _keep(self, repaired):
        """Keep what is known of the training vectors."""
        self.status_, self.labels_ = repaired.status, repaired.labels
        self.outlier_mask_ = repaired.status != "clean"
        self.permutations_, self.certified_ = repaired.permutations, repaired.certified
        self.confidence_, self.entry_confidence_ = repaired.confidence, repaired.entry_confidence
        self.damage_probability_ = repaired.damage_probability
        self.expected_error_ = repaired.expected_error
        self._n_unexplained = int(np.sum(repaired.odd & (repaired.status != "recovered")))
        logger.log(
            logging.INFO if self.verbose else logging.DEBUG,
            "%d of %d vectors are permuted, %d of them uncertain",
            *(self.outlier_mask_.sum(), len(self.status_), np.sum(self.status_ == "uncertain")),
        )


def _is_near(X):
    """Vectors that are not far larger than most: float32 could not hold both."""
    if len(X) == 0:
        return np.zeros(0, dtype=bool)
    sizes = np.nanmax(np.abs(X - np.nanmedian(X)), axis=1)
    return sizes <= _FAR_AWAY * max(float(np.median(sizes)), 1e-300)


def _likeliest(gain, observed, count):
    """The `count` vectors with the largest gains; without any, the least likely as they stand."""
    order = np.lexsort((-observed, np.maximum(gain, 0.0)))
    return order[len(order) - count :]
