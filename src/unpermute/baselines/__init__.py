"""Every method that PMSDR is compared with, alone and per subspace.

All have ``fit_transform(X)``, which returns the recovered matrix; those that also recover new
vectors have ``transform``.
"""

from unpermute.baselines._lrr import LowRankRepresentation
from unpermute.baselines._mruc import MRUC
from unpermute.baselines._per_subspace import PerSubspace
from unpermute.baselines._rkpca import RobustKernelPCA
from unpermute.baselines._rpca import RobustPCA
from unpermute.baselines._ssc import SSCReconstruction
from unpermute.baselines._upca import UPCA

__all__ = [
    "MRUC",
    "UPCA",
    "LowRankRepresentation",
    "PerSubspace",
    "RobustKernelPCA",
    "RobustPCA",
    "SSCReconstruction",
]
