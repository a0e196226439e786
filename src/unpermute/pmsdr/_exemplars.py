r"""Subspaces of very many vectors: fitted to exemplars, completed from what these do not explain.

1. Stages 1 and 2 and the refinement on random exemplars.
2. Of a larger random pool, what no subspace explains, less the vectors that are shuffled ones of a
   known subspace: most of their entries, say those that elimination keeps, are within the noise of
   it. Subspaces are looked for in what is left over, and all are settled together; twice or three
   times. Rare subspaces, too thin among the exemplars, are thick among the left-over vectors.
3. One pass over everything: with :math:`S_k` the sum of :math:`x x^\top U_k` over the vectors
   within the noise of subspace k, its new basis spans :math:`S_k` (a step of subspace iteration,
   whose error shrinks by the ratio of noise to signal variance).

Every limit follows from the estimated noise. Time is linear in the number of vectors, and so small
a part of the whole that 1. and 2. count only where there are few.
"""

from dataclasses import replace

import numpy as np

from unpermute._progress import report
from unpermute._validation import resolve_contamination
from unpermute.numerics.certificate import LONG
from unpermute.numerics.elimination import eliminate, elimination_schedule
from unpermute.numerics.parallel import map_blocks
from unpermute.numerics.permutations import has_no_order
from unpermute.pmsdr._distances import distances_as_they_stand, fill_missing
from unpermute.pmsdr._learn import ROUNDING, Learned, Learner, log
from unpermute.pmsdr._refine import Refiner, clean_limit, noise_level, relative_distances
from unpermute.recover import recover_everywhere

__all__ = ["exemplar_count", "learn_from_exemplars"]

# Up to so many vectors all of them take part in the fit; else so many exemplars do.
_MANY, _EXEMPLARS = 5000, 3000
# Vectors in which unexplained ones are looked for, those that are looked at more closely in every
# round, and those left over that are clustered.
_POOL, _EXAMINED, _LEFT_OVER = 100_000, 6000, 1500
_ROUNDS = 3
# The kept entries of a shuffled vector lie within so many standard deviations of the noise.
_WITHIN_NOISE = 2.0
# Noise of left-over vectors against that of the exemplars.
_SAME_NOISE = 1.2
_BLOCK = 8192


def exemplar_count(max_exemplars, n_vectors):
    """Return the number of exemplars, or None if all vectors are to take part."""
    if max_exemplars is None:
        return None
    if max_exemplars == "auto":
        return None if n_vectors <= _MANY else _EXEMPLARS
    return None if n_vectors <= max_exemplars else int(max_exemplars)


def learn_from_exemplars(X, given, size):
    """Return the :class:`Learned` of very many vectors, and the numbers of the exemplars."""
    if given.contamination != "auto":
        share = resolve_contamination(given.contamination, len(X)) / len(X)
        given = replace(given, contamination=share)
    rng = np.random.default_rng(given.seed)
    pool = rng.choice(len(X), min(len(X), max(_POOL, size)), replace=False)
    exemplars = np.sort(pool[:size])
    pool = np.sort(pool)
    rounding = ROUNDING * float(np.nanmax(np.abs(X[pool])))
    refiner = _first_fit(X[exemplars], given)
    refiner = _complete(refiner, X, pool, exemplars, given, rounding, rng)
    bases, offsets, sizes = _fit_to_all(X, refiner, given)
    noise, limit = _noise_and_limit(X[pool], bases, offsets, sizes, refiner.limit(), rounding)
    log(given, "refine: %d subspaces of ranks %s", len(bases), [b.shape[1] for b in bases])
    nothing = np.zeros(0, dtype=np.int64)
    return Learned(bases, offsets, noise, -limit, nothing, nothing), exemplars


def _first_fit(X, given):
    """Fit the exemplars; clusters of one subspace are merged, so that the missing ones show."""
    learner = Learner(X, given, merge=True)
    try:
        return learner.settle(learner.start()[1])
    except ValueError:
        if given.n_subspaces is None or given.n_subspaces > len(X):
            raise
        # A rare subspace has fewer exemplars than it takes: it is found among the left-over ones.
        learner = Learner(X, replace(given, n_subspaces=None), merge=True)
        return learner.settle(learner.start()[1])


