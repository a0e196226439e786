"""The workbench: decide about every proposed repair in the browser, on this machine alone."""

from unpermute.web._serve import serve

__all__ = ["serve"]
