"""`scan` and `repair`: a data frame in, what is shuffled and the repaired frame out."""

import time
from numbers import Integral, Real

import narwhals.stable.v1 as nw
import numpy as np
from scipy.special import expit

from unpermute.table._columns import repair_columns
from unpermute.table._moves import move_cells, unfit_moves
from unpermute.table._numbers import check_names, open_frame, read_numbers
from unpermute.table._records import repair_records
from unpermute.table._result import Changes, TableModel, TableResult, changes_frame

__all__ = ["repair", "scan"]

_HIGHEST = 999.0


def scan(
    frame, *, vectors="rows", id=None, columns=None, exclude=None, blocks=None, groups=None,
    reference=None, n_subspaces=None, rank=None, min_confidence=0.95, max_moves=None,
    random_state=0, n_jobs=None, model=None,
):  # fmt: skip
    """Say which records or columns of a table look shuffled; change nothing.

    Parameters
    ----------
    frame : pandas, polars or pyarrow data frame
        The table. Numeric columns are used, also those of text of which nine tenths are numbers;
        all others pass through untouched.
    vectors : {"rows", "columns"}, default="rows"
        What was permuted: the attributes of records, or the rows of columns.
    id : str, default=None
        Column that names the records. None: pandas' index, or the number of the row.
    columns, exclude : list of str, default=None
        Columns to use, or not to use.
    blocks : str, default=None
        Column within whose values rows moved (``vectors="columns"``).
    groups : str or list of lists of str, default=None
        What shares one permutation. Records: the column that names their source, batch or file.
        Columns: lists of columns that were shuffled together, or "auto" to find them.
    reference : data frame, default=None
        Clean table with the same columns to learn from (``vectors="rows"``).
    n_subspaces, rank : int, default=None
        What is known about the structure; None: estimated.
    min_confidence : float, default=0.95
        Of the records that are changed, the expected share of those that were whole stays below
        1 - `min_confidence`; a column is changed if it is at least so sure that rows moved.
    max_moves : int, default=None
        Most cells to move in one record or column.
    random_state : int, default=0
        Seed; the same seed gives the same answer.
    n_jobs : int, default=None
        Threads; the result does not depend on it.
    model : object, default=None
        ``TableResult.model`` of an earlier run, to be used instead of learning.

    Returns
    -------
    TableResult
        ``vectors`` lists what is suspicious, ``changes`` what :func:`repair` would do; ``frame``
        is the table as it was.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from unpermute.table import scan
    >>> wine = load_wine(as_frame=True).data
    >>> wine.loc[5, ["alcohol", "magnesium"]] = [112.0, 14.2]
    >>> scan(wine).vectors[["vector", "status", "cause"]].values.tolist()
    [[5, 'recovered', 'two fields swapped']]
    """
    return _run(
        frame, False, vectors=vectors, id=id, columns=columns, exclude=exclude, blocks=blocks,
        groups=groups, reference=reference, n_subspaces=n_subspaces, rank=rank,
        min_confidence=min_confidence, max_moves=max_moves, random_state=random_state,
        n_jobs=n_jobs, model=model,
    )  # fmt: skip


