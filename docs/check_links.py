"""Check that every internal link of the built pages leads to a file and to an anchor in it.

python docs/check_links.py docs/_build/html
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """Collects links and anchors."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        """Take note of a tag."""
        found = dict(attributes)
        self.anchors |= {found[name] for name in ("id", "name") if found.get(name)}
        for name in ("href", "src"):
            if found.get(name):
                self.links.append(found[name])


def find_dead_links(root):
    """Yield the page and the link of everything that leads nowhere."""
    # Templates of the theme are no pages.
    found = [path for path in sorted(root.rglob("*.html")) if "_static" not in path.parts]
    pages = {path: Page(path) for path in found}
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link.startswith("data:"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield path, link
            elif parts.fragment and target.suffix == ".html":
                anchors = pages[target].anchors if target in pages else set()
                if unquote(parts.fragment) not in anchors:
                    yield path, link


def main(folder):
    """Print dead links and fail if there are any."""
    root = Path(folder).resolve()
    dead = [f"{path.relative_to(root)}: {link}" for path, link in find_dead_links(root)]
    print("\n".join(dead) if dead else f"{len(list(root.rglob('*.html')))} pages, no dead link")
    sys.exit(bool(dead))


if __name__ == "__main__":
    main(sys.argv[1])
