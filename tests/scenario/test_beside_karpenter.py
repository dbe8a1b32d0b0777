"""Holdfast with --beside-karpenter in a cluster with another autoscaler that acts on Karpenter's node classes.

The other autoscaler is Holdfast without the flag: it uses the names, tags and finalizers of Karpenter, acts on Karpenter's
node classes alone, and finds what the flag leaves undivided on either side. `tests/peers/e2e_beside.py` runs Karpenter.
"""

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import app_environment
import aws_environment
import builders
import cluster_environment
from app_environment import SETTINGS, AppEnvironment
from crashing import CrashingTransport
from holdfast import names
from holdfast.api.ec2nodeclass import EC2NodeClass, HoldfastNodeClass
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.cloud.aws.nodeclass.ownership import BESIDE_KARPENTER
from holdfast.sim.aws.service import Caller
from objects import nodeclaim

BESIDE = dataclasses.replace(SETTINGS, ownership=BESIDE_KARPENTER)
GROUPS = {"theirs": "karpenter.k8s.aws", "ours": "holdfast.dev"}
CLASSES = {EC2NodeClass.plural: "theirs", HoldfastNodeClass.plural: "ours"}
TAINT = {"key": "team", "value": "holdfast", "effect": "NoSchedule"}
TOLERATION = {"key": "team", "operator": "Exists"}
WRITE = re.compile(r"\w+ /\S+/(nodepools|nodeclaims|nodes|ec2nodeclasses|holdfastnodeclasses)/([^/]+)")


class Programs:
    """The cluster with both autoscalers."""

    def __init__(self, env: AppEnvironment) -> None:
        self.env = env
        self.theirs = env.crashing
        self.ours: CrashingTransport = env.start_beside(BESIDE)

    async def install(self, **spec: Any) -> None:
        """A class of the same name and a NodePool for each."""
        terms = {
            "subnetSelectorTerms": aws_environment.TERMS,
            "securityGroupSelectorTerms": aws_environment.TERMS,
        }
        await self.env.node_class(**spec)
        document = builders.ec2nodeclass_document(**terms | spec) | {"apiVersion": "holdfast.dev/v1"}
        await self.env.create("/apis/holdfast.dev/v1/holdfastnodeclasses", document)
        for name, group in GROUPS.items():
            reference = {"group": group, "kind": "EC2NodeClass", "name": "default"}
            await self.env.node_pool(
                name,
                nodeClassRef=reference,
                requirements=[app_environment.instance_types("m5.large")],
                taints=[TAINT] if name == "ours" else [],
            )

    async def deploy(self, name: str, replicas: int) -> None:
        tolerations = [TOLERATION] if name == "ours" else []
        selector = {names.NODEPOOL: name}
        await self.env.deploy(name, replicas, cpu="1500m", nodeSelector=selector, tolerations=tolerations)

    async def settle(self, replicas: int) -> None:
        for name in GROUPS:
            await self.env.until_running(replicas, name)

        async def settled() -> bool:
            found = await self.env.claims()
            is_deleting = any(claim.metadata.deletion_timestamp for claim in found)
            return not is_deleting and len(found) == len(GROUPS) * replicas == len(await self.env.nodes())

        await self.env.until(settled, within_s=3600)

    async def of(self, name: str) -> list[NodeClaim]:
        return [one for one in await self.env.claims() if one.metadata.labels[names.NODEPOOL] == name]

    def written(self, connections: CrashingTransport) -> Iterator[tuple[str, str]]:
        """The writes to objects, each with the NodePool to which its object belongs."""
        pools = {
            (kind.plural, one.metadata.name): one.metadata.labels[names.NODEPOOL]
            for kind in (NodeClaim, Node)
            for one in self.env.ever(kind)
            if names.NODEPOOL in one.metadata.labels
        }
        for write in connections.writes:
            if (found := WRITE.match(write)) is not None:
                plural, name = found.groups()
                yield write, CLASSES.get(plural) or (name if plural == "nodepools" else pools[plural, name])

    def check(self) -> None:
        instances = {one.id: one.tags[names.NODEPOOL] for one in self.env.all_ec2_instances()}
        for name, connections in (("theirs", self.theirs), ("ours", self.ours)):
            written = list(self.written(connections))
            assert [write for write, pool in written if pool != name] == []
            assert len(written) > 10
            for operation, parameters in connections.aws_writes:
                for number in (*parameters.get("InstanceIds", ()), *parameters.get("Resources", ())):
                    assert instances.get(number, name) == name, (operation, number)


