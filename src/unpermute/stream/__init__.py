"""Vectors that do not fit into memory: blocks from files, to a fitting or fitted model.

:func:`fit` fits a model to a sample and to what the sample missed, :func:`transform` repairs block
by block into a folder of partitions, :func:`read_results` reads these, :func:`read_blocks` serves
any other purpose. Memory is bounded by the sample and by a block. :mod:`unpermute.distributed` does
the same work on a cluster; ``fit_with``, ``transform_with`` and ``Source`` are what another way to
run it needs.
"""

from unpermute.stream._fit import fit, fit_with
from unpermute.stream._open import (
    BlockReader,
    check_count,
    import_optional,
    open_source,
    read_blocks,
)
from unpermute.stream._output import Part, read_results, written_at_once
from unpermute.stream._source import ArraySource, Source, check_numbers
from unpermute.stream._transform import check_model, feature_names_of, transform, transform_with
from unpermute.stream._work import without_training_data

__all__ = [
    "ArraySource",
    "BlockReader",
    "Part",
    "Source",
    "check_count",
    "check_model",
    "check_numbers",
    "feature_names_of",
    "fit",
    "fit_with",
    "import_optional",
    "open_source",
    "read_blocks",
    "read_results",
    "transform",
    "transform_with",
    "without_training_data",
    "written_at_once",
]
