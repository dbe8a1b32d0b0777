"""Karpenter 1.14 and `holdfast run --beside-karpenter` in one cluster, with Karpenter's own CRDs and the rights of the
chart: each program writes only its own objects.

Run by `make e2e`. The tests run in their order against one cluster: both programs launch nodes into the same reservation,
replace drifted nodes, end deleted NodeClaims and are restarted; a spot instance of Holdfast is interrupted, and Karpenter
gets the message. The last tests read the audit log of the real kube-apiserver and the calls of the simulated AWS.
"""

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

import charts
from holdfast.api import crds
from holdfast.app import sandbox
from holdfast.runtime.clock import RealClock
from holdfast.sim import control_plane
from holdfast.sim.ec2 import control
from peers import arena as arenas
from peers import crd_files
from peers.arena import Arena, Json, deployment, is_true, node_class, pool

NAMESPACE: Final = "kube-system"
KARPENTER, HOLDFAST = (f"system:serviceaccount:{NAMESPACE}:{name}" for name in ("karpenter", "holdfast"))
SHARED_SLOTS: Final = "cr-0123456789abcdef0"
TAINT: Final = {"key": "team", "value": "holdfast", "effect": "NoSchedule"}
SOON: Final = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "10s"}
GROUPS: Final = {"theirs": "karpenter.k8s.aws", "ours": "holdfast.dev", "ours-spot": "holdfast.dev"}
WRITES: Final = ("create", "update", "patch", "delete", "deletecollection")
WATCHED_S: Final = 60  # Karpenter's garbage collection of instances runs every 10 s after its start
ENV: Final = {
    "reservations": [
        {
            "id": SHARED_SLOTS,
            "total": 3,
            "tags": {"team": "e2e"},
            "instanceType": "m5.xlarge",
            "zone": "us-west-2a",
            "instanceMatchCriteria": "targeted",
        }
    ],
    "timings": {
        "boot": "1s", "shutdown": "1s", "slotRelease": "1s", "interruption": "45s",
        "join": "1s", "ready": "1s", "devices": "0s",
    },
}  # fmt: skip
AUDIT: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {"level": "None", "verbs": ["get", "list", "watch"]},
        {
            "level": "RequestResponse",
            "resources": [
                *({"group": group} for group in ("karpenter.sh", "karpenter.k8s.aws", "holdfast.dev")),
                {"group": "", "resources": ["nodes", "pods/eviction", "pods"]},
            ],
        },
        {"level": "None"},
    ],
}


class Write(NamedTuple):
    """A request in the audit log that the API server accepted or refused."""

    user: str
    verb: str
    resource: str
    name: str
    code: int
    answer: Json


# --- Objects ----------------------------------------------------------------------------------------


def our_class() -> Json:
    """It has the name of Karpenter's class, and the same spec."""
    return node_class() | {"apiVersion": "holdfast.dev/v1"}


def node_pool(name: str, capacity: list[str], types: list[str]) -> Json:
    made = pool(name, capacity=capacity, types=types, disruption=SOON)
    spec = made["spec"]["template"]["spec"]
    spec["nodeClassRef"]["group"] = GROUPS[name]
    if name != "theirs":
        spec["taints"] = [TAINT]
    return made


def work(name: str, replicas: int, cpu: str, **more: Any) -> Json:
    made = deployment(name, replicas, {"cpu": cpu}, **more)
    if name != "theirs":
        tolerated = {"key": TAINT["key"], "operator": "Exists"}
        made["spec"]["template"]["spec"]["tolerations"] = [tolerated]
    return made


POOLS: Final = (
    node_pool("theirs", ["reserved", "on-demand"], ["m5.xlarge"]),
    node_pool("ours", ["reserved", "on-demand"], ["m5.xlarge"]),
    node_pool("ours-spot", ["spot"], ["m5.large", "c5.large"]),
)
WORK: Final = (
    work("theirs", 2, "2", apart=True),
    work("ours", 2, "2", apart=True),
    work("ours-spot", 1, "1"),
)


def installed_by_chart() -> list[Json]:
    """Rights, service account and policy of the chart; the program itself runs as a process."""
    objects = charts.render("defaults", "--set", "settings.besideKarpenter=true", namespace=NAMESPACE)
    kept = ("ClusterRole", "Role", "ServiceAccount", "ValidatingAdmissionPolicy")
    return [one for one in objects if one["kind"].startswith(kept)]


