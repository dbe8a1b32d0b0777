"""A snapshot from incrementally updated caches equals a snapshot that is computed from scratch."""

import random
from typing import Any

import msgspec
import pytest

import labelled_pods
import objects
from app_environment import AppEnvironment
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
from holdfast.state.conversion import disruption_commands, nodes, times, volumes
from holdfast.state.conversion.nodes import NodeAndClaim

STEPS = 60
NODES = tuple(f"n-{number}" for number in range(4))
UNSCHEDULABLE = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
DISKS = ("disk-0", "disk-1")
NEAR_TEAM = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": names.ZONE, "namespaceSelector": {"matchLabels": {"team": "a"}}}
        ]
    }
}
JOINED_LABELS = {names.REGISTERED: "true", names.INITIALIZED: "true"}


class Cluster:
    """Applies random watch events (created, changed and deleted objects) to the caches."""

    def __init__(self, app: App, dice: random.Random) -> None:
        self._app = app
        self._dice = dice
        self._version = 0

    def step(self) -> None:
        kinds = (
            self._pod,
            self._pod,
            self._pod,
            self._node,
            self._claim,
            self._claim,
            self._namespace_or_daemonset,
        )
        kind = self._dice.choice((*kinds, self._storage, self._storage))
        self._version += 1
        obj = kind()
        change = "DELETED" if self._dice.random() < 0.25 else "MODIFIED"
        self._app.caches.of(type(obj)).apply(Change(change, obj))

    def nomination_target(self) -> str:
        """The node or NodeClaim that a pod is nominated for; empty: none."""
        return self._dice.choice(("", *NODES, *(f"c-{name}" for name in NODES)))

    def _meta(self, **fields: object) -> dict[str, object]:
        return {"resourceVersion": str(self._version), **fields}

    def _pod(self) -> Object:
        dice, number = self._dice, self._dice.randrange(6)
        annotations = {names.DO_NOT_DISRUPT: dice.choice(("true", "1m", "5m"))} if dice.random() < 0.3 else {}
        owner = objects.owned("DaemonSet", "ds") if number == 0 else {}
        labels = labelled_pods.job_set(f"job-{number}", jobs="4") if dice.random() < 0.5 else {}
        soon_s = self._app.ports.clock.now_s() + 5  # younger than ten seconds in the next snapshot
        created = times.text(soon_s if dice.random() < 0.5 else objects.NOW_S)
        meta = self._meta(
            uid=f"p-{number}", annotations=annotations, labels=labels, creationTimestamp=created, **owner
        )
        spec: dict[str, Any] = {"nodeName": dice.choice(NODES)} if dice.random() < 0.6 else {}
        size = [objects.container(cpu=dice.choice(("1", "2", "nonsense")))]
        phase = {"phase": "Succeeded"} if dice.random() < 0.2 else {}
        status = UNSCHEDULABLE | phase | {"startTime": objects.NOW}
        if dice.random() < 0.3:
            spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": dice.choice(DISKS)}}]
        if dice.random() < 0.2:
            spec["affinity"] = NEAR_TEAM
        return objects.pod(f"p-{number}", meta, status, containers=size, **spec)

    def _node(self) -> Object:
        name, labels = self._dice.choice(NODES), {names.NODEPOOL: "default", names.INSTANCE_TYPE: "m5.large"}
        labels |= JOINED_LABELS if self._dice.random() < 0.5 else {}
        return objects.node(name, self._meta(labels=labels), spec={"providerID": self._provider_id(name)})

    def _claim(self) -> Object:
        """Sometimes with the provider id or the node name of another NodeClaim, which the next event corrects."""
        dice, name = self._dice, self._dice.choice(NODES)
        node_name = (
            {"nodeName": name if dice.random() < 0.9 else dice.choice(NODES)} if dice.random() < 0.8 else {}
        )
        status = {"providerID": self._provider_id(name), **node_name} if dice.random() < 0.7 else {}
        annotations = self._command() if dice.random() < 0.5 else {}
        meta = self._meta(labels={names.NODEPOOL: "default"}, annotations=annotations)
        return objects.nodeclaim(f"c-{name}", meta, status)

    def _provider_id(self, name: str) -> str:
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

    def _namespace_or_daemonset(self) -> Object:
        if self._dice.random() < 0.5:
            return objects.read(Namespace, "default", self._meta(labels={"team": self._dice.choice("ab")}))
        template = {"spec": {"containers": [objects.container(cpu=self._dice.choice("123"))]}}
        meta = self._meta(namespace="default")
        return objects.read(DaemonSet, "ds", meta, spec={"template": template})


def nodes_and_claims(app: App) -> set[tuple[str, str | None]]:
    """All nodes with their NodeClaims, computed from the complete caches."""
    pairs = {(h.name, h.claim.metadata.name if h.claim else None) for h in launched(app)}
    claims = app.caches.of(NodeClaim)
    not_launched = [c.metadata.name for c in claims if not c.status.provider_id]
    return pairs | {(name, name) for name in not_launched}


def launched(app: App) -> tuple[NodeAndClaim, ...]:
    """Computed from the complete caches."""
    return nodes.pairs(filter(nodes.is_known, app.caches.of(Node)), tuple(app.caches.of(NodeClaim)))


@pytest.mark.parametrize("seed", range(20))
def test_incremental_snapshot_equals_snapshot_from_scratch(seed: int) -> None:
    async def program() -> None:
        app = AppEnvironment().app
        cluster = Cluster(app, random.Random(seed))
        for _ in range(STEPS):
            cluster.step()
            await app.ports.clock.sleep(10)
            from_scratch = ClusterState(
                caches=app.caches,
                cloud=app.cloud,
                clock=app.ports.clock,
                key_aliases=aws_labels.KEY_ALIASES,
                ledger_lag_s=0,
            )
            nomination_target = cluster.nomination_target()
            app.cluster_state.nominations.remove("p-1")
            for cluster_state in (app.cluster_state, from_scratch):
                cluster_state.nominations.nominate(
                    ["p-1"] if nomination_target else [], nomination_target, ready=False
                )
            incremental = await app.cluster_state.snapshot()
            assert incremental == await from_scratch.snapshot()
            assert {(node.name, node.claim) for node in incremental.snapshot.nodes} == nodes_and_claims(app)
            assert app.cluster_state.node_objects() == {pair.name: pair for pair in launched(app)}

    time.run(program())
