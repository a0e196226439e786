"""How good a detection, a clustering, a classification or a recovery is; lower is better in all.

Errors over detected vectors look smaller the fewer vectors are detected: read
:func:`undetected_outlier_ratio` beside every other figure.
"""

import numpy as np
from scipy.optimize import linear_sum_assignment

from unpermute._validation import check_rank, check_vectors

__all__ = [
    "outlier_classification_error",
    "permutation_error_ratio",
    "recovery_error",
    "subspace_clustering_error",
    "undetected_outlier_ratio",
]


def undetected_outlier_ratio(outlier_mask, outlier_mask_pred):
    """Share of the permuted vectors that were not detected.

    Parameters
    ----------
    outlier_mask : array-like of bool of shape (n_vectors,)
        True where a vector is permuted.
    outlier_mask_pred : array-like of bool of shape (n_vectors,)
        True where a vector was found to be permuted.

    Returns
    -------
    ratio : float
        Between 0 and 1; 0 when no vector is permuted. False alarms do not enter.

    Examples
    --------
    >>> from unpermute.metrics import undetected_outlier_ratio
    >>> undetected_outlier_ratio([True, True, False], [True, False, True])
    0.5
    """
    outlier_mask = _check_mask("outlier_mask", outlier_mask)
    detected = _check_mask("outlier_mask_pred", outlier_mask_pred, outlier_mask, "outlier_mask")
    return _share(~detected[outlier_mask])


def subspace_clustering_error(labels, labels_pred, *, mask=None):
    """Share of misclustered vectors, under the best one-to-one matching of the labels.

    Parameters
    ----------
    labels : array-like of shape (n_vectors,)
        True subspace of each vector.
    labels_pred : array-like of shape (n_vectors,)
        Cluster found for each vector. Names do not matter; clusters beyond the number of
        subspaces have no partner and are wrong.
    mask : array-like of bool of shape (n_vectors,) or None, default=None
        Vectors to look at, usually those that were found clean. None: all.

    Returns
    -------
    error : float
        Between 0 and 1; 0 when there is no vector to look at.

    Examples
    --------
    >>> from unpermute.metrics import subspace_clustering_error
    >>> subspace_clustering_error([0, 0, 1, 1], [5, 5, 3, 5])
    0.25
    """
    labels, labels_pred = _check_labels(labels, labels_pred)
    rows = _check_rows("mask", mask, labels, "labels")
    labels, labels_pred = labels[rows], labels_pred[rows]
    return _share(~_agree(labels, labels_pred, match_labels(labels, labels_pred)))


def outlier_classification_error(labels, labels_pred, *, outlier_mask, outlier_mask_pred=None):
    """Share of the permuted vectors that were assigned to the wrong subspace.

    With the true bases (`outlier_mask_pred` None) the labels mean the same on both sides and are
    compared as they are, over all permuted vectors. With estimated bases the names of the
    subspaces are arbitrary: the best one-to-one matching of the labels is found on the vectors
    that were taken for clean, and applied to the permuted vectors that were detected. The labels
    are never matched on the permuted vectors themselves: the matching would then adapt to their
    errors, and even labels given at random would look better than they are.

    Parameters
    ----------
    labels : array-like of shape (n_vectors,)
        True subspace of each vector.
    labels_pred : array-like of shape (n_vectors,)
        Subspace found for each vector.
    outlier_mask : array-like of bool of shape (n_vectors,)
        True where a vector is permuted.
    outlier_mask_pred : array-like of bool of shape (n_vectors,) or None, default=None
        True where a vector was found to be permuted. None: `labels_pred` refers to the true bases.

    Returns
    -------
    error : float
        Between 0 and 1; 0 when there is no (detected) permuted vector. False alarms do not enter.
        A label without a partner is wrong: if no vector was taken for clean, so is every label.

    Examples
    --------
    >>> from unpermute.metrics import outlier_classification_error
    >>> labels, outlier_mask = [0, 1, 0, 1], [False, False, True, True]
    >>> outlier_classification_error(labels, [0, 1, 0, 0], outlier_mask=outlier_mask)
    0.5
    >>> outlier_classification_error(
    ...     labels, [7, 4, 7, 4], outlier_mask=outlier_mask, outlier_mask_pred=outlier_mask
    ... )
    0.0
    """
    labels, labels_pred = _check_labels(labels, labels_pred)
    outlier_mask = _check_mask("outlier_mask", outlier_mask, labels, "labels")
    if outlier_mask_pred is None:
        return _share((labels != labels_pred)[outlier_mask])
    detected = _check_mask("outlier_mask_pred", outlier_mask_pred, labels, "labels")
    mapping = match_labels(labels[~detected], labels_pred[~detected])
    return _share(~_agree(labels, labels_pred, mapping)[outlier_mask & detected])