def _complete(refiner, X, pool, exemplars, given, rounding, rng):
    """Add the subspaces of what is not explained, until there are none."""
    for step in range(_ROUNDS):
        report("exemplars", step, _ROUNDS)
        missing = np.inf
        if given.n_subspaces is not None:
            missing = given.n_subspaces - len(refiner.ranks)
        left = _left_over(X, pool, refiner, given.n_jobs, rng) if missing > 0 else exemplars[:0]
        if len(left) <= 2 * min(refiner.ranks) + 2:
            break
        added = _fit_left_over(X[left], refiner.noise, given, rounding, missing)
        if added is None:
            break
        rows = np.union1d(exemplars, left)
        refiner = _settle_together(X[rows], refiner, added, given, rounding)
        log(given, "exemplars: %d subspaces after round %d", len(refiner.ranks), step + 1)
    report("exemplars", _ROUNDS, _ROUNDS)
    return refiner


def _left_over(X, pool, refiner, n_jobs, rng):
    """Numbers of vectors that no subspace explains, neither as they stand nor shuffled."""
    bases, offsets = refiner.subspaces.bases, refiner.subspaces.offsets

    def judge(start, stop):
        block = X[pool[start:stop]]
        distances = distances_as_they_stand(block, bases, offsets).min(axis=1)
        return pool[start:stop][(distances > refiner.limit()) & ~has_no_order(block)]

    far = map_blocks(judge, len(pool), block=_BLOCK, stage="explain", n_jobs=n_jobs)
    rows = rng.permutation(np.concatenate(far))[:_EXAMINED]
    stray = rows[~_shuffled(X[rows], bases, offsets, refiner.noise, n_jobs)]
    return stray[:_LEFT_OVER]


def _shuffled(Y, bases, offsets, noise, n_jobs):
    """Whether most entries of a vector fit a subspace."""
    if Y.shape[1] > LONG:  # elimination would take long, and the search is sure
        options = {"max_starts": 0, "seed": 0, "n_jobs": n_jobs}
        return recover_everywhere(Y, bases, offsets, noise_scale=noise, **options).certain
    filled = fill_missing(Y, bases, offsets)
    order = np.argsort(distances_as_they_stand(filled, bases, offsets), axis=1)
    fits = np.zeros(len(Y), dtype=bool)
    for position in range(len(bases)):
        rest = np.flatnonzero(~fits)
        for k in np.unique(order[rest, position]):
            rows = rest[order[rest, position] == k]
            fits[rows] = _mostly_fits(Y[rows] - offsets[k], bases[k], noise, n_jobs)
    return fits


def _mostly_fits(Y, basis, noise, n_jobs):
    schedule = elimination_schedule(*basis.shape, retain_ratio=0.5, max_steps=50)
    coefficients, _, _ = eliminate(Y, basis, schedule, stage="classify", n_jobs=n_jobs)
    residual = np.abs(Y - coefficients @ basis.T)
    residual[np.isnan(residual)] = np.inf
    residual.sort(axis=1)
    observed = np.sum(np.isfinite(residual), axis=1)
    kept = np.maximum(observed - schedule.sum(), 1)
    squares = np.cumsum(np.where(np.isfinite(residual), residual, 0.0) ** 2, axis=1)
    typical = np.sqrt(squares[np.arange(len(Y)), kept - 1] / kept)
    return typical <= _WITHIN_NOISE * noise


def _fit_left_over(X, noise, given, rounding, missing):
    """Bases and offsets of the subspaces of left-over vectors; None if there are none."""
    rank = given.rank if np.ndim(given.rank) == 0 else None
    given = replace(given, contamination="auto", rank=rank)
    for count in (None, 1):  # few vectors may fall into clusters that are too small
        learner = Learner(
            X, replace(given, n_subspaces=count), merge=True, max_noise=_SAME_NOISE * noise
        )
        try:
            refiner = learner.settle(learner.start()[1])
        except ValueError:  # nothing in common
            continue
        good = _well_founded(X, refiner, noise, rounding)[: int(min(missing, len(X)))]
        if len(good) > 0:
            parts = refiner.subspaces
            return [parts.bases[k] for k in good], [parts.offsets[k] for k in good]
    return None


