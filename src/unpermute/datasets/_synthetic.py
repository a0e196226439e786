"""Vectors of a union of subspaces, some of them shuffled, with everything known about them."""

import math

import numpy as np
from sklearn.utils import Bunch, check_random_state

from unpermute._validation import Integral, Interval, Real, check_rank, validate_params

__all__ = ["make_permuted_subspaces"]

# Noise beyond this leaves no digit of the vector in a float64.
_LOWEST_SNR_DB = -300.0


@validate_params(
    {
        "n_subspaces": [Interval(Integral, 1, None, closed="left")],
        "n_vectors_per_subspace": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "n_features": [Interval(Integral, 2, None, closed="left")],
        "rank": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "outlier_ratio": [Interval(Real, 0, 1, closed="both")],
        "shuffled_ratio": [Interval(Real, 0, 1, closed="both")],
        "snr_db": [Interval(Real, _LOWEST_SNR_DB, np.inf, closed="both"), None],
        "affine": ["boolean"],
        "missing_ratio": [Interval(Real, 0, 1, closed="left")],
        "n_permutation_groups": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=True,
)
def make_permuted_subspaces(
    n_subspaces=5,
    n_vectors_per_subspace=120,
    n_features=50,
    rank=5,
    *,
    outlier_ratio=0.6,
    shuffled_ratio=0.4,
    snr_db=40.0,
    affine=False,
    missing_ratio=0.0,
    n_permutation_groups=None,
    random_state=None,
):
    r"""Draw vectors from a union of subspaces and shuffle the entries of some of them.

    A clean vector of subspace :math:`k` is

    .. math:: y = U_k c / \|c\| + o_k, \qquad c \sim \mathcal{N}(0, I),

    with a random orthonormal basis :math:`U_k` and offset :math:`o_k = 0`, so that it has length 1.
    With `affine`, :math:`o_k` is a random vector of length 1 orthogonal to :math:`U_k`, and
    :math:`y` has length :math:`\sqrt 2`: scaling it to length 1 would take it out of its affine
    subspace. What is observed is

    .. math:: x = P y + e, \qquad \|e\| = 10^{-\mathrm{snr\_db} / 20} \, \|y\|,

    where :math:`P` shuffles a random subset of the entries, and :math:`e` has a random direction.
    With the defaults this is the protocol of the synthetic experiments of [1]_.

    Parameters
    ----------
    n_subspaces : int, default=5
        Number of subspaces.
    n_vectors_per_subspace : int or sequence of int, default=120
        Number of vectors of each subspace.
    n_features : int, default=50
        Number of entries of a vector.
    rank : int or sequence of int, default=5
        Dimension of each subspace, below `n_features`.
    outlier_ratio : float, default=0.6
        Share of the vectors of each subspace whose entries are shuffled, rounded to a whole
        number of vectors. One random order of the within-group positions is drawn, and each group
        takes the first of them that it has: groups of equal size are shuffled at the same
        positions.
    shuffled_ratio : float, default=0.4
        Share of the entries of such a vector that are shuffled, rounded down to a whole number of
        entries. The entries are a random subset, its own for each vector, permuted uniformly:
        some of them may keep their place.
    snr_db : float or None, default=40.0
        Length of a vector over the length of the noise added to it after the shuffle, in decibels.
        At least -300; None or infinity: no noise.
    affine : bool, default=False
        Whether the subspaces have an offset.
    missing_ratio : float, default=0.0
        Share of the entries of `X` that are NaN, chosen uniformly. Rows may end up empty when it
        is close to 1.
    n_permutation_groups : int or None, default=None
        The shuffled vectors, whatever their subspace, are split at random into this many groups of
        equal size (give or take one vector) that share one permutation each. None: each vector has
        its own.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same data at every call.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With ``n_vectors`` rows in order of their label:

        X : ndarray of shape (n_vectors, n_features)
            The observed vectors: shuffled, noisy, incomplete.
        X_clean : ndarray of shape (n_vectors, n_features)
            The vectors in order, complete and without noise.
        labels : ndarray of shape (n_vectors,)
            Subspace of each vector, from 0.
        outlier_mask : ndarray of bool of shape (n_vectors,)
            True where an entry is out of place. When few entries are shuffled, the permutation
            drawn for a vector can be the identity: that vector is clean.
        permutations : ndarray of int of shape (n_vectors, n_features)
            ``np.take_along_axis(X, permutations, axis=1)`` is every vector put back in order.
        bases : list of ndarray of shape (n_features, rank)
            Orthonormal bases.
        offsets : list of ndarray of shape (n_features,)
            Zeros unless `affine`.
        permutation_groups : ndarray of int of shape (n_vectors,)
            Only if `n_permutation_groups` is given: the group of each vector, -1 if it is clean.

    References
    ----------
    .. [1] Xie & Fan, "Multi-subspace matrix recovery from permuted data", AAAI 2025.

    Examples
    --------
    >>> import numpy as np
    >>> from unpermute.datasets import make_permuted_subspaces
    >>> data = make_permuted_subspaces(2, 10, 20, 3, snr_db=None, random_state=0)
    >>> data.X.shape, int(data.outlier_mask.sum())
    ((20, 20), 12)
    >>> restored = np.take_along_axis(data.X, data.permutations, axis=1)
    >>> bool(np.array_equal(restored, data.X_clean))
    True
    """
    check_rank(rank, n_features, n_subspaces)
    ranks = np.broadcast_to(rank, n_subspaces)
    sizes = _check_sizes(n_vectors_per_subspace, n_subspaces)
    rng = check_random_state(random_state)

    bases = [_draw_basis(n_features, r, rng) for r in ranks]
    offsets = [_draw_offset(basis, affine, rng) for basis in bases]
    spaces = zip(bases, offsets, sizes, strict=True)
    X_clean = np.vstack([_draw_vectors(basis, offset, n, rng) for basis, offset, n in spaces])
    chosen = _choose_vectors(sizes, outlier_ratio, rng)
    groups = _draw_groups(chosen, n_permutation_groups, rng)
    orders = _draw_orders(groups, n_features, shuffled_ratio, rng)
    permutations = np.argsort(orders, axis=1)
    outlier_mask = np.any(permutations != np.arange(n_features), axis=1)

    X = np.take_along_axis(X_clean, orders, axis=1)
    if snr_db is not None:
        X += _draw_noise(np.linalg.norm(X, axis=1), n_features, snr_db, rng)
    if missing_ratio > 0:
        _remove_entries(X, missing_ratio, rng)

    data = Bunch(
        X=X,
        X_clean=X_clean,
        labels=np.repeat(np.arange(n_subspaces), sizes),
        outlier_mask=outlier_mask,
        permutations=permutations,
        bases=bases,
        offsets=offsets,
    )
    if n_permutation_groups is not None:
        data.permutation_groups = np.where(outlier_mask, groups, -1)
    return data


def _check_sizes(sizes, n_subspaces):
    given = np.asarray(sizes)
    if given.ndim > 1 or not np.issubdtype(given.dtype, np.integer) or given.min() < 1:
        raise ValueError(
            f"n_vectors_per_subspace={sizes!r} must be a positive integer, or one per subspace."
        )
    if given.ndim == 1 and len(given) != n_subspaces:
        raise ValueError(
            f"n_vectors_per_subspace={sizes!r} names {len(given)} subspaces, but n_subspaces is"
            f" {n_subspaces}; give one integer, or one per subspace."
        )
    return np.broadcast_to(given, n_subspaces)


def _draw_basis(n_features, rank, rng):
    return np.linalg.qr(rng.standard_normal((n_features, rank)))[0]


def _draw_offset(basis, affine, rng):
    if not affine:
        return np.zeros(len(basis))
    # The last column of this QR is orthogonal to the basis: rank < n_features leaves room for it.
    return np.linalg.qr(np.column_stack([basis, rng.standard_normal(len(basis))]))[0][:, -1]


def _draw_vectors(basis, offset, n_vectors, rng):
    vectors = rng.standard_normal((n_vectors, basis.shape[1])) @ basis.T
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True) + offset


