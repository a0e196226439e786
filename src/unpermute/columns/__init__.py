"""Columns whose rows were shuffled: which, and which rows belong together."""

from unpermute.columns._links import RowLinks, link_known_rows
from unpermute.columns._repair import ColumnRepairs, link_group, repair_columns
from unpermute.columns._structure import Structure
from unpermute.columns._views import standard_views

__all__ = [
    "ColumnRepairs",
    "RowLinks",
    "Structure",
    "link_group",
    "link_known_rows",
    "repair_columns",
    "standard_views",
]
