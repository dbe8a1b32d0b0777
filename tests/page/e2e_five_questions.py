"""Five questions of an operator, asked of one cluster: each is answered by `holdfast`, by the object, and on the page.

Why does this pod wait? Why is this node on demand although I hold a reservation? How full are my reservations? What do
idle slots cost an hour? Why was this node removed?
"""

import asyncio
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec
from playwright.sync_api import expect

import aws_environment
import process_environment
from app_environment import capacity_types, instance_types
from browser import Tab, chromium, tab
from holdfast import names
from holdfast.api.cluster import Event
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.sim.cluster.kinds import Deployment
from process_environment import ProcessEnvironment

PICTURES: Final = Path(__file__).resolve().parents[2] / ".cache/page"
SLOTS: Final = replace(process_environment.TARGETED, total=3)
IDLE_USD: Final = "0.096"  # one slot of m5.large, at list price


@dataclass(frozen=True)
class Asked:
    """The cluster, and the address of the leader."""

    env: ProcessEnvironment
    url: str

    async def holdfast(self, *words: str) -> dict[str, Any]:
        program = Path(sys.executable).with_name("holdfast")
        process = await asyncio.create_subprocess_exec(
            str(program),
            *words,
            "-o",
            "json",
            env=self.env.environ | {"HOLDFAST_SERVER": self.url},
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
        assert process.returncode == 0, words
        found: dict[str, Any] = json.loads(out)
        return found

    async def events(self, name: str, reason: str) -> list[str]:
        found = (await self.env.kube.list(Event)).items
        return [
            one.message
            for one in found
            if (one.source.component, one.involved_object.name, one.reason) == ("holdfast", name, reason)
        ]


def panel(opened: Tab, kind: str, *name: str) -> Any:
    opened.page.evaluate("path => { location.hash = path; }", f"#/explain/{kind}/{'/'.join(name)}")
    return opened.page.locator("#panel")


def test_five_questions_are_answered_by_command_object_and_page(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as thread:  # Playwright has the loop of this thread
        thread.submit(asyncio.run, _ask_all(tmp_path)).result()


async def _ask_all(folder: Path) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    async with process_environment.serving(folder, reservations=(SLOTS,)) as env:
        await env.node_class(capacityReservationSelectorTerms=[{"id": env.slots}])
        allowed = [instance_types("m5.large"), capacity_types("reserved", "on-demand")]
        await env.node_pool(requirements=allowed)
        replica = await env.start("--dashboard=true")
        await env.deploy("web", replicas=2, cpu="1500m")
        zone = {names.ZONE: f"{aws_environment.REGION}b"}
        await env.deploy("elsewhere", replicas=1, cpu="1500m", nodeSelector=zone)
        await env.deploy("huge", replicas=1, cpu="9000")

        async def running() -> bool:
            return await env.running_pods() == 3

        await env.until(running, "three pods run")
        asked = Asked(env, f"http://127.0.0.1:{(await replica.wait_for_log('started'))['api_port']}")
        node = await _commands_and_objects(asked)
        await asyncio.to_thread(_pages, asked, node)
        await _removal(asked, node)


async def _commands_and_objects(asked: Asked) -> str:
    env = asked.env
    pods = {pod.metadata.name: pod for pod in (await env.kube.list(Pod)).items}
    huge = next(name for name in pods if name.startswith("huge"))
    too_large = "no instance type has enough resources: cpu 9k is requested"
    answer = await asked.holdfast("explain", "pod", huge, "-n", "default")
    assert too_large in answer["why"][0], answer
    messages = await asked.events(huge, "FailedScheduling")  # before, no NodePool was ready
    assert any(too_large in message for message in messages), messages

    claims = {
        claim.metadata.labels[names.CAPACITY_TYPE]: claim for claim in (await env.kube.list(NodeClaim)).items
    }
    node, zone_b = claims["on-demand"].status.node_name or "", "topology.kubernetes.io/zone In [us-west-2b]"
    answer = await asked.holdfast("explain", "node", node)
    reasons = {one["subject"]: one["text"] for one in answer["considered"]}
    assert zone_b in reasons[f"reservation {env.slots}"]
    written = msgspec.json.decode(claims["on-demand"].metadata.annotations[names.EXPLANATION])
    assert written["notReserved"][0]["ids"] == [env.slots]
    assert zone_b in written["notReserved"][0]["text"]

    async def slots_are_written() -> bool:
        status = (await env.kube.get(EC2NodeClass, "default")).status.reservation_slots
        return status is not None and (status.summary, status.idle_usd_per_hour) == ("1/3", IDLE_USD)

    report = await asked.holdfast("reservations")
    (row,) = report["items"]
    assert (row["total"], row["here"], row["free"]) == (3, 2, 1)
    assert (row["idleUsdPerHour"], report["idleUsdPerHour"]) == (float(IDLE_USD), float(IDLE_USD))
    await env.until(slots_are_written, "the class shows its slots")
    return node


def _pages(asked: Asked, node: str) -> None:
    env = asked.env
    with chromium() as browser, tab(browser, f"{asked.url}/") as opened:
        page = opened.page
        lane = page.locator(f".lane:has([data-key='{env.slots}'])")
        expect(lane.locator("a.slot.here")).to_have_count(2)
        expect(lane).to_contain_text("2/3")
        expect(lane).to_contain_text("$0.10/h")
        expect(page.locator("#tiles")).to_contain_text("$0.10/h")
        page.screenshot(path=PICTURES / "question-slots.png")
        expect(panel(opened, "node", node)).to_contain_text("topology.kubernetes.io/zone In [us-west-2b]")
        page.screenshot(path=PICTURES / "question-on-demand.png")
        page.fill("#search", "huge")
        page.locator("#results .hit", has_text="Pod").first.click()
        expect(page.locator("#panel")).to_contain_text("no instance type has enough resources")
        page.screenshot(path=PICTURES / "question-pending.png")
        assert (opened.violations(), opened.errors) == ([], [])


async def _removal(asked: Asked, node: str) -> None:
    """The node is empty, so consolidation removes it."""
    env = asked.env
    deployment = await env.kube.get(Deployment, "elsewhere", "default")
    await env.kube.patch(deployment, {"spec": {"replicas": 0}})

    async def removed() -> bool:
        return node not in {one.metadata.name for one in (await env.kube.list(Node)).items}

    await env.until(removed, "the node is removed")
    empty = "Empty/Delete: no pod needs the node"
    answer = await asked.holdfast("explain", "node", node)
    assert empty in answer["why"][0], answer
    assert any(empty in message for message in await asked.events(node, "DisruptionTerminating"))

    def look() -> None:
        with chromium() as browser, tab(browser, f"{asked.url}/") as opened:
            expect(panel(opened, "node", node)).to_contain_text(empty)
            opened.page.screenshot(path=PICTURES / "question-removed.png")
            assert (opened.violations(), opened.errors) == ([], [])

    await asyncio.to_thread(look)
