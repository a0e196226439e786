"""Matrix recovery with unknown correspondence of Tang, Chang, Ye and Zha."""

from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from unpermute._progress import report
from unpermute._validation import Integral, Interval, StrOptions, check_rank, fit_context
from unpermute.baselines._base import MatrixRecovery, check_names, positive
from unpermute.baselines._mruc_problem import Problem, best_order
from unpermute.baselines._mruc_starts import draw_starts
from unpermute.numerics.parallel import one_blas_thread
from unpermute.numerics.result import SolverResult, warn_not_converged
from unpermute.numerics.sinkhorn import sinkhorn
from unpermute.numerics.units import in_unit, unit_of

__all__ = ["MRUC", "align_groups"]

# Entropy, relative to the mean square of a place. Much at first (by this over the root of the
# number of directions: places differ the less, the more there are) lets random starts find their
# way, less does not forget informed ones; the last leaves little to round. Steps at each.
_FIRST_RANDOM, _FIRST_INFORMED, _LAST, _DECAY, _STEPS = 0.7, 0.05, 2e-3, 0.8, 5
# Rounds of Sinkhorn per step: the potentials are those of the step before, which are close.
_ROUNDS = 20


class MRUC(MatrixRecovery, BaseEstimator):
    r"""Put groups of vectors in order that share one permutation each.

    .. math:: \min_{B, \, \Pi_g} \; \lambda \|B\|_* + \tfrac12 \|B_0 - X_0\|_F^2
        + \tfrac12 \sum_{g \ge 1} \|B_g - X_g \Pi_g^T\|_F^2

    over permutations :math:`\Pi_g` of the entries, one for each group :math:`X_g` of vectors; the
    anchor :math:`X_0` defines the order [1]_. Permutations are relaxed to doubly stochastic
    matrices with an entropy that is lowered step by step (proximal gradient for B, Sinkhorn for
    :math:`\Pi_g`), rounded by assignment, and improved until no group alone can be; the best of
    several starts is kept.

    Choose it when many vectors share a permutation, as the columns of a table whose rows were
    shuffled against another table: then no entry need be in place. All vectors together must
    have low rank. Vectors with a permutation of their own are better left to
    :class:`~unpermute.PMSDR`; it can also follow, see the notes.

    Parameters
    ----------
    lam : float, default=None
        The weight :math:`\lambda`; None: 0.3 times the largest singular value of the anchor. Not
        used if `rank` is given.
    rank : int, default=None
        If known, B has this rank and no penalty. Also the number of directions that starts use;
        None: where the singular values of the anchor drop most.
    anchor : object, default=None
        Name of the group that is in order; None: the first in sorted order.
    n_starts : int, default=10
        Number of starts.
    informed : bool, default=True
        Whether the first two starts are not random but: places that fit as they stand, and places
        whose similarities to the others look alike. Random ones alone, as in [1]_, often fail.
    output : {"values", "subspace"}, default="values"
        What vectors become: the observed values moved, or their projection on the leading
        directions of all.
    max_iter : int, default=100
        Maximum number of rounds of improvement after rounding. A handful does.
    random_state : int, RandomState instance or None, default=None
        Randomness of the starts.

    Attributes
    ----------
    recovered_ : ndarray of shape (n_vectors, n_features)
        The vectors in the order of the anchor.
    permutations_ : ndarray of shape (n_vectors, n_features)
        ``np.take_along_axis(X, permutations_, axis=1)`` is every vector in that order.
    groups_ : ndarray
        Names of the groups, the anchor first.
    objective_ : ndarray
        The cost of the best start, of every iterate.
    start_objectives_ : ndarray of shape (n_starts + 1,)
        The cost that every start reached; the last started from the best order of every group
        that any of the others found.
    best_start_ : int
        The start that was kept.
    n_iter_ : int
        Iterations of the best start.
    converged_ : bool
        Whether no group's permutation alone can be improved any more.
    optimality_ : float
        By how much, relative to the cost, the last round of improvement still lowered it.

    Notes
    -----
    Of a group with more vectors than entries only a square factor is kept, so that an iteration
    takes time that grows with the cube of the number of entries, whatever the number of vectors;
    with fewer vectors, with their number times the square of the number of entries.

    Completely shuffled groups of vectors from several subspaces are partly in order after MRUC;
    PMSDR can then do the rest: ``PMSDR().fit_transform(MRUC().fit_transform(X, groups=groups))``.

    References
    ----------
    .. [1] Tang, Z., Chang, T.-H., Ye, X. and Zha, H. (2023). Low-rank matrix recovery with unknown
       correspondence. UAI. https://doi.org/10.48550/arXiv.2110.07959

    Examples
    --------
    >>> from unpermute.baselines import MRUC
    >>> from unpermute.datasets import make_permuted_subspaces
    >>> from unpermute.metrics import recovery_error
    >>> data = make_permuted_subspaces(1, 60, 20, 2, shuffled_ratio=1.0, n_permutation_groups=2,
    ...                                random_state=0)
    >>> recovered = MRUC(random_state=0).fit_transform(data.X, groups=data.permutation_groups)
    >>> bool(recovery_error(data.X_clean, recovered) < 0.02)
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "lam": [None, positive],
        "rank": [None, Interval(Integral, 1, None, closed="left")],
        "anchor": "no_validation",
        "n_starts": [Interval(Integral, 1, None, closed="left")],
        "informed": ["boolean"],
        "output": [StrOptions({"values", "subspace"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        lam=None,
        *,
        rank=None,
        anchor=None,
        n_starts=10,
        informed=True,
        output="values",
        max_iter=100,
        random_state=None,
    ):
        self.lam = lam
        self.rank = rank
        self.anchor = anchor
        self.n_starts = n_starts
        self.informed = informed
        self.output = output
        self.max_iter = max_iter
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, *, groups=None):
        """Recover `X`; the result is in ``recovered_``.

        Parameters
        ----------
        X : array-like of shape (n_vectors, n_features)
            The observed vectors, one per row.
        y : None
            Ignored.
        groups : array-like of shape (n_vectors,), default=None
            Name of the group of every vector; None: every vector is a group of its own,
            which seldom works.

        Returns
        -------
        self : object
            The fitted model.
        """
        X = self._check(X)
        check_rank(self.rank, X.shape[1])
        numbers = self._number_groups(groups, len(X))
        unit = unit_of(X)
        scaled = in_unit(X, unit)
        with one_blas_thread():
            result = align_groups(
                scaled,
                numbers,
                lam=self.lam,
                rank=self.rank,
                n_starts=self.n_starts,
                informed=self.informed,
                max_iter=self.max_iter,
                random_state=self.random_state,
            )
        self.permutations_ = result.solution[numbers]
        self.objective_ = np.array(result.info["objective"])
        self.start_objectives_ = result.info["start_objectives"]
        self.best_start_ = int(np.argmin(self.start_objectives_))
        self.optimality_, self.n_iter_ = result.optimality, result.n_iter
        self.converged_ = result.converged
        self.recovered_ = np.take_along_axis(X, self.permutations_, axis=1)
        if self.output == "subspace":
            moved = np.take_along_axis(scaled, self.permutations_, axis=1)
            self.recovered_ = moved @ result.info["projector"] * unit
        return self

    def fit_transform(self, X, y=None, *, groups=None):
        """Recover `X` and return it.

        Parameters
        ----------
        X : array-like of shape (n_vectors, n_features)
            The observed vectors, one per row.
        y : None
            Ignored.
        groups : array-like of shape (n_vectors,), default=None
            Name of the group of every vector; None: every vector is a group of its own,
            which seldom works.

        Returns
        -------
        X_recovered : ndarray of shape (n_vectors, n_features)
            The vectors in the order of the anchor.
        """
        return self.fit(X, y, groups=groups).recovered_

    def _number_groups(self, groups, n_vectors):
        """Number the groups, the anchor being 0."""
        names = np.arange(n_vectors) if groups is None else check_names("groups", groups, n_vectors)
        self.groups_, numbers = np.unique(names, return_inverse=True)
        if self.anchor is not None:
            if self.anchor not in self.groups_.tolist():
                raise ValueError(
                    f"anchor={self.anchor!r} is not the name of a group; it must be one of"
                    f" {', '.join(map(repr, self.groups_.tolist()[:10]))}."
                )
            first = self.groups_.tolist().index(self.anchor)
            order = np.concatenate([[first], np.delete(np.arange(len(self.groups_)), first)])
            self.groups_, numbers = self.groups_[order], np.argsort(order)[numbers]
        return numbers


def align_groups(
    X, groups, *, lam=None, rank=None, n_starts=10, informed=True, max_iter=100, random_state=None
):
    """Solve the problem of :class:`MRUC`.

    Parameters
    ----------
    X : ndarray of shape (n_vectors, n_features)
        Vectors in rows.
    groups : ndarray of int of shape (n_vectors,)
        Group of every vector from 0, which is in order.
    lam : float, default=None
        Weight of the nuclear norm.
    rank : int, default=None
        Rank, instead of the nuclear norm.
    n_starts : int, default=10
        Number of starts.
    informed : bool, default=True
        Whether the first starts are informed.
    max_iter : int, default=100
        Maximum number of rounds of improvement after rounding.
    random_state : int, RandomState instance or None, default=None
        Randomness of the starts.

    Returns
    -------
    SolverResult
        `solution` holds the permutation of every group; `info` the ``objective`` per iteration of
        the best start, the ``start_objectives`` and the ``projector`` on the leading directions.
    """
    problem = Problem([X[groups == g] for g in range(groups.max() + 1)], lam, rank)
    rng = check_random_state(random_state)
    informed_starts, random_starts = draw_starts(
        problem.anchor, problem.factors, problem.n_directions, n_starts, informed, rng
    )
    plans, history = _anneal(problem, informed_starts, _FIRST_INFORMED)
    first = _FIRST_RANDOM / np.sqrt(problem.n_directions)
    more_plans, more_history = _anneal(problem, random_starts, first)
    plans, history = [*plans, *more_plans], [*history, *more_history, []]
    reached = [_improve(problem, _round(problem, plan), max_iter) for plan in plans]
    mixed = _best_of_each_group(problem, [permutations for permutations, _, _ in reached])
    reached.append(_improve(problem, mixed, max_iter))
    costs = np.array([objective[-1] for _, objective, _ in reached])
    best = int(np.argmin(costs))
    permutations, objective, optimality = reached[best]
    if optimality > 0:
        remedy = f"raise max_iter (now {max_iter})"
        warn_not_converged("MRUC (relative decrease of the cost)", optimality, 0.0, remedy)
    info = {
        "objective": history[best] + objective,
        "start_objectives": costs,
        "projector": problem.projector(permutations),
    }
    solution = np.vstack([np.arange(X.shape[1])[None], permutations])
    n_iter = len(info["objective"])
    return SolverResult(solution, float(optimality), n_iter, optimality == 0, info)


def _anneal(problem, plans, first):
    """Alternate B and the plans of all starts, the entropy falling from `first`.

    Returns the plans, and for every start its costs per step.
    """
    if plans.size == 0:
        return plans, [[] for _ in plans]
    potentials = np.zeros((plans.shape[1], plans.shape[0], plans.shape[2]))
    fixed = sum(np.sum(F**2) for F in (problem.anchor, *problem.factors))
    n_steps = _STEPS * (int(np.ceil(np.log(_LAST / first) / np.log(_DECAY))) + 1)
    history = np.empty((n_steps, len(plans)))
    for step in range(n_steps):
        T = problem.mix(plans)
        costs, B = problem.evaluate(T)
        # A doubly stochastic matrix averages values: what that loses counts as misfit.
        history[step] = costs + 0.5 * (fixed - np.einsum("sij,sij->s", T, T))
        epsilon = first * _DECAY ** (step // _STEPS)
        for g, (F, rows) in enumerate(zip(problem.factors, problem.rows, strict=True)):
            # Σ_v ½ (b_vi − y_vj)² is −⟨b_i, y_j⟩ up to terms that no plan can change.
            misfit = np.swapaxes(B[:, rows], -1, -2) @ (F / -problem.scale(g))
            plans[:, g] = sinkhorn(misfit, epsilon, potentials[g], max_iter=_ROUNDS)[0]
        report("MRUC", step + 1, n_steps)
    return plans, history.T.tolist()


def _round(problem, plans):
    """The permutations nearest to the B of soft plans.

    Entries of a plan that is still soft are so much alike that their sum hardly tells permutations
    apart; B, which they agree on, does.
    """
    return _nearest(problem, problem.evaluate(problem.mix(plans[None]))[1][0])


def _nearest(problem, B):
    """For every group the permutation that brings it nearest to B."""
    groups = zip(problem.factors, problem.rows, strict=True)
    orders = [best_order(B[rows], F) for F, rows in groups]
    return np.array(orders, dtype=np.int64).reshape(len(orders), problem.size)


def _improve(problem, permutations, max_iter):
    """Alternate B and permutations until none changes; each round lowers the cost."""
    cost, B = problem.evaluate(problem.combine(permutations))
    objective = [float(cost)]
    optimality = 0.0
    for _ in range(max_iter):
        updated = _nearest(problem, B)
        cost, B_updated = problem.evaluate(problem.combine(updated))
        # Ties, and decreases that are rounding, end the descent.
        optimality = (objective[-1] - cost) / objective[-1] if objective[-1] > 0 else 0.0
        if optimality <= 1e-12:
            optimality = 0.0
            break
        permutations, B = updated, B_updated
        objective.append(float(cost))
    return permutations, objective, optimality


def _best_of_each_group(problem, candidates):
    """Combine, group by group, the order that fits the anchor best."""
    chosen = []
    for g in range(len(problem.factors)):
        orders = [permutations[g] for permutations in candidates]
        stack = np.array([problem.combine([order], slice(g, g + 1)) for order in orders])
        chosen.append(orders[int(np.argmin(problem.evaluate(stack)[0]))])
    return np.array(chosen, dtype=np.int64).reshape(len(chosen), problem.size)
