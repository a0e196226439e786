"""Checks of parameters: one clear sentence that names parameter, value and what is allowed.

The only module that touches scikit-learn's private validation helpers.
"""

import datetime
import functools
import re
from contextlib import contextmanager
from numbers import Integral, Real

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils import check_array
from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    StrOptions,
    validate_params,
)
from sklearn.utils.validation import validate_data

from unpermute._progress import show_progress

__all__ = [
    "HasMethods",
    "Integral",
    "Interval",
    "Real",
    "StrOptions",
    "check_basis",
    "check_n_subspaces",
    "check_option",
    "check_rank",
    "check_vectors",
    "fit_context",
    "resolve_contamination",
    "validate_params",
    "validate_vectors",
]

_TEXT = (str, bytes)
_DATES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)


def fit_context(*, prefer_skip_nested_validation):
    """Check the parameters before a method of an estimator, and draw progress if `verbose`."""
    checked = _fit_context(prefer_skip_nested_validation=prefer_skip_nested_validation)

    def decorate(method):
        run = checked(method)

        @functools.wraps(method)
        def fit(estimator, *args, **kwargs):
            with show_progress(getattr(estimator, "verbose", 0)):
                return run(estimator, *args, **kwargs)

        return fit

    return decorate


def check_vectors(X, *, name="X", allow_nan=False, min_vectors=1, min_features=1):
    """Validate a matrix of vectors (rows) and return it as C-ordered float64, never changed."""
    X = _refuse_what_is_no_matrix(X, name)
    with _naming(name):
        X = check_array(
            X,
            dtype=np.float64,
            order="C",
            ensure_all_finite="allow-nan" if allow_nan else True,
            ensure_min_samples=min_vectors,
            ensure_min_features=min_features,
            input_name=name,
        )
    return _writeable(X)


def validate_vectors(
    estimator, X, y="no_validation", *, reset=True, min_vectors=1, min_features=1, allow_nan=False
):
    """Like :func:`check_vectors` for an estimator: also keeps or compares ``n_features_in_``.

    Returns `X`, or `X` and `y` if `y` is given (None counts: scikit-learn says that it is needed).
    """
    with_y = not isinstance(y, str) or y != "no_validation"
    X = _refuse_what_is_no_matrix(X, "X")
    with _naming("X"):
        checked = validate_data(
            estimator,
            X,
            **({"y": y} if with_y else {}),
            reset=reset,
            dtype=np.float64,
            order="C",
            ensure_all_finite="allow-nan" if allow_nan else True,
            ensure_min_samples=min_vectors,
            ensure_min_features=min_features,
        )
    return (_writeable(checked[0]), checked[1]) if with_y else _writeable(checked)


def check_option(name, value, allowed):
    """Return ``allowed[value]``, or say which values there are."""
    if isinstance(value, str) and value in allowed:
        return allowed[value]
    options = ", ".join(repr(option) for option in sorted(allowed))
    raise ValueError(f"{name}={value!r} is not known; it must be one of {options}.")


def check_rank(rank, n_features, n_subspaces=None):
    """Check `rank` (None, an integer, or one integer per subspace) against the data."""
    if rank is None:
        return
    ranks = np.atleast_1d(np.asarray(rank))
    if ranks.ndim != 1 or not np.issubdtype(ranks.dtype, np.integer):
        raise ValueError(f"rank={rank!r} must be None, an integer, or one integer per subspace.")
    if np.ndim(rank) == 1 and n_subspaces is not None and len(ranks) != n_subspaces:
        raise ValueError(
            f"rank={rank!r} names {len(ranks)} subspaces, but there are {n_subspaces};"
            " give one integer, or one per subspace."
        )
    if ranks.min() < 1 or ranks.max() >= n_features:
        raise ValueError(
            f"rank={rank!r} must be at least 1 and below the number of features, {n_features}:"
            " a subspace that fills the whole space explains every vector, shuffled or not."
        )


def check_n_subspaces(n_subspaces, n_vectors, name="n_subspaces"):
    """Check that there are at least as many vectors as subspaces."""
    if n_subspaces is not None and n_subspaces > n_vectors:
        raise ValueError(
            f"{name}={n_subspaces} must not exceed the number of vectors, {n_vectors}."
        )


