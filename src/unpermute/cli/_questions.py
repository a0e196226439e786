"""Questions of a scan as lines of the file and commands to type, and the answers in a command."""

import re
import shlex

import numpy as np

from unpermute.cli._options import split_names
from unpermute.files import TableError, check_columns, split_suffix

__all__ = ["ask", "read_answers"]


def ask(questions, table, options, lines):
    """Return the questions of a summary with lines of the file and a command for either answer.

    Parameters
    ----------
    questions : list of dict
        ``summary["questions"]``.
    table : str
        Path of the table.
    options : list of str
        Options of the present command.
    lines : function of a list of int
        Lines of the file where rows start.

    Returns
    -------
    list of dict
        With ``columns``, ``share``, ``sentence`` and two ``readings``, each with ``if`` (what may
        be right) and ``command`` (what to type then).
    """
    return [_asked(question, table, options, lines) for question in questions]


def _asked(question, table, options, lines):
    names, share = question["columns"], question["share"]
    if question["first_row"] is None:
        first = [int(lines([each["row"]])[0]) for each in question["examples"]]
        where = f"in {share:.0%} of the lines, scattered over the file,"
        conditions = [
            f"line {line:,} is right ({_pairs(names, each['values'])})"
            for line, each in zip(first, question["examples"], strict=True)
        ]
    else:
        low, high = lines([question["first_row"], question["last_row"]])
        where = f"between line {low:,} and line {high:,} ({share:.0%} of the table)"
        both = " and ".join(names)
        conditions = [f"{both} are exchanged in {which} lines" for which in ("these", "the other")]
    sentence = (
        f"{' and '.join(names)} seem to be exchanged {where} compared with the other lines."
        " The table does not tell which of the two is right, so nothing was changed there."
    )
    stem, *suffixes = split_suffix(table) if table != "-" else ("table", ".csv")
    readings = []
    for condition, reading in zip(conditions, question["readings"], strict=True):
        words = ["unpermute", "repair", table, *options]
        for exchange in reading["exchange"]:
            words += ["--exchange", _answer(exchange, lines)]
        words += ["-o", f"{stem}.repaired{''.join(suffixes)}"]
        readings.append({"if": condition, "command": shlex.join(words)})
    return {"columns": names, "share": share, "sentence": sentence, "readings": readings}


def _pairs(names, values):
    parts = zip(names, values, strict=True)
    return ", ".join(f"{name}: {'(empty)' if v is None else v}" for name, v in parts)


def _answer(exchange, lines):
    """An exchange as the option says it."""
    a, b, *rows = exchange
    quoted = ",".join(f'"{name}"' if "," in name else name for name in (a, b))
    numbers = [str(line) for line in lines(rows)]
    return f"{quoted}:{'-'.join(numbers)}" if len(rows) == 2 else f"{quoted}:unlike-{numbers[0]}"


def read_answers(texts, source):
    """Return what ``--exchange`` says by lines of the file, by rows.

    ``a,b:100-200`` is a run of lines, ``a,b:unlike-7`` all lines that are unlike line 7.
    """
    if texts is None:
        return None
    lines = source.lines(source.frame_rows)
    found = []
    for text in texts:
        match = re.fullmatch(r"(.+):(unlike-)?(\d+)(?:-(\d+))?", text)
        names = (split_names([match[1]]) or []) if match else []
        if match is None or len(names) != 2 or bool(match[2]) == bool(match[4]):
            raise TableError(
                f"--exchange {text!r} must name two columns and two lines, as in a,b:100-200, or"
                " two columns and a line in which they are right, as in a,b:unlike-7."
            )
        check_columns(names, source)
        first = np.searchsorted(lines, int(match[3]))
        stop = np.searchsorted(lines, int(match[4] or match[3]), side="right")
        if first >= stop:
            raise TableError(f"--exchange {text!r}: {source.name} has no records on these lines.")
        rows = (int(first),) if match[2] else (int(first), int(stop) - 1)
        found.append((*names, *rows))
    return found
