"""The page: complete for any result, small for any table, and safe with any value."""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.datasets import load_wine

from unpermute.report import _advice, _confidence, _findings, _heatmap, _svg, render_report
from unpermute.report._projection import project, standardise
from unpermute.table import TableResult, repair

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
VOID = {"meta", "link", "br", "img", "hr"}


class _Page(HTMLParser):
    """Checks that every tag is closed; collects tags, attributes and text."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.texts = [], [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def _made_up(
    make=pl.DataFrame, vectors="rows", n=60, p=5, n_changes=40, *, names=None, text="1.5", seed=0
):
    """A result with random changes, of which nothing needs to make sense."""
    rng = np.random.default_rng(seed)
    names = names or [f"column {j}" for j in range(p)]
    by_row = vectors == "rows"
    cells = rng.choice(n * p, n_changes, replace=False)
    row, column = np.sort(cells) // p, np.sort(cells) % p
    places, moved = np.unique(row if by_row else column, return_counts=True)
    status = np.where(np.arange(len(places)) % 5 == 4, "uncertain", "recovered")
    listed = {"vector": places if by_row else [names[j] for j in places]}
    listed |= {"row": places} if by_row else {}
    listed |= {
        "score": rng.random(len(places)),
        "status": status.tolist(),
        "subspace": np.zeros(len(places), dtype=int),
        "confidence": rng.random(len(places)),
        "moved": np.where(status == "recovered", moved, 0),
        "cause": ["fields permuted"] * len(places),
    }
    changes = {
        "row": row,
        "id": row,
        "column": [names[j] for j in column],
        "old": [text] * n_changes,
        "new": ["0.5"] * n_changes,
        "moved_from": [names[j] for j in column] if by_row else row,
        "confidence": rng.random(n_changes),
        "cause": ["fields permuted"] * n_changes,
    }
    X = rng.normal(size=(n, 2)) @ rng.normal(size=(2, p)) + 0.1 * rng.normal(size=(n, p))
    summary = {
        "sentence": f"{len(places)} look shuffled.",
        "vectors": vectors,
        "n_rows": n,
        "columns": names,
        "n_vectors": n if by_row else p,
        "n_suspicious": len(places),
        "n_repaired": int(np.sum(status == "recovered")),
        "n_uncertain": int(np.sum(status == "uncertain")),
        "n_moved_cells": n_changes,
        "structure": {"weak": False, "recoverability": 0.9, "sentence": "Much can be told."},
        "notes": ["2 infinite values counted as missing."],
        "settings": {"vectors": vectors, "rank": None, "min_confidence": 0.95},
        "seconds": 1.0,
    }
    frame = dict(zip(names, X.T, strict=True))
    return TableResult(make(frame), make(changes), make(listed), summary)


def _nothing(**summary):
    result = _made_up(n_changes=40)
    summary = {"n_suspicious": 0, "n_repaired": 0, "n_uncertain": 0, "n_moved_cells": 0} | summary
    return TableResult(
        result.frame, result.changes[:0], result.vectors[:0], result.summary | summary
    )


@pytest.mark.parametrize("vectors", ["rows", "columns"])
@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_any_frame_in_both_modes(make, vectors):
    page = render_report(_made_up(make, vectors), source_name="table.csv")
    text = " ".join(_Page(page).texts)
    for heading in (
        "Where cells moved",
        "Kinds of damage",
        "Before and after",
        "The table in two dimensions",
        "How sure it is",
        "How much can be told",
        "What to do next",
        "To repeat this run",
    ):
        assert heading in text
    assert "look shuffled." in text
    assert "2 infinite values counted as missing." in text


def test_frames_of_all_kinds_give_the_same_page():
    pages = {render_report(_made_up(make), source_name="x") for make in FRAMES.values()}
    assert len(pages) == 1


def test_real_table():
    wine = load_wine(as_frame=True).data
    wine.loc[5, ["alcohol", "magnesium"]] = wine.loc[5, ["magnesium", "alcohol"]].to_numpy()
    page = render_report(repair(wine), source_name="wine.csv")
    text = " ".join(_Page(page).texts)
    assert "Row 5" in text
    assert "two fields swapped · 2 cells move" in text
    assert re.search(r"alcohol\s+112\.0\s+14\.2\s+magnesium", text)
    assert "random_state=0" in page


@pytest.mark.parametrize("vectors", ["rows", "columns"])
def test_no_reference_to_anything_elsewhere(vectors):
    page = render_report(_made_up(vectors=vectors), source_name="table.csv")
    parsed = _Page(page)
    assert not {"script", "link", "img", "iframe", "object", "a"} & set(parsed.tags)
    assert not {"src", "href", "onload", "onclick"} & {name for name, _ in parsed.attributes}
    assert "http" not in page.replace("http-equiv", "")
    assert "url(" not in page
    assert "@import" not in page


HOSTILE = [
    "</style><script>alert(1)</script>",
    "=cmd|' /C calc'!A0",
    "Größe 温度 \u202e",
    '"><svg onload=x>',
]


@pytest.mark.parametrize("vectors", ["rows", "columns"])
def test_values_and_names_are_escaped(vectors):
    names = [*HOSTILE, "{{ 7 * 7 }}"]
    result = _made_up(vectors=vectors, names=names, text="<script>alert(2)</script>")
    result.summary["notes"] = [HOSTILE[0]]
    result.summary["sentence"] = HOSTILE[3]
    settings = {"command": f"unpermute repair '{HOSTILE[0]}'", "columns": names}
    page = render_report(result, source_name=HOSTILE[0], settings=settings)
    parsed = _Page(page)
    assert "script" not in parsed.tags
    assert page.count("</style>") == 1
    assert "onload" not in {name for name, _ in parsed.attributes}
    text = "".join(parsed.texts)
    assert HOSTILE[0] in text
    assert "Größe 温度" in text
    assert "{{ 7 * 7 }}" in text


def test_names_of_files_need_not_be_text():
    settings = {"command": "unpermute repair bad\udcff.csv"}
    page = render_report(_nothing(sentence="Nothing."), source_name="t", settings=settings)
    assert rb"scan bad\udcff.csv --fail-on-found" in page.encode()


@pytest.mark.parametrize(
    ("vectors", "n", "p", "n_changes"),
    [("rows", 20_000, 30, 200_000), ("columns", 200, 3000, 200_000), ("rows", 300, 1000, 100_000)],
)
def test_page_stays_small(vectors, n, p, n_changes):
    names = [f"{'&<name>' * 20} {j}" for j in range(p)]
    result = _made_up(vectors=vectors, n=n, p=p, n_changes=n_changes, names=names, text="'\"" * 50)
    result.summary["notes"] = ["'" * 10_000] * 1000
    settings = {"command": "'\"" * 10**6, "columns": names}
    page = render_report(result, source_name="é" * 10_000, settings=settings)
    assert len(page.encode()) < 2_000_000
    assert "more in the list of changes" in page or vectors == "columns"
    assert "Drawn at random" in page
    _Page(page)


def test_nothing_found():
    result = _nothing(sentence="Nothing looks shuffled in 60 records.")
    settings = {"command": "unpermute repair t.csv --seed 1"}
    text = " ".join(_Page(render_report(result, source_name="t.csv", settings=settings)).texts)
    assert "Nothing looks shuffled in 60 records." in text
    assert "unpermute scan t.csv --seed 1 --fail-on-found" in text
    assert "Before and after" not in text
    assert "Where cells moved" not in text


def test_weak_table_says_what_would_help():
    weak = {"weak": True, "recoverability": 0.3, "sentence": "Too little structure."}
    text = " ".join(_Page(render_report(_nothing(structure=weak), source_name="t")).texts)
    assert "Too little structure." in text
    assert "Give it a clean table" in text
    assert "Keep watch" not in text


@pytest.mark.parametrize("values", [[np.nan] * 4, [1.0] * 4, [1e308, -1e308, np.inf, 0.0]])
def test_odd_numbers_are_drawn(values):
    frame = pl.DataFrame({"a": values, "b": [1.0, 2.0, 3.0, 4.0], "c": ["1", "x", None, "2"]})
    made = _made_up(n=4, p=3, n_changes=2, names=["a", "b", "c"])
    for text in ("inf", "N/A", None):
        changes = made.changes.with_columns(pl.lit(text, dtype=pl.String).alias("old"))
        page = render_report(
            TableResult(frame, changes, made.vectors, made.summary), source_name="odd"
        )
        assert "nan" not in re.sub(r"[a-z]*nan[a-z]+", "", page)
        _Page(page)


def test_scan_and_repair_draw_the_same():
    made = _made_up()
    found = _findings.open_result(made)
    rows, columns = np.arange(60), np.arange(5)
    before, after = _findings.before_and_after(found, rows, columns)
    assert np.all(before[found.row, found.column] == 1.5)
    assert np.all(after[found.row, found.column] == 0.5)
    stayed = np.ones_like(before, dtype=bool)
    stayed[found.row, found.column] = False
    assert np.array_equal(before[stayed], made.frame.to_numpy()[stayed])
    assert np.array_equal(before[stayed], after[stayed])


def test_heat_map_counts_every_moved_cell_once():
    found = _findings.open_result(_made_up(n=1000, p=70, n_changes=3000))
    heat = _heatmap.count_moved(found)
    assert heat.counts.shape == (40, 100)
    assert heat.counts.sum() == 3000
    assert np.array_equal(heat.levels > 0, heat.counts > 0)
    first, end = heat.first_column[3:5]
    mine = (found.column >= first) & (found.column < end) & (found.row < heat.first_row[1])
    assert heat.counts[3, 0] == mine.sum()


def test_points_of_shuffled_columns_return_to_the_circle():
    rng = np.random.default_rng(0)
    X = np.outer(rng.normal(size=200), [1.0, 2.0, -1.0]) + 0.01 * rng.normal(size=(200, 3))
    old = X[rng.permutation(200), 0]
    made = _made_up(vectors="columns", n=200, p=3, n_changes=10)
    names = made.summary["columns"]
    changes = pl.DataFrame(
        {
            "row": np.arange(200),
            "column": [names[0]] * 200,
            "old": [str(value) for value in old],
            "new": [str(value) for value in X[:, 0]],
            "moved_from": np.arange(200),
            "confidence": np.ones(200),
        }
    )
    frame = pl.DataFrame(X, schema=names)
    shown = project(
        _findings.open_result(TableResult(frame, changes, made.vectors[:1], made.summary))
    )
    [panel] = shown.panels
    assert np.linalg.norm(panel.after) > 0.95
    assert np.linalg.norm(panel.before) < 0.3
    assert (shown.n_moved, shown.n_others) == (1, 2)


def test_standardised_values_are_finite_and_clipped():
    after = np.array([[1.0, np.nan, 5.0], [2.0, np.nan, 5.0], [3.0, np.nan, 5.0]])
    before, new = standardise(after * 1e9, after)
    assert np.isfinite(before).all()
    assert np.abs(before).max() <= 4.0
    assert np.median(new[:, 0]) == 0.0


def test_confidences_are_binned_completely():
    confidence = np.array([0.0, 0.5, 0.949, 0.95, 0.9999, 1.0, np.nan])
    status = np.array(["uncertain", *["recovered"] * 6], dtype=object)
    bins = {name: (a, b) for name, a, b in _confidence.bin_confidences(confidence, status)}
    assert bins["under 50%"] == (1, 1)
    assert bins["90 – 95%"] == (1, 0)
    assert bins["over 99.9%"] == (2, 0)
    assert sum(a + b for a, b in bins.values()) == 7


def test_call_to_repeat_is_python_without_a_command():
    call = _advice.call_to_repeat({"vectors": "rows", "rank": None, "reference": "given"})
    assert call.splitlines()[2:] == [
        "result = repair(", "    table,", "    vectors='rows',", "    reference=reference,", ")",
    ]  # fmt: skip
    compile(call, "call", "exec")


def test_advice_on_other_commands_names_no_option_they_lack():
    steps = _advice.next_steps(_made_up().summary, {"command": "unpermute demo --seed 0"})
    assert [step.code for step in steps if step.code] == [
        "unpermute repair TABLE --changes changes.csv",
        "unpermute apply TABLE changes.csv -o REPAIRED  # with --undo, they all go back",
    ]


@pytest.mark.parametrize(
    ("share", "said"), [(0, "0%"), (0.0002, "under 0.1%"), (0.0414, "4.1%"), (0.5, "50%")]
)
def test_shares_in_words(share, said):
    assert _findings.share_text(share) == said


@pytest.mark.parametrize(
    ("probability", "said"),
    [(1.0, "over 99.9%"), (0.98999, "98.9%"), (0.0, "under 0.1%"), (np.nan, "unknown")],
)
def test_probabilities_promise_not_too_much(probability, said):
    assert _findings.sure_text(probability) == said


def test_texts_that_cannot_be_written_are_replaced():
    assert _findings.shorten("a\ud800b") == "a?b"
    assert _findings.shorten("x" * 100, 10) == "x" * 9 + "…"
    assert _findings.shorten(None) == ""


def test_pictures_say_what_they_show():
    image = _svg.picture(10, 20, 'a "quoted" <label>', _svg.text(1, 2, "<b>"))
    assert 'role="img"' in image
    assert "&lt;label&gt;" in image
    assert "&lt;b&gt;" in image
