#!/bin/sh
# Run quick tests twice, each in a temporary environment: with the lowest versions that
# pyproject.toml allows (on the oldest Python it allows, if uv finds one), and with the newest Python.
set -e
QUICK="tests/test_imports.py tests/test_files.py tests/test_apply.py tests/test_ragged.py
tests/test_file_kinds.py tests/test_metrics.py tests/test_permutations.py tests/test_subspaces.py
tests/test_validation.py tests/test_edges.py tests/test_cli.py"
FOLDER=$(mktemp -d)
trap 'rm -rf "$FOLDER"' EXIT

check() { # name, Python, resolution
    echo "== $1: Python $2, $3 versions"
    uv venv -q --python "$2" "$FOLDER/$1"
    uv pip install -q --python "$FOLDER/$1/bin/python" --resolution "$3" ".[cli,test]"
    "$FOLDER/$1/bin/python" -m pytest -q -p no:cacheprovider --durations=0 -x $QUICK
}

check lowest 3.11 lowest-direct
# Pythons that pyenv keeps are installed, too, though its shims answer for one alone.
for folder in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin; do PATH="$PATH:$folder"; done
NEWEST=$(uv python list --only-installed --no-managed-python 2>/dev/null |
    sed -n 's/^cpython-\(3\.[0-9]*\)\..*/\1/p' | sort -t. -k2 -n | tail -1)
check newest "${NEWEST:-3}" highest
