"""Repair columns whose rows were shuffled: arrays in, permutations out.

Each column is standardised, with a square root or logarithm where that makes it more regular: the
columns of a table are then close to linear functions of each other. Columns that nothing is known
about are judged by :class:`unpermute.PMSDR`, where they are the vectors. Columns that share one
permutation, or whose rows stay within blocks, are linked row by row with the others
(:mod:`unpermute.table._links`).
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from unpermute.pmsdr import PMSDR
from unpermute.table._column_shapes import cell_classes, fit_columns, standardise
from unpermute.table._links import link_rows
from unpermute.table._shared_orders import shuffled_together
from unpermute.table._structure import Structure

__all__ = ["ColumnRepairs", "link_group", "repair_columns", "standard_columns", "standard_views"]

# Share of links to be expected right, below which a group is left alone.
_WEAK = 0.92
# Standardised values are clipped: one wild cell must not decide.
_LARGEST = 10.0
# Added to values before their logarithm, as a share of the median: zeros happen.
_OFFSET = 0.01


@dataclass(frozen=True)
class ColumnRepairs:
    """What was found in a table of n rows and p columns.

    Attributes
    ----------
    permutations : ndarray of int of shape (p, n)
        Row ``permutations[j, i]`` of column j belongs to row i; the identity where left alone.
    score : ndarray of shape (p,)
        Higher is more suspicious: the share of the rows that seem to have moved, or the distance
        from the nearest subspace.
    confidence : ndarray of shape (p,)
    entry_confidence : ndarray of shape (p, n)
    status : ndarray of str of shape (p,)
    cause : ndarray of str of shape (p,)
    labels : ndarray of int of shape (p,)
        Subspace of every column.
    structure : Structure
    model : None
        There is nothing to keep.
    """

    permutations: np.ndarray
    score: np.ndarray
    confidence: np.ndarray
    entry_confidence: np.ndarray
    status: np.ndarray
    cause: np.ndarray
    labels: np.ndarray
    structure: Structure
    model: None = None


def repair_columns(
    table, *, blocks=None, groups=None, n_subspaces=None, rank=None, max_moves=None,
    min_confidence=0.95, random_state=0, n_jobs=None,
):  # fmt: skip
    """Find columns whose rows were shuffled, and put them back.

    Parameters
    ----------
    table : NumericTable
        The columns.
    blocks : ndarray of int of shape (n,), default=None
        Rows only move within their block.
    groups : list of lists of int, "auto" or None
        Columns that share one permutation; all others are taken for clean. "auto": find them.
    n_subspaces, rank, min_confidence, random_state, n_jobs
        As for :class:`unpermute.PMSDR`.
    max_moves : int, default=None
        Most rows to move in one column.

    Returns
    -------
    ColumnRepairs
    """
    X = standard_columns(table)
    if X.shape[1] < 3:
        raise ValueError(
            f"vectors='columns' compares columns and needs at least three numeric ones, but there"
            f" are {X.shape[1]}."
        )
    repairs = _untouched(X)
    if groups == "auto":
        groups = shuffled_together(X)
    if groups is None:
        model = PMSDR(
            n_subspaces, rank, min_confidence=min_confidence, random_state=random_state,
            n_jobs=n_jobs,
        )  # fmt: skip
        model.fit(np.where(np.isnan(table.values), np.nan, X).T)
        repairs.labels[:] = model.labels_
        groups = np.flatnonzero(model.outlier_mask_)[:, None]
    _link_groups(repairs, table, [np.asarray(group) for group in groups], blocks, min_confidence)
    return _with_structure(_limited(repairs, max_moves))


def standard_columns(table, *, logarithms=False):
    """Columns with mean 0 and mean square 1, made regular; missing values are 0.

    Parameters
    ----------
    table : NumericTable
        The columns.
    logarithms : bool, default=False
        Whether to take the logarithm of every column that is nowhere negative, instead of the
        transform that makes it most regular.

    Returns
    -------
    X : ndarray of shape (n, p)
    """
    values = table.values
    flags = np.zeros(values.shape[1], dtype=bool)
    columns = fit_columns(values, cell_classes(values), np.ones(len(values)), flags, flags)
    Z = standardise(columns, values)[0]
    if logarithms:
        lowest = np.nanmin(values, axis=0, initial=np.inf)
        positive = np.flatnonzero((lowest >= 0.0) & (lowest < np.inf))  # not empty columns
        middle = np.nanmedian(values[:, positive], axis=0)
        Z[:, positive] = np.log(values[:, positive] + _OFFSET * middle + 1e-300)
        Z[:, positive] -= np.nanmean(Z[:, positive], axis=0)
        Z[:, positive] /= np.maximum(np.nanstd(Z[:, positive], axis=0), 1e-300)
    Z = np.clip(np.nan_to_num(Z), -_LARGEST, _LARGEST)
    Z -= Z.mean(axis=0)
    scale = np.sqrt(np.mean(Z**2, axis=0))
    return Z / np.where(scale > 1e-12, scale, 1.0)


def standard_views(table):
    """Columns as they are, where sums are linear, and their logarithms, where products are."""
    return [standard_columns(table), standard_columns(table, logarithms=True)]


def link_group(views, clean, group, blocks=None):
    """Link a group of columns with the clean ones in the view where that is surest."""
    links = [link_rows(view[:, clean], view[:, group], blocks=blocks) for view in views]
    return max(links, key=lambda link: expit(link.evidence) * link.strength)


def _untouched(X):
    n, p = X.shape
    return ColumnRepairs(
        np.tile(np.arange(n), (p, 1)),
        np.zeros(p),
        np.ones(p),
        np.ones((p, n)),
        np.full(p, "clean", dtype="<U9"),
        np.full(p, "", dtype=object),
        np.zeros(p, dtype=np.int64),
        Structure(False, 1.0, ""),
    )


def _link_groups(repairs, table, groups, blocks, min_confidence):
    """Link every group with the columns that are in no group; writes into `repairs`."""
    views = standard_views(table)
    X = views[0]
    named = np.concatenate(groups) if len(groups) else np.zeros(0, dtype=np.int64)
    clean = np.setdiff1d(np.arange(X.shape[1]), named)
    if len(clean) == 0:
        raise ValueError(
            "groups names every numeric column in use; leave out those whose rows are in order."
        )
    repairs.permutations[named] = np.arange(len(X))
    for group in groups:
        links = link_group(views, clean, group, blocks)
        moved = links.order != np.arange(len(X))
        linked = expit(links.evidence)
        certain = moved.any() and links.strength >= _WEAK and linked >= min_confidence
        repairs.score[group] = moved.mean()
        repairs.confidence[group] = linked * links.strength
        repairs.entry_confidence[group] = linked * links.posterior
        if certain:
            repairs.permutations[group] = links.order
        status = "recovered" if certain else "uncertain" if moved.any() else "clean"
        repairs.status[group] = status
        together = "rows shuffled" if len(group) == 1 else "rows shuffled together"
        repairs.cause[group] = together if status != "clean" else ""


def _limited(repairs, max_moves):
    """Leave columns alone in which more rows would move than is allowed."""
    if max_moves is not None:
        moved = repairs.permutations != np.arange(repairs.permutations.shape[1])
        for j in np.flatnonzero(moved.sum(axis=1) > max_moves):
            repairs.permutations[j] = np.arange(moved.shape[1])
            repairs.status[j] = "uncertain"
    return repairs


def _with_structure(repairs):
    """Say how much of what looks shuffled can be put back."""
    suspicious = repairs.status != "clean"
    share = float(repairs.confidence[suspicious].mean()) if suspicious.any() else 1.0
    weak = bool(suspicious.any() and not np.any(repairs.status == "recovered"))
    sentence = (
        f"The link between these columns and the others is weak: about {share:.0%} of the moved"
        " rows could be found again, so nothing was moved."
        if weak
        else f"About {share:.0%} of the moved rows are expected to be right."
    )
    structure = Structure(weak, share, sentence)
    return ColumnRepairs(
        repairs.permutations, repairs.score, repairs.confidence, repairs.entry_confidence,
        repairs.status, repairs.cause, repairs.labels, structure,
    )  # fmt: skip
