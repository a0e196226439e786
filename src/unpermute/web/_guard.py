"""Who may ask: a token, then a cookie; this host and this origin only; strict headers."""

import hmac
import logging
import secrets
import traceback
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Guard"]

logger = logging.getLogger("unpermute.web")

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_READS = ("GET", "HEAD")
# A page without a style sheet, which a stranger does not get. A tab that was open before a restart
# shows `view` in place of its own.
_REFUSAL = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title} · unpermute</title>
</head>
<body>
<div id="view">
<main id="main" tabindex="-1">
<h1>{title}</h1>
<p class="said empty"></p>
<p class="lead refusal" role="alert">{sentence}</p>
</main>
</div>
</body>
</html>
"""


class Guard:
    """Lets requests of one browser through to an application.

    Parameters
    ----------
    app : ASGIApp
        The pages.
    port : int
        Where the server listens on 127.0.0.1.
    token : str
        What the first address must hold.
    """

    def __init__(self, app: ASGIApp, *, port: int, token: str):
        self._app, self._token = app, token
        self._cookie, self._secret = f"unpermute-{port}", secrets.token_urlsafe(32)
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or have the pages answer it."""
        if scope["type"] != "http":
            return
        response = self._refused_or_welcomed(scope)
        if response is not None:
            await response(scope, receive, _with_headers(send))
            return
        await self._answer(scope, receive, _with_headers(send))

    async def _answer(self, scope, receive, send):
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            # The message of an error may quote a cell: the log has the place of it, and no more.
            logger.error("%s at %s", type(error).__name__, _place(error))
            if not begun:
                sentence = "Nothing was decided. The terminal says where the error is."
                await _refusal("Something went wrong", sentence, 500)(scope, receive, send)

    def _refused_or_welcomed(self, scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if host not in self._hosts:
            return _refusal("Refused", "This is not the address of the workbench.", 421)
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["path"] == "/" and scope["method"] in _READS and given:
            if not hmac.compare_digest(given.encode(), self._token.encode()):
                return _refusal("Refused", "The token is not that of the workbench.", 403)
            return self._welcome()
        if not hmac.compare_digest(self._cookie_of(headers).encode(), self._secret.encode()):
            sentence = (
                "Open the address that <code>unpermute review</code> printed, with the token."
            )
            return _refusal("Not signed in", sentence, 403)
        if scope["method"] not in _READS and headers.get("origin") != f"http://{host}":
            return _refusal("Refused", "Decide in the pages of the workbench itself.", 403)
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return _refusal("Refused", "Open the workbench in a tab of its own.", 403)
        return None

    def _welcome(self):
        response = RedirectResponse("/", 303)
        response.set_cookie(self._cookie, self._secret, httponly=True, samesite="strict", path="/")
        return response

    def _cookie_of(self, headers):
        return cookie_parser(headers.get("cookie", "")).get(self._cookie, "")


def _refusal(title, sentence, status):
    return HTMLResponse(_REFUSAL.format(title=title, sentence=sentence), status)


def _with_headers(send):
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending


def _place(error):
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{last.filename}:{last.lineno}"
