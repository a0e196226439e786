"""Very long vectors: trials by some of their entries."""

import numpy as np
import pytest

from unpermute import PMSDR
from unpermute.datasets import make_permuted_subspaces
from unpermute.metrics import recovery_error
from unpermute.pmsdr._clean_model import _FEWEST_WHOLE
from unpermute.pmsdr._explain import in_place
from unpermute.pmsdr._judge import Mixture
from unpermute.pmsdr._model import fit_component
from unpermute.pmsdr._some_entries import SomeEntries, is_everywhere
from unpermute.pmsdr._trials import Pattern


def mixture_of(n_features):
    data = make_permuted_subspaces(1, 20, n_features, 3, outlier_ratio=0.0, random_state=0)
    return data.X, Mixture([fit_component(data.X)], np.zeros(1))


def test_some_entries_say_what_all_say():
    X, mixture = mixture_of(8000)
    some = SomeEntries.of(mixture, seed=0)
    nobody = np.full(len(X), -1)
    whole = in_place(X, mixture.components[0], nobody)
    part = in_place(X[:, some.columns], some.mixture.components[0], nobody)
    assert some.stands_for == 8000 / len(some.columns)
    np.testing.assert_allclose(part.noise, whole.noise, rtol=0.15)
    np.testing.assert_allclose(part.likelihood * some.stands_for, whole.likelihood, rtol=0.05)


def test_shorter_vectors_are_tried_whole():
    assert SomeEntries.of(mixture_of(500)[1], seed=0) is None


def test_light_or_local_damage_needs_all_entries():
    assert is_everywhere(Pattern("scattered", 0.3))
    assert not is_everywhere(Pattern("scattered", 0.01))
    assert not is_everywhere(Pattern("window", 0.3, 10, 2000))


@pytest.mark.parametrize(("snr_db", "worst"), [(40.0, 0.02), (20.0, 0.15)])
def test_very_long_vectors_are_recovered_surely(snr_db, worst):
    data = make_permuted_subspaces(
        1, 30, 6000, 4, outlier_ratio=0.5, shuffled_ratio=0.5, snr_db=snr_db, random_state=3
    )
    model = PMSDR(random_state=0)
    X_fixed = model.fit_transform(data.X)
    assert np.array_equal(model.outlier_mask_, data.outlier_mask)
    assert model.trials_.n_trials > _FEWEST_WHOLE  # more than whole vectors would be given
    assert recovery_error(data.X_clean, X_fixed, mask=data.outlier_mask) < worst
    np.testing.assert_array_equal(PMSDR(random_state=0, n_jobs=2).fit_transform(data.X), X_fixed)
