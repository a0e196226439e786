"""The example in the README is the one in examples/, and prints what the README says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from unpermute import __version__

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def _block(language):
    return re.search(rf"^```{language}\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)[1]


def test_example_is_the_file():
    assert _block("python") == (ROOT / "examples" / "quickstart.py").read_text(encoding="utf-8")


def test_example_prints_what_the_readme_says():
    command = [sys.executable, str(ROOT / "examples" / "quickstart.py")]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == _block("text")


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#]+)\)", README))))
def test_links_lead_somewhere(target):
    if not target.startswith("https://"):
        assert (ROOT / target).exists()


def test_picture_is_small():
    assert (ROOT / "docs" / "images" / "demo.png").stat().st_size < 150_000


def test_make_lists_every_target_the_readme_names():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"make ([a-z]+)", README)):
        assert re.search(rf"^{target}:.*  ## ", makefile, flags=re.MULTILINE), target


def test_citation_names_the_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {__version__}\n" in citation
