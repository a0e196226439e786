"""A browser that is none: requests to a workbench, as tests without Chromium send them."""

from starlette.testclient import TestClient

from unpermute.web._app import make_app

PORT, TOKEN = 8765, "a-token"
HOST = f"127.0.0.1:{PORT}"


def browser_of(bench, *, welcome=True):
    """A browser that has followed the first address."""
    app = make_app(bench, port=PORT, token=TOKEN)
    client = TestClient(app, base_url=f"http://{HOST}", headers={"origin": f"http://{HOST}"})
    if welcome:
        assert client.get(f"/?token={TOKEN}").status_code == 200
    return client


def decide(browser, row, answer, **more):
    return browser.post(f"/records/{row}", data={"answer": answer, **more})
