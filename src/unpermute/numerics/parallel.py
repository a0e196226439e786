"""Blocks of vectors on threads or workers, with the same arithmetic for any number of them."""

import functools
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar

from threadpoolctl import ThreadpoolController

from unpermute._progress import report

__all__ = ["map_blocks", "map_by", "n_threads", "one_blas_thread"]

_map: ContextVar[Callable[[Callable, list[tuple[int, int]]], Iterable] | None] = ContextVar(
    "unpermute_map", default=None
)
# Whether this thread is inside of a block, where BLAS has one thread already: asking again takes a
# tenth of a millisecond, and small blocks are many.
_inside: ContextVar[bool] = ContextVar("unpermute_inside", default=False)


@contextmanager
def map_by(function: Callable[[Callable, list[tuple[int, int]]], Iterable]) -> Iterator[None]:
    """Let ``function(work, ranges)`` yield the results of pure work, in order, wherever it runs.

    Examples
    --------
    >>> from itertools import starmap
    >>> from unpermute.numerics.parallel import map_blocks, map_by
    >>> with map_by(starmap):
    ...     map_blocks(range, 5, block=2, stage="count", pure=True)
    [range(0, 2), range(2, 4), range(4, 5)]
    """
    token = _map.set(function)
    try:
        yield
    finally:
        _map.reset(token)


def map_blocks(function, n_vectors, *, block, stage, n_jobs=None, pure=False):
    """Call ``function(start, stop)`` for every block of vectors and return the results in order.

    The blocks are fixed and BLAS runs on one thread inside them, so nothing depends on `n_jobs`:
    nested threads would fight for the cores, and would change the rounding. The functions called
    must release the GIL to gain from threads (numba kernels with ``nogil=True``, BLAS). A `pure`
    function changes nothing but returns everything: :func:`map_by` may send it to other processes.
    """
    ranges = [(start, min(start + block, n_vectors)) for start in range(0, n_vectors, block)]
    there = _map.get() if pure and len(ranges) > 1 else None
    results = []
    with _enter(), _threads(min(n_threads(n_jobs), len(ranges))) as here:
        for result in (there or here)(function, ranges):
            results.append(result)
            report(stage, min(len(results) * block, n_vectors), n_vectors)
    return results


def n_threads(n_jobs):
    """Return the number of threads, as joblib counts them."""
    if n_jobs in (None, 1) and "joblib" not in sys.modules:
        return 1  # nobody can have told joblib otherwise, and its import takes a tenth of a second
    from joblib import effective_n_jobs

    return effective_n_jobs(n_jobs)


@contextmanager
def _enter():
    """One thread for BLAS, unless it is so already."""
    if _inside.get():
        yield
        return
    token = _inside.set(True)
    try:
        with one_blas_thread():
            yield
    finally:
        _inside.reset(token)


@contextmanager
def _threads(count):
    """Give a function that yields the results of work on many ranges, in order."""
    if count <= 1:
        yield itertools.starmap
        return
    # joblib's own threads are asked every 10 ms whether they are ready: too long for many calls.
    pool = ThreadPoolExecutor(count, initializer=_inside.set, initargs=(True,))
    try:
        yield lambda function, ranges: pool.map(lambda bounds: function(*bounds), ranges)
    finally:
        pool.shutdown(cancel_futures=True)


def one_blas_thread():
    """Context in which BLAS and OpenMP run on one thread.

    For many small products and decompositions: there, waking threads costs more than it gains, and
    ten times more when other processes compete for the cores.
    """
    return _threadpools().limit(limits=1)


@functools.cache
def _threadpools():
    # Finding the loaded BLAS libraries takes milliseconds: once is enough.
    return ThreadpoolController()
