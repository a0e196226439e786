"""Print how long the examples took when the documentation was built, the slowest ones by name.

python docs/list_times.py docs
"""

import json
import sys
from pathlib import Path

# Seconds that an example may take.
LIMIT = 10


def read_times(root):
    """Return the seconds of every example by its name, the slowest first."""
    files = [*root.glob("gallery/**/*.cost.json"), *root.glob("tutorials/**/*.cost.json")]
    times = {path.name.partition(".")[0]: json.loads(path.read_text())["time"] for path in files}
    return dict(sorted(times.items(), key=lambda item: -item[1]))


def describe(times):
    """Return a sentence about the times, with the names of all that take too long."""
    slow = [f"{name} ({seconds:.0f} s)" for name, seconds in times.items() if seconds > LIMIT]
    told = f"{len(times)} example{'s' * (len(times) != 1)} in {sum(times.values()):.0f} s"
    if slow:
        return f"{told}; longer than {LIMIT} s of wall time: {', '.join(slow)}"
    name, seconds = next(iter(times.items()), ("none", 0.0))
    return f"{told}; the slowest, {name}, took {seconds:.1f} s"


if __name__ == "__main__":
    print(describe(read_times(Path(sys.argv[1]))))
