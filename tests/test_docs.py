"""The documentation is complete: every public name, valid JSON, live links, no stale pictures."""

import importlib
import importlib.util
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from test_imports import PROMISED

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
API = (DOCS / "api" / "index.md").read_text(encoding="utf-8")
EXAMPLES = sorted((ROOT / "examples").rglob("plot_*.py"))


def _listed():
    """Names in the API reference, by module."""
    listed = {}
    for module, block in re.findall(r"\.\. currentmodule:: (\S+)\n(.*?)```", API, re.DOTALL):
        listed[module] = re.findall(r"^   ([A-Za-z_]\w*)$", block, re.MULTILINE)
    return listed


def test_the_reference_lists_every_public_name():
    assert {module: sorted(names) for module, names in _listed().items()} == {
        module: sorted(names) for module, names in PROMISED.items()
    }


@pytest.mark.parametrize(
    "name", [f"{module}.{name}" for module, names in PROMISED.items() for name in names]
)
def test_every_public_name_has_an_example(name):
    module, _, last = name.rpartition(".")
    text = inspect.getdoc(getattr(importlib.import_module(module), last))
    assert "\nExamples\n" in text, f"{name} has no example in its docstring"
    assert ">>> " in text.partition("\nExamples\n")[2]


def _outputs(folder):
    """JSON of every command for one small table."""
    make = [sys.executable, ROOT / "examples" / "make_customers.py", "c.csv", "--rows", "200"]
    subprocess.run([*make, "--damage", "0.05"], cwd=folder, check=True)
    for words in (
        ["scan", "c.csv", "--id", "customer"],
        ["repair", "c.csv", "-o", "r.csv", "--changes", "l.csv"],
        ["apply", "r.csv", "l.csv", "--undo"],
        ["scan", "c.csv", "--vectors", "columns"],
        ["audit", "c.csv", "--columns", "orders", "--trials", "1"],
    ):
        command = [sys.executable, "-m", "unpermute", *words, "--json"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        yield json.loads(done.stdout)


def test_json_output_follows_the_schema(tmp_path):
    schema = json.loads((DOCS / "reference" / "output.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    outputs = list(_outputs(tmp_path))
    for output in outputs:
        jsonschema.validate(output, schema)
    # A schema that accepts everything would be no test.
    wrong = outputs[0] | {"vectors": [{"status": "unknown"}]}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema)


def test_the_command_page_has_every_command():
    from typer.main import get_command

    from unpermute.cli._app import app

    page = (DOCS / "reference" / "command.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\{command-reference\} (\w+)", page)) == set(get_command(app).commands)


# Sentences that readers had to read twice, and that were replaced.
RIDDLES = [
    "How long work reports",
    "Of what is not found that is known",
    "whole stays below",
    "Degrees of freedom; estimated",
    "keep each other's company",
    "Less sure means untouched",
    "Other numbers damage other records",
    "What is too unsure",
    "what is too unsure",
    "what would protect",
    "times smaller than the median do not differ",
    "Fewer starts are none",
]


@pytest.mark.parametrize("phrase", RIDDLES)
def test_riddles_do_not_come_back(phrase):
    texts = [*(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.j2"), ROOT / "README.md"]
    texts += [path for path in DOCS.rglob("*.md") if "_" not in path.relative_to(DOCS).parts[0]]
    found = [path.name for path in texts if phrase in path.read_text(encoding="utf-8")]
    assert not found


def test_the_gallery_is_large_enough():
    assert len([path for path in EXAMPLES if "gallery" in path.parts]) >= 15


def test_results_of_the_paper_stay_small_and_pictures_that_can_be_made_are_not_kept():
    done = subprocess.run(
        ["git", "ls-files", "docs/paper"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    kept = [ROOT / name for name in done.stdout.split()]
    assert ".svg" not in done.stdout
    assert sum(path.stat().st_size for path in kept) < 3e6


def test_dead_links_are_found(tmp_path):
    checker = _script("check_links")
    (tmp_path / "a.html").write_text('<a href="b.html#x">1</a><a href="b.html#y">2</a>')
    (tmp_path / "b.html").write_text('<p id="x"></p><img src="c.png"><a href="https://d">3</a>')
    dead = [(path.name, link) for path, link in checker.find_dead_links(tmp_path)]
    assert dead == [("a.html", "b.html#y"), ("b.html", "c.png")]


def test_slow_examples_are_named(tmp_path):
    script = _script("list_times")
    for name, seconds in {"gallery/a/plot_x": 2.5, "tutorials/python/plot_y": 12.0}.items():
        path = tmp_path / f"{name}.cost.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"memory": 0.0, "time": seconds}))
    times = script.read_times(tmp_path)
    assert list(times) == ["plot_y", "plot_x"]
    assert (
        script.describe(times) == "2 examples in 14 s; longer than 10 s of wall time: plot_y (12 s)"
    )
    del times["plot_y"]
    assert script.describe(times) == "1 example in 2 s; the slowest, plot_x, took 2.5 s"


def _script(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_decision_becomes_a_page(tmp_path):
    decisions = _extension("decisions")
    source = tmp_path / "decisions.md"
    source.write_text(
        "# Title\n\n## Decisions\n\n- **One way.** Because\n  it is.\n- **One way** again.\n\n"
        "## Open\n"
        "- **No decision.**\n"
    )
    decisions.write_pages(source, tmp_path / "pages")
    assert sorted(path.name for path in (tmp_path / "pages").iterdir()) == [
        "index.md", "one-way-1.md", "one-way.md"
    ]  # fmt: skip
    page = (tmp_path / "pages" / "one-way.md").read_text()
    assert page == "# One way\n\n**One way.** Because\nit is.\n"
    own = list(decisions.read_decisions((DOCS / "decisions.md").read_text().splitlines()))
    assert len(own) > 20


def _extension(name):
    pytest.importorskip("docutils")
    spec = importlib.util.spec_from_file_location(name, DOCS / "_ext" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_import_graph_shows_every_package():
    graph = _extension("import_graph")
    imports = graph.read_imports()
    assert {"numerics", "table", "cli", "plot"} <= set(imports)
    assert imports["numerics"] == set()
    assert "recover" in imports["pmsdr"]
    levels = graph.level_of(imports)
    assert all(levels[each] < levels[own] for own, used in imports.items() for each in used)
    assert "stream" in graph.draw(imports)
