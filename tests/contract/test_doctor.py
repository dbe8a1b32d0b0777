"""`holdfast doctor` on a simulated cluster and a simulated AWS over HTTP: each broken set-up has exactly its result.

The names of the cases are the rows of the table in docs/doctor.md, which a test compares.
"""

import asyncio
import copy
import dataclasses
import datetime as dt
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import doctor_environment
import iam_rights
from doctor_environment import ON_DEMAND, SMALL, ZONE_A, DoctorEnvironment, diagnosed, problems
from holdfast.api import aws, crds
from holdfast.app import rights
from holdfast.model.check_results import CheckResult, Level
from holdfast.runtime.clock import RealClock
from holdfast.sim.aws import events, policy
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.cloud_setup import Reserved
from holdfast.sim.ec2 import control
from holdfast.sim.guard import Guard
from process_environment import TARGETED

DOCS = Path(__file__).resolve().parents[2] / "docs/doctor.md"
VERSION = metadata.version("holdfast")
CLOSED = "http://127.0.0.1:9"  # discard: nothing listens there
NONE = {"tags": {"no": "such"}}
SPARE = Reserved(id="cr-0spare", instance_type="c5.large", zone_id=ZONE_A, total=4, criteria="targeted")
ONLY = {"key": "karpenter.sh/capacity-type", "operator": "In"}
APPLY = "kubectl apply --server-side --force-conflicts -f charts/holdfast/crds"
GRANT = "deploy/iam-policy.json"


@dataclass(frozen=True, kw_only=True)
class Case:
    break_it: Callable[[DoctorEnvironment], Awaitable[None]]
    check: str
    object: str
    found: str  # part of it
    fix: str  # part of it
    level: Level = Level.ERROR
    count: int = 1  # results: several objects have the same problem
    cloud: Mapping[str, Any] = field(default_factory=dict)


# --- Set-ups ------------------------------------------------------------------------------------------


def healthy_with(**changes: Any) -> Callable[[DoctorEnvironment], Awaitable[None]]:
    """A healthy set-up with attributes of the environment or of its front changed."""

    async def break_it(env: DoctorEnvironment) -> None:
        await env.healthy()
        for name, value in changes.items():
            setattr(env.server if hasattr(env.server, name) else env, name, value)

    return break_it


def flags(**written: str) -> Callable[[DoctorEnvironment], Awaitable[None]]:
    async def break_it(env: DoctorEnvironment) -> None:
        await env.healthy()
        env.flags |= {name.replace("_", "-"): value for name, value in written.items()}

    return break_it


def variables(**changes: str | None) -> Callable[[DoctorEnvironment], Awaitable[None]]:
    async def break_it(env: DoctorEnvironment) -> None:
        await env.healthy()
        merged = {**env.environ, **changes}
        env.environ = {name: value for name, value in merged.items() if value is not None}

    return break_it


def node_class(**spec: Any) -> Callable[[DoctorEnvironment], Awaitable[None]]:
    async def break_it(env: DoctorEnvironment) -> None:
        await env.dns()
        terms = [{"id": one.id} for one in env.cloud.ec2.region.reservations]
        await env.node_class(**({"capacityReservationSelectorTerms": terms} | spec))
        await env.node_pool(requirements=[ON_DEMAND, SMALL])

    return break_it


def node_pool(
    *requirements: Mapping[str, Any], **template: Any
) -> Callable[[DoctorEnvironment], Awaitable[None]]:
    async def break_it(env: DoctorEnvironment) -> None:
        await env.healthy()
        await env.node_pool("broken", requirements=list(requirements), **template)

    return break_it


def denied(*actions: str) -> Callable[[DoctorEnvironment], Awaitable[None]]:
    """The policy of an administrator without these actions."""
    return guarded(
        {"Effect": "Allow", "Action": "*", "Resource": "*"},
        {"Effect": "Deny", "Action": list(actions), "Resource": "*"},
    )


def guarded(*statements: Mapping[str, Any]) -> Callable[[DoctorEnvironment], Awaitable[None]]:
    async def break_it(env: DoctorEnvironment) -> None:
        await env.healthy()
        guard(env, {"Version": "2012-10-17", "Statement": list(statements)})

    return break_it


def guard(env: DoctorEnvironment, document: Mapping[str, Any]) -> None:
    env.cloud.endpoint.guard = Guard(policy.read(document), ec2=env.cloud.ec2, iam=env.cloud.iam)


