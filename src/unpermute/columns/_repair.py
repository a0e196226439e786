"""Repair columns whose rows were shuffled: arrays in, permutations out.

Nobody may say which columns were shuffled. Then two ways look for them: columns whose broken rows
are those of one event (:mod:`unpermute.columns._shared_orders`), and :class:`unpermute.PMSDR` with
the columns as its vectors. Either way the columns are linked row by row with the others
(:mod:`unpermute.columns._links`), and the finding stands only if most rows are in place and the
others have nothing to do with their row: a column that is independent of the others, or related to
them loosely, is not a shuffled one.
"""

import warnings
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from unpermute.columns._links import link_views
from unpermute.columns._shared_orders import shuffled_together
from unpermute.columns._structure import Structure
from unpermute.columns._views import standard_views
from unpermute.pmsdr import PMSDR

__all__ = ["ColumnRepairs", "link_group", "repair_columns"]

# Share of links to be expected right, below which a group is left alone.
_WEAK = 0.92
# A finding: least share of rows in place, least share of the others, correlation of these with
# what is predicted for their row, at most, and of those in place, at least.
_IN_PLACE, _MOVED, _STILL_RELATED, _RELATED = 0.2, 0.03, 0.35, 0.5


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
        Probability that the column was shuffled as found, or that it was not.
    strength : ndarray of shape (p,)
        Share of the moved rows that are expected to be right.
    entry_confidence : ndarray of shape (p, n)
        Probability that a row is right.
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
    strength: np.ndarray
    entry_confidence: np.ndarray
    status: np.ndarray
    cause: np.ndarray
    labels: np.ndarray
    structure: Structure
    model: None = None


def repair_columns(
    values, *, blocks=None, groups=None, n_subspaces=None, rank=None, max_moves=None,
    min_confidence=0.95, random_state=0, n_jobs=None,
):  # fmt: skip
    """Find columns whose rows were shuffled, and put them back.

    Parameters
    ----------
    values : ndarray of shape (n, p)
        The columns; NaN is missing.
    blocks : ndarray of int of shape (n,), default=None
        Rows only move within their block.
    groups : list of lists of int, "auto" or None
        Columns that share one permutation; all others are taken for clean. None: find shuffled
        columns, alone or together; "auto": find those that were shuffled together.
    n_subspaces, rank, min_confidence, random_state, n_jobs
        As for :class:`unpermute.PMSDR`.
    max_moves : int, default=None
        Most rows to move in one column.

    Returns
    -------
    ColumnRepairs
    """
    if values.shape[1] < 3:
        raise ValueError(
            f"vectors='columns' compares columns and needs at least three numeric ones, but there"
            f" are {values.shape[1]}."
        )
    views = standard_views(values)
    repairs = _untouched(views[0])
    if groups is not None and groups != "auto":
        _link_groups(
            repairs, views, [np.asarray(group) for group in groups], blocks, min_confidence
        )
        return _with_structure(_limited(repairs, max_moves))
    found = shuffled_together(views[0])
    if groups is None:
        model = PMSDR(
            n_subspaces, rank, min_confidence=min_confidence, random_state=random_state,
            n_jobs=n_jobs,
        )  # fmt: skip
        with warnings.catch_warnings():
            # Columns that it cannot judge are judged by the links below.
            warnings.simplefilter("ignore", UserWarning)
            model.fit(np.where(np.isnan(values), np.nan, views[0]).T)
        repairs.labels[:] = model.labels_
        named = {int(j) for group in found for j in group}
        recovered = model.outlier_mask_ & (model.status_ == "recovered")
        found += [np.array([j]) for j in np.flatnonzero(recovered) if j not in named]
        starts = {int(j): model.permutations_[j] for j in np.flatnonzero(recovered)}
    else:
        starts = {}
    _link_groups(repairs, views, found, blocks, min_confidence, starts=starts, given=False)
    return _with_structure(_limited(repairs, max_moves))


def link_group(views, clean, group, blocks=None, start=None):
    """Link a group of columns with the clean ones in the view that tells most of it."""
    references, groups = ([view[:, part] for view in views] for part in (clean, group))
    return link_views(references, groups, blocks=blocks, start=start)


def _untouched(X):
    n, p = X.shape
    return ColumnRepairs(
        np.tile(np.arange(n), (p, 1)),
        np.zeros(p),
        np.ones(p),
        np.ones(p),
        np.ones((p, n)),
        np.full(p, "clean", dtype="<U9"),
        np.full(p, "", dtype=object),
        np.zeros(p, dtype=np.int64),
        Structure(False, 1.0, ""),
    )


def _link_groups(repairs, views, groups, blocks, min_confidence, *, starts=None, given=True):
    """Link every group with the columns that are in no group; writes into `repairs`."""
    n, p = views[0].shape
    named = np.concatenate(groups) if len(groups) else np.zeros(0, dtype=np.int64)
    clean = np.setdiff1d(np.arange(p), named)
    if len(clean) == 0:
        raise ValueError(
            "groups names every numeric column in use; leave out those whose rows are in order."
        )
    for group in groups:
        start = (starts or {}).get(int(group[0])) if len(group) == 1 else None
        links = link_group(views, clean, group, blocks, start)
        moved = links.order != np.arange(n)
        if not given and not _is_shuffled(links):
            continue
        linked = expit(links.evidence)
        certain = moved.any() and links.strength >= _WEAK and linked >= min_confidence
        repairs.score[group] = moved.mean()
        repairs.confidence[group] = linked
        repairs.strength[group] = linked * links.strength
        repairs.entry_confidence[group] = linked * links.posterior
        if certain:
            repairs.permutations[group] = links.order
        status = "recovered" if certain else "uncertain" if moved.any() else "clean"
        repairs.status[group] = status
        together = "rows shuffled" if len(group) == 1 else "rows shuffled together"
        repairs.cause[group] = together if status != "clean" else ""


def _is_shuffled(links):
    """Whether most rows are in place, and the others unrelated to their row."""
    loose = links.in_place < 0.5
    if not _MOVED <= loose.mean() <= 1 - _IN_PLACE or loose.sum() < 3:
        return False
    related, still = links.agreement(~loose), links.agreement(loose)
    return related >= _RELATED and still <= _STILL_RELATED + 2 / np.sqrt(loose.sum())


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
    share = float(repairs.strength[suspicious].mean()) if suspicious.any() else 1.0
    weak = bool(suspicious.any() and not np.any(repairs.status == "recovered"))
    sentence = (
        f"The link between these columns and the others is weak: about {share:.0%} of the moved"
        " rows could be found again, so nothing was moved."
        if weak
        else f"About {share:.0%} of the moved rows are expected to be right."
    )
    structure = Structure(weak, share, sentence)
    return replace(repairs, structure=structure)
