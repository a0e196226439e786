"""Options of `scan` and `repair`: checked once, each refusal in one sentence."""

from numbers import Integral, Real

from unpermute.records import KINDS
from unpermute.table._numbers import check_names

__all__ = ["check_options", "listed_names"]


def listed_names(names, option):
    """Names of columns as a list without repetitions."""
    if names is None:
        return None
    names = [names] if isinstance(names, str) else list(dict.fromkeys(names))
    if not names and option == "columns":
        raise ValueError("columns=[] leaves nothing to look at; name some, or leave it out.")
    return names


def check_options(options, frame):
    """Refuse invalid options, each in one sentence."""
    if options["vectors"] not in ("rows", "columns"):
        raise ValueError(f"vectors={options['vectors']!r} must be 'rows' or 'columns'.")
    by_row = options["vectors"] == "rows"
    for name in ("id", "blocks"):
        value = options[name]
        if value is not None and not isinstance(value, str):
            raise ValueError(f"{name}={value!r} must be the name of one column.")
    for name in ("id", "blocks", "columns", "exclude"):
        check_names(options[name], frame, name)
    _check_kinds(options["kinds"], frame)
    _check_groups(options["groups"], frame, by_row=by_row)
    for name in ("n_subspaces", "rank", "max_moves"):
        value = options[name]
        if value is not None and (not isinstance(value, Integral) or value < 1):
            raise ValueError(f"{name}={value!r} must be None or an integer of at least 1.")
    value = options["min_confidence"]
    if not isinstance(value, Real) or not 0 <= float(value) <= 1:
        raise ValueError(f"min_confidence={value!r} must be a number from 0 to 1.")
    _refuse_foreign(options, by_row=by_row)


def _check_kinds(kinds, frame):
    if kinds is None:
        return
    if not isinstance(kinds, dict):
        raise ValueError(f"kinds={kinds!r} must be a dict of columns and what they hold.")
    check_names(list(kinds), frame, "kinds")
    for name, kind in kinds.items():
        if kind not in KINDS:
            allowed = ", ".join(map(repr, KINDS))
            raise ValueError(f"kinds: {name!r} is said to hold {kind!r}; allowed are {allowed}.")


def _check_groups(groups, frame, *, by_row):
    if by_row and groups is not None and not isinstance(groups, str):
        raise ValueError(f"groups={groups!r} must name one column for vectors='rows'.")
    if by_row:
        check_names(groups, frame, "groups")
    elif isinstance(groups, str) and groups != "auto":
        raise ValueError(
            f"groups={groups!r} must be 'auto' or lists of columns for vectors='columns'."
        )


def _refuse_foreign(options, *, by_row):
    """Refuse options of the other mode."""
    if by_row:
        for name in ("blocks", "n_subspaces"):
            if options[name] is not None:
                raise ValueError(
                    f"{name}={options[name]!r} is for vectors='columns'; leave it out."
                )
        return
    for name in ("reference", "model", "kinds", "exchange"):
        if options[name] is not None:
            raise ValueError(f"{name} is for vectors='rows'; leave it out.")
