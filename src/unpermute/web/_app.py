"""The pages: a request in, a page out. A change is a POST to the address of the page it shows."""

import asyncio
import hashlib
import json
import os
from importlib.resources import files
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from unpermute._words import counted
from unpermute.files import TableError
from unpermute.records import KINDS
from unpermute.report import share_text, style_sheet, sure_text
from unpermute.web import _questions as questions
from unpermute.web._forms import column_command, read_form, read_number, read_options, read_order
from unpermute.web._guard import Guard
from unpermute.web._orders import STAYS
from unpermute.web._records import SORTS, Filter
from unpermute.web._results import RESULTS, read_answers, take_answers
from unpermute.web._views import detail, history, list_page, some_lines
from unpermute.web._workbench import Workbench

__all__ = ["make_app"]

_STATIC = {
    "htmx.min.js": "text/javascript",
    "workbench.js": "text/javascript",
    "workbench.css": "text/css",
    "icon.svg": "image/svg+xml",
}
# The address of such a file changes with its content.
_FOR_EVER = {"cache-control": "private, max-age=31536000, immutable"}
# Seconds between looks at whether tabs have something to hear, and between signs of life.
_LOOK, _ALIVE = 0.2, 15.0
_SAID = {
    "accept": "accepted",
    "reject": "rejected: stays as it is",
    "owner": "marked for its owner",
    "open": "open again",
}
_PREVIEWED = 8


def make_app(bench: Workbench, *, port: int, token: str) -> Guard:
    """Return the application that a server runs."""
    pages = Pages(bench)
    routes = [
        Route("/", pages.start),
        Route("/open", pages.open, methods=["GET", "POST"]),
        Route("/columns", pages.columns, methods=["GET", "POST"]),
        Route("/progress", pages.progress, methods=["GET", "POST"]),
        Route("/events", pages.events),
        Route("/summary", pages.summary),
        Route("/questions", pages.questions, methods=["GET", "POST"]),
        Route("/records", pages.records, methods=["GET", "POST"]),
        Route("/records/{row:int}", pages.record, methods=["GET", "POST"]),
        Route("/bulk", pages.bulk),
        Route("/history", pages.history, methods=["GET", "POST"]),
        Route("/results", pages.results, methods=["GET", "POST"]),
        Route("/results/{what}", pages.download),
        Route("/static/{name}", pages.static),
    ]
    handlers = {ValueError: pages.refused, 404: pages.not_found, 405: pages.not_found}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), port=port, token=token)


