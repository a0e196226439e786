"""Pictures: the numbers that they show, the axes they draw on, and what they refuse."""

import subprocess
import sys

import matplotlib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.datasets import load_wine

from unpermute import PMSDR
from unpermute.datasets import make_permuted_subspaces
from unpermute.plot import (
    ConfidenceDisplay,
    RecoverabilityDisplay,
    RepairDisplay,
    SubspaceDisplay,
)
from unpermute.table import repair
from unpermute.theory import recoverability

matplotlib.use("agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(scope="module")
def fitted():
    data = make_permuted_subspaces(2, 40, 20, 2, outlier_ratio=0.2, random_state=0)
    return data, PMSDR(random_state=0).fit(data.X)


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def _damaged_wine():
    wine = load_wine(as_frame=True).data
    wine.loc[5, ["alcohol", "magnesium"]] = wine.loc[5, ["magnesium", "alcohol"]].to_numpy()
    return wine


def test_repair_marks_the_vectors_that_changed(fitted):
    data, model = fitted
    display = RepairDisplay.from_estimator(model, data.X)
    changed = np.any(model.transform(data.X) != data.X, axis=1)
    np.testing.assert_array_equal(display.marked, np.flatnonzero(changed))
    assert [axes.get_title() for axes in display.axes_] == ["Observed", "Repaired"]


def test_repair_takes_missing_entries_for_equal():
    X = np.array([[1.0, np.nan], [2.0, 3.0]])
    display = RepairDisplay.from_predictions(X, np.array([[1.0, np.nan], [3.0, 2.0]]))
    assert display.marked.tolist() == [1]


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_moved_cells_are_counted_where_they_are(kind):
    result = repair(kind(_damaged_wine()))
    display = RepairDisplay.from_result(result)
    [moved] = display.panels.values()
    assert moved.sum() == 2
    names = [display.names[j] for j in np.flatnonzero(moved[5])]
    assert names == ["alcohol", "magnesium"]


def test_long_tables_share_tiles():
    class Result:
        changes = pd.DataFrame({"row": [0, 999], "column": ["b", "b"]})
        summary = {"columns": ["a", "b"], "n_rows": 1000}  # noqa: RUF012

    display = RepairDisplay.from_result(Result())
    [moved] = display.panels.values()
    assert display.rows_per_tile == 5
    assert moved.shape == (200, 2)
    assert moved[[0, -1], 1].tolist() == [1, 1]


def test_subspace_distances_are_those_of_the_bases(fitted):
    data, _ = fitted
    display = SubspaceDisplay.from_predictions(data.X, data.X_clean, data.bases, labels=data.labels)
    basis = data.bases[data.labels[0]]
    rest = data.X[0] - basis @ (basis.T @ data.X[0])
    expected = np.linalg.norm(rest) / np.linalg.norm(data.X[0])
    assert display.distance[0, 0] == pytest.approx(expected)
    hit = data.outlier_mask
    assert display.distance[hit, 1].max() < display.distance[hit, 0].min()


def test_confidence_bins():
    display = ConfidenceDisplay.from_predictions([0.05, 0.95, 1.0, 0.96], [0, 1, 1, 0], n_bins=10)
    np.testing.assert_allclose(display.confidence, [0.05, (0.95 + 1.0 + 0.96) / 3])
    np.testing.assert_allclose(display.share_right, [0, 2 / 3])
    assert display.count.tolist() == [1, 3]


def test_confidence_of_trials_and_of_a_table(fitted):
    _, model = fitted
    display = ConfidenceDisplay.from_estimator(model)
    assert display.count.sum() == sum(count for _, _, count in model.trials_.reliability)
    display = ConfidenceDisplay.from_result(repair(_damaged_wine()))
    assert display.count.sum() == 1
    assert np.isnan(display.share_right).all()


def test_recoverability_is_the_formula(fitted):
    _, model = fitted
    display = RecoverabilityDisplay.from_formula(30, ranks=[2, 10], ratios=[0.3, 0.7], snr_db=30)
    assert display.probability[1, 0] == recoverability(30, 2, 0.7, 30)
    display = RecoverabilityDisplay.from_estimator(model)
    assert len(display.points) == np.sum(model.status_ == "recovered")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: RepairDisplay.from_predictions([1.0], [1.0]), "X has shape"),
        (lambda: RepairDisplay.from_predictions([[1.0]], [[1.0, 2.0]]), "X_fixed has shape"),
        (lambda: SubspaceDisplay.from_predictions([[np.nan]], [[1.0]], []), "missing entries"),
        (lambda: ConfidenceDisplay.from_predictions([0.5], [1, 0]), "one length"),
        (lambda: ConfidenceDisplay.from_predictions([1.5], [1]), "from 0 to 1"),
        (lambda: ConfidenceDisplay.from_predictions([0.5], [1], n_bins=0), "n_bins=0 must"),
        (lambda: ConfidenceDisplay.from_estimator(PMSDR()), "ran no trials"),
        (lambda: RecoverabilityDisplay.from_formula(1), "n_features=1 must"),
        (lambda: RecoverabilityDisplay.from_predictions([1], [0.1], [[1, 2]]), "probability has"),
        (
            lambda: RepairDisplay.from_predictions([[1.0]], [[1.0]], ax=plt.subplots()[1]),
            "ax holds 1 axes, but RepairDisplay.plot draws 2",
        ),
    ],
)
def test_refusals_name_what_is_wrong(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_given_axes_are_drawn_on():
    _, axes = plt.subplots(1, 2)
    display = RepairDisplay.from_predictions([[1.0, 2.0]], [[2.0, 1.0]], ax=axes)
    assert display.axes_[0] is axes[0]
    assert display.figure_ is axes[0].figure


def test_matplotlib_is_optional():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from unpermute.plot import RepairDisplay\n"
        "try: RepairDisplay.from_predictions([[1.0]], [[1.0]])\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == 'RepairDisplay.plot needs matplotlib: pip install "unpermute[plot]"\n'
