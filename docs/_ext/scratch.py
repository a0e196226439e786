"""Sphinx extension: folders that the pages need and that are made anew at every build."""

import shutil
from importlib import import_module

__all__ = ["setup"]

# One folder for the commands of every page that runs some.
PAGES = ("start", "repair-a-csv", "nightly", "columns", "audit", "cluster", "json")


def _prepare(app):
    root = app.srcdir / "_scratch"
    shutil.rmtree(root, ignore_errors=True)
    for page in PAGES:
        shutil.copytree(app.srcdir.parent / "examples", root / page, ignore=_no_pictures)


def _no_pictures(folder, names):
    """Only the programs that pages run are copied, not the gallery."""
    return [name for name in names if not name.endswith(".py") or name.startswith("plot_")]


def _copy_paper(app):
    """Put the results of the paper beside the pages, with figures drawn from the CSVs as SVG."""
    target = app.srcdir / "_extra" / "paper"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(app.srcdir / "paper", target)
    experiments = import_module("unpermute.experiments")
    for name in experiments.NAMES:
        if (target / f"{name}.csv").exists() and not (target / f"{name}.svg").exists():
            experiments.draw_figure(experiments.load(name), target)


def _forget_outputs(app):
    """Run every command of a page that is read again: each needs the files of those before it."""
    app.env.programoutput_cache.clear()


def setup(app):
    """Register the extension."""
    app.connect("builder-inited", _prepare)
    app.connect("builder-inited", _forget_outputs)
    app.connect("builder-inited", _copy_paper)
    return {"parallel_read_safe": True}