def recovery_error(X_true, X_recovered, *, mask=None, refined=False, labels=None, rank=None):
    r"""Relative error :math:`\|\hat X - X\|_F / \|X\|_F` over the rows of `mask`.

    With `refined`, each recovered vector is first projected onto the space of dimension `rank` that
    an SVD fits to its whole true group (the clean and the recovered vectors, whatever `mask` says),
    and scaled to length 1: the figure that [1]_ reports for its synthetic data. It knows the true
    grouping and presumes true vectors of length 1; compare it only with figures computed the same
    way.

    Parameters
    ----------
    X_true : array-like of shape (n_vectors, n_features)
        The true vectors.
    X_recovered : array-like of shape (n_vectors, n_features)
        The recovered vectors.
    mask : array-like of bool of shape (n_vectors,) or None, default=None
        Vectors to look at, usually all permuted ones, detected or not. None: all.
    refined : bool, default=False
        Whether to project and scale the recovered vectors first. Zero vectors stay zero.
    labels : array-like of shape (n_vectors,) or None, default=None
        True subspace of each vector; needed, and used, only if `refined`.
    rank : int, sequence of int or None, default=None
        Dimension of the subspaces, or of each of them in sorted order of `labels`; needed, and
        used, only if `refined`.

    Returns
    -------
    error : float
        At least 0; 0 when there is no vector to look at, infinite when the true vectors are zero
        and the recovered ones are not.

    References
    ----------
    .. [1] Xie & Fan, "Multi-subspace matrix recovery from permuted data", AAAI 2025.

    Examples
    --------
    >>> from unpermute.metrics import recovery_error
    >>> recovery_error([[3.0, 4.0], [0.0, 1.0]], [[4.0, 3.0], [0.0, 1.0]], mask=[False, True])
    0.0
    >>> round(recovery_error([[3.0, 4.0], [0.0, 1.0]], [[4.0, 3.0], [0.0, 1.0]]), 3)
    0.277
    """
    X_true = check_vectors(X_true, name="X_true")
    X_recovered = check_vectors(X_recovered, name="X_recovered")
    _check_same_shape("X_recovered", X_recovered, "X_true", X_true)
    rows = _check_rows("mask", mask, X_true, "X_true")
    if not isinstance(refined, (bool, np.bool_)):
        raise ValueError(f"refined={refined!r} must be True or False.")
    if refined:
        X_recovered = _refine(X_recovered, labels, rank)
    return _relative_error(X_true[rows], X_recovered[rows])


