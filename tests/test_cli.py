"""The command: help, version, progress, and what it says to bad usage."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numba
import pytest
from rich.console import Console
from rich.progress import Progress
from typer.testing import CliRunner

from unpermute import __version__
from unpermute._progress import TITLES, report
from unpermute.cli import _progress_bars, main
from unpermute.cli._app import app


def _run(*arguments):
    # The same text whatever terminal, width or continuous integration the tests run in.
    env = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100", "GITHUB_ACTIONS": None}
    return CliRunner().invoke(app, list(arguments), prog_name="unpermute", env=env)


def test_help_lists_the_commands():
    result = _run("--help")
    assert result.exit_code == 0
    assert "demo" in result.stdout
    assert "--version" in result.stdout


def test_version():
    result = _run("--version")
    assert result.exit_code == 0
    assert result.stdout.strip() == f"unpermute {__version__}"


def _shell(*arguments, **options):
    """Run the command as a process of its own, in an environment that asks for nothing special."""
    env = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "TTY_COMPATIBLE")}
    options["env"] = env | options.get("env", {})
    command = [sys.executable, "-m", "unpermute", *arguments]
    return subprocess.run(command, stderr=subprocess.PIPE, check=False, **options)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["demo", "--json"]])
def test_a_full_disk_is_one_sentence(arguments, tmp_path):
    with open("/dev/full", "w") as full:
        result = _shell(*arguments, stdout=full, cwd=tmp_path)
    assert result.returncode == 2
    said = result.stderr.decode("utf-8")
    assert said == "unpermute cannot write its output: No space left on device.\n"


def test_bars_need_a_terminal(capsys):
    with _progress_bars.draw_progress():
        report("detect", 1, 2)
    assert capsys.readouterr().err == ""


def test_every_title_has_a_stage_that_reports_it():
    source = Path(_progress_bars.__file__).parents[1]
    code = "".join(file.read_text(encoding="utf-8") for file in source.rglob("*.py"))
    for stage in TITLES:
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


def test_compiling_has_a_bar_of_its_own():
    progress = Progress(console=Console(file=io.StringIO()))
    with _progress_bars._compiling(progress):
        numba.njit(lambda x: x + 1)(1)
    [task] = progress.tasks
    assert (task.description, task.completed, task.total) == ("Compile, once", 1, 1)


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
