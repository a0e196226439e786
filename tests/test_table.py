"""Frames in, frames out: records, columns, groups, blocks, bad input and the audit."""

import tracemalloc

import narwhals.stable.v1 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from sklearn.datasets import load_breast_cancer, load_wine

from unpermute.columns import _links
from unpermute.files._moves import Moves, move_cells, unfit_moves
from unpermute.records import read_cells
from unpermute.table import audit, repair, scan

BACKENDS = {"pandas": lambda f: f, "polars": pl.from_pandas, "pyarrow": pa.Table.from_pandas}


@pytest.fixture(scope="module")
def wine():
    """A clean table with a name and a text beside its numbers."""
    frame = load_wine(as_frame=True).data
    frame["magnesium"] = frame["magnesium"].astype("int64")
    frame.insert(0, "name", [f"wine {i}" for i in range(len(frame))])
    frame["remark"] = ["<b>=cmd</b>"] * len(frame)
    return frame


@pytest.fixture(scope="module")
def damaged(wine):
    """Two fields of record 5 swapped."""
    frame = wine.copy()
    frame.loc[5, ["alcohol", "proline"]] = [1450.0, 14.2]
    assert wine.loc[5, "alcohol"] == 14.2
    assert wine.loc[5, "proline"] == 1450.0
    return frame


@pytest.fixture(scope="module")
def tumours():
    data = load_breast_cancer(as_frame=True)
    return data.data[data.target == 1].reset_index(drop=True)


def _linear(rng, n_rows, names):
    """A table of rank 3 without noise."""
    values = rng.normal(size=(n_rows, 3)) @ rng.normal(size=(3, len(names)))
    return pd.DataFrame(values, columns=list(names))


def _shuffle(frame, columns, share, seed):
    """Shuffle the named columns together; return the frame and which rows changed."""
    rng = np.random.default_rng(seed)
    places = rng.choice(len(frame), int(share * len(frame)), replace=False)
    order = np.arange(len(frame))
    order[places] = rng.permutation(places)
    shuffled = frame.copy()
    shuffled[columns] = frame[columns].to_numpy()[order]
    return shuffled, order != np.arange(len(frame))


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_frame_comes_back_as_it_was_given(wine, damaged, backend):
    given = BACKENDS[backend](damaged)
    result = repair(given, id="name")
    for frame in (result.frame, result.changes, result.vectors):
        assert type(frame) is type(given)
    whole = nw.from_native(result.frame)
    assert whole.schema == nw.from_native(given).schema
    assert whole.rows() == nw.from_native(BACKENDS[backend](wine)).rows()
    changes = nw.from_native(result.changes)
    assert changes["id"].to_list() == ["wine 5", "wine 5"]
    assert changes["column"].to_list() == ["alcohol", "proline"]
    assert changes["moved_from"].to_list() == ["proline", "alcohol"]
    assert changes["cause"].to_list() == ["two fields swapped"] * 2


def test_a_scan_changes_nothing_and_says_the_same(damaged):
    before = damaged.copy()
    scanned, repaired = scan(damaged), repair(damaged)
    pd.testing.assert_frame_equal(scanned.frame, before)
    pd.testing.assert_frame_equal(damaged, before)
    pd.testing.assert_frame_equal(scanned.changes, repaired.changes)
    pd.testing.assert_frame_equal(scanned.vectors, repaired.vectors)


def test_index_types_and_nulls_survive(wine, damaged):
    frame = damaged.copy()
    frame["magnesium"] = frame["magnesium"].astype("Int64")
    frame.loc[[3, 40, 90], "magnesium"] = pd.NA
    frame.loc[7, "ash"] = np.nan
    frame.index = [f"row {i}" for i in range(len(frame))]
    result = repair(frame)
    assert list(result.frame.index) == list(frame.index)
    assert (result.frame.dtypes == frame.dtypes).all()
    pd.testing.assert_frame_equal(result.frame.isna(), frame.isna())
    assert set(result.changes["id"]) == {"row 5"}


