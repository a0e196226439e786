r"""Classification by recovery: in every plausible subspace, the best certified answer wins.

Cheap tests first: in the nearest few subspaces Algorithm 2's fit is taken as the only start, which
settles easy vectors. Then the same, and a robust start, in all subspaces in the order of Algorithm
2's distance; what is left gets a few starts everywhere, and the full budget where that looked best,
the most promising vectors first. Those found tell how many entries to expect in place in the next.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from unpermute._progress import report
from unpermute._validation import Integral, Interval, Real, StrOptions, validate_vectors
from unpermute.classify._elimination import EliminationClassifier
from unpermute.numerics.certificate import LONG, certify
from unpermute.numerics.elimination import eliminate, elimination_schedule
from unpermute.numerics.search import climb_vectors, search_vectors
from unpermute.numerics.subspaces import BASIS_METHODS, residual_norms

__all__ = ["FoundVectors", "RecoveryClassifier", "recover_everywhere", "starts_for"]

_FEW_STARTS = 120
# Evidence from which a solution down at a known noise is left as it is, certain or not: where the
# noise allows no certainty, all vectors would cost the whole budget.
_LIKELY = 5.0
# Fewer starts are none: they take long on long vectors and settle next to none of them.
_MIN_STARTS = 200
# Vectors of the first wave; every other has twice as many as the one before. One that certifies a
# smaller share of its vectors is the last.
_FIRST_WAVE, _WORTH_IT = 16, 0.05
# Subspaces that get the full budget; vectors that are left get so many times more in the end, if
# they are fewer than those that it settled.
_FINALISTS, _LAST_FACTOR = 3, 4
# Vectors that tell what is typical, and shares of moved entries that differ so little that they are
# searched alike.
_ENOUGH, _ALIKE = 4, 0.15
# An entry that is further from its place than so many times the rms residual has moved.
_MOVED = 4.0
# Subspaces, by the distance of the vector as it stands, in which easy vectors are looked for.
_NEAREST = 2


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
        Budget of starts per vector and subspace; again as many where the vectors found differ in
        how much moved, and four times as many in the end for the vectors that are left, unless
        those are the most.
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
        """Return the evidence of every vector and class: larger means less of an accident.

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


@dataclass
class FoundVectors:
    """Best solution of every vector over all subspaces.

    Attributes
    ----------
    labels : ndarray of shape (n_vectors,)
    coefficients : ndarray of shape (n_vectors, largest rank)
        Of its own subspace; zeros beyond its rank.
    evidence : ndarray of shape (n_vectors, n_subspaces)
        −inf where a subspace was not tried.
    certain : ndarray of bool of shape (n_vectors,)
    """

    labels: np.ndarray
    coefficients: np.ndarray
    evidence: np.ndarray
    certain: np.ndarray

    def keep_better(self, rows, k, coefficients, certain, evidence):
        """Enter the solutions of `rows` in subspace k where they beat what was found before."""
        better = evidence > self.evidence[rows, self.labels[rows]]
        self.evidence[rows, k] = np.maximum(self.evidence[rows, k], evidence)
        winners = rows[better]
        self.labels[winners] = k
        self.coefficients[winners] = 0.0
        self.coefficients[winners, : coefficients.shape[1]] = coefficients[better]
        self.certain[rows] |= certain


def recover_everywhere(Y, bases, offsets, *, noise_scale, max_starts, seed, n_jobs=None):
    """Return the :class:`FoundVectors` of `Y`.

    Each vector is treated as if it were alone, except that the budget of random starts ends for
    all when it certifies hardly any, and that vectors found before tell how much moved.
    """
    return _Search(Y, bases, offsets, noise_scale, seed, n_jobs).run(max_starts)


