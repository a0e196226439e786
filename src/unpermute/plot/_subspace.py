"""Vectors and their subspaces: how far away each lies, before and after the repair."""

import numpy as np

from unpermute.plot._axes import AFTER, BEFORE, STAYS, Display, check_matrix

__all__ = ["SubspaceDisplay"]


class SubspaceDisplay(Display):
    """Distance of every vector from its subspace, before and after the repair.

    From left to right runs the first principal component of the repaired vectors, upwards the
    distance from the subspace relative to the length of the vector. Damaged vectors stand high;
    put back in order they fall to the floor of noise.

    Make one with :meth:`from_estimator` or :meth:`from_predictions`.
    They pass further options to matplotlib's ``scatter``.

    Parameters
    ----------
    position : ndarray of shape (n_vectors, 2)
        First principal component of every vector, observed and repaired.
    distance : ndarray of shape (n_vectors, 2)
        Relative distance from the subspace of every vector, observed and repaired.
    changed : ndarray of bool of shape (n_vectors,)
        Which vectors the repair changed.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes drawn on.
    figure_ : matplotlib Figure
        The figure that holds them.

    Examples
    --------
    >>> from unpermute import PMSDR
    >>> from unpermute.datasets import make_permuted_subspaces
    >>> from unpermute.plot import SubspaceDisplay
    >>> data = make_permuted_subspaces(2, 40, 20, 2, outlier_ratio=0.2, random_state=0)
    >>> model = PMSDR(random_state=0).fit(data.X)
    >>> display = SubspaceDisplay.from_estimator(model, data.X)
    >>> before, after = display.distance[display.changed].mean(axis=0)
    >>> bool(after < before / 5)
    True
    """

    _size = (6, 3.6)

    def __init__(self, *, position, distance, changed):
        self.position = position
        self.distance = distance
        self.changed = changed

    @classmethod
    def from_estimator(cls, estimator, X, **kwargs):
        """Repair `X` with a fitted model and draw the distances before and after.

        Parameters
        ----------
        estimator : PMSDR
            A fitted model.
        X : array-like of shape (n_vectors, n_features)
            Observed vectors, without missing entries.
        **kwargs : dict
            Passed to :meth:`plot`.

        Returns
        -------
        display : SubspaceDisplay
            What was drawn.
        """
        return cls.from_predictions(
            X,
            estimator.transform(X),
            estimator.bases_,
            offsets=estimator.offsets_,
            labels=estimator.predict(X),
            **kwargs,
        )

    @classmethod
    def from_predictions(
        cls, X, X_fixed, bases, *, offsets=None, labels=None, **kwargs
    ):  # fmt: skip
        """Draw the distances of vectors from given subspaces.

        Parameters
        ----------
        X : array-like of shape (n_vectors, n_features)
            Observed vectors, without missing entries.
        X_fixed : array-like of shape (n_vectors, n_features)
            Repaired vectors.
        bases : list of ndarray of shape (n_features, rank)
            Orthonormal bases of the subspaces.
        offsets : list of ndarray of shape (n_features,), default=None
            A point of every subspace. None: zeros.
        labels : array-like of int of shape (n_vectors,), default=None
            Subspace of every vector. None: the nearest one.
        **kwargs : dict
            Passed to :meth:`plot`.

        Returns
        -------
        display : SubspaceDisplay
            What was drawn.
        """
        X = check_matrix("X", X)
        X_fixed = check_matrix("X_fixed", X_fixed, X.shape)
        if np.isnan(X).any():
            raise ValueError("X has missing entries; draw the complete vectors alone.")
        centre = X_fixed.mean(axis=0)
        axis = np.linalg.svd(X_fixed - centre, full_matrices=False)[2][0]
        both = [X, X_fixed]
        return cls(
            position=np.column_stack([(part - centre) @ axis for part in both]),
            distance=np.column_stack([_distances(part, bases, offsets, labels) for part in both]),
            changed=np.any(X_fixed != X, axis=1),
        ).plot(**kwargs)

    def _draw(self, **kwargs):
        options, moved = {"s": 14, "linewidths": 0, **kwargs}, self.changed
        x, y = self.position, self.distance
        self.ax_.plot(x[moved].T, y[moved].T, color=STAYS, linewidth=0.5, alpha=0.6)
        self.ax_.scatter(x[~moved, 0], y[~moved, 0], color=STAYS, label="unchanged", **options)
        self.ax_.scatter(x[moved, 0], y[moved, 0], color=BEFORE, label="before", **options)
        self.ax_.scatter(x[moved, 1], y[moved, 1], color=AFTER, label="after", **options)
        self.ax_.set(
            xlabel="first principal component", ylabel="relative distance from the subspace"
        )
        self.ax_.set_ylim(bottom=0)
        self.ax_.legend(frameon=False)


def _distances(X, bases, offsets, labels):
    """Distance of every vector from its subspace, or the nearest, over its length."""
    offsets = [np.zeros(X.shape[1])] * len(bases) if offsets is None else offsets
    found = []
    for basis, offset in zip(bases, offsets, strict=True):
        rest = X - offset
        found.append(np.linalg.norm(rest - rest @ basis @ basis.T, axis=1))
    lengths = np.maximum(np.linalg.norm(X, axis=1), np.finfo(float).tiny)
    every = np.array(found)
    own = every.min(axis=0) if labels is None else every[np.asarray(labels), np.arange(len(X))]
    return own / lengths
