r"""LSRF: least squares with recursive filtration.

.. math:: \hat x = \arg\min_x \|y_K - U_K x\|_2, \qquad
          K \leftarrow K \setminus \{\arg\max_{i \in K} |y_i - (U\hat x)_i|\},

until r + 1 entries remain. Choose it when most entries are in place and the rank is small; it uses
neither the values of the entries it drops nor the noise level.

References
----------
Yao, Peng & Tsakiris, "Unlabeled principal component analysis", NeurIPS 2021.
"""

import numpy as np

from unpermute.numerics.elimination import eliminate

__all__ = ["lsrf"]


def lsrf(Y, basis, *, n_jobs=None):
    """Return the coefficients of every vector of `Y`, and whether each fit was determined."""
    n_features, rank = basis.shape
    one_by_one = np.ones(max(n_features - rank - 1, 0), dtype=np.int64)
    coefficients, _ = eliminate(Y, basis, one_by_one, stage="recover", n_jobs=n_jobs)
    return coefficients, np.sum(~np.isnan(Y), axis=1) >= rank
