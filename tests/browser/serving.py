"""Workbenches that run beside a test: in a thread of it, or in a process that can be killed."""

import os
import socket
import threading
import time
from pathlib import Path

from unpermute.files import read_table
from unpermute.web._review import open_review
from unpermute.web._scan import Scan
from unpermute.web._serve import server_of
from unpermute.web._workbench import Workbench


class Served:
    """A workbench that runs in a thread of the test."""

    def __init__(self, bench):
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        self.bench, self.base = bench, f"http://127.0.0.1:{port}"
        self.address = f"{self.base}/?token=t"
        self._server = server_of(bench, port=port, token="t")
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listener]}, daemon=True
        )
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)

    def stop(self):
        self._server.should_exit = True
        self._thread.join(10)
        self.bench.close()


def serve_scanned(table, found, told):
    """Serve a table that has been scanned; write the address to the file `told`."""
    bench = Workbench(read_table, Path(table).parent)
    bench.review = open_review(table, read_table)
    bench.review.take(Scan(found))
    aside = Path(f"{told}.part")
    aside.write_text(Served(bench).address)
    os.replace(aside, told)
    time.sleep(600)


def said(page, text):
    """Wait until the page says something."""
    page.wait_for_function(
        "text => document.getElementById('live')?.textContent.includes(text)", arg=text
    )
