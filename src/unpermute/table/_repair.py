"""`scan`, `repair` and `learn`: a data frame in, what is shuffled and the repaired frame out."""

import time
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from unpermute._progress import show_progress
from unpermute._words import counted
from unpermute.files import move_cells
from unpermute.table._find import find_in_columns, find_in_records
from unpermute.table._model import TableModel
from unpermute.table._numbers import check_names, open_frame
from unpermute.table._options import check_options, listed_names
from unpermute.table._result import TableResult, changes_frame, vectors_frame

__all__ = ["judge_alone", "learn", "learn_sample", "repair", "scan"]


def scan(
    frame, *, vectors="rows", id=None, columns=None, exclude=None, kinds=None, blocks=None,
    groups=None, reference=None, n_subspaces=None, rank=None, min_confidence=0.95, max_moves=None,
    random_state=0, n_jobs=None, model=None, exchange=None, verbose=0,
):  # fmt: skip
    """List the records or columns of a table that look shuffled; nothing is changed.

    Parameters
    ----------
    frame : pandas, polars or pyarrow data frame
        The table. Records: all columns with more than one value are judged, whether they hold
        numbers, dates, categories or text. Columns: those that hold numbers.
    vectors : {"rows", "columns"}, default="rows"
        What was permuted: the attributes of records, or the rows of columns.
    id : str, default=None
        Column that names the records. None: pandas' index, or the number of the row.
    columns, exclude : list of str, default=None
        Columns to use (None: all), and columns to leave out.
    kinds : dict of str to str, default=None
        What columns hold, where that is not recognised: "number", "date", "category", "text",
        "identifier", or "ignore" to leave a column out.
    blocks : str, default=None
        Rows moved only between rows that are equal in this column (``vectors="columns"``).
    groups : str or list of lists of str, default=None
        What shares one permutation. Records: the column that names their source, batch or file.
        Columns: lists of columns that were shuffled together, or "auto" to find them.
    reference : data frame, default=None
        Clean table with the same columns to learn from (``vectors="rows"``).
    n_subspaces, rank : int, default=None
        Number of subspaces (``vectors="columns"``) and of latent factors. None: estimated.
    min_confidence : float, default=0.95
        Minimum probability that all of the proposed repair of a record or column is right. Less
        certain repairs are proposed, but not made.
    max_moves : int, default=None
        Maximum number of cells to move in one record or column. None: no limit.
    random_state : int, default=0
        Seed; the same seed gives the same answer.
    n_jobs : int, default=None
        Threads; the result does not depend on it.
    model : object, default=None
        ``TableResult.model`` of an earlier run, to be used instead of learning.
    exchange : list of tuple, default=None
        The answer to a question in ``summary["questions"]``: two columns that are exchanged from a
        first to a last row (from 0), as ``(a, b, first, last)``; or in all rows that are unlike
        one, as ``(a, b, row)``.
    verbose : int, default=0
        Above 0, a progress bar is drawn in a terminal or notebook.

    Returns
    -------
    TableResult
        ``vectors`` lists what is suspicious, ``changes`` what :func:`repair` would do,
        ``proposals`` also what is too uncertain; ``frame`` is the table as it was.

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
        frame, False, verbose, vectors=vectors, id=id, columns=columns, exclude=exclude,
        kinds=kinds, blocks=blocks, groups=groups, reference=reference, n_subspaces=n_subspaces,
        rank=rank, min_confidence=min_confidence, max_moves=max_moves,
        random_state=random_state, n_jobs=n_jobs, model=model, exchange=exchange,
    )  # fmt: skip


def repair(
    frame, *, vectors="rows", id=None, columns=None, exclude=None, kinds=None, blocks=None,
    groups=None, reference=None, n_subspaces=None, rank=None, min_confidence=0.95, max_moves=None,
    random_state=0, n_jobs=None, model=None, exchange=None, verbose=0,
):  # fmt: skip
    """Move shuffled values back where they belong, if the confidence is high enough.

    Parameters
    ----------
    frame : pandas, polars or pyarrow data frame
        The table. Records: all columns with more than one value are judged, whether they hold
        numbers, dates, categories or text. Columns: those that hold numbers.
    vectors : {"rows", "columns"}, default="rows"
        What was permuted: the attributes of records, or the rows of columns.
    id : str, default=None
        Column that names the records. None: pandas' index, or the number of the row.
    columns, exclude : list of str, default=None
        Columns to use (None: all), and columns to leave out.
    kinds : dict of str to str, default=None
        What columns hold, where that is not recognised: "number", "date", "category", "text",
        "identifier", or "ignore" to leave a column out.
    blocks : str, default=None
        Rows moved only between rows that are equal in this column (``vectors="columns"``).
    groups : str or list of lists of str, default=None
        What shares one permutation. Records: the column that names their source, batch or file.
        Columns: lists of columns that were shuffled together, or "auto" to find them.
    reference : data frame, default=None
        Clean table with the same columns to learn from (``vectors="rows"``).
    n_subspaces, rank : int, default=None
        Number of subspaces (``vectors="columns"``) and of latent factors. None: estimated.
    min_confidence : float, default=0.95
        Minimum probability that all of the proposed repair of a record or column is right. Less
        certain repairs are proposed, but not made.
    max_moves : int, default=None
        Maximum number of cells to move in one record or column. None: no limit.
    random_state : int, default=0
        Seed; the same seed gives the same answer.
    n_jobs : int, default=None
        Threads; the result does not depend on it.
    model : object, default=None
        ``TableResult.model`` of an earlier run, to be used instead of learning.
    exchange : list of tuple, default=None
        The answer to a question in ``summary["questions"]``: two columns that are exchanged from a
        first to a last row (from 0), as ``(a, b, first, last)``; or in all rows that are unlike
        one, as ``(a, b, row)``.
    verbose : int, default=0
        Above 0, a progress bar is drawn in a terminal or notebook.

    Returns
    -------
    TableResult
        ``frame`` is the repaired table, ``changes`` lists every moved cell. Low-confidence records
        are listed in ``vectors`` and never changed.

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
        frame, True, verbose, vectors=vectors, id=id, columns=columns, exclude=exclude,
        kinds=kinds, blocks=blocks, groups=groups, reference=reference, n_subspaces=n_subspaces,
        rank=rank, min_confidence=min_confidence, max_moves=max_moves,
        random_state=random_state, n_jobs=n_jobs, model=model, exchange=exchange,
    )  # fmt: skip


