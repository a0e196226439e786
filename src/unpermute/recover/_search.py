r"""Search for coefficients and permutation together, in one subspace or in several.

In every subspace :math:`y \approx \Pi (U_k x + b_k)`, and the evidence that a solution is no
accident (:mod:`unpermute.numerics.certificate`) decides between them; a certified answer ends the
search of a vector.

Cheap attempts come first: in the nearest few subspaces Algorithm 2's fit is taken as the only
start, which settles easy vectors. Then the same, and a robust start, in all subspaces in the order
of Algorithm 2's distance. Vectors that are left get random starts
(:mod:`unpermute.numerics.search`), a few everywhere and the full budget where that looked best, the
most promising vectors first. Vectors found by random starts tell how many entries to expect in
place in the next.

Choose it always, unless something is known that another method needs.
"""

from dataclasses import dataclass

import numpy as np

from unpermute._progress import report
from unpermute.numerics.certificate import LONG, certify
from unpermute.numerics.elimination import eliminate, elimination_schedule
from unpermute.numerics.search import climb_vectors, search_vectors
from unpermute.numerics.subspaces import residual_norms
from unpermute.recover._problem import RecoverySolution

__all__ = ["FoundVectors", "recover_everywhere", "search", "starts_for"]

# Random starts per vector unless the caller says otherwise, those of the first pass, and those of
# the first look at every subspace.
_MAX_STARTS, _FIRST_STARTS, _FEW_STARTS = 30000, 2000, 120
# Evidence from which a solution down at a known noise is left as it is, certain or not: where the
# noise allows no certainty, all vectors would cost the whole budget.
_LIKELY = 5.0
# Budgets below this number of starts are not spent: random restarts take long on long vectors and
# settle hardly any of them.
_MIN_STARTS = 200
# Vectors of the first wave; every other has twice as many as the one before. One that certifies a
# smaller share of its vectors is the last.
_FIRST_WAVE, _WORTH_IT = 16, 0.05
# Number of subspaces that get the full budget; and factor of the budget for the remaining vectors,
# if they are fewer than those that were settled.
_FINALISTS, _LAST_FACTOR = 3, 4
# Vectors that tell what is typical, and shares of moved entries that differ so little that they are
# searched alike.
_ENOUGH, _ALIKE = 4, 0.15
# An entry has moved if it differs from its fitted value by more than this many rms residuals.
_MOVED = 4.0
# Subspaces, by the distance of the vector as it stands, in which easy vectors are looked for.
_NEAREST = 2


@dataclass
class FoundVectors:
    """Best solution of every vector over all subspaces.

    Attributes
    ----------
    labels : ndarray of shape (n_vectors,)
        Number of its subspace.
    coefficients : ndarray of shape (n_vectors, largest rank)
        Of its own subspace; zeros beyond its rank.
    evidence : ndarray of shape (n_vectors, n_subspaces)
        −inf where a subspace was not tried.
    certain : ndarray of bool of shape (n_vectors,)
        Where the evidence certifies the answer, with a residual down at the noise.
    n_starts : ndarray of int of shape (n_vectors,)
        Random starts, in all subspaces together.
    """

    labels: np.ndarray
    coefficients: np.ndarray
    evidence: np.ndarray
    certain: np.ndarray
    n_starts: np.ndarray

    @classmethod
    def nothing(cls, n_vectors, n_subspaces, largest_rank):
        """Before the search."""
        return cls(
            np.zeros(n_vectors, dtype=np.int64), np.zeros((n_vectors, largest_rank)),
            np.full((n_vectors, n_subspaces), -np.inf), np.zeros(n_vectors, dtype=bool),
            np.zeros(n_vectors, dtype=np.int64),
        )  # fmt: skip

    def keep_better(self, rows, k, coefficients, certain, evidence):
        """Enter the solutions of `rows` in subspace k where they beat what was found before."""
        better = evidence > self.evidence[rows, self.labels[rows]]
        self.evidence[rows, k] = np.maximum(self.evidence[rows, k], evidence)
        winners = rows[better]
        self.labels[winners] = k
        self.coefficients[winners] = 0.0
        self.coefficients[winners, : coefficients.shape[1]] = coefficients[better]
        self.certain[rows] |= certain


def search(problem):
    """Solve a :class:`RecoveryProblem`; converged where the evidence certifies the answer."""
    total = _MAX_STARTS if problem.max_starts is None else problem.max_starts
    first = min(total, _FIRST_STARTS)
    found = recover_everywhere(
        problem.Y,
        [problem.basis],
        [problem.offset],
        blocks=problem.blocks,
        shuffled_ratio=problem.shuffled_ratio,
        noise_scale=problem.noise_scale,
        max_starts=first,
        last_starts=total - first,
        seed=problem.seed,
        n_jobs=problem.n_jobs,
    )
    info = {"evidence": found.evidence[:, 0], "n_starts": found.n_starts}
    return RecoverySolution(found.coefficients, found.certain, info)


