"""Measures the page with 10,000 nodes, 500 reservations and 100,000 pods in Chromium: `make bench-page`. Asserts nothing."""

import statistics
import sys
from collections.abc import Iterator
from typing import Any

import msgspec
from playwright.sync_api import Page

from browser import chromium, tab
from page_server import PageServer, cluster

LOADS = 5
UPDATES = 20


def main() -> None:
    with chromium() as browser, cluster("huge").running() as address:
        loads = []
        for _ in range(LOADS):
            with tab(browser, "about:blank", ready=False) as opened:
                loads.append(load(opened.page, address))
    for name in loads[0]:
        show(name, [one[name] for one in loads])
    server = cluster("huge")
    with chromium() as browser, server.running() as address, tab(browser, address) as opened:
        opened.page.wait_for_selector("a.slot")
        for _ in update(opened.page, server):
            pass
        page = opened.page
        for name in ("status", "reservations", "pods"):
            found = page.evaluate(
                "name => performance.getEntriesByName(`holdfast:${name}`).map((one) => one.duration)", name
            )
            show(f"update, {name}, ms of script", found)
        print(f"tasks above 50 ms in {UPDATES} updates: {page.evaluate('window.tasks')}")
        heap = page.evaluate("performance.memory.usedJSHeapSize / 1e6")
        show("JavaScript heap after the updates, MB", [heap])
        show("elements in the document", [page.evaluate("document.querySelectorAll('*').length")])


def load(page: Page, address: str) -> dict[str, Any]:
    session = page.context.new_cdp_session(page)
    received: list[float] = []
    session.on("Network.loadingFinished", lambda event: received.append(event["encodedDataLength"]))
    session.send("Network.enable")
    page.goto(address)
    page.wait_for_selector("a.slot")
    page.wait_for_selector("#feed > li")
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    lanes = page.evaluate("performance.getEntriesByName('holdfast:reservations')[0]")
    return {
        "first contentful paint, ms": paint,
        "lanes drawn, ms after the start": lanes["startTime"] + lanes["duration"],
        "transferred, KB": sum(received) / 1000,
    }


def update(page: Page, server: PageServer) -> Iterator[int]:
    """Each update changes a tenth of the reservations, the counts, and adds ten decisions."""
    page.evaluate("""() => {
      performance.clearMeasures();
      window.tasks = [];
      new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((one) => one.duration)))
        .observe({type: "longtask"});
    }""")
    documents = server.documents
    for number in range(UPDATES):
        documents.reservations = [
            msgspec.structs.replace(row, idle=row.idle + 1) if index % 10 == number % 10 else row
            for index, row in enumerate(documents.reservations)
        ]
        newest = documents.decisions[0]
        documents.decisions = [
            *(msgspec.structs.replace(newest, id=newest.id + 10 - i) for i in range(10)),
            *documents.decisions,
        ]
        documents.status = msgspec.structs.replace(documents.status, pending=2000 + number)
        server.publish()
        page.wait_for_function(
            "text => document.querySelector('#tiles').textContent.includes(text)", arg=f"2,0{number:02d}"
        )
        page.wait_for_timeout(2200)  # the page reads the reservations at most every 2 s
        yield number


def show(name: str, values: list[float]) -> None:
    if not values:
        sys.exit(f"{name}: nothing was measured")
    print(
        f"{name:<42} median {statistics.median(values):9.1f}   largest {max(values):9.1f}   of {len(values)}"
    )


if __name__ == "__main__":
    main()
