"""Packages whose public names are imported when somebody asks for them, and not before."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["lazily"]


def lazily(package: str, modules: dict[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package: a name is imported from the module named for it.

    Examples
    --------
    >>> from unpermute._lazy import lazily
    >>> lazily("os", {"join": "path"})("join")("a", "b")
    'a/b'
    """

    def find(name):
        if name in modules:
            return getattr(import_module(f"{package}.{modules[name]}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find
