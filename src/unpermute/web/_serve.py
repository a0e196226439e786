"""Run the workbench on this machine until it is interrupted."""

import secrets
import socket
import webbrowser
from collections.abc import Callable
from pathlib import Path

import uvicorn

from unpermute.files import SourceTable, TableError
from unpermute.web._app import make_app
from unpermute.web._workbench import Workbench

__all__ = ["serve", "server_of"]


def serve(
    table: str | None,
    *,
    open_table: Callable[[str], SourceTable],
    say: Callable[[str], None],
    folder: str = ".",
    port: int = 0,
    browser: bool = True,
    n_jobs: int | None = None,
) -> None:
    """Serve the workbench on 127.0.0.1.

    Parameters
    ----------
    table : str or None
        The table to open; None: one is dropped on the page.
    open_table : function of a path
        Reads a table.
    say : function of a str
        Tells the person the address.
    folder : str, default="."
        Where tables go that are dropped on the page.
    port : int, default=0
        Port to listen on; 0: any free one.
    browser : bool, default=True
        Whether to open the address.
    n_jobs : int, default=None
        Threads of a scan.
    """
    bench = Workbench(open_table, Path(folder).resolve(), n_jobs)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            raise TableError(f"--port {port} cannot be used: {error.strerror}.") from None
        listener.listen()
        port, token = listener.getsockname()[1], secrets.token_urlsafe(24)
        if table is not None:
            bench.open_now(table)
        address = f"http://127.0.0.1:{port}/?token={token}"
        say(address)
        if browser:
            webbrowser.open(address)
        try:
            server_of(bench, port=port, token=token).run(sockets=[listener])
        finally:
            bench.close()


def server_of(bench: Workbench, *, port: int, token: str) -> uvicorn.Server:
    """Return a server that ends as soon as it is told to, although tabs are listening."""
    # Requests are not logged: their addresses name columns.
    config = uvicorn.Config(
        make_app(bench, port=port, token=token), log_level="error", access_log=False,
        lifespan="off", server_header=False, timeout_graceful_shutdown=2,
    )  # fmt: skip
    return _Server(config, bench)


class _Server(uvicorn.Server):
    def __init__(self, config, bench):
        super().__init__(config)
        self._bench = bench

    async def shutdown(self, sockets=None):
        self._bench.is_ending = True
        await super().shutdown(sockets)