def learn(
    frame, *, columns=None, exclude=None, kinds=None, rank=None, random_state=0, n_jobs=None,
    verbose=0,
):  # fmt: skip
    """Learn a model of clean records, to judge other tables by it.

    Parameters
    ----------
    frame : pandas, polars or pyarrow data frame
        The table; a few damaged records do no harm.
    columns, exclude : list of str, default=None
        Columns to use (None: all), and columns to leave out.
    kinds : dict of str to str, default=None
        What columns hold, where that is not recognised: "number", "date", "category", "text",
        "identifier", or "ignore" to leave a column out.
    rank : int, default=None
        Number of latent factors; None: no limit.
    random_state : int, default=0
        Seed; the same seed gives the same answer.
    n_jobs : int, default=None
        Threads; the result does not depend on it.
    verbose : int, default=0
        Above 0, a progress bar is drawn in a terminal or notebook.

    Returns
    -------
    TableModel
        With the methods ``scan``, ``repair`` and ``save``.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from unpermute.table import learn
    >>> wine = load_wine(as_frame=True).data
    >>> few = wine.iloc[:10].copy()
    >>> few.loc[5, ["alcohol", "magnesium"]] = [112.0, 14.2]
    >>> learn(wine).repair(few).changes["new"].tolist()
    ['14.2', '112.0']
    """
    result = scan(
        frame, columns=columns, exclude=exclude, kinds=kinds, rank=rank,
        random_state=random_state, n_jobs=n_jobs, verbose=verbose,
    )  # fmt: skip
    if result.model is None:
        raise ValueError(f"Nothing was learned. {result.summary['structure']['sentence']}")
    return result.model


