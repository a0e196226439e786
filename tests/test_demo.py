"""The demonstration: a real table is damaged, repaired and compared with the truth."""

import io
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from rich.console import Console
from typer.testing import CliRunner

from unpermute.cli import _demo
from unpermute.cli._app import app


def _invoke(*arguments):
    env = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "80", "GITHUB_ACTIONS": None}
    return CliRunner().invoke(app, ["demo", *arguments], prog_name="unpermute", env=env)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The summary as JSON, and the directory with the report."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        result = _invoke("--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout), folder


@pytest.fixture
def small():
    """Three records; the first two cells of the second are exchanged."""
    truth = np.array([[1.0, 20.0, 300.0], [2.0, 30.0, 400.0], [3.0, 40.0, 500.0]])
    values = truth.copy()
    values[1] = truth[1, [1, 0, 2]]
    kind = np.array(["", "two fields swapped", ""], dtype=object)
    return _demo.DamagedTable(["a", "b", "c"], truth, values, kind)


def _result(values, rows, causes, n_uncertain=0):
    return SimpleNamespace(
        frame=pl.DataFrame(values, schema=["a", "b", "c"]),
        vectors=pl.DataFrame(
            {"row": rows, "cause": causes}, schema={"row": pl.Int64, "cause": pl.String}
        ),
        summary={"n_uncertain": n_uncertain},
    )


def test_json_is_sane(ran):
    summary, _ = ran
    assert (summary["seed"], summary["n_records"], summary["n_damaged"]) == (0, 569, 85)
    assert summary["n_cells"] == 569 * 30
    assert summary["n_changed_for_nothing"] <= summary["n_false_alarms"]
    assert summary["seconds"] > 0


def test_nearly_everything_is_repaired(ran):
    summary, _ = ran
    assert summary["n_found"] >= 0.95 * summary["n_damaged"]
    assert summary["n_named"] >= 0.9 * summary["n_damaged"]
    assert summary["n_changed_for_nothing"] <= 1
    assert summary["n_wrong_cells_after"] < 0.15 * summary["n_wrong_cells_before"]


def test_report_is_written_and_may_be_written_again(ran, monkeypatch):
    summary, folder = ran
    page = (folder / summary["report"]).read_text(encoding="utf-8")
    assert "of 569 records look shuffled" in page
    assert "unpermute demo --seed 0" in page
    monkeypatch.chdir(folder)
    _demo._refuse_to_replace(folder / "demo-report.html")


@pytest.mark.parametrize("content", [b"", b"<html>mine</html>", None])
def test_a_file_of_somebody_else_is_not_replaced(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "demo-report.html"
    file.mkdir() if content is None else file.write_bytes(content)
    result = _invoke()
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert "demo-report.html exists and is not a report of this demonstration" in result.stderr
    assert content is None or file.read_bytes() == content


def test_from_the_shell_where_only_ascii_can_be_printed(tmp_path):
    env = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "TTY_COMPATIBLE")}
    env |= {"PYTHONIOENCODING": "ascii", "COLUMNS": "80"}
    command = [sys.executable, "-m", "unpermute", "demo", "--seed", "1"]
    result = subprocess.run(command, capture_output=True, cwd=tmp_path, env=env, check=False)
    stdout, stderr = result.stdout.decode("ascii"), result.stderr.decode("ascii")
    assert (result.returncode, stderr) == (0, "")  # bars are for terminals
    assert "\x1b[" not in stdout  # and so are colours
    assert all(len(line) <= 80 for line in stdout.splitlines())
    words = " ".join(stdout.split())
    assert "was given the damaged table and nothing else" in words
    assert "two fields swapped, 2 cells" in words
    assert "for a browser: demo-report.html" in words
    assert (tmp_path / "demo-report.html").exists()


def test_damage_moves_values_and_invents_none():
    table = _demo.damage(3)
    assert np.array_equal(np.sort(table.values, axis=1), np.sort(table.truth, axis=1))
    damaged = (table.values != table.truth).any(axis=1)
    assert np.array_equal(damaged, table.kind != "")
    assert {kind for kind, _ in _demo._WAYS} == set(table.kind[damaged])
    assert not np.array_equal(table.values, _demo.damage(4).values)


def test_summary_of_no_repair_and_of_a_perfect_one(small):
    nothing = _demo.summarise(small, _result(small.values, [0], ["fields permuted"], 1), 0.5)
    assert (nothing.n_found, nothing.n_false_alarms, nothing.n_named) == (0, 1, 0)
    assert nothing.n_wrong_cells_before == nothing.n_wrong_cells_after == 2
    assert (nothing.n_uncertain, nothing.n_changed_for_nothing) == (1, 0)
    perfect = _demo.summarise(small, _result(small.truth, [1], ["two fields swapped"]), 0.5)
    assert (perfect.n_found, perfect.n_false_alarms, perfect.n_named) == (1, 0, 1)
    assert perfect.n_wrong_cells_after == 0


@pytest.mark.parametrize("width", [40, 80, 120])
def test_records_fit_the_terminal_and_name_what_stayed_wrong(small, width):
    console = Console(width=width, file=io.StringIO(), highlight=False)
    console.print(_demo._record(small, small.values, 1))
    console.print(_demo._record(small, small.truth, 1))
    said = console.file.getvalue()
    assert all(len(line) <= width for line in said.splitlines())
    assert width < 80 or said.count("wrong") == 2
