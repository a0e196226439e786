"""Columns whose rows were shuffled: which, and which rows belong together."""

from typing import TYPE_CHECKING

from unpermute._lazy import lazily

if TYPE_CHECKING:
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

# Lazy, because a scan of records needs a name of this package, but not PMSDR.
__getattr__ = lazily(
    __name__,
    {
        "ColumnRepairs": "_repair",
        "RowLinks": "_links",
        "Structure": "_structure",
        "link_group": "_repair",
        "link_known_rows": "_links",
        "repair_columns": "_repair",
        "standard_views": "_views",
    },
)
