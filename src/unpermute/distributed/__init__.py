"""The work of :mod:`unpermute.stream` and :mod:`unpermute.large` on a Dask cluster.

The same tasks are called on the same blocks and pieces, by workers that read and write their own;
only samples and progress come back. The answers are those of a local run. Tasks are pure and files
appear complete, so a worker that dies costs the time of its block or piece.
"""

from unpermute.distributed._tables import process_files, repair_table, scan_table
from unpermute.distributed._vectors import fit, transform

__all__ = ["fit", "process_files", "repair_table", "scan_table", "transform"]