def permutation_error_ratio(X, permutations, permutations_pred, *, tol=0.0, mask=None):
    """Average share of the entries of a vector that hold a wrong value.

    An entry is wrong if the value that `permutations_pred` puts there differs from the one that
    `permutations` puts there by more than `tol`. Values are compared, not indices: exchanging two
    equal values is no error.

    Parameters
    ----------
    X : array-like of shape (n_vectors, n_features)
        The observed vectors. NaN, a missing value, equals NaN and nothing else.
    permutations : array-like of int of shape (n_vectors, n_features)
        The truth: ``np.take_along_axis(X, permutations, axis=1)`` is every vector in order.
    permutations_pred : array-like of int of shape (n_vectors, n_features)
        The permutations that were found, in the same convention.
    tol : float or array-like of shape (n_vectors,), default=0.0
        Difference that the noise explains, for all vectors or for each.
    mask : array-like of bool of shape (n_vectors,) or None, default=None
        Vectors to look at. None: all.

    Returns
    -------
    ratio : float
        Between 0 and 1; 0 when there is no vector to look at.

    Examples
    --------
    >>> from unpermute.metrics import permutation_error_ratio
    >>> X = [[1.0, 2.0, 2.0, 4.0]]
    >>> permutation_error_ratio(X, [[0, 1, 2, 3]], [[0, 2, 1, 3]])
    0.0
    >>> permutation_error_ratio(X, [[0, 1, 2, 3]], [[1, 0, 2, 3]])
    0.5
    """
    X = check_vectors(X, name="X", allow_nan=True)
    permutations = _check_permutations("permutations", permutations, X)
    permutations_pred = _check_permutations("permutations_pred", permutations_pred, X)
    tol = _check_tol(tol, X)
    rows = _check_rows("mask", mask, X, "X")
    values = np.take_along_axis(X, permutations, axis=1)
    values_pred = np.take_along_axis(X, permutations_pred, axis=1)
    right = np.abs(values_pred - values) <= tol
    right |= np.isnan(values) & np.isnan(values_pred)
    return _share(~right[rows])


def match_labels(labels, labels_pred):
    """Match predicted labels one-to-one with true ones so that most vectors agree.

    Parameters
    ----------
    labels : ndarray of shape (n_vectors,)
        True labels.
    labels_pred : ndarray of shape (n_vectors,)
        Predicted labels.

    Returns
    -------
    mapping : dict
        True label of each predicted one; a predicted label without a partner is left out.

    Examples
    --------
    >>> from unpermute.metrics import match_labels
    >>> match_labels([0, 0, 1, 1], [5, 5, 3, 8])
    {5: 0, 3: 1}
    """
    names, codes = _number_labels(labels)
    names_pred, codes_pred = _number_labels(labels_pred)
    counts = np.zeros((len(names_pred), len(names)), dtype=int)
    np.add.at(counts, (codes_pred, codes), 1)
    pairs = linear_sum_assignment(counts, maximize=True)
    return {names_pred[i]: names[j] for i, j in zip(*pairs, strict=True)}


def _number_labels(labels):
    # In order of appearance, not of value: among equally good matchings the same one is then
    # chosen whatever the labels are called.
    names, first, codes = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return names[order].tolist(), np.argsort(order)[codes]


def _agree(labels, labels_pred, mapping):
    agree = np.zeros(len(labels), dtype=bool)
    for label_pred, label in mapping.items():
        agree |= (labels_pred == label_pred) & (labels == label)
    return agree


def _share(wrong):
    return float(np.mean(wrong)) if wrong.size else 0.0


def _relative_error(X_true, X):
    # Exact powers of two: huge and tiny values neither overflow nor vanish when squared.
    power = _power_of_two(X_true, X)
    error, error_power = _length(np.ldexp(X, -power) - np.ldexp(X_true, -power))
    if error == 0:
        return 0.0
    length, length_power = _length(X_true)
    if length == 0:
        return np.inf
    with np.errstate(over="ignore"):
        return float(np.ldexp(error / length, power + error_power - length_power))


def _length(X):
    """Return the Frobenius norm as a number and the power of two to multiply it with."""
    power = _power_of_two(X)
    return np.linalg.norm(np.ldexp(X, -power)), power


def _power_of_two(*matrices):
    return int(np.frexp(max(np.abs(X).max(initial=0.0) for X in matrices))[1])


