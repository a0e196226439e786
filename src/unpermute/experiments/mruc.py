"""MRUC alone and per subspace, where groups of vectors share their permutations.

Table on MRUC of Xie & Fan (AAAI 2025).
"""

import numpy as np

from unpermute.baselines import MRUC, PerSubspace
from unpermute.datasets import make_permuted_subspaces
from unpermute.experiments._experiment import Experiment, Measurement
from unpermute.experiments._figures import line_panels
from unpermute.experiments._methods import timed
from unpermute.experiments._records import collect
from unpermute.experiments._tables import beside
from unpermute.metrics import permutation_error_ratio
from unpermute.pmsdr import PMSDR

__all__ = ["EXPERIMENT"]

_RANK, _N_FEATURES, _RATIO, _SNR_DB = 2, 20, 0.5, 40.0
_N_VECTORS = 30
# (subspaces, permutation groups): permutation errors in %, MRUC-S and MRUC.
_PRINTED = {
    (2, 2): (0.0, 12.0),
    (3, 2): (0.0, 30.0),
    (3, 3): (13.3, 55.0),
    (3, 5): (17.0, 71.5),
    (5, 5): (23.0, 73.2),
}
# Starts drawn at random are what the published method has.
_STARTS = {"": True, " (random starts)": False}


def settings(quick):
    """Return the numbers of subspaces and groups."""
    return [{"n_subspaces": n, "n_groups": p} for n, p in _PRINTED]


def run(setting, seed, data_home):
    """Run MRUC and MRUC-S with informed and with random starts."""
    n_subspaces = setting["n_subspaces"]
    data = make_permuted_subspaces(
        n_subspaces,
        _N_VECTORS,
        _N_FEATURES,
        _RANK,
        shuffled_ratio=_RATIO,
        snr_db=_SNR_DB,
        n_permutation_groups=setting["n_groups"],
        random_state=seed,
    )
    found = []
    for suffix, informed in _STARTS.items():
        method = MRUC(informed=informed, random_state=seed)
        apart = PerSubspace(method, PMSDR(n_subspaces, _RANK, random_state=seed))
        for name, model in (("MRUC", method), ("MRUC-S", apart)):
            fitted, seconds = timed(model.fit, data.X, groups=data.permutation_groups)
            error = _error(data, fitted.permutations_)
            found.append(Measurement(name + suffix, "permutation error %", error, seconds))
    return found


def _error(data, permutations):
    """Share of places of the shuffled vectors, in %, whose value is wrong beyond the noise."""
    noise = 10.0 ** (-_SNR_DB / 20) / np.sqrt(_N_FEATURES)
    tol = 3.0 * np.sqrt(2.0) * noise  # two noisy values are compared
    return 100.0 * permutation_error_ratio(
        data.X, data.permutations, permutations, tol=tol, mask=data.outlier_mask
    )


def _cell(setting):
    return setting["n_subspaces"], setting["n_groups"]


def _lines(records):
    names = [name + suffix for name in ("MRUC-S", "MRUC") for suffix in _STARTS]
    lines = {m: collect(records, m, "permutation error %", _cell) for m in names}
    lines["MRUC-S published"] = {cell: values[0] for cell, values in _PRINTED.items()}
    lines["MRUC published"] = {cell: values[1] for cell, values in _PRINTED.items()}
    return lines


def tables(records):
    """Mean permutation error of every cell."""
    lines = _lines(records)
    rows = [(cell, {m: line.get(cell) for m, line in lines.items()}) for cell in _PRINTED]
    return [beside(("subspaces", "groups"), rows, list(lines), digits=1)]


def figure(records, arrays):
    """Draw the error of every cell."""
    cells = list(_PRINTED)
    lines = {
        m: {cells.index(cell): value for cell, value in line.items()}
        for m, line in _lines(records).items()
    }
    labels = [f"{n}, {p}" for n, p in cells]
    return line_panels({"": lines}, x="subspaces, groups", y="permutation error %", labels=labels)


EXPERIMENT = Experiment(
    name="mruc",
    title="MRUC, alone and per subspace",
    protocol=(
        f"{_N_FEATURES} entries, rank {_RANK}, half of the entries shuffled; the shuffled vectors"
        " share one permutation per group. Number of vectors, noise and starts are not published:"
        f" {_N_VECTORS} vectors per subspace, 60% of them shuffled, {_SNR_DB:.0f} dB, 10 starts."
        " Values are compared up to the noise. The groups are given; the number of subspaces and"
        " the rank are given to the -S variant. Starts are informed (places that fit, places that"
        " look alike, then random) or only random, as published."
    ),
    settings=settings,
    n_seeds=lambda quick: 2 if quick else 10,
    run=run,
    tables=tables,
    figure=figure,
    quick="two draws of ten.",
)
