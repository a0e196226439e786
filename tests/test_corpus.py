"""Small files that once broke something (tests/corpus): an answer or one sentence, for ever."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from unpermute.cli._app import app

CORPUS = sorted((Path(__file__).parent / "corpus").iterdir())


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
@pytest.mark.parametrize("vectors", ["rows", "columns"])
def test_files_that_once_broke_something(path, vectors, tmp_path, capfd):
    output = tmp_path / f"out{path.suffix}"
    words = ["repair", str(path), "--vectors", vectors, "-o", str(output)]
    result = CliRunner().invoke(app, words, prog_name="unpermute")
    assert result.exit_code in (0, 2), result.stderr
    if result.exit_code == 2:
        assert len(result.stderr.splitlines()) == 1
        assert not list(tmp_path.iterdir())
    # Libraries print their last words past Python.
    assert "panicked" not in capfd.readouterr().err
