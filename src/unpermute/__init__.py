"""Find the vectors whose entries were shuffled, and put every value back.

Rows are vectors. :class:`unpermute.PMSDR` repairs a matrix, :mod:`unpermute.table` a data frame.
The four stages of the method live in :mod:`unpermute.detect`, :mod:`unpermute.cluster`,
:mod:`unpermute.classify` and :mod:`unpermute.recover`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from unpermute._kernel_cache import ensure_kernel_cache
from unpermute._progress import on_progress

__version__ = "0.1.0.dev0"

# Loaded at first use, so that `import unpermute` and `unpermute --help` do not pay for numba and
# scikit-learn.
_MODULES = (
    "baselines", "classify", "cluster", "datasets", "detect", "distributed", "large", "metrics",
    "plot", "recover", "report", "stream", "table", "theory",
)  # fmt: skip

__all__ = ["PMSDR", "__version__", "on_progress", *_MODULES]

if TYPE_CHECKING:
    from unpermute.pmsdr import PMSDR

ensure_kernel_cache()


def __getattr__(name):
    if name == "PMSDR":
        return import_module("unpermute.pmsdr").PMSDR
    if name in _MODULES:
        return import_module(f"unpermute.{name}")
    raise AttributeError(f"module 'unpermute' has no attribute {name!r}")


def __dir__():
    return __all__
