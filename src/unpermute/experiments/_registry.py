"""Names of all experiments. Imports nothing heavy: the command lists them in its help."""

from importlib import import_module

__all__ = ["NAMES", "load"]

# The name and the module that holds its EXPERIMENT.
_MODULES = {
    "single-subspace": "single_subspace",
    "synthetic-grid": "synthetic_grid",
    "rank-impact": "rank_impact",
    "subspace-count": "subspace_count",
    "comparison": "comparison",
    "mruc": "mruc",
    "time": "time",
    "faces": "faces",
    "faces-gallery": "faces_gallery",
    "motion": "motion",
    "motion-comparison": "motion_comparison",
    "reidentification": "reidentification",
    "theory-gaussian": "theory_gaussian",
    "theory-trace": "theory_trace",
    "theory-variance": "theory_variance",
    "theory-probability": "theory_probability",
}
NAMES = tuple(_MODULES)


def load(name: str):
    """Return the experiment of that name.

    Parameters
    ----------
    name : str
        One of :data:`NAMES`.

    Returns
    -------
    Experiment
        What to run.
    """
    if name not in _MODULES:
        raise ValueError(f"There is no experiment {name!r}; there are {', '.join(NAMES)}.")
    return import_module(f"unpermute.experiments.{_MODULES[name]}").EXPERIMENT
