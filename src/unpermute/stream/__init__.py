"""Vectors that do not fit into memory: blocks from files, to a fitting or fitted model.

:func:`fit` fits a model to a sample and to what the sample missed, :func:`transform` repairs block
by block into a folder of partitions, :func:`read_results` reads these, :func:`read_blocks` serves
any other purpose. Memory is bounded by the sample and by a block. :mod:`unpermute.distributed` does
the same work on a cluster.
"""

from unpermute.stream._fit import fit
from unpermute.stream._open import BlockReader, read_blocks
from unpermute.stream._output import Part, read_results
from unpermute.stream._transform import transform

__all__ = ["BlockReader", "Part", "fit", "read_blocks", "read_results", "transform"]
