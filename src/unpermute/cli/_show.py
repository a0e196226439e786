"""Results of tables on the screen and as JSON."""

import json
import math
import shlex
from types import SimpleNamespace
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from unpermute import __version__
from unpermute._shown import shown, shown_json
from unpermute._words import counted
from unpermute.files import split_suffix

__all__ = ["Screen", "as_json"]

# Number of records listed, and number of uncertain ones added to the list.
_SHOWN, _UNCERTAIN = 10, 5
# Cells shown of a record, and columns named in a sentence.
_CELLS, _NAMED = 4, 12
_STATUS_STYLES = {"recovered": "green", "uncertain": "yellow"}


def as_json(command: str, table: str, result, *, lines=None, **more) -> str:
    """Return one JSON object with everything a result holds; what is no number is null.

    `lines` gives the lines of the file where records start.
    """
    content: dict[str, Any] = {"version": __version__, "command": command, "table": table}
    if result is not None:
        content["summary"] = result.summary
        for name in ("vectors", "table"):
            if hasattr(result, name):
                content["measures" if name == "table" else name] = getattr(result, name).to_dicts()
        if lines is not None and "row" in result.vectors.columns:
            content["vectors"] = _with_lines(content["vectors"], lines)
        if hasattr(result, "advice"):
            content["advice"] = result.advice
    text = json.dumps(_plain(content | more), indent=2, ensure_ascii=False, allow_nan=False)
    return shown_json(text)