def _refine(X, labels, rank):
    if labels is None or rank is None:
        missing = "labels" if labels is None else "rank"
        raise ValueError(f"refined=True needs labels and rank, but {missing} is None.")
    labels = _check_names("labels", labels, X, "X_true")
    groups = np.unique(labels)
    check_rank(rank, X.shape[1], len(groups))
    X = np.ldexp(X, -_power_of_two(X))
    refined = np.zeros_like(X)
    for group, r in zip(groups, np.broadcast_to(rank, len(groups)), strict=True):
        members = labels == group
        basis = np.linalg.svd(X[members], full_matrices=False)[2][:r].T
        fitted = X[members] @ basis @ basis.T
        lengths = np.linalg.norm(fitted, axis=1, keepdims=True)
        refined[members] = fitted / np.where(lengths > 0, lengths, 1.0)
    return refined


def _check_vector(name, values, other=None, other_name=None):
    if values is None:
        raise ValueError(f"{name}=None must be one-dimensional, with one entry for each vector.")
    values = np.asarray(values)
    if values.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, but has shape {values.shape}.")
    if other is not None and len(values) != len(other):
        raise ValueError(
            f"{name} has {len(values)} entries, but {other_name} has {len(other)};"
            " there must be one for each vector."
        )
    return values


def _check_labels(labels, labels_pred):
    labels = _check_names("labels", labels)
    return labels, _check_names("labels_pred", labels_pred, labels, "labels")


def _check_names(name, labels, other=None, other_name=None):
    labels = _check_vector(name, labels, other, other_name)
    # Only NaN differs from itself.
    nameless = np.array([label is None or label != label for label in labels.tolist()], dtype=bool)
    if nameless.any():
        i = np.argmax(nameless)
        raise ValueError(
            f"{name} must name a subspace for each vector, but entry {i} is {labels[i]}."
        )
    try:
        np.unique(labels)
    except TypeError as error:
        types = " and ".join(sorted({type(label).__name__ for label in labels.tolist()}))
        raise ValueError(
            f"{name} must be of one type, numbers or text, but holds {types}."
        ) from error
    return labels


def _check_mask(name, mask, other=None, other_name=None):
    mask = _check_vector(name, mask, other, other_name)
    if len(mask) == 0:
        return mask.astype(bool)
    if mask.dtype != bool:
        raise ValueError(
            f"{name} must be boolean, but has dtype {mask.dtype};"
            " compare scikit-learn's predictions with -1 to get a mask."
        )
    return mask


def _check_rows(name, mask, other, other_name):
    if mask is None:
        return np.ones(len(other), dtype=bool)
    return _check_mask(name, mask, other, other_name)


def _check_same_shape(name, values, other_name, other):
    if values.shape != other.shape:
        raise ValueError(
            f"{name} has shape {values.shape}, but {other_name} has shape {other.shape};"
            " they must be the same."
        )


def _check_permutations(name, permutations, X):
    permutations = np.asarray(permutations)
    _check_same_shape(name, permutations, "X", X)
    if not np.issubdtype(permutations.dtype, np.integer):
        raise ValueError(f"{name} must hold integers, but has dtype {permutations.dtype}.")
    wrong = np.any(np.sort(permutations, axis=1) != np.arange(X.shape[1]), axis=1)
    if wrong.any():
        raise ValueError(
            f"{name} must hold in each row the integers from 0 to {X.shape[1] - 1}, each once;"
            f" row {np.argmax(wrong)} is {permutations[np.argmax(wrong)]}."
        )
    return permutations


def _check_tol(tol, X):
    values = np.asarray(tol)
    if values.ndim > 0:
        values = _check_vector("tol", tol, X, "X")[:, np.newaxis]
    if values.dtype.kind not in "fiu" or not np.all(values >= 0):
        raise ValueError(f"tol={tol!r} must be a number of at least 0, or one for each vector.")
    return values
