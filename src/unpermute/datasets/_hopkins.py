"""Points tracked through video: those of one rigid motion lie in a subspace."""

import hashlib
import os
from io import BytesIO

import numpy as np
from scipy.io import loadmat
from sklearn.utils import Bunch

from unpermute._validation import validate_params
from unpermute.datasets._files import find, verify

__all__ = ["load_hopkins155"]

_FOLDER = "Hopkins155"
# Of the lines "NAME checksum" of all files NAME_truth.mat, sorted.
_SHA256 = "f865850708cd358c57e70fe94d2ac0c0ec3952600f0f96c05e3e4d2c8ead9533"
_N_SEQUENCES = 156
_SOURCE = (
    "The folder is the Hopkins 155 motion segmentation database (Tron & Vidal, 2007,"
    " http://www.vision.jhu.edu/data/hopkins155), with one file NAME/NAME_truth.mat for each of"
    f" {_N_SEQUENCES} sequences"
)
_DESCR = """\
Hopkins 155
===========
156 video sequences in which points were tracked: 120 with 2 motions, 35 with 3 and 1 with 5
(Tron & Vidal, 2007). A vector is the path of one point, its x and y coordinates in all frames in
normalised units. The paths of one rigid motion seen by an affine camera lie in a linear subspace
of dimension 4.
"""


@validate_params({"data_home": [str, os.PathLike, None]}, prefer_skip_nested_validation=True)
def load_hopkins155(*, data_home=None):
    """Load the paths of points in 156 video sequences (Hopkins 155).

    The files are not part of the package: they are read from ``Hopkins155/NAME/NAME_truth.mat``
    inside `data_home`. One checksum of all of them is verified.

    Parameters
    ----------
    data_home : str, path-like or None, default=None
        Folder that holds the data. None: the environment variable ``UNPERMUTE_DATA`` names it.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        The sequences and what is known about them:

        sequences : dict of str to :class:`~sklearn.utils.Bunch`
            By name, in sorted order: ``data``, an ndarray of shape (n_points, 2 * n_frames), one
            path per row, x and y of every frame; ``target``, the motion of every point, from 0;
            ``n_motions``.
        DESCR : str
            Where the data come from and what is special about them.

    Raises
    ------
    FileNotFoundError
        If the folder is not there, or none is named.
    ValueError
        If the files are not the published ones.

    References
    ----------
    .. [1] Tron, R. and Vidal, R. (2007). A benchmark for the comparison of 3-D motion segmentation
       algorithms. CVPR. https://doi.org/10.1109/CVPR.2007.382974

    Examples
    --------
    >>> from unpermute.datasets import load_hopkins155
    >>> motions = load_hopkins155(data_home="my_data")  # doctest: +SKIP
    >>> motions.sequences["head"].data.shape  # doctest: +SKIP
    (99, 120)
    """
    folder = find(_FOLDER, _SOURCE, data_home)
    paths = sorted(folder.glob("*/*_truth.mat"))
    if len(paths) != _N_SEQUENCES:
        raise ValueError(
            f"{_FOLDER} holds {len(paths)} sequences instead of {_N_SEQUENCES}. {_SOURCE}; get it"
            " again from there."
        )
    contents = {path.name.removesuffix("_truth.mat"): path.read_bytes() for path in paths}
    verify(_FOLDER, _checksum(contents), _SHA256, _SOURCE)
    sequences = {name: _read_sequence(contents[name]) for name in sorted(contents)}
    return Bunch(sequences=sequences, DESCR=_DESCR)


def _checksum(contents):
    """Checksum of the checksums: one constant for many files."""
    lines = (f"{name} {hashlib.sha256(contents[name]).hexdigest()}" for name in sorted(contents))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _read_sequence(content):
    file = loadmat(BytesIO(content))
    coordinates = file["x"][:2]  # the third is 1
    n_points = coordinates.shape[1]
    target = file["s"].ravel().astype(np.int64) - 1
    return Bunch(
        data=np.ascontiguousarray(
            coordinates.transpose(1, 2, 0).reshape(n_points, -1), dtype=float
        ),
        target=target,
        n_motions=int(target.max()) + 1,
    )
