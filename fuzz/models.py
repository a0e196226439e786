"""Mutated model files: refused in one sentence, or models that judge without a traceback."""

import functools
import io
import json
import tempfile
import warnings
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
from mutations import TOKENS, FailedError, mutated, rng_of
from tables import NAMES, rows_of

from unpermute.table import TableModel, learn
from unpermute.table._model_file import digest


@functools.cache
def _base():
    rng = np.random.default_rng(2)
    rows = rows_of(rng, 60)
    frame = pl.DataFrame([dict(zip(NAMES, row, strict=True)) for row in rows])
    frame = frame.with_columns(pl.all().replace("", None))
    sink = io.BytesIO()
    learn(frame).save(sink)
    return sink.getvalue(), frame.head(8)


def check(seed, number):
    rng = rng_of(seed, 3, number)
    raw, frame = _base()
    raw = mutated(raw, rng) if rng.random() < 0.5 else _edited(raw, rng)
    try:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path = Path(folder) / "m.model"
            path.write_bytes(raw)
            try:
                TableModel.load(path).scan(frame)
            except ValueError as error:
                if "\n" in str(error):
                    raise FailedError("not one sentence") from error
                return "refused"
    except Exception as error:
        error.inputs = [(".model", raw)]
        raise
    return "used"


def _edited(raw, rng):
    """Return a sound zip in which some values of the tree or of an array are others."""
    sink = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(raw)) as old, zipfile.ZipFile(sink, "w") as new:
        names = [name for name in old.namelist() if name != "sha256"]
        target = names[rng.integers(len(names))]
        parts = {name: old.read(name) for name in names}
        if target == "model.json":
            parts[target] = json.dumps(_changed(json.loads(parts[target]), rng)).encode()
        else:
            parts[target] = _odd_array(parts[target], rng)
        # Half of them are forged with care.
        if rng.random() < 0.5:
            parts["sha256"] = digest(parts).encode()
        for name, part in parts.items():
            new.writestr(name, part)
    return sink.getvalue()


def _changed(tree, rng):
    """Return a tree with one of its parts replaced."""
    odd = [
        None,
        -1,
        0,
        1e300,
        "x",
        [],
        {},
        True,
        TOKENS[rng.integers(len(TOKENS))].decode("latin-1"),
    ]
    if rng.random() < 0.15 or not isinstance(tree, dict | list) or not tree:
        return odd[rng.integers(len(odd))]
    tree = dict(tree) if isinstance(tree, dict) else list(tree)
    keys = list(tree) if isinstance(tree, dict) else range(len(tree))
    key = keys[int(rng.integers(len(keys)))]
    if rng.random() < 0.05:
        del tree[key]
    else:
        tree[key] = _changed(tree[key], rng)
    return tree


def _odd_array(part, rng):
    array = np.load(io.BytesIO(part), allow_pickle=False)
    kind = rng.integers(5)
    if kind == 0:
        array = array[:-1]
    elif kind == 1:
        array = array.astype(np.float64) * np.nan
    elif kind == 2:
        array = np.full_like(array, 127)
    elif kind == 3:
        array = array.astype(str)
    else:
        array = ~array if array.dtype == bool else -array
    sink = io.BytesIO()
    np.save(sink, array)
    return sink.getvalue()
