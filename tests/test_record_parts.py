"""Parts of the model of records: cells, value models, tempering, trials, runs, decisions."""

import narwhals.stable.v1 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter1d
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from unpermute.records import (
    RUN,
    SHIFTED,
    _crowds,
    _repair,
    describe_columns,
    explain,
    number_cells,
    read_cells,
    repair_records,
)
from unpermute.records._bins import fit_bins
from unpermute.records._calibrate import (
    _AS_IT_IS,
    _PULL,
    Calibration,
    _corrected,
    _fit_correction,
    calibrate,
)
from unpermute.records._cells import DATE, MISSING, NUMBER, TEXT, kinds_of
from unpermute.records._crowds import limits_of, rivals_of
from unpermute.records._decide import decide
from unpermute.records._dependence import _log_ratios
from unpermute.records._divided import find_divisions
from unpermute.records._evidence import Evidence
from unpermute.records._model import _foreign, fit_model, learn_model
from unpermute.records._pairs import Binned, best_segment, ratios
from unpermute.records._parts import Parts
from unpermute.records._prior import default_prior, update_prior
from unpermute.records._read import _date, _number
from unpermute.records._repair import _draw
from unpermute.records._runs import find_runs
from unpermute.records._smooth import _smoothed, fit_smooth
from unpermute.records._tempering import (
    _FACTORS,
    Tempering,
    _log_likelihoods,
    _lost,
    _mirrored,
    _sorted,
    _usual_ratios,
)
from unpermute.records._text import fit_texts, kneser_ney, prepare_texts
from unpermute.records._trials import (
    N_KINDS,
    Trials,
    _likeliest_shares,
    damage_orders,
    weigh,
)
from unpermute.table import TableModel, learn, repair, scan

NAMES = ["Ada", "Bo", "Cleo", "Dan", "Eve", "Finn", "Gil", "Hal"]
PLACES = ["Xanten", "Ypern", "Zadar", "Wismar", "Vigo", "Ulm", "Turin", "Split"]


def people(rng, n=400):
    """Records with text, dates, codes, money and numbers; all cells are texts."""
    days = np.datetime64("2020-01-01") + rng.integers(0, 900, n)
    return pd.DataFrame(
        {
            "name": rng.choice(NAMES, n),
            "place": rng.choice(PLACES, n),
            "since": days.astype(str),
            "code": [f"K{k:04d}" for k in rng.permutation(9999)[:n]],
            "age": rng.integers(20, 80, n).astype(str),
            "paid": [f"${v:,.2f}" for v in rng.lognormal(7, 1, n)],
            "rate": [f"{v:.1f}%" for v in rng.uniform(0, 30, n)],
        }
    )


def swap(frame, rows, a, b):
    other = frame.copy()
    i, j = frame.columns.get_loc(a), frame.columns.get_loc(b)
    other.iloc[rows, [i, j]] = frame.iloc[rows, [j, i]].to_numpy()
    return other


def cells_of(frame, **options):
    frame = nw.from_native(frame, eager_only=True)
    return read_cells(frame, frame.columns, **options)[0]


@pytest.mark.parametrize("library", [pl.DataFrame, pd.DataFrame, pa.table])
def test_codes_that_end_like_numbers_are_texts(library):
    cells = cells_of(
        library({"code": ["E10", "E11"], "number": ["1E1", "-.5"], "^.*$": ["1", "2"]})
    )
    assert np.isnan(cells.values[:, 0]).all()
    assert cells.values[:, 1:].tolist() == [[10, 1], [-0.5, 2]]


@pytest.mark.parametrize(
    ("text", "value", "style"),
    [
        ("3", 3.0, ""),
        ("3.0", 3.0, ""),
        ("-1e3", -1000.0, ""),
        ("014.20", 14.2, ""),
        ("$1,234.50", 1234.5, "$grouped"),
        ("12,5 %", 12.5, "comma %"),
        ("1.234.567,8", 1234567.8, "grouped, comma"),
        ("EUR 20", 20.0, "EUR "),
    ],
)
def test_numbers_are_read_with_their_style(text, value, style):
    assert _number(text) == (value, style)


@pytest.mark.parametrize("text", ["007", "12a", "1-2", "+49 170 1", "1,23,4", ""])
def test_what_is_no_number_is_not_read_as_one(text):
    assert _number(text) is None


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("2024-02-29", "%Y-%m-%d"),
        ("29.2.2024", "%d.%m.%Y"),
        ("02/29/2024", "%m/%d/%Y"),
        ("29/02/2024", "%d/%m/%Y"),
        ("2024-02-29 00:00:00", "%Y-%m-%d"),
        ("2024-02-29T06:00", "%Y-%m-%d %H:%M"),
        ("06:30", "%H:%M"),
    ],
)
def test_dates_are_read_with_their_format(text, form):
    assert _date(text)[1] == form
    assert _date("2023-02-29") is None


def test_every_cell_is_read_alone():
    frame = pl.DataFrame({"a": ["3", "x", None, "2024-01-01"], "b": [1.0, None, 2.5, 1e40]})
    cells = cells_of(frame)
    assert kinds_of(cells.classes[:, 0]).tolist() == [NUMBER, TEXT, MISSING, DATE]
    assert kinds_of(cells.classes[:, 1]).tolist() == [NUMBER, MISSING, NUMBER, NUMBER]
    for kind in ("text", "category", "identifier"):
        read = cells_of(frame, kinds={"a": kind, "b": kind})
        assert kinds_of(read.classes[:, 0]).tolist() == [TEXT, TEXT, MISSING, TEXT]
        assert kinds_of(read.classes[:, 1]).tolist() == [TEXT, MISSING, TEXT, TEXT]


def test_a_column_holds_what_it_is_said_to_hold():
    frame = pl.DataFrame({"a": ["007", "12", "0.5"], "b": ["20240229", "3 Mar 2024", "x"]})
    plain = cells_of(frame)
    assert kinds_of(plain.classes).T.tolist() == [[TEXT, NUMBER, NUMBER], [NUMBER, TEXT, TEXT]]
    said = cells_of(frame, kinds={"a": "number", "b": "date"})
    assert kinds_of(said.classes).T.tolist() == [[NUMBER] * 3, [DATE, DATE, TEXT]]
    assert said.values[:, 0].tolist() == [7.0, 12.0, 0.5]
    assert said.values[1, 1] - said.values[0, 1] == 3
    whole, written = (cells_of(pl.DataFrame({"a": part}), kinds={"a": "category"})
                      for part in ([3.0, 4.0], ["3", "4.0"]))  # fmt: skip
    assert whole.text_list == written.text_list == ["3", "4"]


