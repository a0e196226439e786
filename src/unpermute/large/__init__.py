"""Tables in files larger than memory: a model from a sample, records judged piece by piece.

:func:`scan_table` and :func:`repair_table` work in this process; :mod:`unpermute.distributed` does
the same on a cluster. ``process``, ``Job`` and ``TableFiles`` are what another way to run it needs.
"""

from unpermute.large._files import Block, Piece, TableFiles
from unpermute.large._frames import FrameFiles
from unpermute.large._run import FilesResult, Job, make_job, process
from unpermute.large._tables import open_files, repair_table, scan_table
from unpermute.large._work import run_here

__all__ = [
    "Block",
    "FilesResult",
    "FrameFiles",
    "Job",
    "Piece",
    "TableFiles",
    "make_job",
    "open_files",
    "process",
    "repair_table",
    "run_here",
    "scan_table",
]