def karpenter_account() -> list[Json]:
    subject = {"kind": "ServiceAccount", "name": "karpenter", "namespace": NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "karpenter", "namespace": NAMESPACE},
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "karpenter"},
            "roleRef": role,
            "subjects": [subject],
        },
    ]


# --- The cluster ------------------------------------------------------------------------------------


class Cluster:
    def __init__(self, arena: Arena, folder: Path) -> None:
        self.arena = arena
        self.folder = folder

    def start_programs(self) -> None:
        """Each with the token of its own service account. Only Karpenter has the queue."""
        common = {key: value for key, value in os.environ.items() if key in ("PATH", "HOME")}
        common |= self.arena.sandbox.environment() | {"HOME": str(self.folder)}
        ports = iter(control_plane.free_ports(4))
        settings = {
            "karpenter-aws": (KARPENTER, (), {"LOG_LEVEL": "debug"}),
            "holdfast": (
                HOLDFAST,
                ("run", "--beside-karpenter"),
                {"INTERRUPTION_QUEUE": "", "LOG_FORMAT": "json", "BIND_ADDRESS": "127.0.0.1"},
            ),
        }
        for name, (user, flags, more) in settings.items():
            account = user.rpartition(":")[2]
            kubeconfig = self.folder / f"{account}.kubeconfig"
            kubeconfig.touch(mode=0o600)
            token = self.arena.token_of(account, NAMESPACE)
            kubeconfig.write_text(self.arena.sandbox.address.kubeconfig(token), encoding="utf-8")
            metrics, health = next(ports), next(ports)
            where = {"METRICS_PORT": str(metrics), "HEALTH_PROBE_PORT": str(health), "API_PORT": "0"}
            environ = common | more | where | {"KUBECONFIG": str(kubeconfig)}
            self.arena.start(name, *flags, environ=environ, port=health)

    def writes(self) -> list[Write]:
        text = (self.folder / "audit.log").read_text(encoding="utf-8")
        return [_write(json.loads(line)) for line in text.splitlines() if line]

    def until_settled(self) -> None:
        for one in WORK:
            self.arena.until_running(one["metadata"]["name"], one["spec"]["replicas"])
        for one in WORK:
            self.arena.until_settled(one["metadata"]["name"], one["spec"]["replicas"])


def _write(line: Json) -> Write:
    about = line["objectRef"]
    resource = "/".join(part for part in (about["resource"], about.get("subresource", "")) if part)
    answer = line.get("responseObject") or {}
    name = about.get("name") or answer.get("metadata", {}).get("name", "")
    user, code = line["user"]["username"], line["responseStatus"]["code"]
    return Write(user, line["verb"], resource, name, code, answer)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("beside")
    (folder / "audit.json").write_text(json.dumps(AUDIT), encoding="utf-8")
    flags = (
        f"--audit-policy-file={folder / 'audit.json'}",
        f"--audit-log-path={folder / 'audit.log'}",
    )
    with arenas.opened(folder, ENV, "real", karpenter=False, crds=False, server_flags=flags) as arena:
        definitions = (*crd_files.of_provider(), crds.holdfastnodeclass())
        arena.do(sandbox.install(definitions, arena.sandbox.transport, RealClock()))
        arena.create(*installed_by_chart(), *karpenter_account())
        made = Cluster(arena, folder)
        made.start_programs()
        arena.create(node_class(), our_class(), *POOLS)
        arena.until(
            lambda: all(is_true(one, "Ready") for one in arena.all("NodePool")), "the NodePools are ready"
        )
        yield made


# --- What both programs do --------------------------------------------------------------------------


def test_both_launch_nodes_and_share_a_reservation(cluster: Cluster) -> None:
    arena = cluster.arena
    arena.create(*WORK)
    cluster.until_settled()
    region = arena.sandbox.cloud.ec2.region
    reserved = arena.now(
        lambda: [
            one
            for one in region.instances
            if one.reservation_id == SHARED_SLOTS and one.is_pending_or_running
        ]
    )
    assert len(reserved) == 3
    assert arena.free_slots(SHARED_SLOTS) == 0
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in arena.all("Node")}
    for name, own in labels.items():
        keys = {key for key in own if key.endswith("/ec2nodeclass")}
        assert keys == {f"{GROUPS[own['karpenter.sh/nodepool']]}/ec2nodeclass"}, name


