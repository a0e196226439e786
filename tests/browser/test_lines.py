"""Lines with another number of fields, and lines of a list that stay, in a real browser."""

import pytest
from serving import Served, said

from reviewed_tables import as_ragged_csv, patients
from unpermute.files import read_table
from unpermute.web._workbench import Workbench

# A value in two fields, a lost field, and one that nothing can be done about.
JOINED, LOST, HOPELESS = 20, 50, 80


@pytest.fixture(scope="module")
def scanned():
    """The scan, which takes longer than the tests."""
    return {}


@pytest.fixture
def served(scanned, tmp_path):
    path = tmp_path / "ragged.csv"
    path.write_bytes(as_ragged_csv(patients(400, n_damaged=12)[1], [JOINED, LOST, HOPELESS]))
    bench = Workbench(read_table, tmp_path)
    bench.open_now(str(path))
    if not scanned:
        scanned["scan"] = bench.review.scan()
    bench.review.take(scanned["scan"])
    served = Served(bench)
    yield served
    served.stop()


@pytest.fixture
def page(served, context):
    page = context.new_page()
    page.goto(served.address)
    return page


def _decided(served, row):
    review = served.bench.review
    return review.standing.answer[row], review.orders.names(review.standing.order[row])


def test_a_line_is_mended_as_proposed(served, page):
    page.goto(f"{served.base}/records/{JOINED}")
    assert page.locator(".now-side li.moved").count() == 2
    assert page.locator(".joins path.moved").count() == 2
    assert page.locator(".then-side li.moved").inner_text().endswith(", Dr")
    page.keyboard.press("a")
    said(page, "accepted")
    assert _decided(served, JOINED) == (1, {"name": "(join)"})


def test_another_place_is_chosen_by_keys(served, page):
    page.goto(f"{served.base}/records/{LOST}")
    assert page.locator(".then-side li.moved").inner_text().split() == ["weight", "empty"]
    page.keyboard.press("e")
    page.keyboard.press("ArrowUp")  # to the column above: height
    assert page.locator(".then-side li.moved").inner_text().split() == ["height", "empty"]
    assert page.get_by_text("Back to the proposal").is_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    said(page, "accepted")
    assert _decided(served, LOST) == (1, {"height": "(insert)"})
    page.keyboard.press("u")
    said(page, "undone")
    assert page.locator(".then-side li.moved").inner_text().split() == ["weight", "empty"]


def test_a_line_that_cannot_be_mended_is_for_its_owner(served, page):
    page.goto(f"{served.base}/records/{HOPELESS}")
    assert page.get_by_role("button", name="Accept").count() == 0
    page.keyboard.press("w")
    said(page, "owner")
    assert _decided(served, HOPELESS) == (3, {})


@pytest.mark.parametrize(("scheme", "width"), [("light", 400), ("dark", 1280)])
def test_axe_finds_nothing(served, chromium, scheme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.goto(served.address)
    for row in (JOINED, LOST, HOPELESS):
        page.goto(f"{served.base}/records/{row}")
        found = axe.run(page)
        assert found.violations_count == 0, found.generate_report()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()


def test_lines_that_do_not_change_stay_the_same_elements(served, page):
    page.goto(f"{served.base}/records?sort=line")
    page.evaluate("document.querySelectorAll('tr[data-row]').forEach(row => (row.mark = 1))")
    n = page.locator("tr[data-row]").count()
    page.keyboard.press("j")
    page.keyboard.press("a")
    said(page, "accepted")
    marked = "[...document.querySelectorAll('tr[data-row]')].filter(row => row.mark).length"
    assert page.evaluate(marked) == n - 1
    assert page.locator("tr.selected").count() == 1
    assert page.locator("tr.selected").inner_text().count("accepted") == 1
    # They can still be decided about, and opened.
    page.keyboard.press("j")
    page.keyboard.press("r")
    said(page, "rejected")
    page.keyboard.press("Enter")
    page.wait_for_selector(".editor")
    page.go_back()
    page.wait_for_selector("table.list")
    assert page.locator("tr[data-row]").count() == n


def test_the_next_record_takes_the_place_of_one_that_is_decided(served, page):
    page.goto(f"{served.base}/records?state=open&sort=line")
    rows = page.locator("tr[data-row]").evaluate_all("rows => rows.map(row => row.dataset.row)")
    for key in "jjja":
        page.keyboard.press(key)
    said(page, "accepted")
    chosen = page.locator("tr.selected")
    assert chosen.get_attribute("data-row") == rows[3]
    # The record is no longer in the list, and the last decision is undone all the same.
    page.keyboard.press("u")
    said(page, "undone")
    page.wait_for_selector(f'tr[data-row="{rows[2]}"]')
    assert served.bench.review.counts().accept == 0
    assert chosen.get_attribute("data-row") == rows[3]
