"""A model in a file: a zip of JSON and NumPy arrays. It is data, so loading one runs nothing.

``model.json`` holds the names of the columns and a tree of the parts of the model. Parts are
data classes of :data:`unpermute.records.MODEL_PARTS`, by name; arrays are files ``0.npy`` and so
on. Whatever is loaded is checked against the types that the parts declare.
"""

import hashlib
import io
import json
import math
import zipfile
import zlib
from collections import Counter
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
from numba.core.errors import NumbaError

from unpermute import __version__
from unpermute.records import MODEL_PARTS, KnownRecords, Score, score_records

__all__ = ["digest", "read_model", "write_model"]

_FORMAT, _VERSION = "unpermute model", 6
_TREE, _DIGEST = "model.json", "sha256"
# No table gives a model of this size, but a few bytes of zip may claim to.
_MOST_BYTES = 2**31
# Records of its own that a model must be able to judge.
_TRIED = 20
_PARTS = {part.__name__: part for part in MODEL_PARTS}
_AGAIN = "write a new one with --save-model, or with unpermute.table.learn(table).save(path)"


def write_model(names: list[str], known: KnownRecords, kinds: dict[str, str]) -> bytes:
    """Return a model as the content of a file."""
    arrays: list[np.ndarray] = []
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "unpermute": __version__,
        "columns": list(names),
        "kinds": dict(kinds),
        "model": _encoded(known, arrays),
    }
    parts = {_TREE: json.dumps(content, ensure_ascii=False, allow_nan=False).encode()}
    for k, array in enumerate(arrays):
        part = io.BytesIO()
        np.save(part, array, allow_pickle=False)
        parts[f"{k}.npy"] = part.getvalue()
    parts[_DIGEST] = digest(parts).encode()
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as file:
        for name, part_content in parts.items():
            file.writestr(_entry(name), part_content)
    return sink.getvalue()


def digest(parts: dict[str, bytes]) -> str:
    """Return a checksum of the parts of a model."""
    found = hashlib.sha256()
    for name in sorted(set(parts) - {_DIGEST}):
        found.update(hashlib.sha256(name.encode() + b"\0" + parts[name]).digest())
    return found.hexdigest()


def read_model(raw: bytes, name: str) -> tuple[list[str], KnownRecords, dict[str, str]]:
    """Return columns, model and given kinds in the content of a file, or say why it has none."""
    if raw[:2] in (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"x\x9c", b"x^", b"ZF"):
        raise ValueError(
            f"{name} is a model of an earlier version, kept as a program (a pickle), which is no"
            f" longer loaded; {_AGAIN}."
        )
    try:
        return _read(raw)
    except _UnfitError as error:
        raise ValueError(f"{name} is not a model that can be used: {error}; {_AGAIN}.") from None
    except (
        zipfile.BadZipFile, zlib.error, KeyError, ValueError, TypeError, AttributeError, IndexError,
        EOFError, RecursionError, NotImplementedError, OSError, RuntimeError, OverflowError,
    ):  # fmt: skip
        # A damaged file fails in any of the ways in which zip, JSON and arrays can fail.
        raise ValueError(
            f"{name} is not a model that --save-model has written, or is damaged; {_AGAIN}."
        ) from None


class _UnfitError(Exception):
    """Why a file that can be read is not a usable model."""


def _read(raw):
    with zipfile.ZipFile(io.BytesIO(raw)) as file:
        if sum(info.file_size for info in file.infolist()) > _MOST_BYTES:
            raise _UnfitError("it claims to be larger than any model")
        parts = {name: file.read(name) for name in file.namelist()}
        if parts[_DIGEST].decode() != digest(parts):
            raise _UnfitError("it was changed after it had been written")
        content = json.loads(parts[_TREE])
        if content["format"] != _FORMAT:
            raise _UnfitError("it is a zip file of another kind")
        if content["version"] != _VERSION:
            raise _UnfitError(f"it is of version {content['version']}, but {_VERSION} is read here")
        known = _decoded(content["model"], parts)
    names, kinds = content["columns"], content["kinds"]
    if not _fits(names, list[str]) or not isinstance(known, KnownRecords):
        raise _UnfitError("its parts are not those of a model")
    if not _fits(kinds, dict[str, str]) or not set(kinds) <= set(names):
        raise _UnfitError("its kinds are not those of its columns")
    _check_sizes(len(names), known)
    _check_use(known)
    return names, known, kinds