def _choose_vectors(sizes, outlier_ratio, rng):
    positions = rng.permutation(max(sizes))
    chosen = []
    for n in sizes:
        mask = np.zeros(n, dtype=bool)
        mask[positions[positions < n][: round(outlier_ratio * n)]] = True
        chosen.append(mask)
    return np.concatenate(chosen)


def _draw_groups(chosen, n_groups, rng):
    """Number the vectors that share a permutation; -1 where a vector keeps its order."""
    n_chosen = np.count_nonzero(chosen)
    if n_groups is not None and n_groups > n_chosen:
        raise ValueError(
            f"n_permutation_groups={n_groups} must not exceed the number of shuffled vectors,"
            f" {n_chosen}."
        )
    groups = np.full(len(chosen), -1)
    groups[chosen] = np.arange(n_chosen)
    if n_groups is not None:
        groups[chosen] = rng.permutation(groups[chosen] % n_groups)
    return groups


def _draw_orders(groups, n_features, shuffled_ratio, rng):
    """Return for each vector the entry of the clean vector seen at each place."""
    # 0.29 * 100 is 28.999999999999996 in floating point: the margin keeps the 29th entry.
    n_shuffled = math.floor(shuffled_ratio * n_features + 1e-9)
    n_orders = groups.max() + 1
    places = np.argsort(rng.random_sample((n_orders, n_features)), axis=1)[:, :n_shuffled]
    orders = np.tile(np.arange(n_features), (n_orders + 1, 1))
    np.put_along_axis(orders[:-1], np.sort(places, axis=1), places, axis=1)
    return orders[groups]


def _draw_noise(lengths, n_features, snr_db, rng):
    noise = rng.standard_normal((len(lengths), n_features))
    scale = 10.0 ** (-snr_db / 20) * lengths / np.linalg.norm(noise, axis=1)
    return noise * scale[:, np.newaxis]


def _remove_entries(X, missing_ratio, rng):
    """Set a share of the entries of `X` to NaN, in place."""
    n_missing = round(missing_ratio * X.size)
    X.flat[rng.permutation(X.size)[:n_missing]] = np.nan
