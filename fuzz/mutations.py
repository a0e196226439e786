"""Bytes that went through something: flipped, cut, doubled, spliced with what breaks parsers."""

import io
import re
import zipfile

import numpy as np

TOKENS = [
    b'"', b'""', b"'", b",", b";", b"\t", b"|", b"\n", b"\r", b"\r\n", b"\n\n", b"\0", b"\x1b[2J",
    b"\xef\xbb\xbf", b"\xff\xfe", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xe2\x80\xae", b"=1+1", b"-",
    b"9" * 400, b"1e999", b"-1e-400", b"NaN", b"inf", b"0x1F", b"1,234.5", b"1.234,5",
    b"\xe2\x82\xac", b"[" * 2000, b"{", b"}", b"]", b"null", b"\\ud800", b'{"a":', b"PK\x03\x04",
    b"<", b"&#0;", b"/>", b"(join)", b"(insert)", b"yes", b"no", b" ",
    b"99999999999999999999", b"-1",
]  # fmt: skip


class FailedError(Exception):
    """A case that failed, with the inputs that made it fail."""

    def __init__(self, sentence, *inputs):
        super().__init__(sentence)
        self.inputs = inputs


def mutated(raw, rng, most=6):
    """Return bytes with a few mutations."""
    data = bytearray(raw)
    for _ in range(int(rng.integers(1, most + 1))):
        at = int(rng.integers(len(data) + 1))
        size = int(rng.integers(1, 1 + min(len(data), 40))) if data else 1
        kind = rng.integers(7)
        if kind == 0 and data:
            data[at % len(data)] = int(rng.integers(256))
        elif kind == 1:
            del data[at : at + size]
        elif kind == 2:
            data[at:at] = data[at : at + size]
        elif kind == 3:
            data[at:at] = TOKENS[rng.integers(len(TOKENS))]
        elif kind == 4 and data:
            other = int(rng.integers(len(data)))
            data[at : at + size] = data[other : other + size]
        elif kind == 5 and rng.random() < 0.3:
            del data[at:]
        elif kind == 6 and data:
            data[at % len(data)] ^= 1 << int(rng.integers(8))
    return bytes(data)


def mutated_part(raw, rng, most=6):
    """Return a sound workbook with one part mutated: other bytes of a zip betray themselves."""
    sink = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(raw)) as old, zipfile.ZipFile(sink, "w") as new:
        target = rng.choice(
            [name for name in old.namelist() if re.search("(?i)sheet|strings|style", name)]
        )
        for name in old.namelist():
            part = old.read(name)
            new.writestr(name, mutated(part, rng, most) if name == target else part)
    return sink.getvalue()


def rng_of(seed, kind, number):
    """Return the random numbers of one case."""
    return np.random.default_rng([seed, kind, number])