@pytest.mark.parametrize("backend", BACKENDS)
def test_texts_are_moved_as_they_are_written(damaged, backend):
    texts = damaged.astype(str)
    texts.loc[5, "proline"] = "014.20"
    result = repair(BACKENDS[backend](texts))
    frame = nw.from_native(result.frame)
    assert frame["alcohol"][5] == "014.20"
    assert frame["proline"][5] == "1450.0"
    assert result.summary["n_moved_cells"] == 2


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_arrow_keeps_its_kind_of_text(damaged, kind):
    given = pa.Table.from_pandas(damaged.astype(str), preserve_index=False)
    given = given.cast(pa.schema([(name, kind) for name in given.column_names]))
    result = repair(given)
    assert result.summary["n_moved_cells"] == 2
    assert result.frame.schema == given.schema


def test_what_cannot_be_moved_is_not_called_right(damaged):
    frame = damaged.copy()
    frame["alcohol"] = frame["alcohol"].astype(str)
    frame.loc[5, "alcohol"] = "much"  # a column of numbers cannot hold it
    vectors = scan(frame).vectors.set_index("vector")
    assert vectors.loc[5, "status"] == "uncertain"
    assert vectors.loc[5, "moved"] == 0
    assert vectors.loc[5, "damaged"] > 0.5


def test_a_value_that_reads_the_same_moves_between_types(wine, damaged):
    for kind in ("float32", pd.ArrowDtype(pa.decimal128(12, 2))):
        frame = damaged.astype({"proline": kind})
        result = repair(frame)
        assert result.frame.loc[5, "alcohol"] == 14.2
        assert result.frame.loc[5, "proline"] == 1450
        assert result.frame["proline"].dtype == kind
        assert float(result.changes["old"][1]) == 14.2


@pytest.mark.parametrize(
    ("kind", "value"),
    [("float32", 1450.123456789012), (pd.ArrowDtype(pa.decimal128(6, 2)), 1450.125)],
)
def test_a_record_with_a_value_that_does_not_fit_is_left_alone(damaged, kind, value):
    frame = damaged.astype({"proline": kind})
    frame.loc[5, "alcohol"] = value
    result = repair(frame)
    pd.testing.assert_frame_equal(result.frame, frame)
    assert result.vectors["status"].tolist() == ["uncertain"]
    (note,) = result.summary["notes"]
    assert "does not fit the type of its column: 1 ('proline' (" in note


TYPES = {
    pl.Int8: st.integers(-128, 127),
    pl.UInt16: st.integers(0, 65535),
    pl.Int64: st.integers(-(2**63), 2**63 - 1),
    pl.Float32: st.floats(width=32, allow_nan=False),
    pl.Float64: st.floats(allow_nan=False),
    pl.Decimal(9, 3): st.decimals(-999999, 999999, places=3),
    pl.String: st.floats(-1e3, 1e3).map(str)
    | st.integers(-9, 999).map(str)
    | st.text("a1.-e", max_size=3),
}


@given(st.data())
def test_what_fits_comes_back_as_it_was(data):
    types = data.draw(st.tuples(*[st.sampled_from(list(TYPES))] * 2), label="types")
    columns = {
        name: pl.Series(
            name, data.draw(st.lists(TYPES[kind] | st.none(), min_size=4, max_size=4)), kind
        )
        for name, kind in zip("ab", types, strict=True)
    }
    before = nw.from_native(pl.DataFrame(columns), eager_only=True)
    rows, columns = np.repeat(np.arange(4), 2), np.tile([0, 1], 4)
    moves = Moves(rows, columns, rows, 1 - columns)
    fits = np.flatnonzero(~unfit_moves(before, "ab", moves).reshape(4, 2).any(axis=1))
    kept = np.isin(rows, fits)
    moves = Moves(rows[kept], columns[kept], rows[kept], 1 - columns[kept])
    moved = move_cells(before, "ab", moves)
    assert moved.schema == before.schema
    assert_frame_equal(
        move_cells(moved, "ab", moves).to_native(), before.to_native(), check_exact=True
    )


