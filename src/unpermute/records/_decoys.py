"""Margins over decoys: does a record gain more by its own values than by those of others?

A record that is odd gains by many changes. The search is repeated with the values of other random
records coming in wherever a cell moves; the gain of the best of these decoys is subtracted.
"""

import numpy as np

from unpermute.records._model import search_placed

__all__ = ["margins"]


def margins(model, placed, gain, pool, *, n_decoys, seed, n_jobs, draws=None):
    """Return the gain of every record minus that of its best decoy.

    Parameters
    ----------
    model : RecordModel
        The model.
    placed : Placed
        The records.
    gain : ndarray of shape (n,)
        Their gains.
    pool : ndarray of int of shape (m, p)
        Words of the records that decoys are drawn from.
    n_decoys : int
        Decoys per record.
    seed : int
        Draws them.
    n_jobs : int or None
        Threads.
    draws : callable or None
        ``draws(k)`` gives the record of the pool that every record has for its k-th decoy; None:
        random ones.

    Returns
    -------
    ndarray of shape (n,)
    """
    rng = np.random.default_rng(seed)
    margin = np.full(len(gain), np.inf)
    for k in range(n_decoys if len(gain) and len(pool) else 0):
        decoys = pool[rng.integers(len(pool), size=len(gain)) if draws is None else draws(k)]
        best = search_placed(model, placed, decoys=decoys, n_jobs=n_jobs).gain
        margin = np.minimum(margin, gain - best)
    return margin