def test_given_kinds_are_shown_kept_and_used(rng, tmp_path):
    frame = people(rng).assign(level=rng.integers(1, 4, 400).astype(str))
    given = {"level": "category", "age": "ignore", "code": "text"}
    result = scan(frame, kinds=given)
    shown = {each["column"]: each for each in result.summary["judged_columns"]}
    assert (shown["level"]["kind"], shown["code"]["kind"]) == ("category", "text")
    assert shown["age"]["kind"] is None
    assert shown["age"]["not_judged"] == "it is to be ignored"
    result.model.save(tmp_path / "kept.model")
    kept = TableModel.load(tmp_path / "kept.model")
    assert kept.kinds == {"level": "category", "code": "text"}
    # The model reads another table as its own.
    few = swap(frame.iloc[:30].reset_index(drop=True), [4], "level", "name")
    again = kept.repair(few)
    assert again.summary["settings"]["kinds"] == kept.kinds


def test_columns_are_described(rng):
    frame = people(rng).assign(same="x", empty=None)
    described = describe_columns(cells_of(frame), list(frame))
    kinds = {each.name: each.kind or each.reason for each in described}
    assert kinds == {
        "name": "category", "place": "category", "since": "date", "code": "identifier",
        "age": "number", "paid": "number", "rate": "number", "same": "all its values are equal",
        "empty": "it is empty",
    }  # fmt: skip


@given(st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=40))
def test_kneser_ney_is_a_distribution(letters):
    values, counts = np.unique(letters, return_counts=True)
    base = np.full(26, 1 / 26)
    seen = np.zeros(26)
    seen[[ord(v) - 97 for v in values]] = counts
    once, twice = np.sum(counts == 1), np.sum(counts == 2)
    p = kneser_ney(seen, counts.sum(), len(values), once, twice, base)
    assert np.all(p > 0)
    # What discounting takes from values seen less often than the discount is not given away twice.
    assert 0.9 <= p.sum() <= 1.0 + 1e-9


def test_smooth_densities_integrate_to_one(rng):
    for values in (rng.normal(5, 2, 400), rng.lognormal(2, 1, 400), rng.integers(0, 9, 50) * 1.0):
        smooth = fit_smooth(np.unique(values))
        at = np.linspace(-400, 600, 400_001)
        area = np.trapezoid(np.exp(smooth.log_density(at, np.log(0.0025))), at)
        assert 0.75 <= area <= 1.05


def test_texts_are_told_by_pattern_and_letters():
    texts = prepare_texts(["K0001", "K0417", "K2280", "K9121", "anna", "otto", "K5555", "klara"])
    codes, names = fit_texts(texts, np.arange(4)), fit_texts(texts, np.array([4, 5]))
    as_code, as_name = codes.log_probability(texts), names.log_probability(texts)
    assert as_code[6] > as_name[6] + 5
    assert as_name[7] > as_code[7] + 5


def test_own_cells_are_left_out(rng):
    X = rng.normal(size=(100, 3))
    X[7, 1] = 50.0
    learned = learn_model(number_cells(X), rank=None, seed=0, n_jobs=1)
    placed = learned.placed
    with_itself = placed.worth[placed.codes, np.arange(3)]
    assert np.all(placed.own <= with_itself + 1e-9)
    assert placed.own[7, 1] < with_itself[7, 1]


def test_trials_damage_as_the_prior_says(rng):
    codes = np.tile(np.arange(6), (500, 1))
    orders = damage_orders(codes, default_prior(6), rng)
    np.testing.assert_array_equal(np.sort(orders, axis=1), codes)
    moved = np.sum(orders != np.arange(6), axis=1)
    assert moved.min() == 2
    assert {2, 3, 4}.issubset(set(moved))


@pytest.mark.parametrize("pair", [("name", "place"), ("name", "age"), ("since", "paid"),
                                  ("code", "rate")])  # fmt: skip
def test_text_dates_and_codes_are_judged(rng, pair):
    clean = people(rng)
    rows = np.arange(3, 400, 20)
    damaged = swap(clean, rows, *pair)
    result = repair(damaged)
    assert (result.frame == clean).all(axis=1)[rows].mean() >= 0.9
    others = np.setdiff1d(np.arange(400), rows)
    pd.testing.assert_frame_equal(result.frame.iloc[others], clean.iloc[others])
    assert set(result.vectors["columns"]) == {", ".join(pair)}
    assert all(pair[0] in text or pair[1] in text for text in result.vectors["evidence"])


def test_a_clean_table_of_all_kinds_stays(rng):
    clean = people(rng)
    result = scan(clean)
    assert result.summary["n_suspicious"] == 0
    assert result.damaged.max() < 0.15
    assert result.summary["expected_wrong_cells"] == 0


def test_every_change_has_the_least_confidence(rng):
    X = np.round(rng.normal(size=(300, 5)) * [1, 2, 4, 8, 16] + rng.normal(size=(300, 1)), 1)
    Y = X.copy()
    for r in range(40):
        i, j = rng.choice(5, 2, replace=False)
        Y[r, [i, j]] = X[r, [j, i]]
    for least in (0.5, 0.9, 0.99):
        result = repair(pd.DataFrame(Y, columns=list("abcde")), min_confidence=least)
        assert (result.changes["confidence"] >= least).all()
        assert set(result.changes["accept"]) <= {"yes"}
        left = result.proposals[result.proposals["accept"] == "no"]
        assert set(left["row"]) == set(result.vectors.query("status == 'uncertain'")["row"])
        assert len(result.proposals) == len(result.changes) + len(left)


def test_numbers_written_differently_give_the_same_answer(rng):
    X = np.column_stack([rng.integers(1, 6, 300), rng.integers(0, 40, 300),
                         rng.integers(100, 900, 300)])  # fmt: skip
    X[4, [0, 2]] = X[4, [2, 0]]
    whole = pd.DataFrame(X, columns=list("abc"))
    answers = [
        scan(whole),
        scan(whole.astype(float)),
        scan(whole.astype(str)),
        scan(whole.astype(float).astype(str)),
        scan(pl.from_pandas(whole)),
        scan(pa.Table.from_pandas(whole.astype("float32"))),
    ]
    for other in answers[1:]:
        np.testing.assert_array_equal(other.damaged, answers[0].damaged)
        np.testing.assert_array_equal(other.confidence, answers[0].confidence)


def test_a_rare_code_is_no_damage(rng):
    grades = rng.integers(1, 6, 1000).astype(float)
    grades[rng.choice(1000, 15, replace=False)] = 5.5
    frame = pd.DataFrame({"grade": grades, "age": rng.integers(20, 60, 1000),
                          "years": rng.choice([0.5, 2.5, 6.0, 9.0], 1000)})  # fmt: skip
    assert scan(frame).summary["n_repaired"] == 0


