"""The workbench: which table is open, what runs in the background, and where a person is."""

import os
from collections.abc import Callable
from pathlib import Path

from unpermute.files import OutputFiles, SourceTable, TableError, tells_format
from unpermute.web._job import Job
from unpermute.web._profiles import Profiles
from unpermute.web._questions import Question, questions_of
from unpermute.web._review import Review, open_review

__all__ = ["Workbench"]

_LONGEST_NAME = 200


class Workbench:
    """State behind the pages; everything happens in the server's one thread but for jobs.

    Parameters
    ----------
    open_table : function of a path
        Reads a table as the command was told to.
    folder : Path
        Where tables go that are dropped on the page.
    n_jobs : int or None
        Threads of a scan.

    Attributes
    ----------
    review : Review or None
        The table that is open.
    job : Job or None
        What runs in the background.
    problem : str
        Why the last job failed, in a sentence.
    notice : str
        Why the table that was opened is scanned again, in a sentence.
    is_ending : bool
        Whether the server ends, so that tabs should stop listening.
    """

    def __init__(
        self, open_table: Callable[[str], SourceTable], folder: Path, n_jobs: int | None = None
    ):
        self._open_table, self.folder, self._n_jobs = open_table, folder, n_jobs
        self.review: Review | None = None
        self.job: Job | None = None
        self.problem = self.notice = ""
        self.is_ending = False
        self._past = 0
        self._profiles: Profiles | None = None
        self._questions: list[Question] | None = None

    @property
    def where(self) -> str:
        """The page that a person belongs to."""
        self.settle()
        if self.job is not None:
            return "/progress"
        if self.review is None:
            return "/open"
        return "/summary" if self.review.is_scanned else "/columns"

    @property
    def version(self) -> int:
        """A number that grows whenever pages may have to be shown anew."""
        entries = self.review.journal.entries if self.review is not None else ()
        return self._past + len(entries)

    def open(self, path: str) -> None:
        """Begin to open a table."""
        self.close()
        title = f"Opening {os.path.basename(path)}"
        self._begin(Job(title, lambda: open_review(path, self._open_table, self._n_jobs)))

    def open_now(self, path: str) -> None:
        """Open a table and wait for it; what is wrong with it is said at once."""
        self.open(path)
        if self.job is not None:
            self.job.wait()
        self.settle()
        if self.problem:
            raise TableError(self.problem)

    def keep(self, name: str, content: bytes) -> str:
        """Write a table that was dropped on the page, and return its path."""
        name = name.replace("\\", "/").rsplit("/", 1)[-1]
        if not name or name.startswith(".") or len(name) > _LONGEST_NAME or not name.isprintable():
            raise TableError("The file needs a plain name, such as patients.csv.")
        if not tells_format(name):
            raise TableError(f"{name}: the extension does not tell the format of the table.")
        if not content:
            raise TableError(f"{name} is empty.")
        path = self.folder / name
        if path.exists():
            if not path.is_file() or path.read_bytes() != content:
                raise TableError(
                    f"There is another file called {name} in {self.folder}; rename one of them."
                )
        else:
            with OutputFiles(force=False) as files:
                files.plan(str(path))
                files.write(str(path), [content])
                files.commit()
        return str(path)

    def scan(self) -> None:
        """Begin to look for suspicious records."""
        review = self.opened()
        review.journal.refuse_changed_table()
        title = f"Looking for shuffled records in {os.path.basename(review.path)}"
        self._begin(Job(title, review.scan))

    def cancel(self) -> None:
        """Stop what runs in the background."""
        if self.job is None:
            return
        self.job.cancel()
        # A scan stops at its next step, and nobody has to wait for that: its result is not taken. A
        # table that is being opened has a journal to close.
        if self.review is not None:
            self.job = None

    def settle(self) -> None:
        """Take what a finished job has made."""
        job = self.job
        if job is None or job.running:
            return
        self.job = None
        if job.error is not None:
            self.problem = _sentence(job.error)
        elif isinstance(job.result, Review):
            self.review = job.result
            if self.review.was_scanned and not self.review.is_scanned:
                self.scan()
                self.notice = f"The table is scanned again: {self.review.why_again}."
        elif job.result is not None:
            self._profiles = self._questions = None
            try:
                self.opened().take(job.result)
            except TableError as error:
                self.problem = str(error)

    def opened(self) -> Review:
        """Return the table that is open, or say that there is none."""
        if self.review is None:
            raise TableError("No table is open.")
        return self.review

    def profiles(self) -> Profiles:
        """Return how the values of every column are distributed."""
        if self._profiles is None:
            review = self.opened()
            # A column of several kinds is read cell by cell.
            kinds = {
                name: "" if kind == "mixed" else kind for name, kind in review.judged().items()
            }
            self._profiles = Profiles(review.whole_records(), kinds)
        return self._profiles

    def questions(self) -> list[Question]:
        """Return exchanges of two columns in many rows."""
        if self._questions is None:
            self._questions = questions_of(self.opened())
        return self._questions

    def close(self) -> None:
        """Let go of the table."""
        if self.job is not None:
            self.job.cancel()
        if self.review is not None:
            self._past = self.version + 1
            self.review.journal.close()
        self.review = self.job = self._profiles = self._questions = None
        self.problem = self.notice = ""

    def _begin(self, job):
        if self.job is not None:
            self.job.cancel()
        self.problem, self.notice, self.job = "", "", job
        job.start()


def _sentence(error):
    if isinstance(error, MemoryError):
        return "There is not enough memory for this table."
    if isinstance(error, ValueError):
        return " ".join(str(error).split())
    return f"Something went wrong inside unpermute ({type(error).__name__}); nothing was changed."
