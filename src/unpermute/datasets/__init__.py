"""Data with a known answer: synthetic unions of subspaces, and the tables of the literature."""

from unpermute.datasets._real import load_benign_tumours, load_student_scores
from unpermute.datasets._synthetic import make_permuted_subspaces

__all__ = ["load_benign_tumours", "load_student_scores", "make_permuted_subspaces"]
