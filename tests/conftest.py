"""Shared fixtures: small unions of subspaces, and the seed every random test runs with."""

import os

import numpy as np
import pytest
from hypothesis import settings

# On a busy machine, or while kernels are compiled, any example may take long.
settings.register_profile("unpermute", deadline=None)
settings.load_profile("unpermute")


@pytest.fixture(params=[0, 1, 2])
def seed(request):
    """Random tests must hold for more than one seed."""
    return request.param


@pytest.fixture
def rng(seed):
    return np.random.default_rng(seed)


@pytest.fixture
def union_of_subspaces():
    """Factory of unit vectors in random subspaces, with labels."""

    def make(seed=0, n_subspaces=3, n_vectors=40, n_features=30, rank=3, noise=0.0):
        rng = np.random.default_rng(seed)
        parts = []
        for _ in range(n_subspaces):
            basis = np.linalg.qr(rng.normal(size=(n_features, rank)))[0]
            parts.append(rng.normal(size=(n_vectors, rank)) @ basis.T)
        X = np.vstack(parts)
        X += noise * rng.normal(size=X.shape) / np.sqrt(n_features)
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        return X, np.repeat(np.arange(n_subspaces), n_vectors)

    return make


@pytest.fixture(scope="session")
def data_home():
    """Folder of the real data sets."""
    home = os.environ.get("UNPERMUTE_DATA")
    if not home:
        pytest.skip("UNPERMUTE_DATA does not name the data folder")
    return home
