"""Whatever is no matrix of numbers is refused in one sentence that names the parameter."""

import datetime
from collections.abc import Callable

import numpy as np
import pytest

from unpermute import PMSDR
from unpermute.classify import EliminationClassifier
from unpermute.cluster import ElasticNetSubspaceClustering
from unpermute.detect import SelfRepresentationDetector
from unpermute.recover import recover_vectors

BASIS = np.eye(6)[:, :2]
VECTORS = np.random.default_rng(0).standard_normal((5, 6))
DATE = datetime.date(2020, 1, 31)

DOORS: dict[str, tuple[str, Callable]] = {
    "PMSDR": ("X", lambda X: PMSDR().fit(X)),
    "clusterer": ("X", lambda X: ElasticNetSubspaceClustering(2).fit(X)),
    "detector": ("X", lambda X: SelfRepresentationDetector().fit(X)),
    "classifier": ("X", lambda X: EliminationClassifier().fit(X, [0, 1])),
    "recover_vectors": ("Y", lambda Y: recover_vectors(Y, BASIS)),
    "basis": ("basis", lambda basis: recover_vectors(VECTORS, basis)),
}

BAD = [
    (None, "{name}=None must be a matrix of numbers"),
    ("text", "{name}='text' must be a matrix of numbers"),
    (3.0, "{name}=3.0 must be a matrix of numbers"),
    ({"a": 1}, "{name}={{'a': 1}} must be a matrix of numbers"),
    ([], r"{name} must be a matrix, one vector per row, but has shape \(0,\)"),
    ([1.0, 2.0], r"{name} must be a matrix, one vector per row, but has shape \(2,\)"),
    (np.ones((2, 2, 2)), r"{name} must be a matrix, .* has shape \(2, 2, 2\)"),
    (np.empty((0, 6)), r"{name} was refused: Found array with 0 sample\(s\)"),
    (np.empty((2, 0)), r"{name} was refused: Found array with 0 feature\(s\)"),
    ([[1.0, 2.0], [3.0]], "{name} must be a matrix of numbers: all its rows must have the same"),
    ([["a", "b"], ["c", "d"]], "{name} must hold numbers, but column 0 of {name} holds text.* 'a'"),
    ([[1.0, "b"], [2.0, 3.0]], "{name} must hold numbers, but column 1 of {name} holds text.* 'b'"),
    (np.array([["a", "b"]] * 2), "but column 0 of {name} holds text, for instance 'a'"),
    (np.array([[1, 2], [3, "b"]], dtype=object), "column 1 of {name} holds text.* 'b'"),
    (np.array([[1, 2], [DATE, 3]], dtype=object), "column 0 of {name} holds dates"),
    (np.zeros((2, 2), dtype="M8[D]"), r"but {name} holds dates \(datetime64\[D\]\)"),
    (np.ones((2, 2), dtype=complex), "{name} must hold real numbers, but has dtype complex128"),
    (np.full((2, 6), np.inf), "{name} contains infinity"),
]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("value", "message"), BAD)
def test_no_matrix_of_numbers(door, value, message):
    name, call = DOORS[door]
    with pytest.raises(ValueError, match=message.format(name=name)):
        call(value)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("values", "what"),
    [
        (["x", "y"], "text, for instance 'x'"),
        (["1", None], "text, for instance '1'"),
        (np.array(["2020-01-31", "2020-02-01"], dtype="M8[s]"), "dates"),
        ([1.0, DATE], "dates"),
    ],
)
def test_frames_name_the_column(door, values, what):
    pandas = pytest.importorskip("pandas")
    name, call = DOORS[door]
    frame = pandas.DataFrame({"size": [1.0, 2.0], "kind": values})
    with pytest.raises(ValueError, match=f"column 'kind' of {name} holds {what}"):
        call(frame)


def test_categories_and_text_columns_of_other_types():
    pandas = pytest.importorskip("pandas")
    for dtype in ("category", "string"):
        frame = pandas.DataFrame(
            {"size": [1.0, 2.0], "kind": pandas.Series(["x", "y"], dtype=dtype)}
        )
        with pytest.raises(ValueError, match="column 'kind' of X holds text"):
            ElasticNetSubspaceClustering(2).fit(frame)


def test_numbers_in_other_clothes_are_welcome():
    pandas = pytest.importorskip("pandas")
    X = np.abs(VECTORS).round() + np.eye(5, 6)
    frames = [
        pandas.DataFrame(X),
        pandas.DataFrame(X).astype("Int64"),
        pandas.DataFrame(X).astype(object),
        pandas.DataFrame(X).astype("float32"),
    ]
    expected = recover_vectors(X, BASIS, method="lsrf").fitted
    for given in [*frames, X.tolist(), X.astype(object), np.asfortranarray(X)]:
        np.testing.assert_array_equal(recover_vectors(given, BASIS, method="lsrf").fitted, expected)


def test_one_column_of_a_basis_is_named():
    with pytest.raises(ValueError, match=r"basis must be a matrix, .* has shape \(6,\)"):
        recover_vectors(VECTORS, BASIS[:, 0])


def test_labels_are_not_mistaken_for_vectors():
    with pytest.raises(ValueError, match="y contains NaN"):
        EliminationClassifier().fit(VECTORS, [0.0, 1.0, np.nan, 0.0, 1.0])
