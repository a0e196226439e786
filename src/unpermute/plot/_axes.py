"""Axes to draw on, and the colours that all pictures share."""

from numbers import Integral

import numpy as np

__all__ = ["AFTER", "BEFORE", "STAYS", "Display", "axes_for", "check_count", "check_matrix"]

# Okabe and Ito's colours, which colour-blind readers can tell apart.
BEFORE, AFTER, STAYS = "#d55e00", "#0072b2", "#9a9a9a"


class Display:
    """A picture on one pair of axes; subclasses draw it in ``_draw(**kwargs)``."""

    _size = (4.2, 3.6)

    def plot(self, ax=None, **kwargs):
        """Draw the picture, on a new figure or on axes of yours.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. None: a new figure.
        **kwargs : dict
            Options of the matplotlib function that the class names.

        Returns
        -------
        display : object
            This display, with `ax_` and `figure_` set.
        """
        width, height = self._size
        (self.ax_,) = axes_for(ax, 1, type(self).__name__, width=width, height=height)
        self.figure_ = self.ax_.figure
        self._draw(**kwargs)
        return self

    def _draw(self, **kwargs):
        raise NotImplementedError


def axes_for(ax, n, name, *, width=4.2, height=3.6):
    """Return `n` axes: those given, checked, or those of a new figure in one row."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError(f'{name}.plot needs matplotlib: pip install "unpermute[plot]"') from None
    if ax is None:
        _, axes = plt.subplots(
            1, n, squeeze=False, figsize=(width * n, height), layout="constrained"
        )
        return axes[0]
    axes = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
    if len(axes) != n:
        raise ValueError(f"ax holds {len(axes)} axes, but {name}.plot draws {n}; give {n} or None.")
    return axes


def check_matrix(name, X, shape=None):
    """Return a matrix of numbers, or say in one sentence why it is none."""
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or X.size == 0:
        raise ValueError(f"{name} has shape {X.shape}; a matrix with vectors as rows is needed.")
    if shape is not None and X.shape != shape:
        raise ValueError(f"{name} has shape {X.shape}, but the observed vectors have {shape}.")
    return X


def check_count(name, value, least):
    """Return a whole number of at least `least`, or refuse it."""
    if not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name}={value!r} must be an integer of at least {least}.")
    return int(value)
