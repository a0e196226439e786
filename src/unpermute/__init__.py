"""Find the vectors whose entries were shuffled, and put every value back.

Rows are vectors. The one-line entry is :class:`unpermute.PMSDR`; its four stages live in
:mod:`unpermute.detect`, :mod:`unpermute.cluster`, :mod:`unpermute.classify` and
:mod:`unpermute.recover`.
"""

from typing import TYPE_CHECKING

from unpermute._kernel_cache import ensure_kernel_cache

__version__ = "0.1.0.dev0"
__all__ = ["PMSDR", "__version__"]

if TYPE_CHECKING:
    from unpermute.pmsdr import PMSDR

ensure_kernel_cache()


def __getattr__(name):
    # Lazy, so that `import unpermute` and `unpermute --help` do not pay for numba and scikit-learn.
    if name == "PMSDR":
        from unpermute.pmsdr import PMSDR

        return PMSDR
    raise AttributeError(f"module 'unpermute' has no attribute {name!r}")


def __dir__():
    return __all__
