"""Odd matrices: recovered or refused; never a warning of numpy, a NaN, or an invented value."""

import warnings

import numpy as np
from mutations import FailedError, rng_of

from unpermute import PMSDR
from unpermute.baselines import MRUC, LowRankRepresentation, RobustPCA
from unpermute.recover import recover_vectors


def check(seed, number):
    rng = rng_of(seed, 4, number)
    X = odd_matrix(rng)
    method = ["PMSDR", "PMSDR(1, 1)", "recover", "RobustPCA", "LRR", "MRUC"][number % 6]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        try:
            return _run(method, X, rng)
        except ValueError as error:
            if isinstance(error, np.linalg.LinAlgError):
                raise
            return "refused"
        except Exception as error:
            error.inputs = [(".txt", f"{method}\n{X!r}".encode())]
            raise


def odd_matrix(rng):
    n, m = int(rng.integers(2, 30)), int(rng.integers(2, 12))
    rank = int(rng.integers(1, 4))
    X = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, m)) + 0.01 * rng.normal(size=(n, m))
    for row in rng.permutation(n)[: n // 5]:
        X[row] = rng.permutation(X[row])
    for _ in range(int(rng.integers(0, 4))):
        kind, row, column = rng.integers(9), rng.integers(n), rng.integers(m)
        if kind == 0:
            X[row] = 0
        elif kind == 1:
            X[:, column] = X[0, 0]
        elif kind == 2:
            X[row] = X[rng.integers(n)]
        elif kind == 3:
            X[row, column] = 10.0 ** rng.integers(-300, 300)
        elif kind == 4:
            X = np.clip(X, -1e100, 1e100) * 10.0 ** rng.integers(-150, 150)
        elif kind == 5:
            X[row, column] = np.nan
        elif kind == 6:
            X = np.round(X)
        elif kind == 7:
            X[row] = -X[row]
        else:
            X[:, column] *= 1e8
    return X


def _run(method, X, rng):
    if method == "recover":
        basis = np.linalg.qr(rng.normal(size=(X.shape[1], 1)))[0]
        result = recover_vectors(X, basis, max_starts=50, random_state=0)
        return _sound(X, result.fitted, result.confidence, result.permutations)
    if method.startswith("PMSDR"):
        given = {} if method == "PMSDR" else {"n_subspaces": 1, "rank": 1}
        model = PMSDR(**given, random_state=0)
        fixed = model.fit_transform(X)
        if not np.array_equal(np.sort(fixed, axis=1), np.sort(X, axis=1), equal_nan=True):
            raise FailedError("values were lost or invented")
        return _sound(X, fixed, model.confidence_, model.permutations_)
    model = {
        "RobustPCA": RobustPCA(max_iter=30), "LRR": LowRankRepresentation(max_iter=30),
        "MRUC": MRUC(rank=1, max_iter=2, random_state=0),
    }[method]  # fmt: skip
    return _sound(X, model.fit_transform(X), np.zeros(0), None)


def _sound(X, fixed, confidence, permutations):
    if not np.isfinite(fixed[~np.isnan(X).any(axis=1)]).all():
        raise FailedError("the answer is not finite")
    if not np.isfinite(confidence).all():
        raise FailedError("a confidence is not a number")
    if permutations is not None:
        identity = np.broadcast_to(np.arange(X.shape[1]), X.shape)
        if not np.array_equal(np.sort(permutations, axis=1), identity):
            raise FailedError("not a permutation")
    return "recovered"