def test_kubectl_lists_the_classes_of_karpenter_under_their_own_name(cluster: Cluster) -> None:
    kubectl = charts.Client(cluster.arena.sandbox.kubeconfig)
    for name, group in (
        ("ec2nodeclass", "karpenter.k8s.aws"),
        ("ec2nc", "karpenter.k8s.aws"),
        ("EC2NodeClass", "karpenter.k8s.aws"),
        ("holdfastnodeclasses", "holdfast.dev"),
        ("hfnc", "holdfast.dev"),
    ):
        (found,) = json.loads(asyncio.run(kubectl.kubectl("get", name, "-o", "json")))["items"]
        assert found["apiVersion"] == f"{group}/v1", name


def test_drift_is_replaced_by_the_program_of_the_nodepool(cluster: Cluster) -> None:
    arena = cluster.arena
    before = {one["metadata"]["name"] for one in arena.all("NodeClaim")}
    change = {"spec": {"template": {"metadata": {"labels": {"wave": "second"}}}}}
    for name in ("theirs", "ours"):
        arena.patch("NodePool", name, change)

    def replaced() -> bool:
        left = {one["metadata"]["name"] for name in ("theirs", "ours") for one in arena.claims(name)}
        return not left & before

    arena.until(replaced, "no NodeClaim of before the change is left")
    cluster.until_settled()


def test_deleted_nodeclaims_end_and_their_pods_get_other_nodes(cluster: Cluster) -> None:
    arena = cluster.arena
    deleted = [arena.claims(name)[0]["metadata"]["name"] for name in ("theirs", "ours")]
    for name in deleted:
        arena.delete("NodeClaim", name)
    arena.until(
        lambda: not {one["metadata"]["name"] for one in arena.all("NodeClaim")} & set(deleted),
        "both NodeClaims are gone",
    )
    cluster.until_settled()


def test_after_a_restart_of_both_nothing_is_garbage_collected(cluster: Cluster) -> None:
    """Karpenter reads its launch templates and collects its instance profiles at its start, its instances every 10 s."""
    arena = cluster.arena
    arena.stop_programs()
    before = {one["metadata"]["name"] for one in arena.all("NodeClaim")}
    instances = {one.id for name in GROUPS for one in arena.instances(name)}
    cluster.start_programs()
    until_s = time.monotonic() + WATCHED_S
    arena.until(lambda: time.monotonic() > until_s, "both programs ran for a while")
    cluster.until_settled()
    assert {one["metadata"]["name"] for one in arena.all("NodeClaim")} == before
    assert {one.id for name in GROUPS for one in arena.instances(name)} == instances


def test_interruption_of_an_instance_of_holdfast_is_not_handled_by_karpenter(cluster: Cluster) -> None:
    """Karpenter finds NodeClaims by instance id, whatever their class; the policy of the chart denies the deletion."""
    arena = cluster.arena
    (claim,) = arena.claims("ours-spot")
    name, instance = claim["metadata"]["name"], arena.instance(claim).id
    arena.now(lambda: control.interrupt_spot(arena.sandbox.cloud.ec2.region, instance))

    def denied() -> bool:
        found = [one for one in cluster.writes() if (one.user, one.name) == (KARPENTER, name)]
        return bool(found) and all(one.code in (403, 422) for one in found)

    arena.until(denied, "the API server denies Karpenter a write to the NodeClaim")
    arena.until(lambda: arena.get("NodeClaim", name) is None, "Holdfast ended the NodeClaim")
    cluster.until_settled()


def test_pod_that_fits_both_gets_a_node_of_each_and_the_empty_one_is_deleted(cluster: Cluster) -> None:
    arena = cluster.arena
    arena.create(work("ours-or-theirs", 1, "3", anywhere=True))
    (pod,) = arena.until_running("ours-or-theirs", 1)

    def one_more() -> bool:
        counts = {name: len(arena.claims(name)) for name in ("theirs", "ours")}
        return sorted(counts.values()) == [2, 3] and sum(map(len, map(arena.nodes, counts))) == 5

    arena.until(one_more, "one node of the two is left")
    assert pod["spec"]["nodeName"] in {node["metadata"]["name"] for node in arena.all("Node")}
    arena.delete("Deployment", "ours-or-theirs")
    cluster.until_settled()