@pytest.mark.parametrize(("first", "last"), [(60, 90), (0, 99), (300, 399)])
def test_a_run_of_exchanged_rows_is_put_back(rng, first, last):
    clean = people(rng)
    damaged = swap(clean, np.arange(first, last + 1), "name", "place")
    result = repair(damaged)
    pd.testing.assert_frame_equal(result.frame, clean)
    assert set(result.vectors["cause"]) == {RUN}
    assert result.vectors["row"].min() == first
    assert result.vectors["row"].max() == last


def test_half_of_a_table_is_a_question(rng):
    clean = people(rng)
    damaged = swap(clean, np.arange(200, 400), "name", "place")
    result = repair(damaged)
    pd.testing.assert_frame_equal(result.frame, damaged)
    (question,) = result.summary["questions"]
    assert question["columns"] == ["name", "place"]
    assert (question["first_row"], question["last_row"]) in [(0, 199), (200, 399)]
    assert "does not tell which" in question["sentence"]
    answered = repair(damaged, exchange=[("name", "place", 200, 399)])
    pd.testing.assert_frame_equal(answered.frame, clean)


def test_rows_of_another_kind_are_no_run(rng):
    # Everything changes in the second part, and two columns happen to trade places.
    X = rng.normal(size=(300, 6))
    X[:200, 1] += 8
    X[200:] += np.array([8, 0, 5, 5, 5, 5])
    assert find_runs(number_cells(X)) == []


@pytest.mark.parametrize("start", [0, 1, 2, 4])
@pytest.mark.parametrize("options", [{}, {"id": "code"}, {"exclude": ["rate"]},
                                     {"exclude": ["name", "since"]}])  # fmt: skip
def test_a_tail_is_shifted_over_all_columns_or_left_alone(start, options):
    clean = people(np.random.default_rng(start))
    values = clean.to_numpy(dtype=object)
    damaged = values.copy()
    for r in range(0, 400, 20):
        damaged[r, start:] = np.roll(values[r, start:], 1 if r % 40 else -1)
    result = repair(pd.DataFrame(damaged, columns=clean.columns), **options)
    fixed = result.frame.to_numpy(dtype=object)
    changed, whole = np.any(fixed != damaged, axis=1), np.all(fixed == values, axis=1)
    assert not np.any(changed & ~whole)
    # Of three columns at the end without the last one, two remain: no tail to be seen.
    assert changed.sum() >= 15 or (start == 4 and "rate" in options.get("exclude", ()))


def members(rng, n=600):
    """Two dates in a fixed order, whose values alone say little, and two other columns."""
    joined = rng.integers(0, 2500, n)
    dates = np.datetime64("2015-01-01") + np.stack([joined, joined + rng.integers(1, 900, n)])
    columns = dict(zip(["joined", "seen"], dates.astype(str), strict=True))
    return pd.DataFrame({**columns, "age": rng.integers(18, 90, n),
                         "town": rng.choice(["Bonn", "Trier", "Kiel"], n)}).astype(str)  # fmt: skip


@pytest.mark.parametrize(("first", "last"), [(180, 209), (300, 419), (60, 239)])
def test_a_run_of_columns_in_a_fixed_order_is_put_back(rng, first, last):
    clean = members(rng)
    result = repair(swap(clean, np.arange(first, last + 1), "joined", "seen"))
    pd.testing.assert_frame_equal(result.frame, clean)
    assert (result.vectors["row"].min(), result.vectors["row"].max()) == (first, last)


def test_half_of_two_columns_in_a_fixed_order_is_a_question(rng):
    damaged = swap(members(rng), np.arange(300, 600), "joined", "seen")
    result = repair(damaged)
    pd.testing.assert_frame_equal(result.frame, damaged)
    assert [each["columns"] for each in result.summary["questions"]] == [["joined", "seen"]]


def test_columns_that_cross_are_no_run(rng):
    t = np.linspace(-1, 1, 800)
    X = np.outer(t, [1, -1, 0.5, 0, -2]) + rng.normal(0, 0.1, (800, 5)) + 10
    assert find_runs(number_cells(X.round(2))) == []
    assert find_runs(number_cells(rng.normal(size=(800, 6)).cumsum(axis=0).round(2))) == []


def test_a_run_is_found_where_other_columns_drift(rng):
    wave = np.sin(np.arange(1000) / 50)
    X = np.column_stack([1013 + rng.normal(0, 3, 1000), 420 + 50 * rng.random(1000),
                         20 + 5 * wave + rng.normal(0, 0.5, 1000),
                         60 - 10 * wave + rng.normal(0, 2, 1000)]).round(1)  # fmt: skip
    X[300:350, [0, 1]] = X[300:350, [1, 0]]
    (run,) = find_runs(number_cells(X))
    assert (run.a, run.b, run.first, run.last, run.minority) == (0, 1, 300, 349, True)


@pytest.mark.parametrize(("seed", "share"), [(0, 0.2), (1, 0.3), (2, 0.5)])
def test_scattered_exchanges_are_a_question_that_either_answer_settles(seed, share):
    rng = np.random.default_rng(seed)
    clean = people(rng)
    rows = rng.permutation(len(clean))[: int(share * len(clean))]
    damaged = swap(clean, rows, "name", "place")
    result = repair(damaged)
    pd.testing.assert_frame_equal(result.frame, damaged)
    (question,) = result.summary["questions"]
    assert question["columns"] == ["name", "place"]
    assert question["share"] == pytest.approx(share)
    assert "scattered" in question["sentence"]
    fixed = [repair(damaged, exchange=each["exchange"]).frame for each in question["readings"]]
    turned = swap(clean, np.arange(len(clean)), "name", "place")
    for answer in fixed:
        assert answer.equals(clean) or answer.equals(turned)
    assert fixed[0].equals(clean) != fixed[1].equals(clean)


def test_scattered_exchanges_of_amounts_are_a_question(rng):
    net = np.exp(rng.normal(4, 1, 600)).round(2)
    clean = pd.DataFrame({"net": net, "gross": (1.19 * net).round(2), "n": rng.integers(1, 9, 600)})
    damaged = swap(clean, rng.permutation(600)[:200], "net", "gross")
    result = repair(damaged)
    pd.testing.assert_frame_equal(result.frame, damaged)
    (question,) = result.summary["questions"]
    assert question["columns"] == ["net", "gross"]
    right = question["readings"][0]["exchange"]
    pd.testing.assert_frame_equal(repair(damaged, exchange=right).frame, clean)


