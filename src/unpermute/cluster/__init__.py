"""Stage 2: which subspace the clean vectors lie in (step 2 of the paper has no equation for it).

Every clusterer represents each vector by the others and clusters the graph of the coefficients;
:class:`SelfRepresentationClustering` is the frame to write another one in.
"""

from unpermute.cluster._base import SelfRepresentationClustering
from unpermute.cluster._elastic_net import ElasticNetSubspaceClustering
from unpermute.cluster._omp import OMPSubspaceClustering
from unpermute.cluster._shape_interaction import ShapeInteractionClustering
from unpermute.cluster._ssc import SparseSubspaceClustering

__all__ = [
    "ElasticNetSubspaceClustering",
    "OMPSubspaceClustering",
    "SelfRepresentationClustering",
    "ShapeInteractionClustering",
    "SparseSubspaceClustering",
]
