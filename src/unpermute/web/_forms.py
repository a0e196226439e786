"""What forms hold, read and checked; and the command that a page offers instead of a form."""

import json
import os
import shlex
from urllib.parse import parse_qsl

from unpermute.files import TableError, split_suffix
from unpermute.web._orders import EDITS

__all__ = ["column_command", "read_form", "read_number", "read_options", "read_order"]


async def read_form(request):
    """Return the fields of a form; the last one counts if a name occurs twice."""
    body = (await request.body()).decode("utf-8", "replace")
    return dict(parse_qsl(body, keep_blank_values=True))


def read_number(text):
    """Return a whole number that a form or an address holds."""
    if not (text.isascii() and text.isdecimal() and len(text) < 12):
        raise TableError(f"{text[:40]!r} is no number.")
    return int(text)


def read_order(review, text):
    """Return the number of an edited order: columns by place, and where their values come from."""
    n = len(review.source.columns)
    try:
        pairs = {int(a): int(b) for a, b in json.loads(text).items()}
    except (ValueError, AttributeError, TypeError):
        raise TableError("The edited order cannot be read.") from None
    is_edit = len(pairs) == 1 and set(pairs.values()) <= set(EDITS.values())
    closed = is_edit or sorted(pairs) == sorted(pairs.values())
    if not closed or not all(0 <= each < n for each in pairs):
        raise TableError("Values would be lost or doubled: every value needs one place.")
    return review.orders.number(pairs.items())


def read_options(form, review):
    """Return the options of a scan that a form holds."""
    kinds = {}
    for k, name in enumerate(review.source.columns):
        kind = form.get(f"kind-{k}", "")
        if kind:
            kinds[name] = kind
    try:
        least = float(form.get("min_confidence", "0.95"))
    except ValueError:
        raise TableError("The confidence must be a number.") from None
    return {
        "id": form.get("id") or None,
        "groups": form.get("groups") or None,
        "kinds": kinds,
        "min_confidence": least,
        "shuffled_columns": "shuffled_columns" in form,
    }


def column_command(review):
    """Return the command that puts rows of shuffled columns back."""
    table, options = os.path.basename(review.path), review.options
    stem, *suffixes = split_suffix(table)
    words = ["unpermute", "repair", table, "--vectors", "columns"]
    words += ["--id", options["id"]] if options["id"] else []
    for name, kind in options["kinds"].items():
        words += ["--exclude", name] if kind == "ignore" else []
    least = str(options["min_confidence"])
    words += ["--min-confidence", least, "-o", f"{stem}.repaired{''.join(suffixes)}"]
    return shlex.join(words)
