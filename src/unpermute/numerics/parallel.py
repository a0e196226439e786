"""Blocks of vectors on threads, with the same arithmetic for any number of them."""

import functools

from joblib import Parallel, delayed
from threadpoolctl import ThreadpoolController

from unpermute._progress import report

__all__ = ["map_blocks", "one_blas_thread"]


def map_blocks(function, n_vectors, *, block, stage, n_jobs=None):
    """Call ``function(start, stop)`` for every block of vectors and return the results in order.

    The blocks are fixed and BLAS runs on one thread inside them, so nothing depends on `n_jobs`:
    nested threads would fight for the cores, and would change the rounding. The functions called
    must release the GIL to gain from threads (numba kernels with ``nogil=True``, BLAS).
    """
    starts = range(0, n_vectors, block)
    tasks = (delayed(function)(start, min(start + block, n_vectors)) for start in starts)
    results = []
    with one_blas_thread():
        for result in Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator")(tasks):
            results.append(result)
            report(stage, min(len(results) * block, n_vectors), n_vectors)
    return results


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
