"""Files that the user keeps: where they lie, and whether they are the published ones."""

import hashlib
import os
from pathlib import Path

__all__ = ["find", "read_verified", "verify"]


def read_verified(file, sha256, source, data_home):
    """Return the bytes of `file` inside the data folder once their checksum agrees."""
    content = find(file, source, data_home).read_bytes()
    verify(file, hashlib.sha256(content).hexdigest(), sha256, source)
    return content


def find(name, source, data_home):
    """Return the path of a file or folder inside the data folder, or say how to get it."""
    remedy = (
        f"{source}; put it at {name} inside a folder of your choice and pass that folder as"
        " data_home, or set the environment variable UNPERMUTE_DATA to it."
    )
    folder = os.environ.get("UNPERMUTE_DATA") if data_home is None else data_home
    if not folder:
        raise FileNotFoundError(
            f"Where {name} lies is not known: data_home={data_home!r}, and the environment variable"
            f" UNPERMUTE_DATA is not set. {remedy}"
        )
    path = Path(folder).expanduser() / name
    if not path.exists():
        named = "UNPERMUTE_DATA" if data_home is None else f"data_home={os.fspath(data_home)!r}"
        raise FileNotFoundError(f"There is no {name} in the folder that {named} names. {remedy}")
    return path


def verify(name, found, sha256, source):
    """Refuse what is not the published file."""
    if found != sha256:
        raise ValueError(
            f"{name} is damaged or not the published file: its SHA-256 checksum is {found} instead"
            f" of {sha256}. {source}; get it again from there."
        )
