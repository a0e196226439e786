"""Sphinx extension: one short page per decision, made from ``docs/decisions.md``.

A decision is an item of the list under "Decisions" that begins in bold. Its date is that of the
oldest of its lines in the history of the file; without a history, pages carry no date.
"""

import re
import shutil
import subprocess
from datetime import UTC, datetime
from textwrap import dedent

__all__ = ["setup"]

_LONGEST_NAME = 60


def read_decisions(lines):
    """Yield title, text and line numbers (from 0) of every decision."""
    start = next(k for k, line in enumerate(lines) if line.strip() == "## Decisions")
    end = next(
        (k for k, line in enumerate(lines) if k > start and line.startswith("## ")), len(lines)
    )
    first = [k for k in range(start, end) if lines[k].startswith("- **")]
    for k, after in zip(first, [*first[1:], end], strict=True):
        text = lines[k][2:] + "\n" + dedent("\n".join(lines[k + 1 : after]))
        title = re.match(r"\*\*(.+?)\*\*", text, re.DOTALL)[1]
        yield " ".join(title.split()).rstrip(".:,"), text.strip(), range(k, after)


def read_dates(path):
    """Return the date of every line by the history, or nothing where there is none."""
    command = ["git", "blame", "--line-porcelain", "--", path.name]
    try:
        done = subprocess.run(command, cwd=path.parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    times = re.findall(r"^author-time (\d+)$", done.stdout, re.MULTILINE)
    return [datetime.fromtimestamp(int(time), UTC).date().isoformat() for time in times]


def write_pages(source, folder):
    """Write a page per decision and their index."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lines, dates = source.read_text(encoding="utf-8").splitlines(), read_dates(source)
    rows, names = [], []
    for title, text, own in read_decisions(lines):
        date = min(dates[own.start : own.stop], default="")
        stem = re.sub(r"\W+", "-", title.lower()).strip("-")[:_LONGEST_NAME].strip("-")
        name = stem if stem not in names else f"{stem}-{len(names)}"
        names.append(name)
        dated = f"*{date}*\n\n" if date else ""
        text = re.sub(r"\]\(([\w-]+\.md)", r"](../../\1", text)  # two folders below the source
        page = f"# {title}\n\n{dated}{text}\n"
        (folder / f"{name}.md").write_text(page, encoding="utf-8")
        rows.append(f"| {date} | [{title}]({name}.md) |")
    toctree = "\n".join(["```{toctree}", ":hidden:", "", *names, "```"])
    index = (
        "# Decisions\n\nWhy things are as they are, one short page each. [One page with all of"
        " them](../../decisions.md) also lists what is open.\n\n"
        "| date | decision |\n| --- | --- |\n" + "\n".join(rows) + f"\n\n{toctree}\n"
    )
    (folder / "index.md").write_text(index, encoding="utf-8")


def setup(app):
    """Register the extension."""
    app.connect(
        "builder-inited",
        lambda app: write_pages(
            app.srcdir / "decisions.md", app.srcdir / "contributing" / "decisions"
        ),
    )
    return {"parallel_read_safe": True}
