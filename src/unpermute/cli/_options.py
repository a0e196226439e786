"""Options that several commands share, in groups, each defined once.

A command asks for a group by its type; :func:`with_options` turns the fields of the group into
options of the command. Only typer is imported here, so that ``--help`` answers at once.
"""

import csv
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum, StrEnum
from typing import Annotated, Any, get_type_hints

import typer

__all__ = [
    "Choice",
    "Force",
    "Json",
    "Learning",
    "Reading",
    "Scale",
    "TablePath",
    "TablePaths",
    "Vectors",
    "given",
    "refuse_zero",
    "split_names",
    "with_options",
]

_READING = "Reading the table"
_CHOICE = "What to look at"
_LEARNING = "How to decide"
_SCALE = "Tables larger than memory"


class Vectors(StrEnum):
    """What is shuffled: the values of a record, or the rows of a column."""

    rows = "rows"
    columns = "columns"


class Format(StrEnum):
    """Formats of files."""

    csv = "csv"
    tsv = "tsv"
    parquet = "parquet"
    arrow = "arrow"
    npy = "npy"
    jsonl = "jsonl"
    json = "json"
    xlsx = "xlsx"


TablePath = Annotated[
    str, typer.Argument(metavar="TABLE", help="Table to read; - reads CSV from standard input.")
]
TablePaths = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="Table to read; - reads CSV from standard input. A folder or a quoted pattern, such as"
        " 'data/*.parquet', names the Parquet or CSV files of one table.",
    ),
]
# An empty metavar, because a switch takes no value.
Json = Annotated[
    bool,
    typer.Option("--json", metavar="", help="Print one JSON object for programs instead of text."),
]
Force = Annotated[bool, typer.Option("--force", metavar="", help="Replace files that exist.")]


def refuse_zero(jobs: int | None) -> int | None:
    """Refuse 0 jobs."""
    if jobs == 0:
        raise typer.BadParameter("0 is not allowed: give 1 or more, or -1 for one per core.")
    return jobs


def _option(*names: str, panel: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)


@dataclass(frozen=True)
class Reading:
    """How files are read."""

    format: Annotated[
        Format | None,
        _option(panel=_READING, help="Format of the file (default: by its extension)."),
    ] = None
    delimiter: Annotated[
        str | None,
        _option(
            panel=_READING,
            metavar="CHAR",
            help="Field delimiter; tab for tabs (default: detected).",
        ),
    ] = None
    decimal: Annotated[
        str | None,
        _option(
            panel=_READING,
            metavar="CHAR",
            help="Decimal mark, a point or a comma (default: detected in each column).",
        ),
    ] = None
    thousands: Annotated[
        str | None,
        _option(
            panel=_READING,
            metavar="CHAR",
            help="Thousands separator (default: detected).",
        ),
    ] = None
    encoding: Annotated[
        str,
        _option(
            panel=_READING, metavar="NAME", help="Text encoding, such as utf-8, latin-1 or utf-16."
        ),
    ] = "utf-8"
    na: Annotated[
        list[str] | None,
        _option(
            panel=_READING,
            metavar="TEXTS",
            help="Texts that stand for a missing value, besides an empty cell (default: NA, N/A,"
            " NaN, null and the like).",
        ),
    ] = None
    sheet: Annotated[
        str | None,
        _option(
            panel=_READING,
            metavar="NAME",
            help="Sheet of a workbook, by name or number (default: the first).",
        ),
    ] = None
    skip_lines: Annotated[
        int | None,
        _option(
            panel=_READING,
            metavar="N",
            min=0,
            help="Number of lines to skip before the header (default: detected).",
        ),
    ] = None
    no_header: Annotated[
        bool,
        _option(
            "--no-header",
            panel=_READING,
            metavar="",
            help="The file has no header: columns are called 0, 1, 2, ….",
        ),
    ] = False


@dataclass(frozen=True)
class Choice:
    """What to look at."""

    vectors: Annotated[
        Vectors,
        _option(
            panel=_CHOICE,
            help="What to look for. rows: records with values in the wrong columns. columns:"
            " columns whose rows were shuffled.",
        ),
    ] = Vectors.rows
    id: Annotated[
        str | None,
        _option(
            panel=_CHOICE,
            metavar="COL",
            help="Column that identifies the records; it is never changed.",
        ),
    ] = None
    columns: Annotated[
        list[str] | None,
        _option(
            panel=_CHOICE,
            metavar="A,B",
            help="Columns to use (default: all; for --vectors columns, all numeric ones).",
        ),
    ] = None
    exclude: Annotated[
        list[str] | None,
        _option(panel=_CHOICE, metavar="A,B", help="Columns to leave out."),
    ] = None
    kind: Annotated[
        list[str] | None,
        _option(
            panel=_CHOICE,
            metavar="COL=KIND",
            help="For rows: treat a column as number, date, category, text or identifier, or ignore"
            " it (default: detected).",
        ),
    ] = None
    exchange: Annotated[
        list[str] | None,
        _option(
            panel=_CHOICE,
            metavar="A,B:LINES",
            help="For rows: answer a question of an earlier run. Columns A and B are exchanged in a"
            " range of lines (a,b:100-200), or in all lines unlike line 7, which is right"
            " (a,b:unlike-7).",
        ),
    ] = None
    blocks: Annotated[
        str | None,
        _option(
            panel=_CHOICE,
            metavar="COL",
            help="For columns: values moved only between rows that are equal in this column.",
        ),
    ] = None
    groups: Annotated[
        str | None,
        _option(
            panel=_CHOICE,
            metavar="COL|auto|A,B;C,D",
            help="What was shuffled together. For rows: a column that names the source of each"
            " record. For columns: lists of columns, or auto to find them.",
        ),
    ] = None
    reference: Annotated[
        str | None,
        _option(
            panel=_CHOICE,
            metavar="CLEAN",
            help="For rows: learn from this clean table with the same columns.",
        ),
    ] = None