def without_right(*left_out: rights.Right) -> Callable[[DoctorEnvironment], Awaitable[None]]:
    return healthy_with(allowed=frozenset(rights.needed()) - set(left_out))


def older_crd(
    kind: int, change: Callable[[dict[str, Any]], None]
) -> Callable[[DoctorEnvironment], Awaitable[None]]:
    """A CRD with a changed schema, or a changed version."""

    async def break_it(env: DoctorEnvironment) -> None:
        crd = copy.deepcopy(crds.all_crds()[kind])
        change(crd["spec"]["versions"][0])
        await env.replace_crd(crd)
        await env.healthy()

    return break_it


def without_spec_field(version: dict[str, Any]) -> None:
    del version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["capacityReservationSpec"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["x-kubernetes-validations"] = [
        rule for rule in spec["x-kubernetes-validations"] if "capacityReservationSpec" not in rule["rule"]
    ]


def without_status_field(version: dict[str, Any]) -> None:
    del version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"][
        "upcomingCapacityReservations"
    ]


async def without_a_crd(env: DoctorEnvironment) -> None:
    await env.dns()
    await env.delete_crd("nodeclaims.karpenter.sh")
    await env.node_class(capacityReservationSelectorTerms=[{"id": env.slots}])
    await env.node_pool(requirements=[ON_DEMAND, SMALL])


async def with_an_old_version(env: DoctorEnvironment) -> None:
    """The group has v1beta1 alone, as in a Karpenter before 1.0."""
    await env.dns()
    for crd in crds.all_crds()[:2]:
        old = copy.deepcopy(crd)
        old["spec"]["versions"][0]["name"] = "v1beta1"
        await env.replace_crd(old)
    await env.node_class(capacityReservationSelectorTerms=[{"id": env.slots}])


def old_versions(stored: str) -> Callable[[DoctorEnvironment], Awaitable[None]]:
    """CRDs that had v1beta1 before, as Karpenter's of 1.0; objects are stored in the given version now."""

    async def break_it(env: DoctorEnvironment) -> None:
        crd = copy.deepcopy(crds.all_crds()[0])
        (version,) = crd["spec"]["versions"]
        crd["spec"]["versions"] = [
            version | {"name": name, "storage": name == stored} for name in ("v1", "v1beta1")
        ]
        crd["status"] = {"storedVersions": ["v1beta1"]}
        await env.replace_crd(crd)
        await env.healthy()

    return break_it


async def deleted_crd(env: DoctorEnvironment) -> None:
    """Its objects have finalizers, so it stays until a controller removes them."""
    await env.healthy()
    body = json.dumps({"metadata": {"finalizers": ["karpenter.k8s.aws/termination"]}}).encode()
    path, merge = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses/default", "application/merge-patch+json"
    await env.sandbox.transport.request("PATCH", path, {}, {"content-type": merge}, body)
    await env.delete_crd("ec2nodeclasses.karpenter.k8s.aws")


async def karpenter_lease(env: DoctorEnvironment, age_s: int = 0) -> None:
    await env.healthy()
    renewed = dt.datetime.fromtimestamp(env.clock.now_s() - age_s, dt.UTC)
    await env.sandbox.create(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "karpenter-leader-election", "namespace": "kube-system"},
            "spec": {
                "holderIdentity": "karpenter-7c4f_1",
                "leaseDurationSeconds": 15,
                "renewTime": renewed.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            },
        }
    )


async def beside_karpenter(env: DoctorEnvironment, *taints: Mapping[str, str]) -> None:
    """Karpenter's NodePool and class, and a NodePool and a class of holdfast.dev with the same class name."""
    await karpenter_lease(env)
    await env.deployment("karpenter")
    await env.node_class(group=aws.HOLDFAST_GROUP, capacityReservationSelectorTerms=[{"id": env.slots}])
    reference = {"group": aws.HOLDFAST_GROUP, "kind": "EC2NodeClass", "name": "default"}
    await env.node_pool("ours", requirements=[ON_DEMAND, SMALL], nodeClassRef=reference, taints=list(taints))
    env.flags["beside-karpenter"] = "true"


async def beside_karpenter_with_taint(env: DoctorEnvironment) -> None:
    await beside_karpenter(env, {"key": "team", "value": "holdfast", "effect": "NoSchedule"})


async def nodepool_for_the_flag(env: DoctorEnvironment) -> None:
    await env.healthy()
    reference = {"group": aws.HOLDFAST_GROUP, "kind": "EC2NodeClass", "name": "default"}
    await env.node_pool("ours", requirements=[ON_DEMAND, SMALL], nodeClassRef=reference)


