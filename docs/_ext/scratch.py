"""Sphinx extension: empty folders for the commands that the pages run."""

import shutil

__all__ = ["setup"]

PAGES = ("start", "repair-a-csv", "nightly", "columns", "audit", "cluster", "reference")


def _clean(app):
    root = app.srcdir / "_scratch"
    shutil.rmtree(root, ignore_errors=True)
    for page in PAGES:
        (root / page).mkdir(parents=True)


def setup(app):
    """Register the extension."""
    app.connect("builder-inited", _clean)
    return {"parallel_read_safe": True}