class Screen:
    """Prints results for people.

    Parameters
    ----------
    stderr : bool
        Whether to print there, because standard output is taken by a table.
    """

    def __init__(self, *, stderr: bool = False):
        self._console = Console(stderr=stderr, highlight=False)

    def assumed(self, notes: list[str]) -> None:
        """Show what was assumed about the file."""
        for note in notes:
            self._print(note, style="dim")

    def scanned(self, result, table: str, options: list[str], lines=None) -> None:
        """Show what a scan found, and how to go on; `lines` of the file where records start."""
        self._findings(result, lines)
        if not result.summary["n_suspicious"]:
            return
        if not result.summary["n_moved_cells"]:
            by_row = result.summary.get("vectors") == "rows"
            known = "A clean table to learn from (--reference)" if by_row else "Known --blocks"
            self._print(
                "\nNone of them can be repaired with enough confidence."
                f" {known}, or --groups, may help."
            )
            return
        stem, suffix = _stem(table)
        words = ["unpermute", "repair", table, *options]
        words += ["-o", f"{stem}.repaired{suffix}", "--changes", f"{stem}.changes.csv"]
        self._print("\nNothing was changed. To repair it:")
        self._command(words)

    def repaired(self, result, table: str, outputs, lines=None, n_mended: int = 0) -> None:
        """Show what a repair did, and how to go on; `lines` of the file where records start."""
        self._findings(result, lines)
        stem, suffix = _stem(table)
        if outputs.table is None:
            self._print("\nDry run: no table was written. -o FILE writes the repaired one.")
        elif outputs.table != "-":
            done = counted(result.summary["n_moved_cells"], "cell") + " moved"
            done += f" and {counted(n_mended, 'line')} mended" if n_mended else ""
            self._print(f"\n{outputs.table} is {table} with {done}, and nothing else.")
        for path, what in [
            (outputs.changes, "lists every moved cell, and the proposals that were not applied"),
            (outputs.report, "is the report, for a browser"),
            (outputs.model, "is the learned model, for --model"),
        ]:
            if path not in (None, "-"):
                self._print(f"{path} {what}.")
        if outputs.changes not in (None, "-") and result.summary["n_suspicious"]:
            words = ["unpermute", "apply", table, outputs.changes, "-o", f"{stem}.edited{suffix}"]
            self._print(
                f"To decide yourself, write yes or no in the column accept of {outputs.changes},"
                " then run:"
            )
            self._command(words)

    def in_pieces(self, result, table: str, outputs, *, repaired: bool) -> None:
        """Show what was found in a table that was judged piece by piece."""
        records = result.vectors
        if result.summary["n_files"] > 1:
            records = [row | {"vector": f"{row['vector']} ({row['file']})"} for row in records]
        self._findings(SimpleNamespace(summary=result.summary, vectors=_Listed(records)), None)
        if repaired and outputs.table is None:
            self._print("\nDry run: no table was written. -o writes the repaired one.")
        elif repaired:
            done = counted(result.summary["n_moved_cells"], "cell") + " moved"
            self._print(f"\n{outputs.table} is {table} with {done}, and nothing else.")
        for path, what in [
            (outputs.changes, "lists every moved cell, and the proposals that were not applied"),
            (outputs.model, "is the learned model, for --model"),
        ]:
            if path is not None:
                self._print(f"{path} {what}.")

    def asked(self, questions: list[dict]) -> None:
        """Show what a person has to decide, with the command for either answer."""
        for question in questions:
            self._print(f"\nA question: {question['sentence']}", style="yellow")
            for reading in question["readings"]:
                self._print(f"If {reading['if']}:")
                self._command(reading["command"])

    def ragged(self, lines, columns: list[str]) -> None:
        """Show lines that have another number of fields than the header."""
        if not lines:
            return
        mended = [line for line in lines if line.accepted]
        n_left = len(lines) - len(mended)
        left = f"{n_left:,} stays as it is" if n_left == 1 else f"{n_left:,} stay as they are"
        self._print(
            f"\n{counted(len(lines), 'line')} with another number of fields than the"
            f" {len(columns)} of the header: {len(mended):,} can be mended, {left}.",
            style="bold",
        )
        for line in sorted(lines, key=lambda line: line.accepted)[:_SHOWN]:
            self._print(f"  line {line.line.line}: {line.words(columns)}")
        if len(lines) > _SHOWN:
            more = "--json and --changes list all"
            self._print(f"… and {len(lines) - _SHOWN:,} more; {more}.", style="dim")

    def applied(self, moves, table: str, output: str | None, *, undo: bool) -> None:
        """Show what a list of changes did."""
        done = counted(len(moves), "cell") + (" moved back" if undo else " moved")
        if moves.edits:
            done += f" and {counted(len(moves.edits), 'line')} "
            done += "made irregular again" if undo else "made regular"
        if output is None:
            self._print(f"The list fits {table}: {done}. -o FILE writes the table.")
        elif output != "-":
            self._print(f"{output} is {table} with {done}, and nothing else.")

    def audited(self, result) -> None:
        """Show how much of a release can be undone."""
        self._print(result.summary["sentence"], style="bold")
        self._notes(result.summary)
        table = _plain_table()
        rows = result.table.to_dicts()
        table.add_column("measure")
        for name in ("value", "95% interval", "baseline", "control"):
            table.add_column(name, justify="right")
        for row in rows:
            low, high = _measure(row.get("low")), _measure(row.get("high"))
            interval = f"{low} – {high}" if low or high else ""
            value, *others = (_measure(row.get(name)) for name in ("value", "baseline", "control"))
            table.add_row(_text(row["measure"]), value, interval, *others)
        self._console.print()
        self._console.print(table)
        if result.advice:
            self._print("\nAdvice:")
            advice = Table.grid(padding=(0, 1))
            for each in result.advice:
                advice.add_row("-", _text(each))
            self._console.print(advice)

    def _findings(self, result, lines):
        summary = result.summary
        self._print(summary["sentence"], style="bold")
        structure = summary.get("structure") or {}
        if structure.get("weak") and structure["sentence"] not in summary["sentence"]:
            self._print(structure["sentence"], style="yellow")
        for sentence in _judged(summary.get("judged_columns") or []):
            self._print(sentence, style="dim")
        self._notes(summary)
        self._trials(summary.get("trials") or {})
        rows = result.vectors.to_dicts()
        if not rows:
            return
        # The most suspicious ones, and the first that a person has to decide about.
        left = [row for row in rows[_SHOWN:] if row["status"] == "uncertain"]
        first = rows[:_SHOWN] + left[:_UNCERTAIN]
        by_record = lines is not None and first[0].get("row") is not None
        first = _with_lines(first, lines) if by_record else first
        self._console.print()
        self._console.print(_vector_table(first))
        if by_record:
            self._proposals(result, first)
        if len(rows) > len(first):
            more = "--json and --changes list all" if by_record else "--json lists all"
            self._print(f"… and {len(rows) - len(first):,} more; {more}.", style="dim")

    def _trials(self, trials):
        """How good repairs were where the truth is known."""
        if trials.get("n"):
            self._print(
                f"Tried on {counted(trials['n'], 'record')} damaged on purpose:"
                f" {trials['n_changed']:,} would be changed, {trials['n_right']:,} of them"
                " correctly.",
                style="dim",
            )

    def _proposals(self, result, records):
        """Values now and proposed, and the evidence, of the records shown."""
        proposals = result.proposals
        self._print("\nProposed (value now → value proposed):", style="dim")
        for record in records:
            cells = proposals.filter(proposals["row"] == record["row"]).to_dicts()
            moves = [
                f"{c['column']}: {_cell(c['old'])} → {_cell(c['new'])}" for c in cells[:_CELLS]
            ]
            more = f"; and {len(cells) - _CELLS} more" if len(cells) > _CELLS else ""
            why = f" ({record['evidence']})" if record.get("evidence") else ""
            self._print(f"  line {record['line']}: {'; '.join(moves)}{more}{why}")

    def _notes(self, summary):
        for note in summary.get("notes") or []:
            self._print(note, style="dim")

    def _print(self, text, style=""):
        # A Text, because values of a table may look like markup.
        self._console.print(Text(shown(text), style=style))

    def _command(self, words):
        # One line however narrow the screen is, so that it can be copied.
        words = words if isinstance(words, str) else shlex.join(words)
        self._console.print(Text("  " + shown(words)), soft_wrap=True)