def recover_everywhere(
    Y, bases, offsets, *, max_starts, seed, last_starts=None, blocks=None, shuffled_ratio=None,
    noise_scale=None, n_jobs=None,
):  # fmt: skip
    """Recover every vector in the subspace in which the evidence for its recovery is largest.

    Each vector is treated as if it were alone, except that the budget of random starts ends for
    all when it certifies hardly any, and that vectors found before tell how much moved. The order
    of the vectors does not matter. Nothing is validated.

    Parameters
    ----------
    Y : ndarray of shape (n_vectors, n_features)
        Vectors, permuted or not; NaN where missing.
    bases : list of ndarray of shape (n_features, rank)
        Orthonormal bases of the subspaces.
    offsets : list of ndarray of shape (n_features,)
        Their offsets; zeros where a subspace is linear.
    max_starts : int
        Budget of random starts per vector and subspace; 0: none.
    seed : int
        Of the random starts; those of a vector do not depend on its position.
    last_starts : int, default=None
        Further starts for the vectors that are left. None: `max_starts` again if the vectors found
        differ in how much moved, and four times as many in the end if most were found.
    blocks : ndarray of int of shape (n_features,), default=None
        Entries only move between places of the same block.
    shuffled_ratio : float, default=None
        Share of the entries that may have moved, if known.
    noise_scale : float, default=None
        Standard deviation of the noise of an entry, if known.
    n_jobs : int, default=None
        Threads; the result does not depend on it.

    Returns
    -------
    FoundVectors
        Best solution of every vector over all subspaces.

    Examples
    --------
    >>> import numpy as np
    >>> from unpermute.datasets import make_permuted_subspaces
    >>> from unpermute.recover import recover_everywhere
    >>> data = make_permuted_subspaces(2, 5, 30, 2, outlier_ratio=1.0, random_state=0)
    >>> found = recover_everywhere(data.X, data.bases, data.offsets, max_starts=100, seed=0)
    >>> bool(np.array_equal(found.labels, data.labels))
    True
    """
    if blocks is None:
        blocks = np.zeros(Y.shape[1], dtype=np.int64)
    options = {"noise_scale": noise_scale, "n_jobs": n_jobs}
    state = _Search(Y, bases, offsets, blocks, shuffled_ratio, options, seed)
    return state.run(max_starts, last_starts)


def starts_for(n_features, max_starts):
    """Budget of starts for vectors of a given length, from that of vectors with up to 100 entries.

    Longer vectors cost more per start and need fewer, very long ones none: if the robust start
    does not find them, hardly anything does.

    Parameters
    ----------
    n_features : int
        Entries of a vector.
    max_starts : int
        Budget of vectors with up to 100 entries.

    Returns
    -------
    int
        Budget of random starts per vector; 0: none.
    """
    max_starts = int(max_starts * min(1.0, 100 / n_features))
    return max_starts if max_starts >= _MIN_STARTS else 0


