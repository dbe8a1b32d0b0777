"""A snapshot that remembers what it saw before is the one that somebody would take who looks for the first time."""

import random
from typing import Any

import msgspec
import pytest

import objects
from app_world import AppWorld
from holdfast import names
from holdfast.api.cluster import Namespace
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node
from holdfast.api.workloads import DaemonSet
from holdfast.app.program import App
from holdfast.cloud.aws.catalog import labels as aws_labels
from holdfast.core.disruption.commands import Action, DisruptionCommand, Method
from holdfast.core.disruption.inputs import DisruptionReason
from holdfast.ports import Change
from holdfast.sim import time
from holdfast.state.cluster.cluster_state import ClusterState
from holdfast.state.conversion import disruption_commands, nodes, volumes

STEPS = 60
NODES = tuple(f"n-{number}" for number in range(4))
WAITS = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
DISKS = ("disk-0", "disk-1")
NEAR_TEAM = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": names.ZONE, "namespaceSelector": {"matchLabels": {"team": "a"}}}
        ]
    }
}
FEATURES = {names.REGISTERED: "true", names.INITIALIZED: "true"}


class Cluster:
    """Objects that come, change and go, as a watch tells of them."""

    def __init__(self, app: App, dice: random.Random) -> None:
        self._app = app
        self._dice = dice
        self._version = 0

    def step(self) -> None:
        kinds = (self._pod, self._pod, self._pod, self._node, self._claim, self._claim, self._around)
        kind = self._dice.choice((*kinds, self._storage, self._storage))
        self._version += 1
        obj = kind()
        change = "DELETED" if self._dice.random() < 0.25 else "MODIFIED"
        self._app.caches.of(type(obj)).apply(Change(change, obj))

    def place(self) -> str:
        """Where a pod is on its way to; nothing: nowhere."""
        return self._dice.choice(("", *NODES, *(f"c-{name}" for name in NODES)))

    def _meta(self, **fields: object) -> dict[str, object]:
        return {"resourceVersion": str(self._version), **fields}

    def _pod(self) -> Object:
        dice, number = self._dice, self._dice.randrange(6)
        notes = {names.DO_NOT_DISRUPT: dice.choice(("true", "1m", "5m"))} if dice.random() < 0.3 else {}
        owner = objects.owned("DaemonSet", "ds") if number == 0 else {}
        meta = self._meta(uid=f"p-{number}", annotations=notes, creationTimestamp=objects.NOW, **owner)
        where: dict[str, Any] = {"nodeName": dice.choice(NODES)} if dice.random() < 0.6 else {}
        size = [objects.container(cpu=dice.choice(("1", "2", "nonsense")))]
        phase = {"phase": "Succeeded"} if dice.random() < 0.2 else {}
        status = WAITS | phase | {"startTime": objects.NOW}
        if dice.random() < 0.3:
            where["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": dice.choice(DISKS)}}]
        if dice.random() < 0.2:
            where["affinity"] = NEAR_TEAM
        return objects.pod(f"p-{number}", meta, status, containers=size, **where)

    def _node(self) -> Object:
        name, labels = self._dice.choice(NODES), {names.NODEPOOL: "default", names.INSTANCE_TYPE: "m5.large"}
        labels |= FEATURES if self._dice.random() < 0.5 else {}
        return objects.node(name, self._meta(labels=labels), spec={"providerID": self._machine(name)})

    def _claim(self) -> Object:
        """Now and then of another's machine, or with another's name: nobody is confused by it for long."""
        dice, name = self._dice, self._dice.choice(NODES)
        stated = (
            {"nodeName": name if dice.random() < 0.9 else dice.choice(NODES)} if dice.random() < 0.8 else {}
        )
        status = {"providerID": self._machine(name), **stated} if dice.random() < 0.7 else {}
        notes = self._command() if dice.random() < 0.5 else {}
        meta = self._meta(labels={names.NODEPOOL: "default"}, annotations=notes)
        return objects.nodeclaim(f"c-{name}", meta, status)

    def _machine(self, name: str) -> str:
        return f"cloud:///{name if self._dice.random() < 0.85 else self._dice.choice((*NODES, ''))}"

    def _command(self) -> dict[str, str | None]:
        replaced_by = (f"c-{self._dice.choice(NODES)}",)
        command = DisruptionCommand(
            Method.DRIFT,
            DisruptionReason.DRIFTED,
            Action.REPLACE,
            (),
            "",
            id="o",
            replacement_names=replaced_by,
        )
        return {key: value for key, value in disruption_commands.annotations(command).items() if value}

    def _storage(self) -> Object:
        dice, disk = self._dice, self._dice.choice(DISKS)
        match dice.randrange(4):
            case 0:
                return objects.storage_class(meta=self._meta())
            case 1:
                zone = {names.ZONE: [dice.choice(("us-west-2a", "us-west-2b"))]}
                return objects.volume(f"vol-{disk}", self._meta(), nodeAffinity=objects.in_places(zone))
            case 2:
                made = objects.csi_node(dice.choice(NODES), ebs_csi_aws_com=dice.randrange(9))
                return msgspec.structs.replace(
                    made, metadata=msgspec.structs.replace(made.metadata, resource_version=str(self._version))
                )
            case _:
                done = {"annotations": {volumes.BIND_COMPLETED: "yes"}}
                bound = {"volumeName": f"vol-{disk}"} if dice.random() < 0.5 else {"storageClassName": "gp3"}
                return objects.claim(disk, self._meta(namespace="default", **done), spec=bound)

    def _around(self) -> Object:
        if self._dice.random() < 0.5:
            return objects.read(Namespace, "default", self._meta(labels={"team": self._dice.choice("ab")}))
        template = {"spec": {"containers": [objects.container(cpu=self._dice.choice("123"))]}}
        meta = self._meta(namespace="default")
        return objects.read(DaemonSet, "ds", meta, spec={"template": template})


def halves(app: App) -> set[tuple[str, str | None]]:
    """Which nodes there are, and which claims are theirs, with everything looked at at once."""
    claims = tuple(app.caches.of(NodeClaim))
    known = filter(nodes.is_known, app.caches.of(Node))
    pairs = {(h.name, h.claim.metadata.name if h.claim else None) for h in nodes.pairs(known, claims)}
    to_come = [c.metadata.name for c in claims if not c.status.provider_id]
    return pairs | {(name, name) for name in to_come}


@pytest.mark.parametrize("seed", range(20))
def test_what_is_remembered_is_what_is_there(seed: int) -> None:
    async def program() -> None:
        app = AppWorld().app
        cluster = Cluster(app, random.Random(seed))
        for _ in range(STEPS):
            cluster.step()
            await app.ports.clock.sleep(10)
            anew = ClusterState(
                caches=app.caches,
                cloud=app.cloud,
                clock=app.ports.clock,
                key_aliases=aws_labels.KEY_ALIASES,
                ledger_lag_s=0,
            )
            place = cluster.place()
            app.cluster_state.nominations.forget("p-1")
            for cluster_state in (app.cluster_state, anew):
                cluster_state.nominations.promise(["p-1"] if place else [], place, ready=False)
            seen = await app.cluster_state.snapshot()
            assert seen == await anew.snapshot()
            assert {(node.name, node.claim) for node in seen.snapshot.nodes} == halves(app)

    time.run(program())
