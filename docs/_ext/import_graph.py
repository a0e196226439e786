"""Sphinx extension: the directive ``import-graph`` draws which package imports which.

The picture is made from the sources at every build. An arrow that follows from others (a uses b, b
uses c, so a may use c) is left out.
"""

import ast
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive

import unpermute

__all__ = ["setup"]

ROOT = Path(unpermute.__file__).parent
_WIDTH, _ROW, _BOX, _HEIGHT = 760, 74, 92, 30


def read_imports(root=ROOT):
    """Return the packages that every package imports, by name, inside functions too."""
    graph = {}
    for path in sorted(root.rglob("*.py")):
        own = path.relative_to(root).with_suffix("").parts[0]
        if own.startswith("_"):
            continue
        used = graph.setdefault(own, set())
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("unpermute"):
                dotted = (
                    [node.module]
                    if "." in node.module
                    else [f"unpermute.{alias.name}" for alias in node.names]
                )
                names = {name.split(".")[1] for name in dotted}
                used |= {"pmsdr" if name == "PMSDR" else name for name in names}
    return {own: {each for each in used if each in graph} - {own} for own, used in graph.items()}


def reduce_graph(graph):
    """Leave out imports that follow from others."""

    def reached(start):
        found, left = set(), list(graph[start])
        while left:
            name = left.pop()
            if name not in found:
                found.add(name)
                left += graph[name]
        return found

    return {
        own: {each for each in used if not any(each in reached(other) for other in used - {each})}
        for own, used in graph.items()
    }


def level_of(graph):
    """Return the level of every package: one above the highest that it imports."""
    levels = {}

    def level(name):
        if name not in levels:
            levels[name] = 1 + max((level(each) for each in graph[name]), default=-1)
        return levels[name]

    for name in graph:
        level(name)
    return levels


def draw(graph):
    """Return the graph as SVG, what is imported at the top, in the colours of the page."""
    levels = level_of(graph)
    rows = [sorted(n for n in graph if levels[n] == k) for k in range(max(levels.values()) + 1)]
    places = {}
    for k, names in enumerate(rows):
        for i, name in enumerate(names):
            places[name] = (
                (i + 0.5 + 0.12 * (k % 2)) * _WIDTH / (len(names) + 0.24),
                k * _ROW + 20,
            )
    parts = []
    for name, used in reduce_graph(graph).items():
        x, y = places[name]
        for each in sorted(used):
            a, b = places[each]
            parts.append(
                f'<path d="M{x:.0f} {y - 1:.0f}C{x:.0f} {y - 30:.0f} {a:.0f} {b + _HEIGHT + 30:.0f}'
                f' {a:.0f} {b + _HEIGHT:.0f}" fill="none" stroke="currentColor" opacity=".45"/>'
            )
    for name, (x, y) in places.items():
        parts.append(
            f'<rect x="{x - _BOX / 2:.0f}" y="{y:.0f}" width="{_BOX}" height="{_HEIGHT}" rx="6"'
            ' class="box"/>'
            f'<text x="{x:.0f}" y="{y + 20:.0f}" text-anchor="middle" fill="currentColor"'
            f' font-size="14">{name}</text>'
        )
    height = len(rows) * _ROW
    label = "Packages of unpermute; every line leads upwards to a package that is imported."
    return (
        f'<svg class="import-graph" viewBox="0 0 {_WIDTH} {height}" role="img"'
        f' aria-label="{label}">{"".join(parts)}</svg>'
    )


class ImportGraph(Directive):
    """The picture."""

    def run(self):
        """Return the picture as a node."""
        return [nodes.raw("", draw(read_imports()), format="html")]


def setup(app):
    """Register the directive."""
    app.add_directive("import-graph", ImportGraph)
    return {"parallel_read_safe": True}