def judge_alone(frame, model, *, change, **options):
    """Judge every record by a model, whatever others stand beside it.

    Parameters
    ----------
    frame : pandas, polars or pyarrow data frame
        The records.
    model : TableModel
        What they are judged by; nothing is learned from the records.
    change : bool
        Whether the result holds the repaired frame.
    **options : dict
        ``id``, ``min_confidence``, ``max_moves``, ``n_jobs`` and ``verbose`` of :func:`repair`.

    Returns
    -------
    TableResult
    """
    allowed = {"id": None, "min_confidence": 0.95, "max_moves": None, "n_jobs": None, "verbose": 0}
    for name in options:
        if name not in allowed:
            raise ValueError(f"{name} takes a whole table; with adapt=False, leave it out.")
    if model.known.rule is None:
        raise ValueError(
            "The model was learned from records of several sources (groups) and cannot judge"
            " records alone; learn another one without groups."
        )
    return _run(frame, change, model=model, adapt=False, **allowed | options)


def learn_sample(frame, *, model=None, n_learned=None, **options):
    """Scan a sample of a table, for a model that judges the records of all of it alone.

    Parameters
    ----------
    frame : pandas, polars or pyarrow data frame
        The sample, in the order of the table.
    model : TableModel, default=None
        A model to adapt to the damage of this table; None: learn one.
    n_learned : int, default=None
        Records of the sample to learn from; the others tell what is usual.
    **options : dict
        Options of :func:`scan`.

    Returns
    -------
    TableResult
        With a model.
    """
    result = _run(frame, False, 0, model=model, n_learned=n_learned, **options)
    if result.model is None:
        raise ValueError(f"Nothing was learned. {result.summary['structure']['sentence']}")
    return result


# Options of `scan` and `repair`, and what is not theirs.
_DEFAULTS: dict[str, Any] = {
    "vectors": "rows", "id": None, "columns": None, "exclude": None, "kinds": None, "blocks": None,
    "groups": None, "reference": None, "n_subspaces": None, "rank": None, "min_confidence": 0.95,
    "max_moves": None, "random_state": 0, "n_jobs": None, "model": None, "exchange": None,
    "adapt": True, "n_learned": None,
}  # fmt: skip


def _run(frame, change, verbose, **options):
    with show_progress(verbose):
        return _find_and_move(frame, change, _DEFAULTS | options)


def _find_and_move(frame, change, options):
    """Read, find, move, list."""
    start = time.perf_counter()
    frame = open_frame(frame, least=2 if options["adapt"] else 0)
    for name in ("columns", "exclude"):
        options[name] = listed_names(options[name], name)
    if options["kinds"] is None and isinstance(options["model"], TableModel):
        options["kinds"] = options["model"].kinds
    check_options(options, frame)
    by_row = options["vectors"] == "rows"
    named = [options["id"], options["blocks"], options["groups"] if by_row else None]
    ignored = [name for name, kind in (options["kinds"] or {}).items() if kind == "ignore"]
    exclude = [*(options["exclude"] or []), *(name for name in named if isinstance(name, str))]
    exclude += ignored
    columns = options["columns"]
    if options["model"] is not None:
        columns = _columns_of_model(options["model"], columns, exclude, frame)
    found = (find_in_records if by_row else find_in_columns)(frame, options, columns, exclude)
    ids = _ids(frame, options["id"])
    changes = found.proposals.accepted()
    repaired = move_cells(frame, changes.names, changes) if change else frame
    summary = _summary(frame, found, options, by_row=by_row)
    proposals = changes_frame(frame, found.proposals, ids)
    made = nw.from_native(proposals)[np.flatnonzero(found.proposals.accept).tolist()]
    summary["seconds"] = time.perf_counter() - start
    return TableResult(
        repaired.to_native(),
        nw.maybe_reset_index(made).to_native(),
        vectors_frame(frame, found, ids, by_row=by_row),
        summary,
        None
        if found.model is None
        else TableModel(found.names, found.model, _kinds_of(found.names, options["kinds"])),
        proposals,
        found.damaged,
        found.confidence,
        found.proposals,
        found.tallies,
    )