@dataclass(frozen=True)
class Learning:
    """How to decide."""

    n_subspaces: Annotated[
        int | None,
        _option(
            panel=_LEARNING,
            metavar="N",
            min=1,
            help="For columns: number of subspaces (default: estimated).",
        ),
    ] = None
    rank: Annotated[
        int | None,
        _option(
            panel=_LEARNING,
            metavar="N",
            min=1,
            help="Number of latent factors (default: estimated).",
        ),
    ] = None
    min_confidence: Annotated[
        float,
        _option(
            panel=_LEARNING,
            metavar="P",
            min=0.0,
            max=1.0,
            help="Minimum confidence; less certain repairs are proposed but not applied.",
        ),
    ] = 0.95
    max_moves: Annotated[
        int | None,
        _option(
            panel=_LEARNING,
            metavar="N",
            min=2,
            help="Maximum number of cells to move in one record or column (default: no limit).",
        ),
    ] = None
    seed: Annotated[
        int, _option(panel=_LEARNING, metavar="N", min=0, max=2**32 - 1, help="Random seed.")
    ] = 0
    jobs: Annotated[
        int | None,
        _option(
            panel=_LEARNING,
            metavar="N",
            callback=refuse_zero,
            help="Number of threads, -1 for one per core; the result is the same with any number.",
        ),
    ] = None


@dataclass(frozen=True)
class Scale:
    """How a table that is larger than memory is worked on."""

    sample_size: Annotated[
        int | None,
        _option(
            panel=_SCALE,
            metavar="N",
            min=20,
            help="Number of records to learn from, drawn uniformly (default: 10,000). This and the"
            " options below judge the table piece by piece, with bounded memory; folders, patterns"
            " and files above 1 GB always are.",
        ),
    ] = None
    block_size: Annotated[
        int | None,
        _option(
            panel=_SCALE,
            metavar="N",
            min=1,
            help="Number of records to judge at once (default: 50,000); fewer take less memory. The"
            " result is the same with any number.",
        ),
    ] = None
    workers: Annotated[
        int | None,
        _option(panel=_SCALE, metavar="N", min=1, help="Start N Dask workers on this machine."),
    ] = None
    cluster: Annotated[
        str | None,
        _option(
            panel=_SCALE,
            metavar="ADDRESS",
            help="Use your Dask cluster: the address of its scheduler, such as tcp://host:8786. All"
            " workers must see the same files.",
        ),
    ] = None


def with_options(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the fields of the option groups it asks for as options of its own."""
    groups: dict[str, type] = {}
    parameters = []
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        kind = parameter.annotation
        if isinstance(kind, type) and is_dataclass(kind):
            groups[parameter.name] = kind
            parameters += list(_parameters_of(kind))
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(function)
    def command(**values):
        for name, group in groups.items():
            values[name] = group(**{each.name: values.pop(each.name) for each in fields(group)})
        function(**values)

    del command.__wrapped__  # typer would follow it to the signature with the groups
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


def _parameters_of(group: type) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for each in fields(group):
        yield inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if each.default is MISSING else each.default,
            annotation=hints[each.name],
        )


def given(*groups: Any) -> list[str]:
    """Return the options of groups that differ from their defaults, as words of a command."""
    words: list[str] = []
    for group in groups:
        for each in fields(group):
            value = getattr(group, each.name)
            if value == each.default:
                continue
            name = "--" + each.name.replace("_", "-")
            for one in value if isinstance(value, list) else [value]:
                text = one.value if isinstance(one, Enum) else str(one)
                words += [name] if one is True else [name, text]
    return words


def split_names(texts: Sequence[str] | None) -> list[str] | None:
    """Return names that are given several at once, with commas between them.

    Examples
    --------
    >>> from unpermute.cli._options import split_names
    >>> split_names(["a,b", '"c,d"'])
    ['a', 'b', 'c,d']
    """
    if texts is None:
        return None
    return [name.strip() for words in csv.reader(texts, skipinitialspace=True) for name in words]