def repair(
    frame, *, vectors="rows", id=None, columns=None, exclude=None, blocks=None, groups=None,
    reference=None, n_subspaces=None, rank=None, min_confidence=0.95, max_moves=None,
    random_state=0, n_jobs=None, model=None,
):  # fmt: skip
    """Put the values of shuffled records or columns back where that is sure.

    Parameters
    ----------
    frame : pandas, polars or pyarrow data frame
        The table. Numeric columns are used, also those of text of which nine tenths are numbers;
        all others pass through untouched.
    vectors : {"rows", "columns"}, default="rows"
        What was permuted: the attributes of records, or the rows of columns.
    id : str, default=None
        Column that names the records. None: pandas' index, or the number of the row.
    columns, exclude : list of str, default=None
        Columns to use, or not to use.
    blocks : str, default=None
        Column within whose values rows moved (``vectors="columns"``).
    groups : str or list of lists of str, default=None
        What shares one permutation. Records: the column that names their source, batch or file.
        Columns: lists of columns that were shuffled together, or "auto" to find them.
    reference : data frame, default=None
        Clean table with the same columns to learn from (``vectors="rows"``).
    n_subspaces, rank : int, default=None
        What is known about the structure; None: estimated.
    min_confidence : float, default=0.95
        Of the records that are changed, the expected share of those that were whole stays below
        1 - `min_confidence`; a column is changed if it is at least so sure that rows moved.
    max_moves : int, default=None
        Most cells to move in one record or column.
    random_state : int, default=0
        Seed; the same seed gives the same answer.
    n_jobs : int, default=None
        Threads; the result does not depend on it.
    model : object, default=None
        ``TableResult.model`` of an earlier run, to be used instead of learning.

    Returns
    -------
    TableResult
        ``frame`` is the repaired table, ``changes`` lists every moved cell; what is suspicious
        but unsure is listed in ``vectors`` and left alone.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from unpermute.table import repair
    >>> wine = load_wine(as_frame=True).data
    >>> damaged = wine.copy()
    >>> damaged.loc[5, ["alcohol", "magnesium"]] = [112.0, 14.2]
    >>> result = repair(damaged)
    >>> result.frame.equals(wine)
    True
    >>> result.changes[["row", "column", "old", "new"]].values.tolist()
    [[5, 'alcohol', '112.0', '14.2'], [5, 'magnesium', '14.2', '112.0']]
    """
    return _run(
        frame, True, vectors=vectors, id=id, columns=columns, exclude=exclude, blocks=blocks,
        groups=groups, reference=reference, n_subspaces=n_subspaces, rank=rank,
        min_confidence=min_confidence, max_moves=max_moves, random_state=random_state,
        n_jobs=n_jobs, model=model,
    )  # fmt: skip


def _run(frame, change, **options):
    """Read, find, move, list."""
    start = time.perf_counter()
    frame = open_frame(frame)
    for name in ("columns", "exclude"):
        options[name] = _listed(options[name], name)
    _check(options, frame)
    by_row = options["vectors"] == "rows"
    named = [options["id"], options["blocks"], options["groups"] if by_row else None]
    exclude = [*(options["exclude"] or []), *(name for name in named if isinstance(name, str))]
    columns = options["columns"]
    if options["model"] is not None:
        columns = _columns_of_model(options["model"], columns, frame)
    table = read_numbers(frame, columns=columns, exclude=exclude)
    found = (_find_in_records if by_row else _find_in_columns)(frame, table, options)
    ids = _ids(frame, options["id"])
    repaired = move_cells(frame, table.names, found.changes) if change else frame
    suspicious = _suspicious(frame, table, found, ids, by_row=by_row)
    summary = _summary(table, found, options, by_row=by_row)
    summary["seconds"] = time.perf_counter() - start
    return TableResult(
        repaired.to_native(),
        changes_frame(frame, table.names, found.changes, ids, by_row=by_row),
        suspicious,
        summary,
        found.model,
    )


def _listed(names, option):
    """Names of columns as a list without repetitions."""
    if names is None:
        return None
    names = [names] if isinstance(names, str) else list(dict.fromkeys(names))
    if not names and option == "columns":
        raise ValueError("columns=[] leaves nothing to look at; name some, or leave it out.")
    return names


def _columns_of_model(model, columns, frame):
    """The columns that a model was learned from, in its order."""
    if not isinstance(model, TableModel):
        raise ValueError("model must be the model of an earlier result of scan or repair.")
    check_names(model.names, frame, "model: the column")
    if columns is not None and set(columns) != set(model.names):
        raise ValueError(f"columns={columns!r} must be those of the model, {model.names!r}.")
    return model.names


class _Found:
    """What either mode finds: one score, status, … per vector, and the cells to move."""

    def __init__(self, repairs, changes, subspace, model=None):
        self.changes, self.subspace = changes, subspace
        # What can never be in a column has odds of a million; nobody reads that far.
        self.score, self.status = np.clip(repairs.score, -_HIGHEST, _HIGHEST), repairs.status
        self.confidence, self.cause = repairs.confidence, repairs.cause
        self.structure, self.model = repairs.structure, model


