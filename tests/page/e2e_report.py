"""The report of a simulation in a real browser: offline, safe, accessible, in narrow windows and on paper.

docs/images/report.png is `.cache/page/report-light-charts.png`.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

import simulation_documents as documents
from browser import DESKTOP, PHONE, Tab, tab
from holdfast.api.simulation_results import SimulationResult
from holdfast.simulate.report import page, study

PICTURES = Path(__file__).resolve().parents[2] / ".cache/page"
KINDS: dict[str, Callable[[], Sequence[SimulationResult]]] = {
    "week": documents.study,
    "one": lambda: [documents.week()],
    "partial": lambda: [documents.week(), documents.week("interrupted", 1, hours=100)],
    "hostile": documents.hostile,
    "empty": lambda: [documents.result(timeline=documents.timeline(0), reservations=())],
    "one-step": lambda: [documents.result(timeline=documents.timeline(1, documents.DAY_S))],
}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of each kind."""
    found = tmp_path_factory.mktemp("reports")
    for kind, results in KINDS.items():
        sizing = documents.SIZING if kind == "week" else None
        (found / f"{kind}.html").write_text(page.text(study.build(results()), sizing), encoding="utf-8")
    return found


def address(folder: Path, kind: str) -> str:
    return (folder / f"{kind}.html").as_uri()


def open_all(opened: Tab) -> None:
    """Every table of values."""
    opened.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")


@pytest.mark.parametrize("kind", KINDS)
def test_report_opens_offline_and_asks_for_nothing(browser: Browser, folder: Path, kind: str) -> None:
    with tab(browser, address(folder, kind), ready=False, offline=True) as opened:
        open_all(opened)
        expect(opened.page.locator("h1")).to_contain_text("Simulation report: ")
        assert (opened.violations(), opened.errors, opened.alerts()) == ([], [], [])
        assert opened.addresses == [address(folder, kind)]


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
@pytest.mark.parametrize("kind", KINDS)
def test_report_is_never_wider_than_the_window(
    browser: Browser, folder: Path, kind: str, size: dict[str, int]
) -> None:
    with tab(browser, address(folder, kind), size=size, ready=False, offline=True) as opened:
        open_all(opened)
        assert opened.overflow() <= 0
        inside = "one => one.scrollWidth - one.clientWidth"
        assert opened.page.locator("body").evaluate(inside) <= 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
@pytest.mark.parametrize("kind", ["week", "partial", "empty"])
def test_axe_finds_nothing(
    browser: Browser, folder: Path, kind: str, scheme: str, size: dict[str, int]
) -> None:
    with tab(
        browser, address(folder, kind), scheme=scheme, size=size, ready=False, bypass_csp=True
    ) as opened:
        open_all(opened)
        assert opened.axe() == []


def test_colours_follow_the_system_and_the_switch(browser: Browser, folder: Path) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    with tab(browser, address(folder, "week"), scheme="dark", ready=False) as opened:
        assert opened.page.evaluate(colour) == "rgb(13, 18, 24)"
        opened.page.get_by_label("Light").click()
        assert opened.page.evaluate(colour) == "rgb(244, 246, 248)"
        opened.page.keyboard.press("ArrowRight")  # to the next of the group: dark
        assert opened.page.evaluate(colour) == "rgb(13, 18, 24)"


def test_area_of_a_chart_is_where_its_values_are(browser: Browser, folder: Path) -> None:
    """The reservation that begins on Tuesday has a box from there to the end."""
    with tab(browser, address(folder, "one"), ready=False) as opened:
        lane = opened.page.locator(".lane-row", has_text=documents.SHARED).locator(".lane-plot")
        whole, paid = lane.bounding_box(), lane.locator(".outline").bounding_box()
        assert whole
        assert paid
        assert (paid["x"] - whole["x"]) / whole["width"] == pytest.approx(1 / 7, abs=0.01)
        assert paid["x"] + paid["width"] == pytest.approx(whole["x"] + whole["width"], abs=2)
        lane.locator(".probe").first.hover()
        expect(lane.locator(".probe title").first).to_have_text(
            re.compile(r"Tue 17 Nov 00:00\s2 of 6 in use")
        )


def test_tables_of_values_open_with_the_keyboard(browser: Browser, folder: Path) -> None:
    with tab(browser, address(folder, "week"), ready=False) as opened:
        values = opened.page.locator("#cost details").first
        values.locator("summary").focus()
        opened.page.keyboard.press("Enter")
        expect(values.locator("tbody tr")).to_have_count(56)
        opened.page.keyboard.press("Tab")
        assert opened.page.evaluate("document.activeElement.className") == "scroll"


def test_report_prints_on_a4_without_broken_charts(browser: Browser, folder: Path) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tab(browser, address(folder, "week"), ready=False, scheme="dark") as opened:
        data = opened.page.pdf(path=PICTURES / "report.pdf", prefer_css_page_size=True, print_background=True)
        assert re.search(rb"/MediaBox \[0 0 59[45][.\d]* 84[12][.\d]*\]", data)
        assert 4 <= len(re.findall(rb"/Type /Page\b", data)) <= 6
        opened.page.emulate_media(media="print")
        opened.page.set_viewport_size(
            {"width": 703, "height": 1000}
        )  # A4 less its margins, at 96 dots an inch
        assert opened.overflow() <= 0
        assert (
            opened.page.evaluate("getComputedStyle(document.querySelector('.tile')).backgroundColor")
            == "rgb(255, 255, 255)"
        )
        kept = opened.page.eval_on_selector_all(
            "figure", "all => all.map((one) => getComputedStyle(one).breakInside)"
        )
        assert set(kept) == {"avoid"}
        heights = opened.page.eval_on_selector_all("figure", "all => all.map((one) => one.offsetHeight)")
        assert max(heights) < 900  # a page


@pytest.mark.parametrize(
    ("name", "kind", "size", "scheme"),
    [
        ("report-light", "week", DESKTOP, "light"),
        ("report-dark", "week", DESKTOP, "dark"),
        ("report-phone", "week", PHONE, "dark"),
        ("report-partial", "partial", DESKTOP, "light"),
        ("report-hostile", "hostile", DESKTOP, "light"),
    ],
)
def test_picture_is_written(
    browser: Browser, folder: Path, name: str, kind: str, size: dict[str, int], scheme: str
) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tab(browser, address(folder, kind), size=size, scheme=scheme, ready=False) as opened:
        file = PICTURES / f"{name}.png"
        opened.page.screenshot(path=file, full_page=True)
        assert file.stat().st_size > 10_000
        opened.page.set_viewport_size({"width": size["width"], "height": 1080})
        opened.page.evaluate("document.querySelector('#slots').scrollIntoView()")
        opened.page.screenshot(path=PICTURES / f"{name}-charts.png")