def test_parts_that_never_meet_are_no_question_at_half(rng):
    # Within a country either reading is as likely, whatever the others say.
    country = rng.integers(0, 5, 500)
    frame = pd.DataFrame({"country": country, "town": 10 * (country + 1) + rng.integers(0, 4, 500),
                          "n": rng.integers(0, 99, 500)}).astype(str)  # fmt: skip
    frame["country"], frame["town"] = "C" + frame["country"], "T" + frame["town"]
    rows = rng.permutation(500)
    assert find_divisions(cells_of(swap(frame, rows[:250], "country", "town"))) == []
    (found,) = find_divisions(cells_of(swap(frame, rows[:120], "country", "town")))
    np.testing.assert_array_equal(found.rows, np.sort(rows[:120]))


def mirrors(rng, n=500):
    """Columns that change places by nature."""
    teams = np.array([f"Team {letter}" for letter in "ABCDEFGHIJKLMNOP"])
    home = rng.integers(0, 16, n)
    away = (home + rng.integers(1, 16, n)) % 16
    held, paid = rng.normal(50, 8, n).round(1), np.exp(rng.normal(5, 0.4, n)).round(2)
    low, debit = rng.normal(10, 3, n).round(2), rng.random(n) < 0.4
    before = rng.normal(140, 15, n).round()
    return pd.DataFrame(
        {
            "home": teams[home], "away": teams[away], "held": held, "lost": 100 - held,
            "goals": rng.poisson(1.6, n), "against": rng.poisson(1.2, n), "lower": low,
            "upper": low + rng.gamma(2, 1, n).round(2), "mother": rng.choice(NAMES[:4], n),
            "father": rng.choice(NAMES[4:], n), "debit": np.where(debit, paid, 0),
            "credit": np.where(debit, 0, paid), "before": before,
            "after": before - rng.normal(6, 8, n).round(), "is": np.where(debit, "yes", "no"),
            "is_not": np.where(debit, "no", "yes"), "from": rng.choice(PLACES, n),
            "to": rng.choice(PLACES, n),
        }
    )  # fmt: skip


def test_columns_that_mirror_each_other_are_no_question(rng):
    frame = mirrors(rng)
    assert find_divisions(cells_of(frame)) == []
    assert find_divisions(number_cells(rng.normal(size=(400, 8)))) == []
    exclusive = rng.normal(size=(400, 1)) * [1, -1]
    assert find_divisions(number_cells(exclusive.round(2))) == []


def test_exchanges_that_cannot_be_meant_are_refused(rng):
    frame = people(rng)
    with pytest.raises(ValueError, match="exchange names 'nobody'"):
        repair(frame, exchange=[("name", "nobody", 0, 3)])
    with pytest.raises(ValueError, match="rows 3 to 900 are not rows"):
        repair(frame, exchange=[("name", "place", 3, 900)])
    with pytest.raises(ValueError, match="must be two columns and one or two rows"):
        repair(frame, exchange=[("name", "place")])
    frame.loc[3, "place"] = None
    with pytest.raises(ValueError, match="row 3 has equal or missing values"):
        repair(frame, exchange=[("name", "place", 3)])
    with pytest.raises(ValueError, match="names 'name' twice"):
        repair(frame, exchange=[("name", "name", 3)])
    with pytest.raises(ValueError, match="exchange is for vectors='rows'"):
        repair(frame, vectors="columns", exchange=[("name", "place", 3, 9)])


def test_the_majority_of_the_sources_is_never_turned(rng):
    X = rng.normal(size=(300, 5)) @ rng.normal(size=(5, 5)) * [1, 20, 3, 70, 0.2]
    for n_moved in (60, 140, 240):
        Y = X.copy()
        Y[:n_moved] = X[:n_moved][:, [1, 0, 2, 4, 3]]
        groups = (np.arange(300) >= n_moved).astype(int)
        result = repair_records(Y, groups=groups, random_state=0)
        fixed = np.take_along_axis(Y, result.permutations.astype(int), axis=1)
        changed = np.any(fixed != Y, axis=1)
        assert changed.mean() < 0.5


def test_a_learned_table_judges_few_records(rng, tmp_path):
    model = learn(people(rng))
    few = people(np.random.default_rng(99), 8)
    damaged = swap(few, [3], "name", "code")
    pd.testing.assert_frame_equal(model.repair(damaged).frame, few)
    assert model.scan(few).summary["n_repaired"] == 0
    model.save(tmp_path / "learned.model")
    assert (tmp_path / "learned.model").stat().st_size > 0


# The same seeds every time: of some thousand tables one or two are at the limit of what is seen.
@settings(max_examples=6, derandomize=True)
@given(st.integers(0, 10_000))
def test_the_order_of_the_records_hardly_matters(seed):
    rng = np.random.default_rng(seed)
    clean = people(rng, 300)
    damaged = swap(clean, np.arange(0, 300, 50), "name", "age")
    order = rng.permutation(300)
    one, other = repair(damaged), repair(damaged.iloc[order].reset_index(drop=True))
    changed = set(one.changes["row"])
    assert len(changed ^ {int(order[r]) for r in other.changes["row"]}) <= 2


def test_a_run_goes_around_a_record_that_would_be_exchanged_back(rng):
    clean = people(rng)
    damaged = swap(clean, np.setdiff1d(np.arange(100, 180), [140, 141]), "name", "place")
    result = repair(damaged)
    pd.testing.assert_frame_equal(result.frame, clean)
    assert not {140, 141} & set(result.vectors["row"])


def test_evidence_asks_for_cells_by_plain_numbers(rng):
    cells = cells_of(swap(people(rng), [3], "name", "age"))
    result = repair_records(cells, random_state=0)

    def text(row, column):
        # A small integer type would overflow in the position of a cell of a large table.
        assert type(row) is type(column) is int
        return "x"

    (phrase,) = explain(result.known, cells.take([3]), result.proposals[[3]], list("abcdefg"), text)
    assert phrase.startswith("`x` never occurs in")


def test_categories_that_depend_on_each_other_are_told_apart(rng):
    towns = np.array([["Ulm", "Kiel"], ["Lyon", "Metz"], ["Bari", "Pisa"]])
    lands = rng.integers(0, 3, (800, 2))
    lands[:10, 1] = (lands[:10, 0] + 1) % 3
    names = towns[lands, rng.integers(0, 2, (800, 2))]
    truth = pd.DataFrame(
        {
            "origin": names[:, 0],
            "origin_land": np.array(["DE", "FR", "IT"])[lands[:, 0]],
            "paid": (10.0 ** lands[:, 0] * rng.normal(3, 0.2, 800)).round(2).astype(str),
            "target": names[:, 1],
            "target_land": np.array(["DE", "FR", "IT"])[lands[:, 1]],
        }
    )
    # Both columns hold the same towns: only countries and prices tell which is which. All that is
    # odd concerns two close columns and may be so by nature: it is proposed, but not changed.
    damaged = swap(truth, list(range(10)), "origin", "target")
    assert not len(repair(damaged).changes)
    result = repair(damaged, min_confidence=0.2)
    right = (result.frame == truth).all(axis=1)
    assert right[:10].mean() >= 0.6
    assert right[10:].all()