def _find_in_records(frame, table, options):
    for name in ("blocks", "n_subspaces"):
        if options[name] is not None:
            raise ValueError(f"{name}={options[name]!r} is for vectors='columns'; leave it out.")
    groups = options["groups"]
    if groups is not None and not isinstance(groups, str):
        raise ValueError(f"groups={groups!r} must name one column for vectors='rows'.")
    codes = None
    if groups is not None:
        texts = [str(cell) for cell in frame[groups].to_list()]
        codes = np.unique(texts, return_inverse=True)[1]
    model = options["model"]
    reference = decimals = None
    if options["reference"] is not None:
        other = open_frame(options["reference"], "reference")
        check_names(table.names, other, "reference")
        clean = read_numbers(other, columns=table.names)
        reference, decimals = clean.values, clean.decimals
    repairs = repair_records(
        table.values, decimals=table.decimals, foreign=table.foreign,
        integer=table.integer, no_null=table.no_null, reference=reference,
        reference_decimals=decimals, groups=codes, rank=options["rank"],
        max_moves=options["max_moves"], min_confidence=options["min_confidence"],
        random_state=options["random_state"], n_jobs=options["n_jobs"],
        model=None if model is None else model.records,
    )  # fmt: skip
    changes = _moved_fields(repairs)
    unfit = unfit_moves(frame, table.names, changes)
    if unfit.any():
        rows = np.unique(changes.rows[unfit])
        _leave_alone(repairs, rows)
        table.notes.append(_unfit_note(frame, table, changes, unfit, len(rows)))
        changes = _moved_fields(repairs)
    learned = None if repairs.model is None else TableModel(table.names, repairs.model)
    return _Found(repairs, changes, np.zeros(len(frame), dtype=np.int64), learned)


def _moved_fields(repairs):
    row, column = np.nonzero(repairs.permutations != np.arange(repairs.permutations.shape[1]))
    origin = repairs.permutations[row, column]
    confidence = repairs.entry_confidence[row, column]
    return Changes(row, column, row, origin, confidence, repairs.cause[row])


def _unfit_note(frame, table, changes, unfit, n_records):
    """Say which columns would have to be of another type."""
    names = [table.names[j] for j in np.unique(changes.columns[unfit])]
    columns = ", ".join(f"{name!r} ({frame[name].dtype})" for name in names)
    return (
        f"Records left as they are because a value does not fit the type of its column: {n_records}"
        f" ({columns})."
    )


def _leave_alone(repairs, rows):
    """Change nothing in these records, but list them."""
    repairs.permutations[rows] = np.arange(repairs.permutations.shape[1])
    repairs.status[rows] = "uncertain"
    repairs.confidence[rows] = expit(-repairs.score[rows])  # that nothing had moved


def _find_in_columns(frame, table, options):
    for name in ("reference", "model"):
        if options[name] is not None:
            raise ValueError(f"{name} is for vectors='rows'; leave it out.")
    blocks = None
    if options["blocks"] is not None:
        texts = [str(cell) for cell in frame[options["blocks"]].to_list()]
        blocks = np.unique(texts, return_inverse=True)[1]
    groups = options["groups"]
    if groups is not None and groups != "auto":
        groups = [[table.names.index(name) for name in _members(group, table)] for group in groups]
        named = [j for group in groups for j in group]
        if not all(groups) or len(set(named)) < len(named):
            raise ValueError(
                f"groups={options['groups']!r} must be lists of columns, none empty, none twice."
            )
    repairs = repair_columns(
        table, blocks=blocks, groups=groups, n_subspaces=options["n_subspaces"],
        rank=options["rank"], max_moves=options["max_moves"],
        min_confidence=options["min_confidence"], random_state=options["random_state"],
        n_jobs=options["n_jobs"],
    )  # fmt: skip
    column, row = np.nonzero(repairs.permutations != np.arange(len(frame)))
    origin = repairs.permutations[column, row]
    changes = Changes(
        row, column, origin, column, repairs.entry_confidence[column, row], repairs.cause[column]
    )
    return _Found(repairs, changes, repairs.labels)


def _members(group, table):
    names = [group] if isinstance(group, str) else list(group)
    for name in names:
        if name not in table.names:
            raise ValueError(f"groups names {name!r}, which is not a numeric column in use.")
    return names


