"""Decide about every record alone, by a rule: the same record, the same answer.

Nothing depends on the records that stand beside one, so a table gets the same answers as a whole,
in blocks of any size, and on any number of machines. What takes a whole table (how common damage
and gaps are, which exchanges are a question) is part of the rule.
"""

import zlib
from dataclasses import replace

import numpy as np

from unpermute.numerics.parallel import map_blocks
from unpermute.records._causes import SHIFTED
from unpermute.records._cells import Cells
from unpermute.records._decide import decide
from unpermute.records._evidence import Judge
from unpermute.records._exchanges import without_pairs
from unpermute.records._large import unsearched
from unpermute.records._model import place_cells
from unpermute.records._parts import find_parts

__all__ = ["judge_records", "leave_tails"]

# Records that are screened at once, cells of the lookup tables of one search, and records that
# decoys are drawn from: these bound the memory, and change no answer.
_SCREENED, _LOOKED_UP, _DECOY_RECORDS = 8192, 1_000_000, 200
# Stands for all styles that the model has not seen: however many a block has, there is one.
_OTHER_STYLE = "\0other"


def judge_records(known, cells, *, max_moves=None, min_confidence=0.95, n_jobs=None):
    """Decide about records by what is known, each of them alone.

    Parameters
    ----------
    known : KnownRecords
        With a rule.
    cells : Cells
        The records, with the columns that the model was learned from.
    max_moves : int or None
        Most cells to move in one record.
    min_confidence : float
        Least confidence with which a record is changed.
    n_jobs : int or None
        Threads; the result does not depend on it.

    Returns
    -------
    RecordRepairs
        Of these records; `recoverability` and `trials` are those of the table learned from.
    """
    rule = known.rule
    judge = Judge(known.model, known.tempering, rule.seed, n_jobs)
    evidence = _weigh(known, cells, n_jobs)

    def parts_of(rows, permutations):
        some = _with_styles(cells.take(rows), [*known.cells.style_names, _OTHER_STYLE])
        return find_parts(judge, place_cells(known.model, some), rows, permutations)

    found = decide(
        cells, evidence, rule.calibration, max_moves, min_confidence, rule.gaps, rule.undecided,
        parts_of,
    )  # fmt: skip
    found = without_pairs(found, rule.closed)
    return replace(found, known=known, recoverability=rule.recoverability, trials=dict(rule.trials))


def leave_tails(found, judged, n_columns):
    """Leave shifted tails alone that may pass through columns which are not judged.

    Whether they do is a matter of the whole table (:func:`shift_whole_tails`).

    Parameters
    ----------
    found : RecordRepairs
        Of the judged columns.
    judged : list of int
        Places of the judged columns among all.
    n_columns : int
        Number of all columns.

    Returns
    -------
    RecordRepairs
    """
    rows = np.flatnonzero((found.cause == SHIFTED) & (found.status == "recovered"))
    others = np.setdiff1d(np.arange(n_columns), judged)
    if not len(rows) or not len(others):
        return found
    # Columns just before the first moved one count: the tail may begin there.
    moved = found.permutations[rows] != np.arange(found.permutations.shape[1])
    first = np.argmax(moved, axis=1)
    before = np.where(first > 0, np.asarray(judged)[first - 1], -1)
    rows = rows[others[-1] > before]
    status, permutations = found.status.copy(), found.permutations.copy()
    status[rows], permutations[rows] = "uncertain", np.arange(permutations.shape[1])
    return replace(found, status=status, permutations=permutations)


def _weigh(known, cells, n_jobs):
    """Return the evidence of every record, by itself."""
    (n, p), rule = cells.shape, known.rule
    judge = Judge(known.model, known.tempering, rule.seed, 1)
    pool = known.cells.take(slice(0, _DECOY_RECORDS))
    cells = _with_styles(cells, [*pool.style_names, _OTHER_STYLE])
    parts, size = unsearched(n, p), max(_LOOKED_UP // p**2, 16)

    def weigh(start, stop):
        part = np.arange(start, stop)
        if rule.screen is not None:
            part = part[rule.screen.passes(known.model, cells.take(slice(start, stop)))]
        for chosen in np.array_split(part, -(-len(part) // size)) if len(part) else []:
            mine = _joined(cells.take(chosen), pool)
            placed = place_cells(known.model, mine)
            decoys = placed.codes[len(chosen) :]
            draws = _draws(mine.take(slice(0, len(chosen))), len(decoys), rule.seed)
            weighed = judge.weigh(placed.take(slice(len(chosen))), pool=decoys, draws=draws)
            for target, source in zip(parts.arrays(), weighed.arrays(), strict=True):
                target[chosen] = source

    map_blocks(weigh, n, block=_SCREENED, stage="judge records", n_jobs=n_jobs)
    return parts


def _with_styles(cells, styles):
    """Cells whose styles are among some; those that are not count as the last."""
    places = {name: k for k, name in enumerate(styles)}
    of_style = [places.get(name, len(styles) - 1) for name in cells.style_names]
    return replace(
        cells, styles=np.array(of_style, dtype=np.int16)[cells.styles], style_names=styles
    )


def _joined(cells, pool):
    """Records and below them those of `pool`, with one list of texts."""
    texts = dict.fromkeys(cells.text_list[k] for k in np.unique(cells.texts[cells.texts >= 0]))
    texts |= dict.fromkeys(pool.text_list[k] for k in np.unique(pool.texts[pool.texts >= 0]))
    place = {text: k for k, text in enumerate(texts)}
    return Cells(
        np.concatenate([cells.values, pool.values]),
        np.concatenate([cells.classes, pool.classes]),
        np.concatenate([cells.styles, pool.styles]),
        np.concatenate([_renumbered(each, place) for each in (cells, pool)]),
        list(texts),
        cells.style_names,
    )


def _renumbered(cells, place):
    """Numbers of the texts of cells in another list; negative ones stay."""
    texts = cells.texts.copy()
    used = np.unique(texts[texts >= 0])
    numbers = np.array([place[cells.text_list[k]] for k in used], dtype=np.int32)
    if len(used):
        texts[texts >= 0] = numbers[np.searchsorted(used, texts[texts >= 0])]
    return texts


def _draws(cells, n_pool, seed):
    """Return a function: records of a pool that some rows draw their k-th decoy from.

    What a record draws follows from its own cells, wherever it stands.
    """
    if not n_pool:
        return None
    columns = np.arange(1, cells.shape[1] + 1, dtype=np.uint64)
    values = np.where(np.isnan(cells.values), 0.0, cells.values + 0.0).view(np.uint64)
    written = [text.encode(errors="surrogatepass") for text in cells.text_list]
    sums = np.array([zlib.crc32(text) for text in written], dtype=np.uint64)
    texts = np.zeros(cells.shape, dtype=np.uint64)
    texts[cells.texts >= 0] = sums[cells.texts[cells.texts >= 0]]
    keys = _mixed(_mixed(values ^ _mixed(texts)) ^ _mixed(columns)).sum(axis=1)
    return lambda rows, k: (
        _mixed(keys[rows] + np.uint64(seed * 64 + k)) % np.uint64(n_pool)
    ).astype(np.int64)


def _mixed(keys):
    """Whole numbers of 64 bits that look random (the finaliser of SplitMix64)."""
    keys = keys + np.uint64(0x9E3779B97F4A7C15)
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))
