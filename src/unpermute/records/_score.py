r"""The log-likelihood of records as they stand, on one scale whatever cells are missing.

.. math:: L = \log t_\nu(z_S) - \sum_{j \in S} \log t_\nu(z_j) + \sum_j \log p_j(x_j)

with S the numbers and dates of the record that take part in the joint distribution. Unlike the
likelihood of a search, which compares orders of the same cells, it keeps all constants.
"""

import numpy as np
from scipy.special import gammaln

from unpermute.records._cells import DATE
from unpermute.records._model import place_cells

__all__ = ["score_records"]


def score_records(known, cells):
    """Return the log-likelihood of every record; larger fits the model of clean records better.

    Parameters
    ----------
    known : KnownRecords
        What was learned from a table.
    cells : Cells
        Records with the same columns.

    Returns
    -------
    ndarray of shape (n,)
    """
    model = known.model
    placed = place_cells(model, cells)
    joint, columns = model.joint, np.arange(cells.shape[1])
    total = placed.log_p[placed.codes, columns].sum(axis=1)
    z = placed.z[placed.codes, columns] - joint.location[-1]
    seen = (placed.kinds[placed.codes] <= DATE) & joint.used
    scatter = np.linalg.inv(joint.precision[-1])
    for i, here in enumerate(seen):
        if here.sum() > 1:
            total[i] += _dependence(z[i, here], scatter[np.ix_(here, here)], joint.degrees)
    return model.trust * total


def _dependence(z, scatter, nu):
    """Return what Student's t says of cells together beyond what it says of each."""
    together = _log_t(np.linalg.solve(scatter, z) @ z, len(z), nu)
    together -= 0.5 * np.linalg.slogdet(scatter)[1]
    variances = np.diag(scatter)
    alone = _log_t(z**2 / variances, 1, nu) - 0.5 * np.log(variances)
    return together - alone.sum()


def _log_t(q, m, nu):
    constant = gammaln((nu + m) / 2) - gammaln(nu / 2) - 0.5 * m * np.log(nu * np.pi)
    return constant - 0.5 * (nu + m) * np.log1p(q / nu)
