"""`holdfast explain`, `reservations` and `status` without a leader: the same answers, computed from the cluster and AWS."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, Final

import process_environment
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from process_environment import ProcessEnvironment

COMPARED: Final = ("what", "why", "considered", "changes")
COLUMNS: Final = ("id", "total", "here", "elsewhere", "held", "free", "idle", "idleUsdPerHour", "nodeClasses")


async def holdfast(env: ProcessEnvironment, *words: str, server: str = "", code: int = 0) -> tuple[str, str]:
    """Standard output and standard error of a command."""
    program = Path(sys.executable).with_name("holdfast")
    process = await asyncio.create_subprocess_exec(
        str(program),
        *words,
        env=env.environ | ({"HOLDFAST_SERVER": server} if server else {}),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == code, (words, err.decode())
    return out.decode(), err.decode()


async def document(env: ProcessEnvironment, *words: str, server: str = "") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((await holdfast(env, *words, "-o", "json", server=server))[0])
    return found


def test_answers_without_a_leader_are_those_of_the_leader(tmp_path: Path) -> None:
    async def main() -> None:
        async with process_environment.serving(tmp_path) as env:
            replica = await env.start()
            await env.node_class(capacityReservationSelectorTerms=[{"id": env.slots}])
            await env.node_pool()
            await env.deploy("web", replicas=3, cpu="1500m")
            await env.deploy("huge", replicas=1, cpu="10k")

            async def three_run() -> bool:
                return await env.running_pods() == 3

            await env.until(three_run, "three pods run")
            server = f"http://127.0.0.1:{(await replica.wait_for_log('started'))['api_port']}"
            nodes = [node.metadata.name for node in (await env.kube.list(Node)).items]
            pods = [pod.metadata.name for pod in (await env.kube.list(Pod)).items]
            asked: list[tuple[str, ...]] = [("explain", "pod", pod, "-n", "default") for pod in pods]
            asked += [("explain", "reservation", env.slots), ("explain", "nodepool", "default")]
            asked += [("explain", "node", node) for node in nodes]
            by_leader = [await document(env, *words, server=server) for words in asked]
            listed = await document(env, "reservations", server=server)
            assert not any("computed" in one for one in by_leader)
            await replica.stop()
            env.replicas.remove(replica)
            for words, expected in zip(asked, by_leader, strict=True):
                found = await document(env, *words)
                assert "No leader answers" in found["computed"]
                keys = [key for key in COMPARED if not (words[1] == "node" and key == "considered")]
                assert {key: found.get(key) for key in keys} == {key: expected.get(key) for key in keys}
            computed = await document(env, "reservations")
            assert [{key: row.get(key) for key in COLUMNS} for row in computed["items"]] == [
                {key: row.get(key) for key in COLUMNS} for row in listed["items"]
            ]
            out, _ = await holdfast(env, "status")
            assert "No leader answers" in out
            assert "Pods: 4, 1 pending" in out

    asyncio.run(main())


def test_without_leader_and_settings_the_error_names_both(tmp_path: Path) -> None:
    async def main() -> None:
        async with process_environment.serving(tmp_path) as env:
            del env.environ["CLUSTER_NAME"]
            _, err = await holdfast(env, "status", code=3)
            assert "does not exist" in err  # the Service
            assert "CLUSTER_NAME" in err

    asyncio.run(main())