def test_a_pair_that_looks_exchanged_too_often_is_left_open_where_it_is_close_or_one_fact():
    # Twelve swaps of the first two columns, one of two others, in a table of five columns.
    orders = np.tile(np.arange(5), (13, 1))
    orders[:12, :2], orders[12, 3:] = [1, 0], [4, 3]
    strong = np.full(13, 40.0)
    evidence = Evidence(orders, strong, strong, strong, np.ones(13, dtype=bool))
    values = np.arange(65.0).reshape(13, 5)
    alike = np.where(np.arange(13)[:, None] < 7, values[0], values)
    for distance, records, open_ in (
        (5.0, values, True), (20.0, values, False), (20.0, alike, True), (40.0, alike, False)
    ):  # fmt: skip
        limits = limits_of(evidence, np.full((5, 5), distance), number_cells(records))
        assert (limits[0, 1] < 0) == open_
        assert np.isinf(limits[3, 4])


def _swaps_of_the_first_two(X, n_swaps=12):
    """A table whose first records have two values exchanged, and the evidence for that."""
    n, p = X.shape
    damaged, orders, swapped = X.copy(), np.tile(np.arange(p), (n, 1)), np.arange(n) < n_swaps
    orders[swapped, :2] = [1, 0]
    damaged[swapped, :2] = X[swapped, 1::-1]
    odds = np.where(swapped, 40.0, -40.0)
    return number_cells(damaged), Evidence(orders, odds, odds, odds, swapped), ~swapped


@pytest.mark.parametrize("alone", [True, False])
def test_one_cause_may_have_moved_a_third_value_that_looks_like_the_second(rng, monkeypatch, alone):
    first, second, third = rng.normal(1000, 50, 300), rng.normal(size=300), rng.normal(size=300)
    fits = []
    monkeypatch.setattr(_crowds, "fit_model", lambda *a, **k: fits.append(a) or fit_model(*a, **k))
    for other, told in ((third, False), (third + 50.0, True)):
        X = np.round(np.column_stack([first, second, other]), 3)
        cells, evidence, whole = _swaps_of_the_first_two(X)
        model = fit_model(cells, whole, default_prior(3), rank=None, seed=0)[0]
        largest = rivals_of(model, evidence, cells, rank=None, seed=0, alone=alone)
        assert (largest[0, 1] > 10.0) == told
        assert largest[0, 1] > 0
        assert np.isinf(np.delete(largest.ravel(), 1)).all()
    # A model from elsewhere has not seen these records; one of this table is learned without them.
    assert [used.sum() for _, used, _ in fits] == [288] * (2 if alone else 0)


def test_two_columns_have_no_third_that_could_take_part(rng):
    cells, evidence, whole = _swaps_of_the_first_two(
        np.round(np.column_stack([rng.normal(1000, 50, 300), rng.normal(size=300)]), 3)
    )
    model = fit_model(cells, whole, default_prior(2), rank=None, seed=0)[0]
    for alone in (True, False):
        largest = rivals_of(model, evidence, cells, rank=None, seed=0, alone=alone)
        assert np.isinf(largest).all()


def test_values_of_two_kinds_in_each_others_place_are_foreign():
    usual = [NUMBER, DATE, TEXT]
    kinds = np.tile(usual, (100, 1))
    kinds[:20, 2] = MISSING
    kinds[20] = [DATE, NUMBER, TEXT]
    kinds[21] = [TEXT, MISSING, NUMBER]
    # A text among numbers alone is odd, but nothing else is that it could have changed places with.
    kinds[22, 0], kinds[23, 0] = TEXT, MISSING
    assert np.flatnonzero(_foreign(kinds)).tolist() == [20, 21]
    # A gap in place of the other value is no value of another kind.
    kinds[21, 2] = MISSING
    assert np.flatnonzero(_foreign(kinds)).tolist() == [20]


def test_no_record_is_foreign_where_a_large_share_is():
    for n_foreign, found in ((29, 29), (30, 0)):
        kinds = np.tile([NUMBER, TEXT, DATE], (100, 1))
        kinds[:n_foreign, :2] = [TEXT, NUMBER]
        assert _foreign(kinds).sum() == found


def test_flags_of_which_one_excludes_the_other_are_left_as_they_are(rng):
    # A holiday is no working day: its records look exchanged, and always in the same two columns.
    n = 600
    weekday, holiday = rng.integers(0, 7, n), np.zeros(n, dtype=int)
    holiday[rng.choice(np.flatnonzero(weekday < 5), 12, replace=False)] = 1
    truth = pd.DataFrame(
        {
            "weekday": weekday,
            "holiday": holiday,
            "workingday": ((weekday < 5) & (holiday == 0)).astype(int),
            "temperature": rng.normal(15, 8, n).round(2),
            "riders": rng.poisson(200, n),
        }
    ).astype(object)
    damaged = truth.copy()
    for row in range(40, 70):
        a, b = rng.choice(5, 2, replace=False)
        damaged.iloc[row, [a, b]] = truth.iloc[row, [b, a]].to_numpy()
    fixed = repair(damaged).frame
    others = np.r_[0:40, 70:n]
    assert (fixed.iloc[others] == truth.iloc[others]).all(axis=None)
    assert (fixed == truth).all(axis=1)[40:70].mean() > (damaged == truth).all(axis=1)[40:70].mean()


def test_a_record_that_mirrors_the_others_is_believed_where_weaker_ones_are_not(rng):
    # Exchanges cost about 30 nats. Twenty records gain a little by one, a single record gains 30.
    found = np.concatenate([rng.normal(-30, 3, 300), np.full(20, 4.0), [30.0]])[:, None]
    full = np.full((2, 2), _usual_ratios(_sorted(found), share=0.01)[0])
    factors = np.array([[1.0, 0.3], [0.3, 1.0]])
    tempering = Tempering(factors, full)
    shares = tempering.of_swaps(np.zeros(2, int), np.ones(2, int), np.array([4.0, 30.0]))
    assert shares.tolist() == [0.3, 1.0]
    # Where the odd ones are many, none is believed more than the others.
    many = np.concatenate([found, np.full((150, 1), 30.0)])
    assert np.isinf(_usual_ratios(_sorted(many), share=0.01)).all()
    # Close columns look exchanged by nature: they are believed as often as damage explains.
    close = np.concatenate([rng.normal(-10, 1, (300, 1)), np.full((20, 1), 10.0)])
    assert np.isinf(_usual_ratios(_sorted(close), share=0.01)).all()
    assert np.isfinite(_usual_ratios(_sorted(close), share=0.06)).all()


