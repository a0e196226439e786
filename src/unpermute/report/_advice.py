"""What to do next, and how to repeat the run: words made from a summary and its settings."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from unpermute.report._findings import shorten

__all__ = ["Advice", "call_to_repeat", "listed_settings", "next_steps"]

# A table may have 10 000 columns, all of them named on the command line.
_LONGEST_CALL = 60_000
_LONGEST_VALUE = 300
_REPAIR = "unpermute repair "
_UNSET = {
    "n_subspaces": "estimated",
    "rank": "estimated",
    "max_moves": "no limit",
    "columns": "all",
}


class Advice(NamedTuple):
    """Something to do: a heading, a sentence, and what to type."""

    title: str
    text: str
    code: str = ""


def call_to_repeat(settings: Mapping[str, Any]) -> str:
    """Return the command line, or the call in Python, that gives this result again."""
    if settings.get("command"):
        return shorten(settings["command"], _LONGEST_CALL)
    # Values that do not fit in a line are named like their option.
    options = [
        f"{name}={name if value == 'given' and name in ('reference', 'model') else repr(value)}"
        for name, value in settings.items()
        if value is not None and name != "command"
    ]
    call = "from unpermute.table import repair\n\nresult = repair(\n    table,\n"
    return shorten(call + "".join(f"    {option},\n" for option in options) + ")", _LONGEST_CALL)


def listed_settings(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return every setting in words."""
    return [
        (name, _UNSET.get(name, "–") if value is None else shorten(value, _LONGEST_VALUE))
        for name, value in settings.items()
        if name != "command"
    ]


def next_steps(
    summary: Mapping[str, Any],
    settings: Mapping[str, Any],
    answers: Mapping[str, str] | None = None,
) -> list[Advice]:
    """Say what is worth doing now, most useful first."""
    command = settings.get("command")
    if command and (len(command) > _LONGEST_VALUE or not command.startswith(_REPAIR)):
        command = f"{_REPAIR}TABLE"
    questions = summary.get("questions") or []
    steps: list[Advice] = list(_ask(questions, answers))
    if summary["n_moved_cells"]:
        steps += _review(command)
    if summary["structure"]["weak"]:
        steps += _what_would_help(summary, settings)
    elif summary["n_uncertain"]:
        steps += _about_unsure(summary, settings)
    if not summary["n_suspicious"] and not questions:
        steps += _keep_watch(summary, command)
    elif summary["n_moved_cells"]:
        steps.append(
            Advice(
                "Fix the cause",
                "The heat map shows which columns and which rows are affected, and the kinds of"
                " damage hint at the reason. Look for an import, form or export that the affected"
                " records have in common.",
            )
        )
    return steps


def _ask(questions, answers):
    """What only a person can decide."""
    if answers is None:
        answers = {
            reading["if"]: f"repair(table, exchange={reading['exchange']})"
            for each in questions
            for reading in each["readings"]
        }
    for each in questions:
        yield Advice("Answer a question", each["sentence"])
    for reading, code in answers.items():
        yield Advice(f"If {reading}", "Then type this.", code)


def _review(command):
    if not command:
        return [
            Advice(
                "Review the changes",
                "Every moved cell is listed with its old and new value, where the value came from"
                " and its confidence. Begin with the lowest confidence.",
                "result.changes",
            )
        ]
    return [
        Advice(
            "Review the changes",
            "The list has one line per moved cell, with its old and new value, where the value came"
            " from and its confidence. Write yes or no in its column accept.",
            f"{command} --changes changes.csv",
        ),
        Advice(
            "Apply the reviewed list",
            "Only the moved cells of the table change, byte for byte.",
            "unpermute apply TABLE changes.csv -o REPAIRED  # with --undo, they all go back",
        ),
    ]


def _about_unsure(summary, settings):
    n, what = summary["n_uncertain"], _what(summary)
    limit = settings.get("min_confidence", 0.95)
    several = n > 1
    yield Advice(
        f"Look at the {n:,} {what}{'s' if several else ''} left alone",
        f"{'They look' if several else 'It looks'} shuffled, but the repair may be wrong. A"
        f" min_confidence below {limit} repairs more records and makes more mistakes.",
    )
    yield from _what_would_help(summary, settings)


def _what_would_help(summary, settings):
    if summary["vectors"] == "rows":
        if settings.get("reference") is None:
            yield Advice(
                "Give it a clean table",
                "With a table of the same columns that is known to be in order (reference), the"
                " columns are learned from that one instead of from damaged records.",
            )
        if settings.get("groups") is None:
            yield Advice(
                "Say where the records come from",
                "If a whole source, file or batch has its columns in another order, the column that"
                " names it (groups) lets its records be judged together.",
            )
        if summary["structure"]["weak"]:
            yield Advice(
                "Add columns that belong together",
                "A value finds its place because other columns of the record, its unit and its"
                " range tell what it should be. More related columns and more records help.",
            )
        return
    if settings.get("groups") is None:
        yield Advice(
            "Say which columns were shuffled together",
            "Columns that share one permutation (groups) are much easier to put back than each of"
            " them alone; groups='auto' looks for them.",
        )
    if settings.get("blocks") is None:
        yield Advice(
            "Say how far rows can have moved",
            "If rows only moved within a day, a site or a batch, the column that names it (blocks)"
            " leaves fewer places for every value.",
        )


def _keep_watch(summary, command):
    if summary["structure"]["weak"]:
        return
    yield Advice(
        "Keep watch",
        "Nothing needs to be done now. As a step of a pipeline, the scan exits with 1 as soon as"
        " something looks shuffled.",
        f"unpermute scan {command.removeprefix(_REPAIR)} --fail-on-found" if command else "",
    )


def _what(summary):
    return "record" if summary["vectors"] == "rows" else "column"