async def changed(programs: Programs, name: str) -> None:
    pool = await programs.env.kube.get(NodePool, name)
    change = {"spec": {"template": {"metadata": {"labels": {"wave": "second"}}}}}
    await programs.env.kube.patch(pool, change)


def test_each_program_writes_only_its_own_objects() -> None:
    async def program(env: AppEnvironment) -> None:
        programs = Programs(env)
        slots = env.reserve(total=3)
        await programs.install(capacityReservationSelectorTerms=[{"id": slots.id}])
        for name in GROUPS:
            await programs.deploy(name, 2)
        await programs.settle(2)
        assert env.in_reservation(slots) == 3

        for name in GROUPS:  # drift: taints, replacements, drains
            await changed(programs, name)

        async def replaced() -> bool:
            return all(one.metadata.labels.get("wave") == "second" for one in await env.claims())

        await env.until(replaced, within_s=3600)
        await programs.settle(2)

        for name in GROUPS:  # a NodeClaim, a Node and an instance of each are deleted
            deleted, other = await programs.of(name)
            await env.kube.delete(deleted)
            await env.kube.delete(await env.kube.get(Node, other.status.node_name or ""))
        await env.sleep(60)
        await programs.settle(2)
        ended = [(await programs.of(name))[0].status.provider_id or "" for name in GROUPS]
        ids = [one.rpartition("/")[2] for one in ended]
        env.ec2.call("TerminateInstances", {"InstanceIds": ids}, Caller(aws_environment.ACCOUNT, "", ""))

        async def collected() -> bool:
            return not {one.status.provider_id for one in await env.claims()} & set(ended)

        await env.until(collected, within_s=3600)
        await programs.settle(2)
        await env.sleep(2 * 3600)  # several rounds of every garbage collection
        await programs.settle(2)
        programs.check()

    app_environment.run(program)


def instance_of_karpenter(env: AppEnvironment) -> str:
    """The provider id of a running instance with the tags of Karpenter's, and with ours: a class may set any tag."""
    own = {
        "kubernetes.io/cluster/" + app_environment.NAME: "owned",
        "eks:eks-cluster-name": app_environment.NAME,
    }
    tags = own | {names.NODEPOOL: "theirs", EC2NodeClass.label: "default", HoldfastNodeClass.label: "default"}
    parameters = {
        "ImageId": env.ec2.region.setup.images[0].id,
        "InstanceType": "m5.large",
        "MinCount": 1,
        "MaxCount": 1,
        "TagSpecifications": [
            {"ResourceType": "instance", "Tags": [{"Key": key, "Value": tags[key]} for key in tags]}
        ],
    }
    answer = env.ec2.call("RunInstances", parameters, Caller(aws_environment.ACCOUNT, "", ""))
    (made,) = answer["Instances"]
    return f"aws:///{made['Placement']['AvailabilityZone']}/{made['InstanceId']}"


