"""What a repair changed: matrices side by side, or the moved cells of a table."""

import narwhals.stable.v1 as nw
import numpy as np

from unpermute.plot._axes import BEFORE, axes_for, check_matrix

__all__ = ["RepairDisplay"]

# Tiles from top to bottom: more could not be told apart on a screen.
_MOST_TILES = 200
_MOST_NAMES = 40


class RepairDisplay:
    """Observed and repaired vectors as matrices, or a map of the moved cells of a table.

    Make one with :meth:`from_estimator`, :meth:`from_predictions` or :meth:`from_result`.

    Parameters
    ----------
    panels : dict of str to ndarray
        Matrices to draw side by side, by title.
    marked : ndarray of int, default=None
        Rows to mark at the left edge of the first panel.
    names : list of str, default=None
        Names of the columns. None: columns are numbered.
    limits : tuple of two floats, default=None
        Values at the two ends of the colour scale. None: 1% and 99% quantiles of the last panel.
    rows_per_tile : int, default=1
        Number of rows that one tile of a panel stands for.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes
        The axes drawn on, one per panel.
    figure_ : matplotlib Figure
        The figure that holds them.

    Examples
    --------
    >>> from unpermute import PMSDR
    >>> from unpermute.datasets import make_permuted_subspaces
    >>> from unpermute.plot import RepairDisplay
    >>> data = make_permuted_subspaces(2, 40, 20, 2, outlier_ratio=0.2, random_state=0)
    >>> model = PMSDR(random_state=0).fit(data.X)
    >>> display = RepairDisplay.from_estimator(model, data.X, truth=data.X_clean)
    >>> [axes.get_title() for axes in display.axes_]
    ['Observed', 'Repaired', 'Truth']
    """

    def __init__(self, *, panels, marked=None, names=None, limits=None, rows_per_tile=1):
        self.panels = panels
        self.marked = marked
        self.names = names
        self.limits = limits
        self.rows_per_tile = rows_per_tile

    @classmethod
    def from_estimator(cls, estimator, X, *, truth=None, **kwargs):
        """Repair `X` with a fitted model and draw it before and after.

        Parameters
        ----------
        estimator : object
            A fitted :class:`unpermute.PMSDR`, or any model with ``transform``.
        X : array-like of shape (n_vectors, n_features)
            Observed vectors.
        truth : array-like of shape (n_vectors, n_features), default=None
            The right vectors, where they are known: a third panel.
        **kwargs : dict
            Passed to :meth:`plot`.

        Returns
        -------
        display : RepairDisplay
            What was drawn.
        """
        return cls.from_predictions(X, estimator.transform(X), truth=truth, **kwargs)

    @classmethod
    def from_predictions(cls, X, X_fixed, *, truth=None, **kwargs):
        """Draw vectors before and after a repair; rows that differ are marked.

        Parameters
        ----------
        X : array-like of shape (n_vectors, n_features)
            Observed vectors.
        X_fixed : array-like of shape (n_vectors, n_features)
            Repaired vectors.
        truth : array-like of shape (n_vectors, n_features), default=None
            The right vectors, where they are known: a third panel.
        **kwargs : dict
            Passed to :meth:`plot`.

        Returns
        -------
        display : RepairDisplay
            What was drawn.
        """
        X = check_matrix("X", X)
        panels = {"Observed": X, "Repaired": check_matrix("X_fixed", X_fixed, X.shape)}
        if truth is not None:
            panels["Truth"] = check_matrix("truth", truth, X.shape)
        same = (panels["Repaired"] == X) | (np.isnan(X) & np.isnan(panels["Repaired"]))
        marked = np.flatnonzero(~same.all(axis=1))
        return cls(panels=panels, marked=marked).plot(**kwargs)

    @classmethod
    def from_result(cls, result, **kwargs):
        """Draw which cells of a table move: columns from left to right, rows from top to bottom.

        Parameters
        ----------
        result : TableResult
            What :func:`unpermute.table.scan` or :func:`unpermute.table.repair` returned.
        **kwargs : dict
            Passed to :meth:`plot`.

        Returns
        -------
        display : RepairDisplay
            What was drawn.
        """
        changes = nw.from_native(result.changes, eager_only=True)
        names, n_rows = list(result.summary["columns"]), result.summary["n_rows"]
        size = max(1, -(-n_rows // _MOST_TILES))
        moved = np.zeros((max(1, -(-n_rows // size)), max(1, len(names))))
        place = {name: j for j, name in enumerate(names)}
        rows = np.array(changes["row"].to_list(), dtype=np.int64) // size
        np.add.at(moved, (rows, [place[name] for name in changes["column"].to_list()]), 1)
        title = f"Moved cells: {len(changes):,}"
        display = cls(
            panels={title: moved}, names=names, limits=(0, max(moved.max(), 1)), rows_per_tile=size
        )
        return display.plot(**{"cmap": "Oranges", **kwargs})

    def plot(self, ax=None, **kwargs):
        """Draw the panels.

        Parameters
        ----------
        ax : sequence of matplotlib Axes, default=None
            Axes to draw on, one per panel. None: a new figure.
        **kwargs : dict
            Passed to matplotlib's ``imshow``.

        Returns
        -------
        display : RepairDisplay
            This display, with `axes_` and `figure_` set.
        """
        self.axes_ = axes_for(ax, len(self.panels), "RepairDisplay")
        self.figure_ = self.axes_[0].figure
        low, high = self.limits or np.nanquantile(list(self.panels.values())[-1], [0.01, 0.99])
        options = {"cmap": "cividis", "aspect": "auto", "interpolation": "none"}
        options |= {"vmin": low, "vmax": high, **kwargs}
        for axes, (title, matrix) in zip(self.axes_, self.panels.items(), strict=True):
            height = len(matrix) * self.rows_per_tile
            extent = (-0.5, matrix.shape[1] - 0.5, height - 0.5, -0.5)
            axes.imshow(matrix, extent=extent, **options)
            axes.set_title(title)
            axes.spines[:].set_visible(False)
            self._name_columns(axes, matrix.shape[1])
        self.axes_[0].set_ylabel("vector" if self.names is None else "row")
        for axes in self.axes_[1:]:
            axes.set_yticks([])
        if self.marked is not None and len(self.marked):
            # At the left edge, outside of the matrix.
            self.axes_[0].plot(
                np.full(len(self.marked), -0.01),
                self.marked,
                ">",
                color=BEFORE,
                markersize=3,
                clip_on=False,
                transform=self.axes_[0].get_yaxis_transform(),
            )
        return self

    def _name_columns(self, axes, n_columns):
        if self.names is None:
            axes.set_xlabel("entry")
        elif n_columns <= _MOST_NAMES:
            axes.set_xticks(range(len(self.names)), self.names, rotation=60, ha="right", fontsize=8)
