"""Texts of a table as a terminal may show them: no character of theirs commands it."""

import re

__all__ = ["shown", "shown_json"]

# Control characters but the line feed, which ends a line of ours; C1 controls, which some terminals
# obey; and marks that turn the direction of writing, so that a text reads as another.
_COMMANDS = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)


def shown(text: str) -> str:
    r"""Return a text with an escape for every character that would command a terminal.

    Examples
    --------
    >>> from unpermute._shown import shown
    >>> print(shown("red \x1b[31m"))
    red \x1b[31m
    """
    return _COMMANDS.sub(lambda match: _escape(match[0]), text)


def shown_json(text: str) -> str:
    """Return JSON with such characters, which stand in its texts only, escaped as JSON does."""
    return _COMMANDS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _escape(character):
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