def test_one_long_text_does_not_need_its_room_in_every_row():
    """An array of texts has room for the longest in every place: 1.2 GB here."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "word": ["x" * 100_000, *rng.choice(["ann", "bob", "cy"], 2999)],
            "amount": rng.normal(size=3000),
        }
    )
    tracemalloc.start()
    cells, _ = read_cells(nw.from_native(frame), frame.columns)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6
    assert len(cells.text_list) == 4


def test_missing_values_and_long_integers_of_pandas_survive_a_move():
    numbers = [2**62, 2**60 + 1, None]
    frame = pd.DataFrame({"a": pd.array([1, 2, 3], "Int64"), "b": pd.array(numbers, "Int64")})
    frame.index = [5, 5, 7]
    rows, zeros = np.arange(3), np.zeros(3, dtype=np.int64)
    moves = Moves(rows, zeros, rows, zeros + 1)
    moved = move_cells(nw.from_native(frame, eager_only=True), ["a", "b"], moves).to_native()
    assert moved["a"].tolist()[:2] == numbers[:2]
    assert moved["a"].isna().tolist() == [False, False, True]
    assert moved.index.tolist() == [5, 5, 7]


@pytest.mark.parametrize("kind", ["Float32", "Float64", "double[pyarrow]"])
def test_a_missing_cell_moves_like_any_other(damaged, kind):
    columns = damaged.columns.drop(["name", "remark"])
    frame = damaged.astype(dict.fromkeys(columns, kind))
    frame.loc[5, "proline"] = None
    result = repair(frame, min_confidence=0.9)
    assert result.frame["alcohol"].isna()[5]
    assert result.frame.loc[5, "proline"] == 1450


@pytest.mark.parametrize(
    ("cell", "kind", "fits"),
    [
        (2.0**60, pl.Int64, True),
        (2.5, pl.Int64, False),
        (2**62, pl.Float64, True),
        (2**60 + 1, pl.Float64, False),
        (float("nan"), pl.Float32, True),
        (float("nan"), pl.Int8, False),
        (float("nan"), pl.String, False),
        ("1e1000000", pl.Int64, False),
        ("14", pl.Int64, True),
        ("14", pl.Float64, False),
        (300, pl.UInt8, False),
        (1e300, pl.Float32, False),
    ],
)
def test_a_value_fits_where_it_reads_the_same(cell, kind, fits):
    frame = nw.from_native(pl.DataFrame({"a": [cell], "b": pl.Series([None], dtype=kind)}))
    zero = np.array([0])
    moves = Moves(zero, zero + 1, zero, zero)
    assert unfit_moves(frame, "ab", moves).tolist() == [not fits]
    if fits:
        assert move_cells(frame, "ab", moves)["b"].to_list()[0] == pytest.approx(
            type(cell)(cell) if kind != pl.Int64 else int(cell), nan_ok=True
        )
    else:
        with pytest.raises(ValueError, match=r"column 'b' .* cannot hold .* of row 0, column 'a'"):
            move_cells(frame, "ab", moves)


@pytest.mark.filterwarnings("error")
def test_an_empty_column_is_no_obstacle(tumours):
    frame = tumours.iloc[:120, :8].assign(empty=np.nan)
    for vectors in ("rows", "columns"):
        assert repair(frame, vectors=vectors).frame["empty"].isna().all()
    assert audit(frame, columns=["mean radius"], n_trials=1).summary


@pytest.mark.filterwarnings("error")
def test_sources_of_one_record_are_left_alone(wine):
    frame = wine[:40]
    pd.testing.assert_frame_equal(repair(frame, groups="name").frame, frame)


def test_a_type_without_missing_values_does_not_tell_which_source_is_in_order(wine):
    frame = wine.drop(columns=["name", "remark"]).astype({"magnesium": float})
    minority = np.arange(len(frame)) % 9 == 0
    pair = ["magnesium", "proline"]
    frame.loc[minority, pair] = frame.loc[minority, pair[::-1]].to_numpy()
    frame.loc[[9, 18], "magnesium"] = np.nan
    frame = frame.astype({"proline": "int64"}).assign(source=minority.astype(str))
    result = repair(frame, groups="source")
    changed = set(result.changes["row"])
    assert changed == set(np.flatnonzero(minority)) - {9, 18}
    assert set(result.vectors.query("status == 'uncertain'")["row"]) == {9, 18}


@pytest.mark.parametrize("seed", [8, 12, 37])
def test_damaged_records_do_not_vouch_for_each_other(seed):
    rng, n = np.random.default_rng(seed), 120
    frame = pl.DataFrame(
        {
            "name": rng.choice(["Ada", "Bo", "Cleo", "Dan", "Eve", "Fay", "Gus", "Hal"], n),
            "orders": rng.poisson(6, n).astype(str),
            "visits": rng.poisson(12, n).astype(str),
            "spent": rng.gamma(9, 9, n).round(2),
            "town": rng.choice(["Bonn", "Kiel", "Ulm", "Trier"], n),
            "day": (np.datetime64("2024-01-01") + rng.integers(0, 300, n)).astype(str),
        }
    )
    name, orders = frame["name"].to_list(), frame["orders"].to_list()
    for j in (10, 70):
        name[j], orders[j] = orders[j], name[j]
    result = repair(frame.with_columns(pl.Series("name", name), pl.Series("orders", orders)))
    assert_frame_equal(result.frame, frame)


def test_columns_that_hold_the_same_values_are_not_suspected():
    rng, n = np.random.default_rng(3), 1000

    def times():
        return [f"{k // 60:02d}:{k % 60:02d}" for k in rng.integers(0, 1440, n)]

    frame = pd.DataFrame(
        {
            "opened": times(),
            "closed": times(),
            "amount": rng.gamma(4, 20, n).round(2).astype(str),
            "name": rng.choice(["Ada", "Bo", "Cleo", "Dan", "Eve"], n),
            "count": rng.poisson(9, n).astype(str),
            "share": rng.normal(50, 9, n).round(1).astype(str),
        }
    )
    damaged = frame.to_numpy(dtype=object)
    rows = rng.choice(n, 50, replace=False)
    for j in rows:
        a, b = rng.choice(6, 2, replace=False)
        damaged[j, a], damaged[j, b] = damaged[j, b], damaged[j, a]
    result = scan(pd.DataFrame(damaged, columns=frame.columns))
    assert len(set(result.vectors["row"]) - set(rows)) <= 20


def test_only_the_chosen_columns_are_used(damaged):
    assert "alcohol" not in scan(damaged, exclude=["alcohol"]).summary["columns"]
    chosen = ["alcohol", "proline", "ash"]
    assert scan(damaged, columns=chosen).summary["columns"] == chosen


def test_a_reference_and_a_model_are_learned_from(wine, damaged):
    few = damaged.iloc[:12]
    learned = repair(few, reference=wine)
    assert learned.changes["row"].tolist() == [5, 5]
    again = repair(few, model=repair(wine).model)
    assert again.changes["row"].tolist() == [5, 5]


def test_a_model_of_other_columns_is_refused(wine):
    model = repair(wine).model
    with pytest.raises(ValueError, match="model: the column='ash' is not a column"):
        repair(wine.drop(columns="ash"), model=model)
    turned = wine[wine.columns[::-1]]
    assert repair(turned, model=model).summary["n_moved_cells"] == 0


def test_a_whole_batch_in_another_column_order():
    cancer = load_breast_cancer(as_frame=True).data.iloc[:150].reset_index(drop=True)
    rng = np.random.default_rng(0)
    damaged = cancer.copy()
    batch = np.repeat(["a", "b", "c"], 50)
    damaged.iloc[50:100] = cancer.iloc[50:100, rng.permutation(30)].to_numpy()
    damaged["batch"] = batch
    result = repair(damaged, groups="batch")
    pd.testing.assert_frame_equal(result.frame.drop(columns="batch"), cancer)
    assert set(result.changes["cause"]) == {"another column order"}


def test_infinities_are_a_note_and_texts_among_numbers_no_error(damaged):
    frame = damaged.astype(object)
    frame.loc[20, "ash"] = np.inf
    frame.loc[30, "hue"] = "n/k"
    result = repair(frame)
    assert any("Infinite" in note for note in result.summary["notes"])
    assert result.frame.loc[20, "ash"] == np.inf
    assert result.frame.loc[30, "hue"] == "n/k"


def test_columns_shuffled_together_are_linked_again(tumours):
    columns = list(tumours.columns[::2])
    shuffled, moved = _shuffle(tumours, columns, 0.5, 1)
    result = repair(shuffled, vectors="columns", groups=[columns])
    right = (result.frame == tumours).all(axis=1).to_numpy()
    assert right[moved].mean() >= 0.95
    assert right[~moved].mean() >= 0.99
    assert not result.summary["structure"]["weak"]
    assert set(result.vectors["vector"]) == set(columns)


def test_weak_links_are_refused(tumours):
    size = [c for c in tumours if any(word in c for word in ("radius", "perimeter", "area"))]
    others = tumours.drop(columns=size)
    columns = list(others.columns[::2])
    shuffled, _ = _shuffle(others, columns, 0.5, 1)
    result = repair(shuffled, vectors="columns", groups=[columns])
    pd.testing.assert_frame_equal(result.frame, shuffled)
    assert result.summary["structure"]["weak"]
    assert "weak" in result.summary["sentence"]


def test_groups_are_found_when_asked(tumours):
    columns = list(tumours.columns[:8])
    shuffled, _ = _shuffle(tumours, columns, 0.5, 1)
    result = scan(shuffled, vectors="columns", groups="auto")
    assert set(result.vectors["vector"]) <= set(columns)
    assert len(result.vectors) >= 6


def test_rows_stay_within_their_blocks():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        rng.normal(size=(120, 3)) @ rng.normal(size=(3, 7)), columns=list("abcdefg")
    )
    frame["house"] = np.repeat([f"h{i}" for i in range(30)], 4)
    shuffled = frame.copy()
    for start in range(0, 80, 4):
        order = start + rng.permutation(4)
        shuffled.loc[start : start + 3, "b"] = frame["b"].to_numpy()[order]
    result = repair(shuffled, vectors="columns", blocks="house")
    np.testing.assert_allclose(result.frame["b"], frame["b"], atol=1e-9)
    rows, origins = result.changes["row"].to_numpy(), result.changes["moved_from"].to_numpy()
    assert (rows // 4 == origins // 4).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vectors": "cells"}, "vectors='cells' must be 'rows' or 'columns'"),
        ({"id": "naem"}, "id='naem' is not a column of the table; did you mean 'name'?"),
        ({"vectors": "columns", "columns": ["remark"]}, "columns='remark' does not hold numbers"),
        ({"vectors": "columns", "kinds": {"ash": "text"}}, "kinds is for vectors='rows'"),
        ({"kinds": {"ash": "colour"}}, "'ash' is said to hold 'colour'; allowed are 'number',"),
        ({"kinds": ["ash"]}, "must be a dict of columns"),
        ({"kinds": {"nobody": "text"}}, "nobody"),
        ({"blocks": "name"}, "blocks='name' is for vectors='columns'"),
        ({"groups": [["ash"]]}, "must name one column"),
        ({"vectors": "columns", "groups": "ash"}, "groups='ash' must be 'auto' or lists"),
        ({"vectors": "columns", "groups": [["remark"]]}, "'remark', which is not a numeric"),
        ({"min_confidence": 2}, "min_confidence=2 must be a number from 0 to 1"),
        ({"max_moves": 0}, "max_moves=0 must be None or an integer of at least 1"),
    ],
)
def test_bad_options_are_refused_in_one_sentence(wine, options, message):
    with pytest.raises(ValueError, match=r".") as caught:
        repair(wine, **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bad_frames_are_refused_in_one_sentence(wine):
    with pytest.raises(TypeError, match="must be a pandas, polars or pyarrow data frame, not list"):
        scan([[1, 2]])
    with pytest.raises(ValueError, match="one row"):
        scan(wine.iloc[:1])
    with pytest.raises(ValueError, match="no numeric column"):
        scan(wine[["name", "remark"]], vectors="columns")
    assert "only one column to judge" in scan(wine[["name", "remark"]]).summary["sentence"]
    views = pa.table({"a": pa.array(["1", "2"], pa.string_view()), "b": [1.0, 2.0]})
    with pytest.raises(ValueError, match="column 'a' of Arrow's string_view type"):
        scan(views)
    with pytest.raises(ValueError, match="at least three numeric"):
        scan(wine[["ash", "alcohol"]], vectors="columns")


def test_audit_of_an_exactly_linear_table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        rng.normal(size=(200, 3)) @ rng.normal(size=(3, 6)), columns=list("abcdef")
    )
    for together in (True, False):
        result = audit(frame, ["a", "b"], together=together, n_trials=3)
        line = result.table.iloc[0]
        assert line["value"] >= 0.98
        assert line["low"] <= line["value"] <= line["high"]
        assert line["control"] < 0.1
        assert result.advice


def test_audit_of_independent_columns_is_no_better_than_guessing():
    rng = np.random.default_rng(1)
    frame = pl.DataFrame(rng.normal(size=(150, 4)), schema=list("abcd"))
    result = audit(frame, ["a", "b"], n_trials=5)
    line = result.table.row(0, named=True)
    assert line["low"] <= line["baseline"] <= line["high"]
    assert "no more than guessing" in result.advice[0]


def test_audit_of_a_release(tumours):
    columns = list(tumours.columns[::2])
    release, _ = _shuffle(tumours, columns, 0.5, 2)
    result = audit(tumours, columns, release=release, together=True, n_trials=1)
    assert result.table["value"].iloc[0] > 0.9


def test_audit_of_all_rows_is_no_all_clear(rng):
    x = rng.normal(size=(200, 3))
    frame = pd.DataFrame({"a": x.sum(axis=1), "b": x[:, 0], "c": x[:, 1], "d": x[:, 2]})
    result = audit(frame, ["a"], ratio=1, n_trials=2)
    assert "does not mean that the release is safe" in result.advice[0]
    insider = result.summary["measures"]["rows re-linked, dependence known"]
    assert insider["value"] > 0.9
    assert "protects" not in " ".join(result.advice)


def test_too_few_trials_are_no_all_clear(rng):
    x = rng.normal(size=150)
    frame = pd.DataFrame({"a": x, "b": x + 0.1 * rng.normal(size=150), "c": rng.normal(size=150)})
    result = audit(frame, ["a"], n_trials=1)
    assert "protects" not in " ".join(result.advice)


def test_an_audit_ends_in_time(rng):
    frame = pd.DataFrame(rng.normal(size=(300, 5)), columns=list("abcde"))
    result = audit(frame, ["a", "b"], together=True, n_trials=10_000, max_seconds=0.5)
    assert 1 <= result.summary["settings"]["n_trials"] < 1000
    with pytest.raises(ValueError, match="max_seconds=0 must be None or a number above 0"):
        audit(frame, ["a"], max_seconds=0)


@pytest.mark.parametrize("name", ["net", "tax", "gross"])
def test_a_shuffled_part_of_a_sum_is_put_back(name, rng):
    net = rng.lognormal(4, 1, 600).round(2)
    tax = (net * rng.choice([0.07, 0.19], 600)).round(2)
    truth = pd.DataFrame({"net": net, "tax": tax, "gross": (net + tax).round(2)})
    truth["weight"] = rng.gamma(2, 3, 600).round(1)
    damaged, rows = truth.copy(), rng.choice(600, 180, replace=False)
    damaged.loc[rows, name] = truth[name].to_numpy()[rng.permutation(rows)]
    result = repair(damaged, vectors="columns")
    assert np.mean(result.frame == truth) > 0.995
    assert result.vectors["vector"].tolist() == [name]


def test_an_independent_column_is_not_shuffled(wine, rng):
    frame = wine.assign(noise=rng.normal(size=len(wine)))
    assert len(scan(frame, vectors="columns").vectors) == 0


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ([], {}, "must be a list of at least one column"),
        (["name"], {}, "columns='name' does not hold numbers"),
        (["ash"], {"ratio": 0}, "ratio=0 must be above 0 and at most 1"),
        (["ash"], {"n_trials": 0}, "n_trials=0 must be an integer of at least 1"),
        (["ash"], {"tolerance": -1}, "tolerance=-1 must not be negative"),
    ],
)
def test_bad_audits_are_refused(wine, columns, options, message):
    with pytest.raises(ValueError, match=r".") as caught:
        audit(wine, columns, **options)
    assert message in str(caught.value)


def test_rivals_among_many_rows_are_summed_as_among_all(rng, monkeypatch):
    observed = 20 * rng.normal(size=(5000, 2))
    predicted = observed[rng.permutation(5000)] + rng.normal(size=(5000, 2))
    some = _links._rivals(predicted, observed)
    monkeypatch.setattr(_links, "_MAX_RIVALS", 5000)
    every = _links._rivals(predicted, observed)
    assert np.median(np.abs(some / every - 1)) < 0.05
    assert np.quantile(np.abs(some / every - 1), 0.99) < 0.3


def test_copies_of_a_row_are_rivals_all_the_same(rng, monkeypatch):
    """Codes with a thousand copies each, beside rows that differ."""
    observed = np.vstack(
        [np.repeat([[0.0], [1.5], [3.0]], 1000, axis=0), rng.normal(size=(3000, 1))]
    )
    predicted = observed + 0.3
    some = _links._rivals(predicted, observed)
    monkeypatch.setattr(_links, "_MAX_RIVALS", len(observed))
    assert np.max(np.abs(some / _links._rivals(predicted, observed) - 1)) < 0.3
