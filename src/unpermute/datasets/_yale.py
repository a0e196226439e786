"""Faces under many lights: the images of one person lie near a subspace."""

import os
from io import BytesIO

import numpy as np
from sklearn.utils import Bunch

from unpermute._validation import validate_params
from unpermute.datasets._files import read_verified

__all__ = ["load_yale_faces"]

_FILE = "yaleb/yaleb_48x42.npz"
_SHA256 = "d85626000004a33624e83e0c6a21281cbf92baa114252e963c137d543f912ea9"
_SHAPE = (48, 42, 64, 38)
_SOURCE = (
    "The file holds the cropped images of the Extended Yale Face Database B (Georghiades, Belhumeur"
    " & Kriegman, 2001), reduced to 48 x 42 pixels: array I of shape (48, 42, 64, 38), array bad of"
    " shape (64, 38)"
)
_DESCR = """\
Extended Yale B
===============
64 grey images of each of 38 people, 48 x 42 pixels, one light each. The cropped images of the
Extended Yale Face Database B (Georghiades, Belhumeur & Kriegman, 2001; Lee, Ho & Kriegman, 2005),
reduced in size.

- The images of one person lie near a subspace of dimension 9 or less; the experiments use 8.
- 18 images are marked bad by the database itself, and a few are nearly black.
"""


@validate_params({"data_home": [str, os.PathLike, None]}, prefer_skip_nested_validation=True)
def load_yale_faces(*, data_home=None):
    """Load 64 images of each of 38 faces (Extended Yale B).

    The file is not part of the package: it is read from ``yaleb/yaleb_48x42.npz`` inside
    `data_home`, and its checksum is verified.

    Parameters
    ----------
    data_home : str, path-like or None, default=None
        Folder that holds the data. None: the environment variable ``UNPERMUTE_DATA`` names it.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        The images and what is known about them:

        data : ndarray of shape (2432, 2016)
            Grey values from 0 to 255, one image per row, sorted by person.
        images : ndarray of shape (2432, 48, 42)
            The same values as images.
        target : ndarray of shape (2432,)
            Number of the person, from 0.
        bad : ndarray of bool of shape (2432,)
            Images that the database marks as bad.
        DESCR : str
            Where the data come from and what is special about them.

    Raises
    ------
    FileNotFoundError
        If the file is not there, or no folder is named.
    ValueError
        If the file is not the expected one.

    References
    ----------
    .. [1] Georghiades, A., Belhumeur, P. and Kriegman, D. (2001). From few to many: illumination
       cone models for face recognition under variable lighting and pose. IEEE Transactions on
       Pattern Analysis and Machine Intelligence 23(6), 643-660. https://doi.org/10.1109/34.927464

    Examples
    --------
    >>> from unpermute.datasets import load_yale_faces
    >>> faces = load_yale_faces(data_home="my_data")  # doctest: +SKIP
    >>> faces.images.shape  # doctest: +SKIP
    (2432, 48, 42)
    """
    content = read_verified(_FILE, _SHA256, _SOURCE, data_home)
    with np.load(BytesIO(content)) as arrays:
        pixels, bad = arrays["I"], arrays["bad"]
    if pixels.shape != _SHAPE:
        raise ValueError(
            f"{_FILE} holds images of shape {pixels.shape} instead of {_SHAPE}. {_SOURCE}; get it"
            " again."
        )
    height, width, n_images, n_people = _SHAPE
    images = np.ascontiguousarray(pixels.transpose(3, 2, 0, 1), dtype=np.float64)
    images = images.reshape(n_people * n_images, height, width)
    return Bunch(
        data=images.reshape(len(images), -1),
        images=images,
        target=np.repeat(np.arange(n_people), n_images),
        bad=bad.T.ravel(),
        DESCR=_DESCR,
    )