class _Search:
    """The vectors of one call, and what was found so far."""

    def __init__(self, Y, bases, offsets, blocks, shuffled_ratio, options, seed):
        self.Y, self.bases, self.offsets, self.blocks = Y, bases, offsets, blocks
        self.shuffled_ratio, self.options, self.seed = shuffled_ratio, options, seed
        self.likely = np.zeros(len(Y), dtype=bool)
        self.done = self.likely.copy()
        self.by_starts = self.likely.copy()
        self.found = FoundVectors.nothing(
            len(Y), len(bases), max(basis.shape[1] for basis in bases)
        )

    def run(self, max_starts, last_starts):
        """Spend more and more on fewer and fewer vectors."""
        n, n_subspaces = self.found.evidence.shape
        filled = np.where(np.isnan(self.Y), 0.0, self.Y) if np.isnan(self.Y).any() else self.Y
        order = np.argsort(residual_norms(filled, self.bases, self.offsets), axis=1)
        # Elimination takes time that grows with the square of the entries; the robust start
        # settles long vectors as well.
        last = n_subspaces
        if self.Y.shape[1] <= LONG:
            # Without random starts to follow, the robust start finds hardly any of those left.
            last = n_subspaces if max_starts > 0 else min(n_subspaces, _FINALISTS)
            for position in range(min(_NEAREST, n_subspaces)):
                self._for_each(order[:, position], self._climb)
            self._climb_everywhere(order)
        for position in range(last):
            self._for_each(order[:, position], self._search, 0)
        if max_starts > 0:
            self._spend(order, max_starts, last_starts)
        report("recover", n, n)
        return self.found

    def _spend(self, order, max_starts, last_starts):
        """Random starts: a few everywhere, then more and more where that looked best."""
        if len(self.bases) > 1:
            self._in_waves(self._likely_first(order), _FEW_STARTS)
        finalists = self._likely_first(order)[:_FINALISTS]
        rows = np.flatnonzero(~(self.found.certain | self.done))
        if last_starts is None:
            complete = self._in_waves(finalists, max_starts)
            self._spend_while_worth_it(finalists, max_starts, rows, complete)
            return
        # The last pass must not rely on what is usual: nobody looks again.
        told = "shuffled_ratio" if last_starts > 0 else "expected_ratio"
        self._in_waves(finalists, max_starts, told=told, again=False)
        if last_starts > 0:
            self.seed += 1  # other starts than before
            self._in_waves(finalists, last_starts, told="expected_ratio", again=False)

    def _spend_while_worth_it(self, finalists, max_starts, rows, complete):
        """Go on if the vectors found differ in how much moved, and if most were found."""
        ratios = self._ratios()
        alike = len(ratios) == 0 or np.diff(np.quantile(ratios, [0.05, 0.95]))[0] <= _ALIKE
        if not alike:
            self.seed += 1
            complete |= self._in_waves(finalists, max_starts, told=None)
        if complete and self.found.certain[rows].sum() > len(rows) / 2:
            self.seed += 1
            told = "shuffled_ratio" if alike else None
            self._in_waves(finalists, _LAST_FACTOR * max_starts, told=told)

    def _likely_first(self, order):
        """Subspaces of every vector, one column each, the likely ones first."""
        # Evidence and distance err on different vectors: by the sum of both ranks.
        by_evidence = np.argsort(-self.found.evidence, axis=1, kind="stable")
        ranks = np.argsort(by_evidence, axis=1) + np.argsort(order, axis=1)
        return np.argsort(ranks, axis=1, kind="stable").T

    def _in_waves(self, subspaces, budget, *, told="shuffled_ratio", again=True):
        """Search the most promising vectors first, and the others while that is worth it.

        Hopeless vectors, say of a rank too high for their moves, seldom come alone: without this
        rule each of them would cost the whole budget. The usual share of moved entries in vectors
        found before is `told` to the next as known ("shuffled_ratio"), as likely
        ("expected_ratio"), or not at all; a few that it did not help are searched `again` without
        it. Returns whether all had their turn.
        """
        rows = np.flatnonzero(~(self.found.certain | self.done))
        rows = rows[np.argsort(-self.found.evidence[rows].max(axis=1), kind="stable")]
        size, told = _FIRST_WAVE, told if self.shuffled_ratio is None else None
        while len(rows) > 0:
            wave, rows = rows[:size], rows[size:]
            usual = self._usual(told)
            self._search_wave(wave, subspaces, budget, usual)
            size *= 2
            if again and told in usual and self._found_few(wave):
                # Another share may have moved in these than is usual; if a few without that guess
                # are worth it, the others follow.
                told, size = None, _FIRST_WAVE
                wave, rows = wave[:size], np.concatenate([wave[size:], rows])
                self._search_wave(wave, subspaces, budget, self._usual(None))
            if self._found_few(wave):
                break
        return len(rows) == 0

    def _usual(self, told):
        """Options that tell the share of moved entries, if it is known or can be expected."""
        if self.shuffled_ratio is not None:
            return {"shuffled_ratio": self.shuffled_ratio}
        ratios = self._ratios() if told else ()
        # The easy ones were found first: expect more than is usual among them.
        return {told: float(np.quantile(ratios, 0.8))} if len(ratios) >= _ENOUGH else {}

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
            _, residual = certify(
                *problem, self.blocks, coefficients, n_jobs=self.options["n_jobs"]
            )
            distance = np.abs(self.Y[own] - coefficients @ basis.T - self.offsets[k])
            moved = distance > _MOVED * np.sqrt(residual)[:, None]
            ratios.extend(moved.sum(axis=1) / np.sum(~np.isnan(distance), axis=1))
        return np.array(ratios)

    def _search_wave(self, wave, subspaces, budget, usual):
        """Search vectors in one subspace of their own after the other."""
        for columns in subspaces:
            rows = wave[~self.found.certain[wave]]
            own = columns[rows]
            for k in np.unique(own):
                self._search(rows[own == k], k, budget, **usual)
            report("recover", int(self.found.certain.sum()), len(self.Y))
        self.by_starts[wave] = True

    def _found_few(self, wave):
        return self.found.certain[wave].mean() < _WORTH_IT

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
        if len(self.bases) == 1 or len(rest) == 0:
            self.done = self.likely.copy()
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
        return eliminate(Y, basis, schedule, stage="classify", n_jobs=self.options["n_jobs"])[:2]

    def _climb_from(self, rows, k, coefficients):
        found = climb_vectors(
            self.Y[rows], self.bases[k], self.offsets[k], self.blocks, coefficients, **self.options
        )
        self.found.keep_better(rows, k, *found[:3])
        if self.options["noise_scale"]:
            self.likely[rows] |= found[3] & (found[2] >= _LIKELY)

    def _search(self, rows, k, budget, **usual):
        *found, n_starts = search_vectors(
            self.Y[rows], self.bases[k], self.offsets[k], self.blocks, max_starts=budget,
            seed=self.seed, stage="search", **usual, **self.options,
        )  # fmt: skip
        self.found.n_starts[rows] += n_starts
        self.found.keep_better(rows, k, *found)