def resolve_contamination(contamination, n_vectors):
    """Translate a share (float) or a count (int) of permuted vectors into a count."""
    if isinstance(contamination, bool | np.bool_):
        raise ValueError(
            f'contamination={contamination} must be "auto", a share of the vectors in [0, 1), or a'
            " count of them."
        )
    if isinstance(contamination, Integral):
        if contamination >= n_vectors:
            raise ValueError(
                f"contamination={contamination} counts permuted vectors and must be below the"
                f" number of vectors, {n_vectors}."
            )
        return int(contamination)
    return min(round(contamination * n_vectors), n_vectors - 1)


def check_basis(basis, n_features, name="basis"):
    """Validate one orthonormal basis of shape ``(n_features, rank)``."""
    basis = check_vectors(basis, name=name)
    if basis.shape[0] != n_features:
        raise ValueError(
            f"{name} has {basis.shape[0]} rows, but the vectors have {n_features} features;"
            f" {name} must have shape (n_features, rank)."
        )
    check_rank(basis.shape[1], n_features)
    error = np.abs(basis.T @ basis - np.eye(basis.shape[1])).max()
    if error > 1e-6:
        raise ValueError(
            f"{name} must have orthonormal columns, but {name}ᵀ{name} is {error:.1e} away from the"
            " identity; orthonormalise it first, for instance with numpy.linalg.qr."
        )
    return basis


def _writeable(X):
    # numba compiles every kernel anew for read-only arrays, which costs more than a copy.
    return X if X.flags.writeable else X.copy()


@contextmanager
def _naming(name):
    """Put the name of the parameter before a message of scikit-learn that lacks it."""
    try:
        yield
    except (TypeError, ValueError) as error:
        message = str(error)
        if re.search(rf"\b(y|{re.escape(name)})\b", message):
            raise
        # The same kind of exception: scikit-learn's contract asks for a TypeError here and there.
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name} was refused: {message}") from error


def _refuse_what_is_no_matrix(X, name):
    """Refuse everything but a matrix of real numbers, in one sentence that names the parameter."""
    if X is None or isinstance(X, (*_TEXT, Real, dict)):
        raise ValueError(f"{name}={X!r} must be a matrix of numbers, one vector per row.")
    X = _from_lists(X, name)
    shape = getattr(X, "shape", None)
    if isinstance(shape, tuple) and len(shape) != 2:
        raise ValueError(
            f"{name} must be a matrix, one vector per row, but has shape {shape}. Reshape your data"
            f" with reshape(1, -1) if {name} is a single vector."
        )
    _refuse_text(X, name)
    return X


def _from_lists(X, name):
    if not isinstance(X, (list, tuple)):
        return X
    try:
        array = np.asarray(X)
        # NumPy turns numbers beside text into text; keep the original types for the message.
        return np.asarray(X, dtype=object) if array.dtype.kind in "US" else array
    except ValueError as error:
        raise ValueError(
            f"{name} must be a matrix of numbers: all its rows must have the same number of"
            " entries, and every entry must be one number."
        ) from error


def _refuse_text(X, name):
    for column, dtype, values in _columns(X):
        kind = getattr(dtype, "kind", "O")
        if kind == "c":
            raise ValueError(
                f"Complex data not supported: {name} must hold real numbers, but has dtype {dtype}."
            )
        where = name if column is None else f"column {column!r} of {name}"
        if kind in "mM":
            raise ValueError(f"{name} must hold numbers, but {where} holds dates ({dtype}).")
        if kind in "OUS":
            _refuse_text_values(np.asarray(values, dtype=object), where, name)


def _columns(X):
    """Yield name, dtype and values of every column that may hold something else than numbers."""
    dtypes, dtype = getattr(X, "dtypes", None), getattr(X, "dtype", None)
    if dtypes is not None and hasattr(X, "columns"):
        for column, column_dtype in zip(X.columns, dtypes, strict=True):
            if not _is_numeric(column_dtype):
                yield column, column_dtype, X[column]
    elif getattr(dtype, "kind", "O") in "mMc":
        yield None, dtype, X
    elif isinstance(X, np.ndarray) and X.dtype.kind in "OUS":
        for j in range(X.shape[1]):
            yield j, dtype, X[:, j]


def _is_numeric(dtype):
    kind = getattr(dtype, "kind", None)
    # polars' types have no kind but can be asked.
    return (
        dtype.is_numeric()
        if kind is None and hasattr(dtype, "is_numeric")
        else kind in list("biuf")
    )


def _refuse_text_values(values, where, name):
    for value in values:
        if isinstance(value, (*_TEXT, *_DATES)):
            what = "text" if isinstance(value, _TEXT) else "dates"
            raise ValueError(
                f"{name} must hold numbers, but {where} holds {what}, for instance {value!r}."
            )