def _check(options, frame):
    """Refuse options that cannot be meant, each in one sentence."""
    if options["vectors"] not in ("rows", "columns"):
        raise ValueError(f"vectors={options['vectors']!r} must be 'rows' or 'columns'.")
    for name in ("id", "blocks"):
        value = options[name]
        if value is not None and not isinstance(value, str):
            raise ValueError(f"{name}={value!r} must be the name of one column.")
    for name in ("id", "blocks", "columns", "exclude"):
        check_names(options[name], frame, name)
    if isinstance(options["groups"], str) and options["vectors"] == "rows":
        check_names(options["groups"], frame, "groups")
    elif isinstance(options["groups"], str) and options["groups"] != "auto":
        raise ValueError(
            f"groups={options['groups']!r} must be 'auto' or lists of columns for"
            " vectors='columns'."
        )
    for name in ("n_subspaces", "rank", "max_moves"):
        value = options[name]
        if value is not None and (not isinstance(value, Integral) or value < 1):
            raise ValueError(f"{name}={value!r} must be None or an integer of at least 1.")
    value = options["min_confidence"]
    if not isinstance(value, Real) or not 0 <= float(value) <= 1:
        raise ValueError(f"min_confidence={value!r} must be a number from 0 to 1.")


def _ids(frame, name):
    """What the records are called, as a series."""
    if name is not None:
        return frame[name]
    namespace = nw.get_native_namespace(frame)
    native = frame.to_native()
    index = getattr(native, "index", None)
    if index is not None and getattr(index, "nlevels", 1) == 1:
        return nw.new_series("id", index.tolist(), backend=namespace)
    if index is not None:
        return nw.new_series("id", [str(label) for label in index], backend=namespace)
    return nw.new_series("id", np.arange(len(frame)), nw.Int64, backend=namespace)


def _suspicious(frame, table, found, ids, *, by_row):
    """List the suspicious vectors, worst first."""
    places = np.flatnonzero(found.status != "clean")
    places = places[np.argsort(-found.score[places], kind="stable")]
    moved = np.bincount(
        found.changes.rows if by_row else found.changes.columns, minlength=len(found.status)
    )
    names = ids[places.tolist()].to_list() if by_row else [table.names[j] for j in places]
    listed = {"vector": names}
    if by_row:
        listed["row"] = places.tolist()
    listed |= {
        "score": found.score[places].tolist(),
        "status": found.status[places].tolist(),
        "subspace": found.subspace[places].tolist(),
        "confidence": found.confidence[places].tolist(),
        "moved": moved[places].tolist(),
        "cause": found.cause[places].tolist(),
    }
    schema = {
        "vector": ids.dtype if by_row else nw.String,
        "row": nw.Int64,
        "score": nw.Float64,
        "status": nw.String,
        "subspace": nw.Int64,
        "confidence": nw.Float64,
        "moved": nw.Int64,
        "cause": nw.String,
    }
    schema = {name: schema[name] for name in listed}
    return nw.from_dict(listed, schema, backend=nw.get_native_namespace(frame)).to_native()


def _summary(table, found, options, *, by_row):
    n_repaired = int(np.sum(found.status == "recovered"))
    n_uncertain = int(np.sum(found.status == "uncertain"))
    n_cells, n_vectors = len(found.changes), len(found.status)
    what = "record" if by_row else "column"
    structure = found.structure
    settings = {
        name: value
        for name, value in options.items()
        if name not in ("reference", "model", "n_jobs")
    }
    for name in ("reference", "model"):
        settings[name] = None if options[name] is None else "given"
    return {
        "sentence": _sentence(what, n_vectors, n_repaired, n_uncertain, n_cells, structure),
        "judged": not by_row or found.model is not None,
        "vectors": options["vectors"],
        "n_rows": len(table.values),
        "columns": list(table.names),
        "n_vectors": n_vectors,
        "n_suspicious": n_repaired + n_uncertain,
        "n_repaired": n_repaired,
        "n_uncertain": n_uncertain,
        "n_moved_cells": n_cells,
        "structure": {
            "weak": bool(structure.weak),
            "recoverability": float(structure.recoverability),
            "sentence": structure.sentence,
        },
        "notes": list(table.notes),
        "settings": settings,
    }


def _sentence(what, n_vectors, n_repaired, n_uncertain, n_cells, structure):
    several = f"{n_vectors:,} {what}s"
    if structure.recoverability == 0.0 and n_repaired + n_uncertain == 0:
        return f"The {several} were not judged. {structure.sentence}"
    if n_repaired + n_uncertain == 0:
        found = f"Nothing looks shuffled in {several}."
    else:
        places = "fields" if what == "record" else "rows"
        found = (
            f"{n_repaired + n_uncertain:,} of {several} look shuffled: {n_repaired:,} can be put"
            f" back ({n_cells:,} cells move between {places}), {n_uncertain:,} are too unsure to"
            " touch."
        )
    return f"{found} {structure.sentence}" if structure.weak else found
