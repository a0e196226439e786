"""Kept models are data: they come back whole, and strange or damaged ones are refused."""

import io
import json
import pickle
import zipfile

import joblib
import numpy as np
import polars as pl
import pytest
import skops.io
from polars.testing import assert_frame_equal

from unpermute import PMSDR
from unpermute.baselines import (
    MRUC,
    UPCA,
    LowRankRepresentation,
    PerSubspace,
    RobustKernelPCA,
    RobustPCA,
    SSCReconstruction,
)
from unpermute.datasets import make_permuted_subspaces
from unpermute.table import TableModel, learn
from unpermute.table._model_file import digest


def _frame(seed, n=150):
    rng = np.random.default_rng(seed)
    size = rng.normal(170, 10, n)
    return pl.DataFrame(
        {
            "height": size.round(1),
            "weight": (size * 0.45 + rng.normal(0, 3, n)).round(1),
            "name": [f"{a}{b}" for a, b in rng.choice(list("ABCDEFGHKLMN"), (n, 2))],
            "since": [f"20{y:02}-{m:02}-01" for y, m in rng.integers(1, 12, (n, 2))],
            "paid": [f"€ {v:.2f}" for v in rng.gamma(2, 50, n)],
            "note": [None if v < 0.5 else "late" for v in rng.random(n)],
        }
    )


@pytest.fixture(scope="module")
def model():
    return learn(_frame(0))


@pytest.fixture(scope="module")
def raw(model):
    sink = io.BytesIO()
    model.save(sink)
    return sink.getvalue()


def test_a_kept_model_gives_the_same_answers(model, tmp_path):
    model.save(tmp_path / "m.model")
    again = TableModel.load(tmp_path / "m.model")
    damaged = _frame(1, 40).with_columns(
        pl.Series("name", ["2003-04-01", *_frame(1, 40)["name"][1:]]),
        pl.Series("since", [_frame(1, 40)["name"][0], *_frame(1, 40)["since"][1:]]),
    )
    before, after = model.repair(damaged), again.repair(damaged)
    assert before.summary["n_repaired"] == 1
    assert_frame_equal(before.proposals, after.proposals)
    assert_frame_equal(before.frame, after.frame)


def test_equal_models_are_equal_files(raw, tmp_path):
    (tmp_path / "m.model").write_bytes(raw)
    sink = io.BytesIO()
    TableModel.load(tmp_path / "m.model").save(sink)
    assert sink.getvalue() == raw


def _load(tmp_path, raw):
    path = tmp_path / "m.model"
    path.write_bytes(raw)
    return TableModel.load(path)


@pytest.mark.parametrize("seed", range(3))
def test_a_damaged_model_is_one_sentence(raw, tmp_path, seed):
    rng = np.random.default_rng(seed)
    for _ in range(40):
        bad = bytearray(raw)
        kind = rng.integers(3)
        at = int(rng.integers(len(bad)))
        if kind == 0:
            bad[at] ^= int(rng.integers(1, 256))
        elif kind == 1:
            del bad[at : at + int(rng.integers(1, 300))]
        else:
            bad = bad[:at]
        try:
            loaded = _load(tmp_path, bytes(bad))
        except ValueError as error:
            said = str(error)
        else:  # bytes of a zip that mean nothing
            assert loaded.names == _frame(0, 1).columns
            continue
        assert "write a new one with --save-model" in said


def _edited(raw, change=lambda content: None, replaced=None, forged=True):
    """Return a sound zip of which the tree or an array is another."""
    with zipfile.ZipFile(io.BytesIO(raw)) as old:
        parts = {name: old.read(name) for name in old.namelist()}
    content = json.loads(parts["model.json"])
    change(content)
    parts["model.json"] = json.dumps(content).encode()
    parts |= replaced or {}
    if forged:
        parts["sha256"] = digest(parts).encode()
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as new:
        for name, part in parts.items():
            new.writestr(name, part)
    return sink.getvalue()


def _first_value_model(content):
    return content["model"]["fields"]["model"]["fields"]["values"][0]["fields"]


