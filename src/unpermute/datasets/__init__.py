"""Data with a known answer: synthetic unions of subspaces, and the data of the literature."""

from unpermute.datasets._hopkins import load_hopkins155
from unpermute.datasets._real import load_benign_tumours, load_student_scores
from unpermute.datasets._synthetic import make_permuted_subspaces
from unpermute.datasets._yale import load_yale_faces

__all__ = [
    "load_benign_tumours",
    "load_hopkins155",
    "load_student_scores",
    "load_yale_faces",
    "make_permuted_subspaces",
]