def deployed(name: str, **fields: Any) -> Callable[[DoctorEnvironment], Awaitable[None]]:
    async def break_it(env: DoctorEnvironment) -> None:
        await env.healthy()
        await env.deployment(name, **fields)

    return break_it


async def refused_credentials(env: DoctorEnvironment) -> None:
    await env.healthy()

    class Refusing:
        def fault(self, service: str, *_: Any) -> ApiError | None:
            words = "AWS was not able to validate the provided access credentials"
            return ApiError("AuthFailure", words, 401) if service == "ec2" else None

        def latency_s(self) -> float:
            return 0.0

    env.cloud.endpoint.faults = Refusing()


def kubeconfig(change: Callable[[dict[str, Any]], None]) -> Callable[[DoctorEnvironment], Awaitable[None]]:
    async def break_it(env: DoctorEnvironment) -> None:
        await env.healthy()
        rewrite(Path(env.environ["KUBECONFIG"]), change)

    return break_it


def rewrite(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(json.dumps(document), encoding="utf-8")


unreachable_server = kubeconfig(
    lambda one: one["clusters"][0]["cluster"].update(server="https://127.0.0.1:9")
)
wrong_token = kubeconfig(lambda one: one["users"][0]["user"].update({"token": "other"}))


async def another_ec2_clock(env: DoctorEnvironment) -> None:
    await env.healthy()

    class Ahead(RealClock):
        def now_s(self) -> int:
            return super().now_s() + 90

    env.cloud.endpoint.clock = Ahead()


def rules(*found: events.Rule) -> Callable[[DoctorEnvironment], Awaitable[None]]:
    async def break_it(env: DoctorEnvironment) -> None:
        await env.healthy()
        env.cloud.endpoint.services = {**env.cloud.endpoint.services, "events": events.Events(found)}

    return break_it


async def full_reservation(env: DoctorEnvironment) -> None:
    await env.healthy()
    control.take(env.cloud.ec2.region, env.slots, 2)
    await env.node_pool("broken", requirements=[ONLY | {"values": ["reserved"]}, SMALL])


async def unusable_reservation(env: DoctorEnvironment) -> None:
    await env.dns()
    await env.node_class(capacityReservationSelectorTerms=[{"id": env.slots}])
    await env.node_pool(requirements=[ONLY | {"values": ["on-demand"]}, SMALL])


async def reserved_pool_without_reservations(env: DoctorEnvironment) -> None:
    await env.healthy()
    await env.node_class("plain")
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "plain"}
    await env.node_pool("broken", nodeClassRef=reference, requirements=[ONLY | {"values": ["reserved"]}])


async def no_node_pool(env: DoctorEnvironment) -> None:
    await env.dns()


async def spot_pool(env: DoctorEnvironment) -> None:
    await env.healthy()
    await env.node_pool("cheap", requirements=[ONLY | {"values": ["spot", "on-demand"]}, SMALL])


async def spot_without_queue(env: DoctorEnvironment) -> None:
    await spot_pool(env)
    env.flags["interruption-queue"] = ""


async def only_spot(env: DoctorEnvironment) -> None:
    await env.healthy()
    await env.node_pool("cheap", requirements=[ONLY | {"values": ["spot"]}, SMALL])


async def policy_without_reservations(env: DoctorEnvironment) -> None:
    await env.healthy()
    document = iam_rights.document()
    for statement in document["Statement"]:
        if statement["Sid"] == "LaunchWithExistingResources":
            statement["Resource"] = [
                one for one in statement["Resource"] if "capacity-reservation" not in one
            ]
    guard(env, document)


PODS_EVICTION = rights.Right("", "pods/eviction", "create")
LEASE = rights.Right("coordination.k8s.io", "leases", "patch", "holdfast-leader-election", "kube-system")
QUEUE_ARN = "arn:aws:sqs:us-west-2:111122223333:holdfast"
EC2_RULE = events.Rule("ec2", QUEUE_ARN, {"source": ["aws.ec2"]})
HEALTH_RULE = events.Rule("health", QUEUE_ARN, {"source": ["aws.health"]}, state="DISABLED")