async def disrupted_node(env: AppEnvironment, name: str, provider_id: str) -> None:
    """A NodeClaim and a Node of Karpenter, with the conditions and the taint of a disrupted, rebooting node, and a pod."""
    labels = {names.NODEPOOL: "theirs", EC2NodeClass.label: "default"}
    meta = {"name": name, "labels": labels, "finalizers": [names.TERMINATION_FINALIZER]}
    claim = await env.kube.create(nodeclaim(name, meta))
    on = [
        {"type": kind, "status": "True", "reason": kind, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind in ("Launched", "Registered", "Initialized", "Rebooting", "DisruptionReason")
    ]
    status = {"providerID": provider_id, "nodeName": name, "conditions": on}
    await env.kube.patch(claim, {"status": status}, status=True, only_if_unchanged=True)
    taint = {"key": names.DISRUPTED_TAINT, "effect": "NoSchedule"}
    spec = {"providerID": provider_id, "taints": [taint]}
    await env.create("/api/v1/nodes", {"metadata": meta, "spec": spec})
    pod = {"metadata": {"name": name}, "spec": cluster_environment.pod_spec(nodeName=name)}
    await env.create("/api/v1/namespaces/default/pods", pod)


def test_objects_of_karpenter_are_never_written() -> None:
    """A NodePool, a class, a disrupted node with an instance and one without, and then a deleted Node."""

    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool("theirs")
        running = instance_of_karpenter(env)
        await disrupted_node(env, "theirs-1", running)
        await disrupted_node(env, "theirs-2", "aws:///us-west-2a/i-0123456789abcdef0")
        await env.sleep(3600)
        await env.kube.delete(await env.kube.get(Node, "theirs-1"))
        await env.sleep(3600)
        assert [write for write in env.crashing.writes if WRITE.match(write)] == []
        assert env.crashing.aws_writes == []
        assert (len(await env.claims()), len(await env.nodes())) == (2, 2)
        assert [one.id for one in env.ec2_instances] == [running.rpartition("/")[2]]

    app_environment.run(program, settings=BESIDE)


def test_nodes_and_tags_have_the_class_label_of_their_program_alone() -> None:
    async def program(env: AppEnvironment) -> None:
        programs = Programs(env)
        await programs.install()
        for name in GROUPS:
            await programs.deploy(name, 1)
        await programs.settle(1)
        for found in (await env.claims(), await env.nodes()):
            for one in found:
                keys = {key for key in one.metadata.labels if key.endswith("/ec2nodeclass")}
                assert keys == {f"{GROUPS[one.metadata.labels[names.NODEPOOL]]}/ec2nodeclass"}
        for instance in env.ec2_instances:
            keys = {key for key in instance.tags if key.endswith("/ec2nodeclass")}
            assert keys == {f"{GROUPS[instance.tags[names.NODEPOOL]]}/ec2nodeclass"}
        templates = [one.tags for one in env.ec2.region.templates]
        ours = [tags for tags in templates if HoldfastNodeClass.label in tags]
        assert len(ours) < len(templates)
        assert ours
        assert not any("eks:eks-cluster-name" in tags for tags in ours)
        paths = {
            parameters["Path"] for operation, parameters in programs.ours.aws_writes if "Path" in parameters
        }
        assert paths
        assert all(path.startswith("/holdfast/") for path in paths)

    app_environment.run(program)


def test_deleted_class_releases_only_its_own_templates_and_profiles() -> None:
    async def program(env: AppEnvironment) -> None:
        programs = Programs(env)
        await programs.install()
        for name in GROUPS:
            await programs.deploy(name, 1)
        await programs.settle(1)
        await env.scale("ours", 0)
        for claim in await programs.of("ours"):
            await env.kube.delete(claim)
        await env.kube.delete(await env.kube.get(NodePool, "ours"))
        await env.kube.delete(await env.kube.get(HoldfastNodeClass, "default"))

        async def released() -> bool:
            return not await env.all(HoldfastNodeClass)

        await env.until(released, within_s=3600)
        kept = [one.tags for one in env.ec2.region.templates]
        assert kept
        assert not any(HoldfastNodeClass.label in tags for tags in kept)
        assert "DeleteInstanceProfile" in {operation for operation, _ in programs.ours.aws_writes}
        await env.scale("theirs", 2)
        await env.until_running(2, "theirs")

    app_environment.run(program)


def test_pods_are_placed_on_free_capacity_of_the_other_program() -> None:
    async def program(env: AppEnvironment) -> None:
        programs = Programs(env)
        await programs.install()
        await programs.deploy("theirs", 1)
        await env.until_running(1, "theirs")
        await env.deploy("small", 1, cpu="100m", tolerations=[TOLERATION])
        await env.until_running(1, "small")
        assert len(await env.claims()) == 1
        assert len(env.ec2_instances) == 1

    app_environment.run(program)


def test_event_of_a_pod_for_the_other_program_names_its_nodepools() -> None:
    async def program(env: AppEnvironment) -> None:
        programs = Programs(env)
        await programs.install()
        await programs.deploy("theirs", 1)
        await env.until_running(1, "theirs")
        events = await env.events("FailedScheduling")
        texts = {(event.type, event.message) for event in events}
        assert all(kind == "Normal" for kind, _ in texts)
        assert any(
            text.endswith("not considered: NodePools of another autoscaler: theirs") for _, text in texts
        )

    app_environment.run(program)


def test_without_the_flag_objects_of_holdfast_dev_are_left_alone() -> None:
    async def program(env: AppEnvironment) -> None:
        reference = {"group": "holdfast.dev", "kind": "EC2NodeClass", "name": "default"}
        await env.create(
            "/apis/holdfast.dev/v1/holdfastnodeclasses",
            builders.ec2nodeclass_document() | {"apiVersion": "holdfast.dev/v1"},
        )
        await env.node_pool("ours", nodeClassRef=reference)
        await env.deploy("web", 1, cpu="1500m")
        await env.sleep(300)
        pool = await env.kube.get(NodePool, "ours")
        assert (pool.status.conditions, pool.metadata.annotations) == ((), {})
        assert (await env.claims(), env.ec2_instances) == ([], [])

    app_environment.run(program)