# --- Who did it -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def owners(cluster: Cluster) -> Callable[[Write], str]:
    """The program to which the object of a write belongs, by its NodePool or group."""
    pools: dict[tuple[str, str], str] = {}
    for one in cluster.writes():
        labels = one.answer.get("metadata", {}).get("labels") or {}
        if "karpenter.sh/nodepool" in labels:
            pools[one.resource.partition("/")[0], one.name] = labels["karpenter.sh/nodepool"]

    def owner(one: Write) -> str:
        resource = one.resource.partition("/")[0]
        if resource in ("ec2nodeclasses", "holdfastnodeclasses"):
            return KARPENTER if resource == "ec2nodeclasses" else HOLDFAST
        found = one.name if resource == "nodepools" else pools[resource, one.name]
        return KARPENTER if found == "theirs" else HOLDFAST

    return owner


def test_no_program_writes_an_object_of_the_other(
    cluster: Cluster, owners: Callable[[Write], str], record_property: Callable[[str, object], None]
) -> None:
    kinds = ("nodepools", "nodeclaims", "nodes", "ec2nodeclasses", "holdfastnodeclasses")
    written = [
        one
        for one in cluster.writes()
        if one.user in (KARPENTER, HOLDFAST)
        and one.verb in WRITES
        and one.resource.partition("/")[0] in kinds
    ]
    counts = {user: sum(one.user == user for one in written) for user in (KARPENTER, HOLDFAST)}
    record_property("writes", counts)
    assert min(counts.values()) > 20, counts
    wrong = [one for one in written if one.name and owners(one) != one.user]
    assert [one[:5] for one in wrong if one.code < 300] == []
    assert {(one.user, one.resource) for one in wrong} == {(KARPENTER, "nodeclaims")}  # the interruption


def test_each_program_evicts_pods_of_its_own_nodes(cluster: Cluster) -> None:
    evicted = [
        one
        for one in cluster.writes()
        if one.resource == "pods/eviction" and one.user in (KARPENTER, HOLDFAST)
    ]
    apps = {
        user: {one.name.split("-")[0] for one in evicted if one.user == user}
        for user in (KARPENTER, HOLDFAST)
    }
    assert apps == {KARPENTER: {"theirs"}, HOLDFAST: {"ours"}}


def test_each_program_terminates_only_its_own_instances_and_launches_none_twice(cluster: Cluster) -> None:
    arena = cluster.arena
    region = arena.sandbox.cloud.ec2.region
    pools = arena.now(lambda: {one.id: one.tags["karpenter.sh/nodepool"] for one in region.instances})
    terminated = {
        (_program(call.caller.user_agent), pools[number] == "theirs")
        for call in arena.calls("TerminateInstances")
        for number in call.params["InstanceIds"]
    }
    assert terminated == {("karpenter", True), ("holdfast", False)}
    created = [
        one for one in cluster.writes() if (one.verb, one.resource, one.code) == ("create", "nodeclaims", 201)
    ]
    for name in GROUPS:
        claims = [one for one in created if one.answer["metadata"]["labels"]["karpenter.sh/nodepool"] == name]
        launched = [number for number, found in pools.items() if found == name]
        assert len(launched) <= len(claims), name  # a launch that EC2 refused has a NodeClaim and no instance
        running = {one.id for one in arena.instances(name)}
        owned = {one["status"]["providerID"].rpartition("/")[2] for one in arena.claims(name)}
        assert running == owned, name


def test_objects_in_aws_have_names_that_karpenter_does_not_collect(cluster: Cluster) -> None:
    arena = cluster.arena
    templates = arena.aws("DescribeLaunchTemplates")["LaunchTemplates"]
    tags = [{tag["Key"]: tag["Value"] for tag in one["Tags"]} for one in templates]
    ours = [one for one in tags if "holdfast.dev/ec2nodeclass" in one]
    assert ours
    assert all(
        "eks:eks-cluster-name" not in one and "karpenter.k8s.aws/ec2nodeclass" not in one for one in ours
    )
    collected = [
        call
        for call in arena.calls("ListInstanceProfiles")
        if _program(call.caller.user_agent) == "karpenter"
    ]
    paths = {call.params.get("PathPrefix", "") for call in collected}
    assert paths
    created = [
        call
        for call in arena.calls("CreateInstanceProfile")
        if _program(call.caller.user_agent) == "holdfast"
    ]
    assert created
    assert not [one for one in created if one.params["Path"].startswith(tuple(paths))]
    deleted = {_program(call.caller.user_agent) for call in arena.calls("DeleteInstanceProfile")}
    assert "karpenter" not in deleted


def _program(user_agent: str) -> str:
    return "karpenter" if "aws-sdk-go" in user_agent else "holdfast"
