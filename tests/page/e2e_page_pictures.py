"""Screenshots of the page in `.cache/page`, for people to look at. docs/images/dashboard.png is desktop-light.png."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from browser import DESKTOP, PHONE, tab
from page_server import cluster

FOLDER = Path(__file__).resolve().parents[2] / ".cache/page"
POD = "#/explain/pod/research/llm-pretrain-0"
BLOCK = "#/explain/reservation/cr-00000005eb1c0ffee"
PICTURES = {
    "desktop-light": ("small", DESKTOP, "light", ""),
    "desktop-dark": ("small", DESKTOP, "dark", ""),
    "explain-pod": ("small", DESKTOP, "light", POD),
    "explain-reservation": ("small", {"width": 1680, "height": 1050}, "dark", BLOCK),
    "phone-light": ("small", PHONE, "light", ""),
    "phone-explain": ("small", PHONE, "dark", POD),
    "hostile": ("hostile", DESKTOP, "light", ""),
    "huge": ("huge", DESKTOP, "light", ""),
}


@pytest.mark.parametrize("name", PICTURES)
def test_picture_is_written(browser: Browser, name: str) -> None:
    kind, size, scheme, path = PICTURES[name]
    with (
        cluster(kind).running() as address,
        tab(browser, address + path, size=size, scheme=scheme) as opened,
    ):
        opened.page.wait_for_selector("a.slot")
        if path:
            opened.page.wait_for_selector("#panel h3")
        FOLDER.mkdir(parents=True, exist_ok=True)
        file = FOLDER / f"{name}.png"
        opened.page.screenshot(path=file)
        opened.page.evaluate("window.scrollTo(0, 0)")
        opened.page.screenshot(path=FOLDER / f"{name}-full.png", full_page=True)
        assert file.stat().st_size > 10_000
