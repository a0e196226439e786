"""Checks at the public door: one clear sentence naming parameter, value and what is allowed.

The only module that touches scikit-learn's private validation helpers.
"""

from numbers import Integral, Real

import numpy as np
from sklearn.base import _fit_context as fit_context
from sklearn.utils import check_array
from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    Options,
    StrOptions,
    validate_params,
)
from sklearn.utils.validation import validate_data

__all__ = [
    "HasMethods",
    "Integral",
    "Interval",
    "Options",
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


def check_vectors(X, *, name="X", allow_nan=False, min_vectors=1, min_features=1):
    """Validate a matrix of vectors (rows) and return it as C-ordered float64, never changed."""
    X = check_array(
        _refuse_text(X, name),
        dtype=np.float64,
        order="C",
        ensure_all_finite="allow-nan" if allow_nan else True,
        ensure_min_samples=min_vectors,
        ensure_min_features=min_features,
        input_name=name,
    )
    return _writeable(X)


def validate_vectors(estimator, X, *, reset=True, min_vectors=1, min_features=1, allow_nan=False):
    """Like :func:`check_vectors` for an estimator: also keeps or compares ``n_features_in_``."""
    X = validate_data(
        estimator,
        _refuse_text(X, "X"),
        reset=reset,
        dtype=np.float64,
        order="C",
        ensure_all_finite="allow-nan" if allow_nan else True,
        ensure_min_samples=min_vectors,
        ensure_min_features=min_features,
    )
    return _writeable(X)


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
    basis = check_array(basis, dtype=np.float64, order="C", input_name=name)
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


def _refuse_text(X, name):
    """Refuse text and dates at once, with a sentence that names them."""
    if isinstance(X, (list, tuple)):
        X = np.asarray(X)
    dtype = getattr(X, "dtype", None)
    if getattr(dtype, "kind", None) in tuple("USmM"):
        raise ValueError(f"{name} must hold numbers, but has dtype {dtype}.")
    return X
