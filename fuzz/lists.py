"""Mutated lists of changes: refused, or replayed without losing a value, and undone."""

import functools

import numpy as np
from files import content, listed, random_moves, texts_of
from mutations import FailedError, mutated, rng_of
from tables import csv_of, rows_of

from unpermute.files import CsvStyle, TableError, plan_moves
from unpermute.files._csv import CsvTable


@functools.cache
def _table():
    raw = csv_of(rows_of(np.random.default_rng(1), 20))
    raw = raw.replace(b"\nr3,", b"\nr3,extra, ").replace(b"\nr5,", b"\n")
    return raw, CsvTable(raw, "t.csv", CsvStyle(delimiter=","))


def check(seed, number):
    rng = rng_of(seed, 2, number)
    raw, source = _table()
    text = listed(source, random_moves(source, rng))
    if rng.random() < 0.3:
        text += b'4,3,,word,extra,"extra, red",(join),yes,1,1,,\n'
    if rng.random() < 0.3:
        text += b"6,5,,id,red,,(insert),yes,1,1,,\n"
    text = mutated(text, rng, 1) if rng.random() < 0.8 else text
    try:
        try:
            changes = CsvTable(text, "c.csv", CsvStyle())
            moves = plan_moves(source, changes)
        except TableError:
            return "refused"
        repaired = b"".join(source.with_moves(moves))
        after = CsvTable(repaired, "t.csv", CsvStyle(delimiter=","))
        if not moves.edits and texts_of(after) != texts_of(source):
            raise FailedError("values were lost or invented")
        back = b"".join(after.with_moves(plan_moves(after, changes, undo=True)))
        if content(back, ".csv") != raw:
            raise FailedError("undo does not restore the file")
    except Exception as error:
        error.inputs = [(".csv", raw), (".changes.csv", text)]
        raise
    return "undone"