def _well_founded(X, refiner, noise, rounding):
    """Subspaces with more members, at the known noise, than chance gives them; largest first."""
    filled = fill_missing(X, refiner.subspaces.bases, refiner.subspaces.offsets)
    distances = relative_distances(filled, refiner.subspaces, refiner.labels, X.shape[1])
    ranks = np.array(refiner.ranks)
    near = distances <= clean_limit(noise, X.shape[1] - ranks, rounding)
    counts = np.sum(near & (refiner.labels[:, None] == np.arange(len(ranks))), axis=0)
    good = np.flatnonzero(counts > 2 * ranks + 1)
    return good[np.argsort(-counts[good], kind="stable")]


def _settle_together(X, refiner, added, given, rounding):
    """Refine old and new subspaces on the exemplars and the left-over vectors."""
    bases = refiner.subspaces.bases + added[0]
    offsets = refiner.subspaces.offsets + added[1]
    distances = distances_as_they_stand(X, bases, offsets)
    near = distances.min(axis=1) <= refiner.limit()
    together = Refiner(
        X,
        np.where(near, distances.argmin(axis=1), -1),
        [basis.shape[1] for basis in bases],
        estimate_rank=given.rank is None,
        merge=True,
        method=given.basis,
        affine=given.affine,
        rounding=rounding,
        max_noise=_SAME_NOISE * refiner.noise,
    )
    together.settle()
    return together


def _fit_to_all(X, refiner, given):
    """One step of subspace iteration over all vectors near a subspace; also returns how many."""
    bases, offsets = refiner.subspaces.bases, refiner.subspaces.offsets

    def accumulate(start, stop):
        block = X[start:stop]
        distances = distances_as_they_stand(block, bases, offsets)
        nearest = distances.argmin(axis=1)
        near = (distances.min(axis=1) <= refiner.limit()) & ~has_no_order(block)
        filled = fill_missing(block, bases, offsets)
        sums = []
        for k, basis in enumerate(bases):
            members = filled[near & (nearest == k)]
            scores = members @ basis
            sums.append((len(members), members.sum(axis=0), scores.sum(axis=0), members.T @ scores))
        return sums

    blocks = map_blocks(accumulate, len(X), block=_BLOCK, stage="fit", n_jobs=given.n_jobs)
    fitted = []
    for k, (basis, offset) in enumerate(zip(bases, offsets, strict=True)):
        count, total, total_scores, moment = (
            sum(parts) for parts in zip(*(block[k] for block in blocks), strict=True)
        )
        if count <= 2 * basis.shape[1]:
            fitted.append((basis, offset, count))
            continue
        centre = total / count if given.affine else np.zeros(len(basis))
        basis = np.linalg.qr(moment - np.outer(centre, total_scores))[0]
        for _ in range(2):  # twice is enough: the first pass leaves rounding
            centre = centre - basis @ (basis.T @ centre)
        fitted.append((basis, centre, count))
    new_bases, new_offsets, sizes = zip(*fitted, strict=True)
    return list(new_bases), list(new_offsets), np.array(sizes)


def _noise_and_limit(X, bases, offsets, sizes, limit, rounding):
    """Noise of the vectors near a subspace, and the distance of clean ones that follows."""
    distances = distances_as_they_stand(X, bases, offsets).min(axis=1)
    ranks = np.array([basis.shape[1] for basis in bases])
    noise = noise_level(distances[distances <= limit], X.shape[1] - int(np.median(ranks)))
    inflation = np.sqrt(1.0 + 2.0 * np.max(ranks / np.maximum(sizes, 1)))
    return noise, inflation * clean_limit(noise, X.shape[1] - ranks.max(), rounding)