class Pages:
    """The pages of a workbench."""

    def __init__(self, bench: Workbench):
        self._bench = bench
        self._templates = Environment(
            loader=PackageLoader("unpermute.web", "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._assets = {name: _asset(name) for name in _STATIC}
        addresses = {
            name: f"/static/{name}?{hashlib.sha256(content).hexdigest()[:16]}"
            for name, content in self._assets.items()
        }
        self._templates.globals |= {
            "assets": addresses, "counted": counted, "share": share_text, "sorts": SORTS,
            "sure": sure_text,
        }  # fmt: skip

    async def start(self, request: Request) -> Response:
        """Redirect to the page where the review stands."""
        return RedirectResponse(self._bench.where, 303)

    async def open(self, request: Request) -> Response:
        """Take a table that is dropped on the page."""
        if request.method == "POST":
            name, content = request.query_params.get("name", ""), await request.body()
            self._bench.open(await run_in_threadpool(self._bench.keep, name, content))
            return Response(status_code=204)
        self._bench.settle()
        return self._page("open.html.j2", folder=str(self._bench.folder))

    async def columns(self, request: Request) -> Response:
        """Show what the columns hold; take corrections, and begin the scan."""
        review = self._bench.opened()
        if request.method == "POST":
            review.choose(read_options(await read_form(request), review))
            self._bench.scan()
            return RedirectResponse("/progress", 303)
        head = review.frame.head(3)
        samples = {
            name: [str(v) for v in head[name].to_list() if v is not None] for name in head.columns
        }
        return self._page(
            "columns.html.j2", kinds=review.kinds, options=review.chosen, samples=samples,
            names=list(review.source.columns), allowed=KINDS, notes=review.source.notes,
            n_ragged=_n_ragged(review),
        )  # fmt: skip

    async def progress(self, request: Request) -> Response:
        """Show how far the work is; cancel it."""
        if request.method == "POST":
            self._bench.cancel()
        self._bench.settle()
        job = self._bench.job
        if job is None:
            return RedirectResponse(self._bench.where, 303)
        return self._page("progress.html.j2", job=job.title, now=job.progress())

    async def events(self, request: Request) -> Response:
        """Tell a tab what happens, as it happens."""
        return StreamingResponse(self._news(), media_type="text/event-stream")

    async def summary(self, request: Request) -> Response:
        """Show what was found."""
        review = self._scanned()
        asked = await run_in_threadpool(self._bench.questions)
        records = review.records
        by_cause = [
            (cause, int((records.cause == k).sum())) for k, cause in enumerate(records.causes)
        ]
        by_cause.sort(key=lambda each: -each[1])
        return self._page(
            "summary.html.j2", summary=review.result.summary, causes=by_cause, asked=len(asked),
            n_sure=int(records.sure.sum()), ragged=_n_ragged(review),
            shuffled=review.shuffled_columns,
        )  # fmt: skip

    async def questions(self, request: Request) -> Response:
        """Show exchanges of two columns in many rows; take answers."""
        review, message = self._scanned(), ""
        asked = await run_in_threadpool(self._bench.questions)
        if request.method == "POST":
            form = await read_form(request)
            if "undo" in form:
                review.undo(read_number(form["undo"]))
                message = "The answer was taken back."
            else:
                k = read_number(form.get("question", ""))
                if not 0 <= k < len(asked):
                    raise TableError("There is no such question.")
                questions.answer(review, asked[k], read_number(form.get("reading", "")))
                message = "Answered."
        in_force = questions.answers_in_force(review)
        return self._page(
            "questions.html.j2", message, asked=asked, in_force=in_force,
            shuffled=review.shuffled_columns, command=column_command(review),
        )  # fmt: skip

    async def records(self, request: Request) -> Response:
        """List suspicious records; decide about one of them, or about all that a filter finds."""
        review, wanted = self._scanned(), Filter.read(request.query_params)
        message = ""
        if request.method == "POST":
            form = await read_form(request)
            if "all" in form:
                n = review.decide_all(wanted, form.get("answer", ""), read_number(form["all"]))
                message = f"{counted(n, 'record')} {_SAID[form['answer']]}."
            else:
                message = self._decided(review, read_number(form.get("row", "")), form)
        page = list_page(review, wanted)
        records = review.records
        used = sorted({column for order in records.orders.known for column, _ in order})
        return self._page(
            "records.html.j2", message, page=page, wanted=wanted, causes=sorted(records.causes),
            columns=[review.source.columns[column] for column in used], named=review.options["id"],
        )  # fmt: skip

    async def record(self, request: Request) -> Response:
        """Show one record; decide about it."""
        review, wanted = self._scanned(), Filter.read(request.query_params)
        row, message = request.path_params["row"], ""
        if review.records.place(row) is None:
            raise TableError("This record is not on the list of suspicious ones.")
        if request.method == "POST":
            message = self._decided(review, row, await read_form(request))
        whole, profiles = "whole" in request.query_params, self._bench.profiles()
        shown = await run_in_threadpool(detail, review, row, wanted, profiles, whole=whole)
        return self._page("record.html.j2", message, record=shown, wanted=wanted, whole=whole)

    async def bulk(self, request: Request) -> Response:
        """Preview a decision about all records that a filter finds."""
        review, wanted = self._scanned(), Filter.read(request.query_params)
        rows, n_others = review.meant(wanted)
        records = review.records
        places = records.rows.searchsorted(rows)
        proposed = review.shown_orders(rows) != STAYS
        causes = [
            (cause, int((records.cause[places] == k).sum()))
            for k, cause in enumerate(records.causes)
        ]
        confidence = records.confidence[places[proposed]]
        return self._page(
            "bulk.html.j2", n=len(rows), n_proposed=int(proposed.sum()), n_others=n_others,
            wanted=wanted,
            causes=[each for each in causes if each[1]],
            lowest=float(confidence.min()) if len(confidence) else 0.0,
            wrong=float((1 - confidence).sum()),
            lines=some_lines(review, rows[:: max(1, len(rows) // _PREVIEWED)][:_PREVIEWED]),
        )  # fmt: skip

    async def history(self, request: Request) -> Response:
        """Show every decision; undo one, or put it into force again."""
        review, message = self._scanned(), ""
        if request.method == "POST":
            form = await read_form(request)
            entry = read_number(form.get("entry", ""))
            (review.redo if form.get("do") == "redo" else review.undo)(entry)
            message = "Done again." if form.get("do") == "redo" else "Undone."
        page = read_number(request.query_params.get("page", "1"))
        entries, n_pages = history(review, max(1, page))
        return self._page("history.html.j2", message, entries=entries, page=page, n_pages=n_pages,
                          journal=review.journal.path.name)  # fmt: skip

    async def results(self, request: Request) -> Response:
        """Offer the results; read answers of owners."""
        review, message = self._scanned(), ""
        if request.method == "POST":
            name = request.query_params.get("name", "answers.csv")
            answers = await run_in_threadpool(read_answers, review, name, await request.body())
            take_answers(review, answers, os.path.basename(name))
            message = (
                f"Read back: {len(answers.accept):,} accepted, {len(answers.reject):,} rejected,"
                f" {answers.n_empty:,} without an answer,"
                f" {counted(len(answers.remarks), 'remark')}."
            )
        return self._page("results.html.j2", message)

    async def download(self, request: Request) -> Response:
        """Send a result as a file."""
        review = self._scanned()
        review.journal.refuse_changed_table()
        make = RESULTS.get(request.path_params["what"])
        if make is None:
            return await self.not_found(request, None)
        # What is decided is read here, where nothing else can be decided meanwhile; then all of the
        # file is made before it is sent, because a refusal must be a page, not half a file.
        made = make(review)
        body = b"".join(await run_in_threadpool(list, made.pieces))
        disposition = f"attachment; filename*=UTF-8''{quote(made.name)}"
        return Response(body, media_type=made.kind, headers={"content-disposition": disposition})

    async def static(self, request: Request) -> Response:
        """Send a style sheet or a script."""
        name = request.path_params["name"]
        if name not in _STATIC:
            return await self.not_found(request, None)
        return Response(self._assets[name], media_type=_STATIC[name], headers=_FOR_EVER)

    async def refused(self, request: Request, error: Exception) -> Response:
        """Say in a sentence why something was not done."""
        return self._page(
            "refused.html.j2",
            title="This was not done",
            sentence=str(error),
            back=self._bench.where,
            status=409,
        )

    async def not_found(self, request: Request, error: Exception | None) -> Response:
        """Say that there is no such page."""
        return self._page(
            "refused.html.j2",
            title="Page not found",
            sentence="There is no such page.",
            back="/",
            status=404,
        )

    def _decided(self, review, row, form):
        """Do what a form about one record says, and return what was done in words."""
        if review.records.place(row) is None:
            raise TableError("This record is not on the list of suspicious ones.")
        line = f"Line {review.line(row):,}"
        answer = form.get("answer", "")
        if answer == "undo":
            review.undo_for(row)
            return f"{line}: undone."
        if answer == "note":
            review.note(row, form.get("note", ""))
            return f"{line}: note kept."
        order = read_order(review, form["order"]) if form.get("order") else None
        seen = read_number(form["seen"]) if form.get("seen") else None
        review.decide([row], answer, order=order, seen=seen)
        return f"{line}: {_SAID[answer]}."

    def _scanned(self):
        self._bench.settle()
        review = self._bench.opened()
        if not review.is_scanned:
            raise TableError("The table has not been scanned yet.")
        return review

    async def _news(self):
        """Yield events while a tab listens."""
        told, quiet = None, 0.0
        while not self._bench.is_ending:
            self._bench.settle()
            job, version = self._bench.job, self._bench.version
            if job is not None:
                yield f"event: progress\ndata: {json.dumps(job.progress())}\n\n"
                told = None  # its end is news, even if nothing came of it
            elif version != told:
                yield f"event: changed\ndata: {version}\n\n"
                told, quiet = version, 0.0
            elif quiet > _ALIVE:
                yield ": alive\n\n"
                quiet = 0.0
            await asyncio.sleep(_LOOK)
            quiet += _LOOK

    def _page(self, template, message="", *, status=200, **values):
        bench = self._bench
        review = bench.review
        shared = {
            "message": message,
            "version": bench.version,
            "problem": bench.problem,
            "notice": bench.notice,
            "table": os.path.basename(review.path) if review else "",
            "counts": review.counts() if review is not None and review.is_scanned else None,
            "path": template.split(".")[0],
        }
        page = self._templates.get_template(template).render(**shared, **values)
        return HTMLResponse(page, status)


def _asset(name):
    """Return a style sheet or a script; the workbench builds on the report's style sheet."""
    content = (files("unpermute.web") / "static" / name).read_bytes()
    return style_sheet().encode() + content if name == "workbench.css" else content


def _n_ragged(review):
    """Number of lines with another number of fields than the header."""
    return review.source.n_rows - len(review.source.frame_rows)