def starts_for(n_features, max_starts):
    """Budget of starts for vectors of so many entries, given that of vectors with up to 100.

    Longer vectors cost more per start and need fewer, very long ones none: if the robust start
    does not find them, hardly anything does.
    """
    max_starts = int(max_starts * min(1.0, 100 / n_features))
    return max_starts if max_starts >= _MIN_STARTS else 0


class _Search:
    """The vectors of one call, and what was found so far."""

    def __init__(self, Y, bases, offsets, noise_scale, seed, n_jobs):
        self.Y, self.bases, self.offsets = Y, bases, offsets
        self.options = {"noise_scale": noise_scale, "n_jobs": n_jobs}
        self.seed, self.n_jobs = seed, n_jobs
        self.likely = np.zeros(len(Y), dtype=bool)
        self.done = self.likely.copy()
        self.by_starts = self.likely.copy()
        n, largest = len(Y), max(basis.shape[1] for basis in bases)
        self.found = FoundVectors(
            np.zeros(n, dtype=np.int64), np.zeros((n, largest)),
            np.full((n, len(bases)), -np.inf), np.zeros(n, dtype=bool),
        )  # fmt: skip

    def run(self, max_starts):
        """Spend more and more on fewer and fewer vectors."""
        n, n_subspaces = self.found.evidence.shape
        filled = np.where(np.isnan(self.Y), 0.0, self.Y) if np.isnan(self.Y).any() else self.Y
        order = np.argsort(residual_norms(filled, self.bases, self.offsets), axis=1)
        # Elimination takes time that grows with the square of the entries; the robust start
        # settles long vectors as well.
        if self.Y.shape[1] <= LONG:
            for position in range(min(_NEAREST, n_subspaces)):
                self._for_each(order[:, position], self._climb)
            self._climb_everywhere(order)
        for position in range(n_subspaces):
            self._for_each(order[:, position], self._search, 0)
        if max_starts > 0:
            self._spend(order, max_starts)
        report("recover", n, n)
        return self.found

    def _spend(self, order, max_starts):
        """Random starts: a few everywhere, then more and more where that looked best."""
        if len(self.bases) > 1:
            self._in_waves(self._likely_first(order), _FEW_STARTS)
        finalists = self._likely_first(order)[:_FINALISTS]
        rows = np.flatnonzero(~(self.found.certain | self.done))
        complete = self._in_waves(finalists, max_starts)
        ratios = self._ratios()
        alike = len(ratios) == 0 or np.diff(np.quantile(ratios, [0.05, 0.95]))[0] <= _ALIKE
        if not alike:
            self.seed += 1  # other starts than before
            complete |= self._in_waves(finalists, max_starts, typical=False)
        if complete and self.found.certain[rows].sum() > len(rows) / 2:
            self.seed += 1
            self._in_waves(finalists, _LAST_FACTOR * max_starts, typical=alike)

    def _likely_first(self, order):
        """Subspaces of every vector, one column each, the likely ones first."""
        # Evidence and distance err on different vectors: by the sum of both ranks.
        by_evidence = np.argsort(-self.found.evidence, axis=1, kind="stable")
        ranks = np.argsort(by_evidence, axis=1) + np.argsort(order, axis=1)
        return np.argsort(ranks, axis=1, kind="stable").T

    def _in_waves(self, subspaces, budget, *, typical=True):
        """Search the most promising vectors first, and the others while that is worth it.

        Hopeless vectors, say of a rank too high for their moves, come in company: without this
        each of them would cost the whole budget. What is `typical` of vectors found before is
        expected of the next. Returns whether all had their turn.
        """
        rows = np.flatnonzero(~(self.found.certain | self.done))
        rows = rows[np.argsort(-self.found.evidence[rows].max(axis=1), kind="stable")]
        size = _FIRST_WAVE
        while len(rows) > 0:
            wave, rows = rows[:size], rows[size:]
            ratios = self._ratios() if typical else np.empty(0)
            # The easy ones were found first: expect more than is usual among them.
            ratio = float(np.quantile(ratios, 0.8)) if len(ratios) >= _ENOUGH else None
            self._search_wave(wave, subspaces, budget, ratio)
            self.by_starts[wave] = True
            if self.found.certain[wave].mean() < _WORTH_IT:
                break
            size *= 2
        return len(rows) == 0

    def _ratios(self):
        """Return the shares of entries that moved in the vectors found by random starts.

        A search that has to guess it spends most starts on wrong guesses.
        """
        rows = np.flatnonzero(self.found.certain & self.by_starts)
        ratios = []
        for k in np.unique(self.found.labels[rows]):
            own, basis = rows[self.found.labels[rows] == k], self.bases[k]
            coefficients = self.found.coefficients[own, : basis.shape[1]]
            problem = self.Y[own], basis, self.offsets[k]
            _, residual = certify(*problem, self._one_block(), coefficients, n_jobs=self.n_jobs)
            distance = np.abs(self.Y[own] - coefficients @ basis.T - self.offsets[k])
            moved = distance > _MOVED * np.sqrt(residual)[:, None]
            ratios.extend(moved.sum(axis=1) / np.sum(~np.isnan(distance), axis=1))
        return np.array(ratios)

    def _one_block(self):
        return np.zeros(self.Y.shape[1], dtype=np.int64)

    def _search_wave(self, wave, subspaces, budget, ratio):
        """Search vectors in one subspace of their own after the other."""
        for columns in subspaces:
            rows = wave[~self.found.certain[wave]]
            own = columns[rows]
            for k in np.unique(own):
                self._search(rows[own == k], k, budget, ratio)
            report("recover", int(self.found.certain.sum()), len(self.Y))

    def _for_each(self, columns, attempt, *args):
        """Attempt every vector that is not done yet, each in the subspace of `columns`."""
        rows = np.flatnonzero(~(self.found.certain | self.done))
        for k in np.unique(columns[rows]):
            attempt(rows[columns[rows] == k], k, *args)
        report("recover", int(self.found.certain.sum()), len(self.Y))

    def _climb(self, rows, k):
        self._climb_from(rows, k, self._eliminate(rows, k)[0])

    def _climb_everywhere(self, order):
        """The same in all subspaces, the likely ones first; rewrites `order` for these vectors."""
        rest = np.flatnonzero(~self.found.certain)
        if len(rest) == 0:
            return
        fits = [self._eliminate(rest, k) for k in range(len(self.bases))]
        order[rest] = np.argsort(np.stack([fit[1] for fit in fits], axis=1), axis=1)
        where = np.full(len(order), -1)
        where[rest] = np.arange(len(rest))
        for position in range(len(self.bases)):
            self._for_each(
                order[:, position],
                lambda rows, k: self._climb_from(rows, k, fits[k][0][where[rows]]),
            )
        self.done = self.likely.copy()

    def _eliminate(self, rows, k):
        """Coefficients of Algorithm 2, and its distance."""
        basis = self.bases[k]
        schedule = elimination_schedule(*basis.shape, retain_ratio=0.5, max_steps=50)
        Y = self.Y[rows] - self.offsets[k]
        return eliminate(Y, basis, schedule, stage="classify", n_jobs=self.n_jobs)[:2]

    def _climb_from(self, rows, k, coefficients):
        found = climb_vectors(
            self.Y[rows], self.bases[k], self.offsets[k], coefficients, **self.options
        )
        self.found.keep_better(rows, k, *found[:3])
        if self.options["noise_scale"]:
            self.likely[rows] |= found[3] & (found[2] >= _LIKELY)

    def _search(self, rows, k, budget, ratio=None):
        found = search_vectors(
            self.Y[rows], self.bases[k], self.offsets[k], self._one_block(), max_starts=budget,
            shuffled_ratio=ratio, seed=self.seed, stage="search", **self.options,
        )  # fmt: skip
        self.found.keep_better(rows, k, *found[:3])