def _entry(name):
    # With a fixed date, equal models are equal files.
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def _encoded(value, arrays) -> Any:
    """Return a part of a model as JSON has it; arrays are set aside."""
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [_encoded(each, arrays) for each in value]
    if isinstance(value, tuple):
        return {"tuple": [_encoded(each, arrays) for each in value]}
    if isinstance(value, dict):
        kind = "counts" if isinstance(value, Counter) else "dict"
        return {kind: [[_encoded(k, arrays), _encoded(v, arrays)] for k, v in value.items()]}
    if type(value).__name__ in _PARTS:
        parts = {each.name: _encoded(getattr(value, each.name), arrays) for each in fields(value)}
        return {"part": type(value).__name__, "fields": parts}
    raise TypeError(f"a {type(value).__name__} is not in records.MODEL_PARTS and cannot be kept")


def _decoded(tree, file) -> Any:
    """Return what `_encoded` was given, with every part of the types that it declares."""
    if isinstance(tree, list):
        return [_decoded(each, file) for each in tree]
    if not isinstance(tree, dict):
        return tree
    if "part" in tree:
        return _decoded_part(_PARTS[tree["part"]], tree["fields"], file)
    [(kind, content)] = tree.items()
    if kind == "array":
        return np.load(io.BytesIO(file[f"{int(content)}.npy"]), allow_pickle=False)
    if kind == "float":
        return float(content)
    if kind == "tuple":
        return tuple(_decoded(each, file) for each in content)
    pairs = {_decoded(key, file): _decoded(value, file) for key, value in content}
    return {"dict": dict, "counts": Counter}[kind](pairs)


def _decoded_part(part, content, file):
    hints = get_type_hints(part)
    values = {name: _decoded(content[name], file) for name in hints}
    for name, hint in hints.items():
        if not _fits(values[name], hint):
            raise _UnfitError(f"{part.__name__}.{name} is of a wrong type")
    return part(**values)


def _fits(value, hint) -> bool:
    """Return whether a value is of the type that a data class declares."""
    kind, inner = get_origin(hint) or hint, get_args(hint)
    if kind is Any:
        return True
    if kind in (Union, UnionType):
        return any(_fits(value, each) for each in inner)
    if kind is np.ndarray:
        return isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
    if kind in (float, int):
        return isinstance(value, (int, kind)) and not isinstance(value, bool)
    if not isinstance(value, kind):
        return False
    if kind is list and inner:
        return all(_fits(each, inner[0]) for each in value)
    if kind is tuple and inner:
        return len(value) == len(inner) and all(map(_fits, value, inner))
    if kind is dict and inner:
        return all(_fits(k, inner[0]) and _fits(v, inner[1]) for k, v in value.items())
    return is_dataclass(kind) or kind in (list, tuple, dict, Counter, str, bool, type(None))


def _check_sizes(p, known):
    """Refuse parts that are not for the same number of columns."""
    joint, prior, cells = known.model.joint, known.model.prior, known.cells
    n = len(cells.values)
    versions = len(joint.location)
    sound = (
        len(known.model.values) == len(joint.scores) == p
        and all(score is None or isinstance(score, Score) for score in joint.scores)
        and joint.location.shape == joint.variances.shape == (versions, p)
        and joint.precision.shape == (versions, p, p)
        and all(part.shape == (p, p) for part in vars(known.tempering).values())
        and prior.pairs.shape == (p, p)
        and prior.moved.shape == (p + 1,)
        and all(part.shape == (n, p) for part in (cells.values, cells.classes, cells.styles))
        and cells.texts.shape == (n, p)
        and cells.texts.max(initial=-1) < len(cells.text_list)
        and 0 <= cells.styles.min(initial=0) <= cells.styles.max(initial=0) < len(cells.style_names)
        and (n == 0 or (known.own.shape == (n, p) and known.version.shape == (n,)))
        and known.model.dependence.sound(p)
        and (known.rule is None or known.rule.sound(p))
        and (n == 0 or known.own_links.shape == (n, len(known.model.dependence)))
        and 0 <= known.version.min(initial=0) <= known.version.max(initial=0) < max(versions, 1)
    )
    if not sound:
        raise _UnfitError("its parts are not of one size")


def _check_use(known):
    """Refuse a model that cannot judge the records it keeps."""
    try:
        scores = score_records(known, known.cells.take(slice(0, _TRIED)))
    except (ValueError, IndexError, KeyError, TypeError, ArithmeticError, NumbaError):
        scores = np.array([np.nan])
    if not np.isfinite(scores).all():
        raise _UnfitError("its parts do not fit together")
