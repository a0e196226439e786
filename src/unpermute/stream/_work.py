"""Tasks on a block of vectors, run locally or on a cluster: pure functions of block and position.

Every task is a small object that can be pickled, called with a block and the number of its first
vector. Local runs and clusters call the same tasks on the same blocks, so that their answers agree.
"""

import copy
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import joblib
import numpy as np

from unpermute._validation import validate_vectors
from unpermute.numerics.parallel import one_blas_thread
from unpermute.pmsdr import PMSDR
from unpermute.stream._output import Output, Part

__all__ = [
    "FindUnexplained",
    "Pick",
    "Repair",
    "examine",
    "fingerprint",
    "run_here",
    "without_training_data",
]

# Attributes of PMSDR about its training vectors: large, and of no use for other vectors.
_OF_TRAINING = (
    *("labels_", "outlier_mask_", "permutations_"),
    *("confidence_", "entry_confidence_", "status_"),
    *("damage_probability_", "expected_error_", "certified_"),
)


@dataclass(frozen=True)
class Pick:
    """Take some vectors of a block, known by their numbers."""

    rows: np.ndarray

    def __call__(self, X, start):
        first, last = np.searchsorted(self.rows, [start, start + len(X)])
        return X[self.rows[first:last] - start]


@dataclass(frozen=True)
class FindUnexplained:
    """Of a random share of the vectors that lie near no subspace, those that nothing recovers.

    Returns their random numbers, of which the least are to be taken, and the vectors.
    """

    model: PMSDR
    seed: int
    share: float

    def __call__(self, X, start):
        lots = lots_of(self.seed, start, len(X))
        drawn = lots < self.share
        X, lots = X[drawn], lots[drawn]
        if len(X) == 0:
            return lots, X
        found = _examine(self.model, X, start)
        left = found.odd & (found.status != "recovered")
        return lots[left], X[left]


@dataclass(frozen=True)
class Repair:
    """Repair a block and write it as a partition."""

    model: object
    output: Output

    def __call__(self, X, start):
        self.output.write(examine(self.model, X, start))


def examine(model, X, start=0):
    """Repair a block: everything that is known of it for PMSDR, the vectors alone for others."""
    found = _examine(model, X, start)
    if not isinstance(model, PMSDR):
        return Part(start, np.asarray(found))
    # The smallest type that holds the places: with 64 bits they would take as much memory as the
    # vectors.
    places = found.permutations.astype(np.min_scalar_type(-X.shape[1]))
    return Part(start, found.X, found.labels, found.status, found.confidence, places)


def _examine(model, X, start):
    try:
        with one_blas_thread():
            if not isinstance(model, PMSDR):
                return model.transform(X)
            return model._examine(validate_vectors(model, X, reset=False, allow_nan=True))
    except ValueError as error:
        where = f"vectors {start} to {start + len(X) - 1} of the source were refused"
        raise ValueError(f"{where}: {error}") from error


def lots_of(seed, start, count):
    """Random numbers in [0, 1) that belong to the vectors, however these are cut into blocks."""
    # Philox counts: it can start anywhere. Every count gives four numbers.
    generator = np.random.Philox(key=seed).advance(start // 4)
    return np.random.Generator(generator).random(count + start % 4)[start % 4 :]


def without_training_data(model, *, n_jobs=None):
    """Copy of a fitted model without what it knows of its training vectors, for other processes."""
    model = copy.copy(model)
    if isinstance(model, PMSDR):
        for name in _OF_TRAINING:
            setattr(model, name, getattr(model, name)[:0])
        model.__dict__.pop("_proposals", None)
    # Blocks are plain matrices; names were compared before.
    vars(model).pop("feature_names_in_", None)
    if n_jobs is not None and hasattr(model, "n_jobs"):
        model.n_jobs = n_jobs
    return model


def fingerprint(model):
    """Return a fingerprint of a fitted model, without options that only change its speed."""
    # Pickled and loaded first: whether parts share memory must not change the fingerprint.
    state = pickle.loads(pickle.dumps(vars(without_training_data(model))))
    speed = ("n_jobs", "verbose", "random_state")
    known = {key: value for key, value in state.items() if key not in speed}
    return joblib.hash((type(model).__qualname__, sorted(known.items())))


def run_here(source, task, blocks: Iterable[tuple[int, int]]) -> Iterator[tuple[int, object]]:
    """Call a task on every block, one after the other; yield first vector and result."""
    for start, stop in blocks:
        yield start, task(source.read(start, stop), start)
