"""The rights in `deploy/` beside what the program asks for in a run: enough of them, and not one more."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import live_world
from holdfast.api import documents
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.sim.api.front import Request
from live_world import LiveWorld

DEPLOY = Path(__file__).parents[2] / "deploy"
VERBS = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}
OPEN = ("/version",)  # to everybody who is somebody


@dataclass(frozen=True, order=True)
class Right:
    group: str
    resource: str
    verb: str
    name: str = ""  # empty: of any name
    namespace: str = ""  # empty: in all of them


WHEN_THINGS_GO_WRONG = {
    Right("", "pods", "get"): "a conflict over a uid: is it still that pod?",
    Right("", "pods", "delete"): "the grace period of a node is over",
    Right("karpenter.sh", "nodeclaims", "get"): "the answer to a creation was lost",
    Right("karpenter.sh", "nodeclaims", "delete"): "a launch failed, a node never came, or a claim expired",
} | {
    Right(group, resource, verb): "only with a scheduler-config: who made a pod, and what selects it"
    for group, resources in {
        "": ("services", "replicationcontrollers"),
        "apps": ("deployments", "replicasets", "statefulsets"),
    }.items()
    for resource in resources
    for verb in ("list", "watch")
}
NO_CALL_OF_A_LIFE = {
    "iam:PassRole": "needed by launches and profiles, and never called",
    "iam:TagInstanceProfile": "needed to make a profile with tags, and never called",
    "ec2:DescribePlacementGroups": "only for a class with a placement group",
    "ec2:RebootInstances": "only for a node that is ill, with the gate NodeRepair",
} | {
    f"sqs:{operation}": "only with an interruption queue"
    for operation in ("DeleteMessage", "GetQueueUrl", "ReceiveMessage")
}


def rights() -> set[Right]:
    """What the manifest allows."""
    found = set()
    for read in documents.read((DEPLOY / "holdfast.yaml").read_bytes()):
        assert isinstance(read, documents.Document)
        namespace = read.value["metadata"].get("namespace", "")
        for rule in read.value.get("rules", ()):
            found |= set(_rights(rule, namespace))
    return found


def _rights(rule: dict[str, Any], namespace: str) -> Iterator[Right]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                for name in rule.get("resourceNames", [""]):
                    yield Right(group, resource, verb, name, namespace)


def asked(request: Request) -> Right:
    """The right that a request needs."""
    parts = request.path.strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource = "/".join([rest[0], *rest[2:]])
    name = rest[1] if len(rest) > 1 else ""
    verb = VERBS.get(request.method) or ("watch" if "watch" in request.query else "get" if name else "list")
    return Right(group, resource, verb, name, namespace)


def allows(right: Right, wanted: Right) -> bool:
    return (
        (right.group, right.resource, right.verb) == (wanted.group, wanted.resource, wanted.verb)
        and right.name in ("", wanted.name)
        and right.namespace in ("", wanted.namespace)
    )


async def live_a_life(world: LiveWorld) -> None:
    """Nodes come and go, pods are evicted, classes end."""
    replica = await world.start()
    await world.node_class(capacityReservationSelectorTerms=[{"tags": {"team": "x"}}])
    await world.node_pool()
    await world.deploy("web", replicas=2, cpu="1500m")

    async def runs() -> bool:
        return await world.running_pods() == 2

    await world.until(runs, "the pods run")
    for claim in (await world.kube.list(NodeClaim)).items:
        await world.kube.delete(claim)

    async def moved() -> bool:
        claims = (await world.kube.list(NodeClaim)).items
        return bool(claims) and all(c.metadata.deletion_timestamp is None for c in claims) and await runs()

    await world.until(moved, "the pods run elsewhere")
    await world.kube.delete(await world.kube.get(NodePool, "default"))
    for claim in (await world.kube.list(NodeClaim)).items:
        await world.kube.delete(claim)
    await world.kube.delete(await world.kube.get(EC2NodeClass, "default"))

    async def ended() -> bool:
        return not (await world.kube.list(EC2NodeClass)).items

    await world.until(ended, "the class is gone")
    assert await replica.stop() == 0


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> LiveWorld:
    """A world after a life in it."""

    async def main() -> LiveWorld:
        async with live_world.serving(tmp_path_factory.mktemp("world")) as world:
            await live_a_life(world)
            return world

    return asyncio.run(main())


def test_the_rights_in_kubernetes_are_those_that_a_life_needs(life: LiveWorld) -> None:
    wanted = {asked(request) for request in life.front.asked if request.path not in OPEN}
    given = rights()
    assert [one for one in sorted(wanted) if not any(allows(right, one) for right in given)] == []
    unused = {right for right in given if not any(allows(right, one) for one in wanted)}
    assert unused == set(WHEN_THINGS_GO_WRONG)


@pytest.mark.fact("aws-10.4.3")
def test_the_rights_in_aws_are_those_that_a_life_needs(life: LiveWorld) -> None:
    policy = json.loads((DEPLOY / "iam-policy.json").read_bytes())
    given = {action for statement in policy["Statement"] for action in listed(statement["Action"])}
    wanted = {f"{call.service}:{call.operation}" for call in life.cloud.endpoint.log}
    assert wanted - given == set()
    assert given - wanted == set(NO_CALL_OF_A_LIFE)


def listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
