"""An object that cannot be decoded affects no other object, and nothing is deleted or terminated because of it."""

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

import app_environment
from app_environment import AppEnvironment
from disruption_environment import ONE_PER_NODE, pool
from holdfast.api.nodeclaim import NodeClaim
from holdfast.app.program import App
from holdfast.kube.transport import Answer, Transport
from scripted import Response

Damage = Callable[[dict[str, Any]], None]


class Damaging:
    """A transport whose lists and watches contain damaged objects."""

    def __init__(self, transport: Transport, damages: dict[str, Damage]) -> None:
        self._transport = transport
        self._damages = damages  # by the plural of the kind

    async def request(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> Answer:
        answer = await self._transport.request(method, path, query, headers, body)
        plural = path.rpartition("/")[2]
        if method != "GET" or plural not in self._damages or answer.status != 200:
            return answer
        if isinstance(answer.body, bytes):
            whole = json.loads(answer.body)
            for item in whole["items"]:
                self._damage(plural, item)
            return Response(200, json.dumps(whole).encode(), answer.headers)
        return Response(200, self._watched(plural, answer.body), answer.headers)

    async def _watched(self, plural: str, chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        async for chunk in chunks:
            for line in filter(None, chunk.split(b"\n")):
                event = json.loads(line)
                if event["type"] != "BOOKMARK":
                    self._damage(plural, event["object"])
                yield json.dumps(event).encode() + b"\n"

    def _damage(self, plural: str, item: dict[str, Any]) -> None:
        if plural in self._damages:
            self._damages[plural](item)


class DamagedEnvironment:
    """The controllers read damaged objects from their next start on."""

    def __init__(self, env: AppEnvironment) -> None:
        self.env = env
        self.damages: dict[str, Damage] = {}

    async def damage(self, plural: str, damage: Damage) -> None:
        self.damages[plural] = damage
        make = self.env.new_app

        def new_app(*, read_only: bool = False) -> App:
            app = make(read_only=read_only)
            self.env.crashing._transport = Damaging(self.env.crashing._transport, self.damages)
            return app

        self.env.new_app = new_app  # type: ignore[method-assign]
        await self.env.restart()

    def count(self, plural: str) -> float | None:
        return self.env.app.metrics.value("holdfast_unreadable_objects", {"resource": plural})


def no_priority(item: dict[str, Any]) -> None:
    item["spec"]["priority"] = "high"


def no_spec(item: dict[str, Any]) -> None:
    item["spec"] = 5


def no_capacity(item: dict[str, Any]) -> None:
    item["status"] = {"capacity": [1]}


def test_the_instance_of_an_unreadable_nodeclaim_is_not_terminated() -> None:
    async def program(env: AppEnvironment) -> None:
        claim, instance = await env.one_node("on-demand")
        damaged = DamagedEnvironment(env)
        await damaged.damage("nodeclaims", no_spec)
        await env.sleep(900)
        assert [one.id for one in env.ec2_instances] == [instance.id]
        assert damaged.count("nodeclaims") == 1
        (event,) = await env.events("Unreadable")
        assert event.involved_object.name == claim.metadata.name
        assert event.involved_object.kind == "NodeClaim"
        assert "$.spec" in event.message

    app_environment.run(program)


def test_a_node_with_an_unreadable_pod_is_not_empty() -> None:
    async def program(env: AppEnvironment) -> None:
        await pool(env, kinds=("on-demand",))
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)
        damaged = DamagedEnvironment(env)
        await damaged.damage("pods", no_priority)
        await env.sleep(900)
        assert len(env.ec2_instances) == len(await env.nodes()) == len(await env.running()) == 1

    app_environment.run(program)


def test_unreadable_pod_does_not_block_other_pods() -> None:
    async def program(env: AppEnvironment) -> None:
        await pool(env, kinds=("on-demand",))
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)
        damaged = DamagedEnvironment(env)
        (old,) = await env.running()

        def damage(item: dict[str, Any]) -> None:
            if item["metadata"]["name"] == old.metadata.name:
                no_priority(item)

        await damaged.damage("pods", damage)
        await env.deploy("more", 2, **ONE_PER_NODE)
        await env.until_running(2, "more")
        await env.scale("more", 0)
        await env.sleep(600)
        assert [one.metadata.name for one in await env.running()] == [old.metadata.name]
        assert len(env.ec2_instances) == 1

    app_environment.run(program)


def test_a_node_is_not_drained_while_a_pod_on_it_cannot_be_read() -> None:
    async def program(env: AppEnvironment) -> None:
        _, instance = await env.one_node("on-demand")
        damaged = DamagedEnvironment(env)
        await damaged.damage("pods", no_priority)
        await env.sleep(30)
        (node,) = await env.nodes()
        await env.kube.delete(node)
        await env.sleep(300)
        assert instance.id in [one.id for one in env.ec2_instances]
        (pod,) = await env.running()
        damaged.damages.clear()
        await env.kube.patch(pod, {"metadata": {"labels": {"seen": "again"}}})
        await env.sleep(120)
        assert instance.id not in [one.id for one in env.ec2_instances]
        assert damaged.count("pods") == 0

    app_environment.run(program)


def test_registration_timeout_does_not_apply_while_the_node_is_unreadable() -> None:
    async def program(env: AppEnvironment) -> None:
        await pool(env, kinds=("on-demand",))
        damaged = DamagedEnvironment(env)
        await damaged.damage("nodes", no_capacity)
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.sleep(60)
        (instance,) = env.ec2_instances
        await env.sleep(3600)
        (claim,) = await env.claims()
        assert (claim.status.provider_id or "").endswith(instance.id)
        assert claim.metadata.deletion_timestamp is None
        assert [one.id for one in env.ec2_instances] == [instance.id]
        damaged.damages.clear()
        await env.restart()
        await env.until_running(1)

    app_environment.run(program)


def test_a_nodeclaim_that_is_deleted_waits_for_a_node_that_cannot_be_read() -> None:
    async def program(env: AppEnvironment) -> None:
        claim, instance = await env.one_node("on-demand")
        damaged = DamagedEnvironment(env)
        await damaged.damage("nodes", no_capacity)
        await env.sleep(10)
        await env.kube.delete(claim)
        await env.sleep(300)
        assert [one.id for one in env.ec2_instances][:1] == [instance.id]
        damaged.damages.clear()
        await env.restart()
        await env.sleep(300)
        assert await env.is_deleted(NodeClaim, claim.metadata.name)

    app_environment.run(program)


def test_deleted_class_releases_nothing_while_a_nodeclaim_is_unreadable() -> None:
    async def program(env: AppEnvironment) -> None:
        claim, instance = await env.one_node("on-demand")
        damaged = DamagedEnvironment(env)
        await damaged.damage("nodeclaims", no_spec)
        await env.sleep(10)
        before = env.asked("DeleteLaunchTemplate")
        for node_class in tuple(env.app.caches.of(env.app.cloud.node_classes.kind)):
            await env.kube.delete(node_class)
        await env.sleep(300)
        assert env.asked("DeleteLaunchTemplate") == before
        assert [one.id for one in env.ec2_instances] == [instance.id]
        assert claim.metadata.name in env.claims_ever()

    app_environment.run(program)
