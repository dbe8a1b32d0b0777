"""What holds for the page with every cluster: safety, accessibility, width, bytes."""

import pytest
from playwright.sync_api import Browser, Page

from browser import DESKTOP, PHONE, tab
from page_documents import HOSTILE, MARKUP
from page_server import cluster

VISIBLE_LANES = 40  # a lane that is not visible is not in the document


def walk(page: Page) -> None:
    """Opens every part of the page."""
    for name in ("reservations", "pods", "decisions", "nodes", "controller"):
        page.evaluate("name => { location.hash = `#/${name}`; }", name)
    page.wait_for_selector("#node-list tbody tr")
    for summary in page.locator("#feed summary").all()[:12]:
        summary.click()
    page.fill("#search", "a")
    page.wait_for_selector("#results [role=option]")
    page.keyboard.press("Enter")
    page.wait_for_selector("#panel .what")
    page.keyboard.press("Escape")


def test_nothing_is_refused_by_the_policy_and_nothing_leaves_the_origin(
    browser: Browser, any_address: str
) -> None:
    with tab(browser, any_address) as opened:
        walk(opened.page)
        assert opened.violations() == []
        assert opened.errors == []
        assert opened.alerts() == []
        assert [one for one in opened.addresses if not one.startswith(any_address)] == []


def test_hostile_names_are_text(browser: Browser) -> None:
    with cluster("hostile").running() as address, tab(browser, address) as opened:
        page = opened.page
        walk(page)
        assert page.locator("img, iframe, object, embed").count() == 0
        assert page.locator("script").count() == 2
        assert MARKUP in opened.text("#cluster")
        links = page.eval_on_selector_all("a", "all => all.map((one) => one.getAttribute('href'))")
        assert [one for one in links if not one.startswith("#")] == []
        for index, name in enumerate(HOSTILE):
            page.locator("#feed > li").nth(len(HOSTILE) - 1 - index).get_by_text("Explain it").evaluate(
                "one => one.click()"
            )
            page.wait_for_function(
                "name => document.querySelector('#panel .what')?.textContent === name", arg=name
            )
        assert opened.alerts() == []


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_page_is_never_wider_than_the_window(
    browser: Browser, any_address: str, size: dict[str, int]
) -> None:
    with tab(browser, any_address, size=size) as opened:
        walk(opened.page)
        assert opened.overflow() <= 0
        opened.page.fill("#search", "a")
        opened.page.wait_for_selector("#results [role=option]")
        opened.page.keyboard.press("Enter")
        opened.page.wait_for_selector("#panel .what")
        assert opened.overflow() <= 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
@pytest.mark.parametrize(
    "path", ["", "#/explain/pod/research/llm-pretrain-0"], ids=["overview", "explanation"]
)
def test_axe_finds_nothing(
    browser: Browser, address: str, scheme: str, size: dict[str, int], path: str
) -> None:
    # axe builds markup from text, which the policy forbids.
    with tab(browser, address + path, scheme=scheme, size=size, bypass_csp=True) as opened:
        page = opened.page
        if path:
            page.wait_for_selector("#panel h3")
        else:
            page.evaluate("document.querySelector('#nodes').scrollIntoView()")
            page.wait_for_selector("#node-list tbody tr")
            page.locator("#feed summary").first.click()
        assert opened.axe() == []


def test_large_cluster_costs_few_bytes_and_few_elements(browser: Browser) -> None:
    with (
        cluster("huge").running() as address,
        tab(browser, "about:blank", ready=False) as opened,
    ):
        session = opened.page.context.new_cdp_session(opened.page)
        received: list[float] = []
        session.on("Network.loadingFinished", lambda event: received.append(event["encodedDataLength"]))
        session.send("Network.enable")
        opened.page.goto(address)
        opened.page.wait_for_selector(".lane a.slot")
        opened.page.wait_for_selector("#feed > li")
        opened.page.wait_for_load_state("load")
        assert len(received) > 15
        assert sum(received) < 200_000
        assert opened.page.locator(".lane").count() <= VISIBLE_LANES
        opened.page.evaluate("document.querySelector('#lanes').scrollTop = 20000")
        opened.page.wait_for_selector(".lane[aria-posinset='280']")
        assert opened.page.locator(".lane").count() <= VISIBLE_LANES