def test_ratios_of_all_pairs_are_summed_up_as_those_of_one(rng):
    found = rng.normal(-6, 6, (80, 12))
    found[rng.random(found.shape) < 0.1] = np.nan
    found[:, 0], found[:, 1], found[0, 2] = np.nan, 3.0, 2000.0
    below = _sorted(found).below
    assert np.array_equal(below, np.sum(found < 0, axis=0))
    assert not below[:2].any()
    for share in (0.3, 0.5):
        lost = [np.quantile(-column[column < 0], share) for column in found.T[2:]]
        quantiles = _lost(np.sort(found.T, axis=1), below, share)
        np.testing.assert_allclose(quantiles, [0.0, 0.0, *lost])
    chances = 0.98 * expit(-_FACTORS[:, None, None] * found)
    chances += 0.02 * expit(_FACTORS[:, None, None] * found)
    expected = np.nansum(np.log(chances), axis=1)
    np.testing.assert_allclose(_log_likelihoods(found, 0.02), expected)


@pytest.mark.parametrize("size", [0, 5, 400])
def test_the_correction_of_confidences_is_the_best_one(rng, size):
    clear, kinds = np.clip(rng.normal(2, 6, size), -9.2, 9.2), rng.integers(N_KINDS, size=size)
    right, weights = rng.random(size) < expit(0.5 * clear), 5 * rng.exponential(size=size)

    def loss(correction):
        signed = np.where(right, 1, -1) * _corrected(correction, clear, kinds)
        return -weights @ log_expit(signed) + 0.5 * _PULL @ (correction - _AS_IT_IS) ** 2

    found = _fit_correction(clear, kinds, right, weights)
    expected = minimize(loss, _AS_IT_IS, method="BFGS")
    assert loss(found) <= expected.fun + 1e-12
    np.testing.assert_allclose(found, expected.x, atol=1e-4)


def test_odd_records_mirror_the_others_or_do_not(rng):
    lost = rng.normal(-30, 3, 300)
    parts = {"mirrored": [29.0, 31.0], "weak": [3.0, 4.0], "one of them": [0.5] * 20 + [30.0]}
    columns = [np.append(lost, np.append(part, np.full(30 - len(part), np.nan)))
               for part in parts.values()]  # fmt: skip
    # Nothing is told by columns with similar values, nor by columns that none looks exchanged in.
    columns += [rng.normal(-1, 3, 330), np.append(lost, np.full(30, -30.0))]
    found = _mirrored(_sorted(np.stack(columns, axis=1)))
    assert found.tolist() == [True, False, True, False, False]


def test_duplicates_do_not_convict_each_other(rng):
    # Every record occurs twice: a damaged one must not be the witness against its twin.
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    titles = [
        "".join(rng.choice(letters, 12)) + " " + "".join(rng.choice(letters, 9)) for _ in range(120)
    ]
    people = [
        "".join(rng.choice(letters, 6)).title() + ", " + "".join(rng.choice(letters, 5)).title()
        for _ in range(120)
    ]
    truth = pd.DataFrame(
        {"title": titles, "artist": people, "year": rng.integers(1900, 2000, 120).astype(str)}
    )
    truth = pd.concat([truth, truth], ignore_index=True)
    result = repair(swap(truth, list(range(12)), "title", "artist"))
    assert (result.frame.iloc[12:] == truth.iloc[12:]).all(axis=None)


def test_a_text_in_a_wrong_column_is_no_witness_against_its_duplicates(rng):
    # Businesses occur several times: the name of one stands once in a column of two other texts.
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    names = ["".join(rng.choice(letters, 14)) + f" #{k}" for k in range(150)]
    weekend = [names[7], *["True", "False"] * 149, "True"]
    cells = cells_of(pd.DataFrame({"name": names * 2, "weekend": weekend}))
    place = fit_model(cells, np.ones(300, dtype=bool), default_prior(2), rank=None, seed=0)[1]
    # Its name is as foreign to the column as any other name of this length.
    worth = place.log_p[place.codes[:, 0], 1]
    others = np.delete(worth[:150], 7)
    assert worth[7] < np.quantile(others, 0.99) + 3.0


def test_rows_of_another_kind_are_explained_by_their_category(rng):
    n = 500
    other = rng.random(n) < 0.06
    truth = pd.DataFrame(
        {
            "length": np.where(other, rng.normal(300, 20, n), rng.normal(60, 8, n)).round(1),
            "width": np.where(other, rng.normal(70, 9, n), rng.normal(300, 30, n)).round(1),
            "kind": np.where(other, "B", "A"),
        }
    )
    pd.testing.assert_frame_equal(repair(truth).frame, truth)


def test_columns_in_a_fixed_order_are_told_apart(rng):
    start = rng.integers(0, 2500, 600)
    days = np.stack([start, start + rng.integers(1, 900, 600)], axis=1)
    truth = pd.DataFrame(
        (np.datetime64("2015-01-01") + days).astype(str), columns=["joined", "seen"]
    ).assign(age=rng.integers(20, 70, 600).astype(str))
    result = repair(swap(truth, list(range(20)), "joined", "seen"))
    right = (result.frame == truth).all(axis=1)
    assert right[:20].mean() >= 0.8
    assert right[20:].all()


def test_bins_leave_out_what_is_rare_and_what_is_foreign():
    frame = pd.DataFrame({"a": ["x"] * 60 + ["y"] * 38 + ["odd", "5"]})
    cells = cells_of(frame)
    words, codes = cells.vocabulary()
    bins = fit_bins(words, np.bincount(codes[:, 0], minlength=len(words)).astype(float))
    assert bins.size == 2
    foreign = cells_of(pd.DataFrame({"a": ["y", "x", "odd", "z", "5", ""]})).vocabulary()[0]
    placed = dict(
        zip(foreign.text_list, bins.place(foreign)[np.argsort(foreign.texts)][-4:], strict=True)
    )
    assert placed["x"] != placed["y"]
    assert {placed["odd"], placed["z"]} == {-1}


def test_links_leave_the_record_out_and_are_a_probability(rng):
    first = rng.choice(["a", "b", "c"], 300)
    second = np.where(rng.random(300) < 0.8, first, rng.choice(["a", "b", "c"], 300))
    cells = cells_of(pd.DataFrame({"one": first, "two": np.char.upper(second)}))
    learned = learn_model(cells, rank=None, seed=0, n_jobs=1)
    dependence = learned.model.dependence
    assert len(dependence) == 1
    counts, weight = dependence.counts[0], dependence.weights[0]
    share = (counts.sum(axis=1, keepdims=True) + 0.5 / 3) / (counts.sum() + 0.5)
    given = share * np.exp(dependence.links().terms[0, :3, :3])
    np.testing.assert_allclose(given.sum(axis=0), 1.0)
    assert weight > 0
    # Every record is judged by the others.
    row = 7
    one, other = divmod(learned.placed.own_keys[row, 0], dependence.links().terms.shape[2])
    counts = counts.copy()
    counts[one, other] -= 1
    expected = _log_ratios(counts, weight)[one, other]
    assert learned.placed.own_links[row, 0] == pytest.approx(expected)


