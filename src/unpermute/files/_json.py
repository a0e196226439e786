"""JSON: an array of objects, of which each is a record as in JSON lines."""

import json
import mmap
import re

import numpy as np

from unpermute.files._jsonl import JsonLinesTable
from unpermute.files._source import TableError

__all__ = ["JsonTable"]

_SPACE = re.compile(r"[ \t\n\r]*")


class JsonTable(JsonLinesTable):
    """A table in a JSON array of objects; keys are columns, a missing key is a missing value."""

    def _find_records(self, raw: bytes | mmap.mmap, name: str) -> np.ndarray:
        try:
            text = bytes(raw).decode()
            spans = list(_object_spans(text))
        except UnicodeDecodeError:
            raise TableError(f"{name} is not text in utf-8.") from None
        except RecursionError:
            raise TableError(f"{name} is nested too deeply.") from None
        except json.JSONDecodeError as error:
            raise TableError(f"{name} is not an array of objects in JSON: {error}.") from None
        return _as_bytes(text, np.array(spans, dtype=np.int64).reshape(-1, 2))


def _object_spans(text):
    """Yield where the objects of an array begin and end."""
    position = _after(text, 1 if text.startswith("\ufeff") else 0)
    _expect(text, position, "[")
    position = _after(text, position + 1)
    decode = json.JSONDecoder(parse_int=str, parse_float=str).raw_decode
    while text[position : position + 1] != "]":
        _expect(text, position, "{")
        stop = decode(text, position)[1]
        yield position, stop
        position = _after(text, stop)
        if text[position : position + 1] == ",":
            position = _after(text, position + 1)
            _expect(text, position, "{")
        else:
            _expect(text, position, "]")
    if _after(text, position + 1) != len(text):
        raise json.JSONDecodeError("more after the array", text, position + 1)


def _after(text, position):
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _expect(text, position, character):
    if text[position : position + 1] != character:
        raise json.JSONDecodeError(f"{character!r} expected", text, position)


def _as_bytes(text, spans):
    """Return places in a text as places in its UTF-8."""
    if text.isascii():
        return spans
    places = spans.ravel()
    sizes = [len(part.encode()) for part in _parts(text, places.tolist())]
    return np.cumsum(sizes, dtype=np.int64).reshape(-1, 2)


def _parts(text, places):
    begin = 0
    for place in places:
        yield text[begin:place]
        begin = place
