"""What a notebook shows: cards, short texts, progress bars, lazy modules."""

import io
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_wine

import unpermute
from unpermute import PMSDR, _progress, on_progress
from unpermute.files import Moves
from unpermute.pmsdr._trial_report import TrialReport
from unpermute.report import render_card
from unpermute.table import audit, learn, repair, scan


@pytest.fixture(scope="module")
def wine():
    return load_wine(as_frame=True).data


@pytest.fixture(scope="module")
def result(wine):
    damaged = wine.copy()
    damaged.loc[5, ["alcohol", "magnesium"]] = [112.0, 14.2]
    return repair(damaged)


def test_a_result_shows_a_card(result):
    card = result._repr_html_()
    assert result.summary["sentence"] in card
    assert "alcohol: 112.0 → 14.2" in card
    assert "<script" not in card
    assert len(card) < 50_000


def test_a_card_escapes_what_the_table_holds(wine):
    hostile = wine.rename(columns={"alcohol": "<script>alert(1)</script>"})
    hostile.iloc[5, [0, 4]] = [112.0, 14.2]
    card = render_card(repair(hostile))
    assert "<script>" not in card
    assert "&lt;script&gt;" in card


def test_a_clean_result_has_a_card(wine):
    assert "Nothing looks shuffled" in scan(wine)._repr_html_()


def test_without_jinja_the_text_is_shown(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "unpermute.report", None)
    assert result._repr_html_() is None


def test_arrays_are_not_printed_in_full():
    Y = np.random.default_rng(0).standard_normal((7, 30))
    basis = np.linalg.qr(Y[:2].T)[0]
    recovered = unpermute.recover.recover_vectors(Y, basis, method="lsrf")
    assert repr(recovered) == "RecoveryResult: 7 vectors of 30 entries, 7 converged"
    assert repr(unpermute.stream.Part(1200, Y)) == "Part: 7 vectors from number 1,200 on"


def test_report_writes_a_page(result, tmp_path):
    path = result.report(tmp_path / "wine.html", source_name="wine")
    page = path.read_text(encoding="utf-8")
    assert "<h1>wine</h1>" in page
    assert [each.name for each in tmp_path.iterdir()] == ["wine.html"]


def test_plot_returns_the_display(result):
    pytest.importorskip("matplotlib").use("agg")
    assert "Moved cells: 2" in result.plot().panels


def test_texts_are_one_line(result, wine):
    model = learn(wine)
    assert repr(model).startswith("TableModel: 13 columns (alcohol, ")
    assert repr(model.known).startswith("KnownRecords: ")
    assert repr(result.moves) == "Changes: 2 cells, 2 of them accepted"
    assert repr(Moves(*np.arange(12).reshape(4, 3))) == "Moves: 3 cells"
    things = (result, result.moves, model, model.known, audit(wine, ["alcohol"], n_trials=1),
              PMSDR(random_state=0))  # fmt: skip
    for thing in things:
        assert "\n" not in repr(thing)
        assert len(repr(thing)) < 200


def test_trials_are_a_line_a_text_and_a_table():
    trials = TrialReport(
        n_trials=1300, patterns={"scattered": 280, "window": 20}, found=0.9,
        closer={"values": 0.98, "blend": 0.99}, sure={"values": 0.5, "blend": 0.6},
        removed={"values": 0.4, "blend": 0.45}, reliability=[(0.95, 0.96, 100)],
        reason="Trials <fail>.",
    )  # fmt: skip
    assert repr(trials) == "TrialReport: 1,300 trials, 90% found; values: 98.0% closer to the truth"
    assert str(trials).count("\n") == 3
    card = trials._repr_html_()
    assert "<td>98.0%</td><td>50.0%</td><td>40.0%</td>" in card
    assert "Trials &lt;fail&gt;." in card
    nothing = TrialReport()
    assert repr(nothing) == "TrialReport: no trials"
    assert nothing._repr_html_() == "<p>No vector looks shuffled, so no trials were run.</p>"


def test_a_models_card_escapes_names(wine):
    card = learn(wine.rename(columns={"alcohol": "<b>"}))._repr_html_()
    assert "&lt;b&gt;" in card


class _Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("verbose", [0, 1])
def test_verbose_draws_a_bar_in_a_terminal(verbose, monkeypatch, wine):
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    audit(wine, ["alcohol"], n_trials=2, verbose=verbose)
    drawn = terminal.getvalue()
    assert ("Attack" in drawn) == bool(verbose)
    assert ("100%" in drawn) == bool(verbose)
    # The line is wiped at the end.
    assert drawn.rstrip(" \r") != drawn or not verbose


def test_an_estimator_draws_a_bar(monkeypatch):
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    X = np.random.default_rng(0).standard_normal((40, 6))
    PMSDR(verbose=1, random_state=0, refine=False).fit(X)
    assert "[" in terminal.getvalue()


def test_nothing_is_drawn_into_files(capfd, wine):
    audit(wine, ["alcohol"], n_trials=1, verbose=1)
    assert capfd.readouterr() == ("", "")


def test_a_callback_takes_the_place_of_the_bar(monkeypatch, wine):
    terminal, seen = _Terminal(), []
    monkeypatch.setattr(sys, "stderr", terminal)
    with on_progress(lambda *report: seen.append(report)):
        audit(wine, ["alcohol"], n_trials=1, verbose=1)
    assert seen[0] == ("attack", 1, 1)
    assert terminal.getvalue() == ""


def test_notebooks_get_html(monkeypatch):
    shown = []

    class Handle:
        def update(self, page):
            shown.append(page)

    bar = _progress._NotebookBar(lambda page, display_id: Handle(), str)
    bar.show("Attack", 0.5)
    bar.show("Attack", 0.5)
    bar.close()
    assert shown == ['Attack <progress max="100" value="50"></progress> 50%', ""]


def test_rounds_of_a_stage_add_up():
    rounds = _progress.Rounds()
    reports = [(5, 10), (10, 10), (5, 10), (10, 10)]
    assert [rounds.add("x", *each) for each in reports] == [(5, 10), (10, 10), (15, 20), (20, 20)]


def test_modules_load_at_first_use():
    code = "import unpermute; print(unpermute.table.repair.__name__, unpermute.plot.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "repair unpermute.plot\n"
    assert "table" in dir(unpermute)