class _Bomb:
    """Something that would run when it is unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("a model file was run",))


def _npy(array):
    sink = io.BytesIO()
    np.save(sink, array, allow_pickle=True)
    return sink.getvalue()


def _joblib(content):
    sink = io.BytesIO()
    joblib.dump(content, sink, compress=3)
    return sink.getvalue()


STRANGE = {
    "nothing": (lambda raw: b"", "or is damaged"),
    "a table": (lambda raw: b"a,b\n1,2\n", "or is damaged"),
    "a pickle": (lambda raw: pickle.dumps(_Bomb()), "an earlier version"),
    "a compressed pickle": (lambda raw: _joblib(_Bomb()), "an earlier version"),
    "another zip": (lambda raw: _edited(raw, lambda c: c.update(format="x")), "another kind"),
    "another version": (lambda raw: _edited(raw, lambda c: c.update(version=9)), "of version 9"),
    "columns of numbers": (lambda raw: _edited(raw, lambda c: c.update(columns=[1])), "its parts"),
    "too few columns": (lambda raw: _edited(raw, lambda c: c["columns"].pop()), "of one size"),
    "no model": (lambda raw: _edited(raw, lambda c: c.update(model=3)), "its parts"),
    "an unknown part": (lambda raw: _edited(raw, lambda c: c["model"].update(part=1)), "damaged"),
    "a wrong type": (
        lambda raw: _edited(raw, lambda c: c["model"]["fields"].update(tempering="x")),
        "KnownRecords.tempering is of a wrong type",
    ),
    "an array of objects": (
        lambda raw: _edited(raw, replaced={"0.npy": _npy(np.array([_Bomb()]))}),
        "or is damaged",
    ),
    "an array of another size": (
        lambda raw: _edited(
            raw, lambda c: c["model"]["fields"]["tempering"]["fields"]["full"].update(array=0)
        ),
        "of one size",
    ),
    "a part that was edited": (
        lambda raw: _edited(raw, lambda c: c.update(unpermute="9"), forged=False),
        "changed after it had been written",
    ),
    "arrays that do not fit": (
        lambda raw: _edited(
            raw,
            lambda c: _first_value_model(c).update(classes={"array": 999}),
            {"999.npy": _npy(np.zeros(1))},
        ),
        "do not fit together",
    ),
    "deep": (
        lambda raw: _edited(raw, replaced={"model.json": b"[" * 100_000 + b"]" * 100_000}),
        "or is damaged",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", STRANGE)
def test_a_strange_model_is_refused_and_not_run(raw, tmp_path, kind):
    make, said = STRANGE[kind]
    with pytest.raises(ValueError, match=said) as refused:
        _load(tmp_path, make(raw))
    assert "write a new one with --save-model" in str(refused.value)


def test_a_model_that_claims_to_be_huge_is_refused(raw, tmp_path, monkeypatch):
    monkeypatch.setattr("unpermute.table._model_file._MOST_BYTES", 1000)
    with pytest.raises(ValueError, match="larger than any model"):
        _load(tmp_path, raw)


# Estimators, which skops keeps as data too


@pytest.fixture(scope="module")
def matrix():
    return make_permuted_subspaces(
        2, 40, n_features=12, rank=2, outlier_ratio=0.2, random_state=0
    ).X


ESTIMATORS = {
    "PMSDR()": PMSDR(random_state=0),
    "PMSDR(2, 2)": PMSDR(2, 2, random_state=0),
    "the paper's": PMSDR(
        2, 2, contamination=16, clusterer="ssc", basis="svd", classifier="elimination",
        recoverer="lsrf", refine=False, output="subspace", random_state=0,
    ),
    "RobustPCA": RobustPCA(),
    "RobustKernelPCA": RobustKernelPCA(max_iter=5),
    "LowRankRepresentation": LowRankRepresentation(),
    "MRUC": MRUC(rank=2, max_iter=5),
    "UPCA": UPCA(rank=2),
    "SSCReconstruction": SSCReconstruction(),
    "PerSubspace": PerSubspace(RobustPCA()),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_come_back_from_skops_without_trusting_anything_else(name, matrix):
    estimator = ESTIMATORS[name].fit(matrix)
    kept = skops.io.dumps(estimator)
    unknown = skops.io.get_untrusted_types(data=kept)
    assert all(each.startswith("unpermute.") for each in unknown), unknown
    again = skops.io.loads(kept, trusted=unknown)
    assert repr(again) == repr(estimator)
    if hasattr(estimator, "transform"):
        np.testing.assert_array_equal(again.transform(matrix), estimator.transform(matrix))