CASES = {
    "The API server does not answer": Case(
        break_it=unreachable_server,
        check="api-server", object="API server https://127.0.0.1:9", found="cannot be reached", fix="--kubeconfig",
    ),
    "The API server does not accept the credentials": Case(
        break_it=wrong_token,
        check="api-server", object="API server", found="Unauthorized", fix="kubectl auth whoami",
    ),
    "The kubeconfig does not exist": Case(
        break_it=flags(kubeconfig="/does/not/exist"),
        check="api-server", object="kubeconfig", found="/does/not/exist", fix="--kubeconfig",
    ),
    "Kubernetes is older than 1.30": Case(
        break_it=healthy_with(version="1.29"), level=Level.WARNING, cloud={"kubernetes": "1.29"},
        check="api-server", object="API server", found="Kubernetes 1.29; Holdfast supports 1.30 to 1.36", fix="upgrade the cluster",
    ),
    "Kubernetes is newer than 1.36": Case(
        break_it=healthy_with(version="1.37"), level=Level.WARNING, cloud={"kubernetes": "1.37"},
        check="api-server", object="API server", found="Kubernetes 1.37; Holdfast supports 1.30 to 1.36", fix="newer version of Holdfast",
    ),
    "A CRD is missing": Case(
        break_it=without_a_crd,
        check="crds", object="CustomResourceDefinition/nodeclaims.karpenter.sh", found="does not exist", fix=APPLY,
    ),
    "The CRDs have only v1beta1": Case(
        break_it=with_an_old_version, count=2,
        check="crds", object="CustomResourceDefinition/nodepools.karpenter.sh", found="v1 is not served, only v1beta1", fix="upgrade Karpenter to 1.0.6 or newer first",
    ),
    "The CRDs of Karpenter 1.0 had objects of v1beta1": Case(
        break_it=old_versions(stored="v1"),
        check="crds", object="CustomResourceDefinition/nodepools.karpenter.sh", found="status.storedVersions has v1beta1: the API server refuses the CRD of Holdfast",
        fix="kubectl get nodepools.v1.karpenter.sh -o json | kubectl replace -f - && kubectl patch crd nodepools.karpenter.sh --subresource=status",
    ),
    "The CRDs of Karpenter 0.37 store objects of v1beta1": Case(
        break_it=old_versions(stored="v1beta1"),
        check="crds", object="CustomResourceDefinition/nodepools.karpenter.sh", found="status.storedVersions has v1beta1", fix="upgrade Karpenter to 1.0.6 or newer first",
    ),
    "A CRD is being deleted": Case(
        break_it=deleted_crd,
        check="crds", object="CustomResourceDefinition/ec2nodeclasses.karpenter.k8s.aws", found="is being deleted, with all its objects", fix="docs/install.md#if-the-crds-are-deleted-first",
    ),
    "A CRD lacks a field of the spec, as Karpenter's CRDs do": Case(
        break_it=older_crd(2, without_spec_field), level=Level.WARNING,
        check="crds", object="CustomResourceDefinition/ec2nodeclasses.karpenter.k8s.aws", found="it lacks .spec.capacityReservationSpec", fix=APPLY,
    ),
    "A CRD lacks a field that Holdfast writes": Case(
        break_it=older_crd(2, without_status_field),
        check="crds", object="CustomResourceDefinition/ec2nodeclasses.karpenter.k8s.aws", found="drops what Holdfast writes to .status.upcomingCapacityReservations", fix=APPLY,
    ),
    "The ServiceAccount may not evict pods": Case(
        break_it=without_right(PODS_EVICTION),
        check="kubernetes-rights", object="User/system:serviceaccount:kube-system:holdfast", found="may not create pods/eviction", fix="charts/holdfast",
    ),
    "The ServiceAccount may not renew its Lease": Case(
        break_it=without_right(LEASE),
        check="kubernetes-rights", object="User/", found="may not patch leases.coordination.k8s.io holdfast-leader-election in namespace kube-system", fix="charts/holdfast",
    ),
    "Karpenter holds its Lease": Case(
        break_it=karpenter_lease,
        check="karpenter", object="Lease/kube-system/karpenter-leader-election", found="karpenter-7c4f_1 holds it", fix="scale Karpenter to zero",
    ),
    "A Deployment of Karpenter has replicas, and no Lease exists": Case(
        break_it=deployed("karpenter", replicas=2),
        check="karpenter", object="Deployment/kube-system/karpenter", found="has 2 replicas", fix="kubectl scale -n kube-system deployment/karpenter --replicas=0",
    ),
    "Another version of Holdfast is installed": Case(
        break_it=deployed("holdfast", image="registry.example:5000/holdfast:v9.9.9"), level=Level.WARNING,
        check="holdfast", object="Deployment/kube-system/holdfast", found=f"runs v9.9.9, this command is {VERSION}", fix="update the image",
    ),
    "Holdfast is installed and no replica is ready": Case(
        break_it=deployed("holdfast", image=f"holdfast:{VERSION}", replicas=2), level=Level.WARNING,
        check="holdfast", object="Deployment/kube-system/holdfast", found="0 of 2 replicas ready", fix="kubectl logs -n kube-system deployment/holdfast",
    ),
    "The clock of the API server is ahead": Case(
        break_it=healthy_with(ahead_s=600), level=Level.WARNING,
        check="clock", object="API server", found="s ahead of the local clock", fix="synchronize the clocks",
    ),
    "The clock of EC2 is ahead": Case(
        break_it=another_ec2_clock, level=Level.WARNING,
        check="clock", object="EC2", found="s ahead of the local clock", fix="synchronize the clocks",
    ),
    "There are no AWS credentials": Case(
        break_it=variables(AWS_ACCESS_KEY_ID=None, AWS_SECRET_ACCESS_KEY=None),
        check="aws-credentials", object="AWS region us-west-2", found="Unable to locate credentials", fix="EKS Pod Identity or IRSA",
    ),
    "EC2 refuses the AWS credentials": Case(
        break_it=refused_credentials,
        check="aws-credentials", object="AWS region us-west-2", found="AuthFailure", fix="EKS Pod Identity or IRSA",
    ),
    "EC2 cannot be reached": Case(
        break_it=variables(AWS_ENDPOINT_URL=CLOSED),
        check="aws-credentials", object="AWS region us-west-2", found="EC2 cannot be reached", fix="--aws-region",
    ),
    "No region is set": Case(
        break_it=variables(AWS_REGION=None, AWS_DEFAULT_REGION=None),
        check="aws-credentials", object="AWS configuration", found="no region found", fix="AWS_REGION",
    ),
    "An AWS right that launches need is missing": Case(
        break_it=denied("ec2:DescribeSubnets"),
        check="aws-rights", object="ec2:DescribeSubnets", found="is denied", fix=GRANT,
    ),
    "An AWS right that Holdfast can do without is missing": Case(
        break_it=denied("ec2:DescribeInstanceStatus"), level=Level.WARNING,
        check="aws-rights", object="ec2:DescribeInstanceStatus", found="failed instances are detected by their nodes alone", fix=GRANT,
    ),
    "EC2 would refuse a launch": Case(
        break_it=denied("ec2:RunInstances"),
        check="ec2nodeclass", object="EC2NodeClass/default", found="a dry run of RunInstances (on-demand) is refused", fix=GRANT,
    ),
    "EC2 would refuse a launch into a reservation": Case(
        break_it=policy_without_reservations,
        check="ec2nodeclass", object="EC2NodeClass/default", found="a dry run of RunInstances (reserved) is refused", fix=GRANT,
    ),
    "EKS does not know the cluster": Case(
        break_it=flags(cluster_name="typo"),
        check="eks-cluster", object="Cluster/typo", found="EKS has no cluster typo in this account and region", fix="correct CLUSTER_NAME",
    ),
    "The endpoint of the cluster cannot be read": Case(
        break_it=denied("eks:DescribeCluster"),
        check="eks-cluster", object="Cluster/holdfast", found="eks:DescribeCluster", fix="set CLUSTER_ENDPOINT",
    ),
    "An EC2NodeClass selects no subnet": Case(
        break_it=node_class(subnetSelectorTerms=[NONE]),
        check="ec2nodeclass", object="EC2NodeClass/default", found="subnetSelectorTerms select none of the 4 subnets", fix="spec.subnetSelectorTerms",
    ),
    "An EC2NodeClass selects no security group": Case(
        break_it=node_class(securityGroupSelectorTerms=[NONE]),
        check="ec2nodeclass", object="EC2NodeClass/default", found="securityGroupSelectorTerms select none", fix="spec.securityGroupSelectorTerms",
    ),
    "An EC2NodeClass selects no image": Case(
        break_it=node_class(amiSelectorTerms=[{"id": "ami-0123456789abcdef0"}], amiFamily="AL2023"),
        check="ec2nodeclass", object="EC2NodeClass/default", found="amiSelectorTerms select no image", fix="spec.amiSelectorTerms",
    ),
    "The role of an EC2NodeClass does not exist": Case(
        break_it=node_class(role="typo"),
        check="ec2nodeclass", object="EC2NodeClass/default", found="IAM knows no role typo", fix="spec.role",
    ),
    "The instance profile of an EC2NodeClass does not exist": Case(
        break_it=node_class(role=None, instanceProfile="typo"),
        check="ec2nodeclass", object="EC2NodeClass/default", found="IAM knows no instance profile typo", fix="spec.instanceProfile",
    ),
    "The user data of an EC2NodeClass is too long": Case(
        break_it=node_class(userData="#" * 17_000),
        check="ec2nodeclass", object="EC2NodeClass/default", found="make spec.userData shorter", fix="correct the spec",
    ),
    "A term of an EC2NodeClass selects no reservation": Case(
        break_it=node_class(capacityReservationSelectorTerms=[{"tags": {"team": "typo"}}]), level=Level.WARNING, cloud={"reservations": ()},
        check="ec2nodeclass", object="EC2NodeClass/default", found="no reservation has tag team=typo", fix="spec.capacityReservationSelectorTerms",
    ),
    "The EC2NodeClass of a NodePool does not exist": Case(
        break_it=node_pool(ON_DEMAND, nodeClassRef={"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "typo"}),
        check="nodepool", object="NodePool/broken", found="EC2NodeClass/typo does not exist", fix="create EC2NodeClass/typo",
    ),
    "No instance type meets the requirements of a NodePool": Case(
        break_it=node_pool(ON_DEMAND, SMALL | {"values": ["m5.typo"]}),
        check="nodepool", object="NodePool/broken", found="no instance type of EC2NodeClass/default", fix="spec.template.spec.requirements",
    ),
    "The requirements of a NodePool contradict each other": Case(
        break_it=node_pool(SMALL, SMALL | {"values": ["p5.48xlarge"]}),
        check="nodepool", object="NodePool/broken", found="leaves no value", fix="correct .spec.template.spec.requirements[1]",
    ),
    "A NodePool and its EC2NodeClass exclude each other": Case(
        break_it=reserved_pool_without_reservations,
        check="nodepool", object="NodePool/broken", found="can never launch with EC2NodeClass/plain", fix="correct .spec.template.spec.requirements[0]",
    ),
    "The reservations of a NodePool without other capacity are full": Case(
        break_it=full_reservation, level=Level.WARNING,
        check="nodepool", object="NodePool/broken", found="no slot of its reservations is free", fix="allow on-demand",
    ),
    "There is no NodePool": Case(
        break_it=no_node_pool, level=Level.WARNING, cloud={"reservations": ()},
        check="nodepool", object="NodePool", found="there is none", fix="create a NodePool",
    ),
    "Beside Karpenter, a NodePool of Holdfast has no taint": Case(
        break_it=beside_karpenter, level=Level.WARNING,
        check="nodepool", object="NodePool/ours", found="has no taint: Holdfast and Karpenter both launch a node", fix="add a taint with effect NoSchedule",
    ),
    "A NodePool refers to a class of holdfast.dev without --beside-karpenter": Case(
        break_it=nodepool_for_the_flag, level=Level.WARNING,
        check="nodepool", object="NodePool/ours", found="acts on this NodePool only with --beside-karpenter", fix="set --beside-karpenter",
    ),
    "No EC2NodeClass selects a reservation of the account": Case(
        break_it=flags(), level=Level.WARNING, cloud={"reservations": (TARGETED, SPARE)},
        check="reservations", object="CapacityReservation/cr-0spare", found="c5.large in us-west-2a, 4 of 4 slots free", fix="add {id: cr-0spare} to spec.capacityReservationSelectorTerms",
    ),
    "No NodePool can use a selected reservation": Case(
        break_it=unusable_reservation, level=Level.WARNING,
        check="reservations", object="CapacityReservation/cr-", found="no NodePool can use it: m5.large in us-west-2a, 2 of 2 slots free", fix="allow karpenter.sh/capacity-type reserved, m5.large and us-west-2a",
    ),
    "The interruption queue does not exist": Case(
        break_it=flags(interruption_queue="typo"),
        check="interruption-queue", object="Queue", found="does not exist", fix="--interruption-queue",
    ),
    "The interruption queue cannot be read": Case(
        break_it=denied("sqs:ReceiveMessage"),
        check="interruption-queue", object="Queue/holdfast", found="messages cannot be received", fix="sqs:ReceiveMessage",
    ),
    "No rule sends events to the interruption queue": Case(
        break_it=rules(), level=Level.WARNING,
        check="interruption-queue", object="Queue/holdfast", found="'EC2 Spot Instance Interruption Warning' of aws.ec2", fix=QUEUE_ARN,
    ),
    "A rule of the interruption queue is disabled": Case(
        break_it=rules(EC2_RULE, HEALTH_RULE), level=Level.WARNING,
        check="interruption-queue", object="Queue/holdfast", found="no enabled rule sends 'AWS Health Event' of aws.health", fix=QUEUE_ARN,
    ),
    "A NodePool uses spot, and no interruption queue is set": Case(
        break_it=spot_without_queue, level=Level.WARNING,
        check="interruption-queue", object="Queue", found="--interruption-queue is not set", fix="set --interruption-queue",
    ),
    "A NodePool uses spot, and the role for spot is missing": Case(
        break_it=spot_pool, level=Level.WARNING, cloud={"spot_role": False},
        check="spot-role", object="Role/AWSServiceRoleForEC2Spot", found="NodePools use spot: cheap", fix="aws iam create-service-linked-role",
    ),
    "A NodePool uses spot alone, and the role for spot is missing": Case(
        break_it=only_spot, cloud={"spot_role": False},
        check="spot-role", object="Role/AWSServiceRoleForEC2Spot", found="NodePools use spot: cheap", fix="aws iam create-service-linked-role",
    ),
}  # fmt: skip


# --- Tests --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_broken_set_up_has_exactly_its_result(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    found = problems(diagnosed(tmp_path, monkeypatch, case.break_it, **case.cloud))
    assert [(one.check, one.level) for one in found] == [(case.check, case.level)] * case.count, found
    assert case.object in found[0].object
    assert case.found in found[0].found
    assert case.fix in found[0].fix


def test_docs_list_the_broken_set_ups() -> None:
    table = DOCS.read_text(encoding="utf-8").partition("| set-up | check | level |")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    assert [(name, case.check, case.level.value) for name, case in CASES.items()] == [
        (row[0], row[1].strip("`"), row[2]) for row in rows
    ]


async def as_published(env: DoctorEnvironment) -> None:
    """As a Job with the ServiceAccount and the role of Holdfast."""
    await env.healthy()
    env.server.allowed = frozenset(rights.needed())
    guard(env, iam_rights.document())


async def expired_karpenter_lease(env: DoctorEnvironment) -> None:
    await karpenter_lease(env, age_s=600)


@pytest.mark.parametrize(
    ("break_it", "infos"),
    [
        (flags(), set()),
        (expired_karpenter_lease, set()),
        (deployed("karpenter", replicas=0), set()),
        (deployed("holdfast", image="holdfast@sha256:0123", replicas=0), set()),
        (beside_karpenter_with_taint, {"karpenter", "nodepool", "reservations"}),
        (denied("events:ListRuleNamesByTarget"), {"interruption-queue"}),
        (flags(interruption_queue=""), {"interruption-queue"}),
        # Without rights to read CRDs, roles, rules and Deployments, which Holdfast does not need.
        (as_published, {"crds", "interruption-queue", "ec2nodeclass"}),
    ],
)
def test_healthy_set_up_has_no_finding(
    break_it: Callable[[DoctorEnvironment], Awaitable[None]],
    infos: set[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    results = diagnosed(tmp_path, monkeypatch, break_it)
    assert problems(results) == []
    assert {one.check for one in results if one.level is Level.INFO} == infos
    assert {one.check for one in results} >= {
        "api-server", "crds", "kubernetes-rights", "karpenter", "holdfast", "clock", "dns", "aws-credentials",
        "aws-rights", "eks-cluster", "interruption-queue", "ec2nodeclass", "nodepool", "reservations",
    }  # fmt: skip


def test_rights_are_those_of_the_service_account_of_the_deployment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An administrator runs the command: the rights of the administrator say nothing about Holdfast."""

    async def break_it(env: DoctorEnvironment) -> None:
        await env.healthy()
        await env.deployment("holdfast", image=f"holdfast:{VERSION}", replicas=0, account="autoscaler")

    (found,) = [one for one in diagnosed(tmp_path, monkeypatch, break_it) if one.check == "kubernetes-rights"]
    assert (found.level, found.object) == (Level.OK, "User/system:serviceaccount:kube-system:autoscaler")


def test_one_failed_read_stops_no_other_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the API server nor most of AWS can be read; what can be is checked."""

    async def break_it(env: DoctorEnvironment) -> None:
        await unreachable_server(env)
        guard(env, {"Version": "2012-10-17", "Statement": {"Effect": "Deny", "Action": "*", "Resource": "*"}})

    results = diagnosed(tmp_path, monkeypatch, break_it)
    assert {one.check for one in problems(results)} == {
        "api-server",
        "aws-rights",
        "eks-cluster",
        "interruption-queue",
    }
    assert [one.object for one in results if one.check == "not-checked"] == ["cluster"]


def test_doctor_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with doctor_environment.serving(tmp_path) as env:
            await env.healthy()
            await env.diagnose(monkeypatch)
            written = [
                one for one in env.front.asked if one.method != "GET" and one.query.get("dryRun") != "All"
            ]
            assert {one.path.rpartition("/")[2] for one in written} == {
                "selfsubjectaccessreviews",
                "selfsubjectreviews",
            }
            region = env.cloud.ec2.region
            assert [*region.instances, *region.templates, *region.fleets] == []
            reads = ("Describe", "Get", "List", "Receive")
            changes = [one for one in env.cloud.endpoint.log if not one.operation.startswith(reads)]
            assert {one.operation for one in changes} == {"CreateLaunchTemplate", "RunInstances"}
            assert all(one.params["DryRun"] for one in changes)
            assert not env.cloud.iam.call("ListInstanceProfiles", {}, env.cloud.endpoint.caller("", ""))[
                "InstanceProfiles"
            ]

    asyncio.run(main())


def test_interruption_message_stays_visible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with doctor_environment.serving(tmp_path) as env:
            await env.healthy()
            caller = env.cloud.endpoint.caller("", "")
            url = env.cloud.sqs.call("GetQueueUrl", {"QueueName": env.cloud.queue}, caller)["QueueUrl"]
            env.cloud.sqs.call("SendMessage", {"QueueUrl": url, "MessageBody": "{}"}, caller)
            await env.diagnose(monkeypatch)
            received = env.cloud.sqs.call("ReceiveMessage", {"QueueUrl": url}, caller)
            assert [one["Body"] for one in received["Messages"]] == ["{}"]

    asyncio.run(main())


def doctor(environ: Mapping[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "holdfast", "doctor", *arguments]
    return subprocess.run(command, env=dict(environ), capture_output=True, text=True, check=False)  # noqa: S603 - ourselves


def test_command_prints_lines_or_json_and_exits_with_the_level(tmp_path: Path) -> None:
    async def main() -> None:
        async with doctor_environment.serving(tmp_path) as env:
            await env.healthy()
            environ = {**env.environ, "INTERRUPTION_QUEUE": env.cloud.queue}
            healthy = await asyncio.to_thread(doctor, environ)
            assert (healthy.returncode, healthy.stderr) == (0, "17 ok, 0 info, 0 warning, 0 error\n")
            lines = healthy.stdout.splitlines()
            assert lines[0] == f"ok      API server {env.sandbox.address.url}: Kubernetes 1.36"
            assert len(lines) == 17
            assert "\x1b" not in healthy.stdout

            await env.node_class("broken", role="typo")
            broken = await asyncio.to_thread(doctor, environ, "-o", "json")
            assert broken.returncode == 1
            document = json.loads(broken.stdout)
            assert document["summary"] == {"ok": 17, "info": 0, "warning": 0, "error": 1}
            (error,) = [one for one in document["results"] if one["level"] == "error"]
            assert error == {
                "check": "ec2nodeclass",
                "level": "error",
                "object": "EC2NodeClass/broken",
                "found": "IAM knows no role typo",
                "fix": "correct spec.role or spec.instanceProfile, or create the role",
            }
            warned = await asyncio.to_thread(doctor, {**environ, "KUBECONFIG": ""}, "--interruption-queue=")
            assert warned.returncode == 1

    asyncio.run(main())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--cluster-name: required; or set CLUSTER_NAME"),
        (("--cluster-name=a", "--kube-client-qps=0"), "--kube-client-qps: '0' is not a whole number"),
        (("--cluster-name=a", "--service-account=holdfast"), "'holdfast' is not NAMESPACE/NAME"),
        (("--cluster-name=a", "-o", "yaml"), "'yaml' is not one of"),
    ],
)
def test_wrong_setting_is_reported_and_nothing_is_read(arguments: tuple[str, ...], message: str) -> None:
    done = doctor({"PATH": os.environ["PATH"]}, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_result_without_a_fix_is_refused() -> None:
    with pytest.raises(AssertionError, match="needs a fix"):
        CheckResult("x", Level.ERROR, "object", "found")
    assert dataclasses.replace(CheckResult("x", Level.OK, "object", "found"), fix="do it").fix == "do it"
