"""The page of a real `holdfast run --dashboard`, on a simulated cluster and a simulated AWS."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from playwright.sync_api import expect

import process_environment
from browser import Tab, chromium, tab
from holdfast.api.nodeclaim import NodeClaim
from process_environment import ProcessEnvironment

PICTURES = Path(__file__).resolve().parents[2] / ".cache/page"


def run(program: Callable[[ProcessEnvironment], Awaitable[None]], folder: Path) -> None:
    async def main() -> None:
        async with process_environment.serving(folder) as env:
            await env.node_class(capacityReservationSelectorTerms=[{"id": env.slots}])
            await env.node_pool()
            await program(env)

    with ThreadPoolExecutor(1) as thread:  # Playwright has the loop of this thread
        thread.submit(asyncio.run, main()).result()


async def in_browser(address: str, look: Callable[[Tab], None]) -> None:
    """Playwright's calls block, so they are made in a thread."""

    def work() -> None:
        with chromium() as browser, tab(browser, address) as opened:
            look(opened)
            assert opened.violations() == []
            assert opened.errors == []

    await asyncio.to_thread(work)


async def launched(env: ProcessEnvironment, running: int) -> dict[str, list[NodeClaim]]:
    """NodeClaims by capacity type, when so many pods run."""

    async def is_running() -> bool:
        return await env.running_pods() == running

    await env.until(is_running, f"{running} pods run")
    found: dict[str, list[NodeClaim]] = {}
    for claim in (await env.kube.list(NodeClaim)).items:
        found.setdefault(claim.metadata.labels["karpenter.sh/capacity-type"], []).append(claim)
    return found


def test_page_of_the_leader_answers_why(tmp_path: Path) -> None:
    """Why a pod waits, why a node is not in a slot, how full a reservation is, and what idle slots cost."""

    async def program(env: ProcessEnvironment) -> None:
        replica = await env.start("--dashboard=true")
        await env.deploy("web", replicas=3, cpu="1500m")
        claims = await launched(env, 3)
        await env.deploy("huge", replicas=1, cpu="9000")
        port = (await replica.wait_for_log("started"))["api_port"]
        claims.pop("reserved")
        capacity_type, (outside,) = claims.popitem()  # there are two slots, and three pods
        claim = outside.metadata.name

        def look(opened: Tab) -> None:
            page = opened.page
            lane = page.locator(f".lane:has([data-key='{env.slots}'])")
            expect(lane.locator("a.slot.here")).to_have_count(2)
            expect(lane).to_contain_text("none idle")
            expect(page.locator("#tiles")).to_contain_text("$0.00/h")
            expect(page.locator("#feed")).to_contain_text(claim)

            page.evaluate("one => { location.hash = `#/explain/nodeclaim/${one}`; }", claim)
            expect(page.locator("#panel")).to_contain_text(env.slots)
            expect(page.locator("#panel")).to_contain_text(capacity_type)
            page.screenshot(path=PICTURES / "real-nodeclaim.png")

            page.fill("#search", "huge")
            page.locator("#results .hit", has_text="Pod").first.click()
            expect(page.locator("#panel h3").first).to_have_text("Why")
            page.screenshot(path=PICTURES / "real-pod.png")
            expect(page.locator("#pending")).to_contain_text("1")

            page.evaluate("one => { location.hash = `#/explain/reservation/${one}`; }", env.slots)
            expect(page.locator("#panel tbody tr")).to_have_count(2)
            expect(lane.locator(".badge").first).to_have_text("ODCR")
            page.screenshot(path=PICTURES / "real-reservation.png")

        PICTURES.mkdir(parents=True, exist_ok=True)
        await in_browser(f"http://127.0.0.1:{port}/", look)

    run(program, tmp_path)


def test_page_of_the_leader_follows_changes(tmp_path: Path) -> None:
    async def program(env: ProcessEnvironment) -> None:
        replica = await env.start("--dashboard=true")
        await env.deploy("web", replicas=1, cpu="1500m")
        port = (await replica.wait_for_log("started"))["api_port"]
        await launched(env, 1)
        loop = asyncio.get_running_loop()

        def look(opened: Tab) -> None:
            lane = opened.page.locator(f".lane:has([data-key='{env.slots}'])")
            expect(lane.locator("a.slot.here")).to_have_count(1)
            expect(lane).to_contain_text("1 idle")
            asyncio.run_coroutine_threadsafe(env.deploy("more", replicas=1, cpu="1500m"), loop).result(30)
            expect(lane.locator("a.slot.here")).to_have_count(2, timeout=60_000)
            expect(opened.page.locator("#live")).to_have_text("Live")

        await in_browser(f"http://127.0.0.1:{port}/", look)

    run(program, tmp_path)
