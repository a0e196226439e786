"""The two tables of the re-identification experiments."""

import os
from io import BytesIO

import numpy as np
from scipy.io import loadmat
from sklearn.datasets import load_breast_cancer
from sklearn.utils import Bunch

from unpermute._validation import validate_params
from unpermute.datasets._files import read_verified

__all__ = ["load_benign_tumours", "load_student_scores"]

_SCORES_FILE = "student_scores/scores.mat"
_SCORES_SHA256 = "d2405e6f7b15516c83b5177655d15051e0deabf3d779ca46afe3063d3d6fd414"
_SCORES_SHAPE = (707, 14)
_SCORES_SOURCE = (
    "The file is published with Unlabeled PCA (Yao, Peng & Tsakiris, NeurIPS 2021) under the MIT"
    " licence"
)
_SCORES_NAMES = [
    f"exam{exam}_{part}"
    for exam in (1, 2)
    for part in ("test1", "test2", "test3", "test4", "test5", "test6", "total")
]
_SCORES_DESCR = """\
Student scores
==============
Scores of 707 students (rows) in 14 columns, none missing. Published with Unlabeled PCA (Yao, Peng
& Tsakiris, NeurIPS 2021) under the MIT licence. The file names no columns; the names used here
say what the values show: two exams of six tests each, followed by their total.

- Columns 7 and 14 are the exact sums of the six columns before them.
- The rows are sorted by column 7, highest first.
- Many values tie: scores are whole or half points. Compare by value, not by position.

In the re-identification experiment the vectors are the columns, each centred and scaled to length
1; columns 8 to 14 are shuffled, and the columns are close to a subspace of rank 3.
"""
_TUMOURS_DESCR = """\
Benign tumours
==============
30 measurements of the cell nuclei of 357 benign breast tumours (rows), none missing: the rows of
scikit-learn's breast cancer data (Breast Cancer Wisconsin, Diagnostic) with target 1.

In the re-identification experiment the vectors are the columns, each centred and scaled to length
1; every second column is shuffled, and the columns are close to a subspace of rank 4.
"""


@validate_params({"data_home": [str, os.PathLike, None]}, prefer_skip_nested_validation=True)
def load_student_scores(*, data_home=None):
    """Load the scores of 707 students in two exams of six tests each.

    The file is not part of the package: it is published with [1]_ under the MIT licence, and read
    from ``student_scores/scores.mat`` inside `data_home`. Its checksum is verified.

    Parameters
    ----------
    data_home : str, path-like or None, default=None
        Folder that holds the data. None: the environment variable ``UNPERMUTE_DATA`` names it.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        The table and what is known about it:

        data : ndarray of shape (707, 14)
            The scores, one row per student.
        feature_names : list of str
            Names of the columns.
        DESCR : str
            Where the data come from and what is special about them.

    Raises
    ------
    FileNotFoundError
        If the file is not there, or no folder is named.
    ValueError
        If the file is not the published one.

    References
    ----------
    .. [1] Yao, Peng & Tsakiris, "Unlabeled principal component analysis", NeurIPS 2021.

    Examples
    --------
    >>> from unpermute.datasets import load_student_scores
    >>> scores = load_student_scores(data_home="my_data")  # doctest: +SKIP
    >>> scores.data.shape  # doctest: +SKIP
    (707, 14)
    """
    content = read_verified(_SCORES_FILE, _SCORES_SHA256, _SCORES_SOURCE, data_home)
    data = np.ascontiguousarray(loadmat(BytesIO(content))["scoreM"], dtype=np.float64)
    if data.shape != _SCORES_SHAPE:
        raise ValueError(
            f"{_SCORES_FILE} holds a table of shape {data.shape} instead of {_SCORES_SHAPE}."
            f" {_SCORES_SOURCE}; get it again from there."
        )
    return Bunch(data=data, feature_names=list(_SCORES_NAMES), DESCR=_SCORES_DESCR)


def load_benign_tumours():
    """Load the measurements of 357 benign breast tumours.

    These are the rows of :func:`sklearn.datasets.load_breast_cancer` with target 1; nothing is
    downloaded.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        The table and what is known about it:

        data : ndarray of shape (357, 30)
            The measurements, one row per tumour.
        feature_names : list of str
            Names of the columns.
        DESCR : str
            Where the data come from and how experiments use them.

    Examples
    --------
    >>> from unpermute.datasets import load_benign_tumours
    >>> load_benign_tumours().data.shape
    (357, 30)
    """
    source = load_breast_cancer()
    return Bunch(
        data=np.ascontiguousarray(source.data[source.target == 1], dtype=np.float64),
        feature_names=source.feature_names.tolist(),
        DESCR=_TUMOURS_DESCR,
    )
