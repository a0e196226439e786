"""Name the simple ways in which records get damaged."""

import numpy as np

from unpermute.records._prior import moves_of

__all__ = [
    "ANOTHER_ORDER",
    "PERMUTED",
    "RUN",
    "SCATTERED",
    "SHIFTED",
    "SWAPPED",
    "name_causes",
]

SWAPPED = "two fields swapped"
SHIFTED = "tail shifted by one"
ANOTHER_ORDER = "another column order"
PERMUTED = "fields permuted"
RUN = "two fields swapped in a run of rows"
SCATTERED = "two fields swapped in many rows"


def name_causes(permutations):
    """Cause of every record, "" where nothing moves.

    Parameters
    ----------
    permutations : ndarray of shape (n, p)
        What puts the records back in order.

    Returns
    -------
    ndarray of str of shape (n,)
    """
    n_moved, shifted = moves_of(permutations)
    names = np.select(
        [n_moved == 0, n_moved == 2, shifted], ["", SWAPPED, SHIFTED], default=PERMUTED
    )
    return names.astype(object)
