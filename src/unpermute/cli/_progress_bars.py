"""Progress bars on stderr for whatever the core reports."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import TaskID as BarID

from unpermute._progress import TITLES, Rounds, on_progress

__all__ = ["draw_progress"]


@contextmanager
def draw_progress(*, time_left: bool = False) -> Iterator[None]:
    """Draw one bar per stage while the block runs, if stderr is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    # Shares, not counts: a stage that runs once per subspace counts every vector several times.
    columns: list[ProgressColumn] = [
        TextColumn("{task.description:<26}"),
        BarColumn(bar_width=30),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    ]
    if time_left:
        columns += [TextColumn("left"), TimeRemainingColumn()]
    progress = Progress(*columns, console=console)
    with progress, on_progress(_bars(progress)), _compiling(progress):
        yield


@contextmanager
def _compiling(progress: Progress) -> Iterator[None]:
    """Draw a bar while kernels are compiled, as happens in the first run after installation."""
    from numba.core import event

    class Bar(event.Listener):
        bar_id: BarID | None = None
        depth = 0

        def on_start(self, event):
            self.depth += 1
            if self.bar_id is None:
                self.bar_id = progress.add_task("Compile, once", total=None)
            progress.update(self.bar_id, total=None)

        def on_end(self, event):
            self.depth -= 1
            if self.depth == 0 and self.bar_id is not None:
                progress.update(self.bar_id, completed=1, total=1)

    with event.install_listener("numba:compile", Bar()):
        yield


def _bars(progress: Progress) -> Callable[[str, int, int], None]:
    bars: dict[str, BarID] = {}
    rounds = Rounds()
    # Until the first report, so that the screen is not empty.
    waiting = progress.add_task("Get ready", total=None)

    def draw(stage: str, done: int, total: int) -> None:
        if not bars:
            progress.remove_task(waiting)
        if stage not in bars:
            bars[stage] = progress.add_task(TITLES.get(stage, stage.capitalize()))
        completed, known = rounds.add(stage, done, total)
        progress.update(bars[stage], completed=completed, total=known)

    return draw
