r"""LSRF: least squares with recursive filtration.

.. math:: \hat x = \arg\min_x \|y_K - U_K x\|_2, \qquad
          K \leftarrow K \setminus \{\arg\max_{i \in K} |y_i - (U\hat x)_i|\},

until r + 1 entries remain or the remaining ones fit exactly; entries without which the others would
not determine x̂ are kept. Choose it when most entries are in place and the rank is small; it uses
neither the values of the entries it drops nor the noise level. Numbers of equations in the comments
are those of Xie & Fan.

References
----------
Xie & Fan, "Multi-subspace matrix recovery from permuted data", AAAI 2025, step 4.
Yao, Peng & Tsakiris, "Unlabeled principal component analysis", NeurIPS 2021.
"""

import numpy as np

from unpermute.numerics.elimination import eliminate
from unpermute.recover._problem import RecoverySolution

__all__ = ["lsrf"]


def lsrf(problem):
    """Solve a :class:`RecoveryProblem`; converged where the kept entries determine x̂."""
    n_features, rank = problem.basis.shape
    # y = π U x, Eq. (8): Eqs. (6) and (7) in turn with m_i = 1, until r + 1 entries remain.
    one_by_one = np.ones(max(n_features - rank - 1, 0), dtype=np.int64)
    coefficients, _, determined = eliminate(
        problem.centred, problem.basis, one_by_one, stage="recover", n_jobs=problem.n_jobs
    )
    return RecoverySolution(coefficients, determined)
