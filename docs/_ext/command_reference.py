"""Sphinx extension: the directive ``command-reference NAME`` lists the options of a command.

The texts come from the command itself, so the page says what ``--help`` says.
"""

from collections import defaultdict
from enum import Enum

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from typer.core import TyperArgument
from typer.main import get_command

from unpermute.cli._app import app as typer_app

__all__ = ["setup"]


class CommandReference(Directive):
    """Usage, description and options of one command, on a page written in Markdown."""

    required_arguments = 1

    def run(self):
        """Return the nodes of the description."""
        name = self.arguments[0]
        command = get_command(typer_app).commands[name]
        lines = StringList(list(_described(name, command)), source=f"unpermute {name} --help")
        parent = nodes.container()
        self.state.nested_parse(lines, 0, parent)
        return parent.children


def _described(name, command):
    arguments = [each for each in command.params if isinstance(each, TyperArgument)]
    options = [each for each in command.params if not isinstance(each, TyperArgument)]
    words = " ".join(
        (each.metavar if each.required else f"[{each.metavar}]") + "..." * (each.nargs == -1)
        for each in arguments
    )
    text, _, rest = command.help.partition("Examples:")
    examples = [
        line.strip() for line in rest.splitlines() if line.startswith(" ") or "    " in line
    ]
    yield from ("```text", f"unpermute {name} {words} [OPTIONS]".replace("  ", " "), "```", "")
    yield from (*(line.strip() for line in text.strip().splitlines()), "")
    if examples:
        yield from ("```console", *(f"$ {line}" for line in examples if line), "```", "")
    for each in arguments:
        yield from (f"`{each.metavar}`", f": {each.help}", "")
    panels = defaultdict(list)
    for option in options:
        panels[option.rich_help_panel or "Options"].append(option)
    for panel, members in panels.items():
        yield from (f"**{panel}**", "")
        for option in members:
            yield from _listed(option)


def _listed(option):
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    kind = option.type_descriptor.annotation
    values = option.metavar or ""
    if isinstance(kind, type) and issubclass(kind, Enum):
        values = "|".join(each.value for each in kind)
    default = option.default.value if isinstance(option.default, Enum) else option.default
    told = "" if default in (None, False) or option.is_flag else f" Default: `{default}`."
    yield from (f"{names} {f'`{values}`' if values else ''}".strip(), f": {option.help}{told}", "")


def setup(app):
    """Register the directive."""
    app.add_directive("command-reference", CommandReference)
    return {"parallel_read_safe": True}