def _kinds_of(names, kinds):
    return {name: kind for name, kind in (kinds or {}).items() if name in names}


def _columns_of_model(model, columns, exclude, frame):
    """The columns that a model was learned from, in its order."""
    if not isinstance(model, TableModel):
        raise ValueError("model must be the model of an earlier result of scan or repair.")
    check_names(model.names, frame, "model: the column")
    if columns is not None and set(columns) != set(model.names):
        raise ValueError(f"columns={columns!r} must be those of the model, {model.names!r}.")
    for name in exclude:
        if name in model.names:
            raise ValueError(
                f"The model judges the column {name!r}, which is to be left out or names the"
                " records; leave that option out, or learn a model without the column."
            )
    return model.names


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


def _summary(frame, found, options, *, by_row):
    n_repaired = int(np.sum(found.status == "recovered"))
    n_uncertain = int(np.sum(found.status == "uncertain"))
    changes, n_vectors = found.proposals.accepted(), len(found.status)
    what = "record" if by_row else "column"
    structure, judged = found.structure, not by_row or found.model is not None
    return {
        "sentence": _sentence(what, found, n_repaired, n_uncertain)
        if judged
        else f"{counted(n_vectors, what)} {'was' if n_vectors == 1 else 'were'} not judged."
        f" {structure.sentence}",
        "judged": judged,
        "not_judged": None if judged else structure.sentence,
        "vectors": options["vectors"],
        "n_rows": len(frame),
        "columns": list(changes.names),
        "judged_columns": [
            {"column": kind.name, "kind": kind.kind or None, "not_judged": kind.reason or None}
            for kind in found.kinds
        ],
        "n_vectors": n_vectors,
        "n_suspicious": n_repaired + n_uncertain,
        "n_repaired": n_repaired,
        "n_uncertain": n_uncertain,
        "n_moved_cells": len(changes),
        "expected_wrong_cells": float(np.sum(1 - changes.confidence)),
        "structure": {
            "weak": bool(structure.weak),
            "recoverability": float(structure.recoverability),
            "sentence": structure.sentence,
        },
        "questions": list(found.questions),
        "trials": dict(found.trials),
        "notes": list(found.notes),
        "settings": _settings(options),
    }


def _settings(options):
    """Options that the answer depends on; of tables and models only whether they were given."""
    hidden = ("n_jobs", "n_learned", "adapt")
    settings = {name: value for name, value in options.items() if name not in hidden}
    for name in ("reference", "model"):
        settings[name] = None if options[name] is None else "given"
    return settings


def _sentence(what, found, n_repaired, n_uncertain):
    n_vectors, structure = len(found.status), found.structure
    n_cells = int(np.sum(found.proposals.accept))
    several = counted(n_vectors, what)
    n_found = n_repaired + n_uncertain
    sentences = [_asked(found.questions)] if found.questions else []
    if n_found == 0:
        sentences.append(
            f"Nothing {'else ' if found.questions else ''}looks shuffled in {several}."
        )
    else:
        places = "fields" if what == "record" else "rows"
        sentences.append(
            f"{n_found:,} of {several} look{'s' if n_found == 1 else ''} shuffled: {n_repaired:,}"
            f" can be put back ({n_cells:,} cells move between {places}), {n_uncertain:,}"
            f" {'is' if n_uncertain == 1 else 'are'} too uncertain to change."
        )
    return " ".join(sentences + ([structure.sentence] if structure.weak else []))


def _asked(questions):
    """Which columns seem to be exchanged in many rows."""
    pairs = "; ".join(" and ".join(each["columns"]) for each in questions)
    return f"Columns that seem to be exchanged in a part of the rows: {pairs}."
