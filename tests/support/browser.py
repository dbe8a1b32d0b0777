"""A real browser for tests of the page: Debian's Chromium, driven by Playwright."""

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from playwright.sync_api import Browser, Page, sync_playwright

import fetch_axe

PHONE: Final = {"width": 360, "height": 740}
DESKTOP: Final = {"width": 1440, "height": 1000}
_AXE_TAGS: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# Violations of the content security policy, and calls of alert, as the page itself sees them.
_WATCH: Final = """
window.seen = {violations: [], alerts: []};
document.addEventListener("securitypolicyviolation", (e) => window.seen.violations.push(`${e.violatedDirective} ${e.blockedURI} ${e.sourceFile}:${e.lineNumber}`));
window.alert = (text) => window.seen.alerts.push(String(text));
"""


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--disable-dev-shm-usage", "--enable-precise-memory-info"],
        )
        yield browser
        browser.close()


@dataclass(slots=True)
class Tab:
    """One page, and what happened in it."""

    page: Page
    errors: list[str] = field(default_factory=list)  # of the console, and exceptions
    addresses: list[str] = field(default_factory=list)  # that were requested

    def violations(self) -> Any:
        return self.page.evaluate("window.seen.violations")

    def alerts(self) -> Any:
        return self.page.evaluate("window.seen.alerts")

    def text(self, selector: str) -> str:
        return self.page.inner_text(selector)

    def axe(self) -> list[str]:
        """What axe-core finds. It builds markup from text, so the policy of the page has to be bypassed."""
        self.page.evaluate(fetch_axe.source() + ";0")
        result = self.page.evaluate(
            "tags => axe.run(document, {runOnly: tags, resultTypes: ['violations']})", _AXE_TAGS
        )
        return [
            f"{one['id']}: {one['help']}: {node['target']} {node['failureSummary']}"
            for one in result["violations"]
            for node in one["nodes"][:3]
        ]

    def overflow(self) -> Any:
        """By how many pixels the page is wider than the window."""
        return self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")


@contextlib.contextmanager
def tab(
    browser: Browser,
    address: str,
    *,
    size: dict[str, int] = DESKTOP,
    scheme: str = "light",
    bypass_csp: bool = False,
    ready: bool = True,
    offline: bool = False,
) -> Iterator[Tab]:
    """Opens the address. `ready`: waits until the page has shown the first documents. `offline`: without a network."""
    context = browser.new_context(
        viewport=size,  # type: ignore[arg-type]
        color_scheme=scheme,  # type: ignore[arg-type]
        locale="en-GB",
        timezone_id="Europe/Dublin",
        reduced_motion="reduce",
        bypass_csp=bypass_csp,
        offline=offline,
    )
    context.add_init_script(_WATCH)
    page = context.new_page()
    page.set_default_timeout(15_000)
    opened = Tab(page)
    page.on(
        "console", lambda message: opened.errors.append(message.text) if message.type == "error" else None
    )
    page.on("pageerror", lambda error: opened.errors.append(str(error)))
    page.on("request", lambda request: opened.addresses.append(request.url))
    page.goto(address)
    if ready:
        page.wait_for_selector(".lane")
        page.wait_for_selector("#feed > li")
        page.wait_for_selector("#live.open")
    try:
        yield opened
    finally:
        context.close()
