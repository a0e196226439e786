"""The command: help, version, demonstration, and what it says to bad usage."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from rich.progress import Progress
from typer.testing import CliRunner

from unpermute import __version__
from unpermute._progress import report
from unpermute.cli import _progress_bars, main
from unpermute.cli._app import app
from unpermute.cli._demo import (
    _pens,
    _picture,
    misplaced,
    most_damaged,
    sparkline,
    summarise,
)
from unpermute.datasets import make_permuted_subspaces


def _run(*arguments):
    # The same text whatever terminal, width or continuous integration the tests run in.
    env = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100", "GITHUB_ACTIONS": None}
    return CliRunner().invoke(app, list(arguments), prog_name="unpermute", env=env)


@pytest.fixture(scope="module")
def demo():
    result = _run("demo", "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def shuffled():
    """Two vectors of length 1; the first and the third entry of the second are exchanged."""
    X_clean = np.array([[0.6, 0.8, 0.0], [0.0, 0.6, 0.8]])
    permutations = np.array([[0, 1, 2], [2, 1, 0]])
    return SimpleNamespace(
        X=np.take_along_axis(X_clean, permutations, axis=1),
        X_clean=X_clean,
        permutations=permutations,
        labels=np.array([0, 1]),
        outlier_mask=np.array([False, True]),
    )


def test_help_lists_the_commands():
    result = _run("--help")
    assert result.exit_code == 0
    assert "demo" in result.stdout
    assert "--version" in result.stdout


def test_version():
    result = _run("--version")
    assert result.exit_code == 0
    assert result.stdout.strip() == f"unpermute {__version__}"


def test_demo_json_is_sane(demo):
    assert demo["seed"] == 0
    assert demo["n_vectors"] == 600
    assert demo["n_shuffled"] == 180
    assert demo["n_entries"] == 600 * 50
    assert demo["n_found"] + demo["n_false_alarms"] <= demo["n_vectors"]
    assert demo["seconds"] > 0


def test_demo_repairs_nearly_everything(demo):
    assert demo["n_found"] >= 0.95 * demo["n_shuffled"]
    assert demo["n_false_alarms"] <= 5
    assert demo["n_uncertain"] <= 5
    assert demo["n_subspaces_found"] == demo["n_subspaces"] == 5
    assert demo["n_right_subspace"] >= 0.98 * demo["n_vectors"]
    assert demo["n_wrong_entries_after"] < 0.1 * demo["n_wrong_entries_before"]
    assert demo["error_after"] < 0.25 * demo["error_before"]


def test_demo_from_the_shell():
    command = [sys.executable, "-m", "unpermute", "demo", "--seed", "1"]
    result = subprocess.run(command, capture_output=True, check=True)
    stdout, stderr = result.stdout.decode("utf-8"), result.stderr.decode("utf-8")
    assert "shuffled vectors found" in stdout
    assert "relative error" in stdout
    assert "Next:" in stdout
    assert "\x1b[" not in stdout  # no colours where nobody sees them
    assert "was given the vectors and nothing else" in " ".join(stdout.split())
    assert stderr == ""  # bars are for terminals


def _shell(*arguments, **options):
    """Run the command as a process of its own, in an environment that asks for nothing special."""
    env = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "TTY_COMPATIBLE")}
    options["env"] = env | options.get("env", {})
    command = [sys.executable, "-m", "unpermute", *arguments]
    return subprocess.run(command, stderr=subprocess.PIPE, check=False, **options)


def test_demo_where_only_ascii_can_be_printed():
    env = {"PYTHONIOENCODING": "ascii", "COLUMNS": "100"}
    result = _shell("demo", stdout=subprocess.PIPE, env=env)
    assert result.returncode == 0, result.stderr
    assert "x marks entries out of place" in result.stdout.decode("ascii")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["demo", "--json"]])
def test_a_full_disk_is_one_sentence(arguments):
    with open("/dev/full", "w") as full:
        result = _shell(*arguments, stdout=full)
    assert result.returncode == 2
    said = result.stderr.decode("utf-8")
    assert said == "unpermute cannot write its output: No space left on device.\n"


@pytest.mark.parametrize("width", [13, 40, 61, 62, 100])
def test_picture_fits_the_terminal(width):
    data = make_permuted_subspaces(2, 20, 50, 2, random_state=0)
    console = Console(width=width, file=io.StringIO(), highlight=False)
    console.print(_picture(data, data.X, width - 12, _pens("utf-8")))
    lines = console.file.getvalue().splitlines()[-9:]
    assert [line.split()[0] for line in lines[1::3]] == ["true", "observed", "repaired"]
    assert all(len(line) <= width for line in lines)
    assert "×" in lines[5]
    assert max(map(len, lines)) == min(width, 62)


def test_bars_need_a_terminal(capsys):
    with _progress_bars.draw_progress():
        report("detect", 1, 2)
    assert capsys.readouterr().err == ""


def test_every_title_has_a_stage_that_reports_it():
    source = Path(_progress_bars.__file__).parents[1]
    code = "".join(file.read_text(encoding="utf-8") for file in source.rglob("*.py"))
    for stage in _progress_bars._TITLES:
        assert re.search(rf"(stage=|report\()\"{stage}\"", code), stage


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "nonsense"),
        (["demo", "--seed", "minus one"], "--seed"),
        (["demo", "--seed", "-1"], "--seed"),
        (["demo", "--nonsense"], "--nonsense"),
    ],
)
def test_bad_usage_exits_2_and_names_the_culprit(arguments, said):
    result = _run(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.output


def test_missing_extras_are_named_with_the_remedy(monkeypatch, capsys):
    monkeypatch.setattr("unpermute.cli.find_spec", lambda name: None)
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert capsys.readouterr().err == (
        'The command needs typer and rich: pip install "unpermute[cli]"\n'
    )


def test_summary_of_no_repair_and_of_a_perfect_one(shuffled):
    model = SimpleNamespace(
        outlier_mask_=np.array([True, False]),
        labels_=shuffled.labels,
        status_=np.array(["uncertain", "clean"]),
        bases_=[None, None],
    )
    nothing = summarise(shuffled, shuffled.X, model, 0.5)
    assert (nothing.n_found, nothing.n_false_alarms, nothing.n_right_subspace) == (0, 1, 2)
    assert nothing.n_wrong_entries_before == nothing.n_wrong_entries_after == 2
    assert nothing.error_before == nothing.error_after == pytest.approx(0.8)
    assert (nothing.n_uncertain, nothing.n_subspaces_found, nothing.n_subspaces) == (1, 2, 2)
    model.outlier_mask_, model.labels_ = shuffled.outlier_mask, 1 - shuffled.labels
    perfect = summarise(shuffled, shuffled.X_clean, model, 1)
    assert (perfect.n_found, perfect.n_false_alarms, perfect.n_right_subspace) == (1, 0, 2)
    assert perfect.n_wrong_entries_after == 0
    assert perfect.error_after == perfect.error_of_noise == 0


def test_misplaced_tolerates_the_noise(shuffled):
    assert misplaced(shuffled, shuffled.X).tolist() == [[False] * 3, [True, False, True]]
    assert not misplaced(shuffled, shuffled.X_clean + 1e-3).any()
    assert most_damaged(shuffled) == 1


def test_sparkline_uses_the_whole_range():
    assert sparkline([-1.0, 1.0], -1.0, 1.0) == (" █", "▁█")


def test_bars_follow_unknown_stages_and_repeated_rounds():
    progress = Progress(console=Console(quiet=True))
    draw = _progress_bars._bars(progress)
    for stage, done, total in [
        ("detect", 5, 10),
        ("detect", 10, 10),
        ("polish", 1, 4),
        ("recover", 3, 3),
        ("recover", 2, 2),
        ("recover", 1, 6),
    ]:
        draw(stage, done, total)
    state = [(task.description, task.completed, task.total) for task in progress.tasks]
    assert state == [
        ("Detect shuffled vectors", 10, 10),
        ("Polish", 1, 4),
        ("Recover their entries", 6, 11),
    ]
