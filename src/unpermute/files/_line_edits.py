"""Lines with one field too many or too few in a list of changes: listed, checked and undone.

Such a line of a list has "(join)" or "(insert)" in its column ``moved_from``. Joined are the field
of its column, which is ``old``, and the next one; inserted is an empty field before ``old``.
"""

from collections.abc import Iterable, Iterator

from unpermute.files._moves import INSERT, JOIN, LineEdit
from unpermute.files._source import RaggedLine, SourceTable

__all__ = ["EDIT_CAUSES", "listed_edits", "plan_edits"]

EDIT_CAUSES = {JOIN: "a delimiter without quotes", INSERT: "a lost field"}


def listed_edits(
    source: SourceTable, proposals: Iterable[tuple[RaggedLine, LineEdit, float, bool]]
) -> Iterator[tuple]:
    """Yield lines of a list of changes, as `listed_changes` does.

    Parameters
    ----------
    source : SourceTable
        The table.
    proposals : iterable of (RaggedLine, LineEdit, float, bool)
        Lines, what would make them regular, with what confidence, and whether that is accepted.

    Yields
    ------
    change : tuple
        One line that becomes regular.
    """
    for line, edit, confidence, accepted in proposals:
        old, new = _texts(line.fields, edit, source)
        yield (
            line.line, line.row, "", source.columns[edit.column], old, new, edit.kind,
            "yes" if accepted else "no", 1.0, confidence, EDIT_CAUSES[edit.kind],
            f"the line has {len(line.fields)} fields",
        )  # fmt: skip


def plan_edits(source, listed, rows, columns, *, undo):
    """Return the edits that lines of a list ask for, once they are known to fit the table."""
    ragged = {line.row: line for line in source.ragged_lines()} if rows else {}
    edits: dict[int, LineEdit] = {}
    for k, (row, column, kind) in enumerate(zip(rows, columns, listed.moved_from, strict=True)):
        if row in edits:
            listed.refuse(k, f"row {row} is made regular a second time.")
        edit = LineEdit(row, column, kind, undo)
        if undo:
            _check_regular(source, listed, k, edit, ragged)
        else:
            _check_ragged(source, listed, k, edit, ragged)
        edits[row] = edit
    return tuple(edits.values())


def _texts(fields, edit, source):
    """Return what a list calls old and new of an edit."""
    if edit.kind == INSERT:
        return (fields[edit.column] if edit.column < len(fields) else ""), ""
    old, other = fields[edit.column : edit.column + 2]
    return old, old + source.delimiter + other


def _check_ragged(source, listed, k, edit, ragged):
    surplus = 1 if edit.kind == JOIN else -1
    line = ragged.get(edit.row)
    n = len(source.columns) + surplus
    if line is None or len(line.fields) != n:
        listed.refuse(k, f"row {edit.row} of {source.name} does not have {n} fields.")
    if edit.kind == JOIN and any(line.quoted[edit.column : edit.column + 2]):
        listed.refuse(k, f"row {edit.row} of {source.name}: fields in quotes cannot be joined.")
    _compare(source, listed, k, edit, line.fields)


def _check_regular(source, listed, k, edit, ragged):
    if edit.row in ragged or not hasattr(source, "fields_before"):
        n = len(source.columns)
        listed.refuse(k, f"row {edit.row} of {source.name} does not have {n} fields.")
    fields = source.fields_before(edit)
    if fields is None:
        listed.refuse(k, f"row {edit.row} of {source.name} was not made regular by this list.")
    _compare(source, listed, k, edit, fields)


def _compare(source, listed, k, edit, fields):
    old, new = _texts(fields, edit, source)
    for found, wanted in ((old, listed.old[k]), (new, listed.new[k])):
        if wanted not in (found, f"'{found}"):
            listed.refuse(
                k, f"row {edit.row} of {source.name} should hold {wanted!r}, but holds {found!r}."
            )