class _Listed(list):
    """Records as a data frame gives them."""

    def to_dicts(self):
        """Return the records."""
        return list(self)


def _plain_table():
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")


def _vector_table(rows):
    table = _plain_table()
    by_record = any(row.get("row") is not None for row in rows)
    number = "line" if "line" in rows[0] else "row"
    if by_record:
        table.add_column(number, justify="right")
    named = not by_record or any(str(row["vector"]) != str(row["row"]) for row in rows)
    if named:
        table.add_column("record" if by_record else "column", overflow="ellipsis", max_width=24)
    table.add_column("status")
    for name in ("damaged", "confidence", "moved"):
        table.add_column(name, justify="right")
    table.add_column("cause", overflow="fold")
    for row in rows:
        cells = [Text(str(row[number]))] if by_record else []
        cells += [_text(row["vector"])] if named else []
        cells.append(Text(str(row["status"]), style=_STATUS_STYLES.get(row["status"], "")))
        cells += [Text(_share(row.get("damaged"))), Text(_share(row.get("confidence")))]
        cells.append(Text(str(row.get("moved") or "")))
        table.add_row(*cells, _text(row.get("cause") or ""))
    return table


def _stem(table):
    if table == "-":
        return "table", ".csv"
    stem, *suffixes = split_suffix(table)
    return stem, "".join(suffixes)


def _with_lines(rows, lines):
    """Records with the line of the file where each starts."""
    numbers = lines([row["row"] for row in rows])
    return [{**row, "line": int(line)} for row, line in zip(rows, numbers, strict=True)]


def _judged(columns):
    """Sentences that say which columns were judged, as what, and which were not."""
    kinds: dict[str, list[str]] = {}
    for column in columns:
        kinds.setdefault(column["kind"] or "", []).append(column["column"])
    skipped = kinds.pop("", [])
    if kinds:
        parts = [f"{kind} ({_few(names)})" for kind, names in kinds.items()]
        yield f"Columns judged as {'; '.join(parts)}."
    if skipped:
        reasons = {each["column"]: each["not_judged"] for each in columns}
        named = [f"{name} ({reasons[name]})" for name in skipped]
        yield f"Not judged: {_few(named)}."


def _few(names):
    more = f", and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _cell(text):
    return "(empty)" if text is None else text.replace("\n", "\\n")


def _text(value):
    return Text(shown(str(value)).replace("\n", "\\n"))


def _share(value):
    # Rounded down: 1.000 would promise more than 0.9999 does.
    return "" if _is_missing(value) else f"{math.floor(value * 1000 + 1e-9) / 1000:.3f}"


def _measure(value):
    return "" if _is_missing(value) else f"{value:.3f}"


def _is_missing(value):
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def _plain(value):
    """Return a value that JSON can hold."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