def test_a_large_table_is_screened_without_missing_damage(rng, monkeypatch):
    monkeypatch.setattr(_repair, "_LEARNED_FROM", 600)
    X = rng.normal(size=(4000, 3)) @ rng.normal(size=(3, 6)) * [1, 10, 0.1, 50, 3, 200]
    X = (X + np.array([5, 400, 1, 900, 80, 10])).round(3)
    Y = X.copy()
    Y[::40, [1, 4]] = X[::40, [4, 1]]
    searched = []
    place = _repair.place_cells
    monkeypatch.setattr(
        _repair,
        "place_cells",
        lambda *given: searched.append(len(given[1].values)) or place(*given),
    )
    result = repair_records(Y, random_state=0)
    fixed = np.take_along_axis(Y, result.permutations, axis=1)
    assert np.mean(np.all(fixed == X, axis=1)[::40]) >= 0.9
    assert np.sum(np.any(fixed != Y, axis=1) & np.all(X == Y, axis=1)) <= 1
    assert sum(searched) < 2500


@settings(max_examples=30)
@given(st.lists(st.integers(0, 6), min_size=2, max_size=40), st.integers(0, 40))
def test_the_best_segment_is_the_best_of_all(letters, cut):
    bins = np.array([[k % 3, k // 3] for k in letters], dtype=np.int64)
    shares = np.log(np.array([[0.5, 0.2], [0.3, 0.3], [0.2, 0.5]]))
    low, high = sorted((cut % len(bins), len(bins) // 2))
    values = bins.astype(float)
    one, other = ratios(Binned(bins, values, np.zeros(bins.shape)), shares, 0, 1)
    s = np.clip(one + other + 1.5 * np.sign(values[:, 0] - values[:, 1]), -4, 4)
    s[low:high] = np.minimum(s[low:high], 0)
    sums = [s[a:b].sum() for a in range(len(s)) for b in range(a + 1, len(s) + 1)]
    total, first, stop = best_segment(bins, values, shares, 1.5, 0, 1, low, high)
    assert total == pytest.approx(max(0.0, *sums))
    assert total == pytest.approx(s[first:stop].sum())


@pytest.mark.parametrize(("n_odd", "changed"), [(30, True), (50, False)])
def test_nothing_is_changed_where_most_records_would_move(n_odd, changed):
    n, swap_of_two = 100, np.array([1, 0, 2])
    odd = np.arange(n) < n_odd
    score = np.where(odd, 15.0, -9.0)
    orders = np.where(odd[:, None], swap_of_two, np.arange(3))
    evidence = Evidence(orders, score, score, score, odd)
    calibration = Calibration(
        score[odd], np.zeros(n_odd, dtype=bool), np.full(50, 15.0), np.zeros(50, dtype=bool),
        np.ones(50), np.append(1.0, np.zeros(1 + N_KINDS)), *np.full((2, 3, 3), np.inf),
        np.zeros(2 + N_KINDS),
    )  # fmt: skip
    cells = number_cells(np.random.default_rng(0).normal(size=(n, 3)))
    undecided = _repair._share_undecided(calibration, evidence)
    alone = decide(cells, evidence, calibration, None, 0.95, np.zeros(3), undecided)
    assert set(alone.status[odd]) == {"recovered" if changed else "uncertain"}
    assert (alone.confidence[odd].max() > 0.5) == changed
    assert alone.undecided == (0.0 if changed else pytest.approx(n_odd / n))
    # A clean table to learn from says which side is right.
    taught = decide(cells, evidence, calibration, None, 0.95, np.zeros(3), 0.0)
    assert set(taught.status[odd]) == {"recovered"}


def test_trials_count_as_often_as_their_kind_of_damage_occurs(rng):
    p, n = 8, 400
    swaps, cycles = np.tile(np.arange(p), (2, n // 2, 1))
    swaps[:, :2], cycles[:, :4] = [1, 0], [1, 2, 3, 0]
    orders = np.concatenate([swaps, cycles])
    # Half of the cycles are taken for swaps. Of the records of the table, half look like swaps: all
    # of them are cycles.
    found = np.concatenate([swaps, swaps[: n // 4], np.argsort(cycles[: n // 4], axis=1)])
    seen = np.concatenate([swaps[:100], np.argsort(cycles[:100], axis=1)])
    evidence, table = (
        Evidence(part, np.full(len(part), 9.0), np.zeros(len(part)), np.zeros(len(part)),
                 np.ones(len(part), dtype=bool))
        for part in (found, seen)
    )  # fmt: skip
    nothing = np.zeros(n, dtype=int)
    trials = Trials(evidence, np.ones(n, dtype=bool), nothing, nothing, nothing, orders, orders)
    weights = weigh(trials, table)
    assert weights[: n // 2].sum() < 0.1 * weights.sum()
    assert weights.mean() == pytest.approx(1)


def test_four_cells_are_told_from_five():
    p, n = 8, 400
    fours, fives = np.tile(np.arange(p), (2, n // 2, 1))
    fours[:, :4], fives[:, :5] = [1, 2, 3, 0], [1, 2, 3, 4, 0]
    orders, seen = np.concatenate([fours, fives]), np.argsort(fours[:100], axis=1)
    nothing = np.zeros(n, dtype=int)
    trials = Trials(
        _evidence(np.argsort(orders, axis=1)),
        nothing == 0,
        nothing,
        nothing,
        nothing,
        orders,
        orders,
    )
    weights = weigh(trials, _evidence(seen))
    assert weights[n // 2 :].sum() < 0.1 * weights.sum()


def test_one_cause_is_not_explained_by_several(rng):
    """What trials of other kinds would explain by chance as well does not count as their damage."""
    usual, wrong = np.full(N_KINDS, 1.0 / N_KINDS), 0
    for _ in range(20):
        rates = 0.9 * rng.dirichlet(np.full(6, 0.6), N_KINDS)
        found = np.array([rng.multinomial(90, np.append(r, 0.1))[:-1] / 90 for r in rates]) + 1e-6
        counts = rng.multinomial(130, rates[2] / rates[2].sum())
        shares = _likeliest_shares(found, counts, usual, np.full(N_KINDS, 90))
        wrong += shares[2] < 0.9
    assert wrong <= 4
    # Two kinds that look different are both seen.
    found = np.eye(N_KINDS) * 0.8 + 1e-6
    counts = np.array([60, 0, 40, 0, 0, 0, 0])
    shares = _likeliest_shares(found, counts, usual, np.full(N_KINDS, 90))
    np.testing.assert_allclose(shares[[0, 2]], [0.6, 0.4], atol=0.02)


def test_drawn_trials_stand_for_all(rng):
    weights = rng.exponential(size=400) ** 2
    found, drawn_often = [], np.zeros(400)
    for seed in range(300):
        drawn, own = _draw(weights, 100, np.random.default_rng(seed))
        assert abs(len(drawn) - 100) <= 1
        found.append(own.sum())
        drawn_often[drawn] += 1.0 / 300
    assert np.mean(found) == pytest.approx(weights.sum(), rel=0.02)
    heavy = np.argsort(weights)[-10:]
    assert drawn_often[heavy].min() > 0.95
    drawn, own = _draw(weights[:50], 100, rng)
    np.testing.assert_array_equal(drawn, np.arange(50))
    np.testing.assert_array_equal(own, weights[:50])
    assert len(_draw(weights[:0], 100, rng)[0]) == 0


def test_kinds_of_proposals_are_corrected_apart():
    p, n = 8, 200
    threes, fours = np.tile(np.arange(p), (2, n // 2, 1))
    threes[:, :3], fours[:, :4] = [1, 2, 0], [1, 2, 3, 0]
    found = _evidence(np.concatenate([threes, fours]))
    right, nothing = np.arange(n) >= n // 2, np.zeros(n, dtype=int)
    trials = Trials(found, right, *[nothing] * 3, *[found.permutations] * 2)
    parts = Parts(nothing[:0], found.permutations[:0], found.clear[:0])
    calibration = calibrate(
        found, trials, np.ones(n), *np.full((2, p, p), np.inf), parts, np.ones(n)
    )  # fmt: skip
    damaged, confidence = calibration.probabilities(found)
    assert np.max((confidence / damaged)[~right]) < 0.1
    assert np.min((confidence / damaged)[right]) > 0.9


def _evidence(permutations):
    """Proposals that are all alike but for their permutations."""
    n = len(permutations)
    return Evidence(permutations, np.full(n, 9.0), np.zeros(n), np.zeros(n), np.ones(n, dtype=bool))


def test_no_record_vouches_for_its_own_swap():
    p = 6
    orders = np.tile(np.arange(p), (5, 1))
    orders[:2, :2], orders[2, [2, 3]], orders[3, [3, 4]] = [1, 0], [3, 2], [4, 3]
    orders[4, [4, 5]] = 5, 4
    own, others = (
        update_prior(np.ones(5), orders, 100, for_others=which).pairs for which in (False, True)
    )
    # A pair seen once is one that nobody else has seen; one seen twice is one seen once elsewhere.
    assert own[2, 3] == own[0, 5] == others[0, 5]
    assert own[0, 1] == pytest.approx(others[2, 3])
    assert others[0, 1] > own[0, 1] > own[2, 3]


@pytest.mark.parametrize("seed", [1, 6])
def test_cycles_among_near_equal_columns_are_no_shifted_tails(seed):
    rng, n, p = np.random.default_rng(seed), 1500, 11
    year = rng.integers(1940, 2004, n)
    scales = np.repeat(rng.normal(size=(2, n)), 4, axis=0).T
    items = np.clip(np.round(3 + 1.1 * (scales + rng.normal(0, 0.8, (n, 8)))), 1, 5)
    income = np.round(np.exp(rng.normal(10.4, 0.4, n)), -2)
    hours = np.clip(rng.normal(36, 9, n).round(), 0, 70)
    X = np.column_stack([year, items, income, hours])
    Y = X.copy()
    for r in range(200):
        places = rng.permutation(p)[:4]
        Y[r, places] = X[r, np.roll(places, 1)]
    result = repair_records(Y, random_state=0)
    fixed = np.take_along_axis(Y, result.permutations, axis=1)
    assert np.array_equal(fixed[fixed != Y], X[fixed != Y])
    # They are found, and what is proposed is closer to the truth, though seldom sure.
    listed = np.flatnonzero(result.status != "clean")
    assert np.mean(listed < 200) > 0.95
    assert len(listed) > 100
    assert np.mean(result.cause[listed] == SHIFTED) < 0.1
    proposed = np.take_along_axis(Y, result.proposals.astype(int), axis=1)
    assert np.mean(proposed[listed] == X[listed]) > np.mean(Y[listed] == X[listed]) + 0.1


@pytest.mark.parametrize("share", [0.05, 0.1, 0.2])
def test_one_cause_in_many_records_does_not_become_usual(rng, share):
    clean = people(rng)
    rows = np.sort(rng.choice(400, int(400 * share), replace=False))
    damaged = clean.copy()
    damaged.loc[rows, ["name", "since", "paid"]] = clean.loc[
        rows, ["since", "paid", "name"]
    ].to_numpy()
    result = repair(damaged)
    assert (result.frame == clean).all(axis=1)[rows].mean() >= 0.9
    others = np.setdiff1d(np.arange(400), rows)
    pd.testing.assert_frame_equal(result.frame.iloc[others], clean.iloc[others])


@pytest.mark.parametrize("share", [0.03, 0.1])
def test_a_swap_that_may_be_a_cycle_is_listed(rng, share):
    # Two questions are answered alike: whether the second one took part cannot be known.
    n = 600
    mood = rng.normal(size=n)
    items = np.clip(np.round(3 + mood[:, None] + rng.normal(0, 0.8, (n, 4))), 1, 5).astype(int)
    clean = pd.DataFrame(items, columns=["q1", "q2", "q3", "q4"]).astype(str)
    clean["person"] = [f"R{k:05d}" for k in rng.permutation(99_999)[:n]]
    clean["hours"] = rng.normal(36, 9, n).round().astype(int).astype(str)
    rows = np.sort(rng.choice(n, int(n * share), replace=False))
    damaged = clean.copy()
    damaged.loc[rows, ["q1", "q2", "person"]] = clean.loc[rows, ["q2", "person", "q1"]].to_numpy()
    result = repair(damaged)
    assert (result.frame == damaged).all(axis=None)
    assert set(result.vectors.loc[result.vectors["damaged"] > 0.9, "row"]) == set(rows)


@pytest.mark.parametrize("width", [1.0, 3.7, 36.0])
def test_counts_are_smoothed_as_scipy_does(width):
    counts = np.random.default_rng(0).poisson(0.3, 800).astype(float)
    expected = gaussian_filter1d(counts, width, mode="nearest")
    np.testing.assert_allclose(_smoothed(counts, width), expected, rtol=1e-12, atol=1e-12)
