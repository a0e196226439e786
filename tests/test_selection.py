"""Which vectors are clean: starts that are wrong must not decide."""

import numpy as np
from scipy.ndimage import gaussian_filter1d

from unpermute import PMSDR
from unpermute.metrics import recovery_error
from unpermute.pmsdr._trials import scattered, shuffle


def test_spectra_with_few_peaks_are_told_from_shuffled_ones(rng):
    """A shuffle of mostly equal values hardly raises the noise of a vector."""
    lines = gaussian_filter1d(rng.normal(size=(3, 400)), 4, axis=1)
    lines = np.maximum(lines / lines.std(axis=1, keepdims=True) - 1.0, 0.0) ** 2
    heights = np.column_stack([rng.uniform(0.3, 1.0, 200), 0.02 * rng.uniform(size=(200, 2))])
    X = heights @ lines
    X = X / X.max() + 2e-4 * rng.normal(size=X.shape)
    observed, _ = shuffle(X[:50], scattered([0.4]), rng)
    model = PMSDR(random_state=0)
    fixed = model.fit_transform(np.vstack([observed, X[50:]]))
    np.testing.assert_array_equal(model.outlier_mask_, np.arange(200) < 50)
    assert recovery_error(X[:50], fixed[:50]) < 0.02
