"""The experiments of the paper, one module per table or figure.

:data:`NAMES` lists them and :func:`load` returns one; :func:`run_experiment` runs it,
:func:`draw_figure` and :func:`write_page` show its results.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from unpermute.experiments._registry import NAMES, load

if TYPE_CHECKING:
    from unpermute.experiments._page import draw_figure, write_page
    from unpermute.experiments._run import choose_settings, run_experiment, write_conditions

__all__ = [
    "NAMES",
    "choose_settings",
    "draw_figure",
    "load",
    "run_experiment",
    "write_conditions",
    "write_page",
]

_LAZY = {
    "draw_figure": "_page",
    "write_page": "_page",
    "choose_settings": "_run",
    "run_experiment": "_run",
    "write_conditions": "_run",
}


def __getattr__(name):
    # Lazy: the command lists the experiments in its help, which must not pay for numpy.
    if name in _LAZY:
        return getattr(import_module(f"unpermute.experiments.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'unpermute.experiments' has no attribute {name!r}")
