"""Fit a model to more vectors than fit into memory: a sample, then what the sample missed."""

import logging
from contextlib import closing

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from unpermute._progress import report
from unpermute._validation import Integral
from unpermute.pmsdr import PMSDR
from unpermute.stream._open import check_count, open_source
from unpermute.stream._work import FindUnexplained, Pick, run_here, without_training_data

__all__ = ["fit", "fit_with"]

logger = logging.getLogger("unpermute")

# Share of the sample that may be added from what it did not explain.
_ADDED = 0.2
# Fewer unexplained vectors than this many times the largest rank make no subspace.
_ENOUGH = 2
# A fit that explains more only because it allows more noise is no better.
_MORE_NOISE = 1.5


def fit(
    model, source, *, max_vectors=50_000, block_size=10_000, columns=None, random_state=None
):  # fmt: skip
    """Fit a model to a source of any size.

    1. A uniform sample of at most `max_vectors` vectors is drawn in one pass, and the model is
       fitted to it.
    2. In a second pass, further vectors are read until about `max_vectors` were seen that lie near
       no subspace. Those that the model cannot recover either may belong to a subspace with few
       vectors in the sample: they are added to it, up to a fifth of its size, and the model is
       fitted anew. That fit is kept if it leaves fewer vectors unexplained.

    The second pass is left out if the sample is everything, for other models than PMSDR, and if
    `contamination` is given, because it then says how many vectors are to be unexplained. The
    sample does not depend on `block_size`.

    Parameters
    ----------
    model : estimator
        A :class:`unpermute.PMSDR`, or anything with ``fit``. It is changed.
    source : str, path, ndarray, memmap, zarr.Array or pyarrow.dataset.Dataset
        The vectors; see :func:`read_blocks`.
    max_vectors : int, default=50_000
        Size of the sample; it must fit into memory.
    block_size : int, default=10_000
        Vectors that are read at once.
    columns : sequence of str or int, default=None
        The columns that make the vectors; see :func:`read_blocks`.
    random_state : int, RandomState instance or None, default=None
        Seeds the sample; None: as the model.

    Returns
    -------
    model : estimator
        The same model. Attributes with one entry per vector (``labels_``, ...) refer to the sample.

    Examples
    --------
    >>> from unpermute import PMSDR, stream
    >>> from unpermute.datasets import make_permuted_subspaces
    >>> X = make_permuted_subspaces(2, 300, 20, 2, outlier_ratio=0.3, random_state=0).X
    >>> stream.fit(PMSDR(2, 2, random_state=0), X, max_vectors=200).n_subspaces_
    2
    """
    return fit_with(
        run_here,
        model,
        open_source(source, columns),
        max_vectors=max_vectors,
        block_size=block_size,
        random_state=random_state,
    )


def fit_with(run, model, source, *, max_vectors, block_size, random_state):
    """Fit a model, with the passes over the source made by `run`.

    Parameters
    ----------
    run : callable
        ``run(source, task, blocks)`` calls ``task(block, start)`` on every range ``(start, stop)``
        of `blocks` and yields ``(start, result)``, in any order.
    model : estimator
        A :class:`unpermute.PMSDR`, or anything with ``fit``. It is changed.
    source : Source
        The vectors.
    max_vectors, block_size, random_state
        As for :func:`fit`.

    Returns
    -------
    model : estimator
        The same model.
    """
    check_count("max_vectors", max_vectors, least=2)
    check_count("block_size", block_size)
    if source.n_vectors == 0:
        raise ValueError("source holds no vectors to learn from.")
    partial = source.n_vectors > max_vectors
    contamination = getattr(model, "contamination", "auto")
    if partial and isinstance(contamination, Integral):
        raise ValueError(
            f"contamination={contamination} counts vectors, but the model sees only a sample of"
            f" {max_vectors} of {source.n_vectors}; give a share below 1, or raise max_vectors."
        )
    if random_state is None:
        random_state = getattr(model, "random_state", None)
    seeds = check_random_state(random_state).randint(2**31 - 1, size=2)
    blocks = [
        (start, min(start + block_size, source.n_vectors))
        for start in range(0, source.n_vectors, block_size)
    ]
    sample = _draw(run, source, blocks, min(max_vectors, source.n_vectors), int(seeds[0]))
    model.fit(sample)
    if partial and isinstance(model, PMSDR) and contamination == "auto":
        unexplained = _find_unexplained(run, model, source, blocks, max_vectors, int(seeds[1]))
        _fit_again(model, sample, unexplained)
    if source.names is not None:
        model.feature_names_in_ = np.array(source.names, dtype=object)
    return model


def _draw(run, source, blocks, size, seed):
    """Return a uniform sample, in the order of the source."""
    generator = np.random.default_rng(seed)
    rows = np.sort(generator.choice(source.n_vectors, size, replace=False, shuffle=False))
    counts = np.diff(np.searchsorted(rows, [0] + [stop for _, stop in blocks]))
    needed = [block for block, count in zip(blocks, counts, strict=True) if count]
    return np.concatenate(_in_order(run, source, Pick(rows), needed, "sample"))


def _find_unexplained(run, model, source, blocks, max_vectors, seed):
    """Return vectors that are near no subspace and not recovered, up to a share of the sample."""
    n_sampled = len(model.outlier_mask_)
    share = min(1.0, max_vectors / (max(model._n_unexplained, 1) / n_sampled * source.n_vectors))
    task = FindUnexplained(without_training_data(model), seed, share)
    found = _in_order(run, source, task, blocks, "look again")
    lots = np.concatenate([lots for lots, _ in found])
    least = np.sort(np.argsort(lots)[: int(_ADDED * max_vectors)])
    return np.concatenate([X for _, X in found])[least]


def _fit_again(model, sample, unexplained):
    """Fit to the unexplained vectors as well, and keep that fit if it explains more."""
    if len(unexplained) < _ENOUGH * max(model.ranks_):
        return
    other = clone(model).fit(np.concatenate([sample, unexplained]))
    before, after = model._n_unexplained + len(unexplained), other._n_unexplained
    better = after < before and other.noise_scale_ <= _MORE_NOISE * model.noise_scale_
    logger.debug(
        "fit again: %d instead of %d vectors unexplained, %d instead of %d subspaces: %s",
        *(after, before, other.n_subspaces_, model.n_subspaces_, "kept" if better else "dropped"),
    )
    if better:
        vars(model).update(vars(other))


def _in_order(run, source, task, blocks, stage):
    """Results of a task in the order of the blocks, whoever was ready first."""
    results, done, total = {}, 0, sum(stop - start for start, stop in blocks)
    sizes = {start: stop - start for start, stop in blocks}
    with closing(run(source, task, blocks)) as ready:
        for start, result in ready:
            results[start] = result
            done += sizes[start]
            report(stage, done, total)
    return [results[start] for start, _ in blocks]
